"""Small kernels, each with one feature that the tracer must record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopy as lp
import numpy as np
import pyopencl as cl
import pyopencl.tools

from tracegen.workloads.made_up import arguments
from tracegen.workloads.workload import Workload

USES: dict[str, Any] = {
    "": {},
    "out": {"is_input": False, "is_output": True},
    "inout": {"is_output": True},
    "atomic": {"for_atomic": True},
}
OVER_I = "{[i]: 0 <= i < n}"


def declared(text: str) -> list[Any]:
    """Arguments of a kernel: `n, m: i4` are numbers; `a, b: f8[n, 3]` are arrays, which are written where `out`
    follows, and read, too, where `inout` does; `atomic` are updated."""
    made = []
    for one in text.split("; "):
        names, kind = one.split(": ")
        dtype, _, rest = kind.partition("[")
        shape, _, use = rest.partition("]")
        if rest:
            made.append(
                lp.GlobalArg(names, np.dtype(dtype), shape=shape or (), **USES[use.strip()])
            )
        else:
            made.append(lp.ValueArg(names, np.dtype(dtype)))
    return made


def make(domains: Any, instructions: str, data: Any, **options: Any) -> Any:
    """data : arguments, or a text for `declared`"""
    data = declared(data) if isinstance(data, str) else data
    return lp.make_kernel(domains, instructions, data, lang_version=(2018, 2), **options)


def groups_of(kernel: Any, size: int, iname: str = "i") -> Any:
    return lp.split_iname(kernel, iname, size, inner_tag="l.0", outer_tag="g.0")


def grouped(
    instructions: str,
    data: Any,
    given: Any,
    *,
    domains: Any = OVER_I,
    group: int = 32,
    **options: Any,
) -> Workload:
    """In groups of so many of `i`. given : arguments, or a size n of arrays that are made up"""
    kernel = groups_of(make(domains, instructions, data, **options), group)
    return with_sizes(kernel, n=given) if isinstance(given, int) else Workload(kernel, given)


def with_sizes(kernel: Any, **sizes: int) -> Workload:
    """A kernel with generated arrays of the given size."""
    return Workload(kernel, arguments(kernel, {k: str(v) for k, v in sizes.items()}))


def copy(n: int, group: int = 32, dtype: Any = np.float32, stride: int = 1) -> Workload:
    kind, index = np.dtype(dtype).str[1:], f"{stride}*i" if stride > 1 else "i"
    data = f"x: {kind}[{stride}*n]; y: {kind}[n] out; n: i4"
    x = (np.arange(stride * n) % 100).astype(dtype)
    return grouped(f"y[i] = x[{index}]", data, {"x": x, "n": n}, group=group)


def ragged(lengths: Any, group: int = 32) -> Workload:
    """A sparse matrix-vector product whose rows have the given lengths."""
    lengths = np.asarray(lengths)
    n, m = len(lengths), int(lengths.sum())
    rng = np.random.default_rng(1)
    return grouped(
        """
        for i
            <> begin = start[i]
            <> end = start[i + 1]
            y[i] = sum(j, a[j] * x[ind[j]])
        end
        """,
        "start: i4[n + 1]; ind: i4[m]; a: f4[m]; x: f4[n]; y: f4[n] out; n, m: i4",
        {
            "start": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
            "ind": rng.integers(0, n, m).astype(np.int32),
            "a": rng.random(m, np.float32),
            "x": rng.random(n, np.float32),
            "m": m,
        },
        domains=[OVER_I, "[begin, end] -> {[j]: begin <= j < end}"],
        group=group,
    )


def nested(n: int, group: int = 32) -> Workload:
    """Two nested loops with bounds from memory; a predicate inside, and a store after."""
    rng = np.random.default_rng(2)
    return grouped(
        """
        for i
            <> rows = n_rows[i]
            <> total = 0 {id=zero}
            for j
                <> columns = n_columns[(i + j) % n]
                <> part = sum(k, w[(i + 3*k) % n])
                total = total + part {id=add, dep=zero}
                total = total + bonus[i] {id=more, dep=add, if=part > 2}
            end
            out[i] = total {dep=more}
        end
        """,
        "n_rows, n_columns: i4[n]; w, bonus: f8[n]; out: f8[n] out; n: i4",
        {
            "n_rows": rng.integers(0, 5, n).astype(np.int32),
            "n_columns": rng.integers(0, 6, n).astype(np.int32),
            "w": rng.random(n),
            "bonus": rng.random(n),
        },
        domains=[OVER_I, "[rows] -> {[j]: 0 <= j < rows}", "[columns] -> {[k]: 0 <= k < columns}"],
        group=group,
    )


def tiled_matmul(n: int, tile: int = 8) -> Workload:
    kernel = make(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k] * b[k, j])",
        "a, b: f4[n, n]; c: f4[n, n] out; n: i4",
        assumptions=f"n >= 1 and n % {tile} = 0",
    )
    kernel = lp.split_iname(kernel, "i", tile, inner_tag="l.1", outer_tag="g.1")
    kernel = groups_of(kernel, tile, "j")
    kernel = lp.split_iname(kernel, "k", tile)
    outer = "i_outer, j_outer, k_outer"
    for array, sweep in (("a", ["k_inner", "i_inner"]), ("b", ["j_inner", "k_inner"])):
        kernel = lp.add_prefetch(
            kernel, array, sweep, default_tag="l.auto", fetch_outer_inames=outer
        )
    rng = np.random.default_rng(3)
    return Workload(kernel, {name: rng.random((n, n), np.float32) for name in "ab"})


def two_launches(n: int) -> Workload:
    kernel = make(
        "{[i, j]: 0 <= i < n and 0 <= j < n}",
        """
        <> middle[i] = 3 * a[i] {id=scale}
        ... gbarrier {id=meet, dep=scale}
        b[j] = middle[n - 1 - j] {dep=meet}
        """,
        "a: f4[n]; b: f4[n] out; n: i4",
        assumptions="n >= 1",
    )
    kernel = lp.set_temporary_address_space(kernel, "middle", "global")
    kernel = groups_of(groups_of(kernel, 32), 32, "j")
    return Workload(kernel, {"a": np.arange(n, dtype=np.float32)})


def accumulate(n: int) -> Workload:
    """y += x, in place: a second run must not see the first one's result."""
    ones = np.ones(n, np.float32)
    return grouped("y[i] = y[i] + x[i]", "x, y: f4[n] inout; n: i4", {"x": ones, "y": 10 * ones})


