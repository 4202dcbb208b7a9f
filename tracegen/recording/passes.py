"""The two runs of a launch, counting and recording, and the traces made of their tokens."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError
from memsim.machine import Machine
from memsim.trace import Columns, GrowingColumns, lane_instructions, room
from tracegen.options import TraceOptions
from tracegen.probes.tokens import TokenEncoding
from tracegen.recording import snapshot
from tracegen.recording.launch import BoundLaunch, Prepared, check_size
from tracegen.recording.machine_order import MachineOrder, by_position
from tracegen.recording.room import Lengths, offsets, recorded
from tracegen.recording.subgroup import LongMerge, merge
from tracegen.recording.traces import Content, LaunchTraces

GRANULE_ROW_BYTES = 14
"""Bytes of a granule in all columns. Where nothing coalesces, each lane-access is one granule."""
LONG_ROW_BYTES = 18 + GRANULE_ROW_BYTES
"""Bytes of an access and a granule in all columns."""
WHOLE_ITEMS = 1 << 26
"""Work-items that are run at a time where nothing is recorded."""


class Batch(NamedTuple):
    """Groups that are recorded at once, and the tokens that each of their work-items was counted.

    room : of each work-item, where the tokens have been recorded already
    """

    groups: snapshot.Groups
    counts: npt.NDArray[np.uint32]
    room: Lengths | None = None


class LaunchRun(LaunchTraces):
    """The runs and the traces of one launch; how a kernel runs, and where, is up to its subclasses."""

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
        check_size(launch)
        super().__init__(launch, options, machine)
        self.prepared, self.compiled = prepared, compiled
        self.layout = launch.layout
        self.reduced = options.reduced
        if not isinstance(compiled, str):
            # The machine code determines which accesses are redundant.
            self.reduced = False
            self.layout = by_position(launch.layout, launch.program.probes)
        self.saved: list[tuple[Any, Any]] | None = None
        self.changed = self.ran_all = False
        self.took_others = False
        self.sampled: dict[int, Lengths] = {}
        self.counted: dict[int, Batch] = {}

    @property
    def source(self) -> str:
        return self.prepared.source

    def content(self, ids: snapshot.Groups) -> Content:
        columns = self.columns(ids)
        sites, arrays = self.layout.sites.sites, self.layout.extents
        if isinstance(self.compiled, str):
            compiler = {"missing": self.compiled} if self.compiled else {}
            return Content(sites, arrays, columns, self.layout.user_source, compiler)
        n_subgroup = -(-self.launch.group_items // self.subgroup_size)
        slots = (self.places(len(ids))[:, None] + np.arange(n_subgroup)).reshape(-1)
        made = self.compiled.rearranged(columns, arrays, self.subgroup_size, slots)
        provenance = self.compiled.provenance(made)
        return Content(made.sites, made.arrays, made.columns, self.layout.user_source, provenance)

    @property
    def chance(self) -> str:
        return self._why_one_of_many if self.took_others else ""

    def granules(self, groups: snapshot.Groups) -> npt.NDArray[np.int64]:
        granules: npt.NDArray[np.int64] = self.columns(groups)["granule"]
        return granules

    def requests(self, groups: snapshot.Groups) -> npt.NDArray[np.int64]:
        columns = self.columns(groups)
        ends = columns["granule_offset"][columns["subgroup_offset"]]
        n_subgroup = -(-self.launch.group_items // self.subgroup_size)
        return np.asarray(np.diff(ends[::n_subgroup]), np.int64)

    @property
    def libraries(self) -> tuple[str, ...]:
        """The packages that made the trace, for its provenance."""
        return (self.launch.front_end, "pyopencl", "numba", "numpy")

    def whole(self) -> None:
        """Runs every group without a trace: later launches may read what it writes."""
        n_groups = self.launch.n_groups
        step = max(WHOLE_ITEMS // max(self.launch.group_items, 1), 1)
        for first in range(0, n_groups, step):
            self._count(np.arange(first, min(first + step, n_groups), dtype=np.int64))
        self.ran_all = True

    def complete(self) -> None:
        """Gives the buffers the content that the plain launch would have left."""
        if not self.ran_all:
            self._from_start()
            self.whole()

    @property
    def _why_one_of_many(self) -> str:
        """Why another run would give another trace."""
        # Atomic operations on local memory have no probes.
        in_local = self.launch.local_memory_bytes > 0 and "atomic" in self.prepared.source
        if self.keep_hits or in_local:
            why = "they depend on the order of its atomic operations"
        else:
            why = "it has a data race"
        name = f"launch {self.launch.index} ({self.launch.name})"
        return f"{name} took other paths when it was run again: {why}"

    @property
    def registers_per_item(self) -> int | None:
        """What the user specified, else what the compiler reports."""
        if self.prepared.registers_per_item is not None:
            return self.prepared.registers_per_item
        return None if isinstance(self.compiled, str) else self.compiled.registers_per_item

    @property
    def keep_hits(self) -> bool:
        """Whether the trace needs the number of lanes that request each granule."""
        return any(site.direction == "atomic" for site in self.layout.sites.sites)

    def columns(self, groups: snapshot.Groups) -> dict[str, Any]:
        """The columns of the trace of some groups."""
        columns = GrowingColumns(
            memory_bytes=self.options.memory_bytes // 2, keep_hits=self.keep_hits
        )
        with self.recorded(groups) as batches:
            for batch in batches:
                for rows in self._rows(batch):
                    columns.append(*rows, keep=not self._is_long(batch))
        return columns.finish()

    def affordable(self, groups: snapshot.Groups, wave: int, part: float = 1.0) -> snapshot.Groups:
        """The first groups of a snapshot, as many as fit into a part of the budgets."""
        least = snapshot.FEWEST_WAVES * wave
        if len(groups) <= least:
            return groups
        instructions = self._instructions_an_access
        sampled = snapshot.sample(len(groups))
        by_group = self._counts(groups[sampled])
        per_group = by_group.sum(axis=1, dtype=np.int64)
        alike = bool(np.ptp(per_group) == 0)
        if alike:  # as most launches are; the others are not counted then
            per_group = np.full(len(groups), per_group[0])
        else:
            most_accesses = part * snapshot.most_accesses_of(instructions)
            counts = self._counted_beyond(groups, most_accesses, least)
            by_group = counts.reshape(-1, self.launch.group_items)
            per_group = by_group.sum(axis=1, dtype=np.int64)

        def granules_of(sample: npt.NDArray[np.int64]) -> int:
            own = (by_group if alike else by_group[sample]).reshape(-1)
            self._from_start()
            return sum(
                rows[3]
                for batch in self._batches(groups[sample], per_group[sample], own)
                for rows in self._rows(batch)
            )

        return snapshot.within_budget(groups, per_group, wave, granules_of, part, instructions)

    def _counts(self, groups: snapshot.Groups) -> npt.NDArray[np.uint32]:
        """(n_group, group_items) the tokens of each work-item of a few groups, without the others."""
        self._from_start()
        counts = self._count(groups).reshape(len(groups), -1)
        self.sampled.update(zip(groups.tolist(), counts, strict=True))
        return counts

    def _compare(self, groups: snapshot.Groups, took: Lengths) -> None:
        """Notes where sampled groups take other paths among others, ascending, than without them.

        This computer may run groups in one order each time, so that two runs of the same ones never differ.
        """
        by_group = took.reshape(len(groups), -1)
        for group, counts in self.sampled.items():
            at = int(np.searchsorted(groups, group))
            if at < len(groups) and groups[at] == group:
                self.took_others |= not np.array_equal(by_group[at], counts)

    def _counted_beyond(
        self, groups: snapshot.Groups, most_accesses: float, least: int
    ) -> npt.NDArray[np.uint32]:
        """Counts of the first groups of a snapshot: of all, or of at least so many with more accesses than fit.

        What another snapshot that begins with the same group has counted is not counted again.
        """
        n_items, first = self.launch.group_items, int(groups[0])
        known = self.counted.get(first)
        counts = known.counts if known is not None else np.zeros(0, np.uint32)
        n, total = len(counts) // n_items, int(counts.sum(dtype=np.int64))
        self._from_start()
        while n < len(groups) and (n < least or total <= most_accesses):
            more = int((most_accesses - total) * n / total) if total else 0
            more = max(more, least - n if n else 0, n // 4) + snapshot.SAMPLED_GROUPS
            found = self._count(groups[n : n + more])
            counts = np.concatenate([counts, found])
            n, total = n + len(found) // n_items, total + int(found.sum(dtype=np.int64))
        if known is None or n > len(known.groups):
            self.counted[first] = Batch(groups[:n], counts)
        return counts[: len(groups) * n_items]

    @functools.cached_property
    def _instructions_an_access(self) -> float:
        """Of a lane, in a group amid the launch; 1 where machine code is not known."""
        if isinstance(self.compiled, str):
            return 1.0
        one = np.array([snapshot.amid(self.launch.grid, 1)], np.int64)
        n_access = int(self._counts(one).sum(dtype=np.int64))
        instructions = lane_instructions(self.trace(one, None))
        return max(instructions / max(n_access, 1), 1.0)

    def _rows(self, batch: Batch) -> Iterator[tuple[Columns, int, int, int]]:
        """The rows of a batch's accesses, those of a long one valid until the next; and how many sub-groups,
        accesses and granules they are."""
        if self._is_long(batch):
            yield from self._rows_in_pieces(batch)
            return
        with self.tokens(batch) as (tokens, offset, took):
            yield merge(
                tokens,
                offset,
                took,
                self.launch.group_items,
                self.subgroup_size,
                self.layout.encoding.position_shift,
                self.reduced,
                self.layout.tables,
            )

    def _is_long(self, batch: Batch) -> bool:
        """Whether a batch, of one group, has more tokens than are recorded at a time."""
        return int(batch.counts.sum(dtype=np.int64)) > self._most_tokens

    @contextmanager
    def recorded(self, groups: snapshot.Groups) -> Iterator[Iterator[Batch]]:
        """Batches of groups, to be recorded one after another, as if no other had run before them."""
        self._from_start()
        known = self.counted.get(int(groups[0])) if len(groups) else None
        if known is not None and np.array_equal(known.groups[: len(groups)], groups):
            counts = known.counts[: len(groups) * self.launch.group_items]
            yield self._exact_batches(Batch(groups, counts))
        else:
            yield self._new_batches(groups)
        self.ran_all = len(groups) == self.launch.n_groups

    def _new_batches(self, groups: snapshot.Groups) -> Iterator[Batch]:
        """Batches of groups that have not been counted."""
        counts = self._count(groups)
        self._from_start()
        yield from self._exact_batches(Batch(groups, counts))

    def _exact_batches(self, counted: Batch) -> Iterator[Batch]:
        by_group = counted.counts.reshape(-1, self.launch.group_items)
        return self._batches(counted.groups, by_group.sum(axis=1, dtype=np.int64), counted.counts)

    @property
    def _most_tokens(self) -> int:
        """Tokens that are recorded and merged at a time."""
        tables = self.layout.tables
        token_bytes = self.layout.encoding.bytes + GRANULE_ROW_BYTES * tables.most_granules
        return max(self.options.memory_bytes // 4 // token_bytes, 1)

    def _batches(
        self, groups: snapshot.Groups, per_group: npt.NDArray[np.int64], counts: Any
    ) -> Iterator[Batch]:
        limit = self._most_tokens
        n_items = self.launch.group_items
        ends = np.cumsum(per_group)
        first = 0
        while first < len(groups):
            before = int(ends[first - 1]) if first else 0
            last = max(int(np.searchsorted(ends, before + limit, side="right")), first + 1)
            yield Batch(groups[first:last], counts[first * n_items : last * n_items])
            first = last

    @contextmanager
    def tokens(self, batch: Batch) -> Iterator[tuple[Any, npt.NDArray[np.int64], Lengths]]:
        """The tokens of a batch, where the room of each work-item begins, and how many of its tokens there
        are; valid within the context.

        Where work-items take other paths than when they were counted, they are recorded once more with
        more room, as often as it was too small.
        """
        encoding = self.layout.encoding
        took, room = batch.counts, batch.room
        if room is None:
            before = [] if encoding.trusted else self._before()

            def record(room: Lengths) -> Lengths:
                return self._record(batch.groups, room, np.zeros(len(room), np.int64), encoding)

            took, room = recorded(self.launch, record, lambda: self._paste(before), took)
            self.took_others |= not np.array_equal(took, batch.counts)
        self._compare(batch.groups, took)
        offset = offsets(room)
        with self._mapped("tokens", int(offset[-1]) + 1, encoding.dtype) as tokens:
            yield tokens, offset, took

    def _rows_in_pieces(self, batch: Batch) -> Iterator[tuple[Columns, int, int, int]]:
        """As `_rows`, of one group with too many tokens: each run records a piece of one sub-group."""
        (group,) = batch.groups
        self._compare(batch.groups, batch.counts)
        encoding = dataclasses.replace(self.layout.encoding, trusted=False)
        tables, width = self.layout.tables, self.subgroup_size
        most = max(self.options.memory_bytes // 4 // encoding.bytes, width)
        n_row = max(self.options.memory_bytes // 4 // (LONG_ROW_BYTES * tables.most_granules), 1)
        out = room(1, n_row, n_row * tables.most_granules + 64 * tables.most_granules)
        before = [] if self.layout.encoding.trusted else self._before()
        counts = batch.counts.astype(np.int64)
        for first in range(0, len(counts), width):
            lanes = slice(first, min(first + width, len(counts)))
            merged = LongMerge(len(counts[lanes]), encoding.position_shift, self.reduced, tables)
            n_access = 0
            while (merged.taken < counts[lanes]).any():
                given, skip = np.zeros(len(counts), np.uint32), np.zeros(len(counts), np.int64)
                left = counts[lanes] - merged.taken
                given[lanes], skip[lanes] = shares(left, most), merged.taken
                self._paste(before)
                took = self._record(batch.groups, given, skip, encoding)
                if not np.array_equal(took, batch.counts):
                    raise KernelError(
                        f"launch {self.launch.index} ({self.launch.name}) took other paths when it was"
                        f" run again, and group {group} makes {counts.sum()} accesses, more than"
                        " are recorded at once"
                    )
                offset = offsets(given[lanes])
                with self._mapped("tokens", int(offset[-1]) + 1, encoding.dtype) as tokens:
                    last = given[lanes] == left
                    for n_new, n_granule in merged.rows(tokens, offset, last, out):
                        n_access += n_new
                        yield out, 0, n_new, n_granule
            out.subgroup_accesses[0] = n_access
            yield out, 1, 0, 0

    def _count(self, groups: snapshot.Groups) -> npt.NDArray[np.uint32]:
        self.changed = True
        self._run(groups, np.zeros(2, np.int64), None)
        n_item = len(groups) * self.launch.group_items
        with self._mapped("counts", n_item, np.uint32) as counts:
            copied: npt.NDArray[np.uint32] = counts.copy()
        if len(groups) == self.launch.n_groups:
            self.ran_all = True
        return copied

    def _record(
        self, groups: snapshot.Groups, room: Any, skip: Any, encoding: TokenEncoding
    ) -> npt.NDArray[np.uint32]:
        """Writes tokens from number `skip` on, `room` of each work-item; returns how many there are."""
        offset = offsets(room)
        self._reserve("tokens", (int(offset[-1]) + 1) * encoding.bytes)
        places = np.zeros((len(offset), 2), np.int64)
        places[:, 0], places[:-1, 1] = offset, skip
        self.changed = True
        self._run(groups, places, encoding)
        with self._mapped("counts", len(room), np.uint32) as counts:
            copied: npt.NDArray[np.uint32] = counts.copy()
        return copied

    def _reserve(self, name: str, size_bytes: int) -> None:
        """Makes room for the tokens of the next run."""
        raise NotImplementedError

    def _mapped(self, name: str, count: int, dtype: Any) -> AbstractContextManager[Any]:
        """What the latest run wrote, `tokens` or `counts`, as an array within the context."""
        raise NotImplementedError

    def _run(
        self, groups: snapshot.Groups, places: npt.NDArray[np.int64], encoding: TokenEncoding | None
    ) -> None:
        """Runs groups, which write tokens to `places` in an encoding; for None they are counted."""
        raise NotImplementedError

    def _from_start(self) -> None:
        """Gives the memory the content from before the launch.

        Runs leave what they changed, so whatever must not see it calls this first: the last run restores
        nothing, and the content is copied once.
        """
        if self.saved is None:
            self.saved = self._copies("saved")
        elif self.changed:
            self._paste(self.saved)
        self.changed = self.ran_all = False

    def _before(self) -> list[tuple[Any, Any]]:
        """Copies of the memory as the next run finds it."""
        if self.saved is None or self.changed:
            return self._copies("before")
        return self.saved

    def _copies(self, name: str) -> list[tuple[Any, Any]]:
        """Copies of the memory whose content the launch changes and reads."""
        raise NotImplementedError

    def _paste(self, copies: list[tuple[Any, Any]]) -> None:
        raise NotImplementedError


def shares(wanted: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """What each gets of `most` where nobody gets more than is wanted, or less than others for it."""
    given = np.zeros(len(wanted), np.int64)
    for k, lane in enumerate(np.argsort(wanted, kind="stable")):
        given[lane] = min(wanted[lane], most // (len(wanted) - k))
        most -= given[lane]
    return given
