"""The time of a kernel, from the cycles of its basic blocks (calib.prediction.inputs).

Two solvers combine them. `events` simulates the sub-groups of a few cores
(calib.prediction.event_simulation): each level is a channel that these cores share, the units of a core
work for different sub-groups at once, and a group starts when the resources of an earlier one are freed.
`equation` is the paper's equation in its corrected form: all sub-groups are in one block, and Bw_i is that of
the slowest channel. Both respect the lower bounds that no schedule can beat: the bytes that each level must
move, and the instructions that must be issued.
In mode `paper` there is one latency and one bandwidth, caches are ignored, and the time is that of
the equation.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from calib.prediction.costs import DRAM
from calib.prediction.event_simulation import Events, events
from calib.prediction.inputs import Inputs, mean_of_trials, occurrences, with_shares
from calib.prediction.latency_hiding import Blocks, LatencyHidingError, hidden_factor, round_cycles
from calib.prediction.machine_pipes import READS
from calib.prediction.options import Mode, Solver
from calib.prediction.residency import Residents
from memsim.machine import Machine
from memsim.report import BULK, DEPENDENT, IN_TURN, LAUNCH, TENSOR
from memsim.statistics import GROUPS, ONE_PLACE, PAST, Estimate, Places, describe

Floats = npt.NDArray[np.float64]
ROUNDS, FIRST_ROUND = 8, 2
"""Rounds of the event simulation; those after the second and before the last are timed. Of loops where a wait is for what an
iteration so many before has loaded, which begin with a burst, there are as many times more of both."""
CORES = 4
"""Cores that share channels in the event simulation. A single core cannot use the share of L2 or DRAM that
other cores leave idle, which makes V100, A100 and MI210 streams 18 % too slow at medium occupancy; 8
cores are within 3 % of 4."""
NEARLY_ALL, NOTABLE_PART = 0.8, 0.1
"""Parts of the time: of a lower bound that limits it, and of what latency, barriers or starts add."""
WAITS = "waits"
"""What limits a time that no resource does, where waits are not told apart."""
TURN_CYCLES = 8.0
"""In which a unit serves a block of machine instructions before it serves others; where only operations are known, a
block is issued as a whole, as in the paper. Of 50 configurations of a convolution on an A100, turns half
as long change the times by 1.2 %, twice as long by 2.3 % (mean absolute)."""
MOST_TURNS = 6
"""Iterations of a loop that the event simulation runs; the rest take as long as those of a steady loop."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The time of one launch.

    seconds : (n_trial,)
    floors_s : lower bounds, name -> (n_trial,) seconds: `arithmetic`, `tensor cores`, `L1` and each channel
    places : those of the launch that the trials stand for in turn
    cold_and_warm : the inputs if groups before the snapshots left nothing of use in the caches, and if they left
        everything that they may have; empty where that makes no difference
    l1_part : what is open of the L1 cycles of groups that were not traced, as part of them
    """

    seconds: Floats
    floors_s: dict[str, Floats]
    inputs: Inputs
    residents: Residents
    machine: Machine
    mode: Mode
    solver: Solver
    places: Places = ONE_PLACE
    cold_and_warm: tuple[Inputs, ...] = ()
    l1_part: float = 0.0

    @functools.cached_property
    def typical(self) -> Inputs:
        """The inputs with the mean costs of all trials."""
        return mean_of_trials(self.inputs, self.places)

    def seconds_with(self, inputs: Inputs) -> float:
        """Seconds of the launch with other inputs, of one trial."""
        found, _ = seconds_of(
            inputs, self.residents, self.machine, mode=self.mode, solver=self.solver
        )
        return float(found[0])

    @functools.cached_property
    def typical_s(self) -> float:
        return self.seconds_with(self.typical)

    @functools.cached_property
    def parts_s(self) -> dict[str, float]:
        """Name -> seconds that the launch would be faster without `latency`, `dependent instructions`, `barriers`,
        `group start`, DRAM's wait for L1 or the `launch`; with the mean costs of all trials."""
        parts = {
            name: max(0.0, self.typical_s - self.seconds_with(changed))
            for name, changed in _without(self.typical).items()
        }
        if self.typical.launch_s:
            parts[LAUNCH] = self.typical.launch_s
        return parts

    @functools.cached_property
    def exposed(self) -> Floats:
        """(n_block,) fraction of each block's wait that nothing hides: with `events`, in which the core issues nothing;
        with `equation`, the mean LH."""
        if self.solver == "equation":
            return _exposed(self.inputs, self.residents)
        return _idle(self.typical, self.residents)

    @functools.cached_property
    def past_s(self) -> tuple[float, float]:
        """How much later the launch ends with cold caches, and with warm ones; the second is negative."""
        if not self.cold_and_warm:
            return 0.0, 0.0
        cold, warm = (
            self.seconds_with(mean_of_trials(inputs, self.places)) - self.typical_s
            for inputs in self.cold_and_warm
        )
        return cold, warm

    @functools.cached_property
    def l1_half_width_s(self) -> float:
        """How much longer the launch takes if L1 needs so much more time, where L1's time is a notable part."""
        least = NOTABLE_PART * self.mean(self.seconds)
        if self.l1_part == 0 or self.floor_means_s["L1"] < least:
            return 0.0
        slower = self.typical.with_l1_times(1 + self.l1_part)
        return max(self.seconds_with(slower) - self.typical_s, 0.0)

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
    def _groups_s(self) -> float:
        """The time without the launch itself."""
        return self.mean(self.seconds) - self.typical.launch_s

    @property
    def _largest_floor(self) -> tuple[str, float]:
        return max(self.floor_means_s.items(), key=lambda item: item[1])

    @property
    def binds_at_a_glance(self) -> str:
        """As `binds`, but WAITS where no resource is nearly all of the time: to tell waits apart takes several simulations."""
        if self.typical.launch_s > self._groups_s:
            return LAUNCH
        name, floor = self._largest_floor
        if floor < NEARLY_ALL * self._groups_s:
            return WAITS
        return "issue" if name == "arithmetic" else name

    @property
    def binds(self) -> str:
        """What limits the time, by the first of four rules that applies. Rules 2 to 4 judge the time beside the
        launch itself, which adds to all else.

        1. If the launch itself is more than half of the time: the launch.
        2. If no lower bound is NEARLY_ALL of the time, and some part (latency, barriers, ...) is more than
           NOTABLE_PART of it: the part without which most time would be saved.
        3. If DRAM's wait for L1 is notable, and neither of these has the largest lower bound: DRAM where its bound is
           at least half the time, else L1.
        4. The resource with the largest lower bound.
        """
        glance, total, name = self.binds_at_a_glance, self._groups_s, self._largest_floor[0]
        if glance == LAUNCH:
            return glance
        if glance == WAITS:
            waits = {
                name: saved for name, saved in self.parts_s.items() if name not in (IN_TURN, LAUNCH)
            }
            part, saved = max(waits.items(), key=lambda item: item[1])
            if saved > NOTABLE_PART * total:
                return part
        in_turn = self.inputs.idle_cycles and name not in (DRAM, "L1")
        if in_turn and self.parts_s[IN_TURN] > NOTABLE_PART * total:
            return DRAM if self.floor_means_s[DRAM] >= total / 2 else "L1"
        return "issue" if name == "arithmetic" else name


