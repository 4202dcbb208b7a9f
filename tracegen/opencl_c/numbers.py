"""Value numbers: values with equal numbers are equal while nothing that they vary with has changed."""

from __future__ import annotations

from collections.abc import Iterable

LOAD = "load"
"""A value that was read from global memory varies with this."""

FENCED = "fence"
"""Every value varies with memory fences."""


class Numbers:
    """Numbers values, so that equal expressions of equal values have the same number.

    varies : by number, the names of the loops in which the value may change between iterations

    Integer constants in sums are stored separately: (i + 1) + 1 is i + 2, and p[i + 1] is the element
    after p[i].
    """

    def __init__(self) -> None:
        self.known: dict[tuple[object, ...], int] = {}
        self.varies: list[frozenset[str]] = []
        self.loops: list[str] = []
        self.whole: dict[int, int] = {}
        self.sums: dict[int, tuple[int, int]] = {}

    def of(self, operation: str, *made_of: int, varies: Iterable[str] = ()) -> int:
        """The number of an operation on numbered values."""
        key = (operation, made_of)
        if key not in self.known:
            parts = (self.varies[number] for number in made_of)
            self.known[key] = self._new(frozenset(varies).union(*parts))
        return self.known[key]

    def integer(self, value: int) -> int:
        """The number of an integer constant."""
        number = self.of(f"integer {value}")
        self.whole[number] = value
        return number

    def plus(self, number: int, by: int) -> int:
        """The number of a value, or of a pointer, plus an integer constant."""
        if number in self.whole:
            return self.integer(self.whole[number] + by)
        base, already = self.sums.get(number, (number, 0))
        if already + by == 0:
            return base
        result = self.of(f"plus {already + by}", base)
        self.sums[result] = (base, already + by)
        return result

    def added(self, one: int, other: int) -> int:
        """The number of a sum."""
        if other in self.whole:
            return self.plus(one, self.whole[other])
        if one in self.whole:
            return self.plus(other, self.whole[one])
        (a, more), (b, still_more) = (self.sums.get(n, (n, 0)) for n in (one, other))
        return self.plus(self.of("sum", *sorted((a, b))), more + still_more)

    def moved(self, pointer: int, by: int) -> int:
        """The number of a pointer plus a number of elements."""
        if by in self.whole:
            return self.plus(pointer, self.whole[by])
        (base, more), (step, still_more) = (self.sums.get(n, (n, 0)) for n in (pointer, by))
        return self.plus(self.of("moved", base, step), more + still_more)

    def minus(self, number: int) -> int:
        """The number of the negated value."""
        if number in self.whole:
            return self.integer(-self.whole[number])
        base, more = self.sums.get(number, (number, 0))
        return self.plus(self.of("minus", base), -more)

    def fresh(self) -> int:
        """The number of a value about which nothing is known."""
        return self._new(frozenset(self.loops))

    def text(self, number: int) -> str:
        """The number and what it varies with, as identifiers."""
        return " ".join([f"v{number}", FENCED, *sorted(self.varies[number] - {LOAD})])

    def is_loaded(self, number: int) -> bool:
        """Whether the value depends on a load from global memory."""
        return LOAD in self.varies[number]

    def _new(self, varies: frozenset[str]) -> int:
        self.varies.append(varies)
        return len(self.varies) - 1
