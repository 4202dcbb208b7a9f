"""A remedy that changes which groups run at the same time."""

from __future__ import annotations

from collections.abc import Iterator

from calib.advice.facts import Facts
from calib.advice.mapping import swap
from calib.advice.proposals import Proposal
from calib.advice.variants import step

BLOCKS = (4, 8)


def swizzled(facts: Facts) -> Iterator[Proposal]:
    """Groups along the other axis of the grid first, or in strips of a few rows."""
    if not {0, 1} <= facts.groups.keys() or len(facts.groups) > 2:
        return
    first, second = facts.groups[0], facts.groups[1]
    yield Proposal(
        what=f"start groups along {second} first", steps=swap(first, second, "g.0", "g.1")
    )
    for rows in BLOCKS:
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
