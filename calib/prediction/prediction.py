"""From a kernel and a machine to a predicted time: blocks, replay, occupancy and time model together."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from calib.prediction.basic_blocks import BlockError, Program
from calib.prediction.basic_blocks_trace import blocks_from_trace
from calib.prediction.costs import AccessCosts, access_costs
from calib.prediction.time_model import (
    TRANSLATION,
    Latency,
    Mode,
    Residents,
    Solver,
    Timing,
    paper_inputs,
    residents,
    simulated_inputs,
    time_of,
)
from calib.prediction.what_if import Changes, without_barriers
from memsim.machine import Machine
from memsim.montecarlo import Occupancy, Replay, resident_groups
from memsim.trace import Trace

MUCH = 0.1
"""Of a time: what is assumed and takes so much of it is said."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to predict.

    registers, groups_per_core : in place of what the trace and the occupancy say
    loads_in_flight : values that a work-item can wait for at once; None where registers allow all
    trips : loop -> turns, for loops whose bounds are read from memory; the trace's by default
    """

    mode: Mode = "simulated"
    solver: Solver = "events"
    latency: Latency = "slowest"
    trials: int = 16
    seed: int = 0
    jobs: int = 1
    registers: int | None = None
    groups_per_core: int | None = None
    loads_in_flight: int | None = None
    trips: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A kernel's predicted time on a machine, and what it was made from.

    program : of one sub-group, sizes settled;  costs, replay : None in mode `paper`
    notes : what a reader should know of how it was made
    """

    kernel: str
    machine: Machine
    program: Program
    timing: Timing
    occupancy: Occupancy
    costs: AccessCosts | None = None
    replay: Replay | None = None
    notes: Sequence[str] = ()


def predict(
    workload: Any, traces: Sequence[Trace], machine: Machine, settings: Settings | None = None
) -> Prediction:
    """Predict the time of a traced workload.

    workload : a tracegen.Workload whose kernel gives the blocks; None cuts them from the trace

    Raises BlockError, ThroughputError, ReplayError where kernel, machine and settings do not fit.
    """
    settings = settings or Settings()
    traces = [_with_registers(trace, settings.registers) for trace in traces]
    program, notes = program_of(workload, traces, machine, settings)
    return _predicted(program, notes, traces, machine, machine, settings)


def predict_changed(
    found: Prediction, traces: Sequence[Trace], settings: Settings, changes: Changes
) -> Prediction:
    """The prediction of the same kernel with something changed; replayed again only where it must be."""
    settings = dataclasses.replace(
        settings,
        registers=changes.registers or settings.registers,
        groups_per_core=changes.groups_per_core or settings.groups_per_core,
    )
    traces = [_with_registers(trace, settings.registers) for trace in traces]
    program = found.program if changes.barriers else without_barriers(found.program)
    replay = None if _replays_anew(found.machine, changes) else found.replay
    return _predicted(
        program,
        [],
        traces,
        changes.machine,
        found.machine,
        settings,
        replay=replay,
        waits=changes.latency,
    )


def program_of(
    workload: Any, traces: Sequence[Trace], machine: Machine, settings: Settings
) -> tuple[Program, list[str]]:
    """The program of a sub-group and notes on it: from the kernel, else from the trace.

    Raises BlockError that asks for the turns of a loop by name, where the trace does not tell them.
    """
    if workload is None or not _is_loopy(workload):
        return blocks_from_trace(traces[0]), [
            "the blocks are the trace's bulk sequences: arithmetic is not counted"
        ]
    from calib.counting.kernel_arguments import sizes_of
    from calib.prediction.basic_blocks_kernel import blocks_from_kernel
    from tracegen.instrumented import prepare

    sizes = sizes_of(workload)
    prepared = prepare(workload, None)
    kernel = prepared.kernel
    program = blocks_from_kernel(
        kernel,
        prepared.executor.scheduled.callables_table,
        machine=machine,
        sizes=sizes,
        name_of=_named_as(traces[0]),
        loads_in_flight=settings.loads_in_flight,
        ends_with_barrier=_ends_with_barrier(machine, settings.mode),
        launch=_launch(kernel, traces[0]),
    )
    trips = {**turns_from_trace(program, traces[0], settings.trips), **settings.trips}
    notes = [
        f"loop {name} runs {value:.4g} times, as in the trace"
        for name, value in sorted(trips.items())
        if name not in settings.trips
    ]
    return program.at(**{**sizes, **trips}), notes


