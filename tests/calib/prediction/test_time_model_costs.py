"""Costs of an access: L1 pipe cycles computed by hand, bytes on each channel against the requested bytes."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import stats

from calib.prediction.basic_blocks import Block, Program, Repeat
from calib.prediction.costs import DRAM, AccessCosts, access_costs, channel_names, pipe_half_width
from calib.prediction.inputs import simulated_inputs
from calib.prediction.residency import residents
from calib.prediction.time_model import floors_cycles
from memsim.errors import SnapshotWarning
from memsim.machine.file import load_machine
from memsim.machine.model import Machine
from memsim.montecarlo.occupancy import resident_groups
from memsim.montecarlo.one_launch import replay
from memsim.report import TRANSLATION
from memsim.trace.model import Trace
from tests.support.traces import make_trace

V100 = load_machine("v100")
WORD = 0xF
"""The first four bytes of a granule."""


def costs(trace: Trace, machine: Machine = V100, **options: Any) -> AccessCosts:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SnapshotWarning)
        result = replay(trace, machine, trials=2, warmup_waves=0, **options)
    return access_costs(trace, result, machine)


LINE, COLUMN = (0, range(4), True), (0, range(0, 128, 4), True, [WORD] * 32)
"""A row of 32 floats takes 1 cycle of L1; a word each of 32 lines takes 32."""


def of_launch(trace: Trace, n_groups: int) -> Trace:
    """The trace of the first groups of a longer launch."""
    return trace.replace(launch=dataclasses.replace(trace.launch, n_groups=n_groups), whole=False)


def test_groups_that_differ_in_cycles_of_l1_leave_the_mean_open() -> None:
    """10 of 40 groups were traced; each second one reads a column besides a row."""
    groups = make_trace([[[LINE, LINE]], [[LINE, COLUMN]]] * 5)
    one = of_launch(groups, 40)
    requests, cycles = np.array([8.0, 36.0] * 5), np.array([2.0, 33.0] * 5)
    residuals = cycles - requests * cycles.mean() / requests.mean()
    error = np.sqrt((residuals**2).sum() / 9 / 10) / cycles.mean()
    expected = stats.t.ppf(0.975, 9) * error * np.sqrt(1 - 10 / 40)
    assert pipe_half_width([one], V100) == pytest.approx(expected)
    assert pipe_half_width([of_launch(groups, 10)], V100) == 0.0
    assert pipe_half_width([of_launch(make_trace([[[LINE, COLUMN]]] * 10), 40)], V100) == 0.0
    # Groups of a snapshot that are alike say nothing of the other snapshots.
    snapshots = [of_launch(make_trace([[[access]]] * 10), 40) for access in (LINE, COLUMN)]
    assert all(pipe_half_width([one], V100) == 0 for one in snapshots)
    assert pipe_half_width(snapshots, V100) > 0.5


def test_the_banks_of_a_smaller_l1_are_the_same() -> None:
    """One word each of 32 lines: the first bank delivers them one after another, whatever L1's size."""
    l1 = V100.levels[0]
    smaller = V100.replace(levels=(l1.resized(l1.size_bytes // 2), *V100.levels[1:]))
    trace = make_trace([[[(0, list(range(0, 128, 4)), True, [WORD] * 32)]]] * 160)
    whole = costs(trace)
    assert costs(trace, smaller).pipe_cycles[0] == whole.pipe_cycles[0] == 32
    assert (whole.lines[0], whole.per_subgroup[0]) == (32, 1)


N = 4096


def copies(**fields: Any) -> Trace:
    """Each of N groups loads a line and stores another of its own: 128 bytes down, 128 bytes up."""
    lines = [range(4 * k, 4 * k + 4) for k in range(2 * N)]
    groups = [[[(0, lines[g]), (1, lines[N + g])]] for g in range(N)]
    return make_trace(groups, ("load", "store"), **fields)


def test_every_byte_of_a_stream_moves_once_on_each_channel() -> None:
    result = costs(copies())
    assert result.channels == channel_names(V100) == ("L2", "L2 stores", DRAM)
    assert list(result.loads) == [True, False]
    np.testing.assert_allclose(result.channel_bytes[:, 0], [[128, 0]] * 2)
    np.testing.assert_allclose(result.channel_bytes[:, 1], [[0, 128]] * 2)
    np.testing.assert_allclose(result.channel_bytes[:, 2, 0], 128)
    # The L2 of 6 MB holds all 0.5 MB that were stored when the launch of 1 MB ends.
    np.testing.assert_allclose(result.channel_bytes[:, 2, 1], 0)


def test_what_a_short_snapshot_leaves_in_the_last_level_is_written_back_later() -> None:
    """The same groups in a launch a hundred times as long: the L2 can keep 6 of its 100 MiB."""
    trace = of_launch(copies(), 100 * N)
    kept = 6 * 2**20 / (100 * N * 256)
    np.testing.assert_allclose(costs(trace).channel_bytes[:, 2, 1], 128 * (1 - kept))


def test_one_bus_leads_to_a_cache_on_the_memorys_side() -> None:
    """128 bytes down and 128 up again: what dies store goes on to the L3, which keeps all of it."""
    machine = load_machine("mi300a").replace(coalesce_lanes=64)
    result = costs(copies(subgroup_size=64), machine)
    assert result.channels == channel_names(machine) == ("L2", "L2 stores", "L3", DRAM)
    np.testing.assert_allclose(result.channel_bytes[:, :3, 0], [[128, 0, 128]] * 2)
    np.testing.assert_allclose(result.channel_bytes[:, :3, 1], [[0, 128, 128]] * 2)
    np.testing.assert_allclose(result.channel_bytes[:, 3, 1], 0)


def test_hits_and_what_serves_them() -> None:
    """Every sub-group loads one line again and again: L1 serves all but the first load of a core."""
    again = [[[(0, range(4))] * 64]] * 160
    result = costs(make_trace(again))
    assert (result.served[:, 0, 0] > 0.9).all()
    assert result.expected_cycles[:, 0].max() < 80
    np.testing.assert_array_less(result.channel_bytes[:, 0, 0], 0.05 * 128)
    assert result.slowest_cycles([]).tolist() == [0, 0]


@pytest.mark.parametrize("lines", [1, 2])
def test_half_of_the_lines_come_from_farther_memory(lines: int) -> None:
    """A copy of two lines has a far one 3 times in 4, and waits for it; one line has the mean latency."""
    dram = dataclasses.replace(V100.dram, queue_cycles=100.0, far_cycles=200.0)
    groups = [[[(0, range(8 * g, 8 * g + 4 * lines))]] for g in range(160)]
    result = costs(make_trace(groups), V100.replace(dram=dram))
    mean = dram.latency_cycles + dram.row_conflict_cycles
    assert result.dram_quantiles_cycles.mean() == pytest.approx(mean)
    far = 1 - 0.5**lines
    slowest = (mean - 100) * (1 - far) + (mean + 100) * far
    assert result.slowest_cycles([0]) == pytest.approx([slowest] * 2, rel=0.01)


def test_missed_translations_occupy_a_channel() -> None:
    """Every load accesses a page that the buffer has evicted, which occupies each core's translation."""
    page = (1 << 21) // 32
    groups = [[[(0, [page * (p + 40 * g)]) for p in range(40)]] for g in range(160)]
    trace = make_trace(groups)
    result = costs(trace)
    assert result.translation_cycles == V100.translation.miss_cycles
    np.testing.assert_array_equal(result.missed_translations, np.ones((2, 1)))
    block = Block(accesses=("site0",), waits_for=("site0",))
    program = Program(blocks=(block,), steps=(Repeat((0,), 40),))
    resident = residents(V100, trace.launch, resident_groups(V100, trace.launch))
    fed = simulated_inputs(program, result, V100, resident)
    assert fed.channels == (*channel_names(V100), "L2 requests", TRANSLATION)
    each_cycles = V100.translation.miss_cycles
    np.testing.assert_allclose(fed.channel_cycles[:, 1, -1], each_cycles)
    floors = floors_cycles(fed, resident)
    np.testing.assert_allclose(floors[TRANSLATION], 2 * 40 * each_cycles)
    plain = V100.replace(translation=None)
    without = simulated_inputs(program, costs(trace, plain), plain, resident)
    assert without.channels == (*channel_names(V100), "L2 requests")
