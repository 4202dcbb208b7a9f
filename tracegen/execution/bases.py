"""Which array the address of each access derives from, where the code says so.

Data flow from pointers among the arguments, and addresses of variables, to accesses, over the low halves of addresses: a sum with
one pointer keeps it, a choice between two may be either. An access with one pointer must stay in its array. What a load brings is
an index where it is added to a pointer, and may be a pointer where it stands for one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tracegen.execution import operations as o
from tracegen.execution.code import ARGUMENTS, Code
from tracegen.execution.flow import follow
from tracegen.execution.operations import ACCESSES, ALWAYS, BY_NUMBER, MicroOperation, numbers
from tracegen.execution.slicing import PARTIAL, WHOLE, change, united, uses_of, widths

_LOADED, _MIXED, _FIRST = 1, 2, 4
"""Bits of a value: it may come from memory; something was done with a pointer that leaves none, or several were added. Each further
bit is a pointer into one array, or a place among AMD's arguments."""
_ADDING = frozenset(("ADD3", "ADD_CARRY", "ADD64", "LOGIC3", "BORROW"))
_MULTIPLYING = frozenset(("MULTIPLY_ADD", "MULTIPLY_WIDE_U", "MULTIPLY_WIDE_S", "MULTIPLY_24"))
_OF_OTHER_LANES = frozenset(
    ("SHUFFLE", "READ_LANE", "WRITE_LANE", "PERMUTE_LANES", "SCATTER_LANES")
)
_CHOOSING = _OF_OTHER_LANES | {
    "MOVE", "MOVE2", "SELECT", "READ_FIRST_LANE", "MINIMUM_S", "MINIMUM_U", "MAXIMUM_S", "MAXIMUM_U",
    "MINIMUM64_S", "MINIMUM64_U", "MAXIMUM64_S", "MAXIMUM64_U",
}  # fmt: skip


class _Value(NamedTuple):
    """What a row may hold: bits in lanes whose guard is set, and in others."""

    guard: int = ALWAYS
    working: int = 0
    others: int = 0

    @property
    def anywhere(self) -> int:
        return self.working | self.others

    def under(self, guard: int) -> int:
        if self.guard == ALWAYS or self.guard >> 1 != guard >> 1:
            return self.working | self.others
        return self.working if self.guard == guard else self.others

    def written(self, guard: int, bits: int, keeps: bool) -> _Value:
        if guard == ALWAYS:
            return _plain(bits | self.anywhere * keeps)
        if self.guard == guard:
            return _Value(guard, bits | self.working * keeps, self.others)
        if self.guard == guard ^ 1:
            return _Value(self.guard, self.working, bits | self.others * keeps)
        return _Value(guard, bits | self.anywhere * keeps, self.anywhere)

    def joined(self, other: _Value) -> _Value:
        if self.guard != other.guard:
            return _plain(self.anywhere | other.anywhere)
        return _Value(self.guard, self.working | other.working, self.others | other.others)


def _plain(bits: int) -> _Value:
    return _Value(ALWAYS, bits, bits)


_NOTHING = _Value()
_Values = dict[int, _Value]


def bases(
    code: Code,
    arrays: Sequence[int],
    pointers: Mapping[tuple[int, int], int],
    specials: Mapping[str, int],
) -> list[int]:
    """Of each access of the code the array that it must stay in, by its number; -1 if that is not known.

    arrays : their addresses;  pointers, specials : see tracegen.execution.run.Launch
    """
    flow = _Flow(code, arrays, pointers, specials)
    if not flow.first:
        return [-1] * int(np.isin(code.table[:, 0], numbers(*ACCESSES)).sum())
    rows = [MicroOperation(*fields) for fields in code.table.tolist()]
    found: dict[int, int] = {
        k: 0 for k, row in enumerate(rows) if BY_NUMBER[row.op].name in ACCESSES
    }

    def step(k: int, here: _Values) -> _Values:
        if k in found:
            found[k] |= flow.address(rows[k], here)
        flow.step(rows[k], here)
        return here

    follow([use.successors for use in uses_of(code)], flow.first, step, _joined)
    regions = [flow.region(bits) for bits in found.values()]
    return [region if region < flow.n_region else -1 for region in regions]


def _joined(one: _Values, other: _Values, _: int) -> _Values:
    rows = one.keys() | other.keys()
    return {row: one.get(row, _NOTHING).joined(other.get(row, _NOTHING)) for row in rows}


