"""A survey as one HTML page: a table of the levels, every number with its interval, every curve."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import compress
from typing import Any

from markupsafe import Markup

from calib.probes.outcome import Curve, Finding, size_text
from calib.probes.survey import Survey
from memsim import report

NAMES = {
    "launch_overhead": "launch of an empty kernel",
    "clock_hz": "clock",
    "memory.latency": "DRAM: latency",
    "memory_ns": "DRAM: one random address at a time",
    "kernel_memory_ns": "DRAM: a group of the traced kernel's requests",
    "memory_bandwidth": "DRAM: bandwidth, all cores",
    "translation": "pages that address translation covers without extra cost",
    "shared_copies_ns": "a line that another core has loaded",
    "groups_at_once": "concurrent groups of one work-item",
    "full_groups_at_once": "concurrent groups of the largest size",
    "cores": "cores (concurrent groups with all local memory)",
    "size_bytes": "capacity",
    "line_bytes": "line",
    "fill_bytes": "bytes that a miss fetches",
    "latency": "latency",
    "bandwidth": "bandwidth, one core",
    "ways": "ways",
    "L1 write_allocate": "L1: stores allocate a line",
    "L1 write_policy": "L1: stores",
    "shared copies": "copies of other cores' lines",
    "prefetching": "prefetching",
}
"""Keys of findings -> their names on the page."""
_COLUMNS = ("size_bytes", "line_bytes", "fill_bytes", "ways", "latency", "bandwidth")


def page(survey: Survey) -> str:
    """The page, which loads nothing from elsewhere."""
    book = survey.book
    numbers = [(_name(key), *quantity(f), f.how) for key, f in _findings(survey).items()]
    numbers.sort(key=lambda row: (not row[0].startswith("L"), row[0]))
    numbers += [
        (_name(key), value.replace("_", "-"), "", how) for key, (value, how) in book.words.items()
    ]
    charts = report.figures(
        [
            report.figure(curve.title, report.paragraph(curve.reading, "soft small") + chart(curve))
            for curve in book.curves
        ]
    )
    busy = report.paragraph(f"{survey.busy}.".capitalize()) if survey.busy else Markup("")
    silent = [(what, why.removeprefix("not determined: ")) for what, why in book.silent.items()]
    return report.page(
        f"{survey.device}, measured",
        _headline(survey),
        [
            report.Section("Caches", _glance(survey)),
            report.Section(
                "All numbers",
                report.data_table(
                    ("quantity", "value", "95 % interval", "method"), numbers, left=(0, 3)
                ),
            ),
            report.Section("Not determined", _not_determined(silent)),
            report.Section("Curves", charts),
            report.Section(
                "The driver's information",
                report.data_table(
                    ("property", "value"), [_fact(name, v) for name, v in survey.facts.items()]
                ),
                "Driver",
            ),
        ],
        lead=busy + report.paragraph(_METHOD, "soft small"),
    )


_METHOD = (
    "Small kernels were run on the device and timed. A latency is the time per step of a chain of loads,"
    " each of which gives the address of the next. Other programs only make a chain slower, so the least of"
    " many repeats counts. The 95 % interval includes the scatter of repeats, the resolution of the clock"
    " and the grid of sizes."
)


def chart(curve: Curve) -> Markup:
    """A measured curve with the edges that were detected in it."""
    image = report.line_chart(
        [report.Curve(curve.title, curve.x, curve.y)],
        curve.x_label,
        curve.y_label,
        log_x=curve.log_x and bool((curve.x > 0).all()),
        log_y=curve.log_y and not bool((curve.y <= 0).any()),
        edges=curve.edges,
        size_text=size_text if curve.x_label.endswith("bytes") else None,
        joined=curve.joined,
    )
    return report.paragraph("no points", "soft") if image is None else image


def _fact(name: str, value: Any) -> list[str]:
    """A property, with sizes in KiB, MiB or GiB."""
    if name.endswith(", bytes") and isinstance(value, int):
        return [name.removesuffix(", bytes"), report.byte_size(value)]
    return [name, f"{value:,}" if isinstance(value, int) else str(value)]


def _headline(survey: Survey) -> str:
    if survey.interrupted:
        return f"Interrupted in '{survey.interrupted}': later probes did not run."
    if survey.hierarchy is None:
        return "The pointer chase had no result, so no level is known."
    findings = _findings(survey)
    names = [f"L{number}" for number in range(1, len(survey.hierarchy.levels) + 1)]
    keys = [[f"levels.{name}.size_bytes", f"levels.{name}.latency"] for name in names]
    keys.append(["memory.latency", "memory_bandwidth"])
    parts = [
        f"{name} {', '.join(_short(findings[key]) for key in of if key in findings)}"
        for name, of in zip([*names, "DRAM"], keys, strict=True)
    ]
    if silent := len(survey.book.silent):
        parts.append(f"{silent} quantit{'ies' if silent != 1 else 'y'} could not be determined")
    return "; ".join(parts)


def _not_determined(silent: list[tuple[str, str]]) -> Markup:
    if not silent:
        return report.paragraph("Every probe had a result.")
    why = "A machine file needs a value for some of these quantities; it marks such a value as assumed."
    rows = report.data_table(("quantity", "why"), silent, left=(0, 1), sortable=False)
    return report.paragraph(why, "soft small") + rows


def _glance(survey: Survey) -> Markup:
    """A row for each level and one for memory; a dash is a number that was not determined."""
    caches = survey.hierarchy
    if caches is None:
        return report.paragraph("No level is known.")
    findings = _findings(survey)
    rows = []
    for number in range(1, len(caches.levels) + 1):
        cells = [findings.get(f"levels.L{number}.{key}") for key in _COLUMNS]
        policy = survey.book.words.get(f"L{number} replacement")
        texts = [quantity(cell)[0] if cell else report.UNKNOWN for cell in cells]
        rows.append([f"L{number}", *texts, policy[0] if policy else report.UNKNOWN])
    bandwidth = findings.get("memory_bandwidth")
    speed = f"{quantity(bandwidth)[0]}, all cores" if bandwidth else report.UNKNOWN
    latency = quantity(findings["memory.latency"])[0]
    rows.append(["DRAM", *[report.UNKNOWN] * 4, latency, speed, report.UNKNOWN])
    head = ("level", *(NAMES[key] for key in _COLUMNS), "replacement")
    known = [any(row[k] != report.UNKNOWN for row in rows) for k in range(len(head))]
    return report.data_table(
        tuple(compress(head, known)), [list(compress(row, known)) for row in rows], sortable=False
    )


def _findings(survey: Survey) -> dict[str, Finding]:
    """All numbers, the latencies of the hierarchy first."""
    if survey.hierarchy is None:
        return survey.book.findings
    latencies = {
        f"levels.L{k}.latency": level.latency_ns
        for k, level in enumerate(survey.hierarchy.levels, 1)
    }
    return {**latencies, "memory.latency": survey.hierarchy.memory_ns, **survey.book.findings}


def _name(key: str) -> str:
    """`levels.L1.size_bytes` -> L1: capacity"""
    if not key.startswith("levels."):
        return NAMES.get(key, key)
    _, level, rest = key.split(".", 2)
    return f"{level}: {NAMES.get(rest, rest)}"


_SCALES = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
    "Hz": ((1e9, "GHz"), (1e6, "MHz")),
    "bytes/s": ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s")),
}


def _short(finding: Finding) -> str:
    """A value with three digits: 1.37 ns, 32 KiB."""
    value = float(f"{finding.value:.3g}") if finding.unit != "bytes" else finding.value
    return quantity(replace(finding, value=value))[0]


def quantity(finding: Finding) -> tuple[str, str]:
    """(value, interval) as short texts in one unit: 1.361 ns, 1.35 to 1.38 ns."""
    value, low, high, unit = finding.value, finding.low, finding.high, finding.unit
    if unit == "bytes":
        if low == high == value:
            return size_text(value), "exact"
        return size_text(value), f"{size_text(low)} to {size_text(high)}"
    scales = _SCALES.get(unit, ((1.0, unit),))
    scale, name = next((s for s in scales if abs(value) >= s[0]), scales[-1])
    name = f" {name}" if name else ""
    if low == high == value:
        return f"{value / scale:.4g}{name}", "exact"
    return f"{value / scale:.4g}{name}", f"{_plain(low / scale)} to {_plain(high / scale)}{name}"


def _plain(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "unknown"
