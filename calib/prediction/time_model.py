"""The time of a kernel, from its basic blocks and the costs of their accesses in a replay.

    ILP_i  issue cycles of the block's instructions, and of L1's pipe for its accesses: their sum, or for
           machine instructions the longest of the units' times (calib.prediction.machine_pipes)
    La_i   latency until the data arrive that the block waits for, from the replay's hit ratios: that of
           the slowest access, or the largest of the expected latencies X. A last block that stores
           waits for its store on machines whose groups do so
    Bw_i   bytes that each level below L1 moves for the block, divided by its bandwidth per core, and look-ups in
           the level below L1; where the machine file specifies how long they take, also missed address
           translations, starts of groups, and atomic operations on one line

Two solvers combine them. `events` simulates the sub-groups of a few cores
(calib.prediction.event_simulation): each level is a channel that these cores share, the units of a core
work for different sub-groups at once, and a group starts when the resources of an earlier one are freed.
`equation` is the paper's equation in its corrected form: all sub-groups are in one block, and Bw_i is that of the slowest channel. Both respect the lower bounds
that no schedule can beat: the bytes that each level must move, and the instructions that must be issued.
In mode `paper` there is one latency and one bandwidth, caches are ignored, and the time is that of
the equation.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from calib.prediction.basic_blocks import Block, Program
from calib.prediction.costs import BELOW, DRAM, N_QUANTILES, AccessCosts
from calib.prediction.event_simulation import Events, events
from calib.prediction.latency_hiding import Blocks, LatencyHidingError, hidden_factor, round_cycles
from calib.prediction.machine_pipes import (
    READS,
    is_issued,
    load_store_cycles,
    stalled_cycles,
    throughputs_of,
    unit_cycles,
)
from calib.prediction.options import Latency, Mode, Solver
from calib.prediction.throughputs import cycles_of, issue_cycles
from memsim.machine import Machine
from memsim.montecarlo import Occupancy
from memsim.report import DEPENDENT, HOT_LINE, IN_TURN, REQUESTS, STARTS, TRANSLATION
from memsim.statistics import GROUPS, ONE_PLACE, PAST, Estimate, Places, describe
from memsim.trace import Launch

Floats = npt.NDArray[np.float64]
ROUNDS, FIRST_ROUND = 8, 2
"""Rounds of the event simulation; those after the second and before the last are timed."""
CORES = 4
"""Cores that share channels in the event simulation. A single core cannot use the share of L2 or DRAM that
other cores leave idle, which makes V100, A100 and MI210 streams 18 % too slow at medium occupancy; 8
cores are within 3 % of 4."""
NEARLY_ALL, NOTABLE_PART = 0.8, 0.1
"""Parts of the time: of a lower bound that limits it, and of what latency, barriers or starts add."""
TURN_CYCLES = 8.0
"""In which a unit serves a block of machine instructions before it serves others; where only operations are known, a
block is issued as a whole, as in the paper. Of 50 configurations of a convolution on an A100, turns half
as long change the times by 1.2 %, twice as long by 2.3 % (mean absolute)."""
MOST_TURNS = 6
"""Iterations of a loop that the event simulation runs; the rest take as long as those of a steady loop."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The cycles of a program's blocks on a machine; block 0 is the start of a group.

    program : with the start of a group as its first block
    unit_cycles : (n_block, n_unit) cycles of each unit but the load/store unit, `units` by name; where
        only operations are known, one unit executes all
    pipe_cycles : (n_block,) of the load/store unit and L1
    at_once : whether ILP_i is the longest of these cycles rather than their sum
    latency_cycles : (n_trial, n_block)
    channel_cycles : (n_trial, n_block, n_channel)
    channels : names;  barrier : (n_block,) whether the block ends with a barrier
    spread : (n_trial, n_block, n_quantile) latencies of equally many executions each, over their mean; all alike if
        empty
    loads, waits : (n_block,) whether the block loads, and whether a sub-group waits after it for what it has loaded;
        all do if empty
    channel_used : (n_trial, n_block, n_channel) probability that the block's loads use a channel at all; 1 if empty
    queue_cycles : (n_channel,) see calib.prediction.event_simulation.Options
    stalled_cycles : (n_block,) in which a sub-group's own instructions wait for each other, or () if unknown
    schedulers : of a core; a sub-group stays on one of them. 0 where only operations are known
    idle_during_l1 : part of L1's cycles in which DRAM delivers nothing
    once_s : channel -> seconds that it needs for what the launch moves once, beside what all groups move
    """

    program: Program
    unit_cycles: Floats
    pipe_cycles: Floats
    latency_cycles: Floats
    channel_cycles: Floats
    channels: tuple[str, ...]
    barrier: npt.NDArray[np.bool_]
    units: tuple[str, ...] = ("arithmetic",)
    at_once: bool = False
    stalled_cycles: tuple[float, ...] = ()
    schedulers: int = 0
    idle_during_l1: float = 0.0
    once_s: Mapping[str, float] = field(default_factory=dict)
    spread: Floats = field(default_factory=lambda: np.zeros(0))
    loads: tuple[bool, ...] = ()
    waits: tuple[bool, ...] = ()
    channel_used: Floats = field(default_factory=lambda: np.zeros(0))
    queue_cycles: tuple[float, ...] = ()

    @property
    def arithmetic_cycles(self) -> Floats:
        """(n_block,) of the busiest unit."""
        return np.asarray(self.unit_cycles.max(axis=1))

    @property
    def issue_cycles(self) -> Floats:
        """(n_block,) ILP_i."""
        if self.at_once:
            return np.maximum(self.arithmetic_cycles, self.pipe_cycles)
        return self.arithmetic_cycles + self.pipe_cycles

    @property
    def occupied_cycles(self) -> Floats:
        """(n_block, n_unit) for which a block occupies what works at once: each unit, and the load/store unit
        with L1; or one column, where all that the block needs works in turn."""
        if self.at_once:
            return np.column_stack([self.unit_cycles, self.pipe_cycles])
        return self.issue_cycles[:, None]

    @property
    def alone_cycles(self) -> Floats:
        """(n_block,) in which a sub-group issues a block if it has the core to itself: each scheduler has an equal
        share of the arithmetic units, and instructions wait for each other."""
        share = self.schedulers * self.arithmetic_cycles
        return np.maximum(share, self.stalled_cycles) if self.stalled_cycles else share

    @property
    def wait_cycles(self) -> Floats:
        """(n_trial, n_block) for which a sub-group waits after a block's turn: for data, and for its own
        results."""
        own = np.maximum(self.alone_cycles - self.issue_cycles, 0.0)
        return np.asarray(self.latency_cycles + own)

    def latencies_cycles(self, trial: int) -> Floats:
        """(n_block, n_quantile) of equally many executions each."""
        cycles = self.latency_cycles[trial][:, None]
        return np.asarray(cycles * self.spread[trial] if self.spread.size else cycles)

    def without_latency(self) -> Inputs:
        """Data are not waited for; groups start as late as they do."""
        latency_cycles = self.latency_cycles.copy()
        latency_cycles[:, 1:] = 0.0
        return dataclasses.replace(self, latency_cycles=latency_cycles)

    @property
    def n_trials(self) -> int:
        return len(self.latency_cycles)


@dataclass(frozen=True, kw_only=True)
class Residents:
    """The residency of a launch: the paper's TLP, BLP, NB and NSM.

    subgroups_per_group : TLP
    groups_per_core : BLP, at most the launch's groups divided by the cores
    n_groups : NB;  n_cores : NSM
    work : requests of the launch's mean group over those of the mean traced one
    work_half_width : what is open of it, as part of the time
    """

    subgroups_per_group: int
    groups_per_core: int
    n_groups: int
    n_cores: int
    work: float = 1.0
    work_half_width: float = 0.0

    @property
    def rounds(self) -> float:
        """RepNum, rounds of resident groups like the traced ones; fractional where the last is not full."""
        return max(1.0, self.work * self.n_groups / (self.groups_per_core * self.n_cores))

    @property
    def subgroups(self) -> int:
        return self.subgroups_per_group * self.groups_per_core


def residents(machine: Machine, launch: Launch, occupancy: Occupancy) -> Residents:
    """The residency of a launch; BLP is lower than the occupancy allows where groups are too few."""
    available = math.ceil(launch.n_groups / machine.n_cores)
    return Residents(
        subgroups_per_group=-(-launch.group_items // machine.subgroup_size),
        groups_per_core=max(1, min(occupancy.groups_per_core, available)),
        n_groups=launch.n_groups,
        n_cores=machine.n_cores,
    )


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The time of one launch.

    seconds : (n_trial,)
    floors_s : lower bounds, name -> (n_trial,) seconds: `arithmetic`, `L1` and each channel
    parts_s : name -> seconds that the launch would be faster without `latency`, `dependent instructions`,
        `barriers`, `group start` or DRAM's wait for L1; with the mean costs of all trials
    exposed : (n_block,) fraction of each block's wait that nothing hides: with `events`, in which the core
        issues nothing; with `equation`, the mean LH
    places : those of the launch that the trials stand for in turn
    past_s : how much later the launch ends if groups before the snapshots left nothing of use in the caches, and
        if they left everything that they may have; the second is negative
    l1_half_width_s : of what the L1 cycles of groups that were not traced leave open
    """

    seconds: Floats
    floors_s: dict[str, Floats]
    parts_s: dict[str, float]
    exposed: Floats
    inputs: Inputs
    residents: Residents
    mode: Mode
    solver: Solver
    places: Places = ONE_PLACE
    past_s: tuple[float, float] = (0.0, 0.0)
    l1_half_width_s: float = 0.0

    def mean(self, values: npt.ArrayLike) -> float:
        """Of (n_trial,) values, over places and orderings."""
        return describe(values, self.places).mean

    @property
    def floor_means_s(self) -> dict[str, float]:
        """Name -> lower bound, the mean over trials."""
        return {name: self.mean(floor) for name, floor in self.floors_s.items()}

    @property
    def estimate(self) -> Estimate:
        """Mean and interval over orderings, places, and groups that were not traced; without an interval for
        one trial, as in mode `paper`."""
        found = describe(self.seconds, self.places)
        past = max(map(abs, self.past_s))
        if past:
            found = found.with_part(PAST, past)
        groups = self.residents.work_half_width * found.mean + self.l1_half_width_s
        return found.with_part(GROUPS, groups) if groups else found

    @property
    def binds(self) -> str:
        """What limits the time: the largest lower bound where it is nearly all of the time; else the part
        without which most time would be saved, if that is notable."""
        total = self.mean(self.seconds)
        name, floor = max(self.floor_means_s.items(), key=lambda item: item[1])
        waits = {name: saved for name, saved in self.parts_s.items() if name != IN_TURN}
        part, saved = max(waits.items(), key=lambda item: item[1])
        if total and floor < NEARLY_ALL * total and saved > NOTABLE_PART * total:
            return part
        return "issue" if name == "arithmetic" else name


