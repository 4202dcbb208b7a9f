"""The cost of one sub-group's execution of each access on a machine, from its trace and its replay.

The trace gives the lines, sectors and L1 cycles of an access. The replay gives the levels that serve
its sectors, their latencies, and the bytes that each level moves for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from calib.prediction.hot_lines import hot_line_cycles
from calib.prediction.l1_cycles import Touched, blocks_touched, pipe_cycles
from memsim.latency import dram_latency_cycles, expected_latency_cycles, level_latencies_cycles
from memsim.machine import Dram, Level, Machine
from memsim.montecarlo import Replay
from memsim.report import STORES
from memsim.statistics import MIN_TRIALS, student_t
from memsim.trace import BARRIER_SITE, GRANULE_BYTES, Direction, Trace

Floats = npt.NDArray[np.float64]
DRAM = "DRAM"
BELOW = 1
"""The level that the misses of the first reach."""
N_QUANTILES = 64
_MIDDLES = (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES
"""Of equal parts of a distribution."""
MAX_GRANULES = 1 << 22
"""Granules of a trace that are examined: costs are means, for which a few million suffice."""


@dataclass(frozen=True, kw_only=True)
class AccessCosts:
    """Mean costs over the executions of each site by a sub-group.

    A channel is a resource with a bandwidth that cores share: the loads from a level below the first, the
    stores to such a level, and DRAM, whose one bus carries both. Loads and stores of a level are
    separate channels because the bandwidths of caches are measured with loads alone. A cache on the
    memory's side, into which the level above writes back, has one bus, as DRAM has: on an MI300A,
    kernels that load as much as they store move 4.0 TB/s of it together, and those that only load 4.3
    (sarchlab/mgpusim, gpu_perf_scripts, relu; RRZE-HPC/gpu-benches, gpu-l2-stream).

    sites : names;  loads : (n_site,) bool, whether an instruction can wait for the access
    per_subgroup : (n_site,) executions by one sub-group
    lines : (n_site,) distinct lines; L1 looks up each once
    pipe_cycles : (n_site,) cycles of L1 and the load/store unit; 0 for loads of a scalar unit
    expected_cycles : (n_trial, n_site) the expected latency X; 0 for stores
    served : (n_trial, n_level, n_site) fraction of the sectors that a level or one above it serves
    latency_cycles : (n_trial, n_level + 1) of a hit in each level, then of DRAM
    dram_quantiles_cycles : (n_trial, n) latencies of equally many of DRAM's requests each, ascending
    channel_bytes : (n_trial, n_channel, n_site) bytes that an execution moves on each channel
    channels : names
    channel_bytes_per_cycle : (n_channel,) one core's equal share
    look_ups : (n_trial, n_site) of lines in the level below the first, per execution
    look_ups_per_cycle : one core's equal share; 0 where it is not known
    hot_line_cycles : (n_site,) per execution, of the machine's busiest line of atomic operations
    bulk_lines, bulk_bytes : (n_site,) lines that an execution of a bulk copy touches, row by row of its tile, and the bytes
        of their sectors
    turnaround_cycles : see memsim.machine.Dram.turnaround_cycles_at
    missed_translations : (n_trial, n_site) per execution
    translation_cycles : cycles that a miss occupies a core's address translation; None where the machine
        file does not specify it
    """

    sites: tuple[str, ...]
    loads: npt.NDArray[np.bool_]
    per_subgroup: Floats
    lines: Floats
    pipe_cycles: Floats
    expected_cycles: Floats
    served: Floats
    latency_cycles: Floats
    dram_quantiles_cycles: Floats
    channel_bytes: Floats
    channels: tuple[str, ...]
    channel_bytes_per_cycle: Floats
    look_ups: Floats
    look_ups_per_cycle: float
    hot_line_cycles: Floats
    bulk_lines: Floats
    bulk_bytes: Floats
    turnaround_cycles: float
    missed_translations: Floats
    translation_cycles: float | None = None

    @property
    def n_trials(self) -> int:
        return len(self.latency_cycles)

    def index(self, site: str) -> int:
        return self.sites.index(site)

    def slowest_cycles(self, sites: Sequence[int]) -> Floats:
        """(n_trial,) expected latency of the slowest of these accesses; 0 where there are none.

        A level serves all of them where it, or a level above, has every line that they request. Lines are
        assumed to hit independently of each other.
        """
        if not sites:
            return np.zeros(self.n_trials)
        part, slowest = self._slowest(sites)
        return np.asarray(
            (part[:, :-1] * self.latency_cycles[:, :-1]).sum(axis=1)
            + part[:, -1] * slowest.mean(axis=1)
        )

    def slowest_quantiles_cycles(self, sites: Sequence[int]) -> Floats:
        """(n_trial, N_QUANTILES) latencies of the slowest of these accesses, each in equally many executions."""
        if not sites:
            return np.zeros((self.n_trials, N_QUANTILES))
        part, slowest = self._slowest(sites)
        reached = np.cumsum(part, axis=1)
        quantiles = np.empty((self.n_trials, N_QUANTILES))
        for trial in range(self.n_trials):
            level = np.searchsorted(reached[trial, :-1], _MIDDLES)
            by_dram = level == part.shape[1] - 1
            quantiles[trial] = self.latency_cycles[trial, level]
            within = (_MIDDLES[by_dram] - (1 - part[trial, -1])) / max(part[trial, -1], 1e-9)
            quantiles[trial, by_dram] = np.interp(within, _MIDDLES, slowest[trial])
        return quantiles

    def _slowest(self, sites: Sequence[int]) -> tuple[Floats, Floats]:
        """(n_trial, n_level + 1) probability that a level, or DRAM, serves the slowest line of these accesses, and
        (n_trial, N_QUANTILES) latencies of the slowest of the lines that come from DRAM, where any do."""
        chosen = list(sites)
        lines = self.lines[chosen]
        reached = np.prod(self.served[:, :, chosen] ** lines, axis=2)
        part = np.diff(reached, axis=1, prepend=0.0, append=1.0)
        below = (
            self.served[:, -1, chosen]
            if reached.shape[1]
            else np.zeros((self.n_trials, len(chosen)))
        )
        n_lines = ((1 - below) * lines).sum(axis=1) / np.where(part[:, -1] > 0, part[:, -1], 1)
        highest = _MIDDLES ** (1 / np.maximum(n_lines, 1.0))[:, None]
        slowest = [
            np.interp(at, _MIDDLES, row)
            for at, row in zip(highest, self.dram_quantiles_cycles, strict=True)
        ]
        return part, np.array(slowest)

    def mean_cycles(self, sites: Sequence[int]) -> Floats:
        """(n_trial,) the largest expected latency X of these accesses, each taken alone."""
        if not sites:
            return np.zeros(self.n_trials)
        return np.asarray(self.expected_cycles[:, list(sites)].max(axis=1))


class TraceCosts(NamedTuple):
    """Costs of an execution that the trace alone determines, (n_site,) each.

    written_back : (n_level, n_site) bytes that a level writes to the next one, at least
    hot_line : cycles of the busiest line of atomic operations
    """

    lines: Floats
    sectors: Floats
    pipe_cycles: Floats
    written_back: Floats
    hot_line: Floats


def costs_of_traces(traces: Sequence[Trace], machine: Machine) -> TraceCosts:
    """What of the costs all replays of traces share: those of the first one; of windows, what an access costs in the first
    that has it."""
    costs = trace_costs(traces[0], machine)
    for trace in traces[1:] if traces[0].warming is not None else ():
        lacking = costs.sectors == 0
        if lacking.any():
            others = trace_costs(trace, machine)
            costs = TraceCosts(
                *(np.where(lacking, b, a) for a, b in zip(costs, others, strict=True))
            )
    return costs


def trace_costs(trace: Trace, machine: Machine) -> TraceCosts:
    """What of the costs all replays of a trace on a machine share."""
    hot_line = hot_line_cycles(trace, machine, _n_examined(trace))
    return TraceCosts(*_from_trace(trace, machine), _written_back(trace, machine), hot_line)


def access_costs(
    traces: Trace | Sequence[Trace],
    replay: Replay,
    machine: Machine,
    of_trace: TraceCosts | None = None,
) -> AccessCosts:
    """Costs of every site of a kernel that was replayed on a machine.

    of_trace : `costs_of_traces`, where they are known already
    """
    listed = [traces] if isinstance(traces, Trace) else list(traces)
    first = listed[0]
    n_site = len(first.sites)
    lines, sectors, pipe, written_back, hot_line = of_trace or costs_of_traces(listed, machine)
    dataset = replay.dataset
    executions = dataset["site_accesses"].values.astype(np.float64)
    n_subgroup = dataset.attrs.get(
        "traced_subgroups", sum(trace.n_subgroup for trace in listed)
    )  # with few trials not all traces are replayed
    loads = np.array([site.direction != "store" for site in first.sites])
    expected = expected_latency_cycles(dataset).transpose("trial", "site").values
    tm = dram_latency_cycles(dataset).values.astype(np.float64)
    idle = machine.dram.latency_cycles
    tm = np.where(np.isfinite(tm), tm, idle)
    n_trial = len(tm)
    levels = level_latencies_cycles(dataset) if machine.levels else np.zeros(0)
    latency = np.concatenate([np.tile(levels, (n_trial, 1)), tm[:, None]], axis=1)
    served = _served(dataset, n_trial, len(levels), n_site)
    if not machine.levels:
        expected = np.where(loads, tm[:, None], 0.0)
    counted = _counted(dataset, machine, sectors)
    moved, written = _channel_bytes(dataset, machine, sectors, executions, counted, written_back)
    missed = np.zeros((n_trial, n_site))
    if "missed_translations" in dataset:
        missed = dataset["missed_translations"].transpose("trial", "site").values / np.where(
            counted > 0, counted, 1
        )
    channels = channel_names(machine)
    directions = [site.direction for site in first.sites]
    looked_up = _look_ups(machine, directions, lines, sectors, moved)
    is_bulk = np.array([site.bulk for site in first.sites])
    row_hits = float(dataset["dram_row_hit_ratio"].mean())
    bytes_per_row = math.inf
    if "dram_bytes_per_row" in dataset:
        bytes_per_row = float(dataset["dram_bytes_per_row"].mean())
    return AccessCosts(
        sites=first.site_names,
        loads=loads,
        per_subgroup=executions / max(n_subgroup, 1),
        lines=lines,
        pipe_cycles=pipe,
        expected_cycles=np.where(np.isfinite(expected), expected, 0.0),
        served=served,
        latency_cycles=latency,
        dram_quantiles_cycles=_dram_quantiles(dataset, tm, machine.dram),
        channel_bytes=_on_buses(moved, machine),
        channels=channels,
        channel_bytes_per_cycle=np.array(
            [
                core_bandwidth(machine, channel, row_hits, bytes_per_row, written)
                for channel in channels
            ]
        ),
        look_ups=looked_up,
        look_ups_per_cycle=look_ups_per_cycle(machine),
        hot_line_cycles=hot_line,
        bulk_lines=lines * is_bulk,
        bulk_bytes=GRANULE_BYTES * sectors * is_bulk,
        turnaround_cycles=machine.dram.turnaround_cycles_at(written),
        missed_translations=missed,
        translation_cycles=machine.translation.miss_cycles if machine.translation else None,
    )


def _dram_quantiles(dataset: xr.Dataset, typical: Floats, dram: Dram) -> Floats:
    """(n_trial, N_QUANTILES) of the sampled latencies; the typical one where there is no sample.

    Where DRAM has a queueing model (`queue_cycles`), requests wait for each other in the simulation of a round, and not once
    more in the sample: theirs is the latency of a request that finds no other, of half of them from memory that is farther.
    """
    if dram.queue_cycles:
        unloaded = dram.latency_cycles + dram.row_conflict_cycles
        farther = np.where(_MIDDLES < 0.5, -dram.far_cycles, dram.far_cycles) / 2
        return np.tile(unloaded + farther, (len(typical), 1))
    rows = [sample[np.isfinite(sample)] for sample in dataset["dram_latency_cycles"].values]
    return np.array(
        [
            np.quantile(row, _MIDDLES) if len(row) else np.full(N_QUANTILES, cycles)
            for row, cycles in zip(rows, typical, strict=True)
        ]
    )


def channel_names(machine: Machine) -> tuple[str, ...]:
    """The names of the channels of AccessCosts."""
    named: list[str] = []
    for above, level in pairwise(machine.levels):
        named += [level.name] if _has_one_bus(above) else [level.name, level.name + STORES]
    return (*named, DRAM)


def _has_one_bus(above: Level) -> bool:
    """Whether one bus carries what is loaded from a level and stored to it: `above` it is one that writes back."""
    return above.write_policy == "write_back"


def _on_buses(moved: Floats, machine: Machine) -> Floats:
    """Bytes of loads and of stores to each level, (n_trial, n, n_site), those of one bus added."""
    ways: list[Floats] = []
    for k, above in enumerate(machine.levels[:-1]):
        loaded, stored = moved[:, 2 * k], moved[:, 2 * k + 1]
        ways += [loaded + stored] if _has_one_bus(above) else [loaded, stored]
    return np.stack([*ways, moved[:, -1]], axis=1)


def core_bandwidth(
    machine: Machine,
    channel: str,
    row_hit_ratio: float = math.nan,
    bytes_per_row: float = math.inf,
    written: float = 1.0,
) -> float:
    """Bytes per cycle that each core gets from a channel when all cores share it equally.

    Stores to a level get the bandwidth of loads from it: on-chip networks are as wide in both directions.

    row_hit_ratio : of the requests to DRAM; NaN: that of the stream which determined its bandwidth
    bytes_per_row : for every row that is opened;  written : part of DRAM's bytes
    """
    if channel == DRAM:
        return machine.dram.bandwidth_at(row_hit_ratio, bytes_per_row, written) / machine.n_cores
    name = channel.removesuffix(STORES)
    level = next(level for level in machine.levels if level.name == name)
    return level.bandwidth_bytes_per_cycle / min(level.cores_per_instance, machine.n_cores)


def _served(dataset: xr.Dataset, n_trial: int, n_level: int, n_site: int) -> Floats:
    """(n_trial, n_level, n_site) cumulative hit ratio; a level without accesses adds nothing."""
    served = np.zeros((n_trial, n_level, n_site))
    if not n_level:
        return served
    order = ("trial", "level", "site")
    accesses = dataset["accesses"].transpose(*order).values.astype(np.float64)
    hits = (dataset["hits"] + dataset["pending"]).transpose(*order).values.astype(np.float64)
    missed = np.ones((n_trial, n_site))
    for k in range(n_level):
        missed = missed * (1 - hits[:, k] / np.where(accesses[:, k] > 0, accesses[:, k], 1))
        missed = np.where((accesses[:, k] == 0) & (k == 0), 0.0, missed)
        served[:, k] = 1 - missed
    return served


def _counted(dataset: xr.Dataset, machine: Machine, sectors: Floats) -> Floats:
    """(n_trial, n_site) executions that the replay counted, those after the warm-up."""
    if not machine.levels:
        return np.tile(
            dataset["site_accesses"].values.astype(np.float64), (dataset.sizes["trial"], 1)
        )
    accesses = dataset["accesses"].isel(level=0).transpose("trial", "site").values
    return np.asarray(accesses.astype(np.float64) / np.where(sectors > 0, sectors, 1))


def _channel_bytes(
    dataset: xr.Dataset,
    machine: Machine,
    sectors: Floats,
    executions: Floats,
    counted: Floats,
    written_back: Floats,
) -> tuple[Floats, float]:
    """(n_trial, n_channel, n_site), and the part of DRAM's bytes that is written."""
    order = ("trial", "level", "site")
    if not machine.levels:
        total = (dataset["dram_read_bytes"] + dataset["dram_write_bytes"]).values
        part = float(dataset["dram_write_bytes"].sum() / max(total.sum(), 1))
        # Without caches every requested sector moves; the total shows the size of the bursts.
        requested = sectors * executions
        scale = total / max(float(requested.sum()) * GRANULE_BYTES, 1.0)
        whole = np.where(scale > 0.9, np.maximum(scale, 1.0), 1.0)
        return np.asarray((whole[:, None] * sectors * GRANULE_BYTES)[:, None, :]), part
    read = dataset["read_bytes"].transpose(*order).values
    written = dataset["write_bytes"].transpose(*order).values.astype(np.float64)
    divisor = np.where(counted > 0, counted, 1)
    written = np.maximum(written, written_back * divisor[:, None, :])
    below = [part[:, k] for k in range(len(machine.levels) - 1) for part in (read, written)]
    moved = np.stack([*below, read[:, -1] + written[:, -1]], axis=1)
    per_execution = moved / divisor[:, None, :]
    part = float(written[:, -1].sum() / max(moved[:, -1].sum(), 1.0))
    return np.asarray(np.where((counted > 0)[:, None, :], per_execution, 0.0)), part


