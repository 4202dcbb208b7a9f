"""What a group does as a function of its place in the grid.

Most kernels compute their addresses as a number that is the same in every group plus multiples of the group's place along the
axes of the grid. Where that holds of all addresses, and each branch goes the same way, the accesses of one group are those of
another, moved. This module finds in the code by how much, and what has to be checked while a group runs so that it is true of
others: integers that are extended or compared must not wrap around, and the outcomes of comparisons must stay.

A row of registers is described, where lanes are that are at the same place of the code, by its *step* along each axis: what it
gains, modulo 2^32, from one group to the next. The high half of a number of 64 bits has that number's step, and the name of its low
half: only both together tell an address.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tracegen.execution import operations as o
from tracegen.execution.code import Code
from tracegen.execution.flow import TooOften, follow
from tracegen.execution.moved import (
    A_SIGNED,
    A_UNSIGNED,
    B_SIGNED,
    B_UNSIGNED,
    SIGNED,
    SPLITS_ABOVE,
    SPLITS_BELOW,
    SPLITS_BOTH,
    UNSIGNED,
)
from tracegen.execution.operations import ALWAYS, NEVER, OPERATIONS, MicroOperation
from tracegen.execution.slicing import uses_of, widths

Step = tuple[int, int, int]
_STILL: Step = (0, 0, 0)
_MOST_ROUNDS = 64
"""Visits of a place of the code, after which nothing is claimed."""


class Movement(NamedTuple):
    """How accesses move, and under which conditions.

    steps : (n_place, 3) bytes by which an access moves from a group to the next along each axis
    check_steps : (n_check, 3) what a checked number gains;  check_kinds : (n_check,) int32
    first_check : (n_operation + 1,) int32, for each micro-operation
    """

    steps: npt.NDArray[np.int64]
    check_steps: npt.NDArray[np.int64]
    check_kinds: npt.NDArray[np.int32]
    first_check: npt.NDArray[np.int32]


class _Name(NamedTuple):
    """Which number a row is half of: the one that an operation wrote last, shifted left."""

    origin: Any
    shift: int = 0


class _Value(NamedTuple):
    """A row. step : None where nothing is known;  number : if it is a constant of the launch, without a step
    name : of a low half with a step; of a high half that of its low half
    guard : of the lanes for which this is known, as long as their mask stays"""

    step: Step | None
    number: int | None = None
    name: _Name | None = None
    is_high: bool = False
    guard: int = ALWAYS


class _Carry(NamedTuple):
    """A mask: the carry of a sum. terms : (field, row) of what has a step;  low : name of the sum, and where it was computed"""

    terms: tuple[tuple[str, _Value], ...]
    low: _Name
    name: None = None


_SAME, _ANY = _Value(_STILL), _Value(None)
_State = dict[int, Any]
"""Rows, and masks as ~mask, that are not the same in all groups, and rows that are constant. A mask of which nothing is known: _ANY."""


class _Unmoved(Exception):
    """Groups are not told to be alike."""


def _folded(step: tuple[int, ...], bits: int) -> Step:
    half = 1 << bits - 1
    x, y, z = ((one + half) % (2 * half) - half for one in step)
    return x, y, z


def _sum(*steps: Step, bits: int) -> Step:
    return _folded(tuple(map(sum, zip(*steps, strict=True))), bits)


def _times(step: Step, factor: int, bits: int) -> Step:
    return _folded(tuple(one * factor for one in step), bits)


@dataclasses.dataclass
class _Analysis:
    code: Code
    checks: dict[tuple[int, int], Step] = dataclasses.field(default_factory=dict)
    """(micro-operation, kind) -> step of the checked number"""
    steps: dict[int, Step] = dataclasses.field(default_factory=dict)
    """micro-operation of an access -> its step"""
    named: set[int] = dataclasses.field(default_factory=set)
    """Micro-operations that have given names to numbers."""

    @functools.cached_property
    def operations(
        self,
    ) -> list[tuple[MicroOperation, str, dict[str, int], dict[str, int], list[int]]]:
        """Each with its name, how many rows it reads and writes, and the masks that it writes."""
        made = []
        for numbers in self.code.table.tolist():
            row = MicroOperation(*numbers)
            operation = _BY_NUMBER[row.op]
            rows, read, _ = widths(operation.name, row)
            made.append(
                (
                    row,
                    operation.name,
                    read,
                    rows,
                    [getattr(row, f) for f in operation.masks_written],
                )
            )
        return made

    def check(self, at: int, kind: int, step: Step) -> None:
        self.checks[at, kind] = step

    def after(self, at: int, state: _State) -> _State:
        """What is known behind a micro-operation; `state` may be changed."""
        row, masks = self.operations[at][0], self.operations[at][-1]
        if ~(row.guard >> 1) in state:
            raise _Unmoved
        written = self._written(at, state)
        new = state if row.guard == ALWAYS else dict(state)
        if at in self.named:
            _forget(new, ("at", at))
        for mask in masks:
            for key in [key for key, one in new.items() if key >= 0 and one.guard >> 1 == mask]:
                new[key] = _ANY
        for key, known in written.items():
            if key == ~o.TRASH_MASK or o.TRASH_ROW <= key < o.FIRST_ROW:
                continue
            if known == _SAME:
                new.pop(key, None)
            else:
                new[key] = known
                if known.name is not None or isinstance(known, _Carry):
                    self.named.add(at)
        if row.guard == ALWAYS:
            return new
        both = joined(state, new, ("guard", at))
        for key, known in written.items():
            if (
                key >= 0
                and both.get(key) == _ANY
                and known.step is not None
                and row.guard >> 1 not in masks
            ):
                both[key] = known._replace(guard=row.guard)
        return both

    def value(self, state: _State, row: int, guard: int = ALWAYS) -> _Value:
        """What is known of a row in lanes for which a guard holds."""
        if row <= o.ZERO_ROW + 1:
            return _Value(_STILL, 0)
        known: _Value = state.get(row, _SAME)
        if known.guard == ALWAYS:
            return known
        return known._replace(guard=ALWAYS) if known.guard == guard else _ANY

    def pair(self, state: _State, row: int, guard: int) -> Step | None:
        """The step of a number of 64 bits."""
        low, high = self.value(state, row, guard), self.value(state, row + 1, guard)
        if low.step == _STILL and high.step == _STILL and not high.is_high:
            return _STILL
        if low.step is None or not high.is_high or low.is_high or low.name is None:
            return None
        return high.step if low.name == high.name else None

    def _written(self, at: int, state: _State) -> _State:
        row, name, read, rows, masks = self.operations[at]
        known = {
            f: [self.value(state, getattr(row, f) + k, row.guard) for k in range(n)]
            for f, n in read.items()
        }
        same = all(
            one.step == _STILL and not one.is_high for ones in known.values() for one in ones
        )
        sure = not any(
            ~(getattr(row, field) >> 1) in state for field in _BY_NUMBER[row.op].masks_read
        )
        if name in ("LOAD", "STORE", "ATOMIC"):
            return self._access(at, name, row, state, rows)
        if name in _FORBIDDEN or (name in _DECIDING and not (same and sure)):
            raise _Unmoved
        if same and sure and name not in _TOGETHER:
            results: dict[str, list[_Value]] = {field: [_SAME] * n for field, n in rows.items()}
            fold = _FOLDED.get(name)
            if fold:
                numbers = [ones[0].number for ones in known.values()]
                if None not in numbers and not row.x:
                    results["d"] = [_Value(_STILL, fold(*numbers) & 0xFFFFFFFF)]
            elif name in ("MOVE", "MOVE2"):
                results["d"] = known["a"]
            written = {
                getattr(row, f) + k: one
                for f, ones in results.items()
                for k, one in enumerate(ones)
            }
            return written | {~mask: _SAME for mask in masks}
        made: dict[int, Any] = {
            getattr(row, f) + k: _ANY for f, n in rows.items() for k in range(n)
        }
        made |= {~mask: _ANY for mask in masks}
        rule = _RULES.get(name)
        found = rule(self, at, row, state, known) if rule is not None else None
        if found is not None:
            made.update({row.d + k: one for k, one in enumerate(found[0])})
            made |= {~mask: one for mask, one in zip(masks, found[1], strict=False)}
        return made

    def _access(
        self, at: int, name: str, row: MicroOperation, state: _State, rows: dict[str, int]
    ) -> _State:
        skipped, space = row.x & o.SKIPPED, row.x & 7
        step: Step | None = _STILL
        if space == o.GLOBAL:
            step = self.pair(state, row.b, row.guard) if row.b else _STILL
            if row.x & o.ADDRESS_32:
                first = self.value(state, row.a, row.guard)
                own: Step | None = _STILL if first.step == _STILL and not first.is_high else None
            else:
                own = self.pair(state, row.a, row.guard)
            step = None if step is None or own is None else _sum(step, own, bits=64)
        elif space != o.LOCAL or any(
            self.value(state, one, row.guard).step != _STILL for one in (row.a, row.b)
        ):
            step = None
        writes = name != "LOAD" and space == o.GLOBAL
        if step is None or (not skipped and (writes or name == "ATOMIC")):
            raise _Unmoved
        self.steps[at] = step
        if skipped or name == "STORE":
            return {}
        merged = row.x & (o.HIGH_HALF | o.KEEP_HALF)
        is_same = space == o.GLOBAL and step == _STILL and not merged  # nothing is written to it
        return {row.d + k: _SAME if is_same else _ANY for k in range(rows["d"])}


def _forget(state: _State, origin: Any) -> None:
    """A number is computed again: what was known of the one before is not of this one."""
    for key, known in state.items():
        if isinstance(known, _Carry):
            names = [known.low, *(one.name for _, one in known.terms)]
            if any(name is not None and name.origin == origin for name in names):
                state[key] = _ANY
        elif known.name is not None and known.name.origin == origin:
            state[key] = _ANY if known.is_high else known._replace(name=None)


def joined(one: _State, other: _State, place: Any) -> _State:
    """What is known where two ways meet. place : its name

    Rows with the same names on either way are parts of the same number behind it, too.
    """
    if one == other:
        return one
    made: _State = {}
    names: dict[Any, _Name] = {}
    for key in sorted({*one, *other}):
        first, second = one.get(key, _SAME), other.get(key, _SAME)
        if (
            key < 0
            or first.step is None
            or second.step is None
            or first.step != second.step
            or first.is_high != second.is_high
            or first.guard != second.guard
        ):
            made[key] = _ANY
        elif first.step == _STILL and not first.is_high:
            if first == second or first.guard != ALWAYS:
                made[key] = first._replace(number=first.number if first == second else None)
        elif first.name is None or second.name is None:
            made[key] = _ANY if first.is_high else _Value(first.step, guard=first.guard)
        else:
            both = first.name, second.name
            if both not in names:
                at, row = first.name.origin
                source = one.get(row, _SAME)
                stays = at != place or (
                    source == other.get(row)
                    and source.name
                    and source.name.origin == first.name.origin
                )
                kept = both[0] == both[1] and stays
                names[both] = first.name if kept else _Name((place, key))
            made[key] = _Value(first.step, None, names[both], first.is_high, first.guard)
    return made


def _product(one: _Value, other: _Value, bits: int) -> Step | None:
    for first, second in ((one, other), (other, one)):
        if second.number is not None and first.step is not None and not first.is_high:
            factor = second.number - (second.number >> 31 << 32)
            return _times(first.step, factor, bits)
    return None


_Found = tuple[list[_Value], list[Any]] | None
"""Of rows d and of masks."""


def _add(self: _Analysis, at: int, row: MicroOperation, state: _State, known: Any) -> _Found:
    steps, values = [], [known[field][0] for field in "abc"]
    high = next((one for one in values if one.is_high), None)
    if high is not None:  # what stays is added to the high half of a number
        stays = sum(one.step == _STILL and not one.is_high for one in values) == 2
        return ([high], []) if stays and row.x == 0 else None
    for one, sign in zip(values, (o.NEGATE_A, o.NEGATE_B, o.NEGATE_C), strict=True):
        if one.step is None:
            return None
        steps.append(_times(one.step, -1 if row.x & sign else 1, 32))
    return _low(at, _sum(*steps, bits=32))


def _low(at: int, step: Step) -> _Found:
    return [_Value(step, None, _Name(("at", at)) if step != _STILL else None)], []


def _multiply_add(
    self: _Analysis, at: int, row: MicroOperation, state: _State, known: Any
) -> _Found:
    product, added = _product(known["a"][0], known["b"][0], 32), known["c"][0]
    number = known["b"][0].number or 0
    if row.x == 0 and added.number == 0 and number == 1:
        return [known["a"][0]], []
    if product is None or added.step is None or added.is_high:
        return None
    if row.x == 0 and added.number == 0 and number & number - 1 == 0 < number:
        return _shifted(known["a"][0], number.bit_length() - 1)
    signs = (-1 if row.x & o.NEGATE_A else 1, -1 if row.x & o.NEGATE_C else 1)
    return _low(at, _sum(_times(product, signs[0], 32), _times(added.step, signs[1], 32), bits=32))


def _whole(at: int, step: Step) -> _Found:
    """A number of 64 bits."""
    name = _Name(("at", at))
    if step == _STILL:
        return [_SAME, _SAME], [_SAME]
    return [_Value(_folded(step, 32), None, name), _Value(step, None, name, True)], []


def _wide(is_signed: bool) -> Any:
    def rule(self: _Analysis, at: int, row: MicroOperation, state: _State, known: Any) -> _Found:
        a, b = known["a"][0], known["b"][0]
        if row.m != NEVER or row.e != o.TRASH_MASK:
            return None
        added, product = self.pair(state, row.c, row.guard), _product(a, b, 64)
        if added is None or product is None or (not is_signed and _is_negative(a, b)):
            return None
        for one, kind in ((a, A_SIGNED), (b, B_SIGNED)):
            if one.step != _STILL:
                self.check(at, kind + (not is_signed), one.step)
        return _whole(at, _sum(product, added, bits=64))

    return rule


def _is_negative(*values: _Value) -> bool:
    """Whether a constant, as an unsigned number, is not what _product takes it for."""
    return any(one.number is not None and one.number >> 31 for one in values)


def _shift_left(self: _Analysis, at: int, row: MicroOperation, state: _State, known: Any) -> _Found:
    a, by = known["a"][0], known["b"][0].number
    if by is None or by > 31 or a.step is None or a.is_high:
        return None
    return _shifted(a, by)


def _shifted(a: _Value, by: int) -> _Found:
    """The low half of a number shifted left."""
    step = _times(a.step or _STILL, 1 << by, 32)
    name = _Name(a.name.origin, a.name.shift + by) if a.name else None
    return [_Value(step, None, name)], []


def _funnel_left(
    self: _Analysis, at: int, row: MicroOperation, state: _State, known: Any
) -> _Found:
    """The high half of a shifted number."""
    a, by, high = known["a"][0], known["b"][0].number, known["c"][0]
    if by is None or by > 31 or not high.is_high or a.name is None or a.name != high.name:
        return None
    step = _times(high.step, 1 << by, 64)
    return [_Value(step, None, _Name(a.name.origin, a.name.shift + by), True)], []


def _shift_right(is_signed: bool) -> Any:
    def rule(self: _Analysis, at: int, row: MicroOperation, state: _State, known: Any) -> _Found:
        """Where the step loses no bit; or the high half of an extended number."""
        a, by = known["a"][0], known["b"][0].number
        if by is None or by > 31 or a.step is None or a.is_high:
            return None
        is_sign = is_signed and by == 31 and a.name is not None
        if not is_sign and any(one % (1 << by) for one in a.step):
            return None
        self.check(at, A_SIGNED if is_signed else A_UNSIGNED, a.step)
        if is_sign:
            return [_Value(a.step, None, a.name, True)], []
        x, y, z = (one >> by for one in a.step)
        return _low(at, (x, y, z))

    return rule


def _logic(self: _Analysis, at: int, row: MicroOperation, state: _State, known: Any) -> _Found:
    """A mask's bits choose between the high bits of a row with a step that leaves the low ones, and something that stays."""
    if any(one[0].step is None or one[0].is_high for one in known.values()):
        return None
    for field, place in (("b", 1), ("a", 2), ("c", 0)):
        mask = known[field][0].number
        low = None if mask is None else min(mask, mask ^ 0xFFFFFFFF)
        if low is None or low & low + 1:
            continue
        bits = low.bit_length()
        moving = [one[0].step for one in known.values()]
        if any(part % (1 << bits) for step in moving for part in step):
            continue
        upper = mask >> 31 & 1  # what the mask has at the high bits
        others = [(other, at_) for other, at_ in (("a", 2), ("b", 1), ("c", 0)) if other != field]
        table = {}
        for first in (0, 1):
            for second in (0, 1):
                k = upper << place | first << others[0][1] | second << others[1][1]
                table[first, second] = row.y >> k & 1
        for number, (other, _) in enumerate(others):
            if all(value == chosen[number] for chosen, value in table.items()):
                return _low(at, known[other][0].step)
        if len(set(table.values())) == 1:
            return [_SAME], []
        rest = [known[other][0].step for other, _ in others]
        if rest == [_STILL, _STILL]:
            return [_SAME], []
    return None


