"""Bank conflicts in traces of OpenCL C and Loopy: against closed forms, and runs of the same kernel in CUDA C++."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest

import calib
import memsim
import tracegen
from calib.prediction import blocks_from_trace
from experiments.kernels import transpose
from memsim.trace import Trace
from tests.support.compilers import needs_amd, needs_nvidia
from tests.support.cuda_kernels import needs_clang, workload

MACHINES = [pytest.param("a100", marks=needs_nvidia), pytest.param("mi250x", marks=needs_amd)]

OPENCL = """
#define LOCAL __local
#define I get_local_id(0)
#define J get_local_id(1)
#define WAIT barrier(CLK_LOCAL_MEM_FENCE)
#define V4(a, b, c, d) (float4)(a, b, c, d)
__kernel void k(__global const float *x, __global float *y, const int n) { %s }
"""
CUDA = """
#define LOCAL
#define __local __shared__
#define I threadIdx.x
#define J threadIdx.y
#define WAIT __syncthreads()
#define V4 make_float4
#define __kernel
__global__ void k(const float *x, float *y, const int n) { %s }
"""

TRANSPOSED = """
__local float t[32][32 + PAD];
t[I][J] = x[J * 32 + I];
WAIT;
y[J * 32 + I] = t[J][I];
"""
HALVES = """
__local float s[2048];
int at = J * 32 + I;
s[2 * at] = x[at];
WAIT;
for (int step = 512; step > 0; step >>= 1) {
  if (at < step) s[2 * at] += s[2 * (at + step)];
  WAIT;
}
if (at == 0) y[0] = s[0];
"""
WIDE = """
__local float4 t[32][33];
t[I][J] = V4(x[I], x[J], x[I + 1], x[J + 1]);
WAIT;
float4 v = t[J][I];
y[J * 32 + I] = v.x + v.y + v.z + v.w;
"""
DOUBLE = """
__local double t[2080];
t[2 * (J * 32 + I)] = x[I];
WAIT;
y[J * 32 + I] = t[(J * 33 + I) * 2 % 2048];
"""
MERGED = """
__local float t[4096];
for (int k = 0; k < 4; ++k) t[k * 1024 + J * 32 + I] = x[k * 1024 + J * 32 + I];
WAIT;
float sum = 0;
for (int k = 0; k < 4; ++k) sum += t[4 * (J * 32 + I) + k] * (k + 1);
y[J * 32 + I] = sum;
"""
LOOPS = """
__local float t[32][32];
t[J][I] = x[J * 32 + I];
WAIT;
float sum = 0;
for (int k = 0; k < n; ++k) {
  if (k % 3 == 0) continue;
  sum += t[I][k] + t[k][J];
}
y[J * 32 + I] = sum;
"""


def work(trace: Trace) -> dict[str, float]:
    """Kind -> machine instructions of all sub-groups."""
    assert trace.work is not None
    assert trace.work_table is not None
    sums = np.asarray(trace.work_table)[np.asarray(trace.work)].sum(axis=0)
    return dict(zip(trace.work_kinds, sums.tolist(), strict=True))


def conflicts(trace: Trace) -> dict[str, float]:
    """The bits that local memory's instructions access, and the passes that conflicts add."""
    found: defaultdict[str, float] = defaultdict(float)
    for kind, total in work(trace).items():
        if kind == "conflict" or kind.startswith("local_"):
            found["conflict" if kind == "conflict" else "bits"] += (
                total if kind == "conflict" else total * int(kind[6:])
            )
    return dict(found)


def in_opencl(body: str, groups: int = 1) -> tracegen.OpenCLWorkload:
    x = np.ones(1 << 13, np.float32)
    return tracegen.OpenCLWorkload(
        source=OPENCL % body,
        arguments=[x, x.copy(), 30],
        global_size=(32 * groups, 32),
        local_size=(32, 32),
    )


def in_cuda(body: str) -> tracegen.CudaWorkload:
    x = np.ones(1 << 13, np.float32)
    return workload(CUDA % body, x, x.copy(), 30, block=(32, 32))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("pad", [0, 1, 2, 16])
