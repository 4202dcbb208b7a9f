"""The readable twin of cache.py, loads.py and stores.py in memsim/hierarchy: one level of cache, in sets and dicts.

Granules are true addresses // 32. Sectors, fills and lines are aligned runs of granules;
`widened(granules, n)` is every granule of each run of n that contains one of them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from memsim.hierarchy.cache import (
    ACCESSES,
    DIRTIED,
    DOUBTFUL,
    FAR,
    HITS,
    LIKELY,
    LIKELY_DIRTIED,
    OPEN,
    OPEN_DIRTIED,
    PENDING,
    READ_GRANULES,
    WRITE_GRANULES,
)
from memsim.hierarchy.replacement import FREED_SETS
from memsim.hierarchy.rng import Stream
from memsim.hierarchy.set_index import set_and_slice
from memsim.machine.parts import Level
from memsim.trace.model import GRANULE_BYTES, Direction
from tests.twins.replay.sets import Line, RecencySet, SlotSet, empty_set

ALL_BYTES = 0xFFFFFFFF
LONG_AGO = -(2**62)
NO_CORE = -1


@dataclass(frozen=True)
class Request:
    """A request from one level to the next: granules of one of its lines, ascending.

    written : the bytes of each granule that a store writes (bit b: byte b)
    counted : False in the warm-up
    bypasses : a load that the first level neither serves nor keeps
    goes_first : a store whose lines are replaced first
    unsure : granules that would not be asked for if open misses of the level above were hits
    """

    granules: tuple[int, ...]
    kind: Direction
    site: int
    counted: bool
    written: Mapping[int, int] = field(default_factory=dict)
    bypasses: bool = False
    goes_first: bool = False
    unsure: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Past:
    """Granules that groups before a snapshot are known to have touched; `known`: they touched no others."""

    touched: set[int]
    known: bool

    def may_have(self, granule: int) -> bool:
        return not self.known or granule in self.touched


def widened(granules: Iterable[int], n: int) -> set[int]:
    """Every granule of each aligned run of n that contains one of them."""
    return {run * n + i for run in {g // n for g in granules} for i in range(n)}


@dataclass(frozen=True)
class Fill:
    """Granules of a line that are requested and arrive at turn `arrival` (on_fill)."""

    number: int
    instance: int
    granules: frozenset[int]
    arrival: int


class PassingBy:
    """Replaces the first level of a machine without caches: it passes every request on."""

    def complete_fills(self, now: int) -> None:
        """There are no fills."""

    def serve(self, request: Request, instance: int, now: int, window: int) -> list[Request]:
        return [dataclasses.replace(request, bypasses=False)]

    def data_at(self, request: Request, now: int, hit_cycles: int, miss_cycles: int) -> int:
        return now + miss_cycles


class ReferenceCache:
    """All instances of one level.

    counts : (n_site, N_COUNTS), added to
    address : the address in this trial of a granule of the trace; it determines sets and nothing else
    past : what groups before the snapshot have touched; None if there are no such groups
    """

    def __init__(
        self,
        level: Level,
        counts: npt.NDArray[np.int64],
        stream: Stream,
        address: Callable[[int], int],
        n_instances: int = 1,
        past: Past | None = None,
    ) -> None:
        self.level, self.counts, self.stream, self.address = level, counts, stream, address
        self.line = level.line_bytes // GRANULE_BYTES
        self.sector = level.sector_bytes // GRANULE_BYTES
        self.fill = level.fill_bytes // GRANULE_BYTES
        self.sets: dict[tuple[int, int], RecencySet | SlotSet] = {}
        self.index: dict[int, int] = {}
        self.past = past
        self.open: dict[tuple[int, int], set[int]] = {}
        self.unclean: dict[tuple[int, int], set[int]] = {}
        self.doubtful: dict[tuple[int, int], set[int]] = {}
        self.below: list[Request] = []
        self.core = 0
        self.fills: list[Fill] = []
        self.in_flight: dict[tuple[int, int], set[int]] = {}
        self.next_freed: dict[int, int] = {}
        self.max_in_flight = n_instances * level.pending_requests

    def serve(
        self, request: Request, instance: int, now: int, window: int, core: int = 0
    ) -> list[Request]:
        """Serve a core's request, line by line; returns the requests to the next level, in order.

        A sector that was requested less than `window` turns ago is pending.
        """
        self.below = []
        self.core = core
        for number, granules in itertools.groupby(request.granules, lambda g: g // self.line):
            of_line = tuple(granules)
            part = dataclasses.replace(
                request,
                granules=of_line,
                written={g: request.written[g] for g in of_line} if request.written else {},
                unsure=request.unsure & frozenset(of_line),
            )
            if self.level.n_partitions > 1:
                self._in_partitions(part, number, instance, now, window)
            else:
                self._performed(part, number, instance, now, window)
        return self.below

    def data_at(self, request: Request, now: int, hit_cycles: int, miss_cycles: int) -> int:
        """When the data of a load or an atomic arrive that was served at `now` and lies in one line.

        Sectors that were already on their way arrive when those did that asked for them first.
        """
        atomic = request.kind == "atomic"
        kept = self.level.write_policy == "write_back" if atomic else self.level.caches_loads
        if request.bypasses or not kept:
            return now + miss_cycles
        line = self._find(request.granules[0] // self.line, 0)
        need = widened(request.granules, self.sector)
        asked = now
        if line is not None and need <= line.valid:
            asked = max(line.requested_at.get(g, LONG_AGO) for g in need)
        return max(now + hit_cycles, asked + miss_cycles)

    def _performed(self, part: Request, number: int, instance: int, now: int, window: int) -> None:
        what = {"load": self._load, "store": self._store, "atomic": self._atomic}[part.kind]
        what(part, number, instance, now, window)

    def _in_partitions(self, part: Request, number: int, near: int, now: int, window: int) -> None:
        """Serve a line in its home partition. For a load, the copy near the core serves the sectors that
        it has, and a copy of the others is kept there. Stores and atomics drop all copies."""
        home = self._home_of(number, near)
        if part.kind != "load":
            first = near // self.level.n_partitions * self.level.n_partitions
            for other in range(first, first + self.level.n_partitions):
                copy = self._find(number, other) if other != home else None
                if copy is not None:
                    self._set_of(number, other).drop(copy)
            self._performed(part, number, home, now, window)
            return
        if home == near:
            self._load(part, number, home, now, window)
            return
        need = widened(part.granules, self.sector)
        copy = self._find(number, near)
        hit: set[int] = set()
        sure = self._surely_asked(part)
        if copy is not None:
            self._set_of(number, near).used(copy)
            hit = need & copy.valid
            self._count_doubtful(part, number, near, hit, copy)
            self._count(part, ACCESSES, self._n_sectors(hit))
            self._count_hits(part, copy, hit, now, window)
        if need == hit:
            return
        rest = dataclasses.replace(
            part, granules=tuple(sorted(need - hit)), unsure=frozenset(need - hit - sure)
        )
        before = self._served(part)
        self._load(rest, number, home, now, window)
        self._count(part, FAR, self._served(part) - before)
        copy = self._find(number, near)
        if copy is None:
            copy = self._allocate(part, number, near, now - window)
            self.doubtful.pop((number, near), None)
        doubtful = self.doubtful.setdefault((number, near), set())
        doubtful |= need - hit - sure - copy.valid
        for g in need - hit - copy.valid:
            copy.requested_at[g] = now
        copy.valid |= need - hit

    def _home_of(self, number: int, near: int) -> int:
        """The instance, among the partitions of one cache, that contains the line's slice."""
        n = self.level.n_partitions
        sets = self.level.n_sets * self.level.n_slices // n
        return near // n * n + self._index(number) // sets

    def _served(self, part: Request) -> int:
        return int(self.counts[part.site, HITS] + self.counts[part.site, PENDING])

    def complete_fills(self, now: int) -> None:
        """Complete the fills that have arrived by turn `now`, in the order of their requests."""
        while self.fills and self.fills[0].arrival <= now:
            self._complete_oldest_fill()

    def _complete_oldest_fill(self) -> None:
        fill = self.fills.pop(0)
        self.in_flight[fill.number, fill.instance] -= fill.granules
        line = self._find(fill.number, fill.instance)
        if line is None:
            nobody = Request((), "load", 0, False)
            line = self._allocate(nobody, fill.number, fill.instance, 0)
        line.valid |= fill.granules

    def _complete_all_fills(self) -> None:
        while self.fills:
            self._complete_oldest_fill()

    def _request_fill(
        self, part: Request, number: int, instance: int, missing: set[int], now: int, window: int
    ) -> None:
        """On fill: granules already in flight are pending, the others are requested; no slot is taken."""
        in_flight = self.in_flight.setdefault((number, instance), set())
        self._count(part, PENDING, self._n_sectors(missing & in_flight))
        self._count_doubtful(part, number, instance, missing & in_flight, None)
        if not missing - in_flight:
            return
        fetched = widened(missing - in_flight, self.fill)
        unsure = self._count_open(part, number, instance, missing - in_flight, fetched, set())
        self._count(part, READ_GRANULES, len(fetched))
        self.below.append(self._read_of(part, fetched, unsure))
        if len(self.fills) == self.max_in_flight:  # wait for the oldest
            self._complete_oldest_fill()
        self.fills.append(Fill(number, instance, frozenset(fetched), now + window))
        self.in_flight[number, instance] |= fetched

    def take_over(self, stream: Stream, address: Callable[[int], int]) -> None:
        """Another launch begins, with its own random numbers and addresses."""
        self._complete_all_fills()
        self.stream, self.address = stream, address
        for set_ in self.sets.values():
            for line in set_.lines:
                line.goes_first = False
            if isinstance(set_, SlotSet):
                set_.stream = stream

    def discard(self, first: int, last: int) -> None:
        """Drop the lines that lie within granules [first, last), dirty or not."""
        self._complete_all_fills()
        for set_ in self.sets.values():
            for line in set_.by_way():
                begin = line.number * self.line
                if first <= begin and begin + self.line <= last:
                    set_.drop(line)

    def forget_pending(self) -> None:
        """All requested data have arrived, and no core is still writing a sector."""
        self._complete_all_fills()
        for set_ in self.sets.values():
            for line in set_.lines:
                line.requested_at.clear()
                line.partial_writer = dict.fromkeys(line.partial_writer, NO_CORE)

    def _index(self, number: int) -> int:
        """The set of a line, numbered over all slices."""
        if number not in self.index:
            address = self.address(number * self.line) // self.line
            at = set_and_slice(
                np.array([address], np.int64),
                n_sets=self.level.n_sets,
                n_slices=self.level.n_slices,
                set_index=self.level.set_index,
                slice_index=self.level.slice_index,
            )
            self.index[number] = int(at[0])
        return self.index[number]

    def _set_of(self, number: int, instance: int) -> RecencySet | SlotSet:
        per_partition = self.level.n_sets * self.level.n_slices // self.level.n_partitions
        key = instance, self._index(number) % per_partition
        if key not in self.sets:
            self.sets[key] = empty_set(self.level, self.stream)
        return self.sets[key]

    def _find(self, number: int, instance: int) -> Line | None:
        lines = self._set_of(number, instance).lines
        return next((line for line in lines if line.number == number), None)

    def _count(self, part: Request, column: int, n: int) -> None:
        if part.counted:
            self.counts[part.site, column] += n

    def _n_sectors(self, granules: Iterable[int]) -> int:
        return len({g // self.sector for g in granules})

    def _load(
        self, part: Request, number: int, instance: int, now: int, window: int
    ) -> Line | None:
        """A load, or the read half of an atomic; returns None if the level is bypassed."""
        need = widened(part.granules, self.sector)
        self._count(part, ACCESSES, self._n_sectors(need))
        if part.bypasses or (part.kind == "load" and not self.level.caches_loads):
            self._count(part, READ_GRANULES, len(part.granules))
            self.below.append(dataclasses.replace(part, bypasses=False))
            return None
        line = self._find(number, instance)
        on_fill = self.level.allocate == "on_fill"
        if line is not None:
            self._set_of(number, instance).used(line)
        else:
            self._forget_past(number, instance)
            if not on_fill:
                line = self._allocate(part, number, instance, now - window)
        hit = need & line.valid if line is not None else set()
        if line is not None:
            self._count_hits(part, line, hit, now, window)
            self._count_doubtful(part, number, instance, hit, line)
        if need - hit and on_fill:
            self._request_fill(part, number, instance, need - hit, now, window)
        elif need - hit:
            fetched = widened(need - hit, self.fill)
            unsure = self._count_open(part, number, instance, need - hit, fetched, line.valid)
            self._fetch(part, line, need - hit, now, unsure)
        return line

    def _open_granules(self, number: int, instance: int) -> set[int]:
        """Granules of a line of which it is not known whether earlier groups left them in the cache."""
        key = number, instance
        if key not in self.open:
            line = range(number * self.line, (number + 1) * self.line)
            touched = [g for g in line if self.past is not None and self.past.may_have(g)]
            self.open[key] = widened(touched, self.fill)
            self.unclean[key] = set(self.open[key])
        return self.open[key]

    def _likely_granules(self, number: int) -> set[int]:
        """Granules of a line that a group before the snapshot is known to have touched, in whole fills."""
        line = range(number * self.line, (number + 1) * self.line)
        touched = set() if self.past is None else self.past.touched
        return widened(touched & {*line}, self.fill)

    def _forget_past(self, number: int, instance: int) -> None:
        """A line is absent: no granule is doubtful, and if its set holds nothing from before the snapshot, none
        is open."""
        self.doubtful.pop((number, instance), None)
        if not self._set_of(number, instance).unknown:
            self.open[number, instance] = self.unclean[number, instance] = set()

    def _count_open(
        self,
        part: Request,
        number: int,
        instance: int,
        missing: set[int],
        fetched: set[int],
        valid: set[int],
    ) -> frozenset[int]:
        """Count the sectors of a miss that may be a hit; what is fetched is known from now on, but doubtful if
        it is not surely asked for. Returns what the next level would not be asked for if all that may hit does.

        valid : granules of the line that were there before
        """
        unsure, likely = self._open_granules(number, instance), self._likely_granules(number)
        self._count(part, OPEN, self._n_sectors(unsure & missing))
        self._count(part, LIKELY, self._n_sectors(unsure & missing & likely))
        self.open[number, instance] = unsure - fetched
        sure = missing & self._surely_asked(part)
        doubtful = self.doubtful.setdefault((number, instance), set())
        doubtful |= fetched - widened(sure, self.fill) - valid
        return frozenset(fetched - widened(sure - unsure, self.fill))

    def _surely_asked(self, part: Request) -> set[int]:
        return widened(set(part.granules) - part.unsure, self.sector)

    def _count_doubtful(
        self, part: Request, number: int, instance: int, hit: set[int], line: Line | None
    ) -> None:
        """Count the hits on sectors that nothing has surely asked for before: in the launch they may miss. If
        nothing of the line is surely asked for now either, all of it may be replaced earlier in the launch."""
        sure = self._surely_asked(part)
        known = self.doubtful.setdefault((number, instance), set())
        if line is not None and not sure:
            known |= line.valid
        doubtful = known & hit & sure
        self._count(part, DOUBTFUL, self._n_sectors(doubtful))
        self.doubtful[number, instance] -= widened(doubtful, self.fill)

    def _read_of(self, part: Request, fetched: set[int], unsure: frozenset[int]) -> Request:
        """The load that a miss sends to the next level."""
        return Request(tuple(sorted(fetched)), "load", part.site, part.counted, unsure=unsure)

    def _make_dirty(
        self, part: Request, number: int, instance: int, line: Line, granules: set[int]
    ) -> None:
        """Mark granules dirty, and count those that were not; some may be dirty from before the snapshot."""
        fresh = granules - line.dirty
        self._open_granules(number, instance)
        unsure = self.unclean[number, instance] & fresh
        self._count(part, DIRTIED, len(fresh))
        self._count(part, OPEN_DIRTIED, len(unsure))
        self._count(part, LIKELY_DIRTIED, len(unsure & self._likely_granules(number)))
        self.unclean[number, instance] = self.unclean[number, instance] - granules
        line.dirty |= granules

    def _count_hits(self, part: Request, line: Line, hit: set[int], now: int, window: int) -> None:
        young = {g for g in hit if now - line.requested_at.get(g, LONG_AGO) < window}
        self._count(part, HITS, self._n_sectors(hit - young))
        self._count(part, PENDING, self._n_sectors(young))

    def _store(self, part: Request, number: int, instance: int, now: int, window: int) -> None:
        level = self.level
        keeps = level.write_policy == "write_back"
        need = widened(part.granules, self.sector)
        self._count(part, ACCESSES, self._n_sectors(need))
        line = self._find(number, instance)
        present: set[int] = set()
        if line is not None:
            if level.completes_sectors:
                self._complete_early(part, line, need)
            present = need & (line.valid | line.partial.keys())
            hit = present & line.stored if level.store_hits_only_written else present
            self._count(part, HITS, self._n_sectors(hit))
        if line is not None and present:
            if level.write_hit == "evict":
                self._write_back(part, line)
                self._set_of(number, instance).drop(line)
                line, present = None, set()
            else:
                self._set_of(number, instance).stored(line, part.goes_first, is_new=False)
        missing = need - present
        # Without allocation, a store with any absent sector is sent down whole.
        if not keeps or (missing and level.write_allocate == "none"):
            self._pass_on(part)
        if level.write_allocate == "none" and (missing or not keeps):
            return
        if line is None:
            self._forget_past(number, instance)
            line = self._allocate(part, number, instance, now - window)
            self._set_of(number, instance).stored(line, part.goes_first, is_new=True)
        elif not present:
            self._set_of(number, instance).stored(line, part.goes_first, is_new=False)
        covered = {g for g in part.granules if part.written[g] == ALL_BYTES}
        doubtful = self.doubtful.setdefault((number, instance), set())
        doubtful -= need - widened(need - covered, self.sector)
        line.writer, line.goes_first = part.site, part.goes_first
        line.stored |= need
        if missing:
            self._count_open(part, number, instance, missing, set(), line.valid)
        if missing and level.write_allocate == "update_memory_and_fetch":
            if keeps:
                self._pass_on(part)
                self._make_dirty(part, number, instance, line, present)
            self._fetch(part, line, missing, now)
            return
        if level.write_allocate == "lazy_fetch_on_read":
            self._keep_bytes(part, line, need)
        elif level.write_allocate == "fetch_on_write":
            uncovered = widened(missing - covered, self.sector)
            if uncovered:
                self._fetch(part, line, uncovered, now)
        line.valid |= need - line.partial.keys()
        if keeps:
            self._make_dirty(part, number, instance, line, need)

    def _atomic(self, part: Request, number: int, instance: int, now: int, window: int) -> None:
        """Performed in a write-back level; a write-through level drops the line and passes it on."""
        need = widened(part.granules, self.sector)
        if self.level.write_policy == "write_back":
            line = self._load(part, number, instance, now, window)
            line.writer, line.goes_first = part.site, False
            self._make_dirty(part, number, instance, line, need)
            line.stored |= need
            return
        self._count(part, ACCESSES, self._n_sectors(need))
        line = self._find(number, instance)
        if line is not None:
            self._set_of(number, instance).drop(line)
        self._pass_on(part)

    def _allocate(self, part: Request, number: int, instance: int, oldest: int) -> Line:
        """Give an absent line a place; oldest : lines that were requested after this turn may have to stay"""
        line = Line(number)
        set_ = self._set_of(number, instance)
        victim = set_.admit(line, oldest)
        if victim is not None:
            self._write_back(part, victim)
        elif self.level.tagged_bytes > self.level.size_bytes:
            lines = sum(len(list(s.lines)) for (i, _), s in self.sets.items() if i == instance)
            if lines > self.level.capacity_lines:
                self._free_data(part, instance, line, oldest)
        return line

    def _free_data(self, part: Request, instance: int, new: Line, oldest: int) -> None:
        """There is no room for another line: each of the next sets gives up its oldest one that is not awaited."""
        for _ in range(FREED_SETS):
            at = self.next_freed.get(instance, 0)
            self.next_freed[instance] = (at + 1) % self.level.n_sets
            set_ = self.sets.get((instance, at))
            lines = [] if set_ is None else set_.by_way()
            there = [one for one in lines if one is not new and not one.is_awaited(oldest)]
            if set_ is not None and there:
                self._write_back(part, there[0])
                set_.drop(there[0])

    def _fetch(
        self,
        part: Request,
        line: Line,
        missing: set[int],
        now: int,
        unsure: frozenset[int] = frozenset(),
    ) -> None:
        """Request missing sectors in whole fills; valid sectors keep their state."""
        fetched = widened(missing, self.fill)
        self._count(part, READ_GRANULES, len(fetched))
        self.below.append(self._read_of(part, fetched, unsure))
        for g in fetched - line.valid:
            line.requested_at[g] = now
            self._make_whole(line, g // self.sector)
        line.valid |= fetched

    def _keep_bytes(self, part: Request, line: Line, need: set[int]) -> None:
        """Add a store's bytes to the byte masks; a sector whose bytes are all written becomes valid."""
        for g in need - line.valid:
            line.partial[g] = line.partial.get(g, 0) | part.written.get(g, 0)
        for sector in {g // self.sector for g in need - line.valid}:
            granules = widened([sector * self.sector], self.sector)
            line.partial_writer.setdefault(sector, self.core)
            if all(line.partial[g] == ALL_BYTES for g in granules):
                self._make_whole(line, sector)

    def _make_whole(self, line: Line, sector: int) -> None:
        for g in widened([sector * self.sector], self.sector):
            line.partial.pop(g, None)
        line.partial_writer.pop(sector, None)

    def _complete_early(self, part: Request, line: Line, need: set[int]) -> None:
        """Sectors that another core wrote in part may have been completed in the meantime: a random
        draw decides. The others belong to this core from now on."""
        completed = round(self.level.partial_write_back_percent / 100 * (1 << 16))
        for sector in sorted({g // self.sector for g in need & line.partial.keys()}):
            if line.partial_writer[sector] != self.core:
                line.partial_writer[sector] = self.core
                if self.stream.below(1 << 16) < completed:
                    self._complete(part, line, [sector])

    def _complete(self, part: Request, line: Line, sectors: list[int]) -> None:
        """Read the rest of partly written sectors, and write the sectors back."""
        granules = widened([sector * self.sector for sector in sectors], self.sector)
        whole = tuple(sorted(granules))
        read = Request(whole, "load", line.writer, part.counted)
        written = dataclasses.replace(
            read, kind="store", written=dict.fromkeys(whole, ALL_BYTES), goes_first=line.goes_first
        )
        self._count(read, READ_GRANULES, len(whole))
        self._count(written, WRITE_GRANULES, len(whole))
        self.below += [read, written]
        for sector in sectors:
            self._make_whole(line, sector)
        line.valid |= granules
        line.dirty -= granules

    def _pass_on(self, part: Request) -> None:
        """Send a store or an atomic to the next level unchanged."""
        self._count(part, WRITE_GRANULES, len(part.granules))
        self._count(part, DIRTIED, len(part.granules))
        self.below.append(part)

    def _write_back(self, part: Request, line: Line) -> None:
        """Write dirty sectors back on behalf of the site that wrote last; whole sectors are counted."""
        if self.level.completes_sectors and line.partial:
            self._complete(part, line, sorted({g // self.sector for g in line.partial}))
        written = {g: line.partial.get(g, ALL_BYTES) for g in sorted(line.dirty)}
        written = {g: bytes_ for g, bytes_ in written.items() if bytes_}
        if written:
            evicted = Request(
                tuple(written), "store", line.writer, part.counted, written, False, line.goes_first
            )
            self._count(evicted, WRITE_GRANULES, len(widened(written, self.sector)))
            self.below.append(evicted)
