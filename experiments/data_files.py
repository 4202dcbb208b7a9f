"""The tables in experiments/data: what others measured, and what our full comparisons gave.

A measured table begins with comment lines that name its source. The tables `*_ours.csv` keep the
results of full comparisons, which take minutes: machine files take `model_error_points` from them,
and tests check both against them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import numpy as np

import memsim
from memsim.errors import MemsimError
from memsim.files import write_text

QUANTILE = 0.95
"""The share of the cases whose error is at most model_error_points."""


def rows(name: str) -> list[dict[str, str]]:
    """The rows of a table, without its comment lines. Raises MemsimError where it cannot be read."""
    lines = [line for line in _text(name).splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def source(name: str) -> str:
    """The comment lines of a table as one line: where its numbers come from."""
    return " ".join(line[1:].strip() for line in _text(name).splitlines() if line.startswith("#"))


def _text(name: str) -> str:
    try:
        return resources.files("experiments").joinpath("data", name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MemsimError(f"experiments/data/{name} cannot be read: {error}") from error


def write_results(path: Path, about: str, cases: Sequence[Mapping[str, object]]) -> None:
    """Write cases as CSV below comment lines that describe them and name the version of memsim."""
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
    write_text(path, text.getvalue())


def hit_ratio_error_points(name: str) -> dict[str, float]:
    """Level -> error of the load hit ratio, in points, that QUANTILE of a table's cases do not
    exceed."""
    results = rows(name)
    levels = [key.removesuffix("_points") for key in results[0] if key.endswith("_points")]
    return {
        level: round(
            float(np.quantile([float(r[f"{level}_points"]) for r in results], QUANTILE)), 1
        )
        for level in levels
    }