def _look_ups(
    machine: Machine,
    directions: Sequence[Direction],
    lines: Floats,
    sectors: Floats,
    moved: Floats,
) -> Floats:
    """(n_trial, n_site) look-ups of an execution in the level below the first, in those of loads.

    A request has what an access misses of one line, but atomic operations are executed sector by sector. Where an
    access misses a part of its sectors, so it does of its lines.
    """
    if len(machine.levels) < BELOW + 1:
        return np.zeros((len(moved), len(directions)))
    level = machine.levels[BELOW]
    missed = (moved[:, 0] + moved[:, 1]) / machine.levels[0].sector_bytes
    part = np.minimum(missed / np.where(sectors > 0, sectors, 1), 1.0)
    each = {"load": lines, "store": level.store_look_ups * lines}
    each["atomic"] = level.atomic_look_ups * sectors
    return np.asarray(part * [each[direction][k] for k, direction in enumerate(directions)])


def look_ups_per_cycle(machine: Machine) -> float:
    """Lines that each core can look up in the level below the first; 0 where that is not known, or there is none."""
    if len(machine.levels) < BELOW + 1:
        return 0.0
    level = machine.levels[BELOW]
    return level.tags_per_cycle / min(level.cores_per_instance, machine.n_cores)


def _n_examined(trace: Trace) -> int:
    """How many accesses, from the first on, have no more than MAX_GRANULES together."""
    last = int(np.searchsorted(trace.granule_offset, MAX_GRANULES, side="right")) - 1
    return min(trace.n_access, max(last, 1))


