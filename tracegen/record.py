"""Traces of whole workloads: which launches are recorded, and what runs besides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from memsim.errors import KernelError
from memsim.trace import Trace
from tracegen.instrumented.host import prepare
from tracegen.recording import snapshot
from tracegen.recording.launch import BoundLaunch, LaneAccess, Prepared
from tracegen.recording.passes import MEMORY_BYTES, LaunchRun, Options
from tracegen.recording.reference import lane_tokens_kept
from tracegen.workloads.opencl import OpenCLWorkload
from tracegen.workloads.workload import Workload

AnyWorkload = Workload | OpenCLWorkload

LaneAccesses = dict[tuple[int, int, int], list[LaneAccess]]

__all__ = ["MEMORY_BYTES", "Options", "lane_accesses", "run_traced", "trace_all", "trace_one"]


@dataclass
class _Recording:
    """An observer of launches that traces those that it is asked for."""

    prepared: Prepared
    options: Options
    every_launch: bool
    tracer: type[LaunchRun] = LaunchRun
    traces: list[list[Trace]] = field(default_factory=list)

    def __call__(self, launch: BoundLaunch) -> None:
        options = self.options
        if not self.every_launch:
            if options.launch is None and launch.index > 0:
                raise _several(self.prepared)
            if options.launch is not None and launch.index > options.launch:
                return
        run = self.tracer(self.prepared, launch, options)
        if not self.every_launch and options.launch not in (None, launch.index):
            run.whole()
            return
        self.traces.append(run.traces())
        if self.every_launch:
            run.complete()


def trace_all(
    prepared: Prepared, options: Options, tracer: type[LaunchRun] = LaunchRun
) -> list[list[Trace]]:
    """The snapshots of every launch, launch by launch."""
    recording = _Recording(prepared, options, every_launch=True, tracer=tracer)
    prepared.run(recording)
    return recording.traces


def trace_one(
    prepared: Prepared, options: Options, tracer: type[LaunchRun] = LaunchRun
) -> list[Trace]:
    """The snapshots of one launch; raises KernelError where it is not said which of several."""
    names = prepared.launch_names
    if options.launch is None and len(names) > 1:
        raise _several(prepared)
    if options.launch is not None and options.launch < 0:
        raise KernelError(f"launch must be at least 0, got {options.launch}")
    recording = _Recording(prepared, options, every_launch=False, tracer=tracer)
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
    workload: AnyWorkload, options: Options | None = None, context: Any = None
) -> tuple[list[Trace], dict[str, Any]]:
    """Traces of every launch, and the outputs that the instrumented kernel computed."""
    prepared = instrumented(workload, context)
    recording = _Recording(prepared, options or Options(), every_launch=True)
    outputs = prepared.run(recording)
    return [traces[0] for traces in recording.traces], outputs


def lane_accesses(
    workload: AnyWorkload,
    *,
    reduced: bool = True,
    groups: int | Sequence[int] | None = None,
    context: Any = None,
) -> LaneAccesses:
    """What each work-item asked for, in program order.

    Returns (launch, group, local linear id) -> [(direction, array, byte offset, bytes), ...];
    work-items without accesses have an empty list. Meant for comparison: it is slow.
    """
    prepared = instrumented(workload, context)
    found: LaneAccesses = {}

    def observer(launch: BoundLaunch) -> None:
        run = LaunchRun(prepared, launch, Options(groups=groups))
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
    """The given OpenCL context, or the one that this machine's platforms pass their trial with."""
    if context is not None:
        return context
    from tracegen.devices.choice import choose

    return choose()


def _several(prepared: Prepared) -> KernelError:
    names = ", ".join(f"{k} ({name})" for k, name in enumerate(prepared.launch_names))
    return KernelError(
        f"kernel {prepared.name} has several launches: {names}; say which with launch=,"
        " or trace them all with trace_launches"
    )
