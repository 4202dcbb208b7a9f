"""The JSON of a replay, for other programs; `schema-1.json` is its JSON Schema.

Within a schema's version keys may be added, never removed and never given another meaning. An
estimate is `{"mean", "ci95": [low, high], "sigma"}`; what is undefined (the hit ratio of a level
that an access never reaches, the interval of a single trial) is null. `ci95` is symmetric and not
clipped to [0, 1]: the Student-t interval of the mean over trials or, where an estimate has `parts`, what
all of them cover together (half-widths due to the ordering, the place of the snapshot, the past: what
earlier groups left in the caches, and the occupancy). sigma is the spread of single orderings. Ratios are fractions, not per cent.

    schema, kernel, machine, seed, trials
    interrupted          true where fewer trials were completed than requested
    counters             how hits are counted: sector (memsim's own counting), nsight or rocprof
    snapshot             groups, of_groups, granules
    sites[]              by share of the load latency, largest first
        site, array, direction (load, store, atomic), source_line (of the generated OpenCL),
        user_file, user_line
        accesses         sub-group accesses in the snapshot;   lanes   lane accesses
        sectors          requested 32-byte sectors;   ideal_sectors   fewest that could carry the bytes
        sectors_per_access, useful_byte_ratio (distinct requested bytes / bytes of those sectors)
        levels{}         by level name: hit_ratio (pending sectors count as hits), pending_ratio,
                         read_bytes, write_bytes (mean, between this level and the next one down),
                         misses {cold, capacity, conflict} of one ordering, model_error (of the hit
                         ratio, validated on this machine, else null)
        latency_cycles   estimate, its numbers null for a store;   latency_parts_cycles   by level and DRAM
        share            of the kernel's load latency
        order_sensitive  a hit ratio's sigma exceeds 0.02
    levels{}             first level: load; further levels: read (loads), write (stores) and, where
                         the kernel has them, atomic: hit_ratio, pending_ratio, model_error. Where
                         counters is nsight or rocprof, all: whatever the kind.
                         DRAM: read_bytes, write_bytes, latency_cycles, row_hit_ratio
    launch{}             the whole launch: factor by which counts of the snapshot were multiplied,
                         requested_bytes, moved {level below the first or DRAM: read_bytes,
                         write_bytes}, model_error_bytes {the same: of what is read, what the validated
                         error of the hit ratios leaves open; levels that were not validated are left
                         out}, arrays[] (array, size_bytes, times_read from DRAM, moved)
    time{}               of the launch: predicted_s (an estimate over the orderings; null without a time
                         model), model_error (part of the time by which the model may be off), binds (what limits it), floors_s (lower bounds by resource),
                         saved_without_s (how much faster without latency, barriers, ...), what_if[]
                         (changes, time_s, binds), not_hidden (by site: part of its latency that nothing
                         hides), rates[] (name, per_s, peak_per_s, unit, at_most), notes[]
    occupancy{}          groups per core, what limits them, and, where registers are unknown, the load
                         hit ratios over the feasible occupancies (over_feasible); where they are
                         known, those at fewer groups per core (over_groups)
    orders{}             order -> level -> load hit ratio in one ordering with another sampler, or of groups
                         that begin together (`groups in step`), where such were replayed
    order_sensitive{}    level -> [least, largest] load hit ratio over these orders and the replay's own,
                         for the levels where they differ by more than the interval
    provenance{}         versions, platform and host of the trace and of the replay
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from importlib import resources
from typing import Any

from memsim.report.launch_time import LaunchTime
from memsim.report.launch_totals import LaunchTotals, Moved
from memsim.report.numbers import LevelNumbers, SiteNumbers, Summary
from memsim.report.order_sensitivity import order_ranges
from memsim.statistics import Estimate

SCHEMA = 1


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the contract."""
    path = resources.files("memsim.report") / f"schema-{SCHEMA}.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(schema, dict)
    return schema


def to_data(summary: Summary) -> dict[str, Any]:
    """The contract as plain data: dicts, lists, text, finite numbers and None."""
    return {
        "schema": SCHEMA,
        "kernel": summary.kernel,
        "machine": summary.machine.name,
        "seed": summary.seed,
        "trials": summary.n_trials,
        "interrupted": summary.interrupted,
        "counters": summary.counters,
        "snapshot": {
            "groups": summary.traced_groups,
            "of_groups": summary.of_groups,
            "granules": summary.granules,
        },
        "sites": [_site(site) for site in summary.sites],
        "levels": _totals(summary),
        "launch": _launch(summary.launch),
        "time": _time(summary.time),
        "occupancy": _finite(dict(summary.occupancy)),
        "orders": _finite({name: dict(ratios) for name, ratios in summary.orders.items()}),
        "order_sensitive": {one.level: [one.low, one.high] for one in order_ranges(summary)},
        "provenance": _finite(dict(summary.provenance)),
    }


