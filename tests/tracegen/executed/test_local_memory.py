"""Bank conflicts in traces of OpenCL C and Loopy, against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

import memsim
import tracegen
from experiments.kernels import transpose
from memsim.trace import Trace
from tests.support.compilers import needs_amd, needs_nvidia

MACHINES = [pytest.param("a100", marks=needs_nvidia), pytest.param("mi250x", marks=needs_amd)]
KERNEL = """
#define I get_local_id(0)
#define J get_local_id(1)
#define WAIT barrier(CLK_LOCAL_MEM_FENCE)
__kernel void k(__global const float *x, __global float *y) { %s }
"""
TRANSPOSED = """
__local float t[32][32 + PAD];
t[I][J] = x[J * 32 + I];
WAIT;
y[J * 32 + I] = t[J][I];
"""
MERGED = """
__local float t[4096];
for (int k = 0; k < 4; ++k) t[k * 1024 + J * 32 + I] = x[k * 1024 + J * 32 + I];
WAIT;
float sum = 0;
for (int k = 0; k < 4; ++k) sum += t[4 * (J * 32 + I) + k] * (k + 1);
y[J * 32 + I] = sum;
"""
UNKNOWN = """
__local float t[1024];
t[32 * (int) x[I] + J] = x[J];
WAIT;
y[J * 32 + I] = t[I];
"""

REVERSED = """
__local int t[1024];
int i = J * 32 + I;
t[i] = i;
mem_fence(CLK_LOCAL_MEM_FENCE);
y[i] = x[t[i ^ 31]];
"""


def work(workload: tracegen.Workload | tracegen.OpenCLWorkload, machine: str) -> dict[str, float]:
    """Kind -> machine instructions of all sub-groups of one group, and `notes` beside them."""
    return counts(tracegen.trace(workload, memsim.load_machine(machine), groups=1))


def counts(trace: Trace) -> dict[str, float]:
    assert trace.work is not None
    assert trace.work_table is not None
    sums = np.asarray(trace.work_table)[np.asarray(trace.work)].sum(axis=0)
    return dict(zip(trace.work_kinds, sums.tolist(), strict=True))


def opencl(body: str) -> tracegen.OpenCLWorkload:
    x = np.arange(1 << 13, dtype=np.float32)
    return tracegen.OpenCLWorkload(
        source=KERNEL % body, arguments=[x, x.copy()], global_size=(32, 32), local_size=(32, 32)
    )


@pytest.mark.weekly(2)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("pad", [0, 2])
def test_a_column_has_as_many_conflicts_as_its_pitch_has_factors_of_the_banks(
    machine: str, pad: int
) -> None:
    """32 words of a column lie in 32 / gcd(32 + pad, 32) banks. A pass serves 32 lanes, and each of 1024 work-items stores
    once; rows have no conflicts."""
    found = work(opencl(TRANSPOSED.replace("PAD", str(pad))), machine)
    n_subgroup = 1024 // memsim.load_machine(machine).subgroup_size
    assert found["local_32"] == 2 * n_subgroup
    assert found["conflict"] == 1024 / 32 * (math.gcd(32 + pad, 32) - 1)


@needs_nvidia
@pytest.mark.parametrize(("dtype", "passes"), [("float32", 31), ("float64", 2 * 15)])
def test_a_loopy_tile(dtype: str, passes: int) -> None:
    """A row of the tile has 32 elements, or 33; those of 8 bytes go in two portions of 16 lanes."""
    added = [
        work(transpose.tiled(n=64, tile=32, dtype=dtype, pad=pad), "a100")["conflict"]  # type: ignore[arg-type]
        for pad in (False, True)
    ]
    assert added == [32 * passes, 0]


@needs_nvidia
def test_merged_loads_have_the_conflicts_of_their_width() -> None:
    """Four loads 16 bytes apart would have three conflicts each; the compiler makes one of 16 bytes, which has none."""
    found = work(opencl(MERGED), "a100")
    assert (found["local_128"], found["conflict"]) == (32, 0)


@needs_nvidia
def test_addresses_that_depend_on_data_are_known() -> None:
    """x[I] is I: lanes store 32 words apart, into one bank, in each of 32 sub-groups. The note names the line."""
    trace = tracegen.trace(opencl(UNKNOWN), "a100")
    assert counts(trace)["conflict"] == 32 * 31
    (note,) = trace.provenance["compiler"]["notes"]
    assert note == "Bank conflicts of shared memory add passes to each access: 31 on line 7."


@pytest.mark.parametrize("machine", MACHINES)
def test_lanes_run_in_lockstep(machine: str) -> None:
    """A lane reads what another one of its sub-group has written, with no barrier between: each sub-group requests its own
    words, and no others, which stale indices would."""
    trace = tracegen.trace(opencl(REVERSED), machine)
    (load,) = (k for k, site in enumerate(trace.sites) if site.array == "x")
    sectors = np.diff(trace.granule_offset)[trace.site == load]
    assert set(sectors.tolist()) == {memsim.load_machine(machine).subgroup_size // 8}
