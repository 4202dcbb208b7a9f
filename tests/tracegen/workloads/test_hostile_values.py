"""Whatever an argument or a field of a workload is: a trace, or an error of one line."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import loopy as lp
import numpy as np
import pytest

import tracegen
from memsim.errors import KernelError, MemsimError
from tests.support.cuda_kernels import needs_clang
from tests.support.hostile_values import VALUES, ones

STRUCT = [("a", "f4"), ("b", "i4")]
OPENCL = """\
typedef struct { float a; int b; } rec;
__kernel void k(__global float *x, __global const int *y, __global char *bytes, __global rec *recs,
  __constant float *c, __local float *t, float4 v, rec r, int n, float f)
{
  int i = get_global_id(0);
  t[get_local_id(0)] = f;
  x[i] = y[i] + t[0] + v.x + r.a + n + c[0] + bytes[i] + recs[0].a;
}
"""
CUDA = """\
struct rec { float a; int b; };
struct ptr { float *p; int n; };
__constant__ float variable[4];
__global__ void k(float *x, const int *y, char *bytes, rec *recs, float **pp, ptr q, float4 v, rec r, int n,
  float f, bool b)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i] = y[i] + v.x + r.a + n + bytes[i] + recs[0].a + pp[0][i] + q.p[i] + f + b + variable[0];
}
"""
FIELDS = ("arguments", "kernel", "build_options", "registers_per_item", "check", "path", "source")


def arguments() -> dict[str, Any]:
    """What the kernels in OpenCL C and CUDA C++ both take."""
    return {
        "x": ones(),
        "y": np.zeros(64, np.int32),
        "bytes": np.zeros(64, np.int8),
        "recs": np.zeros(2, STRUCT),
        "v": np.zeros(4, np.float32),
        "r": np.zeros((), STRUCT),
        "n": 3,
        "f": 1.0,
    }


def opencl(changed: dict[str, Any]) -> Any:
    fields: dict[str, Any] = {"source": OPENCL, "global_size": 64, "local_size": 32}
    taken = arguments() | {"c": ones(4), "t": 256}
    return tracegen.OpenCLWorkload(**_changed(fields, taken, changed))


def cuda(changed: dict[str, Any]) -> Any:
    pointers = np.empty(1, object)
    pointers[0] = ones()
    record = np.array((ones(), 1), np.dtype([("p", "O"), ("n", "i4")], align=True))
    fields: dict[str, Any] = {"source": CUDA, "grid": 2, "block": 32, "symbols": {}}
    if "pp[0]" in changed:
        pointers[0] = changed.pop("pp[0]")
    if "variable" in changed:
        fields["symbols"] = changed
        changed = {}
    taken = arguments() | {"pp": pointers, "q": record, "b": True}
    return tracegen.CudaWorkload(**_changed(fields, taken, changed))


def loopy(changed: dict[str, Any]) -> Any:
    types = [lp.GlobalArg("x", np.float32, shape=(64,)), lp.GlobalArg("y", np.int32, shape="n")]
    numbers = [lp.ValueArg("n", np.int32), lp.ValueArg("f", np.float32)]
    kernel = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "out[i] = f * x[y[i]] + z[i]",
        [*types, *numbers, ...],
        lang_version=(2018, 2),
    )
    kernel = lp.split_iname(kernel, "i", 32, outer_tag="g.0", inner_tag="l.0")
    taken = {"x": ones(), "y": np.zeros(64, np.int32), "z": ones(), "n": 64, "f": np.float32(2)}
    own = ("out",) if "out" in changed else ()
    return tracegen.Workload(**_changed({"kernel": kernel}, taken, changed, own))


def _changed(fields: Any, taken: Any, changed: Any, own: tuple[str, ...] = ()) -> dict[str, Any]:
    taken = {name: changed.get(name, taken.get(name)) for name in (*taken, *own)}
    others = {name: value for name, value in changed.items() if name not in taken}
    return {**fields, "arguments": taken, **others}


Maker = Callable[[dict[str, Any]], Any]
BOTH = ("x", "y", "bytes", "recs", "v", "r", "n", "f", *FIELDS)
PLACES: list[tuple[Maker, str]] = [
    *((opencl, name) for name in (*BOTH, "c", "t", "global_size", "local_size")),
    *((cuda, name) for name in (*BOTH, "pp", "pp[0]", "q", "b", "variable")),
    *((cuda, name) for name in ("grid", "block", "symbols", "shared_bytes")),
    *((loopy, name) for name in ("x", "y", "z", "n", "f", "out", "arguments", "kernel")),
    *((loopy, name) for name in ("source_file", "registers_per_item", "check")),
]


def outcome(make: Maker, place: str, value: Any, context: Any) -> str:
    """The error, "" where there is a trace."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tracegen.trace(make({place: value}), groups=2, context=context)
        except MemsimError as error:
            text = str(error)
            assert text.isprintable(), text
            assert 0 < len(text) < 600, text
            return text
    return ""


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("make", "place"),
    [pytest.param(make, place, marks=[needs_clang] * (make is cuda)) for make, place in PLACES],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_every_value(make: Maker, place: str, context: Any) -> None:
    outcomes = [
        outcome(make, place, value(), context if make is opencl else None)
        for value in VALUES.values()
    ]
    assert any(outcomes)


