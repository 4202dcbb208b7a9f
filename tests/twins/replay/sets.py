"""The readable twin of the replacement policies in memsim/hierarchy/replacement.py."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from memsim.hierarchy.rng import Stream
from memsim.machine.parts import Level


@dataclass(eq=False)
class Line:
    """A cached line.

    valid : granules whose sector can serve a load;  dirty : granules of sectors to be written back
    stored : granules of sectors that a store has written to
    partial : granule -> bytes written so far, in sectors that stores have written in part
        (lazy_fetch_on_read). Such a sector is present, but cannot serve a load
    partial_writer : sector -> the last core that wrote it in part
    requested_at : granule -> the turn of its request from below; absent if a store made it valid
    writer : the site of the last store;  goes_first : see tests.twins.replay.cache.Request, of that store
    """

    number: int
    valid: set[int] = field(default_factory=set)
    dirty: set[int] = field(default_factory=set)
    stored: set[int] = field(default_factory=set)
    partial: dict[int, int] = field(default_factory=dict)
    partial_writer: dict[int, int] = field(default_factory=dict)
    requested_at: dict[int, int] = field(default_factory=dict)
    writer: int = 0
    goes_first: bool = False

    def is_awaited(self, oldest: int) -> bool:
        """Whether data of it were requested after turn `oldest`, and so are on their way."""
        return any(self.requested_at.get(g, oldest) > oldest for g in self.valid)


class RecencySet:
    """LRU and FIFO: the lines in order of their eviction, the next victim first.

    unknown : ways that have not been filled yet: in the launch they may hold what earlier groups left
    empty : ways whose line was dropped; they are filled first
    """

    def __init__(self, ways: int, *, moves_on_use: bool) -> None:
        self.ways, self.moves_on_use = ways, moves_on_use
        self.lines: list[Line] = []
        self.unknown, self.empty = ways, 0

    def used(self, line: Line) -> None:
        if self.moves_on_use:
            self.lines.remove(line)
            self.lines.append(line)

    def stored(self, line: Line, goes_first: bool, *, is_new: bool) -> None:
        """A store has put data into a line. One that goes first is the next victim where no way is left."""
        if is_new and goes_first and len(self.lines) == self.ways:
            self.lines.remove(line)
            self.lines.insert(0, line)
        elif not is_new and not goes_first:
            self.used(line)

    def victim(self, oldest: int) -> Line:
        """The line that goes next; oldest : lines that were requested after this turn may have to stay"""
        return self.lines[0]

    def admit(self, line: Line, oldest: int) -> Line | None:
        """Insert a line; returns the line that it replaces; oldest : see `victim`"""
        victim = self.victim(oldest) if len(self.lines) == self.ways else None
        if victim is not None:
            self.lines.remove(victim)
        if self.empty:
            self.empty -= 1
        elif self.unknown:
            self.unknown -= 1
        self.lines.append(line)
        return victim

    def drop(self, line: Line) -> None:
        self.lines.remove(line)
        self.empty += 1

    def by_way(self) -> list[Line]:
        return list(self.lines)


class LoadsSet(RecencySet):
    """LRU of loads: lines under way stay, and what stores put there goes before all others."""

    def __init__(self, ways: int) -> None:
        super().__init__(ways, moves_on_use=True)

    def stored(self, line: Line, goes_first: bool, *, is_new: bool) -> None:
        if is_new:
            self.lines.remove(line)
            self.lines.insert(0, line)

    def victim(self, oldest: int) -> Line:
        return next((line for line in self.lines if not line.is_awaited(oldest)), self.lines[0])


class SlotSet:
    """Random replacement: an empty slot if there is one (the last dropped first), else a random one."""

    def __init__(self, ways: int, stream: Stream) -> None:
        self.ways, self.stream = ways, stream
        self.slot: dict[int, Line] = {}
        self.empty = list(reversed(range(ways)))
        self.unknown_ways = set(range(ways))

    @property
    def lines(self) -> Iterable[Line]:
        return self.slot.values()

    @property
    def unknown(self) -> int:
        """Ways that have not been filled yet."""
        return len(self.unknown_ways)

    def way_of(self, line: Line) -> int:
        return next(way for way, resident in self.slot.items() if resident is line)

    def victim(self) -> int:
        return self.stream.below(self.ways)

    def used(self, line: Line) -> None:
        """Random replacement does not depend on uses."""

    def stored(self, line: Line, goes_first: bool, *, is_new: bool) -> None:
        if not is_new and not goes_first:
            self.used(line)

    def admit(self, line: Line, oldest: int) -> Line | None:
        """Insert a line; returns the line that it replaces."""
        way = self.empty.pop() if self.empty else self.victim()
        self.unknown_ways.discard(way)
        victim = self.slot.pop(way, None)
        self.slot[way] = line
        self.used(line)
        return victim

    def drop(self, line: Line) -> None:
        way = self.way_of(line)
        del self.slot[way]
        self.empty.append(way)

    def by_way(self) -> list[Line]:
        return [self.slot[way] for way in sorted(self.slot)]


class TreeSet(SlotSet):
    """Tree-PLRU: each node remembers which half of its ways was used longer ago."""

    def __init__(self, ways: int, stream: Stream) -> None:
        super().__init__(ways, stream)
        self.older_is_right: dict[tuple[int, int], bool] = {}

    def victim(self) -> int:
        low, high = 0, self.ways
        while high - low > 1:
            middle = (low + high) // 2
            right = self.older_is_right.get((low, high), False)
            low, high = (middle, high) if right else (low, middle)
        return low

    def used(self, line: Line) -> None:
        way = self.way_of(line)
        low, high = 0, self.ways
        while high - low > 1:
            middle = (low + high) // 2
            self.older_is_right[low, high] = way < middle
            low, high = (low, middle) if way < middle else (middle, high)


def empty_set(level: Level, stream: Stream) -> RecencySet | SlotSet:
    """One set of a level."""
    if level.replacement == "random":
        return SlotSet(level.n_ways, stream)
    if level.replacement == "plru":
        return TreeSet(level.n_ways, stream)
    if level.replacement == "lru_loads":
        return LoadsSet(level.n_ways)
    return RecencySet(level.n_ways, moves_on_use=level.replacement == "lru")