def _written_back(trace: Trace, machine: Machine) -> Floats:
    """(n_level, n_site) bytes that an execution of a store makes a level write to the next one, at least.

    At the end of a snapshot, a level that writes back still has stored sectors; a short snapshot writes back
    hardly any. Over the launch all of them go on, except those that the last level can keep at the end. Instances
    that see each other's stores only below, as the L2 of a die, keep none (LLVM, User Guide for AMDGPU Backend,
    memory model of gfx942: `buffer_wbl2` where a kernel ends).
    """
    per_execution = np.zeros((len(machine.levels), len(trace.sites)))
    if not machine.levels or not trace.n_access:
        return per_execution
    n_access = _n_examined(trace)
    end = int(trace.granule_offset[n_access])
    if end == 0:  # barriers alone
        return per_execution
    site = np.repeat(trace.site[:n_access], np.diff(trace.granule_offset[: n_access + 1]))
    share = n_access / trace.n_access
    groups = max(len(np.unique(trace.workgroup)) * share, 1.0)
    touched = _n_distinct(trace.granule[:end]) * GRANULE_BYTES
    total = touched * max(trace.launch.n_groups / groups, 1.0) / trace.traced_part
    writes_on = np.array([_written_on(level, total, machine.n_cores) for level in machine.levels])
    for k, described in enumerate(trace.sites):
        if described.direction != "load":
            times = max(int((trace.site[:n_access] == k).sum()), 1)
            stored = _n_distinct(trace.granule[:end][site == k]) * GRANULE_BYTES
            per_execution[:, k] = writes_on * stored / times
    return per_execution


