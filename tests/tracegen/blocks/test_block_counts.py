"""Counts of basic blocks of machine code, against hand counts and the readable twin of the interpreter."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from experiments.kernels import graphs
from experiments.kernels.polybench import factorisations, moments, products
from experiments.kernels.rodinia import elimination
from memsim.errors import KernelError
from tests.twins import execution as twin
from tests.twins.branching import Branching
from tests.twins.comparison import interpreted, rows_of
from tracegen import CudaWorkload, OpenCLWorkload, count_blocks
from tracegen.blocks import Block, BlockCounts, TooLong
from tracegen.blocks.count import counting
from tracegen.executed.targets import lowered
from tracegen.execution.run import Execution
from tracegen.machine_code.binding import bind

SUM = """
extern "C" __global__ void sums(const float *x, float *out, int n, int rows)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows)
    return;
  float total = 0;
#pragma unroll 4
  for (int j = 0; j < n; ++j)
    total += x[j * rows + i];
  out[i] = total;
}
"""


def sums(n: int, rows: int) -> CudaWorkload:
    return CudaWorkload(
        source=SUM,
        arguments={
            "x": np.ones(n * rows, np.float32), "out": np.zeros(rows, np.float32),
            "n": np.int32(n), "rows": np.int32(rows),
        },
        grid=-(-rows // 128), block=128,
    )  # fmt: skip


def loads(block: Block) -> int:
    return sum(one.space == "global" and one.direction == "load" for one in block.accesses)


def stores(block: Block) -> int:
    return sum(one.space == "global" and one.direction == "store" for one in block.accesses)


def executed(counts: BlockCounts, what: Callable[[Block], int], times: Any) -> int:
    """So many accesses of global memory in all."""
    return sum(what(b) * int(n) for b, n in zip(counts.blocks, times, strict=True))


@pytest.mark.parametrize(("n", "rows"), [(11, 300), (8, 256), (0, 40)])
def test_an_unrolled_loop_and_its_remainder(n: int, rows: int) -> None:
    """Four loads a turn of the unrolled loop, one a turn of the rest; 300 work-items are 10 sub-groups, of which 9.4
    have rows, and 3 groups of 4 sub-groups begin."""
    counts = count_blocks(sums(n, rows))
    per_turn = {b.number: loads(b) for b in counts.blocks if loads(b)}
    subgroups, items = -(-rows // 32), rows
    turns = {
        size: sum(int(counts.by_items[k]) for k, m in per_turn.items() if m == size)
        for size in per_turn.values()
    }
    assert sum(size * number for size, number in turns.items()) == n * items
    # Blocks with one load are the remainder, which runs n mod 4 times.
    assert turns.get(1, 0) == n % 4 * items
    remainder = [k for k, m in per_turn.items() if m == 1]
    assert sum(int(counts.by_subgroups[k]) for k in remainder) == n % 4 * subgroups
    assert counts.by_subgroups[0] == -(-rows // 128) * 4
    assert counts.by_items[0] == -(-rows // 128) * 128
    (stored,) = [b.number for b in counts.blocks if stores(b)]
    assert (counts.by_items[stored], counts.by_subgroups[stored]) == (items, subgroups)


def test_the_matrix_product() -> None:
    """ni nj nk multiplications, 16 a turn where nk is a multiple of 16; a sub-group is a row of a tile of 8 by 32."""
    ni, nj, nk = 20, 70, 48
    counts = count_blocks(products.gemm(ni, nj, nk))
    (body,) = [b for b in counts.blocks if loads(b) and b.number in b.followers and loads(b) == 32]
    assert body.depth == 1
    assert counts.by_items[body.number] == ni * nj * nk // 16
    assert counts.by_subgroups[body.number] == ni * 3 * nk // 16
    assert executed(counts, loads, counts.by_items) == 2 * ni * nj * nk + ni * nj  # and c itself
    assert body.work["fma"] >= 16
    assert 12 in body.lines  # of the code that Loopy generates


def test_launches_add_up_and_are_distinguished() -> None:
    n = 24
    counts = count_blocks(factorisations.lu(n))
    assert len(counts.launches) == 2 * (n - 1)
    (scaled,) = [b.number for b in counts.blocks if b.kernel == "lu" and stores(b)]
    (updated,) = [b.number for b in counts.blocks if b.kernel == "lu_0" and stores(b)]
    assert counts.by_items[scaled] == n * (n - 1) // 2
    assert counts.by_items[updated] == sum((n - 1 - k) ** 2 for k in range(n - 1))
    for launch in counts.launches:
        left = n - 1 - launch.settings["k"]
        assert launch.settings["n"] == n
        assert launch.by_items[scaled] == (left if launch.kernel == "lu" else 0)
        assert launch.by_items[updated] == (left * left if launch.kernel == "lu_0" else 0)


def test_values_that_an_earlier_launch_stored_decide() -> None:
    """Correlation compares deviations with means that another launch has stored: those are computed, not left out."""
    counts = count_blocks(moments.correlation(20, 30))
    assert counts.reads_memory
    launches = counts.launches
    assert sum(one.by_items.sum() for one in launches) == counts.by_items.sum()
    roots = [b for b in counts.blocks if any("MUFU.SQRT" in i.text for i in b.instructions)]
    # Of the variance of each of 20 columns, and of n for each of 600 entries; no column is constant.
    assert [int(counts.by_items[b.number]) for b in roots] == [20, 600]


RELOADED = """
__kernel void reloaded(__global int *trips, __global float *x)
{
  const int i = get_global_id(0);
  trips[i] = 1 + get_local_id(0) % 3;
  barrier(CLK_GLOBAL_MEM_FENCE);
  const int n = trips[get_group_id(0) * 32 + 31 - get_local_id(0)];
  for (int j = 0; j < n; ++j)
    x[i * 4 + j] += 1;
}
"""


def test_values_that_the_launch_itself_stored_decide() -> None:
    workload = OpenCLWorkload(
        source=RELOADED,
        arguments=[np.zeros(64, np.int32), np.zeros(256, np.float32)],
        global_size=64,
        local_size=32,
    )
    counts = count_blocks(workload)
    trips = 2 * sum(1 + k % 3 for k in range(32))
    assert executed(counts, stores, counts.by_items) == 64 + trips


def everything(workload: Any, target: str, lanes: int) -> list[int]:
    """Executions of blocks by sub-groups in a run with all values, block by block."""
    total: dict[Any, Any] = {}
    for bound in bind(workload, target):
        code = lowered(bound.code, lanes)
        execution = Execution(code, bound.launch)
        recorded = execution.run(np.arange(np.prod(bound.grid)), record=False)
        seen: dict[int, int] = {}
        for number, segment in enumerate(code.segments):
            seen.setdefault(segment.block, int(recorded.segment_count[number]))
        own = total.setdefault(bound.name, np.zeros(len(seen), int))
        own += [seen[k] for k in range(len(seen))]
    return [int(n) for counts in total.values() for n in counts]


@pytest.mark.weekly(2)
@pytest.mark.parametrize(
    ("make", "machine", "lanes"),
    [
        (lambda: graphs.bfs_level(300), "a100", 32),
        (lambda: graphs.merge_pass(900), "mi250x", 64),
        (lambda: elimination.lud(48), "a100", 32),
        (lambda: graphs.spmv(200), "mi250x", 64),
    ],
    ids=["bfs", "merge", "lud", "spmv"],
)
def test_counts_are_those_of_runs_with_all_values(make: Any, machine: str, lanes: int) -> None:
    workload = make()
    counts = count_blocks(workload, machine)
    assert counts.by_subgroups.tolist() == everything(workload, counts.target, lanes)
    assert (counts.by_items <= lanes * counts.by_subgroups).all()


@pytest.mark.parametrize("lanes", [32, 64])
@pytest.mark.parametrize("seed", range(2))
def test_random_programs_against_the_twin(
    seed: int, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loops, choices, joins, barriers and ends of single lanes: by sub-groups and by lanes."""
    rng = np.random.default_rng((seed, lanes, 3))
    items = int(rng.integers(1, 4 * lanes))
    program = Branching(rng, lanes=lanes, n_items=items)
    code = program.finish(4)
    first: dict[int, int] = {}
    for number, segment in enumerate(code.segments):
        first.setdefault(segment.block, number)
    by_lanes = np.zeros(len(code.segments), int)

    def block(s: twin.Step) -> None:
        s.warp.group.segments[s.y] += 1
        executing = [s.warp.mask(2 * mask) for mask, name in code.masks.items() if name == "exec"]
        by_lanes[s.y] += np.logical_and.reduce([s.who, *executing]).sum()

    monkeypatch.setitem(twin.DO, "BLOCK", block)
    launch = twin.Launch((items, 1, 1))
    memory = copy.deepcopy(program.memory)
    group = twin.run_group(code, launch, (0, 0, 0), program.memory)
    counted, row = counting(code, values=True)
    execution, recorded = interpreted(counted, launch, memory)
    lanes_of = sum(rows_of(execution, k)[row:].sum(axis=1) for k in range(len(group.warps)))
    for number, segment in first.items():
        assert lanes_of[number] == by_lanes[segment]
        assert recorded.segment_count[segment] == group.segments[segment]


def test_what_cannot_be_counted_is_named() -> None:
    with pytest.raises(TooLong, match="kernel gemm runs more than 1000 basic blocks"):
        count_blocks(products.gemm(64, 64, 64), most_steps=1000)
    with pytest.raises(KernelError, match="subgroup_size must be 8, 16, 32 or 64, got 24"):
        count_blocks(products.gemm(8, 8, 8), subgroup_size=24)


def test_blocks_follow_each_other() -> None:
    counts = count_blocks(sums(11, 300))
    ends = [b for b in counts.blocks if -1 in b.followers]
    assert ends
    for block in counts.blocks:
        assert block.name == f"sums:B{block.number}"
        assert all(-1 <= k < len(counts.blocks) for k in block.followers)
    reached, waiting = {0}, [0]
    while waiting:
        new = set(counts.blocks[waiting.pop()].followers) - reached - {-1}
        reached |= new
        waiting += new
    assert reached == {b.number for b in counts.blocks}
