"""The readable twin of memsim/hierarchy/cache.py's replacement: the lines of a set, and which has to go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from memsim.hierarchy.rng import Stream
from memsim.machine.parts import Level


@dataclass(eq=False)
class Line:
    """A cached line.

    valid : granules whose sector can serve a load;  dirty : of sectors that memory must still get
    stored : of sectors that a store has written to
    partial : granule -> bytes written so far, of sectors that stores have written in part
        (lazy_fetch_on_read); present, but no load can be served from them
    part_of : sector -> the core that wrote it in part last
    asked_at : when each granule was asked for from below; absent where a store made it valid
    writer : the site that stored last
    """

    number: int
    valid: set[int] = field(default_factory=set)
    dirty: set[int] = field(default_factory=set)
    stored: set[int] = field(default_factory=set)
    partial: dict[int, int] = field(default_factory=dict)
    part_of: dict[int, int] = field(default_factory=dict)
    asked_at: dict[int, int] = field(default_factory=dict)
    writer: int = 0


class RecencySet:
    """LRU and FIFO: lines from the next victim to the last one to go."""

    def __init__(self, ways: int, *, moves_on_use: bool) -> None:
        self.ways, self.moves_on_use = ways, moves_on_use
        self.lines: list[Line] = []

    def used(self, line: Line) -> None:
        if self.moves_on_use:
            self.lines.remove(line)
            self.lines.append(line)

    def admit(self, line: Line) -> Line | None:
        """Takes a line in; returns the one that it displaces."""
        victim = self.lines.pop(0) if len(self.lines) == self.ways else None
        self.lines.append(line)
        return victim

    def drop(self, line: Line) -> None:
        self.lines.remove(line)

    def by_way(self) -> list[Line]:
        return list(self.lines)


class SlotSet:
    """Random replacement: an empty slot if there is one (the last dropped first), else any."""

    def __init__(self, ways: int, stream: Stream) -> None:
        self.ways, self.stream = ways, stream
        self.slot: dict[int, Line] = {}
        self.empty = list(reversed(range(ways)))

    @property
    def lines(self) -> Iterable[Line]:
        return self.slot.values()

    def way_of(self, line: Line) -> int:
        return next(way for way, there in self.slot.items() if there is line)

    def victim(self) -> int:
        return self.stream.below(self.ways)

    def used(self, line: Line) -> None:
        """A use does not matter to chance."""

    def admit(self, line: Line) -> Line | None:
        """Takes a line in; returns the one that it displaces."""
        way = self.empty.pop() if self.empty else self.victim()
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
    return RecencySet(level.n_ways, moves_on_use=level.replacement == "lru")