def _add_carry(self: _Analysis, at: int, row: MicroOperation, state: _State, known: Any) -> _Found:
    """The halves of a sum of two numbers of 64 bits, one after the other."""
    if row.x & 7 or row.n != NEVER or row.y != o.TRASH_MASK or row.c != o.ZERO_ROW:
        return None
    both = [(field, known[field][0]) for field in "ab"]
    if row.m == NEVER:
        terms = tuple((f, one) for f, one in both if one.step != _STILL)
        if any(one.step is None or one.is_high for _, one in terms):
            return None
        low = _Name(("at", at))
        step = _sum(*(one.step for _, one in both), bits=32)
        return [_Value(step, None, low)], [_Carry(terms, low)]
    carry = state.get(~(row.m >> 1))
    if row.m & 1 or not isinstance(carry, _Carry) or carry.low.origin[0] != "at":
        return None
    highs = [one for _, one in both]
    total = _STILL
    for field, one in carry.terms:
        partner = next(
            (high for high in highs if high.is_high and high.name == one.name and one.name), None
        )
        own: Step | None = one.step if partner is None else partner.step
        if partner is None:
            partner = next((high for high in highs if high.number == 0), None)
            if partner is None:
                return None
            self.check(
                carry.low.origin[1], A_UNSIGNED if field == "a" else B_UNSIGNED, own or _STILL
            )
        highs.remove(partner)
        total = _sum(total, own or _STILL, bits=64)
    if any(one.step != _STILL or one.is_high for one in highs):
        return None
    return [_Value(total, None, carry.low, True)], [_ANY]


