"""Snapshots that grow until they agree, and whether their intervals cover the whole launch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import loopy as lp
import numpy as np
import pytest

import memsim
import tracegen
from memsim import Replay
from memsim.bounds import AGREE_BYTES, places_of
from memsim.report import replay_page, summarise
from memsim.statistics import PAST, PLACE, Places
from memsim.trace import Trace
from tests.support import random_launches
from tests.support.loopy_kernels import make
from tests.support.traces import make_trace
from tracegen.growing import replay_grown
from tracegen.options import TraceOptions
from tracegen.recording import snapshot
from tracegen.workloads import Workload

Steps = list[tuple[int, int | None]]
"""(places, waves) of each step"""


class _Replayed(NamedTuple):
    """What growing reads of a replay."""

    dataset: Any
    n_trials: int
    attrs: dict[str, int]


def steps(
    monkeypatch: pytest.MonkeyPatch,
    off: Callable[[int], dict[str, float]],
    granules_of: Callable[[int, int], int] = lambda places, waves: places * waves,
    budget_s: float = 1e9,
    *,
    whole: bool = False,
    in_windows: bool = False,
    interrupted: int = 0,
) -> Steps:
    """The steps where the k-th replay disagrees by off(k), with so many granules at each place."""
    taken: Steps = []

    def trace_at(options: TraceOptions, places: int) -> list[Trace]:
        taken.append((places, options.waves))
        assert options.start
        n = granules_of(places, options.waves or 0)
        trace = make_trace([[[(0, range(n))]]], whole=whole)
        if in_windows:
            trace = trace.replace(warming=np.zeros(1, np.int64), site_weight=np.ones(1))
        return [trace] * (1 if whole else places)

    def replay_all(traces: list[Trace], grows: Any) -> Any:
        return _Replayed(len(taken), 8, {"interrupted": interrupted})

    monkeypatch.setattr("memsim.bounds.disagreement", off)
    replay_grown(trace_at, replay_all, TraceOptions(), budget_s)
    return taken


@pytest.mark.parametrize(
    ("off", "others", "expected"),
    [
        # (past, place) of each replay: snapshots that agree do not grow
        ([(1.0, 1.0)], {}, [(3, 12)]),
        # Places that differ become more.
        ([(0.0, 2.0)] * 3, {}, [(3, 12), (6, 12), (12, 12)]),
        # Open misses make snapshots longer, but not windows.
        ([(2.0, 0.0), (2.0, 0.0), (0.5, 0.0)], {}, [(3, 12), (3, 24), (3, 48)]),
        ([(2.0, 0.0)], {"in_windows": True}, [(3, 12)]),
        ([(3.0, 2.0), (3.0, 1.0)], {"in_windows": True}, [(3, 12), (6, 12)]),
        # The larger disagreement goes first.
        ([(3.0, 2.0), (1.5, 2.0), (0.9, 0.9)], {}, [(3, 12), (3, 24), (6, 24)]),
        # A snapshot that cannot become longer, a whole launch and an interrupted replay end it.
        ([(2.0, 0.0)] * 2, {"granules_of": lambda *_: 100}, [(3, 12), (3, 24)]),
        ([(2.0, 2.0)], {"whole": True}, [(3, 12)]),
        ([(2.0, 2.0)], {"interrupted": 1}, [(3, 12)]),
    ],
)
def test_what_grows_until_snapshots_agree(
    monkeypatch: pytest.MonkeyPatch, off: list[tuple[float, float]], others: Any, expected: Steps
) -> None:
    def off_by(k: int) -> dict[str, float]:
        return dict(zip((PAST, PLACE), off[k - 1], strict=True))

    assert steps(monkeypatch, off_by, **others) == expected


def test_the_budget_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three places of 10,000 granules: 0.01 s to trace, and 8 trials of 10,000 requests 0.005 s."""
    cost_s = 30_000 / 3e6 + 80_000 / 15e6

    def off(_: int) -> dict[str, float]:
        return {PAST: 2.0, PLACE: 0.0}

    def granules_of(places: int, waves: int) -> int:
        return waves * 10_000 // 12

    assert steps(monkeypatch, off, granules_of, 2.9 * cost_s) == [(3, 12)]
    assert steps(monkeypatch, off, granules_of, 3.1 * cost_s) == [(3, 12), (3, 24)]


