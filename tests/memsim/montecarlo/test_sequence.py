"""Launches one after another: the contents of the shared levels, against the twin and hand counts."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memsim
from memsim.bounds import places_of
from memsim.errors import ReplayError
from memsim.hierarchy.cache import ACCESSES, HITS, N_COUNTS
from memsim.machine.model import Machine
from memsim.montecarlo import plan_files
from memsim.montecarlo.launch_by_launch import (
    SequenceWorkspace,
    make_sequence,
    run_sequence,
)
from memsim.statistics import ONE_PLACE, PHASES
from memsim.trace.launches import Copy, Event, Fill, Launches
from memsim.trace.model import ArrayExtent, Trace
from tests.support.random_cases import SECOND_ARRAY, SITES, machines, samplers, traces
from tests.support.small_machines import level, machine
from tests.support.traces import make_trace
from tests.twins.replay.cache import ReferenceCache
from tests.twins.replay.trial import reference_trial


@st.composite
def sequences(draw: st.DrawFn) -> tuple[Launches, Machine, dict[str, Any], int]:
    subgroup_size = draw(st.sampled_from([32, 64]))
    made = draw(machines(subgroup_size))
    found = []
    for trace in draw(st.lists(traces(subgroup_size), min_size=1, max_size=3)):
        launch = dataclasses.replace(trace.launch, local_memory_bytes=0)
        found.append(trace.replace(launch=launch))
    events: list[tuple[Event, ...]] = []
    for _ in found[1:]:
        size = draw(st.integers(0, 2048))
        event = draw(st.sampled_from([Copy, Fill]))(
            array=draw(st.sampled_from(["a", "b"])), size_bytes=size
        )
        events.append(draw(st.sampled_from([(), (event,)])))
    options = {
        "sampler": draw(samplers(made)),
        "dispatch": draw(st.sampled_from(["first_free", "round_robin"])),
        "random_bases": draw(st.booleans()),
    }
    launches = Launches(launches=tuple(found), between=tuple(events))
    return launches, made, options, draw(st.integers(0, 1000))


REPEATABLE = settings(
    derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
Case = tuple[Launches, Machine, dict[str, Any], int]


@settings(REPEATABLE, max_examples=20)
@given(sequences())
def test_sequence_equals_its_twin(case: Case) -> None:
    compare(case)


@pytest.mark.slow
@settings(REPEATABLE, max_examples=150)
@given(sequences())
def test_it_does_in_many_cases(case: Case) -> None:
    compare(case)


def compare(case: Case) -> None:
    launches, on, options, seed = case
    sequence, _ = make_sequence(launches, on, **options)
    work = SequenceWorkspace(sequence)
    fast = run_sequence(sequence, work, seed, 1)
    kept: list[ReferenceCache] = []
    n_rows, first = len(SITES) * len(launches.launches), 0
    for k, trace in enumerate(launches.launches):
        if k:
            for event in launches.between[k - 1]:
                base = 0 if event.array == "a" else SECOND_ARRAY * 32
                begin, end = -(-base // 256) * 8, (base + event.size_bytes) // 256 * 8
                for cache in kept:
                    cache.discard(begin, end)
        slow = reference_trial(
            trace, on, seed, 1, launch=k, kept=kept, rows=(first, n_rows), **options
        )
        own = slow.counts[:, first : first + len(trace.sites)]
        np.testing.assert_array_equal(fast.launches[k].counts, own)
        first += len(trace.sites)
    again = run_sequence(sequence, work, seed, 1)
    np.testing.assert_array_equal(again.counts, fast.counts)


L1, L2 = level("L1", ways=4), level("L2", ways=8)


def sweep(lines: range) -> Trace:
    """One sub-group that loads each line once; all launches share one array."""
    trace = make_trace([[[(0, [line]) for line in lines]]])
    return trace.replace(arrays=(ArrayExtent(name="a", base_bytes=0, size_bytes=1 << 16),))


def counts_of(launches: Launches, on: Machine) -> Any:
    sequence, _ = make_sequence(launches, on)
    return run_sequence(sequence, None, 0, 0)


@pytest.mark.parametrize(("lines", "hits"), [(8, 8), (9, 0)])
def test_what_fits_into_l2_is_there_in_the_next_launch(lines: int, hits: int) -> None:
    """The second launch misses all of L1. Nine lines swept through eight LRU ways are all lost."""
    result = counts_of(Launches(launches=(sweep(range(lines)),) * 2), machine(L1, L2))
    first, second = (one.counts[:, 0] for one in result.launches)
    assert first[:, HITS].tolist() == [0, 0]
    assert second[:, ACCESSES].tolist() == [lines, lines]
    assert second[:, HITS].tolist() == [0, hits]
    assert result.launches[1].dram_read_bytes == 32 * (lines - hits)


def test_what_the_host_wrote_is_fetched_anew() -> None:
    """A fill overwrites the first 256 bytes, which are eight of the 16 granules in the cache."""
    first = sweep(range(16))
    wide = machine(L1, level("L2", ways=32))
    fill = (Fill(array="a", size_bytes=256 + 31),)
    result = counts_of(Launches(launches=(first, first), between=(fill,)), wide)
    assert list(result.launches[1].counts[1, 0, [ACCESSES, HITS]]) == [16, 8]


def test_an_earlier_launchs_dirty_line_is_written_back_by_the_later_one() -> None:
    """Bytes written back are in the DRAM bytes of the later one, and in none of its sites."""
    keeps = level("L2", ways=1, write_policy="write_back", write_allocate="no_fetch")
    store = make_trace([[[(0, [0])]]], ["store"])
    arrays = (ArrayExtent(name="a", base_bytes=0, size_bytes=1 << 16),)
    launches = Launches(launches=(store.replace(arrays=arrays), sweep(range(1, 2))))
    result = counts_of(launches, machine(L1, keeps))
    assert [one.dram_write_bytes for one in result.launches] == [0, 32]
    replays = memsim.replay_launches(launches, machine(L1, keeps), trials=2)
    assert int(replays[1].dataset["write_bytes"].sum()) == 0
    assert replays[1].dataset["dram_write_bytes"].values.tolist() == [32, 32]


def test_one_launch_is_a_plain_replay() -> None:
    trace = make_trace([[[(0, range(4 * s, 4 * s + 6)), (0, [0, 9])] for s in range(6)]] * 9)
    on = machine(L1, L2, cores=2)
    (alone,) = memsim.replay_launches(Launches(launches=(trace,)), on, trials=5, seed=3)
    plain = memsim.replay(trace, on, trials=5, seed=3)
    for name in plain.dataset.data_vars:
        np.testing.assert_array_equal(alone.dataset[name], plain.dataset[name])


def test_workers_give_the_same_numbers() -> None:
    launches = Launches(launches=(sweep(range(7)), sweep(range(3, 12)), sweep(range(5))))
    on = machine(L1, L2, cores=2)
    replays = (memsim.replay_launches(launches, on, trials=4, seed=1, jobs=n) for n in (1, 2))
    for a, b in zip(*replays, strict=True):
        np.testing.assert_array_equal(a.dataset["hits"], b.dataset["hits"])
        np.testing.assert_array_equal(a.dataset["cold_misses"], b.dataset["cold_misses"])


def test_a_miss_is_cold_once_in_a_sequence() -> None:
    launches = Launches(launches=(sweep(range(4)), sweep(range(5))))
    _, second = memsim.replay_launches(launches, machine(L1, level("L2", ways=2)), trials=1)
    assert second.dataset["cold_misses"].values[:, 0].tolist() == [5, 1]


def test_memory_grows_with_the_launches_and_not_with_their_square() -> None:
    """A launch has rows for its own sites and one more, whatever the number of launches: 10,000
    launches took 24 GB."""
    on = machine(L1, L2)
    for n in (2, 40):
        sequence, _ = make_sequence(Launches(launches=(sweep(range(4)),) * n), on)
        work = SequenceWorkspace(sequence)
        result = run_sequence(sequence, work, 0, 0)
        assert {one.counts.shape for one in result.launches} == {(2, 1, N_COUNTS)}
        assert result.counts.shape == (2, n, N_COUNTS)
        assert sequence.first_site.tolist() == list(range(n + 1))
        assert {plan.n_sites for plan in sequence.plans} == {1}
        assert len({id(plan.machine) for plan in sequence.plans}) == 1
        assert len({id(plan.array_of_chunk) for plan in sequence.plans}) == 1
        assert len(work.of) == 1


def test_launches_may_have_more_sites_together_than_one_trace() -> None:
    """20,000 loads each, every one a site, of the same 20,000 sectors: the second launch finds all in L2."""
    n = 20_000
    one = make_trace([[[(i, [i]) for i in range(n)]]], ("load",) * n)
    result = counts_of(Launches(launches=(one, one)), machine(L1, level("L2", ways=n)))
    hits = [launch.counts[1, :, HITS] for launch in result.launches]
    assert (hits[0] == 0).all()
    assert (hits[1] == 1).all()
    assert result.counts.shape == (2, 2 * n, N_COUNTS)


def test_workers_map_as_many_files_for_many_launches(tmp_path: Path) -> None:
    """Ten thousand launches of a dozen files each were more than a process may map."""
    names = []
    for n in (1, 30):
        folder = tmp_path / str(n)
        folder.mkdir()
        traces = (sweep(range(4)), sweep(range(2, 9)), sweep(range(5)))[: min(n, 3)] * -(-n // 3)
        sequence, _ = make_sequence(Launches(launches=traces), machine(L1, L2))
        plan_files.save(sequence, folder)
        names.append(sorted(path.name for path in folder.iterdir()))
        expected = run_sequence(sequence, None, 3, 1).counts
        np.testing.assert_array_equal(
            run_sequence(plan_files.load(folder), None, 3, 1).counts, expected
        )
    assert names[0] == names[1]


@pytest.mark.parametrize("name", ["v100", "h200"])
def test_launches_whose_local_memory_leaves_them_another_l1(name: str) -> None:
    """They share the L2: the twin agrees, launch by launch."""
    rng = np.random.default_rng(0)
    groups = [
        [[(int(rng.integers(5)), rng.choice(60, 4, replace=False)) for _ in range(9)]]
        for _ in range(6)
    ]
    arrays = (
        ArrayExtent(name="a", base_bytes=0, size_bytes=2048),
        ArrayExtent(name="b", base_bytes=SECOND_ARRAY * 32, size_bytes=2048),
    )
    one = make_trace(groups, SITES).replace(arrays=arrays)
    traces = (
        one.replace(launch=dataclasses.replace(one.launch, local_memory_bytes=size))
        for size in (0, 40_000, 0, 10_000, 40_000)
    )
    launches, on = Launches(launches=tuple(traces)), memsim.load_machine(name)
    assert len(SequenceWorkspace(make_sequence(launches, on)[0]).of) > 1
    compare((launches, on, {}, 3))


def test_warm_contradicts_a_sequence() -> None:
    with pytest.raises(ReplayError, match="warm applies to one launch"):
        make_sequence(Launches(launches=(sweep(range(4)),)), machine(L1, L2), warm=True)


def test_whole_launches_of_several_waves_are_in_step_and_spread() -> None:
    """A launch by itself is replayed as without those before it; one wave alone has no phases."""
    groups = [[[(0, [8 * (g // 2) + i]) for i in range(8)]] for g in range(12)]
    many, few = make_trace(groups), make_trace(groups[:2])
    few = few.replace(arrays=many.arrays)
    on = machine(level(ways=4), level("L2", ways=16, cores_per_instance=2), cores=2)
    several, one = memsim.replay_launches(Launches(launches=(many, few)), on, trials=6)
    alone = memsim.replay(many, on, trials=6)
    np.testing.assert_array_equal(several.dataset["hits"], alone.dataset["hits"])
    assert places_of(several.dataset) == places_of(alone.dataset) == PHASES
    assert places_of(one.dataset) == ONE_PLACE
