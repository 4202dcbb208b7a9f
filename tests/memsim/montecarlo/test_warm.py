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


@pytest.mark.parametrize(
    ("lines", "cold", "warm"), [(5, 0, 0), (8, 0, 0), (12, 4, 12), (30, 22, 30)]
)
def test_a_repeated_launch_writes_back_what_the_one_before_has_left_dirty(
    lines: int, cold: int, warm: int
) -> None:
    """Of whole lines that a launch stores; L2 holds eight. The headline says that caches are warm."""
    trace = make_trace([[[(0, [k]) for k in range(lines)]]], ("store",))
    for is_warm, written in ((False, cold), (True, warm)):
        replay = memsim.replay(trace, machine(L1, L2), trials=2, warm=is_warm)
        assert replay.launch.write_bytes("DRAM").mean == 32 * written
        assert headline(summarise(replay.dataset)).endswith("warm caches") is is_warm


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


def test_a_repeated_launch_whose_data_fit_takes_less_time(run_memsim: RunMemsim) -> None:
    """A triad of 1.5 MB, which a T4's L2 holds: DRAM no longer matters."""
    triad = "experiments/kernels/stream.py:triad"
    command = ("predict", triad, "-m", "t4", "--set", "n=131072", "--trials", "2")
    cold, warm = run_memsim(*command).out, run_memsim(*command, "--warm").out
    first, again = cold.splitlines()[0], warm.splitlines()[0]
    assert "for DRAM" in first
    assert "warm caches" not in first
    assert "DRAM" not in again
    assert "warm caches" in again
    taken = [float(re.search(r"on t4: ([\d.]+) us", out)[1]) for out in (cold, warm)]
    assert taken[1] < 0.9 * taken[0]