class Compared(NamedTuple):
    """Of each level: the hit ratio of the whole launch and, from snapshots, its estimate; and the bytes that
    are read from DRAM and written to it."""

    replay: Replay
    whole: list[float]
    estimates: list[memsim.Estimate]
    whole_bytes: dict[str, float]
    estimated_bytes: dict[str, memsim.Estimate]

    def inside(self, part: str = "") -> bool:
        """Whether all intervals contain the ratios; part : the intervals of that part alone"""
        return all(
            abs(ratio - one.mean) <= one.parts.get(part, one.half_width) + 1e-9
            for ratio, one in zip(self.whole, self.estimates, strict=True)
        )

    def has_bytes(self, direction: str, tolerance: float = 1e-3) -> bool:
        """Whether the interval, and that part of the bytes more, contains what the whole launch moves."""
        one, exact = self.estimated_bytes[direction], self.whole_bytes[direction]
        return abs(one.mean - exact) <= one.half_width + tolerance * exact


def load_ratios(replay: Replay) -> list[memsim.Estimate]:
    totals = summarise(replay.dataset).totals
    return [
        one.hit_ratio
        for (_, kind), one in totals.items()
        if kind in ("load", "read") and one.hit_ratio.is_defined
    ]


def compared(seed: int, **changes: Any) -> Compared:
    """A random launch as default snapshots tell it, and replayed whole with groups out of step."""
    workload, on = random_launches.workload(seed), random_launches.small_machine(seed)
    replay = tracegen.profile(workload, on, **changes)
    n_groups = int(replay.attrs["of_groups"])
    everything = tracegen.trace(workload, on, groups=n_groups)
    whole = memsim.replay(everything, on, trials=24, deviation=True, counts_start=True)
    exact, estimated = (dram_bytes(one) for one in (whole, replay))
    return Compared(
        replay,
        [one.mean for one in load_ratios(whole)],
        load_ratios(replay),
        {direction: one.mean for direction, one in exact.items()},
        estimated,
    )


def dram_bytes(replay: Replay) -> dict[str, memsim.Estimate]:
    moved = summarise(replay.dataset).launch.moved
    return {"read": moved.read_bytes["DRAM"], "written": moved.write_bytes["DRAM"]}


def test_a_profile_traces_a_start_and_three_places(tmp_path: Path) -> None:
    found = compared(5)
    replay = found.replay
    assert replay.attrs["traced_groups"] < replay.attrs["of_groups"]
    places = places_of(replay.dataset)
    assert places.n >= 4
    assert places.has_start
    for ratio, one in zip(found.whole, found.estimates, strict=True):
        assert abs(ratio - one.mean) < max(0.02, one.half_width)
    again = Replay.load(replay.save(tmp_path / "k.nc"))
    assert again.attrs["options"] == replay.attrs["options"]
    assert replay_page(again.dataset) == replay_page(replay.dataset)


LAYERS, ROWS, ROW_GROUPS, ITEMS = 12, 48, 8, 32