class _Flow:
    """The transfer of values by micro-operations. first : what rows hold before the first one"""

    def __init__(
        self,
        code: Code,
        arrays: Sequence[int],
        pointers: Mapping[tuple[int, int], int],
        specials: Mapping[str, int],
    ) -> None:
        self.code, self.n_region = code, len(arrays)
        self.executing = 2 * next(iter(code.masks), -1)
        at = {address: k for k, address in enumerate(arrays)}
        self.places = {place: _FIRST << at[one] for place, one in pointers.items() if one in at}
        bits = {
            row: self.places.get((bank, offset), 0) for row, (bank, offset) in code.banks.items()
        }
        for row, name in code.specials.items():
            low, high = (specials.get(name.partition("@")[0] + half, 0) for half in ("@lo", "@hi"))
            if name.endswith("@lo") and low | high << 32 in at:
                bits[row] = _FIRST << at[low | high << 32]
            elif name == "arguments_low":
                bits[row] = _FIRST << self.n_region
        self.first = {row: _plain(one) for row, one in bits.items() if one}

    def region(self, bits: int) -> int:
        """The array that a value points into, if it is one; that behind the last for AMD's arguments."""
        return (
            bits.bit_length() - _FIRST.bit_length()
            if bits >= _FIRST and bits & bits - 1 == 0
            else -1
        )

    def address(self, row: MicroOperation, here: _Values) -> int:
        if row.x & 7 not in (o.GLOBAL, o.GENERIC):
            return 0
        low, base = (here.get(one, _NOTHING).under(row.guard) for one in (row.a, row.b))
        return _added(base, _MIXED if row.x & o.ADDRESS_32 and low >= _FIRST else low)

    def step(self, row: MicroOperation, here: _Values) -> None:
        """Changes the values of all rows as one operation does."""
        operation = BY_NUMBER[row.op]
        name = operation.name
        for field in operation.masks_written:
            if getattr(row, field) > o.TRASH_MASK:
                self._forget(row, name, getattr(row, field), here)
        n = widths(name, row)[0].get("d", 0)
        if n == 0 or row.d < o.FIRST_ROW:
            return
        guard = ALWAYS if name in WHOLE or (name == "LOAD" and row.x & o.ONE_LANE) else row.guard
        keeps = name in PARTIAL or (name == "LOAD" and row.x & (o.HIGH_HALF | o.KEEP_HALF) != 0)
        made = [self._word(row, name, here, word) for word in range(n)]
        for word, bits in enumerate(made):
            here[row.d + word] = here.get(row.d + word, _NOTHING).written(guard, bits, keeps)

    def _word(self, row: MicroOperation, name: str, here: _Values, word: int) -> int:
        """The bits of a word of a result; those of a sum of 64 bits are of its low half."""
        if name == "ATOMIC":
            return _LOADED
        if name == "LOAD":
            is_argument = (
                row.b == o.ZERO_ROW and self.region(self.address(row, here)) == self.n_region
            )
            return self.places.get((ARGUMENTS, row.y + 4 * word), 0) if is_argument else _LOADED
        if name == "LOAD_CONSTANT":
            offset = self.code.constants.get(row.a, None if row.a else 0)
            return (
                _LOADED
                if offset is None
                else self.places.get((row.n >> 1, offset + row.y + 4 * word), 0)
            )
        if name == "MOVE2":
            return here.get(row.a + word, _NOTHING).under(row.guard)
        if word:
            return 0
        fields = widths(name, row)[1]
        read = {field: here.get(getattr(row, field), _NOTHING) for field in fields}
        if name in _OF_OTHER_LANES:
            return read["a"].anywhere
        bits = {field: value.under(row.guard) for field, value in read.items()}
        if name in _CHOOSING:
            return united(bits.values())
        if name in _ADDING:
            signs = 0 if name == "LOGIC3" else 2 if name == "BORROW" else row.x
            for k, field in enumerate(bits):
                bits[field] = _negated(bits[field], signs >> k & 1)
            return self._sum(row, bits)
        if name in _MULTIPLYING:
            ones = [self.code.constants.get(one) == 1 for one in (row.a, row.b)]
            factors = bits["a"] | bits["b"]
            product = factors if any(ones) or factors < _FIRST else _MIXED
            return self._sum(row, {"a": _negated(product, row.x & o.NEGATE_A), "c": bits["c"]})
        either = united(bits.values())
        return _MIXED if either >= _FIRST else either

    def _sum(self, row: MicroOperation, bits: Mapping[str, int]) -> int:
        total = 0
        for one in bits.values():
            total = _added(total, one)
        if (
            total >= _FIRST << self.n_region
            and sum(getattr(row, field) != o.ZERO_ROW for field in bits) > 1
        ):
            return _MIXED  # a place among AMD's arguments that the instruction does not name
        return total

    def _forget(self, row: MicroOperation, name: str, mask: int, here: _Values) -> None:
        """The mask that an operation writes no longer says which lanes have which value."""
        narrows, widens = change(name, row, self.executing)
        for one, value in here.items():
            if value.guard != ALWAYS and value.guard >> 1 == mask:
                if value.guard == self.executing and narrows:
                    here[one] = value._replace(others=value.anywhere)
                elif value.guard == self.executing and widens:
                    here[one] = value._replace(working=value.anywhere)
                else:
                    here[one] = _plain(value.anywhere)


def _added(bits: int, more: int) -> int:
    """A sum: what is loaded is an index where the other is a pointer."""
    if bits < _FIRST <= more:
        bits, more = more, bits
    if bits < _FIRST:
        return bits | more
    return bits | (more & _MIXED if more < _FIRST else more | _MIXED)


def _negated(bits: int, negative: int) -> int:
    return _MIXED if negative and bits >= _FIRST else bits
