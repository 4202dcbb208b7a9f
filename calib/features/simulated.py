"""Features derived from a replay, such as `f_sim_dram_bytes_tag:aLD`.

A snapshot of each launch is traced for a machine and replayed on it under random orderings
(`memsim.replay`). The quantities of its accesses are scaled to the launch:

    value = mean over trials of (quantity / accesses counted) * accesses of the snapshot
            * groups of the launch / groups traced

The quotient is needed because the part of a snapshot that only warms the caches is not counted.
Launches are replayed separately, each with cold caches. Accesses are those of the source, in its order, but for
those that a compiler would surely remove. Data written but not yet evicted at the end of a snapshot are not counted:
dram_write_bytes is too small if the snapshot writes less than a few times the capacity of the last
cache; larger EvaluationContext.snapshot_groups help.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import memsim
import tracegen
from calib.counting.complete_traces import Key, access_key, site_key
from calib.counting.feature_counts import kernel_counts
from calib.counting.kernel_arguments import sizes_of, workload_of
from calib.counting.language import FeatureError, SimulatedFeature
from calib.features.context import EvaluationContext
from calib.whole_replay import whole_replay
from memsim.errors import KernelError, SnapshotWarning
from memsim.machine import Machine
from memsim.trace import Trace
from tracegen import Workload

Floats = npt.NDArray[np.float64]
KEPT = 64


@dataclass(frozen=True)
class Simulated:
    """Quantities of a kernel's access sites in replays of its launches, scaled to the launches.

    sectors, miss_sectors : level -> site -> number
    read_bytes, write_bytes : site -> bytes between the last cache and DRAM
    latency_cycles : site -> cycles, summed over sub-group accesses; 0 for stores
    """

    sectors: Mapping[str, Mapping[Key, float]]
    miss_sectors: Mapping[str, Mapping[Key, float]]
    read_bytes: Mapping[Key, float]
    write_bytes: Mapping[Key, float]
    latency_cycles: Mapping[Key, float]
    clock_hz: float


_RESULTS: OrderedDict[Any, tuple[Any, Simulated]] = OrderedDict()
"""The latest simulations. The kernel is kept too, so that its id is not reused."""


def simulated(
    feature: SimulatedFeature, kernel: Any, env: Mapping[str, int], context: EvaluationContext
) -> float:
    """The value of a simulated feature at one size.

    Raises FeatureError if the kernel has no such tag or the machine no such level.
    """
    result = simulation(kernel, env, context)
    counts = kernel_counts(kernel)
    sizes = {**sizes_of(workload_of(kernel, env)), **env}
    options = context.count_options(kernel)
    keys = {
        access_key(access)
        for access in counts.matching(feature.accesses, options, sizes)
        if access.memory == "global"
    }
    table = _table(feature, result)
    return float(sum(table.get(key, 0.0) for key in keys))


def simulation(kernel: Any, env: Mapping[str, int], context: EvaluationContext) -> Simulated:
    """Traces and replays a kernel at one size; results are cached."""
    assert context.machine is not None
    machine = context.machine
    machine = memsim.load_machine(machine) if isinstance(machine, str) else machine
    key = (
        id(kernel),
        tuple(sorted(env.items())),
        machine.name,
        id(context.machine) if isinstance(context.machine, Machine) else None,
        context.seed,
        context.replay_trials,
        context.snapshot_groups,
    )
    if key not in _RESULTS:
        traces = _in_source_order(workload_of(kernel, env), machine, context)
        parts = [_of_launch(trace, machine, context) for trace in traces]
        _RESULTS[key] = ((kernel, context.machine), _together(parts))
        while len(_RESULTS) > KEPT:
            _RESULTS.popitem(last=False)
    _RESULTS.move_to_end(key)
    return _RESULTS[key][1]


def _in_source_order(
    workload: Workload, machine: Machine, context: EvaluationContext
) -> list[Trace]:
    """Traces of all launches. Features name accesses of the source, which machine code may merge, widen or leave out."""
    traced = functools.partial(
        tracegen.trace_launches, workload, machine, groups=context.snapshot_groups
    )
    try:
        return traced(tracer="polyhedral")
    except KernelError:  # addresses depend on data, so that the kernel must run
        return traced(tracer="instrumented", context=context.cl_context)


def _of_launch(trace: Trace, machine: Machine, context: EvaluationContext) -> Simulated:
    def replayed(**options: Any) -> Any:
        with warnings.catch_warnings():
            # A small launch cannot be traced any larger.
            warnings.simplefilter("ignore", SnapshotWarning)
            return whole_replay(trace, machine, seed=context.seed, **options)

    if not machine.levels:
        raise FeatureError(
            f"machine {machine.name} has no caches: a replay yields no quantities by access"
        )
    if not trace.sites:  # without accesses to global memory every quantity is 0
        nothing: dict[str, dict[Key, float]] = {name: {} for name in machine.level_names}
        return Simulated(
            sectors=nothing,
            miss_sectors=nothing,
            read_bytes={},
            write_bytes={},
            latency_cycles={},
            clock_hz=machine.clock_hz,
        )
    replay = replayed(trials=context.replay_trials)
    data = replay.dataset
    counted = _site_level(data["accesses"])
    everything = counted
    if not trace.whole:
        # All accesses from the first one; their number does not depend on the order.
        cold = replayed(trials=1, deviation=False, warmup_waves=0)
        everything = _site_level(cold.dataset["accesses"])
    groups = trace.launch.n_groups / max(trace.n_groups, 1)
    first = counted[:, 0]
    scale = groups * np.divide(everything[:, 0], first, out=np.zeros_like(first), where=first > 0)
    misses = counted - _site_level(data["hits"]) - _site_level(data["pending"])
    latency = replay.latency_cycles().mean("trial").values
    latency = np.nan_to_num(latency) * data["site_accesses"].values * groups
    keys = [site_key(site) for site in trace.sites]

    def table(values: Floats) -> dict[Key, float]:
        totals: dict[Key, float] = {}
        for key, value in zip(keys, values.tolist(), strict=True):
            totals[key] = totals.get(key, 0.0) + value
        return totals

    levels = list(replay.level_names)
    return Simulated(
        sectors={name: table(counted[:, k] * scale) for k, name in enumerate(levels)},
        miss_sectors={name: table(misses[:, k] * scale) for k, name in enumerate(levels)},
        read_bytes=table(_site_level(data["read_bytes"])[:, -1] * scale),
        write_bytes=table(_site_level(data["write_bytes"])[:, -1] * scale),
        latency_cycles=table(latency),
        clock_hz=machine.clock_hz,
    )


def _site_level(values: Any) -> Floats:
    """(n_site, n_level) means over trials."""
    return np.asarray(values.mean("trial").transpose("site", "level").values, np.float64)


def _together(parts: list[Simulated]) -> Simulated:
    """The sums over launches."""

    def added(tables: list[Mapping[Key, float]]) -> dict[Key, float]:
        total: dict[Key, float] = {}
        for table in tables:
            for key, value in table.items():
                total[key] = total.get(key, 0.0) + value
        return total

    levels = parts[0].sectors.keys()
    return Simulated(
        sectors={name: added([part.sectors[name] for part in parts]) for name in levels},
        miss_sectors={name: added([part.miss_sectors[name] for part in parts]) for name in levels},
        read_bytes=added([part.read_bytes for part in parts]),
        write_bytes=added([part.write_bytes for part in parts]),
        latency_cycles=added([part.latency_cycles for part in parts]),
        clock_hz=parts[0].clock_hz,
    )


def _table(feature: SimulatedFeature, result: Simulated) -> Mapping[Key, float]:
    name = feature.quantity
    plain: dict[str, Callable[[], Mapping[Key, float]]] = {
        "dram_read_bytes": lambda: result.read_bytes,
        "dram_write_bytes": lambda: result.write_bytes,
        "dram_bytes": lambda: _sum(result.read_bytes, result.write_bytes),
        "latency_cycles": lambda: result.latency_cycles,
        "latency": lambda: {k: v / result.clock_hz for k, v in result.latency_cycles.items()},
    }
    if name in plain:
        return plain[name]()
    level, _, what = name.partition("_")
    tables = result.miss_sectors if what == "miss_sectors" else result.sectors
    if level.upper() not in tables:
        levels = ", ".join(tables) or "none"
        raise FeatureError(f"{feature}: the machine has no level {level.upper()}; it has {levels}")
    return tables[level.upper()]


def _sum(one: Mapping[Key, float], other: Mapping[Key, float]) -> dict[Key, float]:
    return {key: value + other.get(key, 0.0) for key, value in one.items()}
