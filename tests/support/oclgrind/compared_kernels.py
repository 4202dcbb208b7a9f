"""The kernels whose traces must equal Oclgrind's, access for access.

Each is small enough for an interpreter and irregular where it can be: rows of different length, partial
tiles, work-groups whose last work-items are idle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.kernels import histogram, matmul, spmv, stencil, transpose
from tests.support import loopy_kernels
from tests.support.loopy_kernels import OVER_I, grouped
from tracegen.workloads.workload import Workload


def sixteen(instructions: str, data: str, given: Any, *, domains: Any = OVER_I) -> Workload:
    """In groups of 16, the last of which is not full. given : see `grouped`"""
    return grouped(instructions, data, given, domains=domains, group=16, assumptions="n >= 1")


def predicated() -> Workload:
    """Statements, one with a loop, whose predicate is a loaded value of the work-item."""
    rng = np.random.default_rng(4)
    a, b, c, out, other = (rng.random(shape, np.float32) for shape in (45, 45, (45, 3), 45, 45))
    return sixteen(
        """
        for i
            <> wanted = flag[i] > 0
            out[i] = 2 * a[i] {id=first, if=wanted}
            out[i] = b[i] - 1 {id=second, if=not wanted, dep=first, nosync=first}
            other[i] = sum(k, c[i, k]) {if=flag[i] > 1, dep=second}
        end
        """,
        "n: i4; flag: i4[n]; a, b: f4[n]; c: f4[n, 3]; out, other: f4[n] inout",
        {
            "flag": rng.integers(-1, 3, 45, np.int32),
            "a": a,
            "b": b,
            "c": c,
            "out": out,
            "other": other,
        },
        domains="{[i, k]: 0 <= i < n and 0 <= k < 3}",
    )


def repeated_reads() -> Workload:
    """The same element several times in a statement and in the next: a compiler reads it once."""
    return sixteen(
        """
        for i
            <> square = a[i] * a[i] + a[ind[i]]
            out[i] = square * a[i] + a[ind[i]] {id=out}
            other[i] = a[i] + b[i] {dep=out}
        end
        """,
        "n: i4; ind: i4[n]; a, b: f8[n]; out, other: f8[n] out",
        37,
    )


def update_in_place() -> Workload:
    """A sum into global memory inside a loop; the address of one factor is loop-invariant."""
    return sixteen(
        "out[i, k] = a[i] * b[k, i] + out[i, k]",
        "n: i4; a: f4[n]; b: f4[4, n]; out: f4[n, 4] inout",
        35,
        domains="{[i, k]: 0 <= i < n and 0 <= k < 4}",
    )


def sub_word() -> Workload:
    """Elements of one, two and eight bytes."""
    rng = np.random.default_rng(8)
    small = rng.integers(0, 256, 39).astype(np.uint8)
    words = rng.integers(-3000, 3000, 39).astype(np.int16)
    return sixteen(
        "wide[i] = bytes[i] * 1000 + words[n - 1 - i]",
        "n: i4; bytes: u1[n]; words: i2[n]; wide: i8[n] out",
        {"bytes": small, "words": words},
    )


def triangle() -> Workload:
    """A loop whose trip count grows from lane to lane, known without reading memory."""
    return sixteen(
        "out[i] = sum(j, a[i, j] * x[j])",
        "n: i4; a: f8[n, n]; x: f8[n]; out: f8[n] out",
        36,
        domains="{[i, j]: 0 <= i < n and 0 <= j <= i}",
    )


def invariant_in_open_loop() -> Workload:
    """Reads x[i] in a loop that may have no iteration."""
    return sixteen(
        "out[i] = sum(j, (x[i] - x[j]) ** 2)",
        "n: i4; x: f8[n]; out: f8[n] out",
        35,
        domains="{[i, j]: 0 <= i, j < n}",
    )


def stored_twice() -> Workload:
    """Stores an element, reads it back and stores it again."""
    return sixteen(
        """
        for i
            out[i] = 2 * a[i] {id=first}
            out[i] = out[i] + b[i] {dep=first}
        end
        """,
        "n: i4; a, b: f8[n]; out: f8[n] out",
        33,
    )


CASES: dict[str, Callable[[], Workload]] = {
    **{name: made for name, made in loopy_kernels.WORKLOADS.items() if name != "called"},
    "spmv_vector": lambda: spmv.spmv_vector("fem-tri-p2", 30),
    "predicated": predicated,
    "matmul_naive_ragged": lambda: matmul.naive(11, tile=8),
    "matmul_tiled_ragged": lambda: matmul.tiled(11, tile=4),
    "stencil7": lambda: stencil.stencil7(9, 5, 3, block_x=8, block_y=2),
    "transpose_tiled_ragged": lambda: transpose.tiled(20, tile=8),
    "repeated_reads": repeated_reads,
    "update_in_place": update_in_place,
    "sub_word": sub_word,
    "triangle": triangle,
    "invariant_in_open_loop": invariant_in_open_loop,
    "stored_twice": stored_twice,
    "histogram_float": lambda: histogram.histogram(70, bins=5, block_size=32, dtype="float32"),
}

REDUCED_DIFFERS: dict[str, str] = {
    "invariant_in_open_loop": "Oclgrind's passes leave a load in a loop that may not run at all;"
    " GPU compilers put it before the loop, behind the loop's own test, and the tracer follows them",
    "nested": "the compiler loads a value again where a branch that loaded it may not have been taken",
    "complex_product": "the compiler loads and stores the parts of a complex number one by one",
    "stored_twice": "the compiler drops the first store too; the tracer drops loads only",
}
"""Why reduced traces and Oclgrind's default build are not expected to agree; full traces are."""
