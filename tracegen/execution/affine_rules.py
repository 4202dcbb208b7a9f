"""What an operation makes of rows that move: see tracegen.execution.affine."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Protocol

from tracegen.execution import operations as o
from tracegen.execution.code import Code
from tracegen.execution.known import (
    ANY,
    SAME,
    STILL,
    Carry,
    Fixed,
    Known,
    Lanes,
    Name,
    Step,
    Value,
    folded,
    guard_of,
    high_of,
    holds,
    reading,
    sum_of,
    times,
    unsure,
)
from tracegen.execution.moved import (
    A_SIGNED,
    A_UNSIGNED,
    B_SIGNED,
    B_UNSIGNED,
    BELOW,
    C_UNSIGNED,
    COMBINED,
    HIGH_STAYS,
    NOT_NEGATIVE,
    SIGNED,
    SPLITS_ABOVE,
    SPLITS_BELOW,
    SPLITS_BOTH,
    UNSIGNED,
)
from tracegen.execution.operations import ALWAYS, NEVER, MicroOperation


class Rows(Protocol):
    """What rules ask and tell of rows; see tracegen.execution.affine.Analysis."""

    code: Code
    products: dict[Any, tuple[Name, int]]
    assumes: bool
    highs: dict[tuple[Name, bool], dict[tuple[int, int], Step]]

    def check(self, at: int, kind: int, step: Step) -> None: ...

    def value(self, state: Known, row: int, guard: int = ALWAYS) -> Value: ...

    def pair(self, state: Known, row: int, guard: int) -> Step | None: ...

    def wide(self, at: int, state: Known, field: str, guard: int) -> Step | None: ...


def _product(one: Value, other: Value, bits: int) -> Step | None:
    for first, second in ((one, other), (other, one)):
        if second.number is not None and first.step is not None and not first.is_high:
            factor = second.number - (second.number >> 31 << 32)
            return times(first.step, factor, bits)
    return None


_Found = tuple[list[Value], list[Any]] | None
"""Of rows d and of masks."""


def _add(self: Rows, at: int, row: MicroOperation, state: Known, known: Any) -> _Found:
    steps, values = [], [known[field][0] for field in "abc"]
    high = next((one for one in values if one.is_high), None)
    if high is not None:  # what stays is added to the high half of a number
        stays = sum(one.step == STILL and not one.is_high for one in values) == 2
        return ([high], []) if stays and row.x == 0 else None
    for one, sign in zip(values, (o.NEGATE_A, o.NEGATE_B, o.NEGATE_C), strict=True):
        if one.step is None:
            return None
        steps.append(times(one.step, -1 if row.x & sign else 1, 32))
    return _low(at, sum_of(*steps, bits=32))


def _low(at: int, step: Step) -> _Found:
    return [Value(step, None, Name(("at", at)) if step != STILL else None)], []


def _multiply_add(self: Rows, at: int, row: MicroOperation, state: Known, known: Any) -> _Found:
    product, added = _product(known["a"][0], known["b"][0], 32), known["c"][0]
    number = known["b"][0].number or 0
    if row.x == 0 and added.number == 0 and number == 1:
        return [known["a"][0]], []
    if product is None or added.step is None or added.is_high:
        return None
    if row.x == 0 and added.number == 0 and number & number - 1 == 0 < number:
        return _shifted(known["a"][0], number.bit_length() - 1)
    signs = _sign(row, o.NEGATE_A), _sign(row, o.NEGATE_C)
    if row.x == 0 and added.number == 0 and product != STILL:
        name = _name_of_product(known["a"][0], known["b"][0])
        return ([Value(product, None, name)], []) if name else _low(at, product)
    return _low(at, sum_of(times(product, signs[0], 32), times(added.step, signs[1], 32), bits=32))


def _name_of_product(one: Value, other: Value) -> Name | None:
    """Of a product with a constant, whose halves are computed in different places."""
    for moving, factor in ((one, other.number), (other, one.number)):
        if factor is None or moving.name is None or moving.is_high:
            continue
        if factor and factor & factor - 1 == 0:
            return Name(moving.name.origin, moving.name.shift + factor.bit_length() - 1)
        return Name(("product", (moving.name, factor)))
    return None


def _high_of_product(self: Rows, at: int, row: MicroOperation, state: Known, known: Any) -> _Found:
    a, b = known["a"][0], known["b"][0]
    name, product = _name_of_product(a, b), _product(a, b, 64)
    if name is None or product is None or _is_negative(a, b):
        return None
    for one, kind in ((a, A_UNSIGNED), (b, B_UNSIGNED)):
        if one.step != STILL:
            self.check(at, kind, one.step)
    if name.origin[0] == "product":  # others have the names of signed numbers, too
        self.highs.setdefault((name, False), {})[at, HIGH_STAYS] = product
    return [Value(product, None, name, True)], []


def _absolute(self: Rows, at: int, row: MicroOperation, state: Known, known: Any) -> _Found:
    a = known["a"][0]
    if not self.assumes or a.step is None or a.is_high:
        return None
    self.check(at, NOT_NEGATIVE, a.step)
    return [a], []


def _extreme(self: Rows, at: int, row: MicroOperation, state: Known, known: Any) -> _Found:
    """The least or the greatest of numbers."""
    among: list[Step] = []
    for one, kind in ((known["a"][0], A_SIGNED), (known["b"][0], B_SIGNED)):
        steps = _steps(one)
        if not steps:
            return None
        for step in steps:
            if step != STILL:
                self.check(at, kind, step)
        among += steps
    return [Value(None, among=tuple(dict.fromkeys(among)))], []


def _steps(one: Value) -> tuple[Step, ...]:
    """Of which a number gains one; () where nothing is known."""
    if one.step is None or one.is_high:
        return one.among
    return (one.step,)


def _whole(at: int, step: Step) -> _Found:
    """A number of 64 bits."""
    name = Name(("at", at))
    if step == STILL:
        return [SAME, SAME], [SAME]
    return [Value(folded(step, 32), None, name), Value(step, None, name, True)], []


def _wide(is_signed: bool) -> Any:
    def rule(self: Rows, at: int, row: MicroOperation, state: Known, known: Any) -> _Found:
        a, b, c = known["a"][0], known["b"][0], known["c"][0]
        if row.m != NEVER:
            return None
        for one, factor in ((a, b.number), (b, a.number)):
            if one.is_high:  # the high half of the product whose low half has been computed
                found = c.name is not None and self.products.get(c.name.origin)
                return ([c, ANY], []) if c.is_high and found == (one.name, factor) else None
        added, product = self.wide(at, state, "c", row.guard), _product(a, b, 64)
        if product is None or (not is_signed and _is_negative(a, b)):
            return None
        if added is None:
            if (
                c.is_high and folded(product, 32) == STILL
            ):  # what stays is added to the high half of a number
                return [c, ANY], []
            if c.step is None or c.is_high:
                return None
            low, _ = _low(at, sum_of(folded(product, 32), c.step, bits=32)) or ([ANY], [])
            return [*low, ANY], []
        for one, kind in ((a, A_SIGNED), (b, B_SIGNED)):
            if one.step != STILL:
                self.check(at, kind + (not is_signed), one.step)
        for one, other in ((a, b), (b, a)):
            if one.name is not None and other.number is not None and added == STILL:
                self.products["at", at] = one.name, other.number
        step, shifted = sum_of(product, added, bits=64), _name_of_product(a, b)
        if not is_signed:
            self.highs.setdefault((Name(("at", at)), False), {})[at, HIGH_STAYS] = step
        elif _is_zero(known["c"]) and shifted and shifted.origin[0] != "product" and step != STILL:
            return [Value(folded(step, 32), None, shifted), Value(step, None, shifted, True)], [
                SAME
            ]
        return _whole(at, step)

    return rule


def _is_zero(values: list[Value]) -> bool:
    return all(one.number == 0 for one in values)


def _is_negative(*values: Value) -> bool:
    """Whether a constant, as an unsigned number, is not what _product takes it for."""
    return any(one.number is not None and one.number >> 31 for one in values)


def _shift_left(self: Rows, at: int, row: MicroOperation, state: Known, known: Any) -> _Found:
    a, by = known["a"][0], known["b"][0].number
    if by is None or by > 31 or a.step is None or a.is_high:
        return None
    return _shifted(a, by)


def _shifted(a: Value, by: int) -> _Found:
    """The low half of a number shifted left."""
    step = times(a.step or STILL, 1 << by, 32)
    name = Name(a.name.origin, a.name.shift + by) if a.name else None
    return [Value(step, None, name)], []


def _funnel_left(self: Rows, at: int, row: MicroOperation, state: Known, known: Any) -> _Found:
    """The high half of a shifted number."""
    a, by, high = known["a"][0], known["b"][0].number, known["c"][0]
    if by is None or by > 31 or not high.is_high or a.name is None or a.name != high.name:
        return None
    step = times(high.step, 1 << by, 64)
    return [Value(step, None, Name(a.name.origin, a.name.shift + by), True)], []


def _shift_left64(self: Rows, at: int, row: MicroOperation, state: Known, known: Any) -> _Found:
    by = known["b"][0].number
    if by == 0:
        return known["a"], []
    step = self.wide(at, state, "a", row.guard) if by is not None and by < 64 else None
    return None if step is None else _whole(at, times(step, 1 << by, 64))


def _add64(self: Rows, at: int, row: MicroOperation, state: Known, known: Any) -> _Found:
    a, b = (self.wide(at, state, field, row.guard) for field in "ab")
    if a is None or b is None:
        return None
    a, b = times(a, _sign(row, o.NEGATE_A), 64), times(b, _sign(row, o.NEGATE_B), 64)
    return _whole(at, sum_of(a, b, bits=64))


def _carry_of_lanes(self: Rows, at: int, row: MicroOperation, state: Known, known: Any) -> _Found:
    """The carry of a sum in the lanes that work, as AMD's code with 32 lanes computes it."""
    carry, lanes = state.get(~(row.m >> 1)), state.get(~(row.n >> 1))
    if row.x != 192 or row.y != ALWAYS or (row.m | row.n) & 1 or not isinstance(lanes, Lanes):
        return None
    if not isinstance(carry, Carry) or not holds(carry.guard, state, row.n):
        return None
    return [], [carry._replace(guard=lanes.path or ALWAYS)]