def simulated_inputs(
    program: Program,
    costs: AccessCosts,
    machine: Machine,
    resident: Residents,
    *,
    latency: Latency = "slowest",
) -> Inputs:
    """The cycles of blocks whose accesses were replayed.

    Where the trace has an access more or less often than the program (a compiler keeps its value, some
    sub-groups skip it), its costs are scaled so that the totals are those of the replay. Raises
    ThroughputError, which names every throughput that the machine lacks.
    """
    _require(machine, program)
    index = {name: k for k, name in enumerate(costs.sites)}
    started = program.with_first(Block())
    scale = _executions_ratio(program, costs)
    per_execution, channels = _channel_cycles(costs, machine)
    n_trial = costs.n_trials
    units, occupied, local = _issue(program, machine)
    pipe = [0.0]
    waits = [np.full(n_trial, machine.group_start_cycles)]
    moved = [np.tile(_start_cycles(machine, resident, channels), (n_trial, 1))]
    loads, is_awaited = [True], [True]
    used = [np.ones((n_trial, len(channels)))]
    spread = [np.ones((n_trial, N_QUANTILES))]
    for number, block in enumerate(program.blocks, 1):
        accesses = [index[name] for name in block.accesses]
        waited = [index[name] for name in block.waits_for if costs.loads[index[name]]]
        pipe.append(local[number] + float((scale * costs.pipe_cycles)[accesses].sum()))
        quantiles = costs.slowest_quantiles_cycles(waited)
        mean = quantiles.mean(axis=1, keepdims=True)
        spread.append(quantiles / np.where(mean > 0, mean, 1))
        wait_cycles = costs.slowest_cycles if latency == "slowest" else costs.mean_cycles
        waits.append(wait_cycles(waited))
        moved.append((scale * per_execution)[:, :, accesses].sum(2))
        loads.append(bool(costs.loads[accesses].any()))
        used.append(_used([n for n in accesses if costs.loads[n]], costs, channels))
        is_awaited.append(bool(waited))
    for last in program.last_blocks if machine.store_wait_cycles else ():
        if any(not costs.loads[index[name]] for name in program.blocks[last].accesses):
            waits[last + 1] = np.maximum(waits[last + 1], machine.store_wait_cycles)
            loads[last + 1] = is_awaited[last + 1] = True
            spread[last + 1][:] = 1.0
    return Inputs(
        program=started,
        unit_cycles=occupied,
        units=units,
        at_once=_is_compiled(program),
        pipe_cycles=np.array(pipe),
        latency_cycles=np.stack(waits, axis=1),
        channel_cycles=np.stack(moved, axis=1),
        channels=channels,
        channel_used=np.stack(used, axis=1),
        spread=np.stack(spread, axis=1),
        queue_cycles=tuple(machine.dram.queue_cycles * (name == DRAM) for name in channels),
        loads=tuple(loads),
        waits=tuple(is_awaited),
        barrier=_barriers(started),
        stalled_cycles=_stalled(program),
        schedulers=machine.n_schedulers if _is_compiled(program) else 0,
        idle_during_l1=machine.dram_idle_during_l1_percent / 100,
    )


