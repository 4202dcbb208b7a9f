"""Sectors that stores of several cores fill: hand counts, and probabilities of early completion."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from memsim.hierarchy.cache import HITS, READ_GRANULES, WRITE_GRANULES
from memsim.machine.model import Machine
from memsim.montecarlo.plan import make_plan
from memsim.montecarlo.trial import run_trial
from memsim.trace.model import Trace
from tests.support.small_machines import level, machine
from tests.support.traces import make_trace

LOW, HIGH = 0x0000FFFF, 0xFFFF0000
LINES = 4096


def of_cores(percent: float, *, sets: int = LINES, cores: int = 2) -> Machine:
    """Two cores share a direct-mapped cache that keeps written bytes under a mask."""
    kept = {"write_policy": "write_back", "write_allocate": "lazy_fetch_on_read"}
    kept["partial_write_back_percent"] = percent
    return machine(level(), level("L2", sets=sets, cores_per_instance=cores, **kept), cores=cores)


def halves(n: int, first: int = LOW, second: int = HIGH) -> Trace:
    """Two groups on two cores store different parts of the same n sectors."""
    return make_trace(
        [[[(0, [i], True, [mask]) for i in range(n)]] for mask in (first, second)], ("store",)
    )


def of_l2(trace: Trace, on: Machine, trial: int = 0) -> npt.NDArray[np.int64]:
    """Hits, granules read and granules written of the stores, in the shared level."""
    plan, _ = make_plan(trace, on)
    result = run_trial(plan, 1, trial)
    counts = result.counts[1, 0, [HITS, READ_GRANULES, WRITE_GRANULES]]
    assert result.dram_read_bytes == 32 * counts[1]
    assert result.dram_write_bytes == 32 * counts[2]
    return np.asarray(counts, np.int64)


def test_what_two_cores_fill_is_completed_meanwhile() -> None:
    """With probability 1, each sector is read and written back once, and then dirty again."""
    assert list(of_l2(halves(100), of_cores(100.0))) == [100, 100, 100]
    assert list(of_l2(halves(100), of_cores(0.0))) == [100, 0, 0]


def test_of_many_so_many_as_is_said() -> None:
    """A share of 38 % within 4 standard errors; 30 % would fail."""
    n = LINES
    _, read, written = of_l2(halves(n), of_cores(38.0))
    error = math.sqrt(0.38 * 0.62 / n)
    assert read == written
    assert abs(read / n - 0.38) < 4 * error
    assert abs(read / n - 0.30) > 4 * error


def test_what_one_core_fills_is_left_alone() -> None:
    """Both halves by one sub-group, or by two groups of one core."""
    both = make_trace([[[(0, [0], True, [LOW]), (0, [0], True, [HIGH])]]], ("store",))
    assert list(of_l2(both, of_cores(100.0))) == [1, 0, 0]
    assert list(of_l2(halves(100), of_cores(100.0, cores=1))) == [100, 0, 0]


def test_whole_sectors_are_left_alone() -> None:
    assert list(of_l2(halves(100, 0xFFFFFFFF, 0xFFFFFFFF), of_cores(100.0))) == [100, 0, 0]


def test_what_is_evicted_in_part_is_completed() -> None:
    """A level of one line: nine of ten halves are evicted, each read and written once. Without a
    percentage they are written under their byte masks, and not read."""
    trace = make_trace([[[(0, [i], True, [LOW]) for i in range(10)]]], ("store",))
    assert list(of_l2(trace, of_cores(38.0, sets=1))) == [0, 9, 9]
    assert list(of_l2(trace, of_cores(0.0, sets=1))) == [0, 0, 9]


def test_the_last_writer_of_a_line_pays_for_completing_it() -> None:
    """A store writes half of sector 0 and an atomic sector 2 of one line, fetched in pairs of sectors. The
    atomic reads the pair 2 and 3. On eviction sector 0, alone, is read and written in the atomic's
    name, with its own dirty sector: three granules read, which are no whole number of pairs."""
    accesses = [(0, [0], True, [LOW]), (1, [2], True, [0xF]), (2, [4])]
    sizes = {"size_bytes": 128, "line_bytes": 128, "sector_bytes": 32, "fill_bytes": 64}
    of_one_line = dataclasses.replace(of_cores(30.0, sets=1).levels[1], **sizes)
    on = machine(level(), of_one_line, cores=2)
    plan, _ = make_plan(make_trace([[accesses]], ("store", "atomic", "load")), on)
    moved = run_trial(plan, 1, 0).counts[1][:, [READ_GRANULES, WRITE_GRANULES]]
    assert moved.tolist() == [[0, 0], [3, 2], [2, 0]]


def test_a_completed_sector_serves_loads() -> None:
    """Two cores store the two halves of a sector. A later load hits, whether the sector was completed
    (read once) or both halves were present."""
    groups = [
        [[(0, [0], True, [LOW]), *[(1, [i]) for i in range(1, 40)], (1, [0])]],
        [[(0, [0], True, [HIGH])]],
    ]
    trace = make_trace(groups, ("store", "load"))
    for percent, read in ((100.0, 1), (0.0, 0)):
        plan, _ = make_plan(trace, of_cores(percent))
        stores, loads = run_trial(plan, 1, 0).counts[1]
        assert stores[READ_GRANULES] == read
        assert loads[READ_GRANULES] == 39
        assert loads[HITS] == 1
