"""Conflicts between the banks of shared memory, against closed forms."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import calib
import memsim
import tracegen
from calib.prediction import blocks_from_trace
from calib.prediction.machine_pipes import load_store_cycles
from tests.support.compilers import needs_nvidia
from tests.support.cuda_kernels import needs_clang, workload
from tracegen.execution.banks import BANKS, added_passes, words_a_lane

pytestmark = needs_clang
MACHINES = [pytest.param("a100", marks=needs_nvidia), "mi250x"]

TRANSPOSED = """
__global__ void k(const float *x, float *y) {
  __shared__ float t[32][32 + PAD];
  int i = threadIdx.x, j = threadIdx.y;
  t[i][j] = x[j * 32 + i];
  __syncthreads();
  y[j * 32 + i] = t[j][i];
}
"""
STRIDED = """
__global__ void k(const TYPE *x, TYPE *y) {
  extern __shared__ TYPE t[];
  int i = threadIdx.x;
  t[i] = x[i];
  __syncthreads();
  y[i] = t[i * STRIDE % 64];
}
"""


def added(source: str, machine: str, options: list[str], **launch: object) -> list[float]:
    """The passes that conflicts add, of each basic block with an access to shared memory."""
    x = np.ones(4096, np.float64 if "-DTYPE=double" in options else np.float32)
    made = workload(source, x, x.copy(), build_options=options, **launch)
    trace = tracegen.trace(made, memsim.load_machine(machine))
    blocks = [block.operations for block in blocks_from_trace(trace).blocks]
    local = ("issued_local_32", "issued_local_64", "issued_local_128")
    return [b.get("issued_conflict", 0.0) for b in blocks if any(name in b for name in local)]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("pad", [0, 1, 2, 16])
def test_a_column_has_as_many_conflicts_as_its_pitch_has_factors_of_the_banks(
    machine: str, pad: int
) -> None:
    """32 rows of 32 + pad words: their words lie in 32 / gcd(32 + pad, 32) banks. Rows have no conflicts."""
    passes = added(TRANSPOSED, machine, [f"-DPAD={pad}"], block=(32, 32))
    assert passes == [math.gcd(32 + pad, 32) - 1, 0.0]


@needs_nvidia
@pytest.mark.parametrize("pad", [0, 1, 16])
def test_a_report_names_the_line_and_the_passes(pad: int, tmp_path: Path) -> None:
    machine = memsim.load_machine("a100")
    x = np.ones(1024, np.float32)
    made = workload(TRANSPOSED, x, x.copy(), build_options=[f"-DPAD={pad}"], block=(32, 32))
    replay = memsim.replay(tracegen.trace(made, machine), machine, trials=2)
    said = "Bank conflicts of shared memory add passes to each access"
    added = math.gcd(32 + pad, 32) - 1
    page = replay.to_html(tmp_path / "page.html").read_text()
    assert (f"{said}: {added} on line 5." in page) == (added > 0)
    assert (said in page) == (added > 0)


@needs_nvidia
@pytest.mark.parametrize(
    ("kind", "stride", "expected"),
    [
        ("float", 1, 0.0),
        ("float", 2, 1.0),  # two words a bank
        ("float", 0, 0.0),  # one word for all lanes
        ("double", 1, 0.0),  # two portions of 16 lanes, each without conflicts
        ("double", 2, 2.0),  # in each portion two words a bank
        ("float", 32, 1.0),  # the strides wrap around: words 0 and 32, both in bank 0
        ("unsigned char", 4, 0.0),
    ],
)
def test_strides(kind: str, stride: int, expected: float) -> None:
    options = [f"-DTYPE={kind}", f"-DSTRIDE={stride}"]
    assert added(STRIDED, "a100", options, shared_bytes=512)[-1] == expected


@needs_nvidia
def test_one_word_for_all_lanes_takes_half_as_long() -> None:
    """A load of 8 bytes a lane: where all lanes load the same, they are paired."""
    machine, x = memsim.load_machine("a100"), np.ones(4096)
    issued = []
    for stride in (0, 1):
        options = ["-DTYPE=double", f"-DSTRIDE={stride}"]
        made = workload(STRIDED, x, x.copy(), build_options=options, shared_bytes=512)
        operations = blocks_from_trace(tracegen.trace(made, machine)).blocks[-1].operations
        issued.append({k: n for k, n in operations.items() if k.endswith("_64")})
        assert load_store_cycles(machine, operations) == (1 + stride) * 1.0
    assert issued == [{"issued_paired_64": 1.0}, {"issued_local_64": 1.0}]


LANES = np.arange(32)


@pytest.mark.parametrize(
    ("words", "size_bytes", "expected"),
    [
        (0 * LANES, 4, 0),
        (0 * LANES, 8, -1),
        (0 * LANES, 16, -2),
        (LANES // 2 * 4, 16, -2),  # lanes n and n ^ 1
        ((LANES // 4 * 2 + LANES % 2) * 2, 8, -1),  # lanes n and n ^ 2
        ((LANES // 4 * 2 + LANES % 2) * 4, 16, -2),
        (LANES % 4 * 4, 16, 0),  # four lanes apart: the example of NVIDIA's engineer
        (LANES // 4 * 32, 16, -2 + 2 * 3),  # paired, but in each half four words in one bank
        (LANES * 4, 16, 0),
    ],
)
def test_lanes_with_the_same_words_are_served_together(
    words: np.ndarray, size_bytes: int, expected: int
) -> None:
    """As many passes as a sub-group of 64 lanes has in 32, which are not paired, where none are."""
    buffers = np.zeros(BANKS, np.int64), np.zeros(BANKS, np.int64)
    noted = (1 + 4 * words.astype(np.uint32))[None]
    assert added_passes(noted, words_a_lane(size_bytes), 32, *buffers) == (expected, 1)
    unpaired, _ = added_passes(noted, words_a_lane(size_bytes), 64, *buffers)
    assert unpaired >= 0
    # A lane that accesses nothing has no partner.
    noted[0, 5] = 0
    assert added_passes(noted, words_a_lane(size_bytes), 32, *buffers)[0] <= max(expected, 0)


@pytest.mark.parametrize(
    ("stride_bytes", "size_bytes", "expected"),
    [
        (4, 4, 0),
        (4, 8, 64 - 4),  # 64 lanes one after another, instead of 4 passes of 16
        (4, 12, 64 - 8),  # takes as long as 16 bytes a lane: 8 passes of 8
        (8, 8, 0),
        (16, 16, 0),
        (0, 8, 0),  # one word for all lanes
    ],
)
def test_misaligned_lanes_are_served_one_after_another(
    stride_bytes: int, size_bytes: int, expected: int
) -> None:
    noted = (1 + 4 + stride_bytes * np.arange(64, dtype=np.uint32))[None]
    buffers = np.zeros(BANKS, np.int64), np.zeros(BANKS, np.int64)
    assert added_passes(noted, words_a_lane(size_bytes), 64, *buffers) == (expected, 1)


@needs_nvidia
def test_conflicts_take_time() -> None:
    """A copy through columns that conflict is predicted to take longer, and only the L1 explains it."""
    floors = []
    for pad in (0, 1):
        x = np.ones(1 << 16, np.float32)
        made = workload(
            TRANSPOSED, x, x.copy(), build_options=[f"-DPAD={pad}"], block=(32, 32), grid=64
        )
        machine = memsim.load_machine("a100")
        prediction = calib.predict(made, [tracegen.trace(made, machine)], machine, trials=2)
        floors.append({k: float(v.mean()) for k, v in prediction.timing.floors_s.items()})
    assert floors[0]["L1"] > 5 * floors[1]["L1"]
    assert floors[0]["arithmetic"] == pytest.approx(floors[1]["arithmetic"], rel=0.2)
