"""Which launches of a workload are recorded, and which only run before those."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from memsim.errors import KernelError, PathsWarning
from memsim.trace import Trace
from tracegen.options import TraceOptions

if TYPE_CHECKING:
    from tracegen.recording.traces import GroupsOf, LaunchTraces

Launches = Callable[[Callable[["LaunchTraces"], bool]], object]
"""Calls a function with each launch of a workload, in their order, and may stop where it returns True."""


def record(
    launches: Launches,
    options: TraceOptions,
    n_snapshots: int = 1,
    groups_of: GroupsOf | None = None,
    *,
    every: bool = False,
) -> list[list[Trace]]:
    """The snapshots of one launch, before which the launches before it run; or one of `every` launch, launch by launch.

    Raises KernelError where there are several launches and none is named, or the named one is not there.
    """
    traces: list[list[Trace]] = []
    names: list[str] = []
    chosen = options.launch

    def seen(run: LaunchTraces) -> bool:
        index = run.launch.index
        names.append(run.launch.name)
        if every:
            traces.append(run.traces())
            run.complete()
            return False
        if chosen is None and (len(run.launch_names) > 1 or index):
            raise KernelError(
                f"kernel {run.kernel_name} has several launches: {_listed(run.launch_names)}; choose one with --launch, in"
                " Python launch=; tracegen.trace_launches traces them all"
            )
        if chosen in (None, index):
            traces.append(run.traces(n_snapshots, groups_of))
        elif index < chosen:
            run.whole()
        return bool(traces)

    launches(seen)
    if not (traces or every):
        raise KernelError(f"the kernel has no launch {chosen}; it has {_listed(names)}")
    found = (trace.provenance.get("one_of_many") for of in traces for trace in of)
    for reason in dict.fromkeys(found):
        if reason:
            warnings.warn(f"{reason}, so its trace is one of many", PathsWarning, stacklevel=3)
    return traces


def _listed(names: list[str] | tuple[str, ...]) -> str:
    return ", ".join(f"{k} ({name})" for k, name in enumerate(names)) or "none"
