"""The kernels whose traces must equal Oclgrind's, access for access.

Each is small enough for an interpreter and irregular where it can be: rows of different length, partial
tiles, work-groups whose last work-items are idle.
"""

from __future__ import annotations

from collections.abc import Callable

import loopy as lp
import numpy as np

from experiments.kernels import histogram, matmul, spmv, stencil, stream, transpose
from tests.support.loopy_kernels import groups_of, make
from tracegen.workloads.workload import Workload


def nested_divergent() -> Workload:
    """Two nested loops whose bounds come from memory: lanes differ in both trip counts."""
    rng = np.random.default_rng(3)
    n = 43
    children = rng.integers(0, 5, n)
    first_child = np.concatenate([[0], np.cumsum(children)]).astype(np.int32)
    leaves = rng.integers(0, 4, first_child[-1])
    first_leaf = np.concatenate([[0], np.cumsum(leaves)]).astype(np.int32)
    kernel = make(
        ["{[i]: 0 <= i < n}", "{[j]: j_begin <= j < j_end}", "{[k]: k_begin <= k < k_end}"],
        """
        for i
            <> j_begin = first_child[i]
            <> j_end = first_child[i + 1]
            <> total = 0 {id=zero}
            for j
                <> k_begin = first_leaf[j]
                <> k_end = first_leaf[j + 1]
                <> part = sum(k, leaf[k] * weight[k % 7])
                total = total + scale[j] * part {dep=zero, id=add}
            end
            out[i] = total {dep=add}
        end
        """,
        "n, n_node, n_leaf: i4; first_child: i4[n + 1]; first_leaf: i4[n_node + 1]; "
        "leaf: f8[n_leaf]; scale: f8[n_node]; weight: f8[7]; out: f8[n] out",
        name="nested_divergent",
        assumptions="n >= 1",
    )
    arguments = {
        "first_child": first_child,
        "first_leaf": first_leaf,
        "leaf": rng.random(first_leaf[-1]),
        "scale": rng.random(first_child[-1]),
        "weight": rng.random(7),
    }
    return Workload(groups_of(kernel, 16), arguments)


def predicated() -> Workload:
    """Statements, one with a loop, whose predicate is a loaded value of the work-item."""
    rng = np.random.default_rng(4)
    kernel = make(
        "{[i, k]: 0 <= i < n and 0 <= k < 3}",
        """
        for i
            <> wanted = flag[i] > 0
            out[i] = 2 * a[i] {id=first, if=wanted}
            out[i] = b[i] - 1 {id=second, if=not wanted, dep=first, nosync=first}
            other[i] = sum(k, c[i, k]) {if=flag[i] > 1, dep=second}
        end
        """,
        "n: i4; flag: i4[n]; a, b: f4[n]; c: f4[n, 3]; out, other: f4[n] inout",
        name="predicated",
        assumptions="n >= 1",
    )
    n = 45
    flag = rng.integers(-1, 3, n).astype(np.int32)
    a, b, c = (rng.random(shape, np.float32) for shape in (n, n, (n, 3)))
    zeros = np.zeros(n, np.float32)
    return Workload(
        groups_of(kernel, 16),
        {"flag": flag, "a": a, "b": b, "c": c, "out": zeros.copy(), "other": zeros.copy()},
    )


def two_launches() -> Workload:
    """A scaled copy, a global barrier, and a shifted sum of what the first launch stored."""
    kernel = make(
        "{[i, j]: 0 <= i < n and 0 <= j < n - 1}",
        """
        middle[i] = 3 * a[i] {id=scale}
        ... gbarrier {id=meet, dep=scale}
        b[j] = middle[j] + middle[j + 1] {dep=meet}
        """,
        "n: i4; a: f8[n]; middle: f8[n] out; b: f8[n - 1] out",
        name="two_launches",
        assumptions="n >= 2",
    )
    kernel = groups_of(groups_of(kernel, 16), 16, "j")
    a = np.random.default_rng(5).random(41)
    return Workload(kernel, {"a": a})


def repeated_reads() -> Workload:
    """The same element several times in a statement and in the next: a compiler reads it once."""
    kernel = make(
        "{[i]: 0 <= i < n}",
        """
        for i
            <> square = a[i] * a[i] + a[ind[i]]
            out[i] = square * a[i] + a[ind[i]] {id=out}
            other[i] = a[i] + b[i] {dep=out}
        end
        """,
        "n: i4; ind: i4[n]; a, b: f8[n]; out, other: f8[n] out",
        name="repeated_reads",
        assumptions="n >= 1",
    )
    rng = np.random.default_rng(6)
    n = 37
    a, b, ind = rng.random(n), rng.random(n), rng.integers(0, n, n).astype(np.int32)
    return Workload(groups_of(kernel, 16), {"a": a, "b": b, "ind": ind})


