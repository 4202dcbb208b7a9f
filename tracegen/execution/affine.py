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
from tracegen.execution.affine_rules import FOLDED, RULES
from tracegen.execution.code import Code
from tracegen.execution.flow import TooOften, follow
from tracegen.execution.known import (
    ANY,
    SAME,
    STILL,
    Carry,
    Known,
    Lanes,
    Name,
    Step,
    Value,
    constant,
    forget,
    forget_lanes,
    guard_of,
    holds,
    is_still,
    joined,
    lose,
    narrowed,
    reading,
    sum_of,
    unsure,
)
from tracegen.execution.moved import A_UNSIGNED, B_UNSIGNED, C_UNSIGNED
from tracegen.execution.operations import ALWAYS, OPERATIONS, MicroOperation
from tracegen.execution.slicing import uses_of, widths

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


class _Unmoved(Exception):
    """Groups are not told to be alike."""


@dataclasses.dataclass
class Analysis:
    code: Code
    content: Content
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

    def check(self, at: int, kind: int, step: Step) -> None:
        self.checks.setdefault((at, kind), set()).add(step)

    def after(self, at: int, state: Known) -> Known:
        """What is known behind a micro-operation; `state` may be changed."""
        row, masks = self.operations[at][0], self.operations[at][-1]
        if unsure(state, row.guard):
            raise _Unmoved
        written = self._written(at, state)
        guard = guard_of(state, row.guard)
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
                if not isinstance(one, Lanes) and one.guard in changed
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
        if low.step is None or not high.is_high or low.is_high or low.name is None:
            return None
        return high.step if low.name == high.name else None

    def wide(self, at: int, state: Known, field: str, guard: int) -> Step | None:
        """The step of an operand of 64 bits, which may be one of 32 bits that is extended by zeros."""
        row = getattr(self.operations[at][0], field)
        low, high = self.value(state, row, guard), self.value(state, row + 1, guard)
        if high.number != 0 or low.step is None or low.is_high or low.step == STILL:
            return self.pair(state, row, guard)
        self.check(at, {"a": A_UNSIGNED, "b": B_UNSIGNED, "c": C_UNSIGNED}[field], low.step)
        return low.step

    def _written(self, at: int, state: Known) -> Known:
        row, name, read, rows, masks = self.operations[at]
        guard = reading(name, row)
        known = {
            f: [self.value(state, getattr(row, f) + k, guard) for k in range(n)]
            for f, n in read.items()
        }
        if name == "ROWS_TO_MASK":
            known["a"] = known["a"][: self.code.lanes // 32]
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
        if same and sure and (whole or name not in (*_TOGETHER, "ROWS_TO_MASK")):
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
        if found is not None:
            made.update({row.d + k: one for k, one in enumerate(found[0])})
            made |= {~mask: one for mask, one in zip(masks, found[1], strict=False)}
        return made

    def _access(
        self, at: int, name: str, row: MicroOperation, state: Known, rows: dict[str, int]
    ) -> Known:
        skipped, space = row.x & o.SKIPPED, row.x & 7
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
        if step is None or (not skipped and (writes or name == "ATOMIC")):
            raise _Unmoved
        self.steps[at] = step
        if skipped or name == "STORE":
            return {}
        merged = row.x & (o.HIGH_HALF | o.KEEP_HALF)
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


Content = Callable[[int, int], bytes | None]
"""(address, bytes) -> what is there before and after the launch, None where that is not known."""


def _not_known(address: int, size: int) -> None:
    return None


def movement(
    code: Code, constants: Mapping[int, int], content: Content = _not_known
) -> Movement | None:
    """How the accesses of groups move, None if that is not known. constants : row -> what all its lanes contain, of the launch"""
    known: Known = {row: Value(STILL, number & 0xFFFFFFFF) for row, number in constants.items()}
    known |= {~mask: Lanes(()) for mask in code.masks}
    for row, special in code.specials.items():
        if special.startswith("group_"):
            step = tuple(int(axis == special[-1]) for axis in "xyz")
            known[row] = Value(step, None, Name((special, row)))  # type: ignore[arg-type]
    analysis = Analysis(code, content)
    try:
        successors = [use.successors for use in uses_of(code)]
        follow(successors, known, analysis.after, joined, _MOST_ROUNDS)
    except (_Unmoved, TooOften):
        return None
    checks = sorted((key, step) for key, steps in analysis.checks.items() for step in steps)
    at = np.array([key[0] for key, _ in checks], np.int64)
    accesses = np.flatnonzero(np.isin(code.table[:, 0], _ACCESSES)).tolist()
    steps = [analysis.steps.get(k, STILL) for k in accesses]
    return Movement(
        steps=np.array(steps, np.int64).reshape(-1, 3),
        check_steps=np.array([step for _, step in checks], np.int64).reshape(-1, 3),
        check_kinds=np.array([key[1] for key, _ in checks], np.int32),
        first_check=np.searchsorted(at, np.arange(len(code.table) + 1)).astype(np.int32),
    )


_ACCESSES = tuple(OPERATIONS[name].number for name in ("LOAD", "STORE", "ATOMIC"))
