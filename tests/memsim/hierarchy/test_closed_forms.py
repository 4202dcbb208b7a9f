"""The simulator against hand counts and closed forms."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsim.hierarchy import replacement, stores
from memsim.hierarchy.cache import (
    ACCESSES,
    CACHE_LINE_BYTES,
    HITS,
    HUGE_PAGE_BYTES,
    MUCH_BYTES,
    PENDING,
    READ_GRANULES,
    WRITE_GRANULES,
    Memory,
    aligned,
)
from memsim.hierarchy.rng import Stream, trial_sequence
from memsim.hierarchy.set_index import FUNCTIONS
from memsim.machine.file import load_machine
from memsim.machine.model import Machine
from memsim.machine.parts import Replacement, SetIndex, WriteAllocate
from memsim.montecarlo.plan import make_plan
from memsim.montecarlo.totals import site_lookups
from memsim.montecarlo.trial import Workspace, miss_kinds, misses_of, misses_with, run_trial
from memsim.trace.model import BARRIER_SITE, Trace
from tests.support.random_cases import cases
from tests.support.small_machines import level, machine
from tests.support.traces import loads, make_trace, one_subgroup
from tests.support.trials import replayed

HALF = 0x0000FFFF
OTHER_HALF = 0xFFFF0000
BARRIER = (BARRIER_SITE, [])


def hits_of(trace: Trace, on: Machine, **options: Any) -> int:
    """Hits in the first level, pending ones included."""
    return int(replayed(trace, on, **options).counts[0, :, [HITS, PENDING]].sum())


def of_loads(counts: Any) -> list[int]:
    """Accesses, hits, pending ones and granules read; a load counts nothing else."""
    assert not counts[4:].any()
    return counts[:4].tolist()  # type: ignore[no-any-return]


KEEPS: dict[str, Any] = {"write_policy": "write_back", "write_allocate": "no_fetch"}
THROUGH: dict[str, Any] = {"write_policy": "write_through"}


def test_machine_files_name_the_policies_that_there_are() -> None:
    assert set(get_args(Replacement)) == set(replacement.POLICIES)
    assert set(get_args(WriteAllocate)) == set(stores.POLICIES)
    assert set(get_args(SetIndex)) == set(FUNCTIONS)


# Streams and strides


def test_stream_misses_every_sector_once() -> None:
    n = 64
    result = replayed(
        one_subgroup((0, range(4 * i, 4 * i + 4)) for i in range(n)),
        machine(level("L1", line=128, sector=32, ways=4), level("L2", line=128, sector=32, ways=8)),
    )
    for counts in result.counts[:, 0]:
        assert of_loads(counts) == [4 * n, 0, 0, 4 * n]
    assert result.dram_read_bytes == 128 * n
    assert result.dram_write_bytes == 0


# Who is evicted


def missed_of(trace: Trace, on: Machine) -> int:
    """Sectors that loads miss in the first level."""
    counts = replayed(trace, on).counts[0, 0]
    return int(counts[ACCESSES] - counts[HITS] - counts[PENDING])


def steps_of(text: str) -> list[tuple[Any, ...]]:
    """Capital letters load lines, small ones store to them; what is in brackets is one bulk sequence."""
    steps, starts, inside = [], True, False
    for c in text:
        if c in "()":
            inside, starts = c == "(", True
        else:
            steps.append((int(c.islower()), [ord(c.upper()) - ord("A")], starts))
            starts = not inside
    return steps


def lost(text: str, on: Machine) -> str:
    """The lines that a load after these steps would miss."""
    steps = steps_of(text)
    before = missed_of(one_subgroup(steps, "load", "store"), on)
    return "".join(
        line
        for line in sorted({*text.upper()} - {*"()"})
        if missed_of(one_subgroup([*steps, *steps_of(line)], "load", "store"), on) > before
    )


LAZY: dict[str, Any] = {**THROUGH, "write_allocate": "lazy_fetch_on_read"}
VICTIMS = [
    ("lru", 4, {}, "ABCDAE", "B"),
    ("lru_loads", 4, {}, "ABCDAE", "B"),
    ("fifo", 4, {}, "ABCDAE", "A"),
    # After A B C D the tree points at A; the use of A turns its root to the right half, whose node points at C.
    ("plru", 4, {}, "ABCDAE", "C"),
    # A store of E replaces A. F then replaces B, or what the store put there.
    ("lru", 4, LAZY, "ABCDeF", "AB"),
    ("lru_loads", 4, LAZY, "ABCDeF", "AE"),
    # A store is a use, but not a load.
    ("lru", 2, KEEPS | THROUGH, "ABaC", "B"),
    ("lru_loads", 2, KEEPS | THROUGH, "ABaC", "A"),
    # E replaces A, and B C D are used: E is the least recent, but its data are still on their way.
    ("lru", 4, THROUGH, "ABCD(EBCDF)", "AE"),
    ("lru_loads", 4, THROUGH, "ABCD(EBCDF)", "AB"),
    # The least recent line goes where all are under way.
    ("lru_loads", 2, THROUGH, "(ABC)", "A"),
]


@pytest.mark.parametrize(("replacement", "ways", "fields", "text", "expected"), VICTIMS)
def test_lines_that_are_replaced(
    replacement: str, ways: int, fields: dict[str, Any], text: str, expected: str
) -> None:
    assert lost(text, machine(level(ways=ways, replacement=replacement, **fields))) == expected


def test_random_victim_is_the_next_number_of_the_cores_stream() -> None:
    on = machine(level(ways=4, replacement="random"), n_schedulers=1)
    evicted = set()
    for trial in range(16):
        missed = [
            probe
            for probe in range(4)
            if replayed(loads([0, 1, 2, 3, 4, probe]), on, trial).counts[0, 0, HITS] == 0
        ]
        core_seed = trial_sequence(1, trial).spawn(4)[1].generate_state(1, np.uint64)[0]
        assert missed == [Stream(int(core_seed)).below(4)]
        evicted.update(missed)
    assert evicted == {0, 1, 2, 3}


def test_four_sets_give_up_a_line_each_where_there_is_room_for_fewer_lines_than_tags() -> None:
    """Eight sets of two ways, room for ten lines: the eleventh of neighbouring lines costs sets 0 to 3 their oldest
    lines, the fifteenth sets 4 to 7."""
    first = level(ways=2, sets=8, replacement="lru_loads", **THROUGH)
    on = machine(dataclasses.replace(first, size_bytes=320, tagged_bytes=512))
    for n_lines, gone in ((10, ""), (11, "ABCD"), (14, "ABCD"), (15, "ABCDEFGH")):
        assert lost("ABCDEFGHIJKLMNO"[:n_lines], on) == gone


@pytest.mark.parametrize("replacement", ["lru", "lru_loads", "fifo", "random", "plru"])
def test_a_dropped_line_leaves_room(replacement: str) -> None:
    """Four ways, four lines: an atomic drops its own line, so its reload evicts no other."""
    trace = one_subgroup(
        [*((0, [g]) for g in range(4)), (1, [2]), *((0, [g]) for g in (2, 0, 1, 3, 2))],
        "load",
        "atomic",
    )
    on = machine(level(ways=4, replacement=replacement))
    assert of_loads(replayed(trace, on).counts[0, 0]) == [9, 4, 0, 5]


def test_sets_conflict_under_modulo_and_not_under_xor() -> None:
    """Lines 0, 8 and 16 in 8 sets of 2 ways."""
    for set_index, hits in (("modulo", 0), ("xor", 12), ("ipoly", 12)):
        on = machine(level(ways=2, sets=8, set_index=set_index))
        assert hits_of(loads([0, 8, 16] * 5), on) == hits
        assert hits_of(loads([0, 8] * 5), on) == 8


def test_kinds_of_misses() -> None:
    """Three lines miss cold. Modulo maps all to one 2-way set: the other misses are conflicts. With
    four lines in two ways, fully associative, they are capacity misses."""
    for on, sweep, expected in (
        (machine(level(ways=2, sets=8)), [0, 8, 16] * 5, [3, 0, 12]),
        (machine(level(ways=2)), [0, 1, 2, 3] * 5, [4, 16, 0]),
    ):
        plan, _ = make_plan(loads(sweep), on)
        actual = misses_of(run_trial(plan, 1, 0).counts[0])
        without = [misses_with(plan, None, 1, 0, 0, c) for c in ("unbounded", "associative")]
        assert list(miss_kinds(actual, *without)[:, 0]) == expected


# Chance


def off_by(hits: int, n: int, ratio: float) -> float:
    """The deviation of a count of hits from a predicted ratio, in standard errors."""
    return float(abs(hits / n - ratio) / np.sqrt(ratio * (1 - ratio) / n))


@pytest.mark.parametrize("replacement", ["lru", "lru_loads", "fifo", "random", "plru"])
def test_uniform_random_hits_as_often_as_the_cache_holds(replacement: str) -> None:
    """Each access is independent of the contents of the full cache, so hits are Bernoulli draws."""
    n_lines, ways, n = 256, 64, 20_000
    lines = np.random.default_rng(0).integers(0, n_lines, size=n + 2000)
    trace = one_subgroup(((i >= 2000, [g]) for i, g in enumerate(lines)), "load", "load")
    on = machine(level(ways=ways, replacement=replacement))
    hits = int(replayed(trace, on).counts[0, 1, HITS])
    assert off_by(hits, n, ways / n_lines) < 5
    assert off_by(hits, n, (ways + 8) / n_lines) > 5  # the test can fail


# Stores


def stores_and_loads(text: str) -> Trace:
    """`w` stores the lower half of sector 0, `v` the upper, `W` all of it, `r` loads it; a digit
    loads another line, of the same set in a cache of one line. One site a kind: 0 loads, 1 stores.
    """
    of = {"r": (0, [0]), "W": (1, [0])}
    of |= {"w": (1, [0], True, [HALF]), "v": (1, [0], True, [OTHER_HALF])}
    return one_subgroup((of.get(c) or (0, [8 * int(c)]) for c in text), "load", "store")


@pytest.mark.parametrize(
    ("allocate", "text", "load_hits", "store_hits", "read", "written"),
    [
        # text: what is read from and written to memory, in sectors
        ("no_fetch", "Wr", 1, 0, 0, 0),
        ("no_fetch", "wr", 1, 0, 0, 0),
        ("no_fetch", "w1", 0, 0, 1, 1),
        ("fetch_on_write", "Wr", 1, 0, 0, 0),
        ("fetch_on_write", "wr", 1, 0, 1, 0),
        ("fetch_on_write", "w1", 0, 0, 2, 1),
        ("lazy_fetch_on_read", "Wr", 1, 0, 0, 0),
        ("lazy_fetch_on_read", "wr", 0, 0, 1, 0),
        ("lazy_fetch_on_read", "wvr", 1, 1, 0, 0),
        ("lazy_fetch_on_read", "wwr", 0, 1, 1, 0),
        ("lazy_fetch_on_read", "wrr", 1, 0, 1, 0),
        ("lazy_fetch_on_read", "w1", 0, 0, 1, 1),
        ("lazy_fetch_on_read", "wr1", 0, 0, 2, 1),
        ("lazy_fetch_on_read", "rw1", 0, 1, 2, 1),
        ("update_memory_and_fetch", "w", 0, 0, 1, 1),
        ("update_memory_and_fetch", "wr1", 1, 0, 2, 1),
        ("update_memory_and_fetch", "ww1", 0, 1, 2, 2),
        ("none", "wr", 0, 0, 1, 1),
        ("none", "rw1", 0, 1, 2, 1),
        ("none", "r1r", 0, 0, 3, 0),
    ],
)
def test_write_back(
    allocate: str, text: str, load_hits: int, store_hits: int, read: int, written: int
) -> None:
    on = machine(level(write_policy="write_back", write_allocate=allocate))
    result = replayed(stores_and_loads(text), on)
    assert list(result.counts[0, :, HITS]) == [load_hits, store_hits]
    assert result.dram_read_bytes == 32 * read
    assert result.dram_write_bytes == 32 * written


@pytest.mark.parametrize(
    ("allocate", "write_hit", "text", "load_hits", "read"),
    [
        ("none", "update", "Wr", 0, 1),
        ("none", "update", "rWr", 1, 1),
        ("none", "evict", "rWr", 0, 2),
        ("lazy_fetch_on_read", "update", "Wr", 1, 0),
        ("lazy_fetch_on_read", "update", "wr", 0, 1),
        ("lazy_fetch_on_read", "update", "wvr", 1, 0),
        ("fetch_on_write", "update", "wr", 1, 1),
        ("update_memory_and_fetch", "update", "Wr", 1, 1),
    ],
)
def test_write_through(allocate: str, write_hit: str, text: str, load_hits: int, read: int) -> None:
    """Every store goes to the next level, and nothing is written back."""
    on = machine(level(write_policy="write_through", write_allocate=allocate, write_hit=write_hit))
    result = replayed(stores_and_loads(text + "123"), on)
    assert result.counts[0, 0, HITS] == load_hits
    assert result.dram_read_bytes == 32 * (read + 3)
    assert result.dram_write_bytes == 32 * sum(c in "wvW" for c in text)


def test_dirty_evictions_are_the_last_writers() -> None:
    """Four dirty lines in a cache of four; the loads of site 2 evict all of them, then clean lines."""
    on = machine(level(line=64, sets=4, **KEEPS))
    two = [(0, [2 * i, 2 * i + 1]) for i in range(4)]
    evicting = [(2, [8 + 2 * i]) for i in range(4)] + [(2, [2 * i]) for i in range(4)]
    result = replayed(one_subgroup([*two, (1, [0]), *evicting], "store", "store", "load"), on)
    assert list(result.counts[0, :, WRITE_GRANULES]) == [6, 2, 0]
    assert result.dram_write_bytes == 4 * 64
    assert result.dram_read_bytes == 8 * 64


def test_only_written_bytes_of_a_sector_go_on() -> None:
    """L1 writes back half a sector; L2 must read the rest unless both halves have arrived."""
    keeps = {"write_policy": "write_back", "write_allocate": "lazy_fetch_on_read"}
    on = machine(level("L1", **keeps), level("L2", ways=8, **keeps))
    half = replayed(stores_and_loads("w1r"), on)
    assert list(half.counts[1, :, ACCESSES]) == [2, 1]
    assert half.dram_read_bytes == 64
    both = replayed(stores_and_loads("w1v2r"), on)
    assert list(both.counts[1, :, HITS]) == [1, 1]
    assert both.dram_read_bytes == 64


def test_a_store_is_a_use() -> None:
    """A store that brings a second sector into a line makes the line the most recent."""
    on = machine(level(line=64, sector=32, ways=2, **KEEPS))
    trace = one_subgroup([(0, [0]), (0, [2]), (1, [1]), (0, [4]), (0, [0])], "load", "store")
    assert list(replayed(trace, on).counts[0, :, HITS]) == [1, 0]


def test_store_hits_only_where_a_store_wrote() -> None:
    fetching = {"write_policy": "write_back", "write_allocate": "update_memory_and_fetch"}
    on = machine(level(ways=4, store_hits_only_written=True, **fetching))
    for text, hits in (("rW", 0), ("rWW", 1), ("WW", 1)):
        assert replayed(stores_and_loads(text), on).counts[0, 1, HITS] == hits


# Atomics, fills, blocks


def test_atomics_are_performed_in_the_second_level() -> None:
    """The first level drops its line; the second reads once, then hits, and its line becomes dirty once; the
    later load misses the first."""
    kept = {"write_policy": "write_back", "write_allocate": "lazy_fetch_on_read"}
    on = machine(level("L1", ways=4), level("L2", ways=4, **kept))
    steps = [(0, [0]), (0, [0]), (1, [0]), (1, [0]), (0, [0])]
    result = replayed(one_subgroup(steps, "load", "atomic"), on)
    first, second = result.counts.tolist()
    assert first == [[3, 1, 0, 2, *[0] * 8], [2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0]]
    assert second == [[2, 1, 0, 1, *[0] * 8], [2, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]]
    assert (result.dram_read_bytes, result.dram_write_bytes) == (32, 0)


@pytest.mark.parametrize(("fill", "hits"), [(32, 0), (64, 32), (128, 48)])
def test_memory_is_read_in_fills(fill: int, hits: int) -> None:
    on = machine(level("L1", ways=2), level("L2", line=128, sector=32, fill=fill, ways=4))
    result = replayed(loads(range(64)), on)
    assert of_loads(result.counts[1, 0]) == [64, hits, 0, 64]
    every_fourth = replayed(loads(range(0, 256, 4)), on)
    assert every_fourth.counts[1, 0, HITS] == 0
    assert every_fourth.dram_read_bytes == 64 * fill


def test_a_c2050_miss_is_four_blocks_of_l2() -> None:
    result = replayed(loads([0, 1, 2, 3]), load_machine("c2050"))
    assert of_loads(result.counts[0, 0]) == [4, 3, 0, 4]
    assert of_loads(result.counts[1, 0]) == [4, 0, 0, 4]
    assert result.dram_read_bytes == 128


def test_loads_that_pass_by() -> None:
    on = machine(level("L1", ways=4, caches_loads=False), level("L2", ways=4))
    result = replayed(loads([0, 0, 0]), on)
    assert of_loads(result.counts[0, 0]) == [3, 0, 0, 3]
    assert of_loads(result.counts[1, 0]) == [3, 2, 0, 1]


def test_one_site_that_passes_by() -> None:
    """Volatile loads neither use nor fill the first level, even if other loads have filled it."""
    trace = make_trace([[[(0, [0]), (1, [0]), (0, [0]), (1, [0])]]], ["load", "load"])
    sites = (dataclasses.replace(trace.sites[0], bypasses_l1=True), trace.sites[1])
    on = machine(level("L1", ways=4), level("L2", ways=4))
    result = replayed(trace.replace(sites=sites), on)
    assert of_loads(result.counts[0, 0]) == [2, 0, 0, 2]
    assert of_loads(result.counts[0, 1]) == [2, 1, 0, 1]
    assert of_loads(result.counts[1, 0]) == [2, 1, 0, 1]
    assert of_loads(result.counts[1, 1]) == [1, 1, 0, 0]


@pytest.mark.parametrize(("nontemporal", "hits"), [(True, 3), (False, 0)])
def test_nontemporal_stores_leave_what_was_loaded(nontemporal: bool, hits: int) -> None:
    """Three lines are loaded into a set of four ways, then five stored, and the three loaded again: lines of such stores
    replace each other, four of five; plain ones replace the three."""
    again = [(0, [k]) for k in range(3)]
    trace = make_trace([[[*again, *((1, [k]) for k in range(8, 13)), *again]]], ["load", "store"])
    sites = (trace.sites[0], dataclasses.replace(trace.sites[1], nontemporal=nontemporal))
    kept = {"write_policy": "write_back", "write_allocate": "lazy_fetch_on_read"}
    on = machine(level("L1", ways=1, write_allocate="none"), level("L2", ways=4, **kept))
    result = replayed(trace.replace(sites=sites), on)
    assert result.counts[1, 0, [HITS, PENDING]].sum() == hits
    assert result.dram_write_bytes == 4 * 32


def test_halves_of_a_subgroup_are_coalesced_apart() -> None:
    """The C1060: 32 words of one line are two transactions of 64 bytes, and a granule that both
    half-warps access is read twice."""
    on = load_machine("c1060")
    trace = one_subgroup([(0, [0, 1, 2, 3]), (0, [8])])
    halves = [0b0011, 0b0011, 0b1100, 0b1100, 0b1111]
    trace = trace.replace(lane_groups=np.array(halves, np.uint8))
    assert replayed(trace, on).dram_read_bytes == 128 + 2 * 32
    assert replayed(trace, on.replace(coalesce_lanes=32)).dram_read_bytes == 128 + 32


@pytest.mark.parametrize(("takes", "two"), [("ways", (4, 0)), ("sets", (4, 4))])
def test_carve_out_takes_ways_or_sets(takes: str, two: tuple[int, int]) -> None:
    """Local memory leaves one of two ways, or of two sets, whose lines share the other: a sweep that fitted no longer fits;
    two lines of one set still do where it is sets that are gone."""
    banks = {"carveout_takes": takes, "bank_bytes": 4} if takes == "sets" else {}
    first = level(ways=2, sets=2, storage_bytes=4 * 32, local_carveouts_bytes=(0, 64), **banks)
    for lines, hits in (([0, 1, 2, 3], (8, 0)), ([0, 2], two)):
        sweep = loads(lines * 3)
        launch = dataclasses.replace(sweep.launch, local_memory_bytes=64)
        found = [hits_of(one, machine(first)) for one in (sweep, sweep.replace(launch=launch))]
        assert found == list(hits)


# Time: pending sectors, barriers, warm-up


def same_sector(n_subgroups: int) -> Trace:
    return make_trace([[[(0, [0])] for _ in range(n_subgroups)]])


@pytest.mark.parametrize(
    ("miss_turns", "pending"), [(1, 0), (2, 1), (5, 4), (7, 6), (8, 7), (50, 7)]
)
def test_a_sector_is_pending_for_so_many_turns(miss_turns: int, pending: int) -> None:
    """Eight sub-groups load one sector in turns 0..7. The data of the miss in turn 0 arrive at turn
    miss_turns, or after a round of all eight, because none of them issues again before."""
    result = replayed(same_sector(8), machine(level(), miss_turns=miss_turns))
    assert of_loads(result.counts[0, 0]) == [8, 7 - pending, pending, 1]


@pytest.mark.parametrize(("miss_turns", "pending"), [(1, 0), (2, 1), (5, 4), (50, 7)])
def test_a_sector_is_pending_in_a_shared_level(miss_turns: int, pending: int) -> None:
    """All eight loads bypass the first level, one in each turn: a turn is a request of the second."""
    on = machine(level("L1", caches_loads=False), level("L2"), miss_turns=miss_turns)
    assert of_loads(replayed(same_sector(8), on).counts[1, 0]) == [8, 7 - pending, pending, 1]
    # Two requests a turn: in the same time twice as many pass.
    two = make_trace([[[(0, [0]), (0, [0], False)] for _ in range(8)]])
    doubled = min(2 * miss_turns - 1, 15)
    assert of_loads(replayed(two, on).counts[1, 0]) == [16, 15 - doubled, doubled, 1]


def test_a_subgroups_own_data_are_there_when_it_issues_again() -> None:
    on = machine(level(ways=4), miss_turns=50)
    assert of_loads(replayed(loads([0, 0]), on).counts[0, 0]) == [2, 1, 0, 1]
    bulk = one_subgroup([(0, [0]), (0, [0], False)])  # one bulk sequence: the same turn
    assert of_loads(replayed(bulk, on).counts[0, 0]) == [2, 0, 1, 1]


def test_what_a_store_made_valid_is_not_pending() -> None:
    """A store replaces a line that a load has just fetched: its sector is not pending."""
    trace = one_subgroup([(0, [0]), (1, [1], False), (0, [1], False)], "load", "store")
    result = replayed(trace, machine(level(**KEEPS), miss_turns=50))
    assert of_loads(result.counts[0, 0]) == [2, 1, 0, 1]


def test_a_fill_leaves_its_valid_neighbour_alone() -> None:
    """A store made sector 0 valid; the miss of sector 1 fetches both, but sector 0 is not pending."""
    trace = one_subgroup([(1, [0]), (0, [1], False), (0, [0], False)], "load", "store")
    on = machine(level(line=64, sector=32, fill=64, **KEEPS), miss_turns=50)
    assert of_loads(replayed(trace, on).counts[0, 0]) == [2, 1, 0, 2]


@pytest.mark.parametrize("sampler", ["wrr", "lrr", "gto", "gty", "uniform"])
def test_barriers_order_a_group(sampler: str) -> None:
    """One sub-group loads before the barrier what another loads after it: that always hits."""
    on = machine(level(ways=4), miss_turns=1, n_schedulers=1)
    ordered = make_trace([[[(0, [0]), BARRIER], [BARRIER, (1, [0])]]], ("load", "load"))
    free = make_trace([[[(0, [0])], [(1, [0])]]], ("load", "load"))
    first = set()
    for trial in range(12):
        assert list(replayed(ordered, on, trial, sampler=sampler).counts[0, :, HITS]) == [0, 1]
        first.add(int(replayed(free, on, trial, sampler=sampler).counts[0, 1, HITS]))
    # Without the barrier either may come first; a greedy scheduler begins with the oldest or youngest.
    assert first == {"gto": {1}, "gty": {0}}.get(sampler, {0, 1})


def test_a_barrier_waits_for_none_that_returned() -> None:
    trace = make_trace([[[(0, [0]), BARRIER, (0, [1])], [], [(0, [2])]]])
    assert replayed(trace, machine(level())).counts[0, 0, ACCESSES] == 3


def test_bulk_sequences_stay_together() -> None:
    """Two sub-groups sweep four lines twice in a cache of four. The second round hits if a turn issues
    the eight loads of a sequence, or of eight sequences; it misses if a turn issues one load."""
    on = machine(level(ways=4))

    def sweeps(in_bulk: bool) -> Trace:
        return make_trace(
            [[[(0, [8 * s + i % 4], i == 0 or not in_bulk) for i in range(8)] for s in range(2)]]
        )

    assert hits_of(sweeps(True), on) == 8
    assert hits_of(sweeps(False), on) == 0
    assert hits_of(sweeps(False), on, weights=[8, 8]) == 8


@pytest.mark.parametrize(("lines", "hits"), [(1, 1), (8, 8), (9, 0), (20, 0)])
def test_a_repeated_sweep_hits_in_l2_what_fits_and_nothing_of_more(lines: int, hits: int) -> None:
    """LRU: of a sweep through one line more, each is evicted before it is read again. L1 is invalidated between launches,
    and what hits in L2 is not pending."""
    on = machine(level("L1", ways=32), level("L2", ways=8), miss_turns=50)
    sweep = loads(range(lines))
    cold, warm = replayed(sweep, on).counts[:, 0], replayed(sweep, on, warm=True).counts[:, 0]
    assert of_loads(cold[1]) == [lines, 0, 0, lines]
    assert of_loads(warm[1]) == [lines, hits, 0, lines - hits]
    assert of_loads(warm[0]) == of_loads(cold[0]) == [lines, 0, 0, lines]


def test_groups_before_the_counted_waves_warm_the_caches() -> None:
    trace = make_trace([[[(0, [0])]], [[(0, [0])]], [[(0, [1])]], [[(0, [0])]]], whole=False)
    on = machine(level(ways=4))
    result = replayed(trace, on, deviation=False)  # four waves, the first of them warms up
    assert of_loads(result.counts[0, 0]) == [3, 2, 0, 1]
    result = replayed(trace, on, deviation=False, warmup_waves=0)
    assert of_loads(result.counts[0, 0]) == [4, 2, 0, 2]


def test_a_random_start_drops_nothing_and_counts_the_rest() -> None:
    """A single group of 10 sequences, which begins in the middle of the first: those before the start warm the cache and
    are not counted."""
    trace = make_trace([[[(0, [i]) for i in range(10)]]], whole=False)
    on = machine(level("L1"), level("L2", ways=16))
    counted = set()
    for trial in range(40):
        result = replayed(trace, on, trial, warmup_waves=0)
        n = int(result.counts[0, 0, ACCESSES])
        assert of_loads(result.counts[1, 0]) == [n, 0, 0, n]
        begun = np.random.default_rng(trial_sequence(1, trial).spawn(4)[0]).random(1)[0]
        assert n == 10 - int(10 * ((begun - 0.05) % 1))
        counted.add(n)
    assert min(counted) == 1
    assert max(counted) == 10


def numbers_counted(trace: Trace, n_trials: int) -> set[int]:
    """How many accesses are counted behind random starts."""
    trials = (replayed(trace, machine(level()), k, warmup_waves=0) for k in range(n_trials))
    return {int(one.counts[0, 0, ACCESSES]) for one in trials}


def test_starts_lie_in_one_epoch_of_all_subgroups() -> None:
    """Three epochs of 1, 2 and 4 loads in one sub-group, and of 1, 0 and 8 in the other: the third epoch has 8
    turns of 11, of which the first sub-group is over with half as many loads as the second."""
    groups = [[[(0, [0])], [(0, [1])] * 2, [(0, [2])] * 4], [[(0, [3])], [], [(0, [4])] * 8]]
    epochs = [[*first, BARRIER, *second, BARRIER, *third] for first, second, third in groups]
    in_last = {4 - k // 2 + 8 - k for k in range(8)}
    found = numbers_counted(make_trace([epochs], whole=False), 120)
    assert found == {16, 14, 13} | in_last


def test_a_subgroup_that_returned_holds_up_no_start() -> None:
    """One sub-group has two epochs fewer; nothing before the start is counted for either."""
    long = [(0, [0]), BARRIER, (0, [1]), BARRIER, (0, [2])]
    assert numbers_counted(make_trace([[long, [(0, [0])]]], whole=False), 40) == {4, 2, 1}


# What holds for every trace and machine


@settings(
    max_examples=20,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(cases(), st.integers(0, 3))
def test_of_every_trial_bytes_are_conserved_lookups_counted_and_numbers_those_of_its_seed(
    case: tuple[Trace, Machine, dict[str, Any], int], before: int
) -> None:
    trace, on, options, seed = case
    plan, _ = make_plan(trace, on, **options)
    used = Workspace(plan)
    for trial in range(before):  # whatever the workspace did before
        run_trial(plan, seed + 1, trial, workspace=used)
    fresh, again = run_trial(plan, seed, 7), run_trial(plan, seed, 7, workspace=used)
    np.testing.assert_array_equal(fresh.counts, again.counts)
    np.testing.assert_array_equal(fresh.dram.latency_cycles, again.dram.latency_cycles)
    if on.levels:
        plan, _ = make_plan(trace, on, **{**options, "counts_start": True})
        counted = run_trial(plan, seed, 0).counts[0, :, ACCESSES]
        lookups = site_lookups(plan.requests, plan.machine.levels[0], len(trace.sites))
        assert list(lookups) == list(counted)
        check_bytes(trace, on, options, seed)


def check_bytes(trace: Trace, on: Machine, options: dict[str, Any], seed: int) -> None:
    """With sectors of one granule, the traffic of a level equals the accesses of the next, site by site."""
    fine = [dataclasses.replace(cache, sector_bytes=32) for cache in on.levels]
    plan, _ = make_plan(trace, on.replace(levels=tuple(fine)), **options)
    result = run_trial(plan, seed, 0)
    counts, last, cache = result.counts, result.counts[-1], fine[-1]
    assert (counts >= 0).all()
    assert (counts[..., HITS] + counts[..., PENDING] <= counts[..., ACCESSES]).all()
    moved = counts[..., READ_GRANULES] + counts[..., WRITE_GRANULES]
    np.testing.assert_array_equal(moved[:-1], counts[1:, :, ACCESSES])
    assert result.dram_read_bytes == 32 * last[:, READ_GRANULES].sum()
    assert result.dram_write_bytes == 32 * last[:, WRITE_GRANULES].sum()
    if cache.caches_loads and not any(site.bypasses_l1 for site in trace.sites):
        # What the last writer of a line reads to complete a sector is that sector alone.
        is_fill = [site.direction == "load" or not cache.completes_sectors for site in trace.sites]
        assert 32 * last[is_fill, READ_GRANULES].sum() % cache.fill_bytes == 0


def test_memory_is_free_once_nobody_has_its_workspace() -> None:
    """A process that replays one kernel after another would otherwise fill the computer's memory."""
    plan, _ = make_plan(loads(range(64)), load_machine("v100"))
    gc.disable()
    try:
        work = Workspace(plan)
        run_trial(plan, 0, 0, workspace=work)
        misses_with(plan, work, 0, 0, 1, "associative")
        kept = [weakref.ref(one) for one in (work, work.memory)]
        del work
        assert [one() for one in kept] == [None, None]
    finally:
        gc.enable()