def _select(self: _Analysis, at: int, row: MicroOperation, state: _State, known: Any) -> _Found:
    a, b = known["a"][0], known["b"][0]
    if (
        ~(row.m >> 1) in state
        or row.x
        or a.step != b.step
        or a.step is None
        or a.is_high
        or b.is_high
    ):
        return None
    return _low(at, a.step)


def _compare(is_signed: bool) -> Any:
    def rule(self: _Analysis, at: int, row: MicroOperation, state: _State, known: Any) -> _Found:
        a, b = known["a"][0], known["b"][0]
        unknown = any(one.step is None or one.is_high for one in (a, b))
        if unknown or ~(row.m >> 1) in state:
            return None
        for one, kind in ((a, A_SIGNED), (b, B_SIGNED)):
            if one.step != _STILL:
                self.check(at, kind + (not is_signed), one.step)
        relation = row.x & 7
        if relation not in (0, 7):
            split = {1: SPLITS_BELOW, 6: SPLITS_BELOW, 3: SPLITS_ABOVE, 4: SPLITS_ABOVE}.get(
                relation, SPLITS_BOTH
            )
            distance = tuple(x - y for x, y in zip(a.step, b.step, strict=True))
            self.check(at, (SIGNED if is_signed else UNSIGNED) | split, distance)
        return [], [_SAME, _SAME]

    return rule


