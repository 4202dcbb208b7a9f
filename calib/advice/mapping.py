"""Remedies that choose which iname the lanes of a sub-group run along, and the shape of a group."""

from __future__ import annotations

import math
from collections.abc import Iterator

from calib.advice.facts import Facts
from calib.advice.variants import LEAST_GROUP_ITEMS, MOST_GROUP_ITEMS, Proposal, Step, step

LANES = 32
GRID = ("g.0", "g.1", "g.2")
SHAPES = ((2, 1), (1, 2), (0.5, 1), (1, 0.5), (2, 0.5), (0.5, 2), (4, 0.25), (0.25, 4))
"""Factors of a group's extent along its first and second axis."""


def swapped_lanes(facts: Facts) -> Iterator[Proposal]:
    """Exchanges the first two axes of a group."""
    if {0, 1} <= facts.lanes.keys():
        first, second = facts.lanes[0], facts.lanes[1]
        yield Proposal(
            what=f"let lanes run along {second} instead of {first}",
            steps=swap(first, second, "l.0", "l.1"),
        )


def swap(first: str, second: str, tag: str, other: str) -> tuple[Step, ...]:
    """Steps that exchange the tags of two inames; `tag` was that of the first."""
    return (
        step("advice.untag", first, second),
        step("lp.tag_inames", {first: other, second: tag}),
    )


def other_lanes(facts: Facts) -> Iterator[Proposal]:
    """Gives the lanes to a loop, or to an axis of the grid that has no part in the group."""
    if list(facts.lanes) != [0]:
        return
    old = facts.lanes[0]
    for name in (*facts.loops, *facts.groups.values()):
        extent = facts.extent(name)
        moves = [one for one in facts.accesses if any(one.coefficient(name) or ())]
        partner = any(_is_outer_of(facts, name, old, axis) for axis in facts.groups)
        if name in facts.reductions or extent is None or extent < LANES or not moves or partner:
            continue
        size = min(extent, 128)
        axes = {group: f"g.{axis}" for axis, group in facts.groups.items()}
        free = step("advice.untag", *((old, name) if name in axes else (old,)))
        for outer in dict.fromkeys((axes.get(name, f"g.{len(axes)}"), axes.get(name))):
            rows = f"g.{len(axes) + (outer is not None and name not in axes)}"
            if rows not in GRID:
                continue
            yield Proposal(
                what=f"let lanes run along {name}, and groups along {old}"
                + ("" if outer else f", with a loop over {name}_outer"),
                steps=(
                    free,
                    step("lp.split_iname", name, size, outer_tag=outer, inner_tag="l.0"),
                    step("lp.tag_inames", {old: rows}),
                ),
            )


def group_shape(facts: Facts) -> Iterator[Proposal]:
    """Groups of other sizes and shapes, by splitting and joining the inames of their axes."""
    axes = [axis for axis in (0, 1) if axis in facts.lanes]
    shapes = SHAPES if len(axes) == 2 else ((0.5, 1), (0.25, 1), (2, 1), (4, 1))
    extents = [facts.extent(facts.lanes[axis]) or 0 for axis in axes]
    if not axes or axes[0] != 0:
        return
    deep = [facts.extent(lane) or 0 for axis, lane in facts.lanes.items() if axis not in axes]
    for factors in shapes:
        new = [int(extent * f) for extent, f in zip(extents, factors, strict=False)]
        items = math.prod([*new, *deep])
        exact = all(
            extent * f == int(extent * f) for extent, f in zip(extents, factors, strict=False)
        )
        if not exact or not LEAST_GROUP_ITEMS <= items <= MOST_GROUP_ITEMS:
            continue
        steps: list[Step] = []
        spare = len(facts.groups)
        for axis, factor in zip(axes, factors, strict=False):
            made = _resized(facts, axis, factor, f"g.{spare}")
            spare += factor < 1
            if made is None:
                break
            steps += made
        else:
            shape = " x ".join(map(str, [*new, *deep]))
            yield Proposal(what=f"groups of {shape}", steps=tuple(steps))


def _resized(facts: Facts, axis: int, factor: float, spare: str) -> list[Step] | None:
    """Steps that multiply a group's extent; None where no axis of the grid continues it.

    spare : the first axis of the grid that is not in use, for the rest of what is split; a fourth there is not
    """
    lane = facts.lanes[axis]
    if factor == 1:
        return []
    if factor > 1:
        made = joined(facts, axis, int(factor))
        if made is None:
            return None
        steps, wide = made
        return [*steps, step("lp.tag_inames", {wide: f"l.{axis}"})]
    if spare not in GRID:
        return None
    size = int((facts.extent(lane) or 0) * factor)
    return [
        step("advice.untag", lane),
        step("lp.split_iname", lane, size, outer_tag=spare, inner_tag=f"l.{axis}"),
    ]


def joined(facts: Facts, axis: int, factor: int) -> tuple[list[Step], str] | None:
    """Steps that join the lanes of `factor` neighbouring groups to one iname without a tag, and its name.

    None where no axis of the grid continues the lanes.
    """
    lane = facts.lanes[axis]
    extent = facts.extent(lane)
    for grid_axis, name in facts.groups.items():
        if _is_outer_of(facts, name, lane, grid_axis, extent):
            wide = facts.fresh(f"{lane}_wide")
            return [
                step("advice.untag", name, lane),
                step("lp.split_iname", name, factor, outer_tag=f"g.{grid_axis}"),
                step("lp.join_inames", [f"{name}_inner", lane], wide),
            ], wide
    return None


def _is_outer_of(facts: Facts, name: str, lane: str, axis: int, extent: int | None = None) -> bool:
    """Whether an axis of the grid continues a lane's iname: its coefficient is `extent` times as large."""
    if facts.groups.get(axis) != name:
        return False
    extent = extent or facts.extent(lane)
    together = False
    for access in facts.accesses:
        outer, inner = access.coefficient(name), access.coefficient(lane)
        if outer is None or inner is None:
            continue
        if any(a != extent * b for a, b in zip(outer, inner, strict=True)):
            return False
        together = together or any(inner)
    return together