def _shift_right(is_signed: bool) -> Any:
    def rule(self: Rows, at: int, row: MicroOperation, state: Known, known: Any) -> _Found:
        """Where the step loses no bit; or the high half of an extended number."""
        a, by = known["a"][0], known["b"][0].number
        if by is None or by > 31 or a.step is None or a.is_high:
            return None
        is_sign = is_signed and by == 31 and a.name is not None
        is_low = not any(one % (1 << by) for _, one in a.step)
        if not is_low and not (by > 16 and a.name is not None):
            return None
        self.check(at, A_SIGNED if is_signed else A_UNSIGNED, a.step)
        if is_sign:
            self.highs.setdefault((a.name, True), {})[at, NOT_NEGATIVE] = a.step
            return [Value(a.step, None, a.name, True, is_sign=True)], []
        if not is_low:  # the high half of the number shifted left
            name = Name(a.name.origin, a.name.shift + 32 - by)
            return [Value(times(a.step, 1 << 32 - by, 64), None, name, True)], []
        return _low(at, tuple((axis, one >> by) for axis, one in a.step))

    return rule


def _logic(self: Rows, at: int, row: MicroOperation, state: Known, known: Any) -> _Found:
    """A mask's bits choose between the high bits of a row with a step that leaves the low ones, and something that stays."""
    if any(one[0].step is None or one[0].is_high for one in known.values()):
        return None
    for field, place in (("b", 1), ("a", 2), ("c", 0)):
        mask = known[field][0].number
        low = None if mask is None else min(mask, mask ^ 0xFFFFFFFF)
        if low is None:
            continue
        bits = low.bit_length()
        moving = [one[0].step for one in known.values()]
        if any(part % (1 << bits) for step in moving for _, part in step):
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
            return [SAME], []
        rest = [known[other][0].step for other, _ in others]
        if rest == [STILL, STILL]:
            return [SAME], []
    return _filled(self, at, row, known) if self.assumes else None


