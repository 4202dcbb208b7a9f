"""The JSON of a replay, for other programs; its JSON Schema, `schema-1.json`, explains every key.

Within a schema's version keys may be added, never removed and never given another meaning. What is undefined is null.
Ratios are fractions, not per cent.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from memsim.report.launch_time import LaunchTime
from memsim.report.launch_totals import LaunchTotals, Moved
from memsim.report.numbers import LevelNumbers, SiteNumbers, Summary
from memsim.report.order_sensitivity import order_ranges
from memsim.statistics import Estimate

SCHEMA = 1


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
    return as_text(to_data(summary))


def as_text(data: Any) -> str:
    """Plain data as JSON text; raises ValueError for numbers that JSON lacks."""
    return json.dumps(data, indent=2, allow_nan=False, ensure_ascii=True)


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
        "ideal_sectors": number(site.ideal_sectors),
        "sectors_per_access": number(site.sectors_per_access),
        "useful_byte_ratio": number(site.useful_byte_ratio),
        "levels": {
            level.name: {
                **_ratios(level),
                "read_bytes": number(level.read_bytes),
                "write_bytes": number(level.write_bytes),
                "misses": dict(level.misses),
            }
            for level in site.levels
        },
        "latency_cycles": estimate_data(site.latency_cycles),
        "latency_parts_cycles": {
            part: number(cycles) for part, cycles in site.latency_parts.items()
        },
        "share": number(site.share.mean),
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
        "requested_bytes": number(launch.requested_bytes.mean),
        "moved": _moved(launch.moved),
        "model_error_bytes": dict(launch.model_error_bytes),
        "arrays": [
            {
                "array": one.name,
                "size_bytes": one.size_bytes,
                "times_read": number(one.times_read),
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
        "mean": number(estimate.mean),
        "ci95": [number(estimate.low), number(estimate.high)],
        "sigma": number(estimate.sigma),
        **({"parts": dict(estimate.parts)} if estimate.parts and known else {}),
    }


def number(value: float) -> float | None:
    """None in place of NaN and infinities."""
    return float(value) if math.isfinite(value) else None


def _finite(value: Any) -> Any:
    """Plain data with None in place of numbers that JSON lacks (NaN, infinities)."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float):
        return number(value)
    return value
