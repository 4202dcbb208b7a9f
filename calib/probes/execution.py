"""The overhead of a launch, the number of groups that run concurrently, and the speed of additions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calib.probes.bench import Bench
from calib.probes.device import Local
from calib.probes.outcome import (
    Finding,
    Floats,
    Notebook,
    Unclear,
    interval_of,
    rate,
    resampled,
    resampled_interval,
)
from memsim.report import number_of, percent

MOST_GROUPS = 4096
MOST_ITEMS = 1 << 20
OPERATIONS_OF_EIGHT_STEPS = 17
STEPS = 1 << 17
MOST_OFF = 0.05
"""Greatest mean relative deviation of the times from a staircase."""


def launch_overhead(bench: Bench, repeats: int = 200) -> Finding:
    """Seconds from the call of an empty kernel to its end."""
    spent = np.array([bench.device.host_s("nothing", 1, 1) for _ in range(repeats)])
    spent = spent[repeats // 10 :]
    low, high = interval_of(np.median(resampled(spent), axis=1))
    return Finding(
        value=float(np.median(spent)),
        low=low,
        high=high,
        unit="s",
        how=f"an empty kernel, from the call to its end, median of {len(spent)}; the least was"
        f" {1e6 * spent.min():.3g} us",
    )


def addition_hz(bench: Bench) -> Finding:
    """Dependent integer operations per second: the clock, where an operation takes one cycle (on CPUs)."""
    operations = STEPS // 8 * OPERATIONS_OF_EIGHT_STEPS
    spent = np.array([_additions_s(bench, 1, 1, 64) for _ in range(40)])
    how = "a chain of dependent integer operations, one per cycle"
    return rate(operations, spent, bench.device.tick_s, "Hz", how)


def _additions_s(bench: Bench, groups: int, items: int, local_bytes: int) -> float:
    spent = bench.device.run(
        "additions", groups * items, items, 1, STEPS, Local(max(local_bytes, 4 * items))
    )
    return max(spent - bench.overhead_s, 0.1 * spent)


def concurrency(
    bench: Bench, book: Notebook, what: str, *, items: int = 1, local_bytes: int = 0
) -> Finding:
    """The number c of groups that run concurrently: n groups take the time of ceil(n / c) groups.

    items : work-items of a group
    local_bytes : local memory of a group; if it is all that a core has, c is the number of cores

    Raises Unclear where no number of groups takes longer than one, or where the times are not a staircase.
    """
    counts = _counts(bench.device.n_units, items)
    table = np.empty((len(counts), 12))
    for r in range(table.shape[1]):
        for k in bench.rng.permutation(len(counts)):
            table[k, r] = _additions_s(bench, int(counts[k]), items, local_bytes)
    least = table.min(axis=1)
    number, last, off = staircase(counts, least)
    clear = number < counts[-1] and off <= MOST_OFF
    book.draw(
        title=f"Concurrent groups: {what}",
        x_label="groups",
        y_label="microseconds",
        x=counts.astype(np.float64),
        y=least * 1e6,
        reading="A staircase: groups that run concurrently take as long as one group; each further"
        " round takes as long again.",
        edges=((float(number), "concurrent"),) if clear else (),
    )
    if number >= counts[-1]:
        raise Unclear(f"{counts[-1]} groups take no longer than one")
    if not clear:
        raise Unclear(
            f"the times deviate by {percent(off, 0)} in the mean from the nearest staircase, that of"
            f" {number_of(number, 'concurrent group')}"
        )
    low, _ = resampled_interval(table, lambda values: staircase(counts, values)[0])
    _, high = resampled_interval(table, lambda values: staircase(counts, values)[1])
    return Finding(
        value=number,
        low=min(low, number),
        high=max(high, last),
        unit="",
        how=f"groups ({what}): the c for which n groups take the time of ceil(n / c), within {percent(off, 1)}",
    )


def _counts(units: int, items: int) -> npt.NDArray[np.int64]:
    """Numbers of groups to try: multiples of the units, and one group more, which begins another round."""
    full = units * np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])
    counts = np.unique(np.concatenate([np.arange(1, 9), units + np.arange(-2, 3), full, full + 1]))
    return counts[(counts > 0) & (counts * items <= MOST_ITEMS) & (counts <= MOST_GROUPS)]


def staircase(counts: npt.NDArray[np.int64], spent: Floats) -> tuple[int, int, float]:
    """(first, last, off): the c in first..last whose rounds ceil(n / c) fit the times best.

    off : mean |log(time / time of a round) - log(rounds)|, with the median as the time of a round, so that a
        disturbed point weighs no more than others
    """
    c = np.arange(1, int(counts[-1]) + 1)
    turns = np.log(-(-counts[None, :] // c[:, None]))
    left = np.log(spent)[None, :] - turns
    off = np.abs(left - np.median(left, axis=1, keepdims=True)).mean(axis=1)
    best = np.flatnonzero(off <= off.min() + 1e-12)
    return int(c[best[0]]), int(c[best[-1]]), float(off.min())
