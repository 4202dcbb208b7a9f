"""Remedies that store an array otherwise: another order of its axes, or longer rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import loopy as lp
from loopy.symbolic import WalkMapper

from calib.advice.facts import Facts
from calib.advice.variants import Proposal, Relaid, Step, step

MOST_FIELDS = 16
"""Of a structure: a short last axis is taken for its fields."""


def axis_order(facts: Facts) -> Iterator[Proposal]:
    """Makes the axis along which lanes run the fastest: an array of structures becomes a structure of
    arrays."""
    found = [better for array in facts.arrays if (better := _better(facts, array)) is not None]
    for one in found:
        yield _reordered(facts, [one])
    if len(found) > 1:
        yield _reordered(facts, found)


def _better(facts: Facts, array: str) -> Relaid | None:
    """The layout that is better for all accesses to an array; None where there is none."""
    if 0 not in facts.lanes or not facts.is_row_major(array):
        return None
    n = len(facts.kernel.arg_dict[array].shape)
    if n == 1:
        parts = _fields(facts, array)
        return Relaid(array=array, parts=parts, order=(1, 0)) if parts else None
    axes = {one.axis_of(facts.lanes[0]) for one in facts.of(array)}
    if len(axes) != 1 or axes <= {None, n - 1}:
        return None
    (lane_axis,) = axes
    order = (*(k for k in range(n) if k != lane_axis), lane_axis)
    return Relaid(array=array, order=order)  # type: ignore[arg-type]


def _fields(facts: Facts, array: str) -> int:
    """The elements of a structure, where an array with one axis is an array of structures; 0 elsewhere.

    Lanes are so many elements apart, and every index is a multiple of it plus the number of a field.
    """
    lane = facts.lanes[0]
    moving = [one.coefficient(lane) for one in facts.of(array) if lane in one.names]
    steps = {coefficients[0] if coefficients else 0 for coefficients in moving}
    parts = next(iter(steps)) if len(steps) == 1 else 0
    if not isinstance(parts, int) or not 1 < parts <= MOST_FIELDS:
        return 0
    return parts if facts.divides(parts, array) and _splits_evenly(facts, array, parts) else 0


def _splits_evenly(facts: Facts, array: str, parts: int) -> bool:
    """Whether every index along the last axis of an array is `parts` times a number, plus a remainder, which
    Loopy tells apart without a division."""
    axis = len(facts.kernel.arg_dict[array].shape) - 1
    unit = lp.split_array_dim(facts.workload.kernel, (array, axis), parts, auto_split_inames=False)
    after = Facts(replace(facts.workload, kernel=unit), {})
    return not any(_divides(part) for one in after.of(array) for part in one.index)


class _Divisions(WalkMapper):  # type: ignore[misc]
    """Notes whether an expression divides."""

    found = False

    def map_floor_div(self, expr: Any, /, *args: Any, **kwargs: Any) -> None:
        self.found = True

    map_remainder = map_floor_div


def _divides(expression: Any) -> bool:
    walk = _Divisions()
    walk(expression)
    return walk.found


def _reordered(facts: Facts, chosen: list[Relaid]) -> Proposal:
    steps: list[Step] = []
    phrases = []
    for one in chosen:
        array, order = one.array, one.order or ()
        nesting = {axis: f"N{k}" for k, axis in enumerate(reversed(order))}
        if one.parts:
            split = step("lp.split_array_dim", (array, 0), one.parts, auto_split_inames=False)
            steps.append(split)
        tags = ",".join(nesting[axis] for axis in range(len(order)))
        steps.append(step("lp.tag_array_axes", array, tags))
        fields = facts.workload.arguments.get(array)
        shape = getattr(fields, "shape", None)
        if one.parts or (shape is not None and shape[-1] <= MOST_FIELDS):
            phrases.append(f"{array} from an array of structures to a structure of arrays")
        else:
            phrases.append(f"{array} stored with axis {order[-1]} fastest")
    return Proposal(what=" and ".join(phrases), steps=tuple(steps), layouts=tuple(chosen))


def padded_pitch(facts: Facts) -> Iterator[Proposal]:
    """Rows that are an element, or a line of 128 bytes, longer."""
    for array in facts.arrays:
        arg = facts.kernel.arg_dict[array]
        if not facts.is_row_major(array) or len(arg.shape) < 2 or arg.dtype is None:
            continue
        line = 128 // arg.dtype.itemsize
        for elements in (1, line):
            yield Proposal(
                what=f"rows of {array} padded by {elements} element{'s' * (elements > 1)}",
                steps=(step("advice.pad", array, elements),),
                layouts=(Relaid(array=array, padding=elements),),
            )