def update_in_place() -> Workload:
    """A sum into global memory inside a loop; the address of one factor is loop-invariant."""
    kernel = make(
        "{[i, k]: 0 <= i < n and 0 <= k < 4}",
        "out[i, k] = a[i] * b[k, i] + out[i, k]",
        "n: i4; a: f4[n]; b: f4[4, n]; out: f4[n, 4] inout",
        name="update_in_place",
        assumptions="n >= 1",
    )
    rng = np.random.default_rng(7)
    n = 35
    a, b, out = (rng.random(shape, np.float32) for shape in (n, (4, n), (n, 4)))
    return Workload(groups_of(kernel, 16), {"a": a, "b": b, "out": out})


def sub_word() -> Workload:
    """Elements of one, two and eight bytes."""
    kernel = make(
        "{[i]: 0 <= i < n}",
        "wide[i] = bytes[i] * 1000 + words[n - 1 - i]",
        "n: i4; bytes: u1[n]; words: i2[n]; wide: i8[n] out",
        name="sub_word",
        assumptions="n >= 1",
    )
    rng = np.random.default_rng(8)
    n = 39
    small = rng.integers(0, 256, n).astype(np.uint8)
    words = rng.integers(-3000, 3000, n).astype(np.int16)
    return Workload(groups_of(kernel, 16), {"bytes": small, "words": words})


def vectors() -> Workload:
    """Arrays of float4: one access of 16 bytes."""
    kernel = make(
        "{[i, v]: 0 <= i < n and 0 <= v < 4}",
        "b[i, v] = 2 * a[i, v]",
        "n: i4; a: f4[n, 4]; b: f4[n, 4] out",
        name="vectors",
        assumptions="n >= 1",
        silenced_warnings=["v1_scheduler_fallback"],
    )
    kernel = lp.tag_array_axes(kernel, "a, b", "N0,vec")
    kernel = lp.tag_inames(groups_of(kernel, 16), {"v": "vec"})
    a = np.random.default_rng(9).random((24, 4), np.float32)
    return Workload(kernel, {"a": a})


def branches() -> Workload:
    """A conditional expression reads one of two arrays, and the second operand of `and` not always."""
    kernel = make(
        "{[i]: 0 <= i < n}",
        "out[i] = b[i] * c[i] if a[i] > 0.3 and b[i] > 0.3 else c[n - 1 - i]",
        "n: i4; a, b, c: f8[n]; out: f8[n] out",
        name="branches",
        assumptions="n >= 1",
    )
    rng = np.random.default_rng(10)
    a, b, c = (rng.random(44) for _ in range(3))
    return Workload(groups_of(kernel, 16), {"a": a, "b": b, "c": c})


def gather_of_gather() -> Workload:
    """Two chains of dependent loads, unrolled three times."""
    kernel = make(
        "{[i, k]: 0 <= i < n and 0 <= k < 3}",
        "out[i] = sum(k, x[p[q[i, k]]] * x[q[p[i], k]])",
        "n: i4; p: i4[n]; q: i4[n, 3]; x: f8[n]; out: f8[n] out",
        name="gather_of_gather",
        assumptions="n >= 1",
    )
    rng = np.random.default_rng(11)
    n = 42
    p, q, x = rng.permutation(n).astype(np.int32), rng.integers(0, n, (n, 3)), rng.random(n)

    kernel = lp.tag_inames(groups_of(kernel, 16), {"k": "unr"})
    return Workload(kernel, {"p": p, "q": q.astype(np.int32), "x": x})


def global_temporary() -> Workload:
    """Two launches that share an array which is not an argument of the kernel."""
    kernel = make(
        "{[i, j]: 0 <= i, j < 64}",
        """
        <> middle[i] = 2 * a[i] {id=scale}
        ... gbarrier {id=meet, dep=scale}
        b[j] = middle[63 - j] {dep=meet}
        """,
        "a: f8[64]; b: f8[64] out",
        name="global_temporary",
    )
    kernel = lp.set_temporary_address_space(kernel, "middle", "global")
    kernel = groups_of(groups_of(kernel, 16), 16, "j")
    a = np.random.default_rng(12).random(64)
    return Workload(kernel, {"a": a})


def triangle() -> Workload:
    """A loop whose trip count grows from lane to lane, known without reading memory."""
    kernel = make(
        "{[i, j]: 0 <= i < n and 0 <= j <= i}",
        "out[i] = sum(j, a[i, j] * x[j])",
        "n: i4; a: f8[n, n]; x: f8[n]; out: f8[n] out",
        name="triangle",
        assumptions="n >= 1",
    )
    rng = np.random.default_rng(13)
    a, x = rng.random((36, 36)), rng.random(36)
    return Workload(groups_of(kernel, 16), {"a": a, "x": x})