def _copied(self: _Analysis, at: int, row: MicroOperation, state: _State, known: Any) -> _Found:
    return known["a"], []


def _first_lane(self: _Analysis, at: int, row: MicroOperation, state: _State, known: Any) -> _Found:
    """Lanes that are active are at this place of the code."""
    a = known["a"][0]
    return ([a._replace(name=None)], []) if row.guard == ALWAYS and not a.is_high else None


_RULES: dict[str, Callable[..., _Found]] = {
    "MOVE": _copied, "MOVE2": _copied, "ADD3": _add, "MULTIPLY_ADD": _multiply_add, "MULTIPLY_WIDE_S": _wide(True),
    "MULTIPLY_WIDE_U": _wide(False), "SHIFT_LEFT": _shift_left, "FUNNEL_LEFT": _funnel_left, "SHIFT_RIGHT_S": _shift_right(True),
    "SHIFT_RIGHT_U": _shift_right(False),
    "LOGIC3": _logic, "ADD_CARRY": _add_carry, "SELECT": _select, "COMPARE_S": _compare(True), "COMPARE_U": _compare(False),
    "READ_FIRST_LANE": _first_lane,
}  # fmt: skip
_FOLDED: dict[str, Callable[..., int]] = {
    "ADD3": lambda a, b, c: a + b + c,
    "MULTIPLY_ADD": lambda a, b, c: a * b + c,
    "SHIFT_LEFT": lambda a, b: a << b if b < 32 else 0,
}
"""Of constants, where x is 0."""
_BY_NUMBER = {operation.number: operation for operation in OPERATIONS.values()}
_NAMES = {number: operation.name for number, operation in _BY_NUMBER.items()}
_FORBIDDEN = frozenset(("CLOCK", "ROWS_TO_MASK", "CLASS_F16"))
_DECIDING = frozenset(
    (
        "BRANCH",
        "BRANCH_TABLE",
        "RETURN",
        "JOIN_WAIT",
        "JOIN_LEAVE",
        "SYNC_LANES",
        "BARRIER",
        "LOAD_CONSTANT",
    )
)
"""What must be the same in all groups."""
_TOGETHER = frozenset(
    (
        "SHUFFLE",
        "READ_LANE",
        "READ_FIRST_LANE",
        "WRITE_LANE",
        "PERMUTE_LANES",
        "SCATTER_LANES",
        "MATCH_ANY",
        "MATCH_ALL",
        "REDUCE",
    )
)
"""What reads lanes that may be at another place of the code."""


