"""Kernels with a well-known fault, and each with its remedy written by hand as another kernel."""

from __future__ import annotations

from typing import Any

import loopy as lp
import numpy as np
import scipy.sparse

from experiments.kernels import matmul, spmv
from tracegen import Workload

FLOAT = np.float32


def values(*shape: int) -> Any:
    return np.random.default_rng(0).random(shape, np.float32)


def kernel(domain: str, text: str, name: str, *more: Any, **arrays: str) -> Any:
    """arrays : name -> shape, with `in`, `out` or `inout` before it;  more : further data"""
    arguments = [lp.ValueArg("n", np.int32), *more]
    for array, described in arrays.items():
        use, _, shape = described.partition(" ")
        arguments.append(
            lp.GlobalArg(array, FLOAT, shape=shape, is_output="out" in use, is_input="in" in use)
        )
    return lp.make_kernel(
        domain,
        text,
        arguments,
        name=name,
        lang_version=(2018, 2),
        assumptions="n mod 128 = 0 and n >= 128",
    )


def split(unit: Any, **inames: tuple[int, str, str]) -> Any:
    for iname, (size, outer, inner) in inames.items():
        unit = lp.split_iname(unit, iname, size, outer_tag=outer, inner_tag=inner)
    return unit


def transpose(n: int = 1024, by_hand: bool = False) -> Workload:
    """Contiguous loads and stores that are strided by a row; by hand, through a tile without bank conflicts."""
    if by_hand:
        unit = kernel(
            "{[p, q, r, s, t, u]: 0 <= p, q < n // 32 and 0 <= r, s, t, u < 32}",
            """
            for p, q
                tile[r, s] = a[32 * p + r, 32 * q + s] {id=fill}
                b[32 * q + t, 32 * p + u] = tile[u, t] {dep=fill}
            end
            """,
            "transpose",
            lp.TemporaryVariable(
                "tile", FLOAT, shape=(32, 33), address_space=lp.AddressSpace.LOCAL
            ),
            a="in n, n",
            b="out n, n",
        )
        tags = {"p": "g.1", "q": "g.0", "r": "l.1", "s": "l.0", "t": "l.1", "u": "l.0"}
        return Workload(lp.tag_inames(unit, tags), {"a": values(n, n)})
    unit = kernel(
        "{[i, j]: 0 <= i, j < n}", "b[j, i] = a[i, j]", "transpose", a="in n, n", b="out n, n"
    )
    unit = split(unit, i=(32, "g.1", "l.1"), j=(32, "g.0", "l.0"))
    return Workload(unit, {"a": values(n, n)})


def product(n: int = 128, by_hand: bool = False) -> Workload:
    return matmul.tiled(n) if by_hand else matmul.naive(n)


def particles(n: int = 1 << 17, by_hand: bool = False) -> Workload:
    """Structures of eight numbers, of which an update uses four; by hand, eight arrays."""
    at = "p[{c}, i]" if by_hand else "p[i, {c}]"
    lines = [f"{at.format(c=c)} = {at.format(c=c)} + 0.5f * {at.format(c=c + 4)}" for c in (0, 1)]
    unit = kernel(
        "{[i]: 0 <= i < n}",
        "\n".join(lines),
        "particles",
        p="inout 8, n" if by_hand else "inout n, 8",
    )
    data = values(n, 8)
    return Workload(
        split(unit, i=(128, "g.0", "l.0")), {"p": np.ascontiguousarray(data.T) if by_hand else data}
    )


def flat_particles(n: int = 1 << 17, by_hand: bool = False) -> Workload:
    """The same structures in an array with one axis, all eight numbers of which an update uses."""
    at = "p[{c} * n + i]" if by_hand else "p[8 * i + {c}]"
    lines = [f"{at.format(c=c)} = {at.format(c=c)} + 0.5f * {at.format(c=c + 4)}" for c in range(4)]
    unit = kernel("{[i]: 0 <= i < n}", "\n".join(lines), "flat_particles", p="inout 8 * n")
    data = values(n, 8)
    unit = split(unit, i=(128, "g.0", "l.0"))
    return Workload(unit, {"p": (data.T if by_hand else data).flatten(), "n": np.int32(n)})


def update(n: int = 1 << 20, by_hand: bool = False) -> Workload:
    """A work-item for each number; by hand, for four of them."""
    unit = kernel(
        "{[i, v]: 0 <= i < n // 4 and 0 <= v < 4}" if by_hand else "{[i]: 0 <= i < n}",
        "y[i, v] = 2 * x[i, v] + 1" if by_hand else "y[i] = 2 * x[i] + 1",
        "update",
        x="in n // 4, 4" if by_hand else "in n",
        y="out n // 4, 4" if by_hand else "out n",
    )
    data = {"x": values(n), "n": np.int32(n)}
    if not by_hand:
        return Workload(split(unit, i=(128, "g.0", "l.0")), data)
    unit = lp.tag_inames(lp.tag_array_axes(unit, "x, y", "N0,vec"), {"v": "vec"})
    return Workload(split(unit, i=(128, "g.0", "l.0")), {**data, "x": data["x"].reshape(-1, 4)})


def sweep(n: int = 512, by_hand: bool = False) -> Workload:
    """A work-item for each row, which walks along it; by hand, lanes along the row."""
    unit = kernel(
        "{[i, j]: 0 <= i, j < n}", "y[i, j] = 2 * x[i, j]", "sweep", x="in n, n", y="out n, n"
    )
    if by_hand:
        unit = lp.tag_inames(split(unit, j=(128, "g.0", "l.0")), {"i": "g.1"})
    else:
        unit = split(unit, i=(128, "g.0", "l.0"))
    return Workload(unit, {"x": values(n, n)})


def csr(rows: int = 2048, by_hand: bool = False) -> Workload:
    """A sparse product with long rows, a work-item for each; by hand, a sub-group for each, whose steps begin
    at multiples of 32 entries, as in Bell and Garland, SC 2009."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(100, 160, rows)
    start = np.r_[0, np.cumsum(lengths)].astype(np.int32)
    columns = np.concatenate([np.sort(rng.choice(rows, k, replace=False)) for k in lengths])
    matrix = scipy.sparse.csr_array(
        (rng.random(len(columns)), columns.astype(np.int32), start), shape=(rows, rows)
    )
    scalar = spmv.spmv_of(matrix)
    if not by_hand:
        return scalar
    vector = lp.make_kernel(
        [
            "{[i, lane]: 0 <= i < n_rows and 0 <= lane < 32}",
            "{[step]: row_first <= 32*step + lane < row_end}",
        ],
        """
        for i
            <> row_first = row_start[i] {inames=i:lane}
            <> row_end = row_start[i + 1] {inames=i:lane}
            y[i] = sum((lane, step), values[32*step + lane] * x[indices[32*step + lane]]) {id=total}
        end
        """,
        scalar.kernel.default_entrypoint.args,
        assumptions="n_rows >= 1",
        name="spmv_vector",
        lang_version=(2018, 2),
        silenced_warnings=["write_race(total)"],
    )
    vector = lp.split_reduction_inward(vector, "step")
    vector = lp.tag_inames(vector, {"i": "g.0", "lane": "l.0"})
    return Workload(vector, scalar.arguments)
