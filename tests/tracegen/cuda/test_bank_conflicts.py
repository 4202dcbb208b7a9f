"""Conflicts between the banks of shared memory, against closed forms and counts by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import memsim
import tracegen
from memsim.trace import Trace
from tests.support.cuda_kernels import needs_clang, workload
from tracegen.execution.banks import BANKS, added_passes

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


def words_a_lane(size_bytes: int) -> int:
    """The words that an access takes of each lane: a power of two, at most 32."""
    return min(1 << max(size_bytes // 4 - 1, 0).bit_length(), BANKS)


def totals(trace: Trace) -> dict[str, float]:
    """Kind -> what all warps issue."""
    assert trace.work is not None
    assert trace.work_table is not None
    sums = np.asarray(trace.work_table)[np.asarray(trace.work)].sum(axis=0)
    return dict(zip(trace.work_kinds, sums.tolist(), strict=True))


@pytest.mark.weekly(2)
@needs_clang
@pytest.mark.parametrize("pad", [0, 1, 2, 16])
def test_a_column_has_as_many_conflicts_as_its_pitch_has_factors_of_the_banks(
    pad: int, tmp_path: Path
) -> None:
    """32 rows of 32 + pad words: their words lie in 32 / gcd(32 + pad, 32) banks. Rows have no conflicts."""
    machine, x = memsim.load_machine("a100"), np.ones(1024, np.float32)
    made = workload(TRANSPOSED, x, x.copy(), build_options=[f"-DPAD={pad}"], block=(32, 32))
    trace = tracegen.trace(made, machine)
    added = math.gcd(32 + pad, 32) - 1
    assert totals(trace)["conflict"] == 32 * added
    said = "Bank conflicts of shared memory add passes to each access"
    page = memsim.replay(trace, machine, trials=2).to_html(tmp_path / "page.html").read_text()
    assert (f"{said}: {added} on line 5." in page) == (said in page) == (added > 0)


@pytest.mark.weekly(2)
@needs_clang
@pytest.mark.parametrize(
    ("kind", "stride", "expected"),
    [
        ("float", 1, {"local_32": 1}),
        ("float", 2, {"local_32": 1, "conflict": 1}),  # two words a bank
        ("float", 0, {"local_32": 1}),  # one word for all lanes
        ("double", 1, {"local_64": 1}),  # two portions of 16 lanes, each without conflicts
        ("double", 2, {"local_64": 1, "conflict": 2}),  # in each portion two words a bank
        ("double", 0, {"paired_64": 1}),  # all lanes load the same: half as long
        ("float", 32, {"local_32": 1, "conflict": 1}),  # strides wrap around: words 0 and 32
        ("unsigned char", 4, {"local_32": 1}),
    ],
)
def test_strides(kind: str, stride: int, expected: dict[str, float]) -> None:
    options = [f"-DTYPE={kind}", f"-DSTRIDE={stride}"]
    x = np.ones(64, {"float": "f4", "double": "f8", "unsigned char": "u1"}[kind])
    made = workload(STRIDED, x, x.copy(), build_options=options, shared_bytes=512)
    found = totals(tracegen.trace(made, "a100"))
    stored = "local_64" if kind == "double" else "local_32"
    found[stored] -= 1  # the store of one element a lane
    found["wide"] -= {"float": 1, "double": 2, "unsigned char": 0}[kind]
    assert found["wide"] == {("float", 1): 1, ("double", 1): 2}.get((kind, stride), 0)
    kinds = {"local_32", "local_64", "local_128", "paired_64", "paired_128", "conflict"}
    assert {k: n for k, n in found.items() if n and k in kinds} == expected


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
    buffers = np.zeros(BANKS, np.int64), np.zeros(BANKS, np.int64), False
    noted = (1 + 4 * words.astype(np.uint32))[None]
    assert added_passes(noted, words_a_lane(size_bytes), 32, *buffers)[0] == expected
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
    buffers = np.zeros(BANKS, np.int64), np.zeros(BANKS, np.int64), False
    assert added_passes(noted, words_a_lane(size_bytes), 64, *buffers)[0] == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [(0 * LANES, 31), (LANES % 4, 7), (LANES, 0), (LANES % 4 * 32, 31), (LANES // 2 * 32, 31)],
)
def test_atomics_on_one_word_wait_for_one_another(words: np.ndarray, expected: int) -> None:
    """As many passes as lanes that one bank serves, whether their words differ or not."""
    buffers = np.zeros(BANKS, np.int64), np.zeros(BANKS, np.int64), True
    noted = (1 + 4 * words.astype(np.uint32))[None]
    assert added_passes(noted, 1, 32, *buffers)[0] == expected


@pytest.mark.parametrize(
    ("words", "size_bytes", "expected"),
    [
        (LANES, 4, 1),
        (0 * LANES, 4, 0),
        (LANES // 2, 4, 0),  # 16 words
        (LANES * 16 // 31, 4, 1),  # 17 words
        (LANES * 2, 4, 0),  # two passes of 16 words
        (LANES * 4, 16, 4),  # eight lanes a pass
        (LANES // 2 * 4, 16, 2),  # pairs: 16 lanes a pass, of 32 words
        (0 * LANES, 16, 0),
    ],
)
def test_a_pass_of_more_than_16_words_is_wide(
    words: np.ndarray, size_bytes: int, expected: int
) -> None:
    noted = (1 + 4 * words.astype(np.uint32))[None]
    buffers = np.zeros(BANKS, np.int64), np.zeros(BANKS, np.int64), False
    assert added_passes(noted, words_a_lane(size_bytes), 32, *buffers)[1] == expected


COUNTED = """
__global__ void k(int bins, const int *x, int *y) {
  __shared__ int s[32];
  int i = threadIdx.x;
  s[i] = 0;
  atomicAdd(&s[i % bins], STEP);
  y[i] = s[i];
}
"""


@needs_clang
@pytest.mark.parametrize(
    ("machine", "step", "bins", "added"),
    [
        *[("a100", "x[i]", bins, 32 // bins - 1) for bins in (1, 8, 32)],
        ("a100", "1", 1, 0),  # ATOMS.POPC.INC
        ("mi250x", "x[i]", 1, 31),
    ],
)
def test_a_counter_in_shared_memory(machine: str, step: str, bins: int, added: int) -> None:
    x = np.ones(32, np.int32)
    options = [f"-DSTEP={step}"]
    made = workload(COUNTED, np.int32(bins), x, x.copy(), build_options=options, block=32)
    assert totals(tracegen.trace(made, memsim.load_machine(machine)))["conflict"] == added


# A scan in a block of 256 threads: the first loop has fewer active threads in each turn, the second one more.
SCAN = """
__global__ void k(const int *x, int *y, int n) {
  __shared__ int s[512];
  int t = threadIdx.x, step = 1;
  s[t] = x[t];
  s[t + 256] = x[t + 256];
  for (int d = n / 2; d > 0; d /= 2) {
    __syncthreads();
    if (ACTIVE) {
      int a = s[(step * (2 * t + 1) - 1) & 511], b = s[(step * (2 * t + 2) - 1) & 511];
      s[(step * (2 * t + 2) - 1) & 511] = a + b;
    }
    step *= 2;
  }
  for (int d = 1; d < n; d *= 2) {
    step /= 2;
    __syncthreads();
    if (ACTIVE) {
      int a = s[(step * (2 * t + 1) - 1) & 511], b = s[(step * (2 * t + 2) - 1) & 511];
      s[(step * (2 * t + 1) - 1) & 511] = b;
      s[(step * (2 * t + 2) - 1) & 511] = a + b;
    }
  }
  __syncthreads();
  y[t] = s[t];
  y[t + 256] = s[t + 256];
}
"""
N_WARP, TURNS = 8, [(256 >> k, 1 << k) for k in range(9)]
"""How many threads are active, and the step: of the first loop; the second one has the same in reverse."""


def passes(word: Callable[[int], int], is_active: Callable[[int], bool]) -> list[int]:
    """Of each warp: the different words in the bank that has most."""
    found = []
    for warp in range(N_WARP):
        lanes = [t for t in range(32 * warp, 32 * warp + 32) if is_active(t)]
        words = {word(t) for t in lanes}
        found.append(max((sum(w % 32 == bank for w in words) for bank in range(32)), default=0))
    return found


def by_hand(all_active: bool) -> tuple[int, int]:
    """(passes that conflicts add, accesses of warps with an active lane) in both loops."""
    added = accesses = 0
    for d, step in TURNS:
        for neighbour, times in ((1, 1 + 2), (2, 2 + 2)):  # loads and stores of either word
            each = passes(
                lambda t, step=step, k=neighbour: (step * (2 * t + k) - 1) & 511,
                lambda t, d=d: all_active or t < d,
            )
            added += times * sum(n - 1 for n in each if n)
            accesses += times * sum(n > 0 for n in each)
    return added, accesses


def counted(machine: str, active: str) -> dict[str, float]:
    """Kind -> what all warps issue."""
    made = workload(
        *(SCAN.replace("ACTIVE", active), np.ones(512, np.int32), np.zeros(512, np.int32), 512),
        block=256,
    )
    trace = tracegen.trace(made, memsim.load_machine(machine))
    return totals(trace)


@needs_clang
@pytest.mark.parametrize("machine", ["a100", "h200"])
def test_idle_warps_have_no_conflicts(machine: str) -> None:
    """Between 20 and 72 warps in nine turns issue an access: as many as have a lane, or all by a predicate."""
    added, accesses = by_hand(all_active=False)
    assert (added, accesses) == (7 * 75, 7 * 20)
    found = counted(machine, "t < d")
    assert found["conflict"] == pytest.approx(added)
    outside = 4 * N_WARP  # behind and before the loops
    assert accesses - 1e-6 <= found["local_32"] - outside <= 7 * 9 * N_WARP


@needs_clang
def test_where_all_lanes_are_active_nothing_is_left_out() -> None:
    added, accesses = by_hand(all_active=True)
    assert accesses == 7 * 9 * N_WARP
    found = counted("h200", "t >= 0")
    assert found["conflict"] == pytest.approx(added)
    assert found["local_32"] == accesses + 4 * N_WARP