def test_a_column_has_as_many_conflicts_as_its_pitch_has_factors_of_the_banks(
    machine: str, pad: int
) -> None:
    """32 rows of 32 + pad words: their words lie in 32 / gcd(32 + pad, 32) banks. Rows have no conflicts."""
    of = memsim.load_machine(machine)
    trace = tracegen.trace(in_opencl(TRANSPOSED.replace("PAD", str(pad))), of)
    blocks = [block.operations for block in blocks_from_trace(trace).blocks]
    found = [block.get("issued_conflict", 0.0) for block in blocks if "issued_local_32" in block]
    assert found == [math.gcd(32 + pad, 32) - 1, 0.0]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_loopy_tile(machine: str, dtype: str) -> None:
    """A row of the tile has 32 elements, or 33; those of 8 bytes go in two portions of 16 lanes."""
    of = memsim.load_machine(machine)
    added = {}
    for pad in (False, True):
        kernel = transpose.tiled(n=64, tile=32, dtype=dtype, pad=pad)  # type: ignore[arg-type]
        added[pad] = conflicts(tracegen.trace(kernel, of, groups=1))["conflict"]
    n_subgroup = 1024 // of.subgroup_size
    passes = 31 if dtype == "float32" else 2 * 15
    assert added == {False: n_subgroup * passes, True: 0.0}


@needs_clang
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(TRANSPOSED.replace("PAD", "0"), id="32 words"),
        pytest.param(TRANSPOSED.replace("PAD", "4"), id="36 words"),
        pytest.param(HALVES, id="halves"),
        pytest.param(WIDE, id="four words"),
        pytest.param(DOUBLE, id="two words"),
        pytest.param(LOOPS, id="loops"),
    ],
)
def test_a_run_of_the_same_kernel_in_cuda_has_the_same_conflicts(machine: str, body: str) -> None:
    of = memsim.load_machine(machine)
    made = in_opencl(body), in_cuda(body)
    ours, theirs = (conflicts(tracegen.trace(one, of)) for one in made)
    assert ours["bits"] == theirs["bits"]
    assert ours["conflict"] == pytest.approx(theirs["conflict"], rel=1e-9)


@needs_nvidia
@needs_clang
@pytest.mark.parametrize("made", [in_opencl(MERGED), in_cuda(MERGED)], ids=["OpenCL C", "CUDA"])
def test_merged_loads_have_the_conflicts_of_their_width(
    made: tracegen.OpenCLWorkload | tracegen.CudaWorkload,
) -> None:
    """Four loads 16 bytes apart would have three conflicts each; one of 16 bytes has none."""
    trace = tracegen.trace(made, memsim.load_machine("a100"))
    assert work(trace)["local_128"] == 32
    assert conflicts(trace)["conflict"] == 0


@needs_nvidia
def test_conflicts_take_the_time_of_their_passes() -> None:
    """Each of the 32 sub-groups of a group stores once through its column: 31 passes of the L1's pipe."""
    machine = memsim.load_machine("a100")
    floors = []
    for pad in (0, 1):
        made = in_opencl(TRANSPOSED.replace("PAD", str(pad)), groups=machine.n_cores)
        prediction = calib.predict(made, [tracegen.trace(made, machine)], machine, trials=2)
        assert not any("bank" in note for note in prediction.notes)
        floors.append({k: float(v.mean()) for k, v in prediction.timing.floors_s.items()})
    cycles = 31 * 32 * machine.subgroup_size / machine.throughputs["local_lanes"]
    assert floors[0]["L1"] - floors[1]["L1"] == pytest.approx(cycles / machine.clock_hz, rel=1e-6)
    assert floors[0]["arithmetic"] == pytest.approx(floors[1]["arithmetic"], rel=0.2)


@needs_nvidia
def test_a_note_names_the_arrays_whose_conflicts_are_not_known() -> None:
    body = """
    __local float t[1024], u[1024];
    t[(int) x[J * 32 + I]] = 0;
    u[2 * (J * 32 + I) % 1024] = 0;
    WAIT;
    y[J * 32 + I] = t[I] + u[J];
    """
    machine = memsim.load_machine("a100")
    made = in_opencl(body)
    trace = tracegen.trace(made, machine)
    assert conflicts(trace)["conflict"] == 32
    (note,) = calib.predict(made, [trace], machine, trials=2).notes
    assert note.startswith("Accesses to local memory (t) count as free of bank conflicts")
