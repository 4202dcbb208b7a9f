"""Remedies that store an array otherwise: another order of its axes, or longer rows."""

from __future__ import annotations

from collections.abc import Iterator

from calib.advice.facts import Facts
from calib.advice.proposals import Proposal
from calib.advice.variants import Relaid, Step, step

MOST_FIELDS = 16
"""Of a structure: a short last axis is taken for its fields."""


def axis_order(facts: Facts) -> Iterator[Proposal]:
    """Makes the axis along which lanes run the fastest: an array of structures becomes a structure of
    arrays."""
    found: list[tuple[str, tuple[int, ...]]] = []
    for array in facts.arrays:
        order = _order(facts, array)
        if order is not None:
            found.append((array, order))
            yield _reordered(facts, [(array, order)])
    if len(found) > 1:
        yield _reordered(facts, found)


def _order(facts: Facts, array: str) -> tuple[int, ...] | None:
    """Axes from the slowest to the fastest; None where no other order is better for all accesses."""
    if 0 not in facts.lanes or not facts.is_row_major(array):
        return None
    axes = {one.axis_of(facts.lanes[0]) for one in facts.of(array)}
    n = len(facts.kernel.arg_dict[array].shape)
    if len(axes) != 1 or axes <= {None, n - 1}:
        return None
    (lane_axis,) = axes
    return (*(k for k in range(n) if k != lane_axis), lane_axis)  # type: ignore[arg-type]


def _reordered(facts: Facts, chosen: list[tuple[str, tuple[int, ...]]]) -> Proposal:
    steps: list[Step] = []
    layouts: list[Relaid] = []
    phrases = []
    for array, order in chosen:
        n = len(order)
        nesting = {axis: f"N{n - 1 - place}" for place, axis in enumerate(order)}
        steps.append(step("lp.tag_array_axes", array, ",".join(nesting[axis] for axis in range(n))))
        layouts.append(Relaid(array=array, order=order))
        fields = facts.workload.arguments.get(array)
        shape = getattr(fields, "shape", None)
        if shape is not None and shape[-1] <= MOST_FIELDS:
            phrases.append(f"{array} from an array of structures to a structure of arrays")
        else:
            phrases.append(f"{array} stored with axis {order[-1]} fastest")
    return Proposal(what=" and ".join(phrases), steps=tuple(steps), layouts=tuple(layouts))


def padded_pitch(facts: Facts) -> Iterator[Proposal]:
    """Rows that are an element, or a line of 128 bytes, longer."""
    for array in facts.arrays:
        arg = facts.kernel.arg_dict[array]
        if not facts.is_row_major(array) or arg.dtype is None:
            continue
        line = 128 // arg.dtype.itemsize
        for elements in (1, line):
            yield Proposal(
                what=f"rows of {array} padded by {elements} element{'s' * (elements > 1)}",
                steps=(step("advice.pad", array, elements),),
                layouts=(Relaid(array=array, padding=elements),),
            )