def _filled(self: Rows, at: int, row: MicroOperation, known: Any) -> _Found:
    """Low bits that do not move are set, by what stays and has no higher ones."""
    moving = [field for field, (one,) in known.items() if one.step != STILL]
    place = {"a": 4, "b": 2, "c": 1}
    if len(moving) != 1 or row.y & 1 or not row.y >> place[moving[0]] & 1:
        return None
    step = known[moving[0]][0].step
    bits = min((part & -part).bit_length() - 1 for _, part in step)
    for which, field in ((0, "a"), (1, "b"), (3, "c")):
        if field != moving[0] and known[field][0].number != 0:
            self.check(at, BELOW | which << 1 | bits << 8, STILL)
    return _low(at, step)


def _add_carry(self: Rows, at: int, row: MicroOperation, state: Known, known: Any) -> _Found:
    """The halves of a sum of two numbers of 64 bits, one after the other; of a difference, if what is subtracted stays."""
    is_sum = "c" in known
    if is_sum and row.x & 7:
        return None
    if not is_sum and (known["b"][0].step != STILL or known["b"][0].is_high):
        return None
    values = [(field, known[field][0]) for field in ("abc" if is_sum else "ab")]
    sources = [number for number in (row.m, row.n if is_sum else NEVER) if number != NEVER]
    has_two = is_sum and row.y != o.TRASH_MASK
    if not sources:
        terms = tuple((f, one) for f, one in values if one.step != STILL)
        if (is_sum and not has_two and row.c != o.ZERO_ROW) or any(
            one.step is None or one.is_high for _, one in terms
        ):
            return None
        low = Name(("at", at))
        step = sum_of(*(one.step for _, one in values), bits=32)
        made = Carry(terms, low, is_half=has_two)
        return [Value(step, None, low)], [made] * (1 + has_two)
    if has_two:
        return None
    carries = []
    for number in sources:
        carry = state.get(~(number >> 1))
        if number & 1 or not isinstance(carry, Carry) or carry.low.origin[0] != "at":
            return None
        if carry.guard != ALWAYS and not holds(carry.guard, state, row.guard):
            return None
        carries.append(carry)
    if any(one.is_half for one in carries):
        if len(carries) != 2 or carries[0] != carries[1] or row.m == row.n:
            return None
        del carries[1]
    # A sum may be added to at once: then one carry is that of the other's.
    if len(carries) == 2 and carries[1].low in [one.name for _, one in carries[0].terms]:
        carries.reverse()
    highs: list[Value] | None = [one for _, one in values]
    for carry in carries:
        highs = _carried(self, carry, highs) if highs is not None else None
    if highs is None:
        return None
    moving = [one for one in highs if one.step != STILL or one.is_high]
    if len(moving) > 1 or (moving and moving[0].name != carries[-1].low):
        return None
    if not moving:
        return [Value(STILL, None, carries[-1].low, True)], [ANY]
    return moving, [ANY]


