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
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import memsim
import tracegen
from calib.counting.control_flow_from_trace import Key, access_key, site_key
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


Simulated = Mapping[str, Mapping[Key, float]]
"""Quantity of `f_sim_...` -> site -> its value in replays of all launches, scaled to the launches; quantities that are
others added up or in another unit are left out. Latencies are summed over sub-group accesses, 0 for stores."""
_DRAM_BYTES = ("dram_read_bytes", "dram_write_bytes")
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
    machine, name = _machine(context), feature.quantity
    level = name.partition("_")[0].upper()
    if name.endswith("sectors") and level not in machine.level_names:
        levels = ", ".join(machine.level_names)
        raise FeatureError(f"{feature}: the machine has no level {level}; it has {levels}")
    parts = {"dram_bytes": _DRAM_BYTES, "latency": ("latency_cycles",)}.get(name, (name,))
    unit = machine.clock_hz if name == "latency" else 1.0
    tables = [result.get(part, {}) for part in parts]
    return float(sum(sum(table.get(key, 0.0) for table in tables) / unit for key in keys))


def _machine(context: EvaluationContext) -> Machine:
    assert context.machine is not None
    return memsim.load_machine(context.machine)


def simulation(kernel: Any, env: Mapping[str, int], context: EvaluationContext) -> Simulated:
    """Traces and replays a kernel at one size; results are cached."""
    machine = _machine(context)
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
        total: defaultdict[str, defaultdict[Key, float]] = defaultdict(lambda: defaultdict(float))
        for trace in traces:
            for quantity, values in _of_launch(trace, machine, context).items():
                for site, value in zip(trace.sites, values.tolist(), strict=True):
                    total[quantity][site_key(site)] += value
        _RESULTS[key] = ((kernel, context.machine), total)
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


def _of_launch(trace: Trace, machine: Machine, context: EvaluationContext) -> dict[str, Floats]:
    """Quantity -> (n_site,) values."""

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
        return {}
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
    found = {
        name: _site_level(data[column])[:, -1] * scale
        for name, column in zip(_DRAM_BYTES, ("read_bytes", "write_bytes"), strict=True)
    }
    for k, level in enumerate(machine.level_names):
        found[f"{level.lower()}_sectors"] = counted[:, k] * scale
        found[f"{level.lower()}_miss_sectors"] = misses[:, k] * scale
    return {**found, "latency_cycles": latency}


def _site_level(values: Any) -> Floats:
    """(n_site, n_level) means over trials."""
    return np.asarray(values.mean("trial").transpose("site", "level").values, np.float64)
