"""Hit ratios, costs and times at a size that is not executed, extrapolated from replays of small sizes.

Small sizes are traced and replayed. The costs of a request (hit ratios, bytes from DRAM) are fitted by a
straight line in the logarithm of the size; the interval is Student's for a new observation. The number
of requests comes from exact or learned block counts. For times, small sizes are predicted too: their time per busy
cycle of the units is fitted likewise, and multiplied by the busy cycles at the requested size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from calib.block_counts.sampling import FloatArray, SampleError
from memsim.errors import MemsimError
from memsim.machine import Machine
from memsim.statistics import student_t

LEAST_SIZES = 4
"""Two points determine a line; the others determine its error."""
MOST_LAUNCHES = 16
TRIALS = 8


@dataclass(frozen=True)
class Observed:
    """Replay results of the loads at one small size.

    hit_ratios : by level
    dram_bytes : bytes read from DRAM per request of a sub-group
    dram_latency_cycles : mean
    """

    size: float
    hit_ratios: Mapping[str, float]
    dram_bytes: float
    dram_latency_cycles: float


@dataclass(frozen=True)
class Trend:
    """A quantity at another size, with its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Extrapolated:
    """Costs at a size that is not executed.

    hit_ratios : by level
    latency_cycles : of a load, from the mean hit ratios
    dram_bytes : of all requests;  memory_s : their time at the sustained bandwidth of DRAM
    issue_s : time of the busiest unit
    warning : empty where the size lies within the traced sizes
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
        """A lower bound of the time: that of memory or of the busiest unit, whichever is longer."""
        return Trend(*(max(self.issue_s, value) for value in astuple(self.memory_s)))


def observe(workload: Any, size: float, machine: Machine) -> Observed:
    """Traces and replays every launch of a small workload.

    Raises MemsimError for more than MOST_LAUNCHES launches, or where the workload has no global loads.
    """
    import tracegen
    from calib.whole_replay import whole_replay

    traces = tracegen.trace_launches(workload, machine)
    if len(traces) > MOST_LAUNCHES:
        raise MemsimError(
            f"the workload has {len(traces)} launches at size {size:g}; hit ratios are extrapolated for"
            f" at most {MOST_LAUNCHES}"
        )
    hits = {level.name: 0.0 for level in machine.levels}
    accesses = dict(hits)
    read = requests = latency = 0.0
    for trace in traces:
        replay = whole_replay(trace, machine, trials=TRIALS, seed=0)
        mean = replay.dataset.mean("trial")
        loads = (mean.direction == "load").values
        # A snapshot represents all groups of its launch.
        groups = len(np.unique(trace.workgroup))
        share = trace.launch.n_groups / max(groups, 1)
        for level in hits:
            at = mean.sel(level=level)
            hits[level] += share * float((at.hits + at.pending).values[loads].sum())
            accesses[level] += share * float(at.accesses.values[loads].sum())
        launch_requests = share * float(mean.site_accesses.values[loads].sum())
        requests += launch_requests
        read += share * float(mean.dram_read_bytes)
        latency += launch_requests * float(
            np.nan_to_num(mean.dram_mean_cycles, nan=machine.dram.latency_cycles)
        )
    if not requests:
        raise MemsimError(f"the workload loads nothing from global memory at size {size:g}")
    ratios = {level: hits[level] / accesses[level] if accesses[level] else 0.0 for level in hits}
    return Observed(size, ratios, read / requests, latency / requests)


def extrapolate(
    observed: Sequence[Observed],
    size: float,
    loads: float,
    busy_cycles: Mapping[str, float],
    machine: Machine,
) -> Extrapolated:
    """Costs at a size, extrapolated from observed ones.

    loads : global loads of sub-groups at that size
    busy_cycles : of each unit, summed over all cores

    Raises SampleError for fewer than LEAST_SIZES observed sizes.
    """
    sizes = np.array([each.size for each in observed])
    if len(set(sizes.tolist())) < LEAST_SIZES:
        raise SampleError(
            f"hit ratios are extrapolated from at least {LEAST_SIZES} sizes, got"
            f" {len(set(sizes.tolist()))}"
        )
    ratios = {
        level: trend(sizes, np.array([each.hit_ratios[level] for each in observed]), size, most=1.0)
        for level in observed[0].hit_ratios
    }
    per_request = trend(sizes, np.array([o.dram_bytes for o in observed]), size)
    dram_bytes = Trend(*(loads * value for value in astuple(per_request)))
    speed = machine.dram.usable_bandwidth_bytes_per_cycle * machine.clock_hz
    latency = float(np.mean([o.dram_latency_cycles for o in observed]))
    for level in reversed(machine.levels):
        ratio = ratios[level.name].mean
        latency = ratio * level.latency_cycles + (1 - ratio) * latency
    low, high = sizes.min(), sizes.max()
    warning = ""
    if not low <= size <= high:
        warning = (
            f"hit ratios are extrapolated from {low:g}..{high:g} to {size:g}: where the data outgrow a"
            " cache in between, they leave the trend, and the interval does not include this"
        )
    return Extrapolated(
        size, ratios, latency, dram_bytes,
        Trend(*(value / speed for value in astuple(dram_bytes))),
        max(busy_cycles.values(), default=0.0) / machine.n_cores / machine.clock_hz, warning,
    )  # fmt: skip


def trend(sizes: FloatArray, values: FloatArray, at: float, most: float = np.inf) -> Trend:
    """A least-squares line in log(size), and the 95 % interval of a new observation at `at`.

    The values are limited to 0..most.
    """
    x, n = np.log(sizes), len(sizes)
    centre, spread = x.mean(), float(((x - x.mean()) ** 2).sum())
    slope = float(((x - centre) * (values - values.mean())).sum()) / spread
    away = np.log(at) - centre
    mean = float(values.mean() + slope * away)
    left = values - values.mean() - slope * (x - centre)
    sigma = np.sqrt(float((left**2).sum()) / (n - 2))
    half = student_t(n - 1) * sigma * np.sqrt(1 + 1 / n + away**2 / spread)
    return Trend(*(float(np.clip(v, 0.0, most)) for v in (mean, mean - half, mean + half)))


@dataclass(frozen=True, kw_only=True)
class SmallSize:
    """A predicted size.

    seconds, half_width_s : mean and 95 % half-width over orderings (0 where unknown)
    busy_cycles : summed over all units and cores
    """

    size: float
    seconds: float
    half_width_s: float
    busy_cycles: float


@dataclass(frozen=True, kw_only=True)
class FollowedTime:
    """The extrapolated time: seconds at `size`, its 95 % interval [low_s, high_s], and a warning."""

    size: float
    seconds: float
    low_s: float
    high_s: float
    warning: str


def followed_time(small: Sequence[SmallSize], size: float, busy_cycles: float) -> FollowedTime:
    """The time at a size whose blocks take `busy_cycles`, summed over all units and cores.

    The interval combines, as the root of the sum of squares, the scatter of the small sizes about their
    line and the widest of their intervals over orderings. Raises MemsimError for fewer than
    LEAST_SIZES different sizes.
    """
    sizes = np.array([each.size for each in small])
    if len(np.unique(sizes)) < LEAST_SIZES:
        raise MemsimError(
            f"a time is extrapolated from at least {LEAST_SIZES} sizes, got {len(np.unique(sizes))}"
        )
    per_cycle = np.array([one.seconds / one.busy_cycles for one in small])
    line = trend(sizes, per_cycle, size)
    ordering = max(one.half_width_s / one.busy_cycles for one in small)
    below = np.hypot(line.mean - line.low, ordering)
    above = np.hypot(line.high - line.mean, ordering)
    low, high = float(sizes.min()), float(sizes.max())
    warning = ""
    if not low <= size <= high:
        warning = (
            f"size {size:g} was not replayed: the time per busy cycle is extrapolated from"
            f" {low:g}..{high:g}; where the data outgrow a cache in between, it leaves the trend, and the"
            " interval does not include this"
        )
    return FollowedTime(
        size=size,
        seconds=line.mean * busy_cycles,
        low_s=max(line.mean - below, 0.0) * busy_cycles,
        high_s=(line.mean + above) * busy_cycles,
        warning=warning,
    )
