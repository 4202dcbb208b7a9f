"""Conflicts between the banks of shared memory, against closed forms and counts by hand."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import memsim
import tracegen
from memsim.trace import Trace
from tests.support.cuda_kernels import needs_clang, workload
from tracegen.execution.banks import added_passes

BANKS = 32
# Tiles of 32 rows of 32 + pad words: a column's words lie in 32 / gcd(32 + pad, 32) banks. Rows have no conflicts.
PADS = (0, 1, 2, 16)
TRANSPOSED = (
    "__global__ void k(const float *x, float *y) {\n  int i = threadIdx.x, j = threadIdx.y;\n"
    + "".join(f"  __shared__ float t{pad}[32][32 + {pad}];\n" for pad in PADS)
    + "".join(f"  t{pad}[i][j] = x[j * 32 + i];\n" for pad in PADS)
    + "  __syncthreads();\n"
    + "".join(f"  y[{1024 * k} + j * 32 + i] = t{pad}[j][i];\n" for k, pad in enumerate(PADS))
    + "}\n"
)
STRIDED = """
__global__ void k(const TYPE *x, TYPE *y) {
  extern __shared__ TYPE t[];
  int i = threadIdx.x;
  t[i] = x[i];
  __syncthreads();
LOADS
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


@needs_clang
def test_a_column_has_as_many_conflicts_as_its_pitch_has_factors_of_the_banks(
    tmp_path: Path,
) -> None:
    machine = memsim.load_machine("a100")
    arrays = np.ones(1024, np.float32), np.zeros(4096, np.float32)
    trace = tracegen.trace(workload(TRANSPOSED, *arrays, block=(32, 32)), machine)
    added = {7 + k: math.gcd(32 + pad, 32) - 1 for k, pad in enumerate(PADS)}  # by lines
    assert totals(trace)["conflict"] == 32 * sum(added.values())
    page = memsim.replay(trace, machine, trials=2).to_html(tmp_path / "page.html").read_text()
    said = page.partition("Bank conflicts of shared memory add passes to each access: ")[2]
    found = re.findall(r"(\d+) on line (\d+)", said.partition(".")[0])
    assert {int(line): int(n) for n, line in found} == {line: n for line, n in added.items() if n}


@needs_clang
@pytest.mark.parametrize(
    ("kind", "strides", "expected"),
    [
        # Two words a bank at stride 2, one word for all lanes at 0; strides wrap around: words 0 and 32.
        ("float", (1, 2, 0, 32), {"local_32": 4, "conflict": 2, "wide": 1}),
        # Two portions of 16 lanes, without conflicts and with two words a bank; all lanes load the same: half as long.
        ("double", (1, 2, 0), {"local_64": 2, "conflict": 2, "paired_64": 1, "wide": 2}),
        ("unsigned char", (4,), {"local_32": 1}),
    ],
)
def test_strides(kind: str, strides: tuple[int, ...], expected: dict[str, float]) -> None:
    x = np.ones(64, {"float": "f4", "double": "f8", "unsigned char": "u1"}[kind])
    loads = "\n".join(f"  y[{32 * k} + i] = t[i * {n} % 64];" for k, n in enumerate(strides))
    source = STRIDED.replace("LOADS", loads).replace("TYPE", kind)
    made = workload(source, x, np.zeros(128, x.dtype), shared_bytes=512)
    found = totals(tracegen.trace(made, "a100"))
    stored = "local_64" if kind == "double" else "local_32"
    found[stored] -= 1  # the store of one element a lane
    found["wide"] -= {"float": 1, "double": 2, "unsigned char": 0}[kind]
    kinds = {"local_32", "local_64", "local_128", "paired_64", "paired_128", "conflict", "wide"}
    assert {k: n for k, n in found.items() if n and k in kinds} == expected


CHANGING_STRIDES = """
__global__ void k(const float *x, float *y) {
  __shared__ float t[512];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int turn = 0; turn < 5; turn++) {
    t[lane * (warp % WAYS + 1) + turn] = x[threadIdx.x];
    __syncthreads();
  }
  y[threadIdx.x] = t[threadIdx.x];
}
"""


@needs_clang
@pytest.mark.parametrize("ways", [4, 8, 10])
def test_warps_whose_conflicts_take_turns(ways: int) -> None:
    """Warp w stores with stride s = w % ways + 1, so that gcd(s, 32) of its words lie in a bank; 8 ways are remembered."""
    source = CHANGING_STRIDES.replace("WAYS", str(ways))
    made = workload(source, np.ones(320, np.float32), np.zeros(320, np.float32), block=320)
    found = totals(tracegen.trace(made, "a100"))
    assert round(found["conflict"], 6) == 5 * sum(
        math.gcd(warp % ways + 1, 32) - 1 for warp in range(10)
    )


LANES, IDLE = np.arange(32), -1


def passes_of(
    words: np.ndarray, size_bytes: int, lanes: int = 32, in_turn: bool = False
) -> tuple[int, int]:
    """(passes added, wide passes) of one access by as many threads as there are words. IDLE : a thread accesses nothing"""
    buffers = np.zeros(BANKS, np.int64), np.zeros(BANKS, np.int64), in_turn
    noted = np.where(words == IDLE, 0, 1 + 4 * words).astype(np.uint32)[None]
    added, wide = added_passes(noted, words_a_lane(size_bytes), lanes, *buffers)
    return int(added), int(wide)


@pytest.mark.parametrize(
    ("words", "size_bytes", "added", "wide"),
    [
        (0 * LANES, 4, 0, 0),
        (LANES, 4, 0, 1),
        (LANES // 2, 4, 0, 0),  # 16 words, which are not wide
        (LANES * 16 // 31, 4, 0, 1),  # 17 words
        (LANES * 2, 4, 1, 0),  # two passes of 16 words
        (LANES * 4, 16, 0, 4),  # eight lanes a pass
        # Lanes with the same words are served together, n and n ^ 1 or n and n ^ 2.
        (0 * LANES, 8, -1, 0),
        (0 * LANES, 16, -2, 0),
        (LANES // 2 * 4, 16, -2, 2),  # 16 lanes a pass, of 32 words
        ((LANES // 4 * 2 + LANES % 2) * 2, 8, -1, 1),
        ((LANES // 4 * 2 + LANES % 2) * 4, 16, -2, 2),
        (LANES % 4 * 4, 16, 0, 0),  # four lanes apart: the example of NVIDIA's engineer
        (LANES // 4 * 32, 16, -2 + 2 * 3, 0),  # paired, but in each half four words in one bank
    ],
)
def test_passes_of_a_warp(words: np.ndarray, size_bytes: int, added: int, wide: int) -> None:
    """A sub-group of 64 lanes, which are not paired, has as many as two of 32 where none are."""
    assert passes_of(words, size_bytes) == (added, wide)
    assert passes_of(words, size_bytes, 64)[0] >= 0
    without_partner = np.where(LANES == 5, IDLE, words)
    assert passes_of(without_partner, size_bytes)[0] <= max(added, 0)


@pytest.mark.parametrize(
    ("words", "size_bytes", "is_atomic", "expected"),
    [
        # Of 64 lanes, misaligned ones are served one after another.
        (1 + np.arange(64), 4, False, 0),
        (1 + np.arange(64), 8, False, 64 - 4),  # instead of 4 passes of 16
        (1 + np.arange(64), 12, False, 64 - 8),  # takes as long as 16 bytes a lane: 8 passes of 8
        (1 + np.arange(64) * 2, 8, False, 0),
        (1 + np.arange(64) * 4, 16, False, 0),
        (1 + np.arange(64) * 0, 8, False, 0),  # one word for all lanes
        # Atomics on one word wait for one another: as many passes as lanes that one bank serves.
        (0 * LANES, 4, True, 31),
        (LANES % 4, 4, True, 7),
        (LANES, 4, True, 0),
        (LANES % 4 * 32, 4, True, 31),
        (LANES // 2 * 32, 4, True, 31),
    ],
)
def test_lanes_that_are_served_one_after_another(
    words: np.ndarray, size_bytes: int, is_atomic: bool, expected: int
) -> None:
    assert passes_of(words, size_bytes, len(words), is_atomic)[0] == expected


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
        *[("a100", "x[i]", bins, 32 // bins - 1) for bins in (1, 8)],
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
    arrays = np.ones(512, np.int32), np.zeros(512, np.int32)
    made = workload(SCAN.replace("ACTIVE", active), *arrays, 512, block=256)
    return totals(tracegen.trace(made, machine))


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