def paper_inputs(
    program: Program, machine: Machine, *, local_latency_cycles: float = 0.0
) -> Inputs:
    """The cycles of blocks as in the paper: one latency and one bandwidth for all global accesses.

    DataSize_i is the bytes that the block's accesses request for a whole sub-group. The latency is that
    of DRAM; hits are ignored.

    local_latency_cycles : of a block that accesses local memory only
    """
    _require(machine, program, *(["global_load"] if _executes_accesses(program) else []))
    latency = machine.dram.latency_cycles + machine.dram.row_conflict_cycles
    bandwidth = machine.dram.bandwidth_bytes_per_cycle / machine.n_cores
    arithmetic, pipe, waits, moved = [0.0], [0.0], [0.0], [0.0]
    for block in program.blocks:
        local = any("local" in name for name in block.operations)
        arithmetic.append(issue_cycles(machine, block.operations))
        pipe.append(len(block.accesses) * cycles_of(machine, "global_load"))
        waits.append(latency if block.accesses else local_latency_cycles if local else 0.0)
        moved.append(block.bytes_per_item * machine.subgroup_size / bandwidth)
    started = program.with_first(Block())
    return Inputs(
        program=started,
        unit_cycles=np.array(arithmetic)[:, None],
        pipe_cycles=np.array(pipe),
        latency_cycles=np.array([waits]),
        channel_cycles=np.array(moved)[None, :, None],
        channels=(DRAM,),
        barrier=_barriers(started),
    )


