"""An access must stay in the array from which its address derives, though another array may lie where it goes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.errors import KernelError
from memsim.trace import Trace
from tests.support.compilers import needs_amd, needs_nvidia

MACHINES = [
    pytest.param("a100", marks=needs_nvidia, id="sm_80"),
    pytest.param("mi250x", marks=needs_amd, id="gfx90a"),
]
SIGNATURES = {
    "cuda": "__global__ void k(const float *x, float *y, const int *index, const long *far, float *z, int n)",
    "opencl": "__kernel void k(__global const float *x, __global float *y, __global const int *index,"
    " __global const long *far, __global float *z, int n)",
}
ITEMS = {"cuda": "threadIdx.x", "opencl": "get_local_id(0)"}


def traced(language: str, machine: str, body: str, **changed: Any) -> Trace:
    """One group of 64 work-items; x, y, index, far and z have 64 elements each and lie side by side, without gaps."""
    text = f"{SIGNATURES[language]} {{ int i = {ITEMS[language]}; {body} }}"
    arguments: dict[str, Any] = {
        "x": np.zeros(64, np.float32),
        "y": np.zeros(64, np.float32),
        "index": np.arange(64, dtype=np.int32),
        "far": np.arange(64),
        "z": np.zeros(64, np.float32),
        "n": 64,
    }
    arguments |= changed
    workload: Any
    if language == "cuda":
        workload = tracegen.CudaWorkload(source=text, arguments=arguments, grid=1, block=64)
    else:
        workload = tracegen.OpenCLWorkload(
            source=text, arguments=arguments, global_size=64, local_size=64
        )
    return tracegen.trace(workload, machine)


WRONG = {
    "sum": ("z[i] = x[i + n];", {}, r"x\[i \+ n\]", "index 64 in array x", "load", 0),
    "before": ("y[i - 1] = 1;", {}, r"y\[i - 1\]", "index -1 in array y", "store", 0),
    "far": ("z[i] = x[far[i] * 2];", {}, r"x\[far\[i\] \* 2\]", "index 64 in array x", "load", 32),
    "gather": (
        "z[i] = x[index[i]];",
        {"index": np.where(np.arange(64) == 5, 100, 0).astype(np.int32)},
        r"x\[index\[i\]\]",
        "index 100 in array x",
        "load",
        5,
    ),
    "scatter": ("y[index[i] + 1] = i;", {}, r"y\[index\[i\] \+ 1\]", "index 64 in array y", "store", 63),
    "guarded": (
        "float s = x[i]; if (i > 9) y[(long)i * n - n] = s;",
        {},
        r"y\[\(long\)i \* n - n\]",
        "index 576 in array y",
        "store",
        10,
    ),
    "loop": (
        "float s = 0; for (int k = 0; k <= n; k++) s += x[k]; z[i] = s;",
        {},
        r"x\[k\]",
        "index 64 in array x",
        "load",
        0,
    ),
}  # fmt: skip
"""Body, arguments, and what is said: the access, where, its direction, and the first work-item that leaves the array."""


@pytest.mark.weekly(3)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("language", SIGNATURES)
@pytest.mark.parametrize("case", WRONG)
def test_an_access_that_lands_in_another_array_is_an_error(language, machine, case):
    body, changed, access, where, direction, item = WRONG[case]
    with pytest.raises(KernelError) as caught:
        traced(language, machine, body, **changed)
    name = f"{'store ' if direction == 'store' else ''}{access}"
    bytes_ = r"\d+"  # several elements where the compiler joined loads
    assert caught.match(
        rf":1: access {name} is out of bounds: {where} of shape \(64,\) \({bytes_} bytes, {direction}\)"
        rf" \(work-item {item} of group 0\)$"
    )


RIGHT = {
    "chosen": "float *p = i & 1 ? y : z; p[i] = 1;",
    "chosen by a branch": "float *p = y; if (index[i] > 9) { z[i] = 2; p = z; } p[i ^ 1] = 1;",
    "difference": "z[i] = x[(y - x) + i];",
    "compared": "const float *p = x < y ? x : y; z[i] = p[i];",
    "end": "z[i] = 0; for (const float *p = x; p != x + n; p++) z[i] += *p;",
    "walked": "float *p = y + n; z[i] = p[-1 - i];",
}


@pytest.mark.weekly(3)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("language", SIGNATURES)
@pytest.mark.parametrize("case", RIGHT)
def test_what_stays_in_its_array_or_may_be_in_several_is_none(language, machine, case):
    body = RIGHT[case]
    if language == "opencl":
        for kind in ("const float *p", "float *p"):
            body = body.replace(f" {kind}" if kind == "float *p" else kind, f" __global {kind}")
            body = body.replace("const __global", "__global const")
        body = body if body.startswith((" ", "_", "z")) else f"__global {body}"
    trace = traced(language, machine, body)
    assert {one.array for one in trace.sites} & {"y", "z"}


@pytest.mark.weekly(3)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("language", SIGNATURES)
def test_an_array_may_be_two_arguments_and_so_may_overlapping_views(language, machine):
    whole = np.zeros(128, np.float32)
    traced(language, machine, "z[i] = x[i] + y[i];", x=whole, y=whole)
    traced(language, machine, "z[i] = x[i] + y[i + 32];", x=whole[:96], y=whole[32:])


@needs_nvidia
def test_pointers_in_a_structure_are_followed():
    text = "struct S { int n; float *x, *y; }; __global__ void k(S s) { s.x[threadIdx.x + s.n] = s.y[threadIdx.x]; }"
    x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
    kind = np.dtype([("n", np.int32), ("x", object), ("y", object)], align=True)

    def run(n: int) -> Trace:
        arguments = {"s": np.array((n, x, y), kind)}
        workload = tracegen.CudaWorkload(source=text, arguments=arguments, grid=1, block=64)
        return tracegen.trace(workload, "a100")

    assert {one.array for one in run(0).sites} == {"s.x", "s.y"}
    with pytest.raises(KernelError, match=r"index 64 in array s\.x of shape"):
        run(1)
