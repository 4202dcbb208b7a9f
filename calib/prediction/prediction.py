"""The predicted time of a kernel on a machine: blocks, replay, occupancy and time model combined."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from calib.prediction.basic_blocks import Program
from calib.prediction.basic_blocks_trace import blocks_from_trace, blocks_from_windows
from calib.prediction.costs import DRAM, AccessCosts, access_costs, costs_of_traces, pipe_half_width
from calib.prediction.inputs import Inputs, paper_inputs, simulated_inputs
from calib.prediction.machine_pipes import is_gcn
from calib.prediction.options import TENSOR_ERROR_PERCENT, TIME_ERROR_PERCENT, Mode, PredictOptions
from calib.prediction.residency import residents
from calib.prediction.time_model import Timing, time_of
from calib.prediction.what_if import Changes, parse, without_barriers
from memsim.bounds import is_open, mapping_of, places_of, with_open_hits
from memsim.machine import Machine, load_machine
from memsim.montecarlo import Occupancy, Replay, resident_groups
from memsim.report import TENSOR, TRANSLATION, first_lines, first_reads, percent
from memsim.statistics import ONE_PLACE, Estimate
from memsim.trace import Trace, launch_work

if TYPE_CHECKING:
    from memsim.montecarlo import Grows
    from tracegen import AnyWorkload

ASSUMED_SHARE = 0.1
"""A note names an assumed number that accounts for more than this fraction of the time."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A kernel's predicted time on a machine, and the quantities it was computed from.

    program : of one sub-group; all its repeat counts are numbers
    costs, replay : None in mode `paper`
    first_lines : what stands in for the machine's own code, one sentence each
    notes : assumptions and limits of the prediction, one sentence each
    traces, options : from which it was predicted
    """

    kernel: str
    machine: Machine
    program: Program
    timing: Timing
    occupancy: Occupancy
    costs: AccessCosts | None = None
    replay: Replay | None = None
    first_lines: Sequence[str] = ()
    notes: Sequence[str] = ()
    traces: Sequence[Trace] = ()
    options: PredictOptions = field(default_factory=PredictOptions)

    def __repr__(self) -> str:
        return f"<{self}; limited by {self.limited_by}>"

    def __str__(self) -> str:
        """Kernel, machine, and the time with its interval, the parts of that, and the error of the model."""
        from memsim.report import how_certain, seconds, shortened

        time = f"{shortened(self.kernel)} on {self.machine.name}: {seconds(self.seconds.mean, 4)}"
        certain = how_certain(self.seconds, self.model_error, 4)
        return f"{time} ({certain})" if certain else time

    @property
    def seconds(self) -> Estimate:
        """The time of the launch: mean and 95 % interval."""
        return self.timing.estimate

    @property
    def limited_by(self) -> str:
        """What limits the time: `DRAM`, `latency`, ...; see calib.prediction.time_model.Timing.binds."""
        return self.timing.binds

    @property
    def model_error(self) -> float | None:
        """Part of the time by which the model may be off, beside the interval: nine of ten predicted times that were
        compared with the machine, or with other machines, are within it; of kernels on tensor cores at least as much as of their
        own. None in mode `paper`."""
        if self.timing.mode == "paper":
            return None
        found = self.machine.time_error_percent or TIME_ERROR_PERCENT
        if TENSOR in self.timing.floors_s:
            found = max(found, TENSOR_ERROR_PERCENT)
        return found / 100

    def what_if(self, changes: str = "", **named: str | int | bool) -> Prediction:
        """The prediction with changes, as `memsim predict --what-if` takes them.

        changes : `l2=12MiB,no-barriers`, for example
        named : the same by name: l2="12 MiB" or l2_size="12 MiB", groups_per_core=4, barriers=False

        Raises WhatIfError, which lists the possible changes.
        """
        parts = [changes] if changes else []
        for name, value in named.items():
            change = name.removesuffix("_size")
            parts.append(f"no-{change}" if value is False else f"{change}={value}")
        parsed = parse(",".join(parts), self.machine)
        return predict_changed(self, self.traces, self.options, parsed)

    def _repr_html_(self) -> str:
        from calib.prediction.notebook import fragment

        return fragment(as_json(self))


def predict(
    kernel: AnyWorkload | Trace | Sequence[Trace],
    machine: Machine | str,
    options: PredictOptions | None = None,
    *,
    replay: Replay | None = None,
    **changes: Any,
) -> Prediction:
    """The predicted time of a kernel on a machine.

    kernel : a workload, which is traced as `memsim predict` traces it; or snapshots of its launch, as
        tracegen.trace_snapshots makes them. Those of machine code have its instructions, without which
        arithmetic is not counted
    machine : or its name
    options, changes : fields of PredictOptions; changes replace those of `options`
    replay : of the snapshots with these options, where there is one already

    Raises TraceError where the kernel cannot be traced; BlockError, ThroughputError or ReplayError where traces, machine
    and options do not fit.
    """
    options = (options or PredictOptions()).replace(**changes)
    machine = load_machine(machine)
    if isinstance(kernel, Trace):
        traces: Sequence[Trace] = [kernel]
    elif isinstance(kernel, Sequence):
        traces = kernel
    else:
        traces, replay = _traced(kernel, machine, options)
    program, notes = program_of(traces, machine, options.mode)
    return _prediction(program, notes, traces, machine, options, replay=replay)


def _traced(
    workload: AnyWorkload, machine: Machine, options: PredictOptions
) -> tuple[Sequence[Trace], Replay | None]:
    """Snapshots of a workload's launch, and their replay; in mode `paper` one snapshot, and None."""
    from tracegen.growing import replay_grown
    from tracegen.options import TraceOptions
    from tracegen.tracer import traces_of

    traces: list[Trace] = []

    def trace_at(tracing: TraceOptions, places: int) -> list[Trace]:
        return traces_of(workload, machine, tracing, None, places)[0]

    def replay_all(traced: list[Trace], grows: Grows) -> Replay:
        traces[:] = traced
        return run_replay(traced, machine, options, grows=grows)

    if options.mode == "paper":
        return trace_at(TraceOptions(), 1), None
    return traces, replay_grown(trace_at, replay_all, TraceOptions())


