"""Block counts by execution, against hand counts and a program that steps lanes in Python."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from experiments.kernels import graphs
from experiments.kernels.polybench import factorisations, products
from memsim.errors import KernelError, PathsWarning
from tracegen import OpenCLWorkload
from tracegen.blocks.counter import BlockCounter, BlockCounts, count_blocks
from tracegen.blocks.run import CountingRun
from tracegen.blocks.text import cut_text

NESTED = """
__kernel void nested(int n, __global const int *outer, __global const int *inner,
                     __global const int *odd, __global int *out)
{
  int i = get_global_id(0);
  int total = 0;
  if (i >= n)
    return;
  for (int j = 0; j < outer[i]; ++j)
  {
    int k = 0;
    while (k < inner[i] + j)
    {
      if (odd[(i + k) % n])
        total += 1;
      else
        total += 2;
      k++;
    }
    if (total > 40)
      break;
  }
  out[i] = total;
}
"""
BLOCKS = (
    "entry", "return", "for's head", "for's test", "for's body", "while's test", "while's body",
    "odd", "even", "step", "if of break", "break", "end",
)  # fmt: skip


def nested(n: int, seed: int) -> OpenCLWorkload:
    rng = np.random.default_rng(seed)
    return OpenCLWorkload(
        source=NESTED,
        arguments={
            "n": np.int32(n),
            "outer": rng.integers(0, 6, n, dtype=np.int32),
            "inner": rng.integers(0, 5, n, dtype=np.int32),
            "odd": rng.integers(0, 2, n, dtype=np.int32),
            "out": np.zeros(n, np.int32),
        },
        global_size=-(-n // 64) * 64,
        local_size=64,
    )


def stepped(arguments: Any, n: int, items: range) -> list[list[tuple[str, tuple[int, ...]]]]:
    """What each lane runs: blocks with the trips of the loops around them."""
    outer, inner, odd = (arguments[name] for name in ("outer", "inner", "odd"))
    lanes = []
    for i in items:
        ran: list[tuple[str, tuple[int, ...]]] = [("entry", ())]
        lanes.append(ran)
        if i >= n:
            ran.append(("return", ()))
            continue
        ran.append(("for's head", ()))
        total, j = 0, 0
        while True:
            ran.append(("for's test", (j,)))
            if j >= outer[i]:
                break
            ran.append(("for's body", (j,)))
            k = 0
            while True:
                ran.append(("while's test", (j, k)))
                if k >= inner[i] + j:
                    break
                ran.append(("while's body", (j, k)))
                chosen = bool(odd[(i + k) % n])
                ran.append(("odd" if chosen else "even", (j, k)))
                total += 1 if chosen else 2
                ran.append(("step", (j, k)))
                k += 1
            ran.append(("if of break", (j,)))
            if total > 40:
                ran.append(("break", (j,)))
                break
            j += 1
        ran.append(("end", ()))
    return lanes


@pytest.mark.parametrize(("n", "width"), [(200, 32), (64, 8), (130, 64)])
def test_lanes_that_part_and_meet(n: int, width: int) -> None:
    """A sub-group runs a block once for all lanes that are in the same trips of its loops."""
    workload = nested(n, seed=n)
    counts = count_blocks(workload, width)
    by_items: Counter[str] = Counter()
    by_subgroups: Counter[str] = Counter()
    for first in range(0, -(-n // 64) * 64, width):
        lanes = stepped(workload.arguments, n, range(first, first + width))
        by_items.update(name for lane in lanes for name, _ in lane)
        by_subgroups.update(name for name, _ in {each for lane in lanes for each in lane})
    assert len(counts.blocks) == len(BLOCKS)
    assert by_items["break"] > 0
    assert counts.by_items.tolist() == [by_items[name] for name in BLOCKS]
    assert counts.by_subgroups.tolist() == [by_subgroups[name] for name in BLOCKS]


def named(counts: BlockCounts, kind: str, launch: str) -> list[int]:
    return [b.number for b in counts.blocks if b.kind == kind and b.launch == launch]


def test_rows_of_a_matrix() -> None:
    """A row's loop runs as often as it has entries; a sub-group's as often as its longest row."""
    workload = graphs.spmv(500, degrees="geometric")
    counts = count_blocks(workload, 32)
    degrees = np.diff(workload.arguments["row_start"])
    padded = np.append(degrees, np.zeros(-len(degrees) % 32, degrees.dtype))
    longest = padded.reshape(-1, 32).max(axis=1)
    (body,) = named(counts, "body", "spmv")
    (test,) = named(counts, "test", "spmv")
    assert counts.by_items[body] == degrees.sum()
    assert counts.by_items[test] == degrees.sum() + 500
    assert counts.by_subgroups[body] == longest.sum()
    assert counts.by_subgroups[test] == longest.sum() + 16


def test_launches_add_up_and_are_distinguished() -> None:
    n = 24
    counts = count_blocks(factorisations.lu(n), 32)
    assert len(counts.launches) == 2 * (n - 1)
    scaled, updated = named(counts, "then", "lu")[0], named(counts, "then", "lu_0")[0]
    assert counts.by_items[scaled] == n * (n - 1) // 2
    assert counts.by_items[updated] == sum((n - 1 - k) ** 2 for k in range(n - 1))
    for launch in counts.launches:
        left = n - 1 - launch.settings["k"]
        assert launch.settings["n"] == n
        assert launch.by_items[scaled] == (left if launch.kernel == "lu" else 0)
        assert launch.by_items[updated] == (left * left if launch.kernel == "lu_0" else 0)


def test_one_build_counts_any_size_and_leaves_results_as_they_were() -> None:
    counter = BlockCounter(products.gemm(16, 16, 16))
    for ni, nj, nk in ((9, 33, 5), (40, 7, 21)):
        workload = products.gemm(ni, nj, nk)
        counts, outputs = counter.count(workload, 32)
        workload.check(outputs)  # type: ignore[misc]
        (body,) = named(counts, "body", "gemm")
        assert counts.by_items[body] == ni * nj * nk
        # A sub-group is a row of a tile of 8 by 32.
        assert counts.by_subgroups[body] == ni * -(-nj // 32) * nk


def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = graphs.bfs_level(3000)
    whole = count_blocks(workload, 32)
    monkeypatch.setattr("tracegen.blocks.run.BATCH_BYTES", 1)
    monkeypatch.setattr("tracegen.blocks.run.TOKEN_BATCH_BYTES", 2)
    parts = count_blocks(workload, 32)
    assert whole.by_items.tolist() == parts.by_items.tolist()
    assert whole.by_subgroups.tolist() == parts.by_subgroups.tolist()


def test_blocks_follow_each_other() -> None:
    """Edges of the graph lead from entry to end, and counts are kept along them."""
    (cut,) = cut_text(NESTED)
    followers = {
        BLOCKS[b.number]: [BLOCKS[f] if f >= 0 else "" for f in b.followers] for b in cut.blocks
    }
    assert followers["entry"] == ["return", "for's head"]
    assert followers["return"] == [""]
    assert followers["for's test"] == ["for's body", "end"]
    assert followers["while's test"] == ["while's body", "if of break"]
    assert followers["step"] == ["while's test"]
    assert followers["if of break"] == ["break", "for's test"]
    assert followers["break"] == ["end"]


def test_accesses_of_a_block() -> None:
    counter = BlockCounter(products.gemm(8, 8, 8))
    (body,) = [block for block in counter.blocks if block.kind == "body"]
    result = [(a.memory, a.direction, a.array) for a in counter.accesses(body)]
    assert result == [("global", "load", "a"), ("global", "load", "b")]


def test_what_cannot_be_counted_is_named() -> None:
    text = "__kernel void f(int n) { switch (n) { case 1: break; } }"
    with pytest.raises(KernelError, match="'switch' in line 1 cannot be cut into basic blocks"):
        cut_text(text)
    with pytest.raises(KernelError, match="subgroup_size must be 1 to 1024, got 0"):
        count_blocks(products.gemm(8, 8, 8), 0)
    with pytest.raises(KernelError, match="sub-groups were not counted"):
        _ = count_blocks(products.gemm(8, 8, 8), None).by_subgroups


CHANGING = """
__kernel void k(__global int *trips, __global float *x)
{
  int i = get_global_id(0);
  int n = trips[i];
  for (int j = 0; j < n; ++j)
    x[i] += j;
  trips[i] = NEXT;
}
"""


def changing(following: str) -> OpenCLWorkload:
    return OpenCLWorkload(
        source=CHANGING.replace("NEXT", following),
        arguments=[np.ones(64, np.int32), np.zeros(64, np.float32)],
        global_size=64,
        local_size=32,
    )


def test_other_paths_are_recorded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that do not begin with what the first began with stand for those of a data race."""
    assert list(count_blocks(changing("30")).by_items) == [64, 128, 64, 64]
    monkeypatch.setattr(CountingRun, "_paste", lambda *_: None)
    with pytest.warns(PathsWarning, match=r"launch 0 \(k\) took other paths .*one of many"):
        counts = count_blocks(changing("30"))
    assert list(counts.by_items) == [64, 64 * 31, 64 * 30, 64]
    assert list(counts.by_subgroups) == [2, 2 * 31, 2 * 30, 2]
    with pytest.raises(KernelError, match="longer paths each of the 8 times that it was run"):
        count_blocks(changing("2 * n + 30"))


def test_too_much_room_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = count_blocks(nested(300, 1))
    record = CountingRun._record
    monkeypatch.setattr(CountingRun, "_record", lambda run, *at: record(run, *at[:2], at[2] + 3))
    again = count_blocks(nested(300, 1))
    assert list(again.by_items) == list(exact.by_items)
    assert list(again.by_subgroups) == list(exact.by_subgroups)
