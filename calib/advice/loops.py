"""Remedies that change loops and the order of groups, or share a work-item's sum among lanes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from calib.advice.facts import Facts
from calib.advice.mapping import swap
from calib.advice.variants import Proposal, Step, step

UNROLLED = (2, 4, 8)
MOST_UNROLLED = 16
MOST_NESTED = 3
STRIPS = (4, 8)
"""Rows of groups that run at the same time."""
LANES = 32


def unrolled(facts: Facts) -> Iterator[Proposal]:
    """Several iterations of a loop at a time, so that their loads are in flight together."""
    for loop in facts.loops:
        extent = facts.extent(loop)
        if extent is not None and 1 < extent <= MOST_UNROLLED:
            steps = (step("lp.tag_inames", {loop: "unr"}),)
            yield Proposal(what=f"unroll {loop}", steps=steps)
        for times in UNROLLED:
            if extent is not None and extent > max(MOST_UNROLLED, times):
                yield Proposal(
                    what=f"unroll {loop} {times} times",
                    steps=(step("lp.split_iname", loop, times, inner_tag="unr"),),
                )


def interchanged(facts: Facts) -> Iterator[Proposal]:
    """Other orders of nested loops."""
    nests = {
        tuple(loop for loop in facts.loops if loop in access.loops) for access in facts.accesses
    }
    for nest in sorted(nests):
        if not 1 < len(nest) <= MOST_NESTED:
            continue
        for order in permutations(nest):
            yield Proposal(
                what=f"loops in the order {', '.join(order)}",
                steps=(step("lp.prioritize_loops", ",".join(order)),),
            )


def swizzled(facts: Facts) -> Iterator[Proposal]:
    """Groups along the other axis of the grid first, or in strips of a few rows."""
    if not {0, 1} <= facts.groups.keys() or len(facts.groups) > 2:
        return
    first, second = facts.groups[0], facts.groups[1]
    yield Proposal(
        what=f"start groups along {second} first", steps=swap(first, second, "g.0", "g.1")
    )
    for rows in STRIPS:
        if (facts.extent(second) or 0) <= rows:
            continue
        yield Proposal(
            what=f"start groups in strips of {rows} along {second}",
            steps=(
                step("advice.untag", first, second),
                step("lp.tag_inames", {first: "g.1"}),
                step("lp.split_iname", second, rows, outer_tag="g.2", inner_tag="g.0"),
            ),
        )


def shared_sum(facts: Facts) -> Iterator[Proposal]:
    """Lanes run along a reduction, whose bounds may be read from memory; rows go to other axes."""
    if list(facts.lanes) != [0]:
        return
    row = facts.lanes[0]
    extent = facts.extent(row)
    for loop in sorted(facts.reductions & set(facts.loops)):
        others = [
            one.id
            for one in facts.kernel.instructions
            if loop not in one.reduction_inames() and row in one.within_inames
        ]
        constant = facts.extent(loop)
        if constant is not None and constant < LANES:
            continue
        for rows in (1, 4):
            if rows > 1 and (extent is None or extent % rows or extent <= rows):
                continue
            steps = [step("advice.untag", row), *_rows(facts, row, rows)]
            steps.append(step("lp.split_iname", loop, LANES, inner_tag="l.0"))
            if constant is None:
                steps.append(step("advice.own_domain", f"{loop}_inner"))
            steps.append(step("lp.split_reduction_inward", f"{loop}_outer"))
            if others:
                which = " or ".join(f"id:{one}" for one in others)
                steps.append(step("lp.add_inames_to_insn", f"{loop}_inner", which))
            yield Proposal(
                what=f"{LANES} lanes for each sum over {loop}, {rows} sum{'s' * (rows > 1)} in a group",
                steps=tuple(steps),
            )


def _rows(facts: Facts, row: str, rows: int) -> list[Step]:
    """Steps that spread the rows of a group over groups with some rows each."""
    grid = f"g.{len(facts.groups)}"
    if rows == 1:
        return [step("lp.tag_inames", {row: grid})]
    return [step("lp.split_iname", row, rows, outer_tag=grid, inner_tag="l.1")]