def _carried(self: Rows, carry: Carry, highs: list[Value]) -> list[Value] | None:
    """The high halves that are added, and a carry: those of the sum's terms become that of the sum."""
    rest, total = list(highs), STILL
    for field, one in carry.terms:
        steps = ((high, high_of(one.name, high)) for high in rest)
        partner, own = next(
            ((high, step) for high, step in steps if step is not None), (None, one.step)
        )
        if partner is None:
            partner = next((high for high in rest if high.number == 0), None)
            if partner is None:
                return None
            kind = {"a": A_UNSIGNED, "b": B_UNSIGNED, "c": C_UNSIGNED}[field]
            self.check(carry.low.origin[1], kind, own or STILL)
        rest.remove(partner)
        total = sum_of(total, own or STILL, bits=64)
    return [*rest, Value(total, None, carry.low, True)]


def _select(self: Rows, at: int, row: MicroOperation, state: Known, known: Any) -> _Found:
    a, b = known["a"][0], known["b"][0]
    if (
        unsure(state, row.m)
        or row.x
        or a.step != b.step
        or a.step is None
        or a.is_high
        or b.is_high
    ):
        return None
    return _low(at, a.step)


def _compare(is_signed: bool) -> Any:
    def rule(self: Rows, at: int, row: MicroOperation, state: Known, known: Any) -> _Found:
        a, b = _steps(known["a"][0]), _steps(known["b"][0])
        if not a or not b or unsure(state, row.m):
            return None
        relation = row.x & 7
        stays = known["b"][0].number == 0 and known["a"][0].step is not None
        is_whole = row.m == row.guard == ALWAYS and row.x >> 20 == 0
        if self.assumes and is_signed and stays and is_whole and relation in (1, 6):
            self.check(at, NOT_NEGATIVE, known["a"][0].step)
            return [], [Fixed(relation == 6), Fixed(relation == 1)]
        combined = COMBINED if reading("COMPARE", row) != row.guard else 0
        for steps, kind in ((a, A_SIGNED), (b, B_SIGNED)):
            for step in steps:
                if step != STILL:
                    self.check(at, kind + (not is_signed) | combined, step)
        if relation not in (0, 7):
            split = {1: SPLITS_BELOW, 6: SPLITS_BELOW, 3: SPLITS_ABOVE, 4: SPLITS_ABOVE}.get(
                relation, SPLITS_BOTH
            )
            for first, second in itertools.product(a, b):
                distance = sum_of(first, times(second, -1, 64), bits=64)
                self.check(at, (SIGNED if is_signed else UNSIGNED) | split | combined, distance)
        return [], [SAME, SAME]

    return rule


