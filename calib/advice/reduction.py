"""A remedy for sums of a work-item: 32 lanes share the sum, as in the vector CSR product."""

from __future__ import annotations

from collections.abc import Iterator

from calib.advice.facts import Facts
from calib.advice.proposals import Proposal
from calib.advice.variants import Step, step

LANES = 32


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
