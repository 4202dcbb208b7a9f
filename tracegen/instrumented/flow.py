"""Which loads feed which accesses: indices, conditions, loop bounds and stored values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Need:
    """The variables, and the loads by position, that a value depends on."""

    names: frozenset[str] = frozenset()
    positions: tuple[int, ...] = ()


class Flow:
    """Which loads feed which accesses, through scalars, private and local arrays and loop bounds.

    A variable depends on all of its assignments; the order of statements does not matter.
    """

    def __init__(self) -> None:
        self.needs: list[tuple[Need, Need]] = []
        self.made_of: dict[str, Need] = {}
        self.control: list[Need] = []

    @contextmanager
    def under(self, names: frozenset[str], positions: Sequence[int]) -> Iterator[None]:
        """Context in which everything depends on these names and positions."""
        self.control.append(Need(names, tuple(positions)))
        try:
            yield
        finally:
            self.control.pop()

    def assign(self, name: str, names: frozenset[str], positions: Sequence[int]) -> None:
        needs = [self.made_of.get(name, Need()), Need(names, tuple(positions)), *self.control]
        self.made_of[name] = union(needs)

    def use(self, index: Need, value: Need) -> None:
        """The next position depends on these for its address and for the value that it stores."""
        self.needs.append((index, union([value, *self.control])))

    def feeds(self) -> list[tuple[frozenset[int], frozenset[int]]]:
        """By position: the loads that feed its address, and all loads that it waits for."""
        resolved = []
        for index, rest in self.needs:
            address = self._loads(index)
            resolved.append((address, address | self._loads(rest)))
        return resolved

    def _loads(self, need: Need) -> frozenset[int]:
        positions, seen, names = set(need.positions), set(), set(need.names)
        while names:
            name = names.pop()
            seen.add(name)
            made_of = self.made_of.get(name, Need())
            positions.update(made_of.positions)
            names |= made_of.names - seen
        return frozenset(positions)


def union(needs: Iterable[Need]) -> Need:
    listed = list(needs)
    return Need(
        frozenset().union(*(need.names for need in listed)),
        tuple(sorted({position for need in listed for position in need.positions})),
    )
