"""Time of a kernel: basic blocks, fed by what a replay says of their accesses.

    ILP_i  issue cycles of the block's instructions, and of L1's pipe for its accesses
    La_i   when the data of the accesses that the block waits for are there, from the replay's hit
           ratios: that of the slowest of them, or the largest of their expected latencies X. A last
           block that stores waits for its store, where the machine's groups do
    Bw_i   bytes that each level below L1 moves for the block / its bandwidth per core; and the
           translations that it misses, where the machine says how long they take

Two solvers put them together. `events` lets the sub-groups of a few cores take turns
(calib.prediction.event_simulation); each level is a channel of its own that these cores share, groups follow each other
as their room becomes free. `equation` is the
paper's, in its corrected form: all sub-groups are in one block, and Bw_i is that of the slowest
level. Both keep the floors that no order can beat: what each level and L1 must move, what must be
issued. In mode `paper` there is one latency and one bandwidth, caches are ignored and time is that of
the equation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from calib.prediction.basic_blocks import Block, Program, Repeat
from calib.prediction.costs import DRAM, AccessCosts
from calib.prediction.event_simulation import Events, events
from calib.prediction.latency_hiding import Blocks, LatencyHidingError, hidden_factor, round_cycles
from calib.prediction.throughputs import cycles_of, issue_cycles
from memsim.machine import Machine
from memsim.montecarlo import Occupancy
from memsim.statistics import Estimate, describe
from memsim.trace import Launch

Floats = npt.NDArray[np.float64]
TRANSLATION = "translation"
Mode = Literal["simulated", "paper"]
Solver = Literal["events", "equation"]
Latency = Literal["slowest", "expected"]
ROUNDS, FIRST_ROUND = 8, 2
"""The event simulation's rounds, of which those after the second and before the last are timed."""
CORES = 4
"""That share channels. One alone has its share of L2 or DRAM even while the others wait, which makes V100,
A100 and MI210 streams 18 % too slow at medium occupancy; 8 are within 3 % of 4."""
MOST_TURNS = 6
"""Of a loop that the event simulation runs; further ones last as long as in a steady loop."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What a machine makes of a program's blocks, row 0 being the start of a group.

    program : with the start of a group as its first block
    arithmetic_cycles, pipe_cycles : (n_block,) what ILP_i is made of
    latency_cycles : (n_trial, n_block)
    channel_cycles : (n_trial, n_block, n_channel)
    channels : names;  barrier : (n_block,)
    """

    program: Program
    arithmetic_cycles: Floats
    pipe_cycles: Floats
    latency_cycles: Floats
    channel_cycles: Floats
    channels: tuple[str, ...]
    barrier: npt.NDArray[np.bool_]

    @property
    def issue_cycles(self) -> Floats:
        return self.arithmetic_cycles + self.pipe_cycles

    @property
    def n_trials(self) -> int:
        return len(self.latency_cycles)


@dataclass(frozen=True, kw_only=True)
class Residents:
    """TLP, BLP, NB and NSM.

    groups_per_core : BLP, at most what the launch has for each core
    rounds : RepNum, rounds of resident groups, not whole where the last is not full
    """

    subgroups_per_group: int
    groups_per_core: int
    n_groups: int
    n_cores: int

    @property
    def rounds(self) -> float:
        return max(1.0, self.n_groups / (self.groups_per_core * self.n_cores))

    @property
    def subgroups(self) -> int:
        return self.subgroups_per_group * self.groups_per_core