def time_of(
    inputs: Inputs,
    resident: Residents,
    machine: Machine,
    *,
    mode: Mode = "simulated",
    solver: Solver = "events",
    places: Places = ONE_PLACE,
) -> Timing:
    """The time of a launch. places : those that the trials of the inputs stand for in turn

    Raises LatencyHidingError where mode or solver is unknown.
    """
    if mode not in get_args(Mode) or solver not in get_args(Solver):
        raise LatencyHidingError(f"there is no mode {mode!r} with solver {solver!r}")
    if mode == "paper":
        solver = "equation"
    seconds, floors = seconds_of(inputs, resident, machine, mode=mode, solver=solver)
    typical = mean_of_trials(inputs, places)

    def typical_s(changed: Inputs) -> float:
        return float(seconds_of(changed, resident, machine, mode=mode, solver=solver)[0][0])

    total_s = typical_s(typical)
    parts = {
        name: max(0.0, total_s - typical_s(changed))
        for name, changed in _without(typical, resident).items()
    }
    return Timing(
        seconds=seconds,
        floors_s=floors,
        parts_s=parts,
        exposed=_exposed(inputs, resident) if solver == "equation" else _idle(typical, resident),
        inputs=inputs,
        residents=resident,
        mode=mode,
        solver=solver,
        places=places,
    )