def predict_replayed(traces: Sequence[Trace], replay: Replay, machine: Machine) -> Prediction:
    """The prediction for traces that were replayed on the machine, from the trials of that replay.

    Raises as `predict` does.
    """
    given = mapping_of(replay.dataset, "options")
    options = PredictOptions(
        registers=given.get("registers"),
        groups_per_core=given.get("groups_per_core"),
        warm=bool(given.get("warm")),
    )
    return predict(traces, machine, options, replay=replay)


def predict_changed(
    base: Prediction, traces: Sequence[Trace], options: PredictOptions, changes: Changes
) -> Prediction:
    """The prediction with what-if changes; it is replayed again only where hit ratios may change."""
    options = options.replace(
        registers=changes.registers or options.registers,
        groups_per_core=changes.groups_per_core or options.groups_per_core,
    )
    program = base.program if changes.barriers else without_barriers(base.program)
    return _prediction(
        program,
        [],
        traces,
        changes.machine,
        options,
        replay=None if _needs_replay(base.machine, changes) else base.replay,
        with_latency=changes.latency,
    )


def program_of(
    traces: Sequence[Trace], machine: Machine, mode: Mode = "simulated"
) -> tuple[Program, list[str]]:
    """The program of a sub-group in the most typical of the traces, and notes about it.

    The end of a group is a barrier, because its resources are freed when all of it has ended. The paper has that
    only for devices up to compute capability 1.3, which allocate registers to whole groups (section 2.5).
    """
    typical = min(traces, key=lambda one: abs(math.log(one.launch_work)))
    ends = mode != "paper" or machine.residency.register_allocation == "group"
    one_counter = is_gcn(machine)  # vmcnt, its counter of loads under way, counts stores, too
    if typical.warming is not None:
        program = blocks_from_windows(traces, ends_with_barrier=ends, one_counter=one_counter)
    else:
        held = resident_groups(machine, typical.launch).groups_per_core * machine.n_cores
        program = blocks_from_trace(
            typical,
            ends_with_barrier=ends,
            one_counter=one_counter,
            at_once=typical.launch.n_groups <= held,
        )
    if typical.work is None:
        return program, ["the trace has no machine code: arithmetic is not counted"]
    compiler = typical.provenance.get("compiler", {})
    notes = compiler.get("notes", ()) if isinstance(compiler, Mapping) else ()
    return program, [str(note) for note in notes]


