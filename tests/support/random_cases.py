"""Random small traces on random small machines, for properties that hold of all."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from hypothesis import strategies as st

from memsim.machine.model import Machine
from memsim.machine.parts import Level, Translation
from memsim.montecarlo.options import GREEDY
from memsim.trace.model import BARRIER_SITE, ArrayExtent, Trace
from tests.support.small_machines import level, machine
from tests.support.traces import make_trace

SITES = ("load", "store", "atomic", "load", "store")
SECOND_ARRAY = 1 << 12  # the granule where it begins
BYTE_MASKS = (0xFFFFFFFF, 0xFFFFFFFF, 0x0000FFFF, 0xFFFF0000, 0xFF, 0x0F0F0F0F)


@st.composite
def accesses(draw: st.DrawFn, n_lane_bits: int) -> list[tuple[Any, ...]]:
    """A few accesses between barriers: (site, granules, starts, byte masks, lane groups)."""
    out = []
    for _ in range(draw(st.integers(0, 8))):
        site = draw(st.integers(0, len(SITES) - 1))
        first = draw(st.integers(0, 40)) + draw(st.sampled_from([0, 0, 0, SECOND_ARRAY]))
        granules = sorted({first + d for d in draw(st.lists(st.integers(0, 12), max_size=5))})
        masks = [draw(st.sampled_from(BYTE_MASKS)) for _ in granules]
        lanes = [draw(st.integers(1, (1 << n_lane_bits) - 1)) for _ in granules]
        out.append((site, granules, draw(st.booleans()), masks, lanes))
    return out


@st.composite
def traces(draw: st.DrawFn, subgroup_size: int) -> Trace:
    n_lane_bits = subgroup_size // 8
    groups: list[list[list[tuple[Any, ...]]]] = []
    for _ in range(draw(st.integers(1, 6))):
        n_epochs = draw(st.sampled_from([1, 1, 2, 3]))
        subgroups = []
        for _ in range(draw(st.integers(1, 3))):
            # A sub-group may return early, or have nothing to do at all.
            returns_after = draw(st.sampled_from([n_epochs, n_epochs, n_epochs, 0, 1]))
            listed: list[tuple[Any, ...]] = []
            for epoch in range(min(returns_after, n_epochs)):
                if epoch:
                    listed.append((BARRIER_SITE, [], True, [], []))
                listed.extend(draw(accesses(n_lane_bits)))
            starts = [True, *(a[0] == BARRIER_SITE for a in listed)]
            subgroups.append([(a[0], a[1], a[2] or s, *a[3:]) for a, s in zip(listed, starts)])  # noqa: B905
        groups.append(subgroups)
    whole = draw(st.booleans())
    trace = make_trace(
        [[[a[:4] for a in s] for s in g] for g in groups],
        SITES,
        subgroup_size=subgroup_size,
        whole=whole,
    )
    lanes = [bits for g in groups for s in g for a in s for bits in a[4]]
    local = draw(st.sampled_from([0, 0, 32, 4096]))
    n_earlier = 0 if whole else draw(st.sampled_from([0, 3]))
    streaming = draw(st.sampled_from([True, False, False]))
    bypassing = draw(st.sampled_from([True, False, False]))
    return trace.replace(
        sites=tuple(
            dataclasses.replace(
                site,
                bypasses_l1=bypassing and site.direction == "load" and k == 0,
                nontemporal=streaming and k == 1,
            )
            for k, site in enumerate(trace.sites)
        ),
        lane_groups=np.array(lanes, np.uint8),
        arrays=(
            ArrayExtent(name="a", base_bytes=0, size_bytes=2048),
            ArrayExtent(name="b", base_bytes=SECOND_ARRAY * 32, size_bytes=2048),
        ),
        launch=dataclasses.replace(
            trace.launch, n_groups=trace.launch.n_groups + n_earlier, local_memory_bytes=local
        ),
        workgroup=trace.workgroup + n_earlier,
        earlier=draw(earlier()),
        earlier_groups=draw(st.integers(0, n_earlier)),
    )


@st.composite
def earlier(draw: st.DrawFn) -> np.ndarray[Any, Any] | None:
    """What groups before the traced ones have touched; None: not known."""
    if draw(st.booleans()):
        return None
    edges = draw(st.sets(st.integers(0, 64), max_size=12))
    edges |= {SECOND_ARRAY + edge for edge in draw(st.sets(st.integers(0, 64), max_size=6))}
    return np.array(sorted(edges)[: len(edges) // 2 * 2], np.int64).reshape(-1, 2)


@st.composite
def levels(
    draw: st.DrawFn, name: str, n_cores: int, first: bool, middle: bool, together: bool = False
) -> Level:
    """together : also with features, or sets of them, that no shipped machine has at this level; loops are compiled
    for each such set, half a minute each"""
    line = draw(st.sampled_from([32, 64, 128, 256]))
    sector = draw(st.sampled_from([s for s in (32, 64, 128, 256) if s <= line]))
    fill = draw(st.sampled_from([f for f in (32, 64, 128, 256) if sector <= f <= line]))
    ways = draw(st.sampled_from([1, 2, 3, 4, -1]))
    replacement = draw(
        st.sampled_from(["lru", "lru", "lru_loads", "lru_loads", "fifo", "random", "plru"])
    )
    sets = draw(st.sampled_from([1, 2, 3, 4]))
    if replacement == "plru":
        ways, sets = (4, sets) if ways == 3 else (ways, sets if ways != -1 else 4)
    index = st.sampled_from(["modulo", "xor", "xor_next", "ipoly"])
    write_policy = draw(st.sampled_from(["write_through", "write_back", "write_back"]))
    slices, partitions = draw(st.integers(1, 3)), 1
    if middle and n_cores % 2 == 0 and draw(st.booleans()):
        slices, partitions = 2 * slices, 2
    allocate = draw(
        st.sampled_from(
            [
                *("none", "no_fetch", "fetch_on_write", "update_memory_and_fetch"),
                *("lazy_fetch_on_read", "lazy_fetch_on_read"),
            ]
        )
    )
    on_fill = (
        partitions == 1 and (first or together) and draw(st.sampled_from([False, False, True]))
    )
    if on_fill:
        write_policy, allocate = "write_through", "none"
    if replacement == "lru_loads":
        write_policy, on_fill = "write_through", False
    made = level(
        name,
        line=line,
        sector=sector,
        fill=fill,
        ways=ways,
        sets=sets,
        slices=slices,
        n_partitions=partitions,
        allocate="on_fill" if on_fill else "on_miss",
        replacement=replacement,
        set_index=draw(index),
        slice_index=draw(index),
        write_policy=write_policy,
        write_allocate=allocate,
        partial_write_back_percent=(
            draw(st.sampled_from([0.0, 30.0, 100.0]))
            if not first and (write_policy, allocate) == ("write_back", "lazy_fetch_on_read")
            else 0.0
        ),
        completes_sectors=not first
        and (write_policy, allocate) == ("write_back", "lazy_fetch_on_read")
        and draw(st.booleans()),
        write_hit=draw(st.sampled_from(["update", "update", "evict"])),
        caches_loads=draw(st.sampled_from([True, True, True, False])),
        store_hits_only_written=draw(st.booleans()),
        pending_requests=draw(st.sampled_from([1, 2, 5, 256])),
        latency_cycles=draw(st.sampled_from([1.0, 4.0, 9.5])),
        tags_per_cycle=draw(st.sampled_from([1.0, 1.5, 4.0])),
        cores_per_instance=(
            1
            if first
            else n_cores
            if partitions > 1 or not middle
            else draw(st.integers(1, n_cores))
        ),
    )
    if slices == 1 and replacement in ("lru", "lru_loads", "fifo") and draw(st.booleans()):
        n_lines = draw(st.integers(1, max(made.tagged_lines - 1, 1)))
        if not together and (on_fill or not first):
            return made
        return dataclasses.replace(
            made,
            size_bytes=n_lines * line,
            tagged_bytes=made.size_bytes if made.tagged_lines > 1 else 0,
        )
    if first and replacement != "plru" and draw(st.booleans()):
        way = made.n_sets * made.n_slices * line
        if draw(st.booleans()):
            unit = made.n_ways * made.n_slices * line
            return dataclasses.replace(
                made,
                size_bytes=made.size_bytes + unit,
                storage_bytes=made.size_bytes + unit + 64,
                local_carveouts_bytes=(64, 64 + unit),
                carveout_takes="sets",
            )
        return dataclasses.replace(
            made,
            size_bytes=made.size_bytes + way,
            ways=ways if ways == -1 else ways + 1,
            storage_bytes=made.size_bytes + way + 64,
            local_carveouts_bytes=(64, 64 + way),
        )
    return made


@st.composite
def machines(draw: st.DrawFn, subgroup_size: int, together: bool = False) -> Machine:
    n_cores = draw(st.integers(1, 4))
    n_levels = draw(st.sampled_from([2, 1, 2, 3, 2, 3, 0]))
    made = [
        draw(levels(f"L{k + 1}", n_cores, first=k == 0, middle=k == 1, together=together))
        for k in range(n_levels)
    ]
    made_of_them = machine(
        *made,
        cores=n_cores,
        subgroup=subgroup_size,
        coalesce=draw(st.sampled_from([16, subgroup_size])),
        max_groups=draw(st.integers(1, 3)),
        miss_turns=draw(st.sampled_from([1.0, 3.0, 20.0])),
        cycles_per_turn=draw(st.sampled_from([1.0, 3.0])),
        n_schedulers=draw(st.sampled_from([1, 2, 4])),
        scheduler_turns=draw(st.sampled_from(["fixed", "free"])),
        group_start_cycles=draw(st.sampled_from([0.0, 7.5])),
        throughputs=draw(st.sampled_from([{}, {"load_store_lanes": 16.0}])),
    )
    translation = st.builds(
        Translation,
        entries=st.integers(1, 5),
        page_bytes=st.sampled_from([256, 1024, 4096]),
        miss_cycles=st.just(20.0),
        placement=st.sampled_from(["contiguous", "random"]),
    )
    return made_of_them.replace(translation=draw(st.none() | translation))


def samplers(on: Machine, together: bool = False) -> st.SearchStrategy[str]:
    """Greedy ones not beside allocation on fill, unless together: no shipped machine has both."""
    on_fill = any(cache.allocate == "on_fill" for cache in on.levels)
    greedy = [] if on_fill and not together else ["gto", "gty", "gty"]
    return st.sampled_from(["wrr", "lrr", "uniform", *greedy])


@st.composite
def cases(draw: st.DrawFn, together: bool = False) -> tuple[Trace, Machine, dict[str, Any], int]:
    subgroup_size = draw(st.sampled_from([16, 32, 32, 64]))
    trace, made = draw(traces(subgroup_size)), draw(machines(subgroup_size, together))
    if made.levels and made.levels[0].storage_bytes:
        most = made.levels[0].local_carveouts_bytes[-1]
        local = min(trace.launch.local_memory_bytes, most // made.residency.max_groups // 32 * 32)
        trace = trace.replace(launch=dataclasses.replace(trace.launch, local_memory_bytes=local))
    options: dict[str, Any] = {
        "sampler": draw(samplers(made, together)),
        "dispatch": draw(st.sampled_from(["first_free", "first_free", "round_robin"])),
        "deviation": draw(st.sampled_from([None, True, False])),
        "warmup_waves": draw(st.sampled_from([None, 0])),
        "warm": draw(st.booleans()),
        "random_bases": draw(st.booleans()),
    }
    if options["sampler"] not in GREEDY and draw(st.booleans()):
        weights = st.lists(st.integers(1, 3), min_size=trace.n_subgroup, max_size=trace.n_subgroup)
        options["weights"] = draw(weights)
    return trace, made, options, draw(st.integers(0, 1000))