def turns_from_trace(
    program: Program, trace: Trace, known: Mapping[str, float]
) -> dict[str, float]:
    """Turns of the loops whose counts are open: what makes an access as frequent as in the trace.

    Raises BlockError that names a loop without an access of its own.
    """
    open_ = sorted(_open_names(program.steps) - known.keys())
    if not open_:
        return {}
    n = max(trace.n_subgroup, 1)
    times = dict.fromkeys(trace.site_names, 0.0)
    for k, name in enumerate(trace.site_names):
        times[name] = float((trace.site == k).sum()) / n
    found: dict[str, float] = {}
    for name in open_:
        settled = {**known, **dict.fromkeys(open_, 1.0), **found}
        at_one = _executions(program.at(**settled))
        at_two = _executions(program.at(**{**settled, name: 2.0}))
        others = [
            _executions(program.at(**{**settled, other: 2.0}))
            for other in open_
            if other != name and other not in found
        ]
        for site, once in at_one.items():
            slope = at_two.get(site, 0.0) - once
            if slope > 0 and all(other.get(site, 0.0) == once for other in others):
                found[name] = max(1.0, 1 + (times.get(site, once) - once) / slope)
                break
        else:
            raise BlockError(
                f"how often loop {name} runs is read from memory, and no access of its own tells it:"
                f" say it with --trips {name}=N"
            )
    return found


def _predicted(
    program: Program,
    notes: list[str],
    traces: Sequence[Trace],
    machine: Machine,
    pipe_machine: Machine,
    settings: Settings,
    *,
    replay: Replay | None = None,
    waits: bool = True,
) -> Prediction:
    launch = traces[0].launch
    occupancy = resident_groups(machine, launch, groups_per_core=settings.groups_per_core)
    resident: Residents = residents(machine, launch, occupancy)
    costs = None
    if settings.mode == "paper":
        inputs = paper_inputs(program, machine)
    else:
        replay = replay or replayed(traces, machine, settings)
        costs = access_costs(traces, replay, machine, pipe_machine=pipe_machine)
        inputs = simulated_inputs(program, costs, machine, latency=settings.latency)
    if not waits:
        none = inputs.latency_cycles.copy()
        none[:, 1:] = 0.0
        inputs = dataclasses.replace(inputs, latency_cycles=none)
    if len(occupancy.feasible) > 1:
        notes.append(
            f"registers are not known: {occupancy.groups_per_core} groups a core is the most,"
            f" {occupancy.feasible[0]} the fewest; --registers settles it"
        )
    if not machine.group_start_cycles and settings.mode != "paper":
        notes.append(f"{machine.name} has no group_start_cycles: groups start at once")
    timing = time_of(inputs, resident, machine, mode=settings.mode, solver=settings.solver)
    if TRANSLATION in timing.floors_s and machine.is_assumed("translation.miss_cycles"):
        part = float(timing.floors_s[TRANSLATION].mean() / timing.seconds.mean())
        if part > MUCH:
            notes.append(
                f"missed translations alone take {part:.0%} of the time, and how long one takes is"
                f" assumed ('memsim machines {machine.name}' says why)"
            )
    return Prediction(
        kernel=launch.kernel,
        machine=machine,
        program=program,
        timing=timing,
        occupancy=occupancy,
        costs=costs,
        replay=replay,
        notes=notes,
    )


def replayed(traces: Sequence[Trace], machine: Machine, settings: Settings) -> Replay:
    """The replay that feeds a prediction."""
    import memsim

    return memsim.replay(
        list(traces),
        machine,
        trials=settings.trials,
        seed=settings.seed,
        jobs=settings.jobs,
        groups_per_core=settings.groups_per_core,
    )


def _replays_anew(machine: Machine, changes: Changes) -> bool:
    old = [dataclasses.replace(level, bandwidth_bytes_per_cycle=1.0) for level in machine.levels]
    new = [
        dataclasses.replace(level, bandwidth_bytes_per_cycle=1.0)
        for level in changes.machine.levels
    ]
    return changes.needs_replay or old != new


def _executions(program: Program) -> dict[str, float]:
    found: dict[str, float] = {}
    for number, times in program.occurrences().items():
        for name in program.blocks[number].accesses:
            found[name] = found.get(name, 0.0) + times
    return found


def _open_names(steps: Any) -> frozenset[str]:
    names: frozenset[str] = frozenset()
    for step in steps:
        if not isinstance(step, int):
            names |= getattr(step.count, "names", frozenset()) | _open_names(step.steps)
    return names


def _named_as(trace: Trace) -> Any:
    """Names accesses as the trace does: `#2` tells equal texts of several instructions apart."""
    from calib.prediction.basic_blocks_kernel import site_name

    known = {
        (site.instruction, re.sub(r" #\d+$", "", site.name)): site.name for site in trace.sites
    }

    def name_of(instruction: str, touch: Any) -> str:
        text = site_name(instruction, touch)
        found = known.get((instruction, text))
        if found is None:
            raise BlockError(
                f"access {text} of instruction {instruction} is not in the trace of"
                f" {trace.launch.kernel}"
            )
        return found

    return name_of


