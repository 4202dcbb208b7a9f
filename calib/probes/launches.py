"""What a launch costs, how many groups run at once, and how fast a chain of additions is."""

from __future__ import annotations

import numpy as np

from calib.probes.bench import Bench
from calib.probes.device import Local
from calib.probes.outcome import (
    Curve,
    Finding,
    Floats,
    Notebook,
    Unclear,
    interval_of,
    resampled_least,
)

MOST_GROUPS = 4096
MOST_ITEMS = 1 << 20
OPERATIONS_OF_EIGHT_STEPS = 17
STEPS = 1 << 17
LONGER = 1.4


def launch_overhead(bench: Bench, repeats: int = 200) -> Finding:
    """Seconds from the call to the end of a kernel that does nothing."""
    spent = np.array([bench.device.host_s("nothing", 1, 1) for _ in range(repeats)])
    spent = spent[repeats // 10 :]
    draws = np.random.default_rng(0).integers(0, len(spent), (200, len(spent)))
    low, high = interval_of(np.median(spent[draws], axis=1))
    return Finding(
        value=float(np.median(spent)),
        low=low,
        high=high,
        unit="s",
        how=f"an empty kernel, from the call to its end, median of {len(spent)}; the least was"
        f" {spent.min():.3g} s",
    )


def addition_hz(bench: Bench) -> Finding:
    """Dependent integer operations a second: the clock, where one takes a cycle (as on CPUs)."""
    operations = STEPS // 8 * OPERATIONS_OF_EIGHT_STEPS
    spent = np.array([_additions_s(bench, 1, 1, 64) for _ in range(40)])
    low, high = interval_of(operations / resampled_least(spent))
    value = operations / float(spent.min())
    return Finding(
        value=value,
        low=min(low, value),
        high=max(high, value),
        unit="Hz",
        how="a chain of dependent integer operations, one a cycle",
    )


def _additions_s(bench: Bench, groups: int, items: int, local_bytes: int) -> float:
    spent = bench.device.run(
        "additions", groups * items, items, 1, STEPS, Local(max(local_bytes, 4 * items))
    )
    return max(spent - bench.overhead_s, 0.1 * spent)


def concurrency(
    bench: Bench, book: Notebook, what: str, *, items: int = 1, local_bytes: int = 0
) -> Finding:
    """Groups that run at once: the most that take as long as one group does.

    items : work-items of a group;  local_bytes : that each group takes; all of it leaves room for one
        group a core, and so counts cores

    Raises Unclear where no number of groups takes longer than one.
    """
    units = bench.device.n_units
    near = np.concatenate([np.arange(1, 9), units + np.arange(-2, 3)])
    counts = np.unique(
        np.concatenate([near, units * np.array([2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])])
    )
    counts = counts[(counts > 0) & (counts * items <= MOST_ITEMS) & (counts <= MOST_GROUPS)]
    table = np.empty((len(counts), 12))
    for r in range(table.shape[1]):
        for k in bench.rng.permutation(len(counts)):
            table[k, r] = _additions_s(bench, int(counts[k]), items, local_bytes)
    least = table.min(axis=1)

    def at_once(values: Floats) -> float:
        beyond = np.flatnonzero(values > LONGER * values[0])
        return float(counts[beyond[0] - 1]) if len(beyond) and beyond[0] else float(counts[-1])

    found = at_once(least)
    book.curves.append(
        Curve(
            title=f"Groups that compute: {what}",
            x_label="groups",
            y_label="s",
            x=counts.astype(np.float64),
            y=least,
            edges=((found, "at once"),) if found < counts[-1] else (),
        )
    )
    if found == counts[-1]:
        raise Unclear(f"{int(found)} groups take no longer than one")
    low, high = interval_of(np.array([at_once(values) for values in resampled_least(table)]))
    return Finding(
        value=found,
        low=min(low, found),
        high=max(high, found),
        unit="",
        how=f"the most groups ({what}) that take less than {LONGER} times as long as one",
    )
