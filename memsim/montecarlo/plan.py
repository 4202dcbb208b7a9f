"""The plan of a replay: everything that its trials share."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.errors import ReplayError
from memsim.hierarchy import cache
from memsim.hierarchy.core_stage import Requests
from memsim.hierarchy.levels import NO_PAST, NO_SITES, LevelPlan, passing_level, plan_level, sets_of
from memsim.hierarchy.requests import (
    CHUNK_GRANULES,
    DenseMap,
    DenseTable,
    dense_table,
    form_requests,
)
from memsim.machine.model import Machine
from memsim.montecarlo.occupancy import Occupancy, levels_for, resident_groups
from memsim.montecarlo.options import (
    LEAST_WAVES,
    Dispatch,
    ReplayOptions,
    Sampler,
    warmup_waves_of,
)
from memsim.montecarlo.past import past_of, repeated_bytes
from memsim.montecarlo.schedule import Work, work_of
from memsim.trace.model import GRANULE_BYTES, ArrayExtent, Trace

SAMPLERS: dict[str, int] = {
    "wrr": cache.ROUND_ROBIN,
    "lrr": cache.LOOSE_ROUND_ROBIN,
    "uniform": cache.UNIFORM,
}
"""The compiled loop's number of each sampler that is not greedy; see ReplayOptions.sampler."""
NO_WARMING = np.zeros(0, np.int64)


@dataclass(frozen=True, kw_only=True)
class Ordering:
    """What is random in a trial, and what is counted.

    deviation : the initial groups are in progress (Baghsorkhi et al. 2012, section 3.2.1)
    counts_start : what the initial groups do before they are in progress is counted too
    waves_before : waves of resident groups that have begun before those that are traced; infinite: groups are evenly spread
    warmup_waves : number of first waves of resident groups that are not counted
    repeats : what is traced passes once beforehand, uncounted, through the shared levels of so many bytes or more; None: through
        none
    random_bases : every array is moved by a random multiple of 256 bytes below 1 MiB
    """

    sampler: Sampler = "wrr"
    dispatch: Dispatch = "first_free"
    deviation: bool = True
    counts_start: bool = False
    waves_before: float = 0.0
    warmup_waves: int = 0
    repeats: int | None = None
    random_bases: bool = False


@dataclass(frozen=True, kw_only=True)
class SharedSpace:
    """The addresses of launches that are replayed one after another.

    array_of_chunk : as in Plan
    """

    dense: DenseTable
    array_of_chunk: npt.NDArray[np.int32]


class ChunkOffsets(NamedTuple):
    """Per-chunk address offsets (n_chunk,) int64, in chunks of 256 bytes; None where all are 0.

    virtual : added to the trace's addresses to give those that a core uses
    physical : added to the trace's addresses to give the place in memory, as the levels that cores share see it
    """

    virtual: npt.NDArray[np.int64] | None
    physical: npt.NDArray[np.int64] | None


