"""Local memory: moves within it, alone and overlapped with global accesses."""

from __future__ import annotations

import functools
from typing import Any

import loopy as lp
import numpy as np

from calib.kernels.building import (
    DTYPES,
    GROUP,
    assume_multiples,
    computing,
    loopy_kernel,
    numbers,
    read,
    require_group,
    require_multiple,
    size,
    written,
)
from calib.kernels.collection import Built, Number, generator

DEPTH = 8
"""Local elements per work-item, which no other accesses, so that no barrier is needed. An element
is read half as many moves after it was written: with 4 elements a CPU waits for the preceding
store, and a move costs nearly twice as much."""
TO, FROM = 1, 1 + DEPTH // 2

MOVE = f"tile[(k + {TO}) & {DEPTH - 1}, l1, l0] = tile[(k + {FROM}) & {DEPTH - 1}, l1, l0]"
"""A mask: `% 8` of a signed integer is ten instructions, and made a move on a CPU cost 1.8 times as
much."""


@generator(
    "lmem_pattern", n_groups=Number((512, 1024)), m=Number((64, 128), low=0), dtype=DTYPES, **GROUP
)
def lmem_move(*, n_groups: int, m: int, dtype: str, lsize_0: int, lsize_1: int) -> Built:
    """Each work-item moves elements within local memory m times, with a load and a store of stride
    1."""
    require_group(lsize_0, lsize_1)
    env = {"n_groups": n_groups, "m": m}

    def moved(n_groups: int, m: int) -> Any:
        return _moved([np.arange(lsize_0) + k for k in range(DEPTH)], m)

    return computing(moved, _moves(dtype, lsize_0, lsize_1), env, lambda: dict(env), terms=0)


@generator(
    "lmem_pattern", n=Number((2**20, 2**21)), m=Number((0, 4, 16, 64), low=0), dtype=DTYPES, **GROUP
)
def overlap_ratio(*, n: int, m: int, dtype: str, lsize_0: int, lsize_1: int) -> Built:
    """One global load, m moves in local memory and one global store per work-item (Stevens and
    Klöckner 2020, section 7.4)."""
    require_group(lsize_0, lsize_1)
    items = lsize_0 * lsize_1
    require_multiple(n=(n, items))
    kernel = _loaded_moves(dtype, lsize_0, lsize_1)

    def arguments() -> dict[str, Any]:
        return {"a": numbers((n // items, lsize_1, lsize_0), dtype, 1), "m": m}

    def moved(a: Any, m: int) -> Any:
        return _moved([a if k in (0, FROM) else 0 * a for k in range(DEPTH)], m)

    return computing(moved, kernel, {"n_groups": n // items, "m": m}, arguments, terms=0)


def _moved(elements: list[Any], times: int) -> Any:
    """The element that is stored at last."""
    for k in range(times):
        elements[(k + TO) % DEPTH] = elements[(k + FROM) % DEPTH]
    return elements[TO]


@functools.cache
def _moves(dtype: str, lsize_0: int, lsize_1: int) -> Any:
    return _with_tile(
        f"""
        for g, l0, l1
            for c
                tile[c, l1, l0] = l0 + c {{id=init}}
            end
            for k
                {MOVE} {{id=move, dep=init}}
            end
            out[g, l1, l0] = tile[{TO}, l1, l0] {{dep=move}}
        end
        """,
        [],
        dtype,
        lsize_0,
        lsize_1,
        "lmem_move",
    )


@functools.cache
def _loaded_moves(dtype: str, lsize_0: int, lsize_1: int) -> Any:
    return _with_tile(
        f"""
        for g, l0, l1
            <> loaded = a[g, l1, l0] {{id=load}}
            for c
                tile[c, l1, l0] = 0 {{id=init}}
            end
            tile[0, l1, l0] = loaded {{id=first, dep=load:init}}
            tile[{FROM}, l1, l0] = loaded {{id=last, dep=first}}
            for k
                {MOVE} {{id=move, dep=last}}
            end
            out[g, l1, l0] = tile[{TO}, l1, l0] {{dep=move}}
        end
        """,
        [read("a", dtype, f"n_groups, {lsize_1}, {lsize_0}")],
        dtype,
        lsize_0,
        lsize_1,
        "overlap_ratio",
    )


def _with_tile(
    text: str, arguments: list[Any], dtype: str, lsize_0: int, lsize_1: int, name: str
) -> Any:
    shape = f"n_groups, {lsize_1}, {lsize_0}"
    kernel = loopy_kernel(
        [
            f"{{[g, l0, l1]: 0 <= g < n_groups and 0 <= l0 < {lsize_0} and 0 <= l1 < {lsize_1}}}",
            f"{{[c]: 0 <= c < {DEPTH}}}",
            # A separate domain: otherwise an empty loop would make the whole domain empty.
            "{[k]: 0 <= k < m}",
        ],
        text,
        [
            size("n_groups"),
            size("m"),
            *arguments,
            written("out", dtype, shape),
            lp.TemporaryVariable(
                "tile",
                np.dtype(dtype),
                shape=(DEPTH, lsize_1, lsize_0),
                address_space=lp.AddressSpace.LOCAL,
            ),
        ],
        name=name,
        assumptions="m >= 0",
    )
    kernel = assume_multiples(kernel, n_groups=1)
    return lp.tag_inames(kernel, {"g": "g.0", "l0": "l.0", "l1": "l.1"})
