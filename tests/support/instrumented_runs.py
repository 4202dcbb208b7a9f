"""What instrumented runs yield besides a trace: a kernel's outputs, and the accesses of each lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memsim.trace import Trace
from tests.twins.lockstep import lane_tokens_kept
from tracegen import Workload
from tracegen.devices.choice import choose
from tracegen.instrumented.host import PreparedLoopy, prepare
from tracegen.instrumented.launch import LoopyLaunch
from tracegen.instrumented.run import DeviceRun
from tracegen.options import TraceOptions
from tracegen.recording import snapshot

LaneAccess = tuple[str, str, int, int]
"""Direction, array, byte offset and number of bytes of one access of one work-item."""


def prepared_of(workload: Workload | PreparedLoopy, context: Any = None) -> PreparedLoopy:
    """With probes; a workload that has them already is the same."""
    if isinstance(workload, Workload):
        return prepare(workload, choose() if context is None else context)
    return workload


def run_traced(
    workload: Workload | PreparedLoopy, options: TraceOptions | None = None, context: Any = None
) -> tuple[list[Trace], dict[str, Any]]:
    """Traces of every launch, and the outputs that the instrumented kernel computed."""
    prepared = prepared_of(workload, context)
    traces = []

    def observer(launch: LoopyLaunch) -> None:
        run = DeviceRun(prepared, launch, options or TraceOptions())
        traces.extend(run.traces(1))
        run.complete()

    outputs = prepared.run(observer)
    return traces, outputs


def lane_accesses(
    workload: Workload | PreparedLoopy,
    *,
    reduced: bool = True,
    groups: int | Sequence[int] | None = None,
    context: Any = None,
    outputs: dict[str, Any] | None = None,
) -> dict[tuple[int, int, int], list[LaneAccess]]:
    """(launch, group, local linear id) -> the accesses of that work-item, in program order.

    outputs : filled with what the kernel computes
    """
    prepared = prepared_of(workload, context)
    accesses: dict[tuple[int, int, int], list[LaneAccess]] = {}

    def observer(launch: LoopyLaunch) -> None:
        run = DeviceRun(prepared, launch, TraceOptions(groups=groups))
        chosen = snapshot.choose(launch.grid, None, groups)[0]
        for ids, tokens, offset, took in run.recorded(chosen):
            for item, n in enumerate(took):
                mine = tokens[offset[item] : offset[item] + n].tolist()
                own = [run.layout.encoding.split(token) for token in mine]
                kept = lane_tokens_kept(own, launch.program.probes, reduced)
                group = int(ids[item // launch.group_items])
                accesses[launch.index, group, item % launch.group_items] = [
                    _lane_access(launch, *token) for token in kept
                ]
        run.complete()

    computed = prepared.run(observer)
    if outputs is not None:
        outputs.update(computed)
    return accesses


def _lane_access(launch: LoopyLaunch, position: int, index: int) -> LaneAccess:
    """What a token of one work-item stands for."""
    tables, kind = launch.layout.tables, launch.program.probes[position].kind
    address = int(tables.base[position]) + index * int(tables.stride[position])
    size_bytes = int(tables.size[position])
    (array,) = (
        extent
        for extent in launch.layout.extents
        if extent.base_bytes <= address < extent.base_bytes + extent.size_bytes
    )
    return kind, array.name, address - array.base_bytes, size_bytes