def _copied(self: Rows, at: int, row: MicroOperation, state: Known, known: Any) -> _Found:
    return known["a"], []


def _first_lane(self: Rows, at: int, row: MicroOperation, state: Known, known: Any) -> _Found:
    """Lanes that are active are at this place of the code."""
    a = known["a"][0]
    everywhere = bool(self.code.masks) and self.value(state, row.a) == a
    some_lane = guard_of(state, row.guard) == ALWAYS or everywhere
    return ([a._replace(name=None)], []) if some_lane and not a.is_high else None


RULES: dict[str, Callable[..., _Found]] = {
    "MOVE": _copied, "MOVE2": _copied, "ADD3": _add, "MULTIPLY_ADD": _multiply_add, "MULTIPLY_WIDE_S": _wide(True),
    "MULTIPLY_WIDE_U": _wide(False), "SHIFT_LEFT": _shift_left, "FUNNEL_LEFT": _funnel_left, "SHIFT_RIGHT_S": _shift_right(True),
    "SHIFT_RIGHT_U": _shift_right(False),
    "LOGIC3": _logic, "ADD_CARRY": _add_carry, "SELECT": _select, "COMPARE_S": _compare(True), "COMPARE_U": _compare(False),
    "READ_FIRST_LANE": _first_lane, "SHIFT_LEFT64": _shift_left64, "ADD64": _add64, "MASK_LOGIC3": _carry_of_lanes,
    "BORROW": _add_carry, "ABSOLUTE": _absolute, "MULTIPLY_HIGH_U": _high_of_product, "MINIMUM_S": _extreme, "MAXIMUM_S": _extreme,
}  # fmt: skip


def _logic_of(row: MicroOperation, a: int, b: int, c: int) -> int:
    return sum(
        (row.y >> (4 * (a >> k & 1) + 2 * (b >> k & 1) + (c >> k & 1)) & 1) << k for k in range(32)
    )


def _signed(number: int) -> int:
    return number - (number >> 31 << 32)


def _distance(row: MicroOperation, by: int, bits: int = 32) -> int:
    return by % bits if row.x & o.WRAP else min(by, bits)


def _sign(row: MicroOperation, negate: int) -> int:
    return -1 if row.x & negate else 1


FOLDED: dict[str, Callable[..., int]] = {
    "ADD3": lambda row, a, b, c: (
        _sign(row, o.NEGATE_A) * a + _sign(row, o.NEGATE_B) * b + _sign(row, o.NEGATE_C) * c
    ),
    "MULTIPLY_ADD": lambda row, a, b, c: (
        _sign(row, o.NEGATE_A) * a * b + _sign(row, o.NEGATE_C) * c
    ),
    "SHIFT_LEFT": lambda row, a, b: a << _distance(row, b),
    "SHIFT_RIGHT_U": lambda row, a, b: a >> _distance(row, b),
    "SHIFT_RIGHT_S": lambda row, a, b: _signed(a) >> _distance(row, b),
    "MULTIPLY_HIGH_U": lambda row, a, b: a * b >> 32,
    "MULTIPLY_HIGH_S": lambda row, a, b: _signed(a) * _signed(b) >> 32,
    "LOGIC3": _logic_of,
    "SHIFT_LEFT64": lambda row, a, high, b: (a | high << 32) << _distance(row, b, 64),
}
"""Of constants."""
