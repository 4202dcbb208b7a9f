"""Small kernels, each with one feature that the tracer must record."""

from __future__ import annotations

from typing import Any

import loopy as lp
import numpy as np
import pyopencl as cl
import pyopencl.tools

from tracegen.workloads.workload import Workload

USES: dict[str, Any] = {
    "": {},
    "out": {"is_input": False, "is_output": True},
    "inout": {"is_output": True},
}


def declared(text: str) -> list[Any]:
    """Arguments of a kernel: `n, m: i4` are numbers; `a, b: f8[n, 3]` are arrays, which are written where `out`
    follows, and read, too, where `inout` does."""
    made = []
    for one in text.split("; "):
        names, kind = one.split(": ")
        dtype, _, rest = kind.partition("[")
        shape, _, use = rest.partition("]")
        if rest:
            made.append(lp.GlobalArg(names, np.dtype(dtype), shape=shape, **USES[use.strip()]))
        else:
            made.append(lp.ValueArg(names, np.dtype(dtype)))
    return made


def make(domains: Any, instructions: str, data: Any, **options: Any) -> Any:
    """data : arguments, or a text for `declared`"""
    data = declared(data) if isinstance(data, str) else data
    return lp.make_kernel(domains, instructions, data, lang_version=(2018, 2), **options)


def groups_of(kernel: Any, size: int, iname: str = "i") -> Any:
    return lp.split_iname(kernel, iname, size, inner_tag="l.0", outer_tag="g.0")


def copy(n: int, group: int = 32, dtype: Any = np.float32, stride: int = 1) -> Workload:
    kernel = make(
        "{[i]: 0 <= i < n}",
        f"y[i] = x[{stride}*i]" if stride > 1 else "y[i] = x[i]",
        [
            lp.GlobalArg("x", dtype, shape=f"{stride}*n"),
            lp.GlobalArg("y", dtype, shape="n", is_input=False),
            lp.ValueArg("n", np.int32),
        ],
    )
    x = (np.arange(stride * n) % 100).astype(dtype)
    return Workload(groups_of(kernel, group), {"x": x, "n": n})


def ragged(lengths: Any, group: int = 32) -> Workload:
    """A sparse matrix-vector product whose rows have the given lengths."""
    kernel = make(
        ["{[i]: 0 <= i < n}", "[begin, end] -> {[j]: begin <= j < end}"],
        """
        for i
            <> begin = start[i]
            <> end = start[i + 1]
            y[i] = sum(j, a[j] * x[ind[j]])
        end
        """,
        "start: i4[n + 1]; ind: i4[m]; a: f4[m]; x: f4[n]; y: f4[n] out; n, m: i4",
    )
    lengths = np.asarray(lengths)
    n, m = len(lengths), int(lengths.sum())
    rng = np.random.default_rng(1)
    return Workload(
        groups_of(kernel, group),
        {
            "start": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
            "ind": rng.integers(0, n, m).astype(np.int32),
            "a": rng.random(m, np.float32),
            "x": rng.random(n, np.float32),
            "m": m,
        },
    )


