"""Cost at a size that never ran: exact or learned counts, and hit ratios that go on as they went.

Small sizes are traced and replayed. What a request costs (hit ratios, bytes from DRAM) is a straight line
in the logarithm of the size, by least squares; its interval is Student's for a new observation. How many
requests there are comes from the counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats

from calib.block_counts.sampling import FloatArray, SampleError
from memsim.errors import MemsimError
from memsim.machine import Machine

LEAST_SIZES = 4
"""Two tell a line, and the others how far it is off."""
MOST_LAUNCHES = 16
TRIALS = 8


@dataclass(frozen=True)
class Observed:
    """What the replays of one small size say of a load.

    hit_ratios : by level;  dram_bytes : read a request of a sub-group;  dram_latency_cycles : mean
    """

    size: float
    hit_ratios: Mapping[str, float]
    dram_bytes: float
    dram_latency_cycles: float


@dataclass(frozen=True)
class Trend:
    """A quantity at another size, with an interval of 95 %."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Beyond:
    """At a size that did not run.

    hit_ratios : by level;  latency_cycles : of a load, with the mean ratios
    dram_bytes : of all requests;  memory_s : they take at what a stream gets of the bandwidth
    issue_s : the busiest unit's cycles;  warning : how far beyond the traced sizes it is
    """

    size: float
    hit_ratios: Mapping[str, Trend]
    latency_cycles: float
    dram_bytes: Trend
    memory_s: Trend
    issue_s: float
    warning: str

    @property
    def least_s(self) -> Trend:
        """No launch is faster than its memory and its busiest unit."""
        return Trend(*(max(self.issue_s, value) for value in _values(self.memory_s)))


def observe(workload: Any, size: float, machine: Machine, seed: int = 0) -> Observed:
    """Traces and replays every launch of a small workload.

    Raises MemsimError where there are more launches than are worth it.
    """
    import memsim
    import tracegen

    traces = tracegen.trace_launches(workload, machine)
    if len(traces) > MOST_LAUNCHES:
        raise MemsimError(
            f"the workload has {len(traces)} launches at size {size:g}; hit ratios are followed for at"
            f" most {MOST_LAUNCHES}"
        )
    hits = {level.name: 0.0 for level in machine.levels}
    asked = dict(hits)
    read = requests = latency = 0.0
    for trace in traces:
        replay = memsim.replay(trace, machine, trials=TRIALS, seed=seed)
        found = replay.dataset.mean("trial")
        loads = (found.direction == "load").values
        # A snapshot stands for all groups of its launch.
        groups = len(np.unique(trace.workgroup))
        share = trace.launch.n_groups / max(groups, 1)
        for level in hits:
            at = found.sel(level=level)
            hits[level] += share * float((at.hits + at.pending).values[loads].sum())
            asked[level] += share * float(at.accesses.values[loads].sum())
        own = share * float(found.site_accesses.values[loads].sum())
        requests += own
        read += share * float(found.dram_read_bytes)
        latency += own * float(
            np.nan_to_num(found.dram_mean_cycles, nan=machine.dram.latency_cycles)
        )
    if not requests:
        raise MemsimError(f"the workload loads nothing from global memory at size {size:g}")
    ratios = {level: hits[level] / asked[level] if asked[level] else 0.0 for level in hits}
    return Observed(size, ratios, read / requests, latency / requests)


def beyond(
    observed: Sequence[Observed],
    size: float,
    loads: float,
    busy_cycles: Mapping[str, float],
    machine: Machine,
) -> Beyond:
    """Cost at a size.

    loads : global loads of sub-groups there;  busy_cycles : of units, all cores together
    Raises SampleError for fewer than four small sizes.
    """
    sizes = np.array([each.size for each in observed])
    if len(set(sizes.tolist())) < LEAST_SIZES:
        raise SampleError(
            f"hit ratios are followed from at least {LEAST_SIZES} sizes, got {len(set(sizes.tolist()))}"
        )
    ratios = {
        level: trend(sizes, np.array([each.hit_ratios[level] for each in observed]), size, most=1.0)
        for level in observed[0].hit_ratios
    }
    each_request = trend(sizes, np.array([o.dram_bytes for o in observed]), size)
    dram_bytes = Trend(*(loads * value for value in _values(each_request)))
    speed = machine.dram.usable_bandwidth_bytes_per_cycle * machine.clock_hz
    latency = float(np.mean([o.dram_latency_cycles for o in observed]))
    for level in reversed(machine.levels):
        ratio = ratios[level.name].mean
        latency = ratio * level.latency_cycles + (1 - ratio) * latency
    low, high = sizes.min(), sizes.max()
    warning = ""
    if not low <= size <= high:
        warning = (
            f"hit ratios are those of {low:g}..{high:g} gone on to {size:g}: where the data outgrow"
            " a cache in between, they break with the trend and no interval knows"
        )
    return Beyond(
        size, ratios, latency, dram_bytes,
        Trend(*(value / speed for value in _values(dram_bytes))),
        max(busy_cycles.values(), default=0.0) / machine.n_cores / machine.clock_hz, warning,
    )  # fmt: skip


def trend(sizes: FloatArray, values: FloatArray, at: float, most: float = np.inf) -> Trend:
    """A line in log(size) and the interval of a new observation at `at`, kept within 0..most."""
    x, n = np.log(sizes), len(sizes)
    centre, spread = x.mean(), float(((x - x.mean()) ** 2).sum())
    slope = float(((x - centre) * (values - values.mean())).sum()) / spread
    away = np.log(at) - centre
    mean = float(values.mean() + slope * away)
    left = values - values.mean() - slope * (x - centre)
    sigma = np.sqrt(float((left**2).sum()) / (n - 2))
    half = float(scipy.stats.t.ppf(0.975, n - 2)) * sigma * np.sqrt(1 + 1 / n + away**2 / spread)
    return Trend(*(float(np.clip(v, 0.0, most)) for v in (mean, mean - half, mean + half)))


def _values(each: Trend) -> tuple[float, float, float]:
    return each.mean, each.low, each.high
