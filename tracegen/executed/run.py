"""The traces of a launch whose machine code is run."""

from __future__ import annotations

import functools
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.compile import compiled
from memsim.errors import KernelError
from memsim.machine import Machine
from memsim.trace import BARRIER_SITE, AccessSite, ArrayExtent, Trace
from tracegen.executed.faults import sentence
from tracegen.executed.sites import PRIVATE_MEMORY, Sites, code_table
from tracegen.executed.touched import touched
from tracegen.executed.windows import nothing, waits_for_groups, window_traces
from tracegen.executed.work import (
    conflict_notes,
    executions_of,
    instruction_counts,
    kinds_of,
    work_of,
)
from tracegen.execution.code import Code
from tracegen.execution.recorded import Recorded
from tracegen.execution.run import Execution, Fault, writes_arrays
from tracegen.execution.slicing import sliced
from tracegen.machine_code.bound import BoundKernel
from tracegen.options import TraceOptions
from tracegen.recording import snapshot
from tracegen.recording.earlier import Moved
from tracegen.recording.sites import BASE_ALIGNMENT_BYTES
from tracegen.recording.traces import Content, LaunchTraces


class ExecutedRun(LaunchTraces):
    """Runs of one launch in mode *addresses*: what addresses, predicates and branches depend on; see
    tracegen.execution.slicing. Where that is not enough, because a load reads what a store of the launch has written, the values of
    stores are computed, too."""

    tracer = "machine code"

    def __init__(
        self,
        bound: BoundKernel,
        code: Code,
        options: TraceOptions,
        machine: Machine | None,
        registers_per_item: int | None = None,
    ) -> None:
        """registers_per_item : where the user states it"""
        self.bound, self.code = bound, code
        self.n_subgroup = -(-math.prod(bound.group_shape) // code.width)
        self.executions = [self._execution(sliced(code))]
        self.values: dict[str, Any] = dict.fromkeys(
            ("local_values", "global_values", "products"), False
        )
        self.sites = Sites(bound, self.execution.code, self.execution.places)
        super().__init__(bound, options, machine)
        self.kernel_name, self.source = bound.name, bound.text
        self.launch_names = bound.launch_names or (bound.name,)
        # One register where code uses none: an empty kernel occupies the smallest unit all the same.
        self.registers_per_item = registers_per_item or max(bound.code.registers_per_item, 1)
        self.tensor_columns = bound.code.tensor_columns
        self.cluster_groups = math.prod(bound.cluster)

    @property
    def order(self) -> tuple[int, ...]:
        """Cluster by cluster, each as a row of groups."""
        cluster = self.bound.cluster
        first, *others = (
            extent // part for extent, part in zip((*self.bound.grid, 1, 1), cluster, strict=False)
        )
        return (first * math.prod(cluster), *others)[: len(self.bound.grid)]

    @property
    def execution(self) -> Execution:
        return self.executions[-1]

    @property
    def chance(self) -> str:
        stores = self.execution.writes or self.execution.leaves_values
        private = len(self.sites.regions)
        met = {
            self.sites.places[place]
            for site in self.sites.members
            for place, region in site
            if region != private
        }
        is_alone = self.launch.n_groups == 1
        if is_alone or not stores or not waits_for_groups(self.execution.code, met):
            return ""
        name = f"launch {self.launch.index} ({self.launch.name})"
        return f"{name} waits for values that other groups store, which here have ended before"

    def whole(self) -> None:
        """Runs every group with all values: later launches may read what it writes."""
        everything = Execution(
            sliced(self.code, global_values=True, products=True), self.bound.launch
        )
        self.bound.restore()
        try:
            everything.run(np.arange(self.launch.n_groups, dtype=np.int64), record=False)
        except Fault as fault:
            raise sentence(self.bound, self.code, fault) from None

    complete = whole

    def traces(self, *arguments: Any) -> Any:
        """As of the base; all with the same sites, some of which only later traces have."""
        made = super().traces(*arguments)
        sites = self.sites.sites
        return [trace.replace(sites=sites) for trace in made]

    def window_traces(self, wave: int, n_snapshots: int) -> list[Trace] | None:
        return window_traces(self, wave, n_snapshots)

    def counted(self, groups: snapshot.Groups, *, by_barriers: bool) -> Recorded:
        """What groups do, counted and not recorded.

        Loads that are passed over are not checked, so where something is wrong the groups are run whole, for what
        is wrong first.
        """
        try:
            return self._run(groups, windows=nothing(len(groups)), by_barriers=by_barriers)
        except KernelError:
            self._run(groups)
            raise

    def recorded(
        self, groups: snapshot.Groups, steps: npt.NDArray[np.int64], by_barriers: bool
    ) -> Recorded:
        """Groups in windows of their run. steps : (n_group, 2)"""
        return self._run(groups, windows=steps, by_barriers=by_barriers)

    def touched(
        self, groups: snapshot.Groups, steps: npt.NDArray[np.int64], by_barriers: bool
    ) -> Recorded:
        """As `recorded`, without the accesses of groups that do what another does, moved."""
        return self._run(groups, windows=steps, by_barriers=by_barriers, only_notes=True)

    def _run(self, groups: snapshot.Groups, **windows: Any) -> Recorded:
        """Records groups, as if no others had run before. windows : see Execution.run"""
        slots = self.places(len(groups))
        while True:
            if self.execution.writes:
                self.bound.restore()
            failure: Fault | None = None
            try:
                recorded = self.execution.run(
                    groups,
                    slots=slots,
                    private_base=self._private_base,
                    memory_bytes=self.options.memory_bytes,
                    **windows,
                )
            except Fault as fault:
                failure = fault
            if not self.execution.needs_values or not self._computes_more():
                if failure is not None:
                    raise sentence(self.bound, self.code, failure) from None
                return recorded
            self.executions.append(self._execution(sliced(self.code, **self.values)))

    def _computes_more(self) -> bool:
        """Computes the values that the last run missed, from now on; whether that are more than before."""
        before, misses = dict(self.values), self.execution
        # What is missed in a memory though its stores are done derives from products.
        for missed, of in (
            (misses.misses_local, "local_values"),
            (misses.misses_global, "global_values"),
        ):
            self.values["products"] |= missed and self.values[of]
            self.values[of] |= missed
        return self.values != before

    def _execution(self, code: Code) -> Execution:
        bound = self.bound
        return Execution(code, bound.launch if writes_arrays(code) else bound.launch_to_read)

    @functools.cached_property
    def _arrays(self) -> tuple[ArrayExtent, ...]:
        return tuple(region.extent for region in self.execution.launch.regions)

    @property
    def _private_base(self) -> int:
        end = max((one.base_bytes + one.size_bytes for one in self._arrays), default=0)
        return -(-end // BASE_ALIGNMENT_BYTES) * BASE_ALIGNMENT_BYTES

    def content(self, ids: snapshot.Groups) -> Content:
        return self.content_of(ids, self._run(ids))

    def trace_of(self, ids: snapshot.Groups, recorded: Recorded) -> Trace:
        """The trace of groups that have been recorded."""
        return self.as_trace(ids, self.content_of(ids, recorded), None)

    def content_of(self, ids: snapshot.Groups, recorded: Recorded) -> Content:
        if self.execution.places and not len(recorded.access):  # else it does nothing
            recorded = _with_barriers(recorded)
        site = self.sites.numbers(recorded.access)
        offset = np.concatenate([[0], np.cumsum(recorded.subgroup_accesses)])
        executions = executions_of(self.code, recorded)
        counts = instruction_counts(self.bound.code, recorded.local_counts, executions)
        work, work_table = work_of(self.code, counts, recorded, offset)
        columns: dict[str, Any] = {
            "subgroup_offset": offset,
            "site": site,
            "starts_sequence": sequence_starts(offset, site, recorded.waits),
            "waits": recorded.waits,
            "lanes": recorded.lanes,
            "granule_offset": np.concatenate([[0], recorded.granule_end]),
            "granule": recorded.granule,
            "byte_mask": recorded.byte_mask,
            "lane_groups": recorded.lane_groups,
            "work": work,
            "work_table": work_table,
            "work_kinds": kinds_of(self.bound.code),
        }
        sites = self.sites.sites
        if any(one.direction == "atomic" for one in sites):
            columns["lane_hits"] = recorded.lane_hits
        arrays = self.bound.memory.extents
        if any(one.array == PRIVATE_MEMORY for one in sites):
            arrays = (*arrays, self._private_memory(len(ids)))
        return Content(sites, arrays, columns, self._user_source(sites), self._compiler(recorded))

    def _private_memory(self, n_groups: int) -> ArrayExtent:
        words = -(-self.execution.launch.private_bytes // 4)
        n_place = int(self.places(n_groups).max(initial=0)) + self.n_subgroup
        size = n_place * words * 4 * self.code.lanes
        return ArrayExtent(name=PRIVATE_MEMORY, base_bytes=self._private_base, size_bytes=size)

    def _user_source(self, sites: tuple[AccessSite, ...]) -> str:
        """The text of the file with the most sites."""
        files = Counter(one.source.user_file for one in sites if one.source.user_file)
        name = files.most_common(1)[0][0] if files else None
        if name is None or name == self.bound.source(1).user_file:
            return self.bound.text
        try:
            return Path(name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return self.bound.text

    def _compiler(self, recorded: Recorded) -> dict[str, Any]:
        code, source = self.bound.code, self.bound.source
        conflicts = conflict_notes(code, recorded.local_counts, lambda line: source(line).user_line)
        return {
            "target": code.target,
            **code.tools,
            "registers_per_item": code.registers_per_item,
            "skipped_instructions": len(self.execution.code.skipped),
            "stand_ins": list(code.stand_ins),
            "notes": [*code.notes, *conflicts],
            "code": code_table(code, self.sites),
        }

    def touched_by(self, groups: snapshot.Groups) -> list[Moved]:
        groups = self.execution.with_clusters(groups)
        recorded = self._run(groups, only_notes=True)
        return touched(self.execution, groups, recorded, self.places(len(groups)))

    def requests(self, groups: snapshot.Groups) -> npt.NDArray[np.int64]:
        recorded = self._run(groups)
        ends = np.concatenate([[0], recorded.granule_end])
        offset = np.concatenate([[0], np.cumsum(recorded.subgroup_accesses)])
        return np.asarray(np.diff(ends[offset[:: self.n_subgroup]]), np.int64)

    def cost(self, groups: snapshot.Groups) -> snapshot.Cost:
        recorded = self._run(groups)
        instructions = recorded.micro_operations * self.code.lanes
        return snapshot.Cost(recorded.lane_accesses, len(recorded.granule), instructions)


@compiled
def _starts(offset, site, waits, starts):  # type: ignore[no-untyped-def]
    for subgroup in range(len(offset) - 1):
        begin = offset[subgroup]
        fresh, sequence = True, 0
        for access in range(begin, offset[subgroup + 1]):
            is_barrier = site[access] < 0
            fresh = fresh or is_barrier or waits[access] >= sequence
            starts[access] = fresh
            if fresh:
                sequence = access - begin
            fresh = is_barrier


def _with_barriers(recorded: Recorded) -> Recorded:
    """Sub-groups that access nothing, each with a barrier, for a trace counts instructions with what follows them."""
    n = len(recorded.tail)
    nothing_follows = len(recorded.row_end)
    return recorded._replace(
        subgroup_accesses=np.ones(n, np.int64),
        access=np.full(n, BARRIER_SITE, np.int32),
        waits=np.full(n, -1, np.int32),
        lanes=np.zeros(n, recorded.lanes.dtype),
        granule_end=np.zeros(n, np.int64),
        work=recorded.tail,
        tail=np.full(n, nothing_follows, np.int32),
        row_end=np.append(recorded.row_end, recorded.row_end[-1:]),
    )


def sequence_starts(
    offset: npt.NDArray[np.int64], site: npt.NDArray[np.int32], waits: npt.NDArray[np.int32]
) -> npt.NDArray[np.bool_]:
    """(n_access,) where a bulk sequence begins.

    What was issued together arrives together, so only a wait for an access of the current sequence ends it: code with a
    window of ten loads under way has sequences of ten. Barriers begin one, and so does what follows them.
    """
    starts = np.zeros(len(site), np.bool_)
    _starts(offset, site, waits, starts)
    return starts
