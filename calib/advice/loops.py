"""Remedies that change sequential loops: their order, and unrolling."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from calib.advice.facts import Facts
from calib.advice.proposals import Proposal
from calib.advice.variants import step

UNROLLED = (2, 4, 8)
MOST_UNROLLED = 16
MOST_NESTED = 3


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
