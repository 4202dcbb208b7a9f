"""The command that fits a model to a device: calibrate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from calib.fitting.calibrate_options import CalibrateOptions
from memsim.commands import check_outputs, console, out_option, progress_bar
from memsim.options import command_options

if TYPE_CHECKING:
    from calib.fitting.calibration import Calibration


@click.command()
@click.argument("model", metavar="MODEL")
@command_options(CalibrateOptions)
@out_option("The fitted model, for 'memsim predict'.")
def calibrate(
    model: str,
    options: CalibrateOptions,
    output: Path,
) -> int:
    """Fit a model of time to measurement kernels that run on a device.

    MODEL is a .toml file, or the name of a shipped model: general, matmul, dg, finite_diff.

    \b
    Examples:
      memsim calibrate general -o fitted.json
      memsim calibrate my_model.toml --device pocl --trials 20 -o fitted.json
    """
    from calib.timing import trials as timing

    check_outputs({"--out": output}, inputs=(Path(model),), kinds={"--out": "json"})
    timing.look_ahead(options.device)  # in parallel to the following imports
    from calib.fitting.calibration import calibrate as run
    from calib.fitting.model_file import load_model_file
    from calib.fitting.saved_model import save_model

    file = load_model_file(model)
    with progress_bar("measuring") as progress:
        done = run(file, options, progress=progress)
    save_model(done.saved, output)
    _show(done)
    click.echo(f"wrote {output}", err=True)
    return 0


def _show(done: Calibration) -> None:
    from memsim.report import PlainTable, percent

    saved, fit = done.saved, done.saved.fit
    halves = fit.half_widths()
    rows = [
        (
            name,
            f"{value:.4g}",
            "at its bound" if name in fit.at_bound else f"{halves[name]:.2g}",
            " ".join(saved.model.features_of(name)),
        )
        for name, value in fit.items()
    ]
    title = f"{saved.name} on {saved.device}, {saved.date}"
    screen = console()
    screen.print(PlainTable(title, ("parameter", "value", "± (95 %)", "of"), rows))
    outliers = sum(len(each.outliers) for each in done.timings.values())
    trials = sum(len(each.seconds) for each in done.timings.values())
    screen.print(
        f"{len(saved.table)} kernels, geometric mean error {percent(fit.mean_error, 1)}, largest"
        f" {percent(max(abs(fit.errors)), 0)}; residual {fit.residual_norm:.3g}\n"
        f"{outliers} of {trials} trials are outliers"
        f" ({done.seconds:.1f} s, of them {done.timed_s:.1f} s in timed launches)"
    )