def mean_of_trials(inputs: Inputs, places: Places = ONE_PLACE) -> Inputs:
    """Inputs of one trial, in which every cost is the mean over places and orderings."""
    place = np.arange(inputs.n_trials) % places.n
    weight = places.weights[place] / np.bincount(place)[place]

    def mean(cycles: Floats) -> Floats:
        return np.average(cycles, axis=0, weights=weight)[None]

    return dataclasses.replace(
        inputs,
        latency_cycles=mean(inputs.latency_cycles),
        channel_cycles=mean(inputs.channel_cycles),
        spread=mean(inputs.spread) if inputs.spread.size else inputs.spread,
        channel_used=mean(inputs.channel_used) if inputs.channel_used.size else inputs.channel_used,
    )


def seconds_of(
    inputs: Inputs,
    resident: Residents,
    machine: Machine,
    *,
    mode: Mode = "simulated",
    solver: Solver = "events",
) -> tuple[Floats, dict[str, Floats]]:
    """(n_trial,) seconds of a launch, and its lower bounds as in Timing."""
    scale = resident.rounds / machine.clock_hz
    floors = {
        name: floor * scale + inputs.once_s.get(name, 0.0)
        for name, floor in floors_cycles(inputs, resident).items()
    }
    seconds = _round(inputs, resident, mode, solver) * scale
    if mode == "simulated":
        seconds = np.maximum(seconds, np.max(list(floors.values()), axis=0))
        if inputs.idle_during_l1 and DRAM in floors:
            in_turn = floors[DRAM] + inputs.idle_during_l1 * floors["L1"]
            seconds = np.maximum(seconds, in_turn)
    return seconds, floors


def floors_cycles(inputs: Inputs, resident: Residents) -> dict[str, Floats]:
    """name -> (n_trial,) cycles of a round that no schedule can beat."""
    count = occurrences(inputs)
    subgroups = resident.subgroups * np.ones(inputs.n_trials)
    is_bound = np.array([unit != READS for unit in inputs.units])
    floors = {
        "arithmetic": subgroups * float((count @ inputs.unit_cycles)[is_bound].max()),
        "L1": subgroups * float(count @ inputs.pipe_cycles),
    }
    for k, channel in enumerate(inputs.channels):
        floors[channel] = subgroups * (inputs.channel_cycles[:, :, k] @ count)
    return floors


def occurrences(inputs: Inputs) -> Floats:
    """(n_block,) how often a sub-group runs each block."""
    count = inputs.program.occurrences()
    return np.array([count.get(k, 0.0) for k in range(len(inputs.program.blocks))])


def timeline(
    inputs: Inputs, resident: Residents, *, rounds: int = 2, turns: int = MOST_TURNS
) -> Events:
    """The events of a few rounds, with means over trials.

    turns : iterations of each loop that are simulated; the others are omitted
    """
    paths, _ = _paths(inputs, turns)
    return _run(mean_of_trials(inputs), paths, resident, 0, rounds)


