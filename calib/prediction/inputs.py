"""The cycles of a program's blocks on a machine: what the time model is given.

ILP_i  issue cycles of the block's instructions, and of L1's pipe for its accesses: their sum, or for
       machine instructions the longest of the units' times (calib.prediction.machine_pipes)
La_i   latency until the data arrive that the block waits for, from the replay's hit ratios: that of
       the slowest access, or the largest of the expected latencies X. Stores that the block waits for,
       and those of a last block, take `store_wait_cycles`
Bw_i   bytes that each level below L1 moves for the block, divided by its bandwidth per core, and look-ups in
       the level below L1; where the machine file specifies how long they take, also missed address
       translations, starts of groups, and atomic operations on one line
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from calib.prediction.basic_blocks import Block, Program
from calib.prediction.costs import BELOW, DRAM, N_QUANTILES, AccessCosts
from calib.prediction.machine_pipes import (
    READS,
    SLOTS_UNIT,
    is_issued,
    is_of_tensor_memory,
    load_store_cycles,
    stalled_cycles,
    throughputs_of,
    unit_cycles,
)
from calib.prediction.options import Latency
from calib.prediction.residency import Residents
from calib.prediction.throughputs import BULK_LINES, cycles_of, issue_cycles, require
from memsim.machine import PORT_BYTES_PER_CYCLE, Machine
from memsim.report import BULK, HOT_LINE, REQUESTS, STARTS, STORES, TENSOR, TRANSLATION
from memsim.statistics import ONE_PLACE, Places

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The cycles of a program's blocks on a machine; block 0 is the start of a group.

    program : with the start of a group as its first block
    unit_cycles : (n_block, n_unit) cycles of each unit but the load/store unit, `units` by name; where
        only operations are known, one unit executes all
    pipe_cycles : (n_block,) of the load/store unit and L1
    whole_units : those that one sub-group may occupy as a whole; of others it has its scheduler's share
    at_once : whether ILP_i is the longest of these cycles rather than their sum
    latency_cycles : (n_trial, n_block)
    channel_cycles : (n_trial, n_block, n_channel)
    channels : names;  barrier : (n_block,) whether the block ends with a barrier
    spread : (n_trial, n_block, n_quantile) latencies of equally many executions each, over their mean; all alike if
        empty
    loads, waits : (n_block,) whether the block loads, and whether a sub-group waits after it for what it has loaded;
        all do if empty
    lag : (n_block,) see calib.prediction.basic_blocks.Block; latencies of those that lag are of what they load; 0 if empty
    channel_used : (n_trial, n_block, n_channel) probability that the block's loads use a channel at all; 1 if empty
    queue_cycles, turnaround_cycles : (n_channel,) see calib.prediction.event_simulation.Options
    stalled_cycles : (n_block,) in which a sub-group's own instructions wait for each other, or () if unknown
    schedulers : of a core; a sub-group stays on one of them. 0 where only operations are known
    idle_cycles : (n_block,) in which DRAM delivers nothing, for L1 serves hits; 0 if empty
    once_s : channel -> seconds that it needs for what the launch moves once, beside what all groups move
    launch_s : seconds that the launch takes beside its groups
    """

    program: Program
    unit_cycles: Floats
    pipe_cycles: Floats
    latency_cycles: Floats
    channel_cycles: Floats
    channels: tuple[str, ...]
    barrier: npt.NDArray[np.bool_]
    units: tuple[str, ...] = ("arithmetic",)
    whole_units: tuple[str, ...] = ()
    at_once: bool = False
    stalled_cycles: tuple[float, ...] = ()
    schedulers: int = 0
    idle_cycles: tuple[float, ...] = ()
    once_s: Mapping[str, float] = field(default_factory=dict)
    launch_s: float = 0.0
    spread: Floats = field(default_factory=lambda: np.zeros(0))
    loads: tuple[bool, ...] = ()
    waits: tuple[bool, ...] = ()
    lag: tuple[int, ...] = ()
    channel_used: Floats = field(default_factory=lambda: np.zeros(0))
    queue_cycles: tuple[float, ...] = ()
    turnaround_cycles: tuple[float, ...] = ()

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
        whole = np.array([name in self.whole_units for name in self.units])
        share = np.where(whole, 1, self.schedulers) * self.unit_cycles
        return np.asarray(np.maximum(share.max(axis=1), self.stalled_cycles or 0.0))

    @property
    def wait_cycles(self) -> Floats:
        """(n_trial, n_block) for which a sub-group waits after a block's turn: for data, and for its own
        results."""
        own = np.maximum(self.alone_cycles - self.issue_cycles, 0.0)
        waited = np.array([not lag for lag in self.lag]) if self.lag else 1.0
        return np.asarray(self.latency_cycles * waited + own)

    def latencies_cycles(self, trial: int) -> Floats:
        """(n_block, n_quantile) of equally many executions each."""
        cycles = self.latency_cycles[trial][:, None]
        return np.asarray(cycles * self.spread[trial] if self.spread.size else cycles)

    def with_l1_times(self, factor: float) -> Inputs:
        """L1 and the load/store unit take as many times their cycles."""
        idle = tuple(cycles * factor for cycles in self.idle_cycles)
        return dataclasses.replace(self, pipe_cycles=self.pipe_cycles * factor, idle_cycles=idle)

    def without_latency(self) -> Inputs:
        """Data are not waited for; groups start as late as they do."""
        latency_cycles = self.latency_cycles.copy()
        latency_cycles[:, 1:] = 0.0
        return dataclasses.replace(self, latency_cycles=latency_cycles)

    @property
    def n_trials(self) -> int:
        return len(self.latency_cycles)


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
    shares = _shares(channels, machine, resident)
    n_trial = costs.n_trials
    units, occupied, local = _issue(program, machine)
    pipe, idle = [0.0], [0.0]
    idle_each = scale * _idle_cycles(costs, machine)
    waits = [np.full(n_trial, machine.group_start_cycles)]
    moved = [np.tile(_start_cycles(machine, resident, channels) * shares, (n_trial, 1))]
    loads, is_awaited = [True], [True]
    used = [np.ones((n_trial, len(channels)))]
    spread = [np.ones((n_trial, N_QUANTILES))]
    quantiles: dict[tuple[int, ...], Floats] = {}  # many blocks wait for the same accesses
    for number, block in enumerate(program.blocks, 1):
        accesses = [index[name] for name in block.accesses]
        named = [index[name] for name in block.waits_for]
        waited = [n for n in (accesses if block.lag else named) if costs.loads[n]]
        stores = accesses if number - 1 in program.last_blocks else named
        store_wait = 0.0 if costs.loads[stores].all() else machine.store_wait_cycles
        is_awaited.append(bool(waited or store_wait) and not block.lag)
        pipe.append(local[number] + float((scale * costs.pipe_cycles)[accesses].sum()))
        idle.append(float(idle_each[accesses].sum()))
        if tuple(waited) not in quantiles:
            quantiles[tuple(waited)] = costs.slowest_quantiles_cycles(waited)
        longer = np.maximum(store_wait - quantiles[tuple(waited)], 0.0)
        cycles = quantiles[tuple(waited)] + longer
        mean = cycles.mean(axis=1, keepdims=True)
        spread.append(cycles / np.where(mean > 0, mean, 1))
        wait_cycles = costs.slowest_cycles if latency == "slowest" else costs.mean_cycles
        waits.append(wait_cycles(waited) + longer.mean(axis=1))
        moved.append((scale * per_execution)[:, :, accesses].sum(2) * shares)
        loads.append(bool(costs.loads[accesses].any() or store_wait))
        used.append(_used([n for n in accesses if costs.loads[n]], costs, channels))
    return Inputs(
        program=started,
        unit_cycles=occupied,
        units=units,
        whole_units=_whole_units(program),
        at_once=_is_compiled(program),
        pipe_cycles=np.array(pipe),
        latency_cycles=np.stack(waits, axis=1),
        channel_cycles=np.stack(moved, axis=1),
        channels=channels,
        channel_used=np.stack(used, axis=1),
        spread=np.stack(spread, axis=1),
        queue_cycles=tuple(machine.dram.queue_cycles * (name == DRAM) for name in channels),
        turnaround_cycles=tuple(costs.turnaround_cycles * (name == DRAM) for name in channels),
        loads=tuple(loads),
        waits=tuple(is_awaited),
        lag=lags if any(lags := tuple(block.lag for block in started.blocks)) else (),
        barrier=_barriers(started),
        stalled_cycles=(0.0, *(stalled_cycles(machine, one.operations) for one in program.blocks)),
        schedulers=machine.n_schedulers if _is_compiled(program) else 0,
        idle_cycles=tuple(idle) if any(idle) else (),
    )


