"""The two runs of a launch, counting and recording, and the traces made of their tokens."""

from __future__ import annotations

import functools
import hashlib
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from memsim.errors import KernelError
from memsim.machine import Machine
from memsim.montecarlo import resident_groups
from memsim.trace import Columns, GrowingColumns, Launch, Trace
from tracegen.devices.buffers import Buffers, buffers
from tracegen.options import TraceOptions
from tracegen.recording import snapshot
from tracegen.recording.launch import BoundLaunch, Prepared, enqueue
from tracegen.recording.machine_order import MachineOrder, by_position
from tracegen.recording.subgroup import merge

DEFAULT_SUBGROUP_SIZE = 32
GRANULE_ROW_BYTES = 14
"""Bytes of a granule in all columns. Where nothing coalesces, each lane-access is one granule."""


class LaunchRun:
    """The runs and the traces of one launch."""

    tracer = "instrumented run"

    def __init__(
        self,
        prepared: Prepared,
        launch: BoundLaunch,
        options: TraceOptions,
        machine: Machine | None = None,
        compiled: MachineOrder | str = "",
    ) -> None:
        """compiled : the launch's machine code, or why there is none"""
        self.prepared, self.launch = prepared, launch
        self.options, self.machine = options, machine
        self.compiled = compiled
        self.layout = launch.layout
        self.reduced = options.reduced
        if not isinstance(compiled, str):
            # The machine code determines which accesses are redundant.
            self.reduced = False
            self.layout = by_position(launch.layout, launch.program.probes)
        self.buffers: Buffers = buffers(prepared.context)
        self.queue = launch.queue
        self.saved: list[tuple[Any, Any]] = []
        self.ran_all = False

    @property
    def libraries(self) -> tuple[str, ...]:
        """The packages that made the trace, for its provenance."""
        return (self.launch.front_end, "pyopencl", "numba", "numpy")

    def whole(self) -> None:
        """Runs every group without a trace: later launches may read what it writes."""
        self._count(np.arange(self.launch.n_groups, dtype=np.int64))

    def complete(self) -> None:
        """Gives the buffers the content that the plain launch would have left."""
        if not self.ran_all:
            self._restore()
            self.whole()

    @property
    def subgroup_size(self) -> int:
        if self.options.subgroup_size is not None:
            return self.options.subgroup_size
        return DEFAULT_SUBGROUP_SIZE if self.machine is None else self.machine.subgroup_size

    def traces(self, n_snapshots: int = 1) -> list[Trace]:
        """One trace a snapshot."""
        launch, options = self.launch, self.options
        shape = Launch(
            kernel=launch.name,
            n_groups=launch.n_groups,
            group_items=launch.group_items,
            grid=launch.grid,
            group_shape=launch.group_shape,
            local_memory_bytes=launch.local_memory_bytes,
            registers_per_item=self._registers_per_item,
        )
        if launch.n_groups == 0:
            raise KernelError(
                f"launch {launch.index} ({launch.name}) has no groups: its grid is {launch.grid}"
            )
        wave = None
        if self.machine is not None:
            wave = max(self._resident(shape), self.machine.n_cores)
        chosen = snapshot.choose(launch.n_groups, wave, options.groups, n_snapshots)
        return [
            self._trace(groups, shape, None if options.groups is not None else wave)
            for groups in chosen
        ]

    def _trace(self, groups: snapshot.Groups, shape: Launch, wave: int | None) -> Trace:
        width = self.subgroup_size
        if width not in (8, 16, 32, 64):
            raise KernelError(f"subgroup_size must be 8, 16, 32 or 64, got {width}")
        ids, columns = self.columns(groups, wave)
        n_subgroup = -(-shape.group_items // width)
        sites, arrays = self.layout.sites.sites, self.layout.extents
        compiler: dict[str, Any] = {}
        if not isinstance(self.compiled, str):
            places = np.arange(len(ids), dtype=np.int64) % max(self._resident(shape), 1)
            slots = (places[:, None] * n_subgroup + np.arange(n_subgroup)).reshape(-1)
            made = self.compiled.rearranged(columns, arrays, width, slots)
            sites, arrays, columns = made.sites, made.arrays, made.columns
            compiler = self.compiled.provenance(made)
        elif self.compiled:
            compiler = {"missing": self.compiled}
        return Trace(
            sites=sites,
            arrays=arrays,
            launch=shape,
            subgroup_size=width,
            workgroup=np.repeat(ids, n_subgroup).astype(np.int32),
            whole=len(ids) == shape.n_groups,
            generated_source=self.prepared.source,
            user_source=self.layout.user_source,
            provenance={**self._provenance(), "compiler": compiler},
            **columns,
        )

    @property
    def _registers_per_item(self) -> int | None:
        """What the user specified, else what the compiler reports."""
        if self.prepared.registers_per_item is not None:
            return self.prepared.registers_per_item
        return None if isinstance(self.compiled, str) else self.compiled.registers_per_item

    def _resident(self, shape: Launch) -> int:
        """Groups resident on the whole machine."""
        assert self.machine is not None
        return resident_groups(self.machine, shape).groups_per_core * self.machine.n_cores

    @property
    def keep_hits(self) -> bool:
        """Whether the trace needs the number of lanes that request each granule."""
        return any(site.direction == "atomic" for site in self.layout.sites.sites)

    def columns(
        self, groups: snapshot.Groups, wave: int | None
    ) -> tuple[snapshot.Groups, dict[str, Any]]:
        """The groups of a snapshot that fit into its budget, and the columns of their trace."""
        columns = GrowingColumns(
            memory_bytes=self.options.memory_bytes // 2, keep_hits=self.keep_hits
        )
        traced = []
        with self.recorded(groups, wave) as batches:
            for batch in batches:
                columns.append(*self._merged(*batch))
                traced.append(batch[0])
        return np.concatenate(traced), columns.finish()

    def _merged(
        self, batch: snapshot.Groups, tokens: Any, offset: Any
    ) -> tuple[Columns, int, int, int]:
        """The rows of a batch's accesses, valid until the next batch; and the numbers of sub-groups,
        accesses and granules."""
        width, n_items = self.subgroup_size, self.launch.group_items
        n_subgroup = len(batch) * -(-n_items // width)
        out = self.buffers.room(
            n_subgroup, len(tokens), len(tokens) * self.layout.tables.most_granules
        )
        shift, reduced = self.layout.encoding.position_shift, self.reduced
        n_access, n_granule = merge(
            tokens, offset, n_items, width, shift, reduced, self.layout.tables, out
        )
        return out, n_subgroup, n_access, n_granule

    @contextmanager
    def recorded(
        self, groups: snapshot.Groups, wave: int | None = None
    ) -> Iterator[Iterator[tuple[snapshot.Groups, Any, Any]]]:
        """Batches of (groups, tokens, offset of each work-item's tokens), each valid until the next."""
        self._save()
        counts = self._count(groups)
        self._restore()
        n_items = self.launch.group_items
        by_group = counts.reshape(-1, n_items)
        per_group = by_group.sum(axis=1, dtype=np.int64)

        def granules_of(sample: npt.NDArray[np.int64]) -> int:
            own = by_group[sample].reshape(-1)
            n = sum(
                self._merged(*batch)[3]
                for batch in self._batches(groups[sample], per_group[sample], own)
            )
            self._restore()
            return n

        kept = snapshot.within_budget(groups, per_group, wave, granules_of)
        yield self._batches(kept, per_group[: len(kept)], counts)
        self.ran_all = len(kept) == self.launch.n_groups

    def _batches(
        self, groups: snapshot.Groups, per_group: npt.NDArray[np.int64], counts: Any
    ) -> Iterator[tuple[snapshot.Groups, Any, Any]]:
        token_bytes = (
            self.layout.encoding.bytes + GRANULE_ROW_BYTES * self.layout.tables.most_granules
        )
        limit = max(self.options.memory_bytes // 4 // token_bytes, 1)
        n_items = self.launch.group_items
        ends = np.cumsum(per_group)
        first = 0
        while first < len(groups):
            before = int(ends[first - 1]) if first else 0
            last = max(int(np.searchsorted(ends, before + limit, side="right")), first + 1)
            own = counts[first * n_items : last * n_items]
            offset = np.zeros(len(own) + 1, np.int64)
            np.cumsum(own, out=offset[1:])
            n_token = int(offset[-1])
            self.buffers.get("tokens", (n_token + 1) * self.layout.encoding.bytes)
            self._run(groups[first:last], offset)
            with self.buffers.mapped(self.queue, "counts", len(own), np.uint32) as again:
                if not np.array_equal(again, own):
                    raise KernelError(
                        f"launch {self.launch.index} ({self.launch.name}) took other paths when it"
                        " was run again: it has a data race"
                    )
            with self.buffers.mapped(
                self.queue, "tokens", n_token + 1, self.layout.encoding.dtype
            ) as tokens:
                yield groups[first:last], tokens, offset
            first = last

    def _count(self, groups: snapshot.Groups) -> npt.NDArray[np.uint32]:
        self._run(groups, None)
        n_item = len(groups) * self.launch.group_items
        with self.buffers.mapped(self.queue, "counts", n_item, np.uint32) as counts:
            copied: npt.NDArray[np.uint32] = counts.copy()
        if len(groups) == self.launch.n_groups:
            self.ran_all = True
        return copied

    def _run(self, groups: snapshot.Groups, offset: npt.NDArray[np.int64] | None) -> None:
        if len(groups) == 0:
            return
        pool, queue, launch = self.buffers, self.queue, self.launch
        n_item = len(groups) * launch.group_items
        first = np.zeros(1, np.int64) if offset is None else offset
        buffers = [
            pool.get("tokens", 64),
            pool.put(queue, "offsets", first),
            pool.get("counts", n_item * 4),
            pool.put(queue, "groups", groups.astype(np.uint32)),
            pool.put(queue, "fault", np.zeros(8, np.int64)),
        ]
        kernel = launch.kernel_for(None if offset is None else self.layout.encoding)
        shape = launch.group_shape or (1,)
        items = (len(groups) * shape[0], *shape[1:])
        enqueue(launch, kernel, launch.probe_arguments(buffers), items)
        with pool.mapped(queue, "fault", 5, np.int64) as fault:
            if fault[0]:
                raise launch.out_of_bounds(*(int(number) for number in fault[1:]))

    def _save(self) -> None:
        for buffer, copy in self.saved:
            del buffer, copy
        self.saved = []
        for k, buffer in enumerate(self.launch.written_and_read()):
            copy = self.buffers.get(f"saved {k}", buffer.size)
            cl.enqueue_copy(self.queue, copy, buffer, byte_count=buffer.size)
            self.saved.append((buffer, copy))

    def _restore(self) -> None:
        for buffer, copy in self.saved:
            cl.enqueue_copy(self.queue, buffer, copy, byte_count=buffer.size)

    def _provenance(self) -> Mapping[str, Any]:
        source = self.prepared.source
        return {
            "tracer": self.tracer,
            "memsim": _version("memsim"),
            "python": platform.python_version(),
            **{name: _version(name) for name in self.libraries},
            **self._device(),
            "kernel_sha256": hashlib.sha256(source.encode()).hexdigest(),
            "launch": self.launch.index,
            "machine": None if self.machine is None else self.machine.name,
            **self.options.to_json(),
        }

    def _device(self) -> Mapping[str, Any]:
        """What the launch ran on."""
        device = self.prepared.context.devices[0]
        return {
            "platform": device.platform.name.strip(),
            "platform_version": device.platform.version.strip(),
            "device": device.name.strip(),
        }


@functools.cache
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"