def _written_on(level: Level, touched_bytes: float, n_cores: int) -> float:
    """The part of what is stored in a level that it has written to the next one when a launch has touched so much."""
    if level.write_policy != "write_back":
        return 0.0
    return 1 - min(1.0, level.size_bytes / touched_bytes) * (level.cores_per_instance >= n_cores)


def _n_distinct(values: npt.NDArray[np.int64]) -> int:
    """How many values differ: by hashing, in a tenth of the time that numpy takes to sort."""
    return len(pd.unique(values))


def pipe_half_width(traces: Sequence[Trace], machine: Machine) -> float:
    """Half-width of the 95 % interval of L1's cycles per request, as a part of their mean.

    The traced groups are a sample of the launch's groups; of several snapshots, each is one value, for
    neighbouring groups are alike. Cycles per request are a ratio of two means, whose variance is that of the
    residuals (Cochran, Sampling Techniques, 1977, section 6.4; that of a finite population, section 2.6).
    Requests are what the launch's work is scaled by. 0 where all groups were traced.
    """
    if traces[0].whole:
        return 0.0
    by_group = [_pipe_by_group(trace, machine) for trace in traces]
    n_groups = sum(len(requests) for requests, _ in by_group)
    if len(traces) > 1:
        requests, cycles = np.array([(r.sum(), c.sum()) for r, c in by_group]).T
    else:
        requests, cycles = by_group[0]
    n = len(requests)
    if n < MIN_TRIALS or not cycles.sum():
        return 0.0
    residuals = cycles - requests * cycles.sum() / requests.sum()
    error = math.sqrt(float(residuals @ residuals) / (n - 1) / n) / float(cycles.mean())
    untraced = max(1 - n_groups / traces[0].launch.n_groups, 0.0)
    return student_t(n) * error * math.sqrt(untraced)