def complex_numbers() -> Workload:
    """Elements of 16 bytes; Loopy writes their arithmetic as function calls."""
    kernel = make(
        "{[i]: 0 <= i < n}",
        "out[i] = a[i] * b[i] + a[n - 1 - i]",
        "n: i4; a, b: c16[n]; out: c16[n] out",
        name="complex_numbers",
        assumptions="n >= 1",
    )
    rng = np.random.default_rng(14)
    a, b = (rng.random(38) + 1j * rng.random(38) for _ in range(2))
    return Workload(groups_of(kernel, 16), {"a": a, "b": b})


def atomic_gather() -> Workload:
    """An atomic sum into bins that the statement itself looks up, of values that it reads."""
    kernel = make(
        "{[i]: 0 <= i < n}",
        "bins[which[i]] = bins[which[i]] + value[i] {atomic, id=add}",
        [
            lp.ValueArg("n", np.int32),
            lp.GlobalArg("which", np.int32, shape="n"),
            lp.GlobalArg("value", np.float32, shape="n"),
            lp.GlobalArg("bins", np.float32, shape=(5,), for_atomic=True, is_output=True),
        ],
        name="atomic_gather",
        assumptions="n >= 1",
        silenced_warnings=["write_race(add)"],
    )
    rng = np.random.default_rng(15)
    which, value = rng.integers(0, 5, 40).astype(np.int32), rng.random(40, np.float32)

    arguments = {"which": which, "value": value, "bins": np.zeros(5, np.float32)}
    return Workload(groups_of(kernel, 16), arguments)


def invariant_in_open_loop() -> Workload:
    """Reads x[i] in a loop that may have no iteration."""
    kernel = make(
        "{[i, j]: 0 <= i, j < n}",
        "out[i] = sum(j, (x[i] - x[j]) ** 2)",
        "n: i4; x: f8[n]; out: f8[n] out",
        name="invariant_in_open_loop",
        assumptions="n >= 1",
    )
    x = np.random.default_rng(16).random(35)
    return Workload(groups_of(kernel, 16), {"x": x})


def stored_twice() -> Workload:
    """Stores an element, reads it back and stores it again."""
    kernel = make(
        "{[i]: 0 <= i < n}",
        """
        for i
            out[i] = 2 * a[i] {id=first}
            out[i] = out[i] + b[i] {dep=first}
        end
        """,
        "n: i4; a, b: f8[n]; out: f8[n] out",
        name="stored_twice",
        assumptions="n >= 1",
    )
    rng = np.random.default_rng(17)
    a, b = rng.random(33), rng.random(33)
    return Workload(groups_of(kernel, 16), {"a": a, "b": b})


CASES: dict[str, Callable[[], Workload]] = {
    "spmv": lambda: spmv.spmv("fem-tri-p2", 70, block_size=32),
    "spmv_vector": lambda: spmv.spmv_vector("fem-tri-p2", 30),
    "nested_divergent": nested_divergent,
    "predicated": predicated,
    "matmul_naive": lambda: matmul.naive(16, tile=8),
    "matmul_naive_ragged": lambda: matmul.naive(11, tile=8),
    "matmul_tiled": lambda: matmul.tiled(16, tile=8),
    "matmul_tiled_ragged": lambda: matmul.tiled(11, tile=4),
    "stencil7": lambda: stencil.stencil7(9, 5, 3, block_x=8, block_y=2),
    "transpose_naive": lambda: transpose.naive(20, tile=8),
    "transpose_tiled": lambda: transpose.tiled(16, tile=8),
    "transpose_tiled_ragged": lambda: transpose.tiled(20, tile=8),
    "two_launches": two_launches,
    "repeated_reads": repeated_reads,
    "update_in_place": update_in_place,
    "sub_word": sub_word,
    "branches": branches,
    "gather_of_gather": gather_of_gather,
    "global_temporary": global_temporary,
    "triangle": triangle,
    "complex_numbers": complex_numbers,
    "atomic_gather": atomic_gather,
    "invariant_in_open_loop": invariant_in_open_loop,
    "stored_twice": stored_twice,
    "vectors": vectors,
    "triad_strided": lambda: stream.triad(50, stride=3, block_size=16),
    "histogram_int": lambda: histogram.histogram(90, bins=7, block_size=32),
    "histogram_float": lambda: histogram.histogram(70, bins=5, block_size=32, dtype="float32"),
}

REDUCED_DIFFERS: dict[str, str] = {
    "invariant_in_open_loop": "Oclgrind's passes leave a load in a loop that may not run at all;"
    " GPU compilers put it before the loop, behind the loop's own test, and the tracer follows them",
    "stored_twice": "the compiler drops the first store too; the tracer drops loads only",
}
"""Why reduced traces and Oclgrind's default build are not expected to agree; full traces are."""