def nested(n: int, group: int = 32) -> Workload:
    """Two nested loops with bounds from memory; a predicate inside, and a store after."""
    kernel = make(
        [
            "{[i]: 0 <= i < n}",
            "[rows] -> {[j]: 0 <= j < rows}",
            "[columns] -> {[k]: 0 <= k < columns}",
        ],
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
    )
    rng = np.random.default_rng(2)
    return Workload(
        groups_of(kernel, group),
        {
            "n_rows": rng.integers(0, 5, n).astype(np.int32),
            "n_columns": rng.integers(0, 6, n).astype(np.int32),
            "w": rng.random(n),
            "bonus": rng.random(n),
        },
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
        middle[i] = 3 * a[i] {id=scale}
        ... gbarrier {id=meet, dep=scale}
        b[j] = middle[n - 1 - j] {dep=meet}
        """,
        [
            lp.GlobalArg("a", np.float32, shape="n"),
            lp.GlobalArg("b", np.float32, shape="n", is_input=False),
            lp.TemporaryVariable(
                "middle", np.float32, shape="n", address_space=lp.AddressSpace.GLOBAL
            ),
            lp.ValueArg("n", np.int32),
        ],
        assumptions="n >= 1",
    )
    kernel = groups_of(groups_of(kernel, 32), 32, "j")
    return Workload(kernel, {"a": np.arange(n, dtype=np.float32)})


def accumulate(n: int) -> Workload:
    """y += x, in place: a second run must not see the first one's result."""
    kernel = make(
        "{[i]: 0 <= i < n}",
        "y[i] = y[i] + x[i]",
        [lp.GlobalArg("x, y", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    )
    ones = np.ones(n, np.float32)
    return Workload(groups_of(kernel, 32), {"x": ones, "y": 10 * ones})


def histogram(n: int, n_bins: int = 4) -> Workload:
    kernel = make(
        "{[i]: 0 <= i < n}",
        "bins[data[i]] = bins[data[i]] + 1 {atomic}",
        [
            lp.GlobalArg("data", np.int32, shape="n"),
            lp.GlobalArg("bins", np.int32, shape=(n_bins,), for_atomic=True),
            lp.ValueArg("n", np.int32),
        ],
    )
    data = (np.arange(n) % n_bins).astype(np.int32)
    return Workload(groups_of(kernel, 32), {"data": data, "bins": np.zeros(n_bins, np.int32)})


def gather(n: int, indices: Any, columns: int = 0) -> Workload:
    """y[i] = x[ind[i]], or x[i, ind[i]] of so many columns."""
    shape, index = ("n", "ind[i]") if not columns else (f"n, {columns}", "i, ind[i]")
    kernel = make(
        "{[i]: 0 <= i < n}",
        f"y[i] = x[{index}]",
        [
            lp.GlobalArg("ind", np.int32, shape="n"),
            lp.GlobalArg("x", np.float32, shape=shape),
            lp.GlobalArg("y", np.float32, shape="n", is_input=False),
            lp.ValueArg("n", np.int32),
        ],
    )
    x = np.arange(n * max(columns, 1), dtype=np.float32)
    return Workload(
        groups_of(kernel, 32),
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
    kernel = make(
        "{[i]: 0 <= i < n}",
        """
        p[i] = a[i] * b[i]
        q[i] = a[i] + b[i]
        a[i] = 0
        r[i] = a[i] + b[i]
        """,
        "a, b: f4[n]; p, q, r: f4[n] out; n: i4",
        seq_dependencies=True,
    )
    ones = np.ones(n, np.float32)
    return Workload(groups_of(kernel, 32), {"a": 3 * ones, "b": 2 * ones})


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
        [lp.GlobalArg("a, b", np.float32, shape=(n, 4))],
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
        [lp.GlobalArg("a, b", np.float32, shape=(64,))],
        seq_dependencies=True,
    )
    kernel = lp.tag_inames(kernel, {"i": "l.0"})
    zeros = np.zeros(64, np.float32)
    return Workload(kernel, {"a": np.arange(64, dtype=np.float32), "b": zeros})


def either(n: int) -> Workload:
    """One of two loads, by a value."""
    kernel = make(
        "{[i]: 0 <= i < n}",
        "y[i] = z[i] if x[i] > 0.5 else -x[i]",
        [lp.GlobalArg("x, y, z", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    )
    rng = np.random.default_rng(7)
    return Workload(groups_of(kernel, 32), {name: rng.random(n, np.float32) for name in "xz"})


def total(n: int) -> Workload:
    """A sum into an array without axes."""
    kernel = make(
        "{[i]: 0 <= i < n}",
        "s = sum(i, x[i])",
        [
            lp.GlobalArg("x", np.float32, shape="n"),
            lp.GlobalArg("s", np.float32, shape=()),
            lp.ValueArg("n", np.int32),
        ],
    )
    return Workload(kernel, {"x": np.ones(n, np.float32)})


def complex_product(n: int) -> Workload:
    kernel = make(
        "{[i]: 0 <= i < n}",
        "y[i] = x[i] * x[i] + 1",
        [lp.GlobalArg("x, y", np.complex64, shape="n"), lp.ValueArg("n", np.int32)],
    )
    x = np.random.default_rng(8).random(n) * (1 + 2j)
    return Workload(groups_of(kernel, 32), {"x": x.astype(np.complex64)})


def structs(n: int, context: Any) -> Workload:
    """Two fields of structs of 16 bytes."""
    dtype = np.dtype([("p", np.float32), ("q", np.int32), ("r", np.float64)])
    dtype, declaration = cl.tools.match_dtype_to_c_struct(context.devices[0], "pqr", dtype)
    cl.tools.get_or_register_dtype("pqr", dtype)
    kernel = make(
        "{[i]: 0 <= i < n}",
        "y[i] = x[i].r + x[i].p",
        [
            lp.GlobalArg("x", dtype, shape="n"),
            lp.GlobalArg("y", np.float64, shape="n", is_input=False),
            lp.ValueArg("n", np.int32),
        ],
        preambles=[("01_struct", declaration)],
    )
    return Workload(groups_of(kernel, 32), {"x": np.zeros(n, dtype)})
