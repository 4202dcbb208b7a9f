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
COMPILED = [
    pytest.param("cuda", "a100", marks=needs_nvidia, id="sm_80"),
    pytest.param("opencl", "a100", marks=needs_nvidia, id="sm_80, OpenCL"),
    pytest.param("cuda", "mi250x", marks=needs_amd, id="gfx90a"),
]
PARAMETERS = (
    "G const float *x, G float *y, G const int *index, G const long *far, G float *z, int n"
)
HEADS = {
    "cuda": f"#define G\n__global__ void k({PARAMETERS}) {{ int i = threadIdx.x;",
    "opencl": f"#define G __global\n__kernel void k({PARAMETERS}) {{ int i = get_local_id(0);",
}


def traced(language: str, machine: str, body: str, **changed: Any) -> Trace:
    """One group of 64 work-items; x, y, index, far and z have 64 elements each and lie side by side, without gaps."""
    text = f"{HEADS[language]}\n{body} }}"
    arguments: dict[str, Any] = {
        "x": np.zeros(64, np.float32),
        "y": np.zeros(64, np.float32),
        "index": np.arange(64, dtype=np.int32),
        "far": np.arange(64),
        "z": np.zeros(64, np.float32),
        "n": 64,
        **changed,
    }
    given: Any = {"source": text, "arguments": arguments}
    if language == "cuda":
        return tracegen.trace(tracegen.CudaWorkload(grid=1, block=64, **given), machine)
    launched = tracegen.OpenCLWorkload(global_size=64, local_size=64, **given)
    return tracegen.trace(launched, machine)


FAR = np.where(np.arange(64) == 5, 100, 0).astype(np.int32)
WRONG: list[tuple[str, dict[str, Any], str, str, int]] = [
    ("z[i] = x[i + n];", {}, r"x\[i \+ n\]", "index 64 in array x", 0),
    ("y[i - 1] = 1;", {}, r"store y\[i - 1\]", "index -1 in array y", 0),
    ("z[i] = x[far[i] * 2];", {}, r"x\[far\[i\] \* 2\]", "index 64 in array x", 32),
    ("z[i] = x[index[i]];", {"index": FAR}, r"x\[index\[i\]\]", "index 100 in array x", 5),
    ("y[index[i] + 1] = i;", {}, r"store y\[index\[i\] \+ 1\]", "index 64 in array y", 63),
    ("float s = x[i]; if (i > 9) y[(long)i * n - n] = s;", {}, r"store y\[\(long\)i \* n - n\]", "index 576 in array y", 10),
    ("float s = 0; for (int k = 0; k <= n; k++) s += x[k]; z[i] = s;", {}, r"x\[k\]", "index 64 in array x", 0),
]  # fmt: skip
"""Statements, arguments, and what is said: the access, where, and the first work-item that leaves the array."""


@pytest.mark.weekly(3)
@pytest.mark.parametrize(("language", "machine"), COMPILED)
@pytest.mark.parametrize(("body", "changed", "access", "where", "item"), WRONG)
def test_an_access_that_lands_in_another_array_is_an_error(
    language: str, machine: str, body: str, changed: dict[str, Any], access: str, where: str, item: int
) -> None:  # fmt: skip
    with pytest.raises(KernelError) as caught:
        traced(language, machine, body, **changed)
    direction = "store" if access.startswith("store") else "load"
    assert caught.match(  # several elements where the compiler joined loads
        rf":3: access {access} is out of bounds: {where} of shape \(64,\) \(\d+ bytes, {direction}\)"
        rf" \(work-item {item} of group 0\)$"
    )


RIGHT = """
float s = 0;
{ G float *p = i & 1 ? y : z; p[i] = 1; }
{ G float *p = y; if (index[i] > 9) { z[i] = 2; p = z; } p[i ^ 1] = 1; }
s += x[(y - x) + i];
{ G const float *p = x < y ? x : y; s += p[i]; }
for (G const float *p = x; p != x + n; p++) s += *p;
{ G float *p = y + n; s += p[-1 - i]; }
z[i] = s;
"""


@pytest.mark.parametrize(("language", "machine"), COMPILED)
def test_what_stays_in_its_array_or_may_be_in_several_is_none(language: str, machine: str) -> None:
    """Pointers that are chosen, by a branch too; differences, comparisons and ends of arrays."""
    trace = traced(language, machine, RIGHT)
    assert {one.array for one in trace.sites} >= {"x", "y", "z"}


@pytest.mark.parametrize("machine", MACHINES)
def test_an_array_may_be_two_arguments_and_so_may_overlapping_views(machine: str) -> None:
    whole = np.zeros(128, np.float32)
    for x, y, n in ((whole, whole, 0), (whole[:96], whole[32:], 32)):
        traced("cuda", machine, "z[i] = x[i] + y[i + n];", x=x, y=y, n=n)


@needs_nvidia
def test_pointers_in_a_structure_are_followed() -> None:
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