def time_of(
    inputs: Inputs,
    resident: Residents,
    machine: Machine,
    *,
    mode: Mode = "simulated",
    solver: Solver = "events",
    places: Places = ONE_PLACE,
    cold_and_warm: Sequence[Inputs] = (),
    l1_part: float = 0.0,
) -> Timing:
    """The time of a launch. Arguments are the fields of Timing.

    Raises LatencyHidingError where mode or solver is unknown.
    """
    if mode not in get_args(Mode) or solver not in get_args(Solver):
        raise LatencyHidingError(f"there is no mode {mode!r} with solver {solver!r}")
    if mode == "paper":
        solver = "equation"
    seconds, floors = seconds_of(inputs, resident, machine, mode=mode, solver=solver)
    return Timing(
        seconds=seconds,
        floors_s=floors,
        inputs=inputs,
        residents=resident,
        machine=machine,
        mode=mode,
        solver=solver,
        places=places,
        cold_and_warm=tuple(cold_and_warm),
        l1_part=l1_part,
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
        if solver == "events" and (last := resident.last):
            seconds *= resident.whole_rounds / resident.rounds
            fewer = with_shares(inputs, machine, resident, last)
            seconds += _round(fewer, last, mode, solver) / machine.clock_hz
        seconds = np.maximum(seconds, np.max(list(floors.values()), axis=0))
        if inputs.idle_cycles and DRAM in floors:
            idle = resident.subgroups * float(occurrences(inputs) @ np.array(inputs.idle_cycles))
            seconds = np.maximum(seconds, floors[DRAM] + idle * scale)
        seconds += inputs.launch_s
    return seconds, floors


def floors_cycles(inputs: Inputs, resident: Residents) -> dict[str, Floats]:
    """name -> (n_trial,) cycles of a round that no schedule can beat."""
    count = occurrences(inputs)
    subgroups = resident.subgroups * np.ones(inputs.n_trials)
    is_bound = np.array([unit not in (READS, TENSOR) for unit in inputs.units])
    floors = {
        "arithmetic": subgroups * float((count @ inputs.unit_cycles)[is_bound].max()),
        "L1": subgroups * float(count @ inputs.pipe_cycles),
    }
    if TENSOR in inputs.units:
        matrices = inputs.unit_cycles[:, inputs.units.index(TENSOR)]
        floors[TENSOR] = subgroups * float(count @ matrices)
    for k, channel in enumerate(inputs.channels):
        floors[channel] = subgroups * (inputs.channel_cycles[:, :, k] @ count)
    return floors


def timeline(
    inputs: Inputs, resident: Residents, *, rounds: int = 2, turns: int = MOST_TURNS
) -> Events:
    """The events of a few rounds, with means over trials.

    turns : iterations of each loop that are simulated; the others are omitted
    """
    paths, _ = _paths(inputs, turns)
    return _run(mean_of_trials(inputs), paths, resident, 0, rounds)


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
    cores = _cores(resident)
    lags = [max(inputs.lag[block] for block in path) // len(path) for path in paths if inputs.lag]
    rounds, first = (n * (1 + max(0, *lags, 0)) for n in (ROUNDS, FIRST_ROUND))
    issued = _run(inputs, paths, resident, trial, rounds, cores)
    last = issued.step == _lengths(paths, issued) - 1
    spans = []
    for core in range(cores):
        ends = np.sort(issued.ready_cycles[last & (issued.core == core)]).reshape(rounds, -1)
        # A round ends when as many sub-groups have ended as are resident. (The mean of a round's ends would be earlier
        # by up to half a round when groups that began together have drifted apart.)
        spans.append(ends[-2].max() - ends[first - 1].max())
    return float(np.mean(spans)) / (rounds - 1 - first)


def _cores(resident: Residents) -> int:
    """Cores that are simulated: no more than have groups."""
    return max(min(CORES, round(resident.busy_cores)), 1)


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
        lag=inputs.lag,
        channel_used=inputs.channel_used[trial] if inputs.channel_used.size else (),
        own_channels=[name == BULK for name in inputs.channels],
        queue_cycles=inputs.queue_cycles,
        turnaround_cycles=inputs.turnaround_cycles,
        turn_cycles=TURN_CYCLES if inputs.at_once else math.inf,
        paths=paths if len(paths) == tlp else list(paths) * tlp,
    )


def _without(inputs: Inputs) -> dict[str, Inputs]:
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
    if inputs.idle_cycles:
        changed[IN_TURN] = dataclasses.replace(inputs, idle_cycles=())
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
    cores = _cores(resident)
    issued = _run(inputs, paths, resident, 0, ROUNDS, cores)
    waited, idle = (np.zeros(len(inputs.program.blocks)) for _ in range(2))
    blocks, lengths = issued.block, _lengths(paths, issued)
    for core in range(cores):
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