def _ends_with_barrier(machine: Machine, mode: Mode) -> bool:
    """Whether a group's last blocks count as held together.

    A group's room is free when all of it has ended. The paper says so where registers are given to whole
    groups, up to compute capability 1.3, and not of later devices (section 2.5).
    """
    return mode != "paper" or machine.residency.register_allocation == "group"


def _launch(kernel: Any, trace: Trace) -> int:
    names = [
        item.kernel_name for item in kernel.linearization if type(item).__name__ == "CallKernel"
    ]
    return names.index(trace.launch.kernel) if trace.launch.kernel in names else 0


def _is_loopy(workload: Any) -> bool:
    import loopy as lp

    return isinstance(getattr(workload, "kernel", None), lp.TranslationUnit)


def _with_registers(trace: Trace, registers: int | None) -> Trace:
    if registers is None:
        return trace
    launch = dataclasses.replace(trace.launch, registers_per_item=registers)
    return trace.replace(launch=launch)


def as_json(found: Prediction) -> dict[str, Any]:
    """A prediction as what json.dumps takes; times in seconds, cycles of a core's clock."""
    timing, inputs = found.timing, found.timing.inputs
    estimate = timing.estimate
    interval = [estimate.low, estimate.high] if estimate.has_interval else None
    return {
        "schema": 1,
        "kernel": found.kernel,
        "machine": found.machine.name,
        "mode": timing.mode,
        "solver": timing.solver,
        "time_s": {"mean": estimate.mean, "ci95": interval, "sigma": _finite(estimate.sigma)},
        "binds": timing.binds,
        "floors_s": {name: float(value.mean()) for name, value in timing.floors_s.items()},
        "saved_without_s": dict(timing.parts_s),
        "residency": {
            "tlp": timing.residents.subgroups_per_group,
            "blp": timing.residents.groups_per_core,
            "nb": timing.residents.n_groups,
            "nsm": timing.residents.n_cores,
            "rep_num": timing.residents.rounds,
            "limited_by": found.occupancy.limited_by,
            "occupancy": found.occupancy.occupancy,
        },
        "nbb": float(found.program.n_blocks),
        "blocks": block_rows(found),
        "accesses": access_rows(found),
        "notes": list(found.notes),
        "replay": None if found.replay is None else json.loads(found.replay.attrs["options_json"]),
        "latency_model": {"ways": list(inputs.channels), "trials": inputs.n_trials},
    }


def block_rows(found: Prediction) -> list[dict[str, Any]]:
    """Each distinct block: what it issues and waits for, in cycles, and the share that stays visible."""
    inputs, timing = found.timing.inputs, found.timing
    times = inputs.program.occurrences()
    rows = []
    for number, block in enumerate(inputs.program.blocks):
        waited = list(dict.fromkeys(block.waits_for))
        rows.append(
            {
                "block": number,
                "runs": times.get(number, 0.0),
                "issue_cycles": float(inputs.issue_cycles[number]),
                "pipe_cycles": float(inputs.pipe_cycles[number]),
                "latency_cycles": float(inputs.latency_cycles[:, number].mean()),
                "way_cycles": {
                    channel: float(inputs.channel_cycles[:, number, k].mean())
                    for k, channel in enumerate(inputs.channels)
                },
                "not_hidden": float(timing.exposed[number]),
                "waits_for": waited,
                "accesses": len(block.accesses),
                "barrier": block.barrier,
                "starts_group": number == 0,
                "operations": {name: float(count) for name, count in block.operations.items()},
            }
        )
    return rows


def access_rows(found: Prediction) -> list[dict[str, Any]]:
    """Each load that something waits for: its latency, and how much of that nothing hides."""
    if found.costs is None:
        return []
    inputs, timing, costs = found.timing.inputs, found.timing, found.costs
    times = inputs.program.occurrences()
    runs = dict.fromkeys(costs.sites, 0.0)
    visible = dict.fromkeys(costs.sites, 0.0)
    for number, block in enumerate(inputs.program.blocks):
        for name in block.waits_for:
            runs[name] += times.get(number, 0.0)
            visible[name] += times.get(number, 0.0) * float(timing.exposed[number])
    rows = []
    for k, name in enumerate(costs.sites):
        if not runs[name]:
            continue
        latency = float(costs.expected_cycles[:, k].mean())
        share = visible[name] / runs[name]
        rows.append(
            {
                "site": name,
                "runs": runs[name],
                "latency_cycles": latency,
                "not_hidden": share,
                "visible_cycles": runs[name] * latency * share,
            }
        )
    return sorted(rows, key=lambda row: -float(row["visible_cycles"]))


def _finite(value: float) -> float | None:
    return value if value == value else None
