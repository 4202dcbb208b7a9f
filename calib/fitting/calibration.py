"""Calibrates a model file on a device: measures its kernels, counts features and fits the model."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calib.features.context import EvaluationContext
from calib.features.gather import gather_feature_values
from calib.features.table import scale_features_by_output
from calib.fitting.calibrate_options import CalibrateOptions
from calib.fitting.fit import fit_model
from calib.fitting.model_file import ModelFile
from calib.fitting.saved_model import SavedModel, now
from calib.timing import trials as timing


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A fitted model with the timings that it was fitted to.

    timings : kernel name -> its trials
    seconds : duration of the calibration
    """

    saved: SavedModel
    timings: dict[str, timing.KernelTrials]
    seconds: float

    @property
    def timed_s(self) -> float:
        """Seconds in timed launches, without warm-up runs and work of the host."""
        return sum(each.timed_s for each in self.timings.values())

    @property
    def overhead(self) -> float:
        """The time spent outside timed launches, relative to that in them."""
        return self.seconds / self.timed_s - 1


def calibrate(
    file: ModelFile,
    options: CalibrateOptions | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
    **changes: Any,
) -> Calibration:
    """Times and counts a file's measurement kernels on a device and fits its model to them.

    options, changes : a CalibrateOptions, and its fields as keywords, which take precedence
    progress : called with (kernels done, all kernels)

    Raises the errors of counting, timing and fitting, among them FitError if the kernels do not
    determine every parameter.
    """
    options = (options or CalibrateOptions()).replace(**changes)
    start = time.perf_counter()
    timing.look_ahead(options.device)
    file.kernels()  # generated while the device is found; a GPU's differ in their sizes only
    context = timing.find_context(options.device)
    on_gpu = timing.is_gpu(context)
    kernels = file.kernels(on_gpu=on_gpu)
    model = file.model(timing.feature_name(options.device))
    timings: dict[str, timing.KernelTrials] = {}
    table = gather_feature_values(
        model.all_features(),
        kernels,
        context=EvaluationContext(
            cl_context=context,
            timing_trials=options.trials,
            trial_s=options.trial_s,
            statistic=options.statistic,
            seed=options.seed,
        ),
        rounds=options.rounds,
        longest_s=options.longest_s,
        timings=timings,
        progress=progress,
    )
    scaled = scale_features_by_output(table)
    fit = fit_model(
        model, scaled, nonnegative=file.nonnegative, singular="refuse", seed=options.seed
    )
    named = ("trials", "trial_s", "rounds", "statistic", "seed")
    saved = SavedModel(
        fit=fit,
        table=table,
        name=file.name,
        device=timing.device_title(context),
        driver=timing.driver(context),
        date=now(),
        settings={name: getattr(options, name) for name in named}
        | {
            "measure": [list(each.chosen(on_gpu)) for each in file.measure],
            "outliers": {name: list(t.outliers) for name, t in timings.items() if t.outliers},
        },
    )
    return Calibration(saved=saved, timings=timings, seconds=time.perf_counter() - start)
