"""A remedy that gives each work-item 2 or 4 neighbouring elements, loaded and stored as vectors."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Sequence

import islpy as isl
import loopy as lp

from calib.advice.facts import Facts
from calib.advice.mapping import joined
from calib.advice.variants import LEAST_GROUP_ITEMS, Proposal, Relaid, Step, Variant, step

WIDTHS = (4, 2)
MOST_BYTES = 16
"""The largest vector that a work-item loads at once."""
_COMPONENT = re.compile(r"\.s[0-9a-f]\b")


def vectorised(facts: Facts) -> Iterator[Proposal]:
    """Vectors of neighbouring elements: fewer groups that are as large, or as many of fewer work-items."""
    arrays = _moving(facts)
    if not arrays:
        return
    lane = facts.lanes[0]
    items = math.prod(facts.extent(name) or 0 for name in facts.lanes.values())
    widest = max(facts.kernel.arg_dict[one].dtype.itemsize for one in arrays)
    for width in WIDTHS:
        even = all(facts.divides(width, one) for one in arrays)
        if not even or width * widest > MOST_BYTES:
            continue
        starts = []
        if (larger := joined(facts, 0, width)) is not None:
            starts.append((*larger, "in fewer groups"))
        if items >= width * LEAST_GROUP_ITEMS:
            starts.append(([step("advice.untag", lane)], lane, "in smaller groups"))
        for steps, iname, where in starts:
            proposal = Proposal(
                what=f"vectors of {width} elements along {lane}, {where}",
                steps=(*steps, *_vectors(facts, arrays, iname, width)),
                layouts=tuple(Relaid(array=one, parts=width) for one in arrays),
            )
            if _is_whole(facts, proposal):
                yield proposal


def _moving(facts: Facts) -> list[str]:
    """The arrays along which lanes run; none where a lane's neighbour is not the next element of each."""
    lane = facts.lanes.get(0)
    if lane is None:
        return []
    moving = [one for one in facts.accesses if lane in one.names]
    for one in moving:
        along = one.coefficient(lane)
        next_element = (*(0,) * (len(one.index) - 1), 1)
        if along != next_element or not facts.is_row_major(one.array):
            return []
    return list(dict.fromkeys(one.array for one in moving))


def _vectors(facts: Facts, arrays: Sequence[str], iname: str, width: int) -> list[Step]:
    """Steps that make vectors of `width` iterations of an iname without a tag."""
    steps = [step("lp.assume", f"{name} mod {width} = 0") for name in _sizes(facts, arrays, width)]
    steps.append(step("lp.split_iname", iname, width, outer_tag="l.0", inner_tag="vec"))
    axes = {one: len(facts.kernel.arg_dict[one].shape) for one in arrays}
    steps.append(
        step(
            "lp.split_array_dim",
            [(one, n - 1) for one, n in axes.items()],
            width,
            auto_split_inames=False,
        )
    )
    for n in dict.fromkeys(axes.values()):
        names = ", ".join(one for one in arrays if axes[one] == n)
        order = ",".join([*(f"N{k}" for k in reversed(range(n))), "vec"])
        steps.append(step("lp.tag_array_axes", names, order))
    return steps


def _sizes(facts: Facts, arrays: Sequence[str], width: int) -> list[str]:
    """Sizes that must be multiples of the width, without which each element would be tested."""
    found = []
    for name in dict.fromkeys(str(facts.kernel.arg_dict[one].shape[-1]) for one in arrays):
        assumed = facts.kernel.assumptions
        if name not in facts.sizes:
            continue
        multiples = isl.Set(f"[{name}] -> {{ : {name} mod {width} = 0 }}").align_params(
            assumed.space
        )
        if not assumed.to_set().align_params(multiples.space) <= multiples:
            found.append(name)
    return found


def _is_whole(facts: Facts, proposal: Proposal) -> bool:
    """Whether Loopy makes vectors of all: what it cannot, it takes apart into components."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Loopy says that it takes a vector apart
            workload = Variant(workload=facts.workload).then(proposal.steps).workload
            text = lp.generate_code_v2(workload.kernel).device_code()
    except Exception:  # Loopy has no one error for what it refuses
        return False
    return not _COMPONENT.search(text)