def residents(machine: Machine, launch: Launch, occupancy: Occupancy) -> Residents:
    """RepNum = NB / (BLP NSM); a launch that cannot fill the cores has a lower BLP."""
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
    floors_s : name -> (n_trial,) seconds that it takes at least: `arithmetic`, `L1`, each channel
    parts_s : what the time is made of: seconds that removing it would save, `latency`, `barriers`,
        `group start`
    exposed : (n_block,) mean LH of each block, the part of its wait that nothing hides
    """

    seconds: Floats
    floors_s: dict[str, Floats]
    parts_s: dict[str, float]
    exposed: Floats
    inputs: Inputs
    residents: Residents
    mode: Mode
    solver: Solver

    @property
    def estimate(self) -> Estimate:
        """Without an interval where there is one trial, as in mode `paper`."""
        return describe(self.seconds)

    @property
    def binds(self) -> str:
        """What the time is bound by: the largest floor where it makes up most of it."""
        total = float(self.seconds.mean())
        name, floor = max(self.floors_s.items(), key=lambda item: float(item[1].mean()))
        if not total or float(floor.mean()) >= 0.6 * total:
            return "issue" if name == "arithmetic" else name
        part = max(self.parts_s.items(), key=lambda item: item[1])
        return part[0] if part[1] > 0.2 * total else name


def simulated_inputs(
    program: Program, costs: AccessCosts, machine: Machine, *, latency: Latency = "slowest"
) -> Inputs:
    """Blocks fed by a replay. Raises ThroughputError that names all that the machine lacks.

    Where the trace met an access more or less often than the program says (a compiler keeps its value,
    some sub-groups skip it), its costs are scaled, so that totals are those of the replay.
    """
    _require(machine, program)
    index = {name: k for k, name in enumerate(costs.sites)}
    started = _with_start(program)
    scale = _executed(program, costs)
    each, channels = _channel_cycles(costs)
    n_trial, n_channel = costs.n_trials, len(channels)
    arithmetic, pipe = [0.0], [0.0]
    waits = [np.full(n_trial, machine.group_start_cycles)]
    moved = [np.zeros((n_trial, n_channel))]
    for block in program.blocks:
        accesses = [index[name] for name in block.accesses]
        waited = [index[name] for name in block.waits_for if costs.loads[index[name]]]
        arithmetic.append(issue_cycles(machine, block.operations))
        pipe.append(float((scale * costs.pipe_cycles)[accesses].sum()))
        find = costs.slowest_cycles if latency == "slowest" else costs.mean_cycles
        waits.append(find(waited))
        moved.append((scale * each)[:, :, accesses].sum(2))
    last = _last_block(program.steps)
    if any(not costs.loads[index[name]] for name in program.blocks[last].accesses):
        waits[last + 1] = np.maximum(waits[last + 1], machine.store_wait_cycles)
    return Inputs(
        program=started,
        arithmetic_cycles=np.array(arithmetic),
        pipe_cycles=np.array(pipe),
        latency_cycles=np.stack(waits, axis=1),
        channel_cycles=np.stack(moved, axis=1),
        channels=channels,
        barrier=_barriers(started),
    )


def paper_inputs(
    program: Program, machine: Machine, *, local_latency_cycles: float = 0.0
) -> Inputs:
    """Blocks as the paper feeds them: one latency and one bandwidth for all global accesses.

    DataSize_i is what the block's accesses want, a sub-group wide; latency is DRAM's, hits ignored.
    local_latency_cycles : of a block that touches local memory only
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
    started = _with_start(program)
    return Inputs(
        program=started,
        arithmetic_cycles=np.array(arithmetic),
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
) -> Timing:
    """The time of a launch. Raises LatencyHidingError where mode or solver is unknown."""
    if mode not in get_args(Mode) or solver not in get_args(Solver):
        raise LatencyHidingError(f"no mode {mode!r} with solver {solver!r}")
    if mode == "paper":
        solver = "equation"
    scale = resident.rounds / machine.clock_hz
    cycles = _round(inputs, resident, mode, solver)
    floors = {name: floor * scale for name, floor in floors_cycles(inputs, resident).items()}
    seconds = cycles * scale
    if mode == "simulated":
        seconds = np.maximum(seconds, np.max(list(floors.values()), axis=0))
    parts = {}
    for name, changed in _without(inputs).items():
        saved = seconds.mean() - (_round(changed, resident, mode, solver) * scale).mean()
        parts[name] = max(0.0, float(saved))
    return Timing(
        seconds=seconds,
        floors_s=floors,
        parts_s=parts,
        exposed=_exposed(inputs, resident),
        inputs=inputs,
        residents=resident,
        mode=mode,
        solver=solver,
    )