def movement(code: Code, constants: Mapping[int, int]) -> Movement | None:
    """How the accesses of groups move, None if that is not known. constants : row -> what all its lanes contain, of the launch"""
    if code.masks:
        return None
    known: _State = {row: _Value(_STILL, number & 0xFFFFFFFF) for row, number in constants.items()}
    for row, special in code.specials.items():
        if special.startswith("group_"):
            step = tuple(int(axis == special[-1]) for axis in "xyz")
            known[row] = _Value(step, None, _Name((special, row)))  # type: ignore[arg-type]
    analysis = _Analysis(code)
    try:
        successors = [use.successors for use in uses_of(code)]
        follow(successors, known, analysis.after, joined, _MOST_ROUNDS)
    except (_Unmoved, TooOften):
        return None
    checks = sorted(analysis.checks.items())
    at = np.array([key[0] for key, _ in checks], np.int64)
    accesses = np.flatnonzero(np.isin(code.table[:, 0], _ACCESSES)).tolist()
    steps = [analysis.steps.get(k, _STILL) for k in accesses]
    return Movement(
        steps=np.array(steps, np.int64).reshape(-1, 3),
        check_steps=np.array([step for _, step in checks], np.int64).reshape(-1, 3),
        check_kinds=np.array([key[1] for key, _ in checks], np.int32),
        first_check=np.searchsorted(at, np.arange(len(code.table) + 1)).astype(np.int32),
    )


_ACCESSES = tuple(OPERATIONS[name].number for name in ("LOAD", "STORE", "ATOMIC"))