@pytest.mark.parametrize(
    ("make", "place", "value", "message"),
    [
        (opencl, "x", ">f4", "argument x of kernel k (__global float *) takes numbers in the order of"
                             " bytes of this computer, got an array of >f4"),
        (opencl, "recs", "pointer", "argument recs of kernel k (__global rec *) takes an array of numbers,"
                                    " got an array of [('a', 'O')]"),
        (opencl, "x", "silent", "argument x of kernel k (__global float *) takes a numpy array, got a value"
                                " of type Silent"),
        (opencl, "n", "5000 digits", "argument n of kernel k (int) takes an integer from -2147483648 to"
                                     " 2147483647, got a value of type int"),
        (opencl, "n", "nan", "argument n of kernel k (int) takes an integer, got nan"),
        (opencl, "f", "5000 digits", "argument f of kernel k (float) takes a number of type float32, got a"
                                     " value of type int"),
        (opencl, "t", "pair", "argument t of kernel k (__local float *) takes a number of bytes of local"
                              " memory, got an array of [('a', '<f4'), ('b', '<i4')]"),
        (opencl, "x", "loud", "argument x of kernel k (__global float *) takes a numpy array, got"
                              r" a\nb\x1b[31m"),
        (opencl, "global_size", "fraction", "global_size must be whole numbers up to 4611686018427387903,"
                                            " one for each axis, got Fraction(1, 3)"),
        (opencl, "arguments", "generator", "arguments must be a mapping from name to value, or a list of"
                                           " values, got <generator object <lambda>.<locals>.<..."),
        (opencl, "registers_per_item", "loud", "registers_per_item must be a whole number up to 67108864,"
                                               r" got a\nb\x1b[31m"),
        (loopy, "x", "1.5", "argument x of kernel loopy_kernel takes a numpy array, got 1.5"),
        (loopy, "n", "repeated without end", "argument n of kernel loopy_kernel takes a number, got an array"
                                             " of float32"),
        (loopy, "z", "O", "argument z of kernel loopy_kernel takes an array of numbers, got an array of object"),
        (loopy, "arguments", "list", "arguments must be a mapping from name to value, got [1.0, 1.0, 1.0,"
                                     " 1.0, 1.0, 1.0, 1.0, 1..."),
    ],
)  # fmt: skip
def test_messages(make: Maker, place: str, value: str, message: str, context: Any) -> None:
    assert outcome(make, place, VALUES[value](), context if make is opencl else None) == message


@needs_clang
@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("x", ">f4", "argument x of kernel k takes numbers in the order of bytes of this computer, got an"
                     " array of >f4"),
        ("n", "loud nan", r"argument n of kernel k takes an integer, got a\nb\x1b[31m"),
        ("variable", "set", "variable variable of kernel k takes a number, got {1}"),
        ("variable", "arrays", "variable variable has 16 bytes, its value has 512"),
        ("variable", "repeated without end", "variable variable has 16 bytes, its value has 4398046511104"),
        ("grid", "64", ""),
    ],
)  # fmt: skip
def test_messages_of_cuda(place: str, value: str, message: str) -> None:
    ended = outcome(cuda, place, VALUES[value](), None)
    assert ended == message or (not message and "out of bounds" in ended)


def test_launches_beyond_64_bits(context: Any) -> None:
    workload = opencl({"global_size": (1 << 41, 1 << 41), "local_size": (32, 32)})
    with pytest.raises(KernelError, match=r"has 4722366482869645213696 work-groups; at most"):
        tracegen.trace(workload, context=context)
