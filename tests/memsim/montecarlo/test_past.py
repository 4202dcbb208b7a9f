"""What groups before a snapshot may have left in the caches."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsim.errors import TraceError
from memsim.hierarchy.cache import (
    ACCESSES,
    DIRTIED,
    DOUBTFUL,
    HITS,
    LIKELY,
    OPEN,
    OPEN_DIRTIED,
    PENDING,
    WRITE_GRANULES,
)
from memsim.hierarchy.requests import DenseMap
from memsim.machine.model import Machine
from memsim.montecarlo import make_plan, run_trial
from memsim.montecarlo.past import enough_bytes, is_known, past_of
from memsim.trace.model import Trace
from tests.support.small_machines import level, machine
from tests.support.traces import make_trace
from tests.support.trials import replayed

AFTER = 3
"""Groups before the traced one."""


def inside(granules: list[int], earlier: list[tuple[int, int]] | None, n_groups: int = 0) -> Trace:
    """One group that loads granules one by one, after AFTER others that are not traced."""
    trace = make_trace([[[(0, [g]) for g in granules]]], whole=False)
    return behind(trace, AFTER, earlier, n_groups)


def behind(
    trace: Trace, before: int, earlier: list[tuple[int, int]] | None, n_groups: int
) -> Trace:
    """The groups of a trace as those after `before` others; n_groups : whose granules are `earlier`"""
    return trace.replace(
        workgroup=trace.workgroup + before,
        launch=dataclasses.replace(trace.launch, n_groups=before + trace.n_groups),
        earlier=None if earlier is None else np.array(earlier, np.int64).reshape(-1, 2),
        earlier_groups=n_groups,
    )


def counted(trace: Trace, on: Machine, warmup_waves: int = 0, **options: Any) -> Any:
    """(n_level, N_COUNTS) over all sites, in one trial that counts everything after these waves."""
    options |= {"deviation": False, "warmup_waves": warmup_waves}
    return replayed(trace, on, **options).counts.sum(axis=1)


L1, L2 = level(), level("L2", ways=8)


@pytest.mark.parametrize(
    ("earlier", "n_groups", "n_open", "likely"),
    [
        (None, 0, 4, 0),  # nothing is known: each first touch may be a hit
        ([], AFTER, 0, 0),  # they touched nothing
        ([(1, 3)], AFTER, 2, 2),
        ([(0, 1), (3, 9)], AFTER, 2, 2),
        ([(1, 3)], AFTER - 1, 4, 2),  # one group is not looked at, and may have touched anything
        ([(1, 17)], AFTER - 1, 3, 3),  # 16 lines are twice what the cache holds: they decide alone
    ],
)
def test_first_touches_are_open_where_earlier_groups_touched_the_line(
    earlier: list[tuple[int, int]] | None, n_groups: int, n_open: int, likely: int
) -> None:
    counts = counted(inside([0, 1, 2, 3] * 2, earlier, n_groups), machine(L1, L2))
    assert counts[1, [OPEN, LIKELY]].tolist() == [n_open, likely]


def test_a_set_that_has_been_filled_since_holds_nothing_from_before() -> None:
    """Two ways: the first two lines may have been there, the others replaced whatever was."""
    on = machine(L1, level("L2", ways=2))
    assert counted(inside([0, 1, 2, 3, 4], None), on)[:, OPEN].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("loads", "earlier", "expected"),
    [
        # The first load of line 0 may hit in L1. It leaves L1 for line 1; the third load asks for it anew.
        ([0, 1, 0, 1, 0], [(0, 1)], 1),
        ([0, 1, 0, 1, 0], [(1, 2)], 0),  # no earlier group touched line 0
        ([0, 0, 0], [(0, 1)], 0),  # L1 serves the others
        ([0, 1, 0, 1, 0], None, 1),  # line 1 surely missed L1, whose only way line 0 took
    ],
)
def test_hits_on_what_open_misses_brought_are_doubtful(
    loads: list[int], earlier: list[tuple[int, int]] | None, expected: int
) -> None:
    counts = counted(inside(loads, earlier, AFTER), machine(level(ways=1), L2))
    assert counts[:, DOUBTFUL].tolist() == [0, expected]


@pytest.mark.parametrize("between", [[], [2]])
def test_a_sector_is_doubtful_until_it_is_surely_asked_for(between: list[int]) -> None:
    """Lines of four sectors. Of line 0, two sectors may hit in L1 at first; line 1 replaces it there. Surely
    asking for a third sector brings the line into L2, but not the other two."""
    two = inside([0, 1, 4, *between, 4, 0, 4, 0, 1], [(0, 2)], AFTER)
    on = machine(level(line=128, sector=32, ways=1), level("L2", line=128, sector=32, ways=8))
    assert counted(two, on)[1, DOUBTFUL] == 2


def test_a_whole_launch_and_one_from_its_start_have_no_past() -> None:
    trace = make_trace([[[(0, [0]), (0, [1])]]])
    start = trace.replace(whole=False, launch=dataclasses.replace(trace.launch, n_groups=9))
    for one in (trace, start):
        assert not counted(one, machine(L1, L2))[:, OPEN].any()


def test_a_sector_that_was_not_fetched_with_its_line_stays_open() -> None:
    """A line of four sectors; the first is loaded, then the third, then the first again."""
    wide = machine(L1, level("L2", line=128, sector=32, ways=2))
    assert counted(inside([0, 2, 0], [(0, 4)], AFTER), wide)[1, OPEN] == 2
    assert counted(inside([0, 2, 0], [(0, 1)], AFTER), wide)[1, OPEN] == 1


@pytest.mark.parametrize(
    ("lines", "earlier", "expected"),
    [
        (8, (0, 0), [4, 0, 0]),  # L2 holds all that the launch uses: a repeated one finds it there
        (9, (0, 0), [0, 4, 0]),  # one line more: each may be there or not
        (99, (1, 16), [0, 4, 3]),  # three of them this launch has loaded before
        (99, (0, 16), [0, 4, 4]),  # it has loaded twice what L2 holds: nothing else is left
        (99, (3, 19), [0, 1, 1]),
    ],
)
def test_a_snapshot_of_a_repeated_launch_may_find_what_the_one_before_has_left(
    lines: int, earlier: tuple[int, int], expected: list[int]
) -> None:
    """Sectors of L2 that hit, are open, and likely, of four; L1 begins each launch empty."""
    trace = inside([0, 1, 2, 3], [earlier] if earlier[1] else [], AFTER)
    (array,) = trace.arrays
    trace = trace.replace(arrays=(dataclasses.replace(array, size_bytes=32 * lines),))
    counts, cold = (counted(trace, machine(L1, L2), warm=warm) for warm in (True, False))
    assert counts[1, [HITS, OPEN, LIKELY]].tolist() == expected
    assert counts[0].tolist() == cold[0].tolist()


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 40)), max_size=8),
    st.sets(st.integers(0, 40), min_size=1, max_size=12),
)
def test_marked_granules(runs: list[tuple[int, int]], chunks: set[int]) -> None:
    touched = {g for first, n in runs for g in range(first, first + n)}
    edges = sorted(touched ^ {g + 1 for g in touched})
    trace = inside([0], list(zip(edges[::2], edges[1::2], strict=True)), AFTER)
    chunk = np.array(sorted(chunks), np.int64)
    past = past_of(trace, machine(L1), DenseMap(chunk))
    expected = [sum(1 << k for k in range(8) if 8 * c + k in touched) for c in chunk]
    assert past.tolist() == [[expected, expected]]


Groups = list[list[tuple[int, int]]]
"""Of each group the accesses: 0 for a load or 1 for a store, and the granule."""
KINDS: Any = ("load", "store")


def listed(groups: Groups) -> list[Any]:
    return [[[(site, [g]) for site, g in group]] for group in groups]


def snapshot_of(groups: Groups, before: int, known: bool = True, kinds: Any = ("load",)) -> Trace:
    """All groups but the first ones, whose accesses may be known."""
    touched = sorted({g for group in groups[:before] for _, g in group})
    earlier = [(g, g + 1) for g in touched] if known else None
    trace = make_trace(listed(groups[before:]), kinds, whole=False)
    return behind(trace, before, earlier, before if known else 0)


@st.composite
def launches(draw: st.DrawFn, stores: bool = False) -> tuple[Groups, int, Machine]:
    """Groups, how many come before the snapshot, and a machine; where there are stores, its first level writes back."""
    accesses = st.tuples(st.integers(0, int(stores)), st.integers(0, 40))
    groups = draw(st.lists(st.lists(accesses, min_size=1, max_size=12), min_size=2, max_size=8))
    before = draw(st.integers(1, len(groups) - 1))
    line = draw(st.sampled_from([32, 64, 128]))
    first = level(line=line, sector=32, ways=draw(st.sampled_from([1, 2, 4])), sets=2)
    if stores:
        allocate = draw(st.sampled_from(["no_fetch", "fetch_on_write", "lazy_fetch_on_read"]))
        first = dataclasses.replace(first, write_policy="write_back", write_allocate=allocate)
    second = level("L2", line=line, sector=32, ways=draw(st.sampled_from([2, 4, 8])), sets=2)
    return groups, before, machine(first, second)


@settings(max_examples=40)
@given(launches(), st.booleans())
def test_hits_of_the_whole_launch_lie_between_the_bounds(
    case: tuple[Groups, int, Machine], known: bool
) -> None:
    """On one core that runs one group after another, order is no chance: under LRU the later groups hit
    at least as often as in a snapshot that begins with them, and at most where it says open."""
    groups, before, on = case
    whole = counted(make_trace(listed(groups)), on, before)
    part = counted(snapshot_of(groups, before, known), on)
    # In the first level alone: the second one gets fewer requests where the first one hits.
    low = part[0, HITS] + part[0, PENDING]
    assert low <= whole[0, HITS] + whole[0, PENDING] <= low + part[0, OPEN]
    assert missed(whole) <= missed(part)


def in_parts(groups: Groups, before: int, warm: int, on: Machine) -> tuple[Any, Any]:
    """The counts of groups after the first before + warm, in the whole launch and in a snapshot of all but
    the first `before`."""
    whole = counted(make_trace(listed(groups)), on, before + warm)
    return whole, counted(snapshot_of(groups, before), on, warm)


def loading(*groups: list[int]) -> Groups:
    return [[(0, granule) for granule in group] for group in groups]


def missed(counts: npt.NDArray[np.int64]) -> int:
    """Sectors that miss in L2."""
    return int(counts[1, ACCESSES] - counts[1, HITS] - counts[1, PENDING])


def test_a_table_that_l1_keeps_is_lost_in_l2() -> None:
    """L1 has two ways, L2 four. Line 0 stays in L1 until lines 30 and 31 replace it; L2, which is not asked for
    it, loses it to lines 10 to 13. A snapshot that begins with the sixth group asks L2 for it and finds it there
    at the end."""
    groups = loading([0, 10], [0, 11], [0, 12], [0, 13], [0], [0], [30, 31, 0])
    on = machine(level(ways=2, sets=1), level("L2", ways=4, sets=1))
    whole, part = in_parts(groups, before=5, warm=1, on=on)
    assert (missed(whole), missed(part), part[1, DOUBTFUL]) == (3, 2, 1)


def test_a_line_that_only_open_misses_use_may_be_replaced_earlier() -> None:
    """Found by a reader. Sector 1 is fetched surely; the snapshot's load of sector 0, which hits in L1 in the launch,
    refreshes their line in L2, so that it outlives three others."""
    on = machine(
        level(line=128, sector=32, ways=2, sets=2), level("L2", line=128, sector=32, ways=4, sets=2)
    )
    groups = loading([1], [0, 8, 1], [16, 24, 32, 0])
    whole, part = in_parts(groups, before=1, warm=1, on=on)
    assert missed(whole) == 4
    assert missed(part) + part[1, DOUBTFUL] >= 4


@pytest.mark.parametrize("x", [0, 1])
def test_copies_of_partitions_may_be_doubtful(x: int) -> None:
    """Lines alternate between two partitions; the core is attached to the first."""
    on = machine(
        level(ways=1), level("L2", ways=8, slices=2, n_partitions=2, cores_per_instance=2), cores=2
    )
    trace = inside([x, x + 100, x, x + 100, x], [(x, x + 1)], AFTER)
    assert counted(trace, on)[1, DOUBTFUL] == 1


def test_a_store_of_a_whole_sector_ends_the_doubt() -> None:
    second = level("L2", ways=8, write_policy="write_back", write_allocate="no_fetch")
    for stored, expected in ((0, 0), (5, 1)):
        accesses = [(0, [0]), (1, [stored]), (0, [1]), (0, [0])]
        trace = make_trace([[accesses]], ("load", "store"), whole=False)
        trace = behind(trace, AFTER, [(0, 1)], AFTER)
        assert counted(trace, machine(level(ways=1), second))[1, DOUBTFUL] == expected


@settings(max_examples=40)
@given(launches(), st.data())
def test_the_second_level_misses_no_more_than_doubtful_hits_allow(
    case: tuple[Groups, int, Machine], data: st.DataObject
) -> None:
    misses_no_more(case, data)


@pytest.mark.slow
@settings(max_examples=2000)
@given(launches(), st.data())
def test_it_does_not_in_many_launches(
    case: tuple[Groups, int, Machine], data: st.DataObject
) -> None:
    misses_no_more(case, data)


def misses_no_more(case: tuple[Groups, int, Machine], data: st.DataObject) -> None:
    groups, before, on = case
    warm = data.draw(st.integers(0, len(groups) - before - 1))
    whole, part = in_parts(groups, before, warm, on)
    assert missed(whole) <= missed(part) + part[1, DOUBTFUL]


@settings(max_examples=40)
@given(launches(stores=True), st.booleans())
def test_what_the_whole_launch_makes_dirty_lies_between_the_bounds(
    case: tuple[Groups, int, Machine], known: bool
) -> None:
    """As for hits: what earlier groups left dirty, a later store does not make dirty again."""
    groups, before, on = case
    after = counted(make_trace(listed(groups), KINDS), on, before)[0]
    part = counted(snapshot_of(groups, before, known, KINDS), on)[0]
    assert part[DIRTIED] - part[OPEN_DIRTIED] <= after[DIRTIED] <= part[DIRTIED]
    hits, hits_after = (one[HITS] + one[PENDING] for one in (part, after))
    assert hits <= hits_after <= hits + part[OPEN]


@settings(max_examples=40)
@given(launches(stores=True), st.integers(0, 3))
def test_all_that_becomes_dirty_is_written_or_dirty_at_the_end(
    case: tuple[Groups, int, Machine], seed: int
) -> None:
    """Behind a first level that passes all stores on."""
    groups, _, on = case
    first = on.levels[0]
    through = dataclasses.replace(first, write_policy="write_through", write_allocate="none")
    kept = dataclasses.replace(first, name="L2", cores_per_instance=on.n_cores)
    trace = make_trace(listed(groups), KINDS)
    result = run_trial(make_plan(trace, on.replace(levels=(through, kept)))[0], seed, 0)
    written, dirtied = (result.counts[:, :, k].sum(axis=1) for k in (WRITE_GRANULES, DIRTIED))
    assert written.tolist() == (dirtied - result.dirty.sum(axis=1)).tolist()


def test_what_is_known_depends_on_the_machine() -> None:
    trace = inside([0], [(0, 16)], 1)
    assert is_known(trace, machine(L1, L2))
    assert enough_bytes(machine(L1, L2)) == 2 * 8 * 32
    assert not is_known(trace, machine(L1, level("L2", ways=16)))


@pytest.mark.parametrize(
    ("ranges", "n_groups", "rule"),
    [
        ([(0, 4)], AFTER + 1, "earlier_groups must be 0 to the 3 groups"),
        ([(4, 4)], 1, "ascending, disjoint ranges"),
        ([(0, 4), (3, 5)], 1, "ascending, disjoint ranges"),
        ([(-1, 4)], 1, "ascending, disjoint ranges"),
        ([(0, 1 << 53)], 1, "ascending, disjoint ranges"),
    ],
)
def test_broken_ranges_are_refused(ranges: list[tuple[int, int]], n_groups: int, rule: str) -> None:
    with pytest.raises(TraceError, match=rule):
        inside([0], ranges, n_groups)


def test_ranges_of_another_shape_are_refused() -> None:
    with pytest.raises(TraceError, match=r"earlier must have shape \(n, 2\)"):
        inside([0], []).replace(earlier=np.zeros((2, 3), np.int64))
