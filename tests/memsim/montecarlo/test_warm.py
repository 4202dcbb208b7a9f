"""Launches that are repeated with caches kept: what the last one reads and writes, and what reports say of it."""

from __future__ import annotations

import dataclasses
import re

import pytest

import memsim
from memsim.report import headline, summarise
from memsim.trace import Launch
from tests.support.command_line import RunMemsim
from tests.support.small_machines import level, machine
from tests.support.traces import make_trace

L1 = level("L1", ways=32, write_policy="write_through", write_allocate="none")
L2 = level("L2", ways=8, write_policy="write_back", write_allocate="no_fetch")


def stored(lines: int, warm: bool) -> float:
    """Bytes that a launch writes to DRAM, of one that stores whole lines; L2 holds eight."""
    trace = make_trace([[[(0, [k]) for k in range(lines)]]], ("store",))
    return (
        memsim.replay(trace, machine(L1, L2), trials=2, warm=warm).launch.write_bytes("DRAM").mean
    )


@pytest.mark.parametrize(
    ("lines", "cold", "warm"), [(5, 0, 0), (8, 0, 0), (12, 4, 12), (30, 22, 30)]
)
def test_a_repeated_launch_writes_back_what_the_one_before_has_left_dirty(
    lines: int, cold: int, warm: int
) -> None:
    assert stored(lines, warm=False) == 32 * cold
    assert stored(lines, warm=True) == 32 * warm


def test_of_a_large_snapshot_the_interval_covers_both() -> None:
    """In the middle of a launch, before which nothing is known: if L2 holds all 24 lines that it uses, none is read from
    DRAM in the mean; if it holds eight, all may be, or none."""
    groups = [[[(0, [4 * g + k]) for k in range(4)]] for g in range(6)]
    launch = Launch(kernel="k", n_groups=20, group_items=32)
    trace = make_trace(groups, whole=False)
    trace = trace.replace(launch=launch, workgroup=trace.workgroup + 6)
    reads = []
    for ways in (32, 8):
        on = machine(L1, dataclasses.replace(L2, size_bytes=32 * ways, ways=ways))
        reads.append(memsim.replay(trace, on, trials=4, warm=True).launch.read_bytes("DRAM"))
    fits, exceeds = reads
    assert fits.mean == 0
    assert exceeds.mean > 0
    assert exceeds.mean - exceeds.half_width <= 0


@pytest.mark.parametrize("warm", [False, True])
def test_the_headline_says_that_caches_are_warm(warm: bool) -> None:
    trace = make_trace([[[(0, [k]) for k in range(4)]]])
    words = headline(summarise(memsim.replay(trace, machine(L1, L2), trials=2, warm=warm).dataset))
    assert words.endswith("warm caches") is warm


def test_a_repeated_launch_whose_data_fit_takes_less_time(run_memsim: RunMemsim) -> None:
    """A triad of 25 MB, which an H100's L2 holds: DRAM no longer matters."""
    command = (
        "predict",
        "experiments/kernels/stream.py:triad",
        "-m",
        "h100",
        "--set",
        "n=2097152",
        "--trials",
        "4",
    )
    cold, warm = run_memsim(*command), run_memsim(*command, "--warm")
    (first, *_), (again, *_) = (one.out.splitlines() for one in (cold, warm))
    assert "for DRAM" in first
    assert "warm caches" not in first
    assert "DRAM" not in again
    assert "warm caches" in again
    taken = [
        float(re.search(r"on h100: ([\d.]+) us", one.out)[1])  # type: ignore[index]
        for one in (cold, warm)
    ]
    assert taken[1] < 0.9 * taken[0]