def to_text(summary: Summary) -> str:
    """The contract as JSON text."""
    return json.dumps(to_data(summary), indent=2, allow_nan=False, ensure_ascii=True)


def _site(site: SiteNumbers) -> dict[str, Any]:
    return {
        "site": site.name,
        "array": site.array,
        "direction": site.direction,
        "source_line": site.source_line,
        "user_file": site.user_file or None,
        "user_line": site.user_line,
        "accesses": site.accesses,
        "lanes": site.lanes,
        "sectors": site.sectors,
        "ideal_sectors": _number(site.ideal_sectors),
        "sectors_per_access": _number(site.sectors_per_access),
        "useful_byte_ratio": _number(site.useful_byte_ratio),
        "levels": {
            level.name: {
                **_ratios(level),
                "read_bytes": _number(level.read_bytes),
                "write_bytes": _number(level.write_bytes),
                "misses": dict(level.misses),
            }
            for level in site.levels
        },
        "latency_cycles": estimate_data(site.latency_cycles),
        "latency_parts_cycles": {
            part: _number(cycles) for part, cycles in site.latency_parts.items()
        },
        "share": _number(site.share.mean),
        "order_sensitive": site.is_order_sensitive,
    }


def _totals(summary: Summary) -> dict[str, Any]:
    levels: dict[str, Any] = {name: {} for name in summary.level_names}
    for (name, kind), numbers in summary.totals.items():
        levels[name][kind] = _ratios(numbers)
    dram = summary.dram
    levels["DRAM"] = {
        "read_bytes": estimate_data(dram.read_bytes),
        "write_bytes": estimate_data(dram.write_bytes),
        "latency_cycles": estimate_data(dram.latency_cycles),
        "row_hit_ratio": estimate_data(dram.row_hit_ratio),
    }
    return levels


def _launch(launch: LaunchTotals) -> dict[str, Any]:
    return {
        "factor": estimate_data(launch.factor),
        "requested_bytes": _number(launch.requested_bytes.mean),
        "moved": _moved(launch.moved),
        "model_error_bytes": dict(launch.model_error_bytes),
        "arrays": [
            {
                "array": one.name,
                "size_bytes": one.size_bytes,
                "times_read": _number(one.times_read),
                "moved": _moved(one.moved),
            }
            for one in launch.arrays
        ],
    }


def _time(time: LaunchTime) -> dict[str, Any]:
    return {
        "predicted_s": None if time.seconds is None else estimate_data(time.seconds),
        "model_error": time.model_error,
        "binds": time.binds,
        "floors_s": dict(time.floors_s),
        "saved_without_s": dict(time.saved_s),
        "what_if": [
            {"changes": one.changes, "time_s": one.seconds, "binds": one.binds}
            for one in time.what_if
        ],
        "not_hidden": dict(time.not_hidden),
        "rates": [asdict(rate) for rate in time.rates],
        "notes": list(time.notes),
    }


def _moved(moved: Moved) -> dict[str, Any]:
    return {
        name: {
            "read_bytes": estimate_data(read),
            "write_bytes": estimate_data(moved.write_bytes[name]),
        }
        for name, read in moved.read_bytes.items()
    }


def _ratios(level: LevelNumbers) -> dict[str, Any]:
    return {
        "hit_ratio": estimate_data(level.hit_ratio),
        "pending_ratio": estimate_data(level.pending_ratio),
        "model_error": level.model_error,
    }


def estimate_data(estimate: Estimate) -> dict[str, Any]:
    """An estimate in the form of the contract; without `parts` where one is undefined, as of one trial."""
    known = all(math.isfinite(half_width) for half_width in estimate.parts.values())
    return {
        "mean": _number(estimate.mean),
        "ci95": [_number(estimate.low), _number(estimate.high)],
        "sigma": _number(estimate.sigma),
        **({"parts": dict(estimate.parts)} if estimate.parts and known else {}),
    }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _finite(value: Any) -> Any:
    """Plain data with None in place of numbers that JSON lacks (NaN, infinities)."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float):
        return _number(value)
    return value