def floors_cycles(inputs: Inputs, resident: Residents) -> dict[str, Floats]:
    """name -> (n_trial,) cycles of a round that no order of things can beat."""
    count = occurrences(inputs)
    many = resident.subgroups * np.ones(inputs.n_trials)
    found = {
        "arithmetic": many * float(count @ inputs.arithmetic_cycles),
        "L1": many * float(count @ inputs.pipe_cycles),
    }
    for k, channel in enumerate(inputs.channels):
        found[channel] = many * (inputs.channel_cycles[:, :, k] @ count)
    return found


def occurrences(inputs: Inputs) -> Floats:
    """(n_block,) how often a sub-group runs each block."""
    found = inputs.program.occurrences()
    return np.array([found.get(k, 0.0) for k in range(len(inputs.program.blocks))])


def timeline(
    inputs: Inputs, resident: Residents, *, rounds: int = 2, turns: int = MOST_TURNS
) -> tuple[Events, list[int]]:
    """The events of a few rounds, of the mean over trials, and the block at each place of the order.

    turns : of each loop; the others are left out
    """
    order, _ = inputs.program.unrolled(turns)
    return _run(inputs, order, resident, _mean(inputs), rounds), order


def _channel_cycles(costs: AccessCosts) -> tuple[Floats, tuple[str, ...]]:
    """(n_trial, n_channel, n_site) that an execution keeps each channel busy, and the channels.

    Translation is one where the machine says how long a miss takes: requests to all levels below the
    first go through it.
    """
    each = costs.channel_bytes / costs.channel_bytes_per_cycle[:, None]
    if costs.translation_cycles is None:
        return each, costs.channels
    busy = costs.missed_translations * costs.translation_cycles
    return np.concatenate([each, busy[:, None, :]], axis=1), (*costs.channels, TRANSLATION)


def _require(machine: Machine, program: Program, *others: str) -> None:
    """Raises ThroughputError that names every throughput that the program lacks on this machine."""
    names = {name for block in program.blocks for name in block.operations}
    issue_cycles(machine, dict.fromkeys([*sorted(names), *others], 1.0))


def _executes_accesses(program: Program) -> bool:
    return any(block.accesses for block in program.blocks)


def _executed(program: Program, costs: AccessCosts) -> Floats:
    """(n_site,) executions that the trace met, over those that the program says."""
    said = np.zeros(len(costs.sites))
    index = {name: k for k, name in enumerate(costs.sites)}
    for number, times in program.occurrences().items():
        for name in program.blocks[number].accesses:
            said[index[name]] += times
    return np.where(said > 0, costs.per_subgroup / np.where(said > 0, said, 1), 1.0)


def _with_start(program: Program) -> Program:
    """The program behind a block that stands for the start of a group."""

    def moved(steps: Sequence[int | Repeat]) -> tuple[int | Repeat, ...]:
        return tuple(
            Repeat(moved(step.steps), step.count) if isinstance(step, Repeat) else step + 1
            for step in steps
        )

    return Program(blocks=(Block(), *program.blocks), steps=(0, *moved(program.steps)))


def _barriers(program: Program) -> npt.NDArray[np.bool_]:
    return np.array([block.barrier for block in program.blocks], np.bool_)


def slowest_channel(inputs: Inputs) -> int:
    """The channel that takes longest over the whole program."""
    totals = np.einsum("tbw,b->w", inputs.channel_cycles, occurrences(inputs))
    return int(totals.argmax()) if len(totals) else 0


