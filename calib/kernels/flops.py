"""Arithmetic at full rate, after MaxFlops of SHOC: independent updates of 32 private variables in
an unrolled loop."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import loopy as lp
import numpy as np
import numpy.typing as npt

from calib.kernels.building import (
    DTYPES,
    GROUP,
    Layout,
    close,
    in_groups,
    loopy_kernel,
    require_group,
    require_multiple,
    size,
    written,
)
from calib.kernels.collection import Built, Choice, Number, generator

N_VARIABLE, REACH = 32, 8
"""Variable i is updated from variable i + REACH, which was written N_VARIABLE - REACH updates
before."""

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Pattern:
    """One kind of update, as text and in numpy; s and t are arguments, so that compilers do not
    know them.

    Repeated updates keep the numbers finite and normal, because arithmetic on others may be slow.
    """

    text: str
    update: Callable[[Array, Any, Any], Array]
    s: float
    t: float
    doc: str


PATTERNS = {
    "add": Pattern("{x} + t", lambda x, s, t: x + t, 0.0, 1.0, "x + t"),
    "mul": Pattern("{x} * t", lambda x, s, t: x * t, 0.0, -1.0, "x t"),
    "madd": Pattern("s * {x} + t", lambda x, s, t: s * x + t, 0.5, 1.0, "s x + t"),
    "div": Pattern("t / {x}", lambda x, s, t: t / x, 0.0, 1.5, "t / x"),
    "exp": Pattern(
        "exp(s * {x})", lambda x, s, t: np.exp(s * x), -0.01, 0.0, "exp(s x), a product with it"
    ),
    "sqrt": Pattern(
        "sqrt({x} + t)", lambda x, s, t: np.sqrt(x + t), 0.0, 1.3, "sqrt(x + t), a sum with it"
    ),
}


def _build(
    kind: str,
    layout: Layout,
    group: tuple[int, int],
    *,
    nelements: int,
    m: int,
    unroll: int,
    dtype: str,
) -> Built:
    require_group(*group)
    rows = layout.rows(nelements, *group)
    require_multiple(m=(m, unroll))
    pattern, real = PATTERNS[kind], np.dtype(dtype).type

    def arguments() -> dict[str, Any]:
        return {"s": real(pattern.s), "t": real(pattern.t), "rows": rows, "m": m}

    def check(outputs: Mapping[str, Any]) -> None:
        exact = _sums(pattern, group[0], m, real)
        items = np.indices((rows, layout.width // min(layout.stride_0, layout.stride_1)))
        i0, i1 = (items[1], items[0]) if layout.stride_0 <= layout.stride_1 else items
        computed = outputs["out"][layout.stride_0 * i0 + layout.stride_1 * i1]
        expected = exact[i0 % group[0]]
        close(computed, expected, 64 * np.finfo(dtype).eps * np.abs(expected) * max(m, 32) ** 0.5)

    kernel = _kernel(kind, dtype, layout, *group, unroll)
    return Built(kernel=kernel, env={"rows": rows, "m": m}, arguments=arguments, check=check)


def _sums(pattern: Pattern, lanes: int, m: int, real: Any) -> Array:
    """(lanes,) sums of the variables by the same operations in numpy; only fused operations round
    differently."""
    s, t = real(pattern.s), real(pattern.t)
    x = [(np.arange(lanes) + k + 1).astype(real) for k in range(N_VARIABLE)]
    with np.errstate(all="raise"):
        for _ in range(m):
            for k in range(N_VARIABLE):
                x[k] = pattern.update(x[(k + REACH) % N_VARIABLE], s, t)
    total: Array = np.sum([column.astype(np.float64) for column in x], axis=0)
    return total


@functools.cache
def _kernel(kind: str, dtype: str, layout: Layout, lsize_0: int, lsize_1: int, unroll: int) -> Any:
    names = [f"x{k}" for k in range(N_VARIABLE)]
    start = [
        f"{name} = i0_inner + {k + 1} {{id=init{k}{f',dep=init{k - 1}' if k else ''}}}"
        for k, name in enumerate(names)
    ]
    steps = [
        f"{name} = {PATTERNS[kind].text.format(x=names[(k + REACH) % N_VARIABLE])}"
        f" {{id=step{k},dep={f'step{k - 1}' if k else f'init{N_VARIABLE - 1}'}}}"
        for k, name in enumerate(names)
    ]
    lines = [
        "for i0_outer, i0_inner, i1",
        *start,
        "for repeat, again",
        *steps,
        "end",
        f"out[{layout.index.replace('i0', f'({lsize_0} * i0_outer + i0_inner)')}]"
        f" = {' + '.join(names)} {{dep=step{N_VARIABLE - 1}}}",
        "end",
    ]
    low, high = layout.domain.split(" and ")
    kernel = loopy_kernel(
        f"{{[i0_outer, i0_inner, i1, repeat, again]: 0 <= i0_inner < {lsize_0}"
        f" and {low.replace('i0', f'{lsize_0} * i0_outer + i0_inner')} and {high}"
        f" and 0 <= again < {unroll} and 0 <= {unroll} * repeat + again < m}}",
        "\n".join(lines),
        [
            size("rows"),
            size("m"),
            lp.ValueArg("s, t", np.dtype(dtype)),
            written("out", dtype, layout.shape),
            *(lp.TemporaryVariable(name, np.dtype(dtype), shape=()) for name in names),
        ],
        name=f"flops_{kind}",
        assumptions=f"m mod {unroll} = 0 and m >= {unroll} and rows >= 1"
        f" and rows mod {layout.rows_unit(lsize_0, lsize_1)} = 0",
    )
    kernel = in_groups(kernel, i1=(lsize_1, 1))
    kernel = lp.prioritize_loops(kernel, "repeat,again")
    return lp.tag_inames(kernel, {"i0_outer": "g.0", "i0_inner": "l.0", "again": "unr"})


def _register(kind: str) -> None:
    def build(
        *,
        lid_stride_0: int,
        lid_stride_1: int,
        lsize_0: int,
        lsize_1: int,
        groups_fit: bool,
        **sizes: Any,
    ) -> Built:
        layout = Layout(stride_0=lid_stride_0, stride_1=lid_stride_1)
        return _build(kind, layout, (lsize_0, lsize_1), **sizes)

    build.__name__ = f"flops_{kind}_pattern"
    build.__doc__ = (
        f"32 private variables updated m times by {PATTERNS[kind].doc}, then summed and stored."
    )
    generator(
        "flops_pattern",
        nelements=Number((65536, 131072)),
        m=Number((32, 64)),
        unroll=Number((8,)),
        dtype=DTYPES,
        lid_stride_0=Number((1,)),
        lid_stride_1=Number((512,)),
        **GROUP,
        groups_fit=Choice((True,)),
    )(build)


for _kind in PATTERNS:
    _register(_kind)