def test_plans_in_turn_use_the_same_memory() -> None:
    plans = [make_plan(loads(range(n)), load_machine("v100"))[0] for n in (640, 64, 320)]
    memory = Memory()
    works = [Workspace(plan, memory) for plan in plans]
    for _ in range(2):
        for k, (plan, work) in enumerate(zip(plans, works, strict=True)):
            again = run_trial(plan, 3, k, workspace=work)
            np.testing.assert_array_equal(again.counts, run_trial(plan, 3, k).counts)
            assert np.shares_memory(work.caches[1].slots, works[0].caches[1].slots)


def test_each_subgroup_comes_first_in_some_trial() -> None:
    trace = make_trace([[[(i, [0])] for i in range(6)]], ["load"] * 6)
    missed = {
        int(replayed(trace, machine(level()), trial).counts[0, :, READ_GRANULES].argmax())
        for trial in range(60)
    }
    assert missed == set(range(6))


def test_queues_are_as_long_as_loads_need_where_nothing_is_stored() -> None:
    """A load sends one load down at most; only what an earlier launch has left dirty can be evicted besides."""
    n, on = 5000, load_machine("h200")
    plan, _ = make_plan(loads(range(0, 4 * n, 4)), on)
    first, second = Workspace(plan).queues
    asked, dirty = len(plan.requests.request), on.levels[1].capacity_lines
    assert n <= asked < 1.01 * n
    assert len(first.record) == asked + 1
    assert n <= len(second.record) <= asked + 3 * dirty + 1


@pytest.mark.parametrize("n_bytes", [8, 4096, MUCH_BYTES - 8, MUCH_BYTES, 3 * HUGE_PAGE_BYTES + 8])
def test_arrays_begin_where_they_should(n_bytes: int) -> None:
    array = aligned((n_bytes // 8, 1), np.int64)
    assert array.nbytes == n_bytes
    assert array.shape == (n_bytes // 8, 1)
    assert array.flags.c_contiguous
    unit = HUGE_PAGE_BYTES if n_bytes >= MUCH_BYTES else CACHE_LINE_BYTES
    assert array.ctypes.data % unit == 0
    array[:] = 7  # all of it is its own
    assert array.sum() == 7 * array.size
