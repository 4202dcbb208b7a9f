"""Comparisons as JSON: of two replays, and of a replay with a profiler's counters."""

from __future__ import annotations

import json
import math
from typing import Any

from memsim.report.compare import Comparison, Pair
from memsim.report.counters.measurement import LineRow, Measurement, Row
from memsim.report.json_contract import SCHEMA, estimate_data


def changes_data(comparison: Comparison) -> list[dict[str, Any]]:
    """Every quantity that both replays have: of all loads, of the totals of a level, of each access.

    access, level : None where the quantity is not of one access or level
    difference : B - A, with the half-width of its 95 % interval
    differs : whether more than random orderings explain; None where one trial cannot tell
    """
    unit = comparison.latency_unit
    rows = [
        _change(comparison, None, None, f"latency_{unit}", comparison.load_latency),
        _change(comparison, None, None, f"group_latency_{unit}", comparison.group_latency),
        _change(comparison, None, None, "dram_read_bytes_per_group", comparison.dram_read_bytes),
    ]
    rows += [
        _change(comparison, None, level, f"{kind}_hit_ratio", pair)
        for (level, kind), pair in comparison.totals.items()
    ]
    for site in comparison.sites:
        rows.append(_change(comparison, site.name, None, f"latency_{unit}", site.latency))
        rows.append(_change(comparison, site.name, None, "share", site.share))
        rows += [
            _change(comparison, site.name, level, "hit_ratio", pair)
            for level, pair in site.levels.items()
        ]
    return [row for row in rows if row]


def _change(
    comparison: Comparison, access: str | None, level: str | None, quantity: str, pair: Pair
) -> dict[str, Any]:
    if not pair.is_defined:
        return {}
    return {
        "access": access,
        "level": level,
        "quantity": quantity,
        "a": estimate_data(pair.a),
        "b": estimate_data(pair.b),
        "difference": _number(pair.test.difference),
        "half_width": _number(pair.test.half_width),
        "differs": comparison.differs(pair),
    }


def measurement_json(measurement: Measurement) -> str:
    """`{"schema", "kernel", "machine", "tool", "counters", "lines", "notes"}` as JSON text."""
    data = {
        "schema": SCHEMA,
        "kernel": measurement.kernel,
        "machine": measurement.machine,
        "tool": measurement.tool,
        "measured_kernel": measurement.measured_kernel,
        "groups": measurement.n_groups,
        "counters": [_counter(row) for row in measurement.rows],
        "lines": [_line(line) for line in measurement.lines],
        "notes": list(measurement.notes),
    }
    return json.dumps(data, indent=2, allow_nan=False, ensure_ascii=True)


def _counter(row: Row) -> dict[str, Any]:
    return {
        "counter": row.name,
        "level": row.level,
        "what": row.what,
        "unit": row.unit,
        "replay": estimate_data(row.ours),
        "as_counter_counts": estimate_data(row.counted),
        "measured": _number(row.measured),
        "measured_range": [_number(row.low), _number(row.high)],
        "launches": row.n_launches,
        "error": _number(row.error),
        "note": row.note,
    }


def _line(line: LineRow) -> dict[str, Any]:
    return {
        "file": line.file,
        "line": line.line,
        "accesses": list(line.sites),
        "values": [
            {"what": what, "replay": _number(ours), "measured": _number(measured)}
            for what, ours, measured in line.values
        ],
    }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
