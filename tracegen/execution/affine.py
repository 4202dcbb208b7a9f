"""What a group does as a function of its place in the grid.

Most kernels compute their addresses as a number that is the same in every group plus multiples of the group's place along the
axes of the grid. Where that holds of all addresses, and each branch goes the same way, the accesses of one group are those of
another, moved. This module finds in the code by how much, and what has to be checked while a group runs so that it is true of
others: integers that are extended or compared must not wrap around, and the outcomes of comparisons must stay.

A row of registers is described, where lanes are that are at the same place of the code, by its *step* along each axis: what it
gains, modulo 2^32, from one group to the next. The high half of a number of 64 bits has that number's step, and the name of its low
half: only both together tell an address.

Some kernels find their tile by divisions. Numbers that all lanes of a group have in common and that depend on its place alone are
axes, too: what they are is computed for each group, and how far an access moves follows from how much they differ; see
tracegen.execution.place_numbers.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracegen.execution import operations as o
from tracegen.execution.affine_rules import FOLDED, RULES
from tracegen.execution.code import Code
from tracegen.execution.flow import TooOften, follow
from tracegen.execution.known import (
    ANY,
    SAME,
    STILL,
    Carry,
    Decided,
    Fixed,
    Known,
    Lanes,
    Name,
    Step,
    Value,
    constant,
    forget,
    forget_lanes,
    guard_of,
    high_of,
    holds,
    is_still,
    joined,
    lose,
    narrowed,
    reading,
    sum_of,
    unsure,
)
from tracegen.execution.moved import A_UNSIGNED, ALL_LANES, B_UNSIGNED, C_UNSIGNED, STAYS
from tracegen.execution.operations import ALWAYS, NEVER, OPERATIONS, MicroOperation
from tracegen.execution.place_numbers import (
    COMPUTING,
    N_AXES,
    TOGETHER,
    Bit,
    Compute,
    Made,
    PlaceNumbers,
)
from tracegen.execution.slicing import WHOLE, uses_of, widths

_MOST_ROUNDS = 64
"""Visits of a place of the code, after which nothing is claimed."""


@dataclasses.dataclass(frozen=True)
class Movement:
    """How accesses move, and under which conditions.

    words : of each axis but the last;  numbers : what these are
    usual : words -> numbers that they are in groups that are copied; where one is another number, the last axis has a number
        that no other group has
    steps : (n_place, n_axis) bytes by which an access moves if a group's number along an axis is greater by one
    check_steps : (n_check, n_axis) what a checked number gains;  check_kinds : (n_check,) int32
    first_check : (n_operation + 1,) int32, for each micro-operation
    """

    words: tuple[int, ...]
    usual: dict[int, int]
    numbers: PlaceNumbers
    steps: npt.NDArray[np.int64]
    check_steps: npt.NDArray[np.int64]
    check_kinds: npt.NDArray[np.int32]
    first_check: npt.NDArray[np.int32]

    def along(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """(n_group, n_axis) the numbers of groups. places : (n_group, 3) in the grid"""
        found = self.numbers.values([*self.words, *self.usual], places)
        own, others = np.hsplit(found, [len(self.words)])
        is_odd = (others != list(self.usual.values())).any(axis=1)
        odd = np.where(is_odd, 1 + np.arange(len(places)), 0)
        return np.ascontiguousarray(np.hstack([own, odd[:, None]]), np.int64)


class _Unmoved(Exception):
    """Groups are not told to be alike."""


@dataclasses.dataclass
class Analysis:
    """assumes : whether to try what holds of most kernels: that numbers do not become negative, that what is put into low bits is
    small enough, and that lanes which work together are all there"""

    code: Code
    content: Content
    numbers: PlaceNumbers
    assumes: bool = False
    stays: set[int] = dataclasses.field(default_factory=set)
    """Words that must be the same in a group that is copied."""
    usual: dict[int, int] = dataclasses.field(default_factory=dict)
    """Words that are the same number all over the grid, or nearly so."""
    takes_local: bool = False
    """Whether code depends on what it takes from local memory, which is taken for the same in all groups."""
    fills_local: bool = False
    """Whether it is not."""
    highs: dict[tuple[Name, bool], dict[tuple[int, int], Step]] = dataclasses.field(
        default_factory=dict
    )
    """Name of a high half, and whether it is a sign -> (micro-operation that makes it, the check that it stays) -> step"""
    checks: dict[tuple[int, int], set[Step]] = dataclasses.field(default_factory=dict)
    """(micro-operation, kind) -> steps of which the checked number gains one"""
    steps: dict[int, Step] = dataclasses.field(default_factory=dict)
    """micro-operation of an access -> its step"""
    named: set[int] = dataclasses.field(default_factory=set)
    """Micro-operations that have given names to numbers."""
    products: dict[Any, tuple[Name, int]] = dataclasses.field(default_factory=dict)
    """Origin of a product of 64 bits -> its factors: the low half of a number, and a constant."""

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

    @functools.cached_property
    def unassuming(self) -> Analysis:
        """The same analysis for rules that shall try nothing."""
        made = dataclasses.replace(self, assumes=False)
        made.__dict__["operations"] = self.operations
        return made

    def check(self, at: int, kind: int, step: Step) -> None:
        self.checks.setdefault((at, kind), set()).add(step)

    def after(self, at: int, state: Known) -> Known:
        """What is known behind a micro-operation; `state` may be changed."""
        row, name, _, _, masks = self.operations[at]
        if unsure(state, row.guard):
            raise _Unmoved
        if name not in WHOLE and (held := self.outcome(state, row.guard)) is not None:
            if not held:
                return state
            row = row._replace(guard=ALWAYS)
        written, is_whole = self._written(at, row, state)
        guard = ALWAYS if is_whole else guard_of(state, row.guard)
        new = state if guard == ALWAYS else dict(state)
        if at in self.named:
            forget(new, ("at", at))
        if masks:
            if self.code.masks:
                forget_lanes(new, ("at", at))
            changed = {2 * mask + negated for mask in masks for negated in (0, 1)}
            for key in [
                key
                for key, one in new.items()
                if isinstance(one, Value | Carry) and one.guard in changed
            ]:
                lose(new, key)
        for key, known in written.items():
            if key == ~o.TRASH_MASK or o.TRASH_ROW <= key < o.FIRST_ROW:
                continue
            if known == SAME:
                new.pop(key, None)
            else:
                new[key] = known
                if isinstance(known, Carry) or (key >= 0 and known.name is not None):
                    self.named.add(at)
        if guard == ALWAYS:
            return new
        both = joined(state, new, ("guard", at))
        for key, known in written.items():
            if row.guard >> 1 in masks:
                continue
            if isinstance(guard, tuple) and isinstance(known, Value) and known.number is not None:
                still = is_still(both.get(key, SAME))
                both[key] = known._replace(guard=guard, still=still)
                continue
            is_part = isinstance(guard, tuple) and isinstance(known, Value) and known.name
            if both.get(key) != ANY and not is_part:
                continue
            if isinstance(known, Carry) or (key >= 0 and known.step is not None):
                both[key] = known._replace(guard=guard)
        return both

    def value(self, state: Known, row: int, guard: int = ALWAYS) -> Value:
        """What is known of a row in lanes for which a guard holds."""
        if row <= o.ZERO_ROW + 1:
            return Value(STILL, 0)
        known: Value = state.get(row, SAME)
        if known.guard == ALWAYS:
            return known
        if holds(known.guard, state, guard):
            return known._replace(guard=ALWAYS, still=False)
        return SAME if known.still else ANY

    def pair(self, state: Known, row: int, guard: int) -> Step | None:
        """The step of a number of 64 bits."""
        low, high = self.value(state, row, guard), self.value(state, row + 1, guard)
        if low.step == STILL and high.step == STILL and not high.is_high:
            return STILL
        return None if low.step is None or low.is_high else high_of(low.name, high)

    def wide(self, at: int, state: Known, field: str, guard: int) -> Step | None:
        """The step of an operand of 64 bits, which may be one of 32 bits that is extended by zeros."""
        row = getattr(self.operations[at][0], field)
        low, high = self.value(state, row, guard), self.value(state, row + 1, guard)
        if high.number != 0 or low.step is None or low.is_high or low.step == STILL:
            return self.pair(state, row, guard)
        self.check(at, {"a": A_UNSIGNED, "b": B_UNSIGNED, "c": C_UNSIGNED}[field], low.step)
        return low.step

    def outcome(self, state: Known, number: int) -> bool | None:
        """Whether a source mask is set, where that is the same in all lanes and groups."""
        held = state.get(~(number >> 1))
        return held.is_set != bool(number & 1) if isinstance(held, Fixed) else None

    def taken(self, at: int, state: Known) -> Sequence[int]:
        """Where lanes may go on behind a micro-operation."""
        row, name, *_ = self.operations[at]
        after = uses_of(self.code)[at].successors
        if name != "BRANCH":
            return after
        outcomes = [
            number == ALWAYS if number in (ALWAYS, NEVER) else self.outcome(state, number)
            for number in (row.guard, row.m)
        ]
        if all(outcomes):
            return (row.y,)
        return (at + 1,) if False in outcomes else after

    def settle(self, state: Known, number: int) -> None:
        """Groups that are copied have the same source mask."""
        held = state.get(~(number >> 1))
        if isinstance(held, Decided):
            self.stays.add(held.word)

    def joined(self, one: Known, other: Known, place: Any) -> Known:
        """What is known where two ways meet: which of two masks is there tells the way, so each must stay."""
        for key in {*one, *other}:
            if key < 0 and one.get(key) != other.get(key):
                for state in (one, other):
                    self.settle(state, 2 * ~key)
        first, second = (
            {
                key: known
                for key, known in state.items()
                if not isinstance(known, Decided) or one.get(key) == other.get(key)
            }
            for state in (one, other)
        )
        return joined(first, second, place)

    def _word(self, value: Value) -> int | None:
        if value.number is not None:
            return self.numbers.word(value.number)
        return value.word

    def _bit(self, state: Known, number: int) -> Bit | None:
        held = state.get(~(number >> 1))
        if isinstance(held, Decided):
            return Bit(held.word, bool(number & 1))
        is_set = number == ALWAYS if number in (ALWAYS, NEVER) else self.outcome(state, number)
        return None if is_set is None else Bit(self.numbers.word(int(is_set)))

    def _made(self, at: int, row: MicroOperation, state: Known, known: Any) -> Made | None:
        """What computes results that all lanes have in common; None if they have none."""
        _, name, _, rows, _ = self.operations[at]
        operation = _BY_NUMBER[row.op]
        operands: dict[str, Any] = {f: tuple(map(self._word, ones)) for f, ones in known.items()}
        masks: dict[str, Any] = {f: self._bit(state, getattr(row, f)) for f in operation.masks_read}
        old: dict[str, Any] = {}
        if isinstance(state.get(~(row.guard >> 1)), Decided):
            for f, n in rows.items():
                before = [self.value(state, getattr(row, f) + k) for k in range(n)]
                old[f] = tuple(map(self._word, before))
            for f in operation.masks_written:
                bit = self._bit(state, 2 * getattr(row, f))
                old[f] = (bit and bit.word,)
        elif operation.masks_written and guard_of(state, row.guard) != ALWAYS:
            return None
        found = (*operands.values(), *old.values(), masks.values())
        if any(None in one for one in found):
            return None
        return Made(
            operation=name,
            x=row.x,
            y=0 if "y" in (*operation.masks_read, *operation.masks_written) else row.y,
            operands=tuple(operands.items()),
            masks=tuple(masks.items()),
            guard=self._bit(state, row.guard) if old else None,
            old=tuple(old.items()),
        )

    def _in_common(
        self, at: int, row: MicroOperation, state: Known, known: Any
    ) -> tuple[Known, bool] | None:
        """Results that all lanes have in common, and whether they are written whatever the guard."""
        _, name, _, rows, _ = self.operations[at]
        made = self._made(at, row, state, known) if name in COMPUTING else None
        if made is None:
            return None
        results = [(f, k, self.numbers.word(made, f, k)) for f, n in rows.items() for k in range(n)]
        masks = [(f, self.numbers.word(made, f)) for f in _BY_NUMBER[row.op].masks_written]
        words = [one[-1] for one in results] + [word for _, word in masks]
        rule = RULES.get(name) if made.guard is None and name not in _EXACT else None
        found = None
        if rule is not None and any(self.numbers.number(word) is None for word in words):
            found = rule(self.unassuming, at, row, state, known)
        written: Known = {}
        for field, k, word in results:
            value = found[0][k] if found and field == "d" else ANY
            number = self._fixed(word, usually=value.step is None)
            if number is not None:
                value = Value(STILL, number & 0xFFFFFFFF)
            elif value.step is None:
                value = Value(((word, 1),), None, Name(("at", at)), word=word)
            elif value.step != STILL:
                value = value._replace(word=word)
            written[getattr(row, field) + k] = value
        for k, (field, word) in enumerate(masks):
            carry = found[1][k] if found and k < len(found[1]) else None
            number = self._fixed(word, usually=not isinstance(carry, Carry))
            mask = Decided(word) if number is None else Fixed(bool(number))
            written[~getattr(row, field)] = carry if isinstance(carry, Carry) else mask
        return written, made.guard is not None

    def _fixed(self, word: int, *, usually: bool) -> int | None:
        """The number that a word is, or `usually` also if it is that all over the grid, and groups with another are not copied."""
        number = self.numbers.number(word)
        if number is None and usually and self.assumes:
            number = self.numbers.usual(word)
            if number is not None:
                self.usual[word] = number
        return number

    def _stays(self, values: Any) -> Any:
        """Operands, of which high halves are the same in all groups that are copied; None if it cannot be checked."""
        made: dict[str, list[Value]] = {}
        for field, ones in values.items():
            made[field] = list(ones)
            for k, one in enumerate(ones):
                if not one.is_high:
                    continue
                checks = self.highs.get((one.name, one.is_sign))
                if checks is None:
                    return None
                for (at, kind), step in checks.items():
                    self.check(at, kind, step)
                made[field][k] = Value(STILL, 0 if one.is_sign else None)
        return made

    def _written(self, at: int, row: MicroOperation, state: Known) -> tuple[Known, bool]:
        """What is known of what is written, and whether it is, whatever the guard."""
        _, name, read, *_ = self.operations[at]
        if name == "SELECT" and row.x == 0 and (held := self.outcome(state, row.m)) is not None:
            return {row.d: self.value(state, row.a if held else row.b, row.guard)}, False
        guard = reading(name, row)
        known = {
            f: [self.value(state, getattr(row, f) + k, guard) for k in range(n)]
            for f, n in read.items()
        }
        if name == "ROWS_TO_MASK":
            known["a"] = known["a"][: self.code.lanes // 32]
        in_common = self._in_common(at, row, state, known)
        if in_common is not None:
            return in_common
        self.settle(state, row.guard)
        for field in _BY_NUMBER[row.op].masks_read:
            self.settle(state, getattr(row, field))
        return self._of_lanes(at, row, state, known), False

    def _of_lanes(self, at: int, row: MicroOperation, state: Known, known: Any) -> Known:
        _, name, read, rows, masks = self.operations[at]
        values = [one for ones in known.values() for one in ones]
        same = all(one.step == STILL and not one.is_high for one in values)
        sure = not any(
            unsure(state, getattr(row, field)) for field in _BY_NUMBER[row.op].masks_read
        )
        if name in ("LOAD", "STORE", "ATOMIC"):
            return self._access(at, name, row, state, rows)
        whole = bool(self.code.masks) and all(
            state.get(getattr(row, f) + k, SAME).guard == ALWAYS
            for f in read
            for k in range(len(known[f]))
        )  # of lanes that do not work, too
        if name in _FORBIDDEN and not (name == "ROWS_TO_MASK" and self.code.masks):
            raise _Unmoved
        if name in _DECIDING and not (same and sure):
            raise _Unmoved
        if same and sure and self.assumes and name in TOGETHER and not self.code.masks:
            self.check(at, ALL_LANES, STILL)
            whole = True
        if same and sure and (whole or name not in (*TOGETHER, "ROWS_TO_MASK")):
            results: dict[str, list[Value]] = {field: [SAME] * n for field, n in rows.items()}
            numbers = [one.number for one in values]
            if name in ("MOVE", "MOVE2"):
                results["d"] = known["a"]
            elif name in FOLDED and None not in numbers:
                results["d"] = constant(FOLDED[name](row, *numbers), rows["d"])
            elif name == "MASK_TO_ROWS" and not (row.x | row.m) & 1:
                held = state.get(~(row.m >> 1))
                if isinstance(held, Lanes):
                    results["d"] = [SAME._replace(lanes=held.path)] * rows["d"]
            written = {
                getattr(row, f) + k: one
                for f, ones in results.items()
                for k, one in enumerate(ones)
            }
            return (
                written
                | {~mask: SAME for mask in masks}
                | narrowed(at, name, row, state, self.code.lanes // 32)
            )
        made: dict[int, Any] = {getattr(row, f) + k: ANY for f, n in rows.items() for k in range(n)}
        made |= {~mask: ANY for mask in masks}
        rule = RULES.get(name)
        found = rule(self, at, row, state, known) if rule is not None else None
        if found is None and self.assumes and any(one.is_high for one in values):
            stays = self._stays(known)
            if stays is not None and all(one == SAME for ones in stays.values() for one in ones):
                return dict.fromkeys(made, SAME)
            found = rule(self, at, row, state, stays) if rule is not None and stays else None
        if found is not None:
            made.update({row.d + k: one for k, one in enumerate(found[0])})
            made |= {~mask: one for mask, one in zip(masks, found[1], strict=False)}
        return made

    def _note_local(self, name: str, row: MicroOperation, state: Known) -> None:
        """Notes whether what is written to local memory is the same in all groups; what they take from there then is, too."""
        if name == "LOAD" and row.x & 7 != o.BULK:
            return
        for field, count in widths(name, row)[2].items():
            for k in range(count):
                one = self.value(state, getattr(row, field) + k, row.guard)
                self.fills_local |= one.step != STILL or one.is_high
        self.fills_local |= row.x & 7 not in (o.LOCAL, o.PRIVATE)

    def _access(
        self, at: int, name: str, row: MicroOperation, state: Known, rows: dict[str, int]
    ) -> Known:
        skipped, space = row.x & o.SKIPPED, row.x & 7
        if not skipped and space != o.GLOBAL:
            self._note_local(name, row, state)
        step: Step | None = STILL
        if space == o.GLOBAL:
            step = self.pair(state, row.b, row.guard) if row.b else STILL
            if row.x & o.ADDRESS_32:
                first = self.value(state, row.a, row.guard)
                own: Step | None = STILL if first.step == STILL and not first.is_high else None
            else:
                own = self.pair(state, row.a, row.guard)
            step = None if step is None or own is None else sum_of(step, own, bits=64)
        elif space not in (o.LOCAL, o.PRIVATE) or any(
            self.value(state, one, row.guard).step != STILL for one in (row.a, row.b)
        ):
            step = None
        writes = name != "LOAD" and space == o.GLOBAL
        is_alike = self.assumes and space == o.LOCAL
        if step is None or (not skipped and (writes or (name == "ATOMIC" and not is_alike))):
            raise _Unmoved
        self.steps[at] = step
        if skipped or name == "STORE":
            return {}
        merged = row.x & (o.HIGH_HALF | o.KEEP_HALF)
        if is_alike and not merged:
            self.takes_local = True
            return dict.fromkeys((row.d + k for k in range(rows.get("d", 0))), SAME)
        if space != o.GLOBAL or step != STILL or merged:
            return {row.d + k: ANY for k in range(rows["d"])}
        loaded = [SAME] * rows["d"]  # nothing is written to it
        address = [
            self.value(state, one, row.guard).number for one in (row.a, row.a + 1, row.b, row.b + 1)
        ]
        if None not in address and not row.x & o.ADDRESS_32 and row.x >> o.BYTES & 3 == 0:
            low, high, low_b, high_b = (one or 0 for one in address)
            at_byte = (low | high << 32) + (low_b | high_b << 32) + row.y
            content = self.content(at_byte & (1 << 64) - 1, 4 * rows["d"])
            if content is not None:
                loaded = constant(int.from_bytes(content, "little"), rows["d"])
        return {row.d + k: one for k, one in enumerate(loaded)}


_EXACT = frozenset(
    ["MOVE2", "ABSOLUTE", "COMPARE_S", "COMPARE_U", "MINIMUM_S", "MAXIMUM_S", "SELECT"]
)
"""Operations on numbers that all lanes have in common whose results are axes: rules would check that outcomes stay."""
_BY_NUMBER = {operation.number: operation for operation in OPERATIONS.values()}
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
Content = Callable[[int, int], bytes | None]
"""(address, bytes) -> what is there before and after the launch, None where that is not known."""


def _not_known(address: int, size: int) -> None:
    return None


def movement(
    code: Code,
    constants: Mapping[int, int],
    compute: Compute,
    sample: npt.NDArray[np.int64],
    content: Content = _not_known,
) -> Movement | None:
    """How the accesses of groups move, None if that is not known.

    constants : row -> what all its lanes contain, of the launch;  compute, sample : see PlaceNumbers
    """
    numbers = PlaceNumbers(compute, sample)
    known: Known = {row: Value(STILL, number & 0xFFFFFFFF) for row, number in constants.items()}
    known |= {~mask: Lanes(()) for mask in code.masks}
    for row, special in code.specials.items():
        if special.startswith("group_") and row not in constants:
            axis = "xyz".index(special[-1])
            known[row] = Value(((axis, 1),), None, Name((special, row)), word=axis)
    successors = [use.successors for use in uses_of(code)]
    for assumes in (False, True):
        analysis = Analysis(code, content, numbers, assumes)
        try:
            follow(
                successors,
                dict(known),
                analysis.after,
                analysis.joined,
                _MOST_ROUNDS,
                analysis.taken,
            )
            if not (analysis.takes_local and analysis.fills_local):
                return _movement(analysis)
        except (_Unmoved, TooOften):
            continue
    return None


_ODD = -1
"""The last axis."""


def _movement(analysis: Analysis) -> Movement:
    table, end = analysis.code.table, len(analysis.code.table)
    checks = sorted((key, step) for key, steps in analysis.checks.items() for step in steps)
    checks += [((end, STAYS), ((word, 1),)) for word in sorted(analysis.stays)]
    checks += [((end, STAYS), ((_ODD, 1),))] if analysis.usual else []
    accesses = np.flatnonzero(np.isin(table[:, 0], _ACCESSES)).tolist()
    steps = [analysis.steps.get(k, STILL) for k in accesses]
    used = {axis for step in (*steps, *(step for _, step in checks)) for axis, _ in step}
    words = (*range(N_AXES), *sorted(used - {*range(N_AXES), _ODD}))

    def rows(of: list[Step]) -> npt.NDArray[np.int64]:
        made = np.zeros((len(of), len(words) + 1), np.int64)
        for k, step in enumerate(of):
            for axis, one in step:
                made[k, len(words) if axis == _ODD else words.index(axis)] = one
        return made

    at = np.array([key[0] for key, _ in checks], np.int64)
    return Movement(
        words=words,
        usual=analysis.usual,
        numbers=analysis.numbers,
        steps=rows(steps),
        check_steps=rows([step for _, step in checks]),
        check_kinds=np.array([key[1] for key, _ in checks], np.int32),
        first_check=np.searchsorted(at, np.arange(end + 1)).astype(np.int32),
    )


_ACCESSES = tuple(OPERATIONS[name].number for name in ("LOAD", "STORE", "ATOMIC"))
