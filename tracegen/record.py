"""Traces of workloads: which launches are recorded, and which only run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from memsim.errors import KernelError
from memsim.machine import Machine
from memsim.trace import Trace
from tracegen.instrumented.host import prepare
from tracegen.options import TraceOptions
from tracegen.recording import snapshot
from tracegen.recording.launch import BoundLaunch, LaneAccess, Prepared
from tracegen.recording.passes import LaunchRun
from tracegen.recording.reference import lane_tokens_kept
from tracegen.workloads.opencl import OpenCLWorkload
from tracegen.workloads.workload import Workload

AnyWorkload = Workload | OpenCLWorkload

LaneAccesses = dict[tuple[int, int, int], list[LaneAccess]]


@dataclass
class _Recording:
    """An observer that traces one launch, or every launch, and runs the others as they are needed."""

    prepared: Prepared
    machine: Machine | None
    options: TraceOptions
    every_launch: bool
    n_snapshots: int = 1
    tracer: type[LaunchRun] = LaunchRun
    traces: list[list[Trace]] = field(default_factory=list)

    def __call__(self, launch: BoundLaunch) -> None:
        chosen = self.options.launch
        if not self.every_launch:
            if chosen is None and launch.index > 0:
                raise _several(self.prepared)
            if chosen is not None and launch.index > chosen:
                return
        run = self.tracer(self.prepared, launch, self.options, self.machine)
        if not self.every_launch and chosen not in (None, launch.index):
            run.whole()
            return
        self.traces.append(run.traces(self.n_snapshots))
        if self.every_launch:
            run.complete()


def trace_all(
    prepared: Prepared,
    options: TraceOptions,
    tracer: type[LaunchRun] = LaunchRun,
    machine: Machine | None = None,
) -> list[list[Trace]]:
    """One snapshot of every launch, launch by launch."""
    recording = _Recording(prepared, machine, options, every_launch=True, tracer=tracer)
    prepared.run(recording)
    return recording.traces


def trace_one(
    prepared: Prepared,
    options: TraceOptions,
    tracer: type[LaunchRun] = LaunchRun,
    machine: Machine | None = None,
    n_snapshots: int = 1,
) -> list[Trace]:
    """The snapshots of one launch. Raises KernelError where there are several and none is named."""
    names = prepared.launch_names
    if options.launch is None and len(names) > 1:
        raise _several(prepared)
    recording = _Recording(prepared, machine, options, False, n_snapshots, tracer)
    prepared.run(recording)
    if not recording.traces:
        raise KernelError(
            f"kernel {prepared.name} has no launch {options.launch}; it has"
            f" {', '.join(f'{k} ({name})' for k, name in enumerate(names)) or 'none'}"
        )
    return recording.traces[0]


def instrumented(workload: AnyWorkload, context: Any) -> Prepared:
    """A workload whose kernel has probes, on a context."""
    if isinstance(workload, OpenCLWorkload):
        from tracegen.opencl_c import run

        return run.prepare(workload, chosen_context(context))
    return prepare(workload, chosen_context(context))


def run_traced(
    workload: AnyWorkload, options: TraceOptions | None = None, context: Any = None
) -> tuple[list[Trace], dict[str, Any]]:
    """Traces of every launch, and the outputs that the instrumented kernel computed."""
    prepared = instrumented(workload, context)
    recording = _Recording(prepared, None, options or TraceOptions(), every_launch=True)
    outputs = prepared.run(recording)
    return [traces[0] for traces in recording.traces], outputs


def lane_accesses(
    workload: AnyWorkload,
    *,
    reduced: bool = True,
    groups: int | Sequence[int] | None = None,
    context: Any = None,
) -> LaneAccesses:
    """The accesses of each work-item, in program order.

    Returns (launch, group, local linear id) -> [(direction, array, byte offset, bytes), ...];
    work-items without accesses have an empty list. Meant for comparison: it is slow.
    """
    prepared = instrumented(workload, context)
    found: LaneAccesses = {}

    def observer(launch: BoundLaunch) -> None:
        run = LaunchRun(prepared, launch, TraceOptions(groups=groups))
        chosen = snapshot.choose(launch.n_groups, None, groups)[0]
        program = launch.program
        with run.recorded(chosen) as batches:
            for batch, tokens, offset in batches:
                for item in range(len(offset) - 1):
                    mine = tokens[offset[item] : offset[item + 1]].tolist()
                    own = [run.layout.encoding.split(token) for token in mine]
                    kept = lane_tokens_kept(own, program.probes, reduced)
                    group = int(batch[item // launch.group_items])
                    found[launch.index, group, item % launch.group_items] = [
                        launch.lane_access(*token) for token in kept
                    ]
        run.complete()

    prepared.run(observer)
    return found


def chosen_context(context: Any) -> Any:
    """The given OpenCL context, or one of the first device that passes a test build."""
    if context is not None:
        return context
    from tracegen.devices.choice import choose

    return choose()


def _several(prepared: Prepared) -> KernelError:
    names = ", ".join(f"{k} ({name})" for k, name in enumerate(prepared.launch_names))
    return KernelError(
        f"kernel {prepared.name} has several launches: {names}; name one with launch=,"
        " or trace them all with trace_launches"
    )