@dataclass(frozen=True)
class Plan:
    """What all trials share: requests, their address space, the machine, the work of each group.

    machine : its levels have the sizes that the launch's local memory leaves them
    resident : groups per core
    array_of_chunk : (n_chunk,) int32, the array that each dense chunk belongs to
    weight : (n_subgroup,) int32, bulk sequences issued in one turn
    past : (n, 2, n_chunk) uint8, see memsim.montecarlo.past; of all levels, or of each where n > 1
    warming : (n_subgroup,) int64, see memsim.trace.Trace; (0,) where groups are traced whole
    n_sites : rows of the counts
    nontemporal : (n_sites + 1,) uint8, see memsim.hierarchy.cache.Stage; (0,) where no site is
    """

    requests: Requests
    space: DenseMap
    machine: Machine
    work: Work
    resident: int
    n_sites: int
    ordering: Ordering
    array_of_chunk: npt.NDArray[np.int32]
    weight: npt.NDArray[np.int32]
    past: npt.NDArray[np.uint8]
    warming: npt.NDArray[np.int64] = field(default_factory=lambda: NO_WARMING)
    nontemporal: npt.NDArray[np.uint8] = field(default_factory=lambda: NO_SITES)

    @property
    def wave(self) -> int:
        """Groups that the machine holds resident."""
        return self.resident * self.machine.n_cores

    @property
    def n_waves(self) -> int:
        return -(-len(self.work.turns) // self.wave)

    def spread(self) -> Plan:
        """The plan of a whole launch whose groups are evenly spread from the first, instead of nearly in step."""
        ordering = dataclasses.replace(
            self.ordering, deviation=True, counts_start=True, waves_before=math.inf
        )
        return dataclasses.replace(self, ordering=ordering)

    def counted(self) -> npt.NDArray[np.uint8]:
        """(n_group,) 1 for the groups that are counted.

        Those of the first waves warm the caches. Inside a launch the last wave is not counted either,
        if two others are left: no group follows it, so its groups have the caches more and more to
        themselves.
        """
        ordering, n_groups = self.ordering, len(self.work.turns)
        counted = np.zeros(n_groups, np.uint8)
        if ordering.counts_start:
            counted[:] = 2
            return counted
        least = max(ordering.warmup_waves + 2, LEAST_WAVES) * self.wave
        followed = ordering.deviation and n_groups >= least
        last = n_groups - self.wave if followed else n_groups
        counted[ordering.warmup_waves * self.wave : last] = 1
        return counted

    def level_plans(self, shared: list[LevelPlan] | None = None) -> list[LevelPlan]:
        """Every level from the core outward; without caches, one level that passes everything on.

        shared : the levels behind the first, if another launch has them already
        """
        levels = self.machine.levels
        if not levels:
            granules = first_line_granules(self.machine)
            n_lines = len(self.space.chunk) * (CHUNK_GRANULES // granules)
            return [passing_level(granules, n_lines)]
        # Cores are replayed one by one, so one instance of the first level serves them all.
        cores = (1, *[self.machine.n_cores] * (len(levels) - 1))
        below = (*levels[1:], None)
        wanted = list(zip(levels, below, cores, strict=True))[: 1 if shared is not None else None]
        past = [self.past[min(k, len(self.past) - 1)] for k in range(len(wanted))]
        own = [
            plan_level(*one[:2], self.space, *one[2:], of)
            for one, of in zip(wanted, past, strict=True)
        ]
        return own + (shared or [])

    def moved(self, planned: list[LevelPlan], offsets: ChunkOffsets) -> list[LevelPlan]:
        """The levels with the sets of other addresses: the first level's are virtual, those of the
        levels that cores share are physical."""
        moved = list(planned)
        for k, level in enumerate(self.machine.levels):
            offset = offsets.physical if k else offsets.virtual
            if offset is not None:
                sets = sets_of(level, DenseMap(self.space.chunk + offset))
                moved[k] = dataclasses.replace(planned[k], set_of=sets)
        return moved


def first_line_granules(machine: Machine) -> int:
    """Granules in a line of the first level; without caches, in a burst of memory."""
    unit = machine.levels[0].line_bytes if machine.levels else machine.dram.burst_bytes
    return min(CHUNK_GRANULES, max(1, unit // GRANULE_BYTES))


def make_plan(
    trace: Trace,
    machine: Machine,
    options: ReplayOptions | None = None,
    *,
    shared: SharedSpace | None = None,
    **changes: Any,
) -> tuple[Plan, Occupancy]:
    """Fit a trace to a machine.

    options, changes : see ReplayOptions; the number of trials and the options of workers are ignored
    shared : what the trace shares with other launches that use the same caches

    Raises ReplayError where trace, machine and options do not fit, MachineError where the machine's
    levels cannot be replayed.
    """
    options = (options or ReplayOptions()).replace(**changes)
    _check_fit(trace, machine)
    launch = trace.launch
    if options.registers is not None:
        launch = dataclasses.replace(launch, registers_per_item=options.registers)
    occupancy = resident_groups(machine, launch, groups_per_core=options.groups_per_core)
    resident = occupancy.groups_per_core
    machine = machine.replace(levels=levels_for(machine, launch, resident))
    past = NO_PAST[
        None
    ]  # where launches share caches, these hold what the launches before have left
    if shared is None:
        shared = shared_space(dense_table(trace.granule), trace.arrays)
        past = past_of(trace, machine, DenseMap(shared.dense.chunk), warm=options.warm)
    requests, space = form_requests(
        trace,
        granules_per_line=first_line_granules(machine),
        coalesce_lanes=machine.coalesce_lanes,
        dense=shared.dense,
    )
    plan = Plan(
        requests=requests,
        space=space,
        machine=machine,
        work=work_of(requests, machine.cycles_per_turn),
        resident=resident,
        n_sites=len(trace.sites),
        ordering=_ordering(trace, machine.n_cores * resident, options),
        array_of_chunk=shared.array_of_chunk,
        weight=_weights(trace, options.weights),
        past=past,
        warming=NO_WARMING if trace.warming is None else trace.warming,
        nontemporal=_nontemporal(trace),
    )
    return plan, occupancy


def _nontemporal(trace: Trace) -> npt.NDArray[np.uint8]:
    found = np.array([*(site.nontemporal for site in trace.sites), False], np.uint8)
    return found if found.any() else NO_SITES


def _check_fit(trace: Trace, machine: Machine) -> None:
    if trace.subgroup_size != machine.subgroup_size:
        raise ReplayError(
            f"the trace has sub-groups of {trace.subgroup_size} and machine {machine.name} of"
            f" {machine.subgroup_size}: trace again for this machine"
        )
    if trace.n_groups == 0:
        raise ReplayError(
            f"a trace must have at least one group, that of {trace.launch.kernel} has none"
        )


def _ordering(trace: Trace, wave: int, options: ReplayOptions) -> Ordering:
    """The ordering that options specify, with the defaults for this trace."""
    n_waves = -(-trace.n_groups // wave)
    warmup_waves = options.warmup_waves
    if warmup_waves is None:
        warmup_waves = _warmup(trace, wave)
    if warmup_waves >= n_waves:
        raise ReplayError(
            f"warmup_waves must be below the snapshot's {n_waves} waves, got {warmup_waves}"
        )
    deviation = (not trace.whole) if options.deviation is None else options.deviation
    counts_start = options.counts_start
    if counts_start is None:
        is_short = not trace.whole and trace.n_groups < LEAST_WAVES * wave
        is_short = is_short and trace.warming is None
        counts_start = deviation and is_short and options.warmup_waves is None
    return Ordering(
        sampler=options.sampler,
        dispatch=options.dispatch,
        deviation=deviation,
        counts_start=counts_start,
        waves_before=int(trace.workgroup[0]) / wave,
        warmup_waves=warmup_waves,
        repeats=repeated_bytes(trace) if options.warm else None,
        random_bases=options.random_bases,
    )


def changes_for_occupancy(
    plan: Plan, trace: Trace, machine: Machine, groups_per_core: int
) -> dict[str, Any]:
    """The fields of the plan that change with the number of resident groups, the carve-out included.

    machine : before any carve-out
    """
    ordering = plan.ordering
    wave = machine.n_cores * groups_per_core
    warmup = ordering.warmup_waves and _warmup(trace, wave)
    counts_start = ordering.counts_start or (ordering.warmup_waves > 0 and not warmup)
    return {
        "machine": machine.replace(levels=levels_for(machine, trace.launch, groups_per_core)),
        "resident": groups_per_core,
        "ordering": dataclasses.replace(
            ordering,
            waves_before=int(trace.workgroup[0]) / wave,
            warmup_waves=warmup,
            counts_start=counts_start,
        ),
    }


def _warmup(trace: Trace, wave: int) -> int:
    if trace.whole or trace.warming is not None:
        return 0
    return warmup_waves_of(trace.n_groups // wave)


def _weights(trace: Trace, weights: npt.ArrayLike | None) -> npt.NDArray[np.int32]:
    if weights is None:
        return np.ones(trace.n_subgroup, np.int32)
    given = np.array(weights, np.int32)
    if given.shape != (trace.n_subgroup,) or (given < 1).any():
        raise ReplayError(
            f"weights must be {trace.n_subgroup} positive integers, one a sub-group,"
            f" got shape {given.shape}"
        )
    return given


def shared_space(dense: DenseTable, arrays: Sequence[ArrayExtent]) -> SharedSpace:
    """The address space of some granules, and the array that each chunk of it belongs to."""
    if not arrays:
        return SharedSpace(dense=dense, array_of_chunk=np.zeros(len(dense.chunk), np.int32))
    base = np.array([array.base_bytes for array in arrays], np.int64)
    order = np.argsort(base, kind="stable")
    last = np.searchsorted(base[order], dense.chunk * 256 + 255, side="right") - 1
    return SharedSpace(dense=dense, array_of_chunk=order[np.maximum(last, 0)].astype(np.int32))