def paper_inputs(
    program: Program, machine: Machine, *, local_latency_cycles: float = 0.0
) -> Inputs:
    """The cycles of blocks as in the paper: one latency and one bandwidth for all global accesses, and ILP_i the sum
    over all instructions.

    DataSize_i is the bytes that the block's accesses request for a whole sub-group. The latency is that
    of DRAM; hits are ignored.

    local_latency_cycles : of a block that accesses local memory only
    """
    _require(machine, program, *(["global_load"] if _executes_accesses(program) else []))
    latency = machine.dram.latency_cycles + machine.dram.row_conflict_cycles
    bandwidth = machine.dram.bandwidth_bytes_per_cycle / machine.n_cores
    units, occupied, local_pipe = _issue(program, machine)
    added = [k for k, name in enumerate(units) if name not in (SLOTS_UNIT, READS)]
    arithmetic = occupied[:, added].sum(axis=1) + local_pipe
    pipe, waits, moved = [0.0], [0.0], [0.0]
    for block in program.blocks:
        local = any("local" in name for name in block.operations)
        pipe.append(len(block.accesses) * cycles_of(machine, "global_load"))
        waits.append(latency if block.accesses else local_latency_cycles if local else 0.0)
        moved.append(block.bytes_per_item * machine.subgroup_size / bandwidth)
    started = program.with_first(Block())
    return Inputs(
        program=started,
        unit_cycles=arithmetic[:, None],
        pipe_cycles=np.array(pipe),
        latency_cycles=np.array([waits]),
        channel_cycles=np.array(moved)[None, :, None],
        channels=(DRAM,),
        barrier=_barriers(started),
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


def occurrences(inputs: Inputs) -> Floats:
    """(n_block,) how often a sub-group of a mean group runs each block."""
    count, blocks = inputs.program.occurrences(), inputs.program.blocks
    return inputs.program.share * np.array([count.get(k, 0.0) for k in range(len(blocks))])


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
    if costs.look_ups_per_cycle:
        named[machine.levels[BELOW].name + REQUESTS] = costs.look_ups / costs.look_ups_per_cycle
    if costs.hot_line_cycles.any():
        of_core = costs.hot_line_cycles * machine.n_cores  # which all cores use
        named[HOT_LINE] = np.tile(of_core, (costs.n_trials, 1))
    if costs.bulk_lines.any() and (rate := machine.throughputs.get(BULK_LINES)):
        cycles = np.maximum(costs.bulk_lines / rate, costs.bulk_bytes / PORT_BYTES_PER_CYCLE)
        named[BULK] = np.tile(cycles, (costs.n_trials, 1))
    if costs.translation_cycles is not None:
        named[TRANSLATION] = costs.missed_translations * costs.translation_cycles
    if machine.group_starts_per_cycle or machine.subgroup_starts_per_cycle:
        named[STARTS] = np.zeros_like(costs.look_ups)
    return np.stack(list(named.values()), axis=1), tuple(named)


def _shares(channels: Sequence[str], machine: Machine, resident: Residents) -> Floats:
    """(n_channel,) what a core's equal share of a channel is of what it gets where only some cores have groups.

    Cores with groups are spread evenly over the instances of a level. None gets more than its port carries.
    """
    part = resident.busy_cores / machine.n_cores
    shares = np.full(len(channels), part)
    suffixes = ("", STORES, REQUESTS)
    levels = {one.name + suffix: one for one in machine.levels for suffix in suffixes}
    for k, name in enumerate(channels):
        level = levels.get(name)
        if name in (BULK, TRANSLATION):  # of which each core has its own
            shares[k] = 1.0
        elif level is not None:
            cores = min(level.cores_per_instance, machine.n_cores)
            shares[k] = max(part, 1 / cores)
            if not name.endswith(REQUESTS):
                equal = level.bandwidth_bytes_per_cycle / cores
                shares[k] = max(shares[k], min(equal / PORT_BYTES_PER_CYCLE, 1.0))
    return shares


def with_shares(inputs: Inputs, machine: Machine, before: Residents, after: Residents) -> Inputs:
    """Inputs whose channels are shared by those cores that have groups after, instead of before."""
    shares = (_shares(inputs.channels, machine, one) for one in (after, before))
    return dataclasses.replace(inputs, channel_cycles=inputs.channel_cycles * np.divide(*shares))


def _idle_cycles(costs: AccessCosts, machine: Machine) -> Floats:
    """(n_site,) cycles in which DRAM delivers nothing, while L1 serves a load's hits."""
    if not costs.served.shape[1]:
        return np.zeros(len(costs.sites))
    hits = costs.loads * costs.served[:, 0].mean(axis=0)
    return np.asarray(machine.dram_idle_during_l1_percent / 100 * hits * costs.pipe_cycles)


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
        group, subgroup = (
            machine.n_cores / rate if rate else 0.0
            for rate in (machine.group_starts_per_cycle, machine.subgroup_starts_per_cycle)
        )
        cycles[channels.index(STARTS)] = max(group / resident.subgroups_per_group, subgroup)
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
        rows = [{READS: row.get(SLOTS_UNIT, 0.0)} | row for row in rows]
    return units, np.array([[row.get(n, 0.0) for n in units] for row in rows]), np.array(local)


def _whole_units(program: Program) -> tuple[str, ...]:
    """A product in tensor memory, which one sub-group starts, takes all tensor cores."""
    kinds = {kind for block in program.blocks for kind in block.operations}
    return (TENSOR,) if any(is_of_tensor_memory(kind) for kind in kinds) else ()


def _require(machine: Machine, program: Program, *others: str) -> None:
    """Raises ThroughputError, which names every throughput that the program lacks on this machine."""
    names = {name for block in program.blocks for name in block.operations}
    if is_issued(names):
        names = set(throughputs_of(names))
    require(machine, [*names, *others])


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