def _prediction(
    program: Program,
    notes: list[str],
    traces: Sequence[Trace],
    machine: Machine,
    options: PredictOptions,
    *,
    replay: Replay | None = None,
    with_latency: bool = True,
) -> Prediction:
    traces = [_with_registers(trace, options.registers) for trace in traces]
    launch = traces[0].launch
    occupancy = resident_groups(machine, launch, groups_per_core=options.groups_per_core)
    costs, places, l1_part = None, ONE_PLACE, 0.0
    cold_and_warm: list[Inputs] = []
    work = launch_work(traces)
    resident = dataclasses.replace(
        residents(machine, launch, occupancy),
        work=work.of_traced,
        work_half_width=work.half_width if len(traces) == 1 else work.error or 0.0,
    )

    def inputs_with(replay: Replay) -> tuple[AccessCosts, Inputs]:
        costs = access_costs(traces, replay, machine, of_trace)
        inputs = simulated_inputs(program, costs, machine, resident, latency=options.latency)
        once_s = {DRAM: _first_read_s(replay, machine)}
        inputs = dataclasses.replace(inputs, once_s=once_s, launch_s=1e-6 * machine.launch_us)
        return costs, inputs if with_latency else inputs.without_latency()

    if options.mode == "paper":
        inputs = paper_inputs(program, machine)
        inputs = inputs if with_latency else inputs.without_latency()
    else:
        replay = replay or run_replay(traces, machine, options)
        of_trace = costs_of_traces(traces, machine)
        places = places_of(replay.dataset)
        middle, *ends = (
            Replay(with_open_hits(replay.dataset, hits))
            for hits in (("likely", "none", "every") if is_open(replay.dataset) else ("likely",))
        )
        costs, inputs = inputs_with(middle)
        cold_and_warm = [inputs_with(end)[1] for end in ends]
        l1_part = pipe_half_width(traces, machine)
    timing = time_of(
        inputs,
        resident,
        machine,
        mode=options.mode,
        solver=options.solver,
        places=places,
        cold_and_warm=cold_and_warm,
        l1_part=l1_part,
    )
    return Prediction(
        kernel=launch.kernel,
        machine=machine,
        program=program,
        timing=timing,
        occupancy=occupancy,
        costs=costs,
        replay=replay,
        first_lines=first_lines(traces[0].provenance),
        notes=[*notes, *_notes(machine, occupancy, timing)],
        traces=traces,
        options=options,
    )


def _first_read_s(replay: Replay, machine: Machine) -> float:
    """Seconds that DRAM needs for what groups before the snapshot are the first to read."""
    per_s = machine.dram.bandwidth_at(math.nan, written=0.0) * machine.clock_hz
    return sum(first_reads(replay.dataset).values()) / per_s


def _notes(machine: Machine, occupancy: Occupancy, timing: Timing) -> list[str]:
    """Sentences on unknown or assumed inputs that change the time."""
    notes = []
    if len(occupancy.feasible) > 1:
        notes.append(
            f"the registers per work-item are unknown: a core can have {occupancy.feasible[0]} to"
            f" {occupancy.groups_per_core} resident groups, and {occupancy.groups_per_core} are assumed;"
            " specify them with --registers"
        )
    if not machine.group_start_cycles and timing.mode != "paper":
        notes.append(
            f"{machine.name} specifies no group_start_cycles: the start of a group takes no time"
        )
    standing = machine.standing("translation.miss_cycles")
    if TRANSLATION in timing.floors_s and standing:
        share = timing.floor_means_s[TRANSLATION] / timing.estimate.mean
        if share > ASSUMED_SHARE:
            notes.append(
                f"missed address translations alone take {percent(share, 0)} of the time, and the duration of one"
                f" is {standing} ('memsim machines {machine.name}' explains why)"
            )
    return notes


