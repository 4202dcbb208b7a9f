"""The table of accesses as CSV: one row per site, numbers unrounded, undefined ones empty.

Columns: `site array direction source_line user_file user_line accesses lanes sectors ideal_sectors
useful_byte_ratio share`, `latency_cycles` and for each level `L1_hit_ratio`, each with `_low`, `_high`
(95 % of the mean) and `_sigma`, then `L1_accesses L1_pending_ratio L1_read_bytes L1_write_bytes
L1_cold_misses L1_capacity_misses L1_conflict_misses` and `L1_model_error`. A name that a spreadsheet would
take for a formula begins with an apostrophe.
"""

from __future__ import annotations

import csv
import io
import math
import os
from pathlib import Path

from memsim.files import write_text
from memsim.report.numbers import SiteNumbers, Summary
from memsim.statistics import Estimate
from memsim.visible import visible

_FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r")
MISS_KINDS = ("cold", "capacity", "conflict")


def site_csv(summary: Summary) -> str:
    """The CSV text; sites by share of the load latency, largest first."""
    rows = [_row(site) for site in summary.sites]
    columns = list(dict.fromkeys(name for row in rows for name in row)) or ["site"]
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def write_site_csv(summary: Summary, path: str | os.PathLike[str]) -> Path:
    """Write the CSV text. Raises ResultError where the file cannot be written."""
    return write_text(path, site_csv(summary))


def _row(site: SiteNumbers) -> dict[str, object]:
    row: dict[str, object] = {
        "site": text_cell(site.name),
        "array": text_cell(site.array),
        "direction": site.direction,
        "source_line": _cell(site.source_line),
        "user_file": text_cell(site.user_file),
        "user_line": _cell(site.user_line),
        "accesses": site.accesses,
        "lanes": site.lanes,
        "sectors": site.sectors,
        "ideal_sectors": _cell(site.ideal_sectors),
        "useful_byte_ratio": _cell(site.useful_byte_ratio),
        "share": _cell(site.share.mean),
        **_estimate("latency_cycles", site.latency_cycles),
    }
    for level in site.levels:
        row |= _estimate(f"{level.name}_hit_ratio", level.hit_ratio)
        row[f"{level.name}_accesses"] = _cell(level.accesses)
        row[f"{level.name}_pending_ratio"] = _cell(level.pending_ratio.mean)
        row[f"{level.name}_read_bytes"] = _cell(level.read_bytes)
        row[f"{level.name}_write_bytes"] = _cell(level.write_bytes)
        for kind in MISS_KINDS:
            row[f"{level.name}_{kind}_misses"] = _cell(level.misses.get(kind))
        row[f"{level.name}_model_error"] = _cell(level.model_error)
    return row


def _estimate(name: str, estimate: Estimate) -> dict[str, object]:
    return {
        name: _cell(estimate.mean),
        f"{name}_low": _cell(estimate.low),
        f"{name}_high": _cell(estimate.high),
        f"{name}_sigma": _cell(estimate.sigma),
    }


def text_cell(text: str) -> str:
    """A text that spreadsheets show, and never run as a formula: an apostrophe comes first."""
    return visible(f"'{text}" if text.startswith(_FORMULA_BEGINS) else text)


def _cell(value: float | None) -> object:
    if value is None or not math.isfinite(value):
        return ""
    return value