def histogram(n: int, n_bins: int = 4) -> Workload:
    return grouped(
        "bins[data[i]] = bins[data[i]] + 1 {atomic}",
        f"data: i4[n]; bins: i4[{n_bins}] atomic; n: i4",
        {"data": (np.arange(n) % n_bins).astype(np.int32), "bins": np.zeros(n_bins, np.int32)},
    )


def gather(n: int, indices: Any, columns: int = 0) -> Workload:
    """y[i] = x[ind[i]], or x[i, ind[i]] of so many columns."""
    shape, index = ("n", "ind[i]") if not columns else (f"n, {columns}", "i, ind[i]")
    x = np.arange(n * max(columns, 1), dtype=np.float32)
    return grouped(
        f"y[i] = x[{index}]",
        f"ind: i4[n]; x: f4[{shape}]; y: f4[n] out; n: i4",
        {"ind": np.asarray(indices, np.int32), "x": x.reshape(n, columns) if columns else x},
    )


def vectors(n: int) -> Workload:
    """out[i] = 2 a[i] on elements of four floats."""
    kernel = make(
        "{[i, c]: 0 <= i < n and 0 <= c < 4}",
        "out[i, c] = 2 * a[i, c]",
        "a: f4[n, 4]; out: f4[n, 4] out; n: i4",
    )
    kernel = lp.tag_array_axes(kernel, "a, out", "C, vec")
    kernel = lp.tag_inames(kernel, {"c": "vec"})
    a = np.random.default_rng(4).random((n, 4), np.float32)
    return Workload(groups_of(kernel, 32), {"a": a})


def read_twice(n: int) -> Workload:
    """One array read twice by one text, then stored to, then read again."""
    ones = np.ones(n, np.float32)
    return grouped(
        """
        p[i] = a[i] * b[i]
        q[i] = a[i] + b[i]
        a[i] = 0
        r[i] = a[i] + b[i]
        """,
        "a, b: f4[n]; p, q, r: f4[n] out; n: i4",
        {"a": 3 * ones, "b": 2 * ones},
        seq_dependencies=True,
    )