def _channel_cycles(costs: AccessCosts, machine: Machine) -> tuple[Floats, tuple[str, ...]]:
    """(n_trial, n_channel, n_site) cycles that an execution occupies each channel, and their names.

    Beside the bytes of each level, look-ups in the level below the first take time, and so do translations of
    addresses and starts of groups where the machine specifies how much; no access starts a group.
    """
    named = dict(
        zip(
            costs.channels,
            (costs.channel_bytes / costs.channel_bytes_per_cycle[:, None]).swapaxes(0, 1),
            strict=True,
        )
    )
    if len(machine.levels) > BELOW:
        named[machine.levels[BELOW].name + REQUESTS] = costs.look_ups / costs.look_ups_per_cycle
    if costs.hot_line_cycles.any():
        of_core = costs.hot_line_cycles * machine.n_cores  # which all cores use
        named[HOT_LINE] = np.tile(of_core, (costs.n_trials, 1))
    if costs.translation_cycles is not None:
        named[TRANSLATION] = costs.missed_translations * costs.translation_cycles
    if machine.group_starts_per_cycle:
        named[STARTS] = np.zeros_like(costs.look_ups)
    return np.stack(list(named.values()), axis=1), tuple(named)


def _used(sites: Sequence[int], costs: AccessCosts, channels: Sequence[str]) -> Floats:
    """(n_trial, n_channel) probability that loads use a channel at all."""
    used = np.ones((costs.n_trials, len(channels)))
    levels = costs.served.shape[1]
    if not levels or not sites:
        return used
    missed = 1 - np.prod(costs.served[:, :, sites] ** costs.lines[sites], axis=2)
    for k, name in enumerate(channels):
        used[:, k] = missed[:, levels - 1 if name == DRAM else 0]
    return used


def _start_cycles(machine: Machine, resident: Residents, channels: Sequence[str]) -> Floats:
    """(n_channel,) cycles that the start of a group takes of each channel, a sub-group's share."""
    cycles = np.zeros(len(channels))
    if STARTS in channels:
        each = machine.n_cores / machine.group_starts_per_cycle
        cycles[channels.index(STARTS)] = each / resident.subgroups_per_group
    return cycles


def _is_compiled(program: Program) -> bool:
    """Whether the operations of a program are machine instructions."""
    return any(is_issued(block.operations) for block in program.blocks)


def _issue(program: Program, machine: Machine) -> tuple[tuple[str, ...], Floats, Floats]:
    """The units, (n_block, n_unit) their cycles, and (n_block,) those of accesses to local memory.

    Block 0 is the start of a group.
    """
    if not _is_compiled(program):
        summed = [0.0, *(issue_cycles(machine, block.operations) for block in program.blocks)]
        return ("arithmetic",), np.array(summed)[:, None], np.zeros(len(summed))
    rows = [{}, *(unit_cycles(machine, block.operations) for block in program.blocks)]
    local = [0.0, *(load_store_cycles(machine, block.operations) for block in program.blocks)]
    units = tuple(dict.fromkeys(name for row in rows for name in row))
    if READS in units:  # blocks that read no operand twice are issued all the same
        rows = [{READS: row.get("slots", 0.0)} | row for row in rows]
    return units, np.array([[row.get(n, 0.0) for n in units] for row in rows]), np.array(local)


def _stalled(program: Program) -> tuple[float, ...]:
    return (0.0, *(stalled_cycles(block.operations) for block in program.blocks))


def _require(machine: Machine, program: Program, *others: str) -> None:
    """Raises ThroughputError, which names every throughput that the program lacks on this machine."""
    names = {name for block in program.blocks for name in block.operations}
    if is_issued(names):
        names = set(throughputs_of(names))
    issue_cycles(machine, dict.fromkeys([*sorted(names), *others], 1.0))


def _executes_accesses(program: Program) -> bool:
    return any(block.accesses for block in program.blocks)


def _executions_ratio(program: Program, costs: AccessCosts) -> Floats:
    """(n_site,) executions in the trace, divided by those in the program."""
    expected = np.zeros(len(costs.sites))
    index = {name: k for k, name in enumerate(costs.sites)}
    for number, times in program.occurrences().items():
        for name in program.blocks[number].accesses:
            expected[index[name]] += times
    return np.where(expected > 0, costs.per_subgroup / np.where(expected > 0, expected, 1), 1.0)


