"""Random kernels under static control: affine, floor-divided and reduced indices, triangular loops,
predicates, conditional reads, integer variables, unrolled loops, several axes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import loopy as lp
import numpy as np

from tracegen.workloads.workload import Workload

BOUNDS = ("", "", " and K <= i", " and j <= K", " and K + i < 12", " and 2*K >= i + j")
DTYPES = (np.int8, np.int16, np.int32, np.float32, np.float64)


@dataclass
class _Index:
    """An integer expression and its range."""

    text: str
    low: int
    high: int


@dataclass
class _Kernel:
    rng: random.Random
    ranges: dict[str, int] = field(default_factory=dict)
    extents: dict[str, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    variables: list[_Index] = field(default_factory=list)

    def index(self, inames: list[str], depth: int = 0) -> _Index:
        """A quasi-affine expression of some inames, or a variable."""
        kind = self.rng.random()
        if self.variables and depth == 0 and kind < 0.2:
            return self.rng.choice(self.variables)
        terms = [
            (self.rng.choice((1, 1, 1, 2, 3, 32, -1)), name, self.ranges[name])
            for name in inames
            if self.rng.random() < 0.8
        ]
        const = self.rng.randrange(8)
        low = const + sum(min(c * (n - 1), 0) for c, _, n in terms)
        high = const + sum(max(c * (n - 1), 0) for c, _, n in terms)
        text = " + ".join([*(f"{c}*{name}" for c, name, _ in terms), str(const)])
        if depth == 0 and kind > 0.6:
            by = self.rng.choice((2, 3, 5, 16))
            if kind > 0.8:
                return _Index(f"({text}) // {by}", low // by, high // by)
            return _Index(f"({text}) % {by}", 0, by - 1)
        return _Index(text, low, high)

    def read(self, inames: list[str]) -> str:
        return self.element(self.rng.choice("abc"), self.index(inames))

    def element(self, array: str, index: _Index) -> str:
        shift = -min(index.low, 0)
        self.extents[array] = max(self.extents.get(array, 1), index.high + shift + 1)
        return f"{array}[{index.text} + {shift}]" if shift else f"{array}[{index.text}]"

    def condition(self, inames: list[str]) -> str:
        index = self.index(inames, depth=1)
        sign = self.rng.choice(("<", ">=", "==", "!=", ">", "<="))
        if self.rng.random() < 0.4:
            text = f"({index.text}) % {self.rng.choice((2, 3, 7))} {sign} 1"
        else:
            text = f"{index.text} {sign} {self.rng.randint(index.low, index.high)}"
        if self.rng.random() < 0.3:
            text = f"{text} {self.rng.choice(('and', 'or'))} {inames[0]} < {self.rng.randrange(40)}"
        return f"not ({text})" if self.rng.random() < 0.2 else text

    def expression(self, inames: list[str], depth: int = 0) -> str:
        kind = self.rng.random()
        if depth > 2 or kind < 0.4:
            return self.read(inames)
        left, right = (self.expression(inames, depth + 1) for _ in range(2))
        if kind < 0.75:
            return f"{left} + {right}"
        return f"({left} if {self.condition(inames)} else {right})"

    def add(self, text: str, option: str = "") -> None:
        number = len(self.lines)
        options = [f"id=s{number}"] + ([f"dep=s{number - 1}"] if number else [])
        self.lines.append(f"{text} {{{', '.join([*options, *([option] if option else [])])}}}")


def workload(seed: int) -> Workload:
    """A kernel, the same one for the same seed."""
    rng = random.Random(seed)
    kernel = _Kernel(rng)
    sizes = kernel.ranges
    sizes["i"], sizes["j"] = rng.randrange(1, 90), rng.randrange(1, 12)
    domains = ["{[i]: 0 <= i < ni}", "{[j]: 0 <= j < nj}"]
    if rng.random() < 0.6:
        text = kernel.index(["i", "j"])
        if text not in kernel.variables:
            kernel.add(f"<int32> t0 = {text.text}")
            kernel.variables.append(_Index("t0", text.low, text.high))
    for number in range(rng.randint(1, 3)):
        value = kernel.expression(["i", "j"])
        if rng.random() < 0.6:
            counter = f"k{number}"
            sizes[counter] = rng.randrange(1, 9)
            within = rng.choice(BOUNDS).replace("K", counter)
            domains.append(f"{{[{counter}]: 0 <= {counter} < n{counter}{within}}}")
            value += f" + sum({counter}, {kernel.expression(['i', 'j', counter])})"
        target = kernel.element(
            f"out{number}", _Index(f"{sizes['j']}*i + j", 0, sizes["i"] * sizes["j"] - 1)
        )
        if rng.random() < 0.2:
            value += f" + {target}"
        option = f"if={kernel.condition(['i', 'j'])}" if rng.random() < 0.3 else ""
        kernel.add(f"{target} = {value}", option)
    dtypes = {name: np.dtype(rng.choice(DTYPES)) for name in kernel.extents}
    unit = lp.make_kernel(
        domains,
        "\n".join(["for i, j", *(f"    {line}" for line in kernel.lines), "end"]),
        [
            *(lp.ValueArg(f"n{name}", np.int32) for name in sizes),
            *(
                lp.GlobalArg(name, dtypes[name], shape=(extent,))
                for name, extent in kernel.extents.items()
            ),
        ],
        assumptions=" and ".join(f"n{name} = {size}" for name, size in sizes.items()),
        name="random_affine",
        lang_version=(2018, 2),
    )
    unit = lp.split_iname(
        unit, "i", rng.choice((4, 16, 32, 48, 64)), inner_tag="l.0", outer_tag="g.0"
    )
    if rng.random() < 0.5:
        unit = lp.split_iname(unit, "j", rng.choice((2, 3)), inner_tag="l.1", outer_tag="g.1")
    elif rng.random() < 0.3:
        unit = lp.tag_inames(unit, {"j": "g.1"})
    arguments: dict[str, Any] = {f"n{name}": size for name, size in sizes.items()}
    for name, extent in kernel.extents.items():
        arguments[name] = np.ones(extent, dtypes[name])
    return Workload(unit, arguments)
