"""`memsim predict KERNEL --model FILE`: the time of a kernel from a fitted model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calib.commands import check_picture
from calib.commands.count import GENERATOR, kernel_and_sizes
from memsim.commands import check_outputs, console, wrote_json

if TYPE_CHECKING:
    from calib.fitting.breakdown import Breakdown
    from calib.fitting.saved_model import SavedModel


def predict_with_model(
    spec: str,
    model_path: Path,
    settings: Mapping[str, str],
    *,
    plot: Path | None = None,
    json_out: Path | None = None,
) -> int:
    """Prints the named parts of a kernel's predicted time, with its interval; returns the exit code.

    spec : FILE.py:NAME, PACKAGE.MODULE:NAME, or `uipick:GENERATOR`, whose settings are tags
    plot : a .png, .svg or .pdf with a stacked bar;  json_out : the same numbers as JSON
    """
    from calib.features.gather import feature_arrays
    from calib.fitting.breakdown import break_down, draw, uncovered
    from calib.fitting.saved_model import load_model

    check_outputs({"--plot": plot, "--json": json_out}, inputs=(model_path,))
    check_picture("--plot", plot)
    saved = load_model(model_path)
    kernel, env, title = _kernel(spec, settings)
    features = feature_arrays(saved.model.input_features, kernel, env)
    breakdown = break_down(saved.fit, title, features)
    missed = uncovered(saved, kernel, {name: float(v) for name, v in features.items()})
    if not wrote_json(lambda: json.dumps(breakdown.as_json(), indent=1), json_out):
        _show(saved, breakdown)
    if missed:
        shown = ", ".join(missed[:4]) + (", ..." if len(missed) > 4 else "")
        click.echo(
            f"memsim: the model does not count {len(missed)} global accesses of the kernel ({shown});"
            " its prediction leaves them out",
            err=True,
        )
    if plot is not None:
        draw([breakdown], plot)
        click.echo(f"wrote {plot}", err=True)
    return 0


def _kernel(spec: str, settings: Mapping[str, str]) -> tuple[Any, Mapping[str, int], str]:
    """The kernel, its sizes and a title."""
    kernel, sizes = kernel_and_sizes(spec, settings)
    if spec.startswith(GENERATOR):
        return kernel, sizes, kernel.name
    title = " ".join([spec.rpartition(":")[2], *(f"{k}={v}" for k, v in settings.items())])
    return kernel, sizes, title


def _show(saved: SavedModel, breakdown: Breakdown) -> None:
    from memsim.report import PlainTable, percent

    rows = []
    for part in breakdown.parts:
        counts = " ".join(f"{name}={value:.4g}" for name, value in part.features.items())
        share = part.value / breakdown.value if breakdown.value else 0.0
        times = (f"{part.value:.4g}", f"{percent(share, 1)}", f"{part.alone:.4g}")
        rows.append((part.name, part.cost, *times, counts))
    title = f"{breakdown.kernel}: model {saved.name}, {saved.device}, {saved.date}"
    screen = console()
    columns = ("part", "of", "visible, s", "share", "alone, s", "counts")
    screen.print(PlainTable(title, columns, rows))
    screen.print(
        f"{breakdown.value:.4g} s, 95 % interval {breakdown.low:.4g} to {breakdown.high:.4g} s"
    )