def _barriers(program: Program) -> npt.NDArray[np.bool_]:
    return np.array([block.barrier for block in program.blocks], np.bool_)


def slowest_channel(inputs: Inputs) -> int:
    """The channel that the whole program occupies longest."""
    totals = np.einsum("tbw,b->w", inputs.channel_cycles, occurrences(inputs))
    return int(totals.argmax()) if len(totals) else 0


def blocks_of(inputs: Inputs) -> tuple[Blocks, list[tuple[int, int]]]:
    """The pairs of blocks of a program, with trials as the leading axis, for the equation."""
    counted = inputs.program.pairs()
    pairs = list(counted)
    first = [a for a, _ in pairs]
    issue = inputs.issue_cycles
    channel = inputs.channel_cycles[:, :, slowest_channel(inputs)]
    return (
        Blocks(
            count=np.array([counted[pair] for pair in pairs]),
            issue_cycles=issue[first],
            next_issue_cycles=issue[[b for _, b in pairs]],
            latency_cycles=inputs.wait_cycles[:, first],
            bandwidth_cycles=channel[:, first],
            barrier=inputs.barrier[first],
        ),
        pairs,
    )


def _round(inputs: Inputs, resident: Residents, mode: Mode, solver: Solver) -> Floats:
    """(n_trial,) cycles of a round of resident groups."""
    tlp, blp = resident.subgroups_per_group, resident.groups_per_core
    if solver == "equation":
        blocks, _ = blocks_of(inputs)
        form: Literal["corrected", "paper"] = "paper" if mode == "paper" else "corrected"
        return np.asarray(round_cycles(blocks, tlp, blp, form)) * np.ones(inputs.n_trials)
    paths, cut = _paths(inputs, MOST_TURNS)
    return np.array([_steady(inputs, paths, cut, resident, t) for t in range(inputs.n_trials)])


Paths = Sequence[Sequence[int]]
"""The blocks of each sub-group of a group, in order; of one, if all run the same."""


def _paths(inputs: Inputs, turns: int) -> tuple[Paths, list[tuple[list[int], float]]]:
    """The blocks that sub-groups run, and the iterations of loops that are cut from them."""
    paths = inputs.program.paths
    # Without the program's barriers, paths may have different ones left.
    if len({int(inputs.barrier[list(path)].sum()) for path in paths}) == 1:
        return paths, []
    order, cut = inputs.program.unrolled(turns)
    return [order], cut


def _steady(
    inputs: Inputs,
    paths: Paths,
    cut: list[tuple[list[int], float]],
    resident: Residents,
    trial: int,
) -> float:
    """Cycles of a round in the steady state, including the iterations that were cut."""
    total = _slope(inputs, paths, resident, trial)
    for turn, missing in cut:
        if turn and missing:
            total += missing * _slope(inputs, [turn], resident, trial)
    return total


def _slope(inputs: Inputs, paths: Paths, resident: Residents, trial: int) -> float:
    """Cycles between the ends of consecutive rounds, the mean over cores."""
    issued = _run(inputs, paths, resident, trial, ROUNDS, CORES)
    last = issued.step == _lengths(paths, issued) - 1
    spans = []
    for core in range(CORES):
        ends = np.sort(issued.ready_cycles[last & (issued.core == core)]).reshape(ROUNDS, -1)
        # A round ends when as many sub-groups have ended as are resident.
        spans.append(ends[-2].mean() - ends[FIRST_ROUND - 1].mean())
    return float(np.mean(spans)) / (ROUNDS - 1 - FIRST_ROUND)


def _lengths(paths: Paths, issued: Events) -> npt.NDArray[np.int64]:
    """(n_event,) how many blocks the sub-group of each event runs in a round."""
    return np.array([len(path) for path in paths])[issued.subgroup % len(paths)]


