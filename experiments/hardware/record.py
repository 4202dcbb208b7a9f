"""What a full comparison found, kept beside what was measured: `experiments/data/*_ours.csv`.

A comparison of all cases takes minutes. Its cases are kept with the errors of hit ratios, from which
machine files take `model_error_points`; tests hold both against it, and a slow one makes it anew.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import memsim
from experiments.hardware.measured import rows

QUANTILE = 0.95
"""model_error_points bound this share of the cases."""


def write_record(path: Path, about: str, cases: Sequence[Mapping[str, object]]) -> None:
    """Cases as CSV under a comment that says what they are and by which version."""
    text = io.StringIO()
    text.write(f"# {about}\n# memsim {memsim.__version__}\n")
    writer = csv.DictWriter(text, list(cases[0]), lineterminator="\n")
    writer.writeheader()
    for case in cases:
        writer.writerow(
            {
                key: f"{value:.5g}" if isinstance(value, float) else value
                for key, value in case.items()
            }
        )
    path.write_text(text.getvalue(), encoding="utf-8")


def recorded_points(name: str) -> dict[str, float]:
    """Level -> points of load hit ratio that QUANTILE of a record's cases keep to, to a tenth."""
    found = rows(name)
    levels = [key.removesuffix("_points") for key in found[0] if key.endswith("_points")]
    return {
        level: round(float(np.quantile([float(r[f"{level}_points"]) for r in found], QUANTILE)), 1)
        for level in levels
    }
