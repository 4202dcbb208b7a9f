"""Random Loopy kernels: nested gathers, data-dependent loops, branches and predicates in any mixture.

The arithmetic means nothing; what counts is which work-item reads what, when. No two work-items
touch the same output element.
"""

from __future__ import annotations

import random
from typing import Any

import loopy as lp
import numpy as np

from tracegen.workloads.workload import Workload


def random_workload(seed: int) -> Workload:
    """The same kernel and data for the same seed."""
    writer = _Writer(random.Random(seed))
    for statement in range(writer.rng.randint(1, 4)):
        writer.write(statement)
    data: list[Any] = [
        lp.ValueArg("n", np.int32),
        lp.GlobalArg("p, q, count", np.int32, shape="n"),
        lp.GlobalArg("a, b", np.float64, shape="n"),
        lp.GlobalArg("c", np.float64, shape="n, 4"),
    ]
    data += [lp.GlobalArg(name, np.float64, shape="n", is_output=True) for name in writer.outputs]
    kernel = lp.make_kernel(
        writer.domains,
        "for i\n" + "\n".join(writer.lines) + "\nend",
        data,
        assumptions="n >= 8",
        name="random_kernel",
        lang_version=(2018, 2),
    )
    kernel = lp.split_iname(kernel, "i", 16, inner_tag="l.0", outer_tag="g.0")
    n = writer.rng.choice([33, 37, 48])
    values = np.random.default_rng(seed)
    arguments: dict[str, Any] = {
        "n": n,
        "p": values.integers(0, n, n).astype(np.int32),
        "q": values.integers(0, n, n).astype(np.int32),
        "count": values.integers(0, 4, n).astype(np.int32),
        "a": values.random(n),
        "b": values.random(n),
        "c": values.random((n, 4)),
        **{name: np.zeros(n) for name in writer.outputs},
    }
    return Workload(kernel, arguments)


class _Writer:
    """Writes one statement after the other; each depends on the one before it."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.domains = ["{[i]: 0 <= i < n}"]
        self.lines: list[str] = []
        self.outputs: list[str] = []
        self.scalars: list[str] = []

    def write(self, statement: int) -> None:
        """A scalar (of an expression, or of a sum over a loop) or none; then a store that uses it."""
        kind = self.rng.choice(["plain", "scalar", "fixed loop", "open loop", "open loop"])
        used = ""
        if kind != "plain":
            scalar, counter = f"t{statement}", f"k{statement}"
            value = self.expression(None)
            if kind == "open loop":
                self.add(f"<> m{statement} = count[{self.index(None)}]")
                self.domains.append(f"{{[{counter}]: 0 <= {counter} < m{statement}}}")
            elif kind == "fixed loop":
                self.domains.append(f"{{[{counter}]: 0 <= {counter} < {self.rng.randint(1, 3)}}}")
            if kind != "scalar":
                value = f"sum({counter}, {self.expression(counter)})"
            self.add(f"<float64> {scalar} = {value}")
            self.scalars.append(scalar)
            used = f"{scalar} + "
        output, predicate = f"out{statement}", ""
        self.outputs.append(output)
        if self.rng.random() < 0.3:
            self.add(f"<> w{statement} = {self.condition(None)}")
            predicate = f"if=w{statement}"
        if self.rng.random() < 0.25:
            used = f"{output}[i] + {used}"
        self.add(f"{output}[i] = {used}{self.expression(None)}", predicate)

    def add(self, text: str, option: str = "") -> None:
        number = len(self.lines)
        options = [f"id=s{number}"] + ([f"dep=s{number - 1}"] if number else [])
        options += [option] if option else []
        self.lines.append(f"    {text} {{{', '.join(options)}}}")

    def index(self, counter: str | None, depth: int = 0) -> str:
        if depth > 1 or self.rng.random() < 0.45:
            return self.rng.choice(["i", counter, counter] if counter else ["i"])
        return f"{self.rng.choice('pq')}[{self.index(counter, depth + 1)}]"

    def expression(self, counter: str | None, depth: int = 0) -> str:
        kind = self.rng.random()
        if depth > 2 or kind < 0.35:
            return self.operand(counter)
        left, right = (self.expression(counter, depth + 1) for _ in range(2))
        if kind < 0.8:
            return f"({left} {self.rng.choice('+*-')} {right})"
        if kind < 0.92:
            return f"({left} if {self.condition(counter, depth + 1)} else {right})"
        return f"fabs({left})"

    def operand(self, counter: str | None) -> str:
        kind = self.rng.random()
        if kind < 0.55:
            return f"{self.rng.choice('ab')}[{self.index(counter)}]"
        if kind < 0.7:
            column = counter if counter and self.rng.random() < 0.7 else self.rng.randrange(4)
            return f"c[{self.index(None)}, {column}]"
        if kind < 0.85 and self.scalars:
            return self.rng.choice(self.scalars)
        return f"{self.rng.randint(1, 4)}.5"

    def condition(self, counter: str | None, depth: int = 0) -> str:
        text = f"{self.expression(counter, depth + 1)} > 0.{self.rng.randint(1, 8)}"
        if self.rng.random() < 0.3:
            other = f"{self.expression(counter, depth + 1)} > 0.{self.rng.randint(1, 8)}"
            text += f" {self.rng.choice(['and', 'or'])} {other}"
        return text