def _run(
    inputs: Inputs, paths: Paths, resident: Residents, trial: int, rounds: int, cores: int = 1
) -> Events:
    tlp = resident.subgroups_per_group
    return events(
        inputs.occupied_cycles,
        inputs.latencies_cycles(trial),
        inputs.channel_cycles[trial],
        inputs.barrier.tolist(),
        tlp=tlp,
        blp=resident.groups_per_core,
        rounds=rounds,
        cores=cores,
        alone_cycles=inputs.alone_cycles.tolist(),
        loads=inputs.loads,
        waits=inputs.waits,
        channel_used=inputs.channel_used[trial] if inputs.channel_used.size else (),
        queue_cycles=inputs.queue_cycles,
        turn_cycles=TURN_CYCLES if inputs.at_once else math.inf,
        paths=paths if len(paths) == tlp else list(paths) * tlp,
    )


def _without(inputs: Inputs, resident: Residents) -> dict[str, Inputs]:
    """name -> the inputs without latencies, waits for results of instructions, group starts or barriers, or
    with DRAM and L1 at the same time."""
    no_start = np.array(inputs.latency_cycles)
    no_start[:, 0] = 0.0
    last = np.zeros(len(inputs.barrier), np.bool_)
    ends = list(inputs.program.last_blocks)
    last[ends] = inputs.barrier[ends]  # a group's end is not a barrier of the program
    changed = {"latency": inputs.without_latency()}
    if any(inputs.stalled_cycles):
        changed[DEPENDENT] = dataclasses.replace(inputs, stalled_cycles=())
    if inputs.latency_cycles[:, 0].any():
        changed["group start"] = dataclasses.replace(inputs, latency_cycles=no_start)
    if (inputs.barrier & ~last).any():
        changed["barriers"] = dataclasses.replace(inputs, barrier=last)
    if inputs.idle_during_l1:
        changed[IN_TURN] = dataclasses.replace(inputs, idle_during_l1=0.0)
    return changed


def _exposed(inputs: Inputs, resident: Residents) -> Floats:
    """(n_block,) LH averaged over sub-groups, trials and the blocks that follow."""
    blocks, pairs = blocks_of(inputs)
    factor = hidden_factor(blocks, resident.subgroups_per_group, resident.groups_per_core)
    factor = factor.reshape(-1, *factor.shape[-2:]).mean(axis=(0, 2))
    total = np.zeros(len(inputs.program.blocks))
    weight = np.zeros(len(inputs.program.blocks))
    for (first, _), value, count in zip(pairs, factor, blocks.count, strict=True):
        total[first] += value * count
        weight[first] += count
    return total / np.where(weight > 0, weight, 1)


def _idle(inputs: Inputs, resident: Residents) -> Floats:
    """(n_block,) part of the waits for each block's data in which the core issues nothing, in the first trial."""
    paths, _ = _paths(inputs, MOST_TURNS)
    issued = _run(inputs, paths, resident, 0, ROUNDS, CORES)
    waited, idle = (np.zeros(len(inputs.program.blocks)) for _ in range(2))
    blocks, lengths = issued.block, _lengths(paths, issued)
    for core in range(CORES):
        own = issued.core == core
        end, ready = issued.issued_cycles[own], issued.ready_cycles[own]
        begins, goes_on = issued.idle_cycles[core].T
        knots = np.concatenate([[0.0], np.column_stack([begins, goes_on]).ravel()])
        idle_until = np.cumsum(np.diff(knots, prepend=0.0) * (np.arange(len(knots)) % 2 == 0))
        alone = np.interp(ready, knots, idle_until) - np.interp(end, knots, idle_until)
        # In the last round nobody follows whose instructions could hide a wait.
        nth = pd.Series(issued.subgroup[own]).groupby(issued.subgroup[own]).cumcount().to_numpy()
        counted = nth < (ROUNDS - 1) * lengths[own]
        np.add.at(waited, blocks[own][counted], (ready - end)[counted])
        np.add.at(idle, blocks[own][counted], alone[counted])
    return idle / np.where(waited > 0, waited, 1)
