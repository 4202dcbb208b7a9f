"""Whether the hit ratios depend on the order in which a core serves its sub-groups, or on whether groups that
begin together stay in step.

A replay has one order within a core (`ReplayOptions.sampler`), and the groups of a snapshot are as far apart in time
as the waves before have left them; its intervals are over the random orderings that this allows. A few orderings under other orders show what
the intervals leave out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from memsim.report.numbers import ORDER_SENSITIVE_SIGMA, Summary
from memsim.report.text import percent


class OrderRange(NamedTuple):
    """The least and the largest load hit ratio of a level over the orders."""

    level: str
    low: float
    high: float


def order_ranges(summary: Summary) -> list[OrderRange]:
    """The levels whose load hit ratio differs under another order by more than the interval shown, by
    more than a single ordering varies (its 95 % prediction interval), and by more than 2 points."""
    if summary.counters != "sector":  # the other orders are counted in sectors
        return []
    ranges = []
    for name in summary.level_names:
        shown = summary.loads_at(name)
        others = [ratios.get(name, math.nan) for ratios in summary.orders.values()]
        others = [ratio for ratio in others if math.isfinite(ratio)]
        if shown is None or not others or not shown.hit_ratio.has_interval:
            continue
        ratio = shown.hit_ratio
        tolerance = max(ratio.half_width * math.sqrt(ratio.n_trials + 1), ORDER_SENSITIVE_SIGMA)
        if max(abs(other - ratio.mean) for other in others) > tolerance:
            ranges.append(OrderRange(name, min(ratio.mean, *others), max(ratio.mean, *others)))
    return ranges


def in_headline(summary: Summary) -> str:
    """`order-sensitive: L1 hits 14 % to 76 %`; empty where the order does not matter."""
    ranges = [
        f"{one.level} hits {percent(one.low, 0)} to {percent(one.high, 0)}"
        for one in order_ranges(summary)
    ]
    return f"order-sensitive: {', '.join(ranges)}" if ranges else ""


def orders_text(summary: Summary) -> str:
    """The load hit ratios under each order, where it matters; otherwise empty."""
    if not order_ranges(summary):
        return ""
    own = {
        name: numbers.hit_ratio.mean
        for name in summary.level_names
        if (numbers := summary.loads_at(name)) is not None
    }
    listed = {str(summary.options.get("sampler", "")): own, **summary.orders}
    rows = [
        f"{order} " + ", ".join(f"{name} {percent(ratio)}" for name, ratio in ratios.items())
        for order, ratios in listed.items()
    ]
    return f"Load hit ratios by order: {'; '.join(rows)}."