def _pipe_by_group(trace: Trace, machine: Machine) -> tuple[Floats, Floats]:
    """Granules and pipe cycles of each examined group."""
    n_access = _n_examined(trace)
    touched = _touched(trace, n_access)
    subgroup = np.searchsorted(trace.subgroup_offset, np.arange(n_access), side="right") - 1
    _, group = np.unique(trace.workgroup[subgroup], return_inverse=True)
    counted = np.diff(touched.offset), _pipe_of_accesses(trace, machine, touched)
    granules, cycles = (np.bincount(group, weights=each).astype(np.float64) for each in counted)
    return granules, cycles


def _touched(trace: Trace, n_access: int) -> Touched:
    """The granules of the first accesses."""
    end = int(trace.granule_offset[n_access])
    return Touched(
        trace.granule_offset[: n_access + 1],
        trace.granule[:end],
        trace.byte_mask[:end],
        trace.lane_groups[:end],
    )


def _pipe_of_accesses(trace: Trace, machine: Machine, touched: Touched) -> Floats:
    """(n_access,) cycles of the load/store unit and L1; 0 of a scalar unit's loads, of bulk copies and of barriers."""
    site = trace.site[: len(touched.offset) - 1]
    itemsize_bytes = np.array([*(described.itemsize_bytes for described in trace.sites), 0])[site]
    others = np.array([*(one.scalar or one.bulk for one in trace.sites), True])[site]
    return np.where(others, 0.0, pipe_cycles(machine, touched, itemsize_bytes))


def _from_trace(trace: Trace, machine: Machine) -> tuple[Floats, Floats, Floats]:
    """Lines, first-level sectors and pipe cycles of an execution, (n_site,) each."""
    level = machine.levels[0] if machine.levels else None
    line = level.line_bytes if level else machine.dram.burst_bytes
    sector = level.sector_bytes if level else GRANULE_BYTES
    n_access = _n_examined(trace)
    site = trace.site[:n_access]
    touched = _touched(trace, n_access)
    lines, sectors = (
        blocks_touched(touched, machine.coalesce_lanes, unit) for unit in (line, sector)
    )
    pipe = _pipe_of_accesses(trace, machine, touched)
    counted = site != BARRIER_SITE
    n_site = len(trace.sites)
    times = np.bincount(site[counted], minlength=n_site)
    means = [
        np.bincount(site[counted], weights=values[counted], minlength=n_site) / np.maximum(times, 1)
        for values in (lines, sectors, pipe)
    ]
    return means[0], means[1], means[2]