def unrolled(n: int) -> Workload:
    """Four copies of one access, and constant weights."""
    kernel = make(
        "{[i, j]: 0 <= i < n and 0 <= j < 4}",
        "y[i] = sum(j, a[4*i + j] * w[j])",
        "a: f4[4*n]; w: f4[4]; y: f4[n] out; n: i4",
    )
    kernel = lp.tag_inames(groups_of(kernel, 32), {"j": "unr"})
    return Workload(
        kernel, {"a": np.arange(4 * n, dtype=np.float32), "w": np.ones(4, np.float32), "n": n}
    )


def called(n: int) -> Workload:
    """A function with sub-arrays as arguments."""
    function = lp.make_function(
        "{[k]: 0 <= k < 4}", "o[k] = 2*u[k]", name="twice", lang_version=(2018, 2)
    )
    kernel = make(
        f"{{[i, k]: 0 <= i < {n} and 0 <= k < 4}}",
        "[k]: b[i, k] = twice([k]: a[i, k])",
        f"a, b: f4[{n}, 4]",
    )
    kernel = lp.tag_inames(kernel, {"i": "l.0"})
    a = np.random.default_rng(6).random((n, 4), np.float32)
    return Workload(lp.merge([kernel, function]), {"a": a})


def loop_of_launches() -> Workload:
    """Two launches, three times over: the host runs the loop."""
    kernel = make(
        "{[t, i]: 0 <= t < 3 and 0 <= i < 64}",
        """
        for t
            b[i] = 2 * a[i]
            ... gbarrier
            a[i] = b[63 - i]
            ... gbarrier
        end
        """,
        "a, b: f4[64]",
        seq_dependencies=True,
    )
    kernel = lp.tag_inames(kernel, {"i": "l.0"})
    zeros = np.zeros(64, np.float32)
    return Workload(kernel, {"a": np.arange(64, dtype=np.float32), "b": zeros})


def either(n: int) -> Workload:
    """One of two loads, by a value."""
    rng = np.random.default_rng(7)
    given = {name: rng.random(n, np.float32) for name in "xz"}
    return grouped("y[i] = z[i] if x[i] > 0.5 else -x[i]", "x, y, z: f4[n]; n: i4", given)


def total(n: int) -> Workload:
    """A sum into an array without axes."""
    kernel = make(OVER_I, "s = sum(i, x[i])", "x: f4[n]; s: f4[]; n: i4")
    return Workload(kernel, {"x": np.ones(n, np.float32)})


def complex_product(n: int) -> Workload:
    """Loopy writes the arithmetic of complex numbers as function calls."""
    x = np.random.default_rng(8).random(n) * (1 + 2j)
    return grouped("y[i] = x[i] * x[i] + 1", "x, y: c16[n]; n: i4", {"x": x})


def structs(n: int, context: Any) -> Workload:
    """Two fields of structs of 16 bytes."""
    dtype = np.dtype([("p", np.float32), ("q", np.int32), ("r", np.float64)])
    dtype, declaration = cl.tools.match_dtype_to_c_struct(context.devices[0], "pqr", dtype)
    cl.tools.get_or_register_dtype("pqr", dtype)
    return grouped(
        "y[i] = x[i].r + x[i].p",
        [lp.GlobalArg("x", dtype, shape="n"), *declared("y: f8[n] out; n: i4")],
        {"x": np.zeros(n, dtype)},
        preambles=[("01_struct", declaration)],
    )


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "copy": lambda: copy(100, group=48),
    "ragged": lambda: ragged(np.random.default_rng(5).integers(0, 9, 90), group=40),
    "nested": lambda: nested(70),
    "tiled_matmul": lambda: tiled_matmul(16),
    "two_launches": lambda: two_launches(70),
    "accumulate": lambda: accumulate(40),
    "histogram": lambda: histogram(50),
    "gather": lambda: gather(40, np.arange(40)[::-1]),
    "vectors": lambda: vectors(40),
    "read_twice": lambda: read_twice(40),
    "unrolled": lambda: unrolled(40),
    "called": lambda: called(40),
    "loop_of_launches": loop_of_launches,
    "either": lambda: either(40),
    "total": lambda: total(9),
    "complex_product": lambda: complex_product(40),
}