def blocks_of(inputs: Inputs) -> tuple[Blocks, list[tuple[int, int]]]:
    """The pairs of blocks of a program as the equation takes them, trials as leading axis."""
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
            latency_cycles=inputs.latency_cycles[:, first],
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
    order, cut = inputs.program.unrolled(MOST_TURNS)
    return np.array([_steady(inputs, order, cut, resident, t) for t in range(inputs.n_trials)])


def _steady(
    inputs: Inputs,
    order: list[int],
    cut: list[tuple[list[int], float]],
    resident: Residents,
    trial: int,
) -> float:
    """Cycles of one round once the first are over, the turns that were cut added."""
    values = (inputs.latency_cycles[trial], inputs.channel_cycles[trial])
    total = _slope(inputs, order, resident, values)
    for turn, missing in cut:
        if turn and missing:
            total += missing * _slope(inputs, turn, resident, values)
    return total


def _slope(
    inputs: Inputs, order: list[int], resident: Residents, values: tuple[Floats, Floats]
) -> float:
    found = _run(inputs, order, resident, values, ROUNDS, CORES)
    last = found.block == len(order) - 1
    spans = []
    for core in range(CORES):
        ends = np.sort(found.ready_cycles[last & (found.core == core)]).reshape(ROUNDS, -1)
        # A round is over when as many sub-groups have ended as are resident.
        spans.append(ends[-2].max() - ends[FIRST_ROUND - 1].max())
    return float(np.mean(spans)) / (ROUNDS - 1 - FIRST_ROUND)


def _run(
    inputs: Inputs,
    order: list[int],
    resident: Residents,
    values: tuple[Floats, Floats],
    rounds: int,
    cores: int = 1,
) -> Events:
    latency, channels = values
    return events(
        inputs.issue_cycles[order].tolist(),
        latency[order].tolist(),
        channels[order],
        inputs.barrier[order].tolist(),
        tlp=resident.subgroups_per_group,
        blp=resident.groups_per_core,
        rounds=rounds,
        cores=cores,
    )


def _mean(inputs: Inputs) -> tuple[Floats, Floats]:
    return inputs.latency_cycles.mean(axis=0), inputs.channel_cycles.mean(axis=0)


def _without(inputs: Inputs) -> dict[str, Inputs]:
    """The inputs with one thing taken away, of the mean trial's kind."""
    import dataclasses

    no_wait = np.array(inputs.latency_cycles)
    no_wait[:, 1:] = 0.0
    no_start = np.array(inputs.latency_cycles)
    no_start[:, 0] = 0.0
    last = np.zeros(len(inputs.barrier), np.bool_)
    ends = _last_block(inputs.program.steps)
    last[ends] = inputs.barrier[ends]  # a group's end is no barrier of the program
    found = {"latency": dataclasses.replace(inputs, latency_cycles=no_wait)}
    if inputs.latency_cycles[:, 0].any():
        found["group start"] = dataclasses.replace(inputs, latency_cycles=no_start)
    if (inputs.barrier & ~last).any():
        found["barriers"] = dataclasses.replace(inputs, barrier=last)
    return found


def _last_block(steps: Sequence[int | Repeat]) -> int:
    last = steps[-1]
    return _last_block(last.steps) if isinstance(last, Repeat) else last


def _exposed(inputs: Inputs, resident: Residents) -> Floats:
    """(n_block,) LH averaged over sub-groups, trials and what follows the block."""
    blocks, pairs = blocks_of(inputs)
    factor = hidden_factor(blocks, resident.subgroups_per_group, resident.groups_per_core)
    factor = factor.reshape(-1, *factor.shape[-2:]).mean(axis=(0, 2))
    total = np.zeros(len(inputs.program.blocks))
    weight = np.zeros(len(inputs.program.blocks))
    for (first, _), value, count in zip(pairs, factor, blocks.count, strict=True):
        total[first] += value * count
        weight[first] += count
    return total / np.where(weight > 0, weight, 1)
