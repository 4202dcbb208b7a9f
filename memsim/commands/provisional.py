"""Provisional results of a replay that goes on: the same table as in the end, after a few orderings."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from memsim.commands.showing import Display
from memsim.montecarlo.result import Replay
from memsim.report import text
from memsim.report.numbers import Summary
from memsim.report.semantics import Semantics
from memsim.report.summary import summarise
from memsim.report.table import AccessTable, lines_of_access

MOST_COST = 0.1
"""Share of the time since the last provisional result that the next one may take."""


def provisional_results(
    shown: Display, counters: Semantics
) -> Callable[[int, Callable[[], Replay]], None]:
    """Shows the first result, and later ones as the number of trials has doubled or, on a terminal, as often
    as that costs a tenth of the time."""
    last_n, last_s, cost_s = 0, 0.0, 0.0

    def tell(n_trials: int, so_far: Callable[[], Replay]) -> None:
        nonlocal last_n, last_s, cost_s
        began = time.monotonic()
        rested = shown.in_place and began - last_s > cost_s / MOST_COST
        if n_trials == last_n or not (rested or n_trials >= 2 * last_n):
            return
        summary = summarise(so_far().recount(counters).dataset)
        if shown.in_place:
            most = shown.rows(lines_of_access(summary, shown.columns))
            rows = dataclasses.replace(summary, sites=summary.sites[:most])
            shown.provisional(_line(summary), AccessTable(rows))
        else:
            shown.provisional(_line(summary))
        last_n, last_s = n_trials, time.monotonic()
        cost_s = last_s - began

    return tell


def _line(summary: Summary) -> str:
    """The result in one line, marked as what it is."""
    ratios = [
        f"{level} {kind} hits {text.percent_estimate(numbers.hit_ratio)}"
        for (level, kind), numbers in summary.totals.items()
        if numbers.hit_ratio.is_defined
    ]
    first = summary.sites[:1]
    most = [
        f"most latency: {one.name}, {text.percent(one.share.mean)}"
        for one in first
        if one.latency_cycles.is_defined
    ]
    parts = "; ".join([*ratios, *most])
    return f"provisional, {summary.n_trials} orderings: {parts}"
