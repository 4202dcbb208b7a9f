"""Traces of a Loopy kernel in the order of its source; how its accesses become known is up to the subclasses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import loopy as lp
import numpy as np
import numpy.typing as npt

from memsim.machine import Machine
from tracegen.instrumented.host import PreparedLoopy
from tracegen.instrumented.launch import LoopyLaunch
from tracegen.options import TraceOptions
from tracegen.record import Launches
from tracegen.recording.earlier import Moved
from tracegen.recording.snapshot import Cost, Groups
from tracegen.recording.traces import Content, LaunchTraces

GRANULE_ROW_BYTES = 14
"""Bytes of a granule in all columns. Where nothing coalesces, each lane-access is one granule."""


class SourceRun(LaunchTraces):
    """One launch. missing : why its machine code is not run, "" where that was not asked for"""

    launch: LoopyLaunch

    def __init__(
        self,
        prepared: PreparedLoopy,
        launch: LoopyLaunch,
        options: TraceOptions,
        machine: Machine | None = None,
        missing: str = "",
    ) -> None:
        super().__init__(launch, options, machine)
        self.prepared, self.missing, self.layout = prepared, missing, launch.layout
        self.kernel_name, self.source = prepared.name, prepared.source
        self.launch_names = prepared.launch_names
        self.registers_per_item = prepared.workload.registers_per_item

    def columns(self, groups: Groups) -> dict[str, Any]:
        """The columns of the trace of some groups."""
        raise NotImplementedError

    @property
    def keep_hits(self) -> bool:
        """Whether the trace needs the number of lanes that request each granule."""
        return any(site.direction == "atomic" for site in self.layout.sites)

    def content(self, ids: Groups) -> Content:
        compiler: dict[str, Any] = {"missing": self.missing} if self.missing else {}
        compiler |= {"stand_ins": races} if (races := list(_races(self.prepared.kernel))) else {}
        layout, text = self.layout, self.launch.user.text
        return Content(layout.sites, layout.extents, self.columns(ids), text, compiler)

    def touched_by(self, groups: Groups) -> list[Moved]:
        return [Moved(self.columns(groups)["granule"])]

    def requests(self, groups: Groups) -> npt.NDArray[np.int64]:
        columns = self.columns(groups)
        ends = columns["granule_offset"][columns["subgroup_offset"]]
        n_subgroup = -(-self.launch.group_items // self.subgroup_size)
        return np.asarray(np.diff(ends[::n_subgroup]), np.int64)

    def cost(self, groups: Groups) -> Cost:
        columns = self.columns(groups)
        return Cost(int(columns["lanes"].sum(dtype=np.int64)), len(columns["granule"]))


def launches(
    prepared: PreparedLoopy,
    options: TraceOptions,
    tracer: type[SourceRun],
    machine: Machine | None = None,
    missing: str = "",
) -> Launches:
    """The launches of a kernel. missing : see SourceRun"""

    def each(seen: Callable[[SourceRun], bool]) -> None:
        prepared.run(lambda launch: seen(tracer(prepared, launch, options, machine, missing)))

    return each


def _races(kernel: lp.LoopKernel) -> Iterator[str]:
    """A sentence for each array in local memory that lanes exchange without a barrier, as `nosync=...@local` permits."""
    local = {
        name
        for name, variable in kernel.temporary_variables.items()
        if variable.address_space == lp.AddressSpace.LOCAL
    }
    pairs = (
        (kernel.id_to_insn[other].write_dependency_names(), reader.read_dependency_names())
        for reader in kernel.instructions
        for other, scope in sorted(reader.no_sync_with)
        if scope == "local" and other in kernel.id_to_insn
    )
    for name in sorted(local & {name for written, read in pairs for name in written & read}):
        yield (
            f"{name} passes from lane to lane through local memory without a barrier, which is formally a race:"
            " this tracer does not run lanes in lockstep, as the machine code does."
        )
