"""The reach of address translation: how many pages are accessed without extra cost."""

from __future__ import annotations

import numpy as np

from calib.probes.bench import PAGE_BYTES, WORD_BYTES, Bench, Ring
from calib.probes.outcome import Finding, Floats, Notebook, Unclear, resampled_interval
from memsim.report import percent

LEAST_RISE, SLIGHT_RISE = 0.25, 0.04
"""Relative rise of the latency where pages surely, and perhaps, exceed the reach of translation."""


def translation(bench: Bench, book: Notebook, l1_lines: float, line: int) -> Finding:
    """Pages within the reach of address translation, from one line of each of n pages in different sets.

    l1_lines : capacity of the first level in lines. Where half as many pages cost nothing extra, the result
        is unclear, since a rise beyond may be the edge of the first level

    Raises Unclear where the latency has no step before the lines fill the buffer or the first level.
    """
    most = min(bench.bytes // (PAGE_BYTES + line), 2048)
    counts = np.unique(np.geomspace(8, most, 40).astype(int))

    def ring(n: float) -> Ring:
        # The offset within the page grows by a line per page, so that the lines use all sets.
        order = bench.rng.permutation(int(n))
        return (order * PAGE_BYTES + order * line % PAGE_BYTES) // WORD_BYTES

    table = bench.curve(counts.astype(np.float64), ring, rounds=6, seconds=8.0)
    least = table.min(axis=1)
    hit = float(np.median(least[:5]))
    book.draw(
        title="Address translation",
        x_label="pages of 4 KiB",
        x=counts.astype(np.float64),
        y=least,
        reading="One line of each page occupies little of the cache. The rise is the cost of address"
        " translation, where there are more pages than the translation buffer has entries.",
    )

    def first_beyond(values: Floats, rise: float) -> int:
        """The first point from which on all lie this fraction above the plateau."""
        inside = np.flatnonzero(values <= (1 + rise) * hit)
        return int(inside[-1]) + 1 if len(inside) else 0

    at = first_beyond(least, LEAST_RISE)
    if at in (0, len(counts)):
        raise Unclear("one line per page takes the same time for any number of pages")
    if counts[at] > 0.5 * l1_lines:
        raise Unclear(
            f"up to {counts[at - 1]} pages take the same time; beyond, the first level may be full"
        )
    # Where entries are replaced at random, a few too many pages cost less than the clock resolves.
    low, _ = resampled_interval(table, lambda values: first_beyond(values, SLIGHT_RISE))
    _, high = resampled_interval(table, lambda values: first_beyond(values, LEAST_RISE))
    return Finding(
        value=int(counts[at - 1]),
        low=int(counts[max(int(low) - 2, 0)]),
        high=int(counts[min(int(np.ceil(high)), len(counts) - 1)]),
        unit="pages of 4 KiB",
        how=f"one line of each of n pages: the last n before the latency rises by {percent(LEAST_RISE, 0)}",
    )