def layers() -> tuple[Workload, memsim.Machine]:
    """Each row of a layer reads five rows of `a`, of which the row before has read four; on a machine that holds
    one row of groups resident. A layer begins with five rows that nothing has read."""
    columns = ROW_GROUPS * ITEMS
    kernel = make(
        f"{{[i, j, k, m]: 0 <= i < {columns} and 0 <= j < {ROWS} and 0 <= k < {LAYERS} and 0 <= m < 5}}",
        "out[k, j, i] = sum(m, a[k, j + m, i])",
        f"a: f4[{LAYERS}, {ROWS + 4}, {columns}]; out: f4[{LAYERS}, {ROWS}, {columns}] out",
    )
    kernel = lp.split_iname(kernel, "i", ITEMS, outer_tag="g.0", inner_tag="l.0")
    kernel = lp.tag_inames(kernel, "j:g.1, k:g.2")
    on = random_launches.small_machine(0)
    on = on.replace(
        residency=dataclasses.replace(on.residency, max_groups=ROW_GROUPS // on.n_cores)
    )
    return Workload(kernel, {"a": np.zeros((LAYERS, ROWS + 4, columns), np.float32)}), on


@pytest.mark.parametrize("with_layer_start", [True, False])
def test_what_layers_read_anew_is_counted(
    monkeypatch: pytest.MonkeyPatch, with_layer_start: bool
) -> None:
    """52 rows for 48: without a snapshot of a layer's start, the launch would read 7 % too little."""
    if not with_layer_start:
        monkeypatch.setattr(snapshot, "layer_start", lambda *_: None)
    replay = tracegen.profile(*layers())
    places = places_of(replay.dataset)
    assert places.has_start
    counted = 6 * ROW_GROUPS * (LAYERS - 1)
    start = 12 * ROW_GROUPS
    own = (counted, start) if with_layer_start else (start,)
    assert places.own_weights == pytest.approx([n / (LAYERS * ROWS * ROW_GROUPS) for n in own])
    exact = LAYERS * (ROWS + 4) * ROW_GROUPS * ITEMS * 4
    read = dram_bytes(replay)["read"]
    assert abs(read.mean / exact - 1) < 0.005 if with_layer_start else read.high < 0.95 * exact


def test_even_rows_and_odd_ones_are_counted_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 1025 sectors, which L2 fetches in pairs. Three snapshots that count six waves, three quarters of a
    row, have different parts of the odd ones: places differ more, though all rows are alike in the launch. What earlier
    groups have left is left out of the intervals, and trials are so many that the ordering is not what is open."""
    found = compared(61, trials=64)
    for ratio, one in zip(found.whole, found.estimates, strict=True):
        assert abs(one.mean - ratio) <= one.half_width - one.parts.get(PAST, 0.0)
    monkeypatch.setattr(snapshot, "in_whole_rows", lambda grid, wave, count, **_: count)
    workload, on = random_launches.workload(61), random_launches.small_machine(61)
    quarters = load_ratios(tracegen.profile(workload, on, trials=64))
    assert found.estimates[-1].parts[PLACE] < 0.5 * quarters[-1].parts[PLACE]


def test_fewer_trials_than_places_are_samples() -> None:
    replay = tracegen.profile(*layers(), memsim.ReplayOptions(trials=4))
    assert places_of(replay.dataset) == Places(3, places_of(replay.dataset).traced_share)


@pytest.mark.slow
def test_intervals_of_snapshots_cover_the_whole_launch() -> None:
    """A hundred random affine kernels: in at least 93 both levels' ratios are inside; the median
    half-width is below 2 points. Intervals without the places and the past cover far fewer.

    Of bytes, some intervals are too narrow: a table that is evicted a few times in a launch is never read
    again in a snapshot. They are right to what growing snapshots aim at."""
    found = [compared(seed) for seed in range(100)]
    halves = [one.half_width for each in found for one in each.estimates]
    inside = sum(each.inside() for each in found)
    by_ordering = sum(each.inside("ordering") for each in found)
    print(f"{inside} of 100 inside, {by_ordering} by the ordering alone;", end=" ")
    print(f"median half-width {100 * np.median(halves):.2f} points")
    for direction in ("read", "written"):
        n = sum(each.has_bytes(direction) for each in found)
        agreed = sum(each.has_bytes(direction, AGREE_BYTES) for each in found)
        moved = [max(each.whole_bytes[direction], 1) for each in found]
        estimates = [each.estimated_bytes[direction] for each in found]
        wide = np.median(
            [one.half_width / exact for one, exact in zip(estimates, moved, strict=True)]
        )
        off = [one.mean / exact - 1 for one, exact in zip(estimates, moved, strict=True)]
        print(
            f"bytes {direction}: {n} of 100 inside, {agreed} within {AGREE_BYTES:.0%} of it;",
            end=" ",
        )
        print(f"medians: half-width {wide:.2%}, error {np.median(np.abs(off)):.2%}")
        assert n >= 85
        assert agreed >= 97
        # What a short launch leaves dirty in an L2 that the snapshots do not fill is open.
        assert wide < (0.02 if direction == "read" else 0.1)
    assert inside >= 93
    assert np.median(halves) < 0.02
    assert by_ordering < 80
