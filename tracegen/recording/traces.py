"""The traces of one launch: which groups they consist of, and what they say of the launch."""

from __future__ import annotations

import functools
import hashlib
import platform
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError
from memsim.machine import Machine
from memsim.montecarlo import enough_bytes, resident_groups
from memsim.progress import report
from memsim.trace import AccessSite, ArrayExtent, Launch, Trace
from tracegen.options import TraceOptions
from tracegen.recording import earlier, snapshot
from tracegen.recording.choice import GroupChoice

GroupsOf = Callable[[Trace], int]
"""The trace of one group -> how many groups of the kernel are to be traced."""


class Content(NamedTuple):
    """What groups accessed. columns : of a Trace, without `workgroup`;  compiler : for the provenance"""

    sites: tuple[AccessSite, ...]
    arrays: tuple[ArrayExtent, ...]
    columns: dict[str, Any]
    user_source: str
    compiler: dict[str, Any]


MOST_GROUPS = 2**31 - 1
"""Group ids of a trace have 32 bits."""


class LaunchTraces:
    """Traces of one launch; how its accesses become known is up to the subclasses.

    tracer, libraries : how traces are made, and by which packages, for their provenance
    source : the text of the kernel
    kernel_name : of the user's kernel;  launch_names : of all launches of the workload
    registers_per_item : None where the number is not known
    tensor_columns : of tensor memory, that a group asks for;  cluster_groups : groups of a cluster
    """

    tracer = ""
    libraries: tuple[str, ...] = ("numba", "numpy")
    source: str
    kernel_name: str
    launch_names: tuple[str, ...]
    registers_per_item: int | None
    tensor_columns = 0
    cluster_groups = 1

    def __init__(self, launch: Any, options: TraceOptions, machine: Machine | None) -> None:
        """Raises KernelError for a launch with more groups than a trace can number."""
        if launch.n_groups > MOST_GROUPS:
            raise KernelError(
                f"launch {launch.index} ({launch.name}) has {launch.n_groups} work-groups; at most"
                f" {MOST_GROUPS} can be traced"
            )
        self.launch, self.options, self.machine = launch, options, machine
        self.choice = GroupChoice(self.order, options, self.affordable, self.requests)

    def whole(self) -> None:
        """Runs every group without a trace: later launches may read what it writes."""

    def complete(self) -> None:
        """Leaves in memory what the launch leaves there, whatever groups were traced."""

    @property
    def order(self) -> tuple[int, ...]:
        """The grid whose groups, numbered along its axes, are those of the launch in the order in which they begin."""
        grid: tuple[int, ...] = self.launch.grid
        return grid

    @property
    def chance(self) -> str:
        """Why another run would give another trace; "" where it would not."""
        return ""

    def content(self, ids: snapshot.Groups) -> Content:
        """What groups access."""
        raise NotImplementedError

    def touched_by(self, groups: snapshot.Groups) -> list[earlier.Moved]:
        """What groups touch."""
        raise NotImplementedError

    def requests(self, groups: snapshot.Groups) -> npt.NDArray[np.int64]:
        """(n_group,) the granules that each requests."""
        raise NotImplementedError

    def cost(self, groups: snapshot.Groups) -> snapshot.Cost:
        """What a snapshot of these groups would take."""
        raise NotImplementedError

    def affordable(self, groups: snapshot.Groups, wave: int, part: float = 1.0) -> snapshot.Groups:
        """The first groups of a snapshot, as many as fit into a part of the budgets if all are like a few of them."""
        if len(groups) <= snapshot.FEWEST_WAVES * wave:
            return groups
        sampled = groups[snapshot.sample(len(groups))]
        each = snapshot.Cost(*(total / len(sampled) for total in self.cost(sampled)))
        return snapshot.within_budget(groups, wave, each, part)

    def window_traces(self, wave: int, n_snapshots: int) -> list[Trace] | None:
        """One trace a snapshot, in windows of the groups' run where whole groups cost too much; else None."""
        return None

    def device(self) -> Mapping[str, Any]:
        """What the launch ran on."""
        return {}

    @property
    def subgroup_size(self) -> int:
        return self.options.lanes(self.machine)

    def traces(self, n_snapshots: int = 1, groups_of: GroupsOf | None = None) -> list[Trace]:
        """One trace a snapshot; a single one where `groups_of` says how long it is to be."""
        launch = self.launch
        if launch.n_groups == 0:
            raise KernelError(
                f"launch {launch.index} ({launch.name}) has no groups: its grid is {launch.grid}"
            )
        wave = None
        if self.machine is not None:
            wave = max(self._resident, self.machine.n_cores)
        if groups_of is not None:
            one = np.array([snapshot.amid(self.order, 1)], np.int64)
            chosen = self.choice.of_length(groups_of(self.trace(one, wave)))
        elif self.options.groups is not None or wave is None:
            chosen = self.choice.given(wave, n_snapshots)
        else:
            in_windows = self.window_traces(wave, n_snapshots)
            if in_windows is not None:
                return in_windows
            chosen = self.choice.within_budget(wave, n_snapshots)
        traces = []
        for k, (groups, occurrences) in enumerate(chosen):
            report("tracing snapshots", k, len(chosen))
            traces.append(self.trace(groups, wave).replace(occurrences=occurrences))
        return traces

    @functools.cached_property
    def shape(self) -> Launch:
        """What a Trace says of the launch."""
        launch = self.launch
        return Launch(
            kernel=launch.name,
            n_groups=launch.n_groups,
            group_items=launch.group_items,
            grid=launch.grid,
            group_shape=launch.group_shape,
            local_memory_bytes=launch.local_memory_bytes,
            registers_per_item=self.registers_per_item,
            tensor_columns=self.tensor_columns,
            cluster_groups=self.cluster_groups,
        )

    def trace(self, ids: snapshot.Groups, wave: int | None) -> Trace:
        """The trace of some groups, ascending ids."""
        if self.subgroup_size not in (8, 16, 32, 64):
            raise KernelError(f"subgroup_size must be 8, 16, 32 or 64, got {self.subgroup_size}")
        return self.as_trace(ids, self.content(ids), wave)

    def as_trace(self, ids: snapshot.Groups, content: Content, wave: int | None) -> Trace:
        """wave : where it is to be known what the groups before have touched"""
        width, shape = self.subgroup_size, self.shape
        columns = content.columns
        work = self.choice.launch_work(len(columns["granule"]), len(ids))
        touched = earlier.Touched(np.zeros((0, 2), np.int64), 0)
        if self.options.earlier and wave is not None and self.machine is not None:
            touched = earlier.touched_before(
                int(ids[0]), wave, enough_bytes(self.machine), self.touched_by
            )
        n_subgroup = -(-shape.group_items // width)
        return Trace(
            sites=content.sites,
            arrays=content.arrays,
            launch=shape,
            subgroup_size=width,
            workgroup=np.repeat(ids, n_subgroup).astype(np.int32),
            whole=len(ids) == shape.n_groups,
            generated_source=self.source,
            user_source=content.user_source,
            provenance={**self._provenance(), "compiler": content.compiler},
            earlier=touched.ranges if touched.n_groups else None,
            earlier_groups=touched.n_groups,
            **work,
            **columns,
        )

    def places(self, n_groups: int) -> npt.NDArray[np.int64]:
        """(n_group,) for each of groups that follow one another the number of the place of its first sub-group among those
        that the machine holds resident."""
        n_subgroup = -(-self.launch.group_items // self.subgroup_size)
        resident = self._resident if self.machine is not None else 1
        return np.asarray(np.arange(n_groups) % max(resident, 1) * n_subgroup, np.int64)

    @property
    def _resident(self) -> int:
        """Groups resident on the whole machine."""
        assert self.machine is not None
        return resident_groups(self.machine, self.shape).groups_per_core * self.machine.n_cores

    def _provenance(self) -> Mapping[str, Any]:
        source = self.source
        return {
            "tracer": self.tracer,
            "memsim": _version("memsim"),
            "python": platform.python_version(),
            **{name: _version(name) for name in self.libraries},
            **self.device(),
            "kernel_sha256": hashlib.sha256(source.encode()).hexdigest(),
            "launch": self.launch.index,
            "machine": None if self.machine is None else self.machine.name,
            **({"one_of_many": self.chance} if self.chance else {}),
            **self.options.to_json(),
        }


@functools.cache
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"
