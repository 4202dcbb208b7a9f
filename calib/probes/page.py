"""A survey as one HTML page: a table of the levels, every number with its interval, every curve."""

from __future__ import annotations

import math

from markupsafe import Markup

from calib.probes.chart import STYLE, chart, size_text
from calib.probes.outcome import Finding
from calib.probes.survey import Survey

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em;
  color: #1b1b24; background: #fff }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .3em .6em;
  border-bottom: 1px solid #d7dade; vertical-align: top } td.n { text-align: right; white-space: nowrap }
td.w { white-space: nowrap } .soft { color: #666 } h3 { margin: 2em 0 0 }
p.reading { margin: .2em 0 .6em }
@media (prefers-color-scheme: dark) { body { background: #16181d; color: #e4e6ea }
  td, th { border-color: #3a3f47 } .soft { color: #aaa } }
"""

NAMES = {
    "launch_overhead": "launch of an empty kernel",
    "clock_hz": "clock",
    "memory.latency": "main memory: latency",
    "memory_ns": "main memory: one random address at a time",
    "kernel_memory_ns": "main memory: a group of the traced kernel's requests",
    "memory_bandwidth": "main memory: bandwidth, all cores",
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
    findings = {**_latencies(survey), **book.findings}
    numbers = [(_name(key), *quantity(f), f.how) for key, f in findings.items()]
    rows = Markup("").join(
        Markup('<tr><td>{}</td><td class="n">{}</td><td class="n">{}</td><td>{}</td></tr>').format(
            *row
        )
        for row in sorted(numbers, key=lambda row: (not row[0].startswith("L"), row[0]))
    )
    rows += Markup("").join(
        Markup("<tr><td>{}</td><td colspan=2>{}</td><td>{}</td></tr>").format(
            _name(key), value, how
        )
        for key, (value, how) in book.words.items()
    )
    silent = Markup("").join(
        Markup("<tr><td>{}</td><td>{}</td></tr>").format(probe, why)
        for probe, why in book.silent.items()
    )
    facts = Markup("").join(
        Markup('<tr><td>{}</td><td class="n">{}</td></tr>').format(key, value)
        for key, value in survey.facts.items()
    )
    charts = Markup("").join(
        Markup("<h3>{}</h3><p class='soft reading'>{}</p>{}").format(
            curve.title, curve.reading, chart(curve)
        )
        for curve in book.curves
    )
    return str(
        Markup(
            "<!DOCTYPE html><html lang=en><meta charset=utf-8><title>{0}, measured</title>"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
            "<style>{1}</style><h1>{0}</h1>{6}"
            "<p class=soft>Small kernels were run on the device and timed. A latency is the time per step of a"
            " chain of loads, each of which gives the address of the next. Other programs only make a chain"
            " slower, so the least of many repeats counts. The 95 % interval includes the scatter of repeats,"
            " the resolution of the clock and the grid of sizes.</p>"
            "<h2>Caches</h2>{7}"
            "<h2>All numbers</h2><table><tr><th>quantity</th><th>value</th><th>95 % interval</th><th>method</th></tr>{2}"
            "</table><h2>Not determined</h2><p class=soft>A machine file needs a value for some of these"
            " quantities; it marks such a value as <i>assumed</i>.</p><table>{3}</table><h2>Curves</h2>{4}"
            "<h2>The driver's information</h2><table>{5}</table></html>"
        ).format(
            survey.device,
            Markup(_STYLE + STYLE),
            rows,
            silent or Markup("<tr><td>nothing</td></tr>"),
            charts,
            facts,
            _interrupted(survey),
            _glance(survey),
        )
    )


def _interrupted(survey: Survey) -> Markup:
    if not survey.interrupted:
        return Markup("")
    return Markup("<p><b>Interrupted in '{}'</b>: later probes did not run.</p>").format(
        survey.interrupted
    )


def _glance(survey: Survey) -> Markup:
    """A row for each level and one for memory; a dash is a number that was not determined."""
    caches = survey.hierarchy
    if caches is None:
        return Markup("<p>The pointer chase had no result, so no level is known.</p>")
    findings = {**_latencies(survey), **survey.book.findings}
    rows = Markup("")
    for number in range(1, len(caches.levels) + 1):
        cells = [findings.get(f"levels.L{number}.{key}") for key in _COLUMNS]
        policy = survey.book.words.get(f"L{number} replacement")
        texts = [quantity(cell)[0] if cell else "-" for cell in cells]
        rows += _row([f"L{number}", *texts, policy[0] if policy else "-"])
    bandwidth = findings.get("memory_bandwidth")
    speed = quantity(bandwidth)[0] if bandwidth else "-"
    latency = quantity(findings["memory.latency"])[0]
    rows += _row(["main memory", "", "", "", "", latency, f"{speed}, all cores", ""])
    head = ("", *(NAMES[key] for key in _COLUMNS), "replacement")
    return Markup("<table><tr>{}</tr>{}</table>").format(
        Markup("").join(Markup("<th>{}</th>").format(title) for title in head), rows
    )


def _row(texts: list[str]) -> Markup:
    cells = Markup("").join(Markup("<td class=w>{}</td>").format(text) for text in texts)
    return Markup("<tr>{}</tr>").format(cells)


def _latencies(survey: Survey) -> dict[str, Finding]:
    if survey.hierarchy is None:
        return {}
    latencies = {
        f"levels.L{k}.latency": level.latency_ns
        for k, level in enumerate(survey.hierarchy.levels, 1)
    }
    return {**latencies, "memory.latency": survey.hierarchy.memory_ns}


def _name(key: str) -> str:
    """`levels.L1.size_bytes` -> L1: capacity"""
    if not key.startswith("levels."):
        return NAMES.get(key, key)
    _, level, rest = key.split(".", 2)
    return f"{level}: {NAMES.get(rest, rest)}"


_SCALES = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "Hz": ((1e9, "GHz"), (1e6, "MHz")),
    "bytes/s": ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s")),
}


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