def run_replay(
    traces: Sequence[Trace],
    machine: Machine,
    options: PredictOptions,
    *,
    miss_kinds: bool = True,
    grows: Grows | None = None,
) -> Replay:
    """The replay that a prediction is made of; its time does not depend on the kinds of misses, but its advice does."""
    from calib.whole_replay import whole_replay

    return whole_replay(
        list(traces),
        machine,
        trials=options.trials,
        seed=options.seed,
        jobs=options.jobs,
        groups_per_core=options.groups_per_core,
        warm=options.warm,
        miss_kinds=miss_kinds,
        grows=grows,
    )


def _needs_replay(machine: Machine, changes: Changes) -> bool:
    """Whether hit ratios may change: not where only bandwidths and throughputs do."""
    old, new = (
        [dataclasses.replace(level, bandwidth_bytes_per_cycle=1.0) for level in one.levels]
        for one in (machine, changes.machine)
    )
    return changes.needs_replay or old != new


def _with_registers(trace: Trace, registers: int | None) -> Trace:
    if registers is None:
        return trace
    launch = dataclasses.replace(trace.launch, registers_per_item=registers)
    return trace.replace(launch=launch)


def limiter(prediction: Prediction) -> str:
    """What limits the resident groups: a resource of the core, or `launch`, which has too few groups."""
    occupancy = prediction.occupancy
    few = prediction.timing.residents.groups_per_core < occupancy.groups_per_core
    return "launch" if few else occupancy.limited_by


def resident_share(prediction: Prediction) -> float:
    """Occupancy: what a core holds resident of the work-items that it could, less where the launch has too
    few groups than its resources allow."""
    occupancy = prediction.occupancy
    resident = prediction.timing.residents.groups_per_core
    return occupancy.occupancy * resident / occupancy.groups_per_core


def as_json(prediction: Prediction) -> dict[str, Any]:
    """A prediction for json.dumps; times are in seconds, cycles are those of a core's clock."""
    timing, inputs = prediction.timing, prediction.timing.inputs
    estimate = timing.estimate
    interval = [estimate.low, estimate.high] if estimate.has_interval else None
    return {
        "schema": 1,
        "kernel": prediction.kernel,
        "machine": prediction.machine.name,
        "mode": timing.mode,
        "solver": timing.solver,
        "time_s": {
            "mean": estimate.mean,
            "ci95": interval,
            "sigma": _finite(estimate.sigma),
            **({"parts": dict(estimate.parts)} if estimate.parts and interval else {}),
            "model_error": prediction.model_error,
        },
        "binds": timing.binds,
        "floors_s": timing.floor_means_s,
        "saved_without_s": dict(timing.parts_s),
        "residency": {
            "tlp": timing.residents.subgroups_per_group,
            "blp": timing.residents.groups_per_core,
            "nb": timing.residents.n_groups,
            "nsm": timing.residents.n_cores,
            "rep_num": timing.residents.rounds,
            "limited_by": limiter(prediction),
            "occupancy": resident_share(prediction),
        },
        "nbb": float(prediction.program.n_blocks),
        "blocks": block_rows(prediction),
        "accesses": access_rows(prediction),
        "notes": [*prediction.first_lines, *prediction.notes],
        "replay": None if prediction.replay is None else prediction.replay.attrs["options"],
        "latency_model": {"ways": list(inputs.channels), "trials": inputs.n_trials},
    }


def block_rows(prediction: Prediction) -> list[dict[str, Any]]:
    """A row for each distinct block: its issue and latency in cycles, and the fraction not hidden."""
    inputs, timing = prediction.timing.inputs, prediction.timing
    times = inputs.program.occurrences()
    last = {block for block, following in inputs.program.pairs() if following == 0}
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
                "ends_group": number in last,
                "operations": {name: float(count) for name, count in block.operations.items()},
            }
        )
    return rows


def access_rows(prediction: Prediction) -> list[dict[str, Any]]:
    """A row for each load that a block waits for: its latency, and the fraction not hidden."""
    if prediction.costs is None:
        return []
    inputs, timing, costs = prediction.timing.inputs, prediction.timing, prediction.costs
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
