"""Measures an application and predicts it with five models, all from one interleaved series of
trials."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calib.features import (
    EvaluationContext,
    FeatureTable,
    gather_feature_values,
    scale_features_by_output,
)
from calib.fitting import Fit, Model, fit_model, geometric_mean, load_model_file
from calib.kernels import MeasurementKernel
from calib.timing import device_title, feature_name, find_context, is_gpu
from experiments.perflex.applications import (
    APPLICATIONS,
    LINEAR,
    OVERLAP,
    SIMULATED_GMEM,
    Application,
)

MODELS = {
    "linear": "microbenchmarks, equation (7)",
    "overlap": "microbenchmarks, equation (8)",
    "overlap, simulated": "microbenchmarks, equation (8), global memory by simulated features",
    "own": "fitted to the variants at other sizes, one cost for each",
    "own, simulated": "the same with simulated misses",
}
"""The models, and the kernels that they are calibrated with."""


HOST = "cpu-pocl"
"""The machine on which features are simulated: a generic CPU, which was not measured on this
host."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """Extent of the measurements: trials of a kernel over all rounds, and the longest time of a
    round."""

    trials: int
    rounds: int
    longest_s: float


FULL = Effort(trials=48, rounds=8, longest_s=0.1)
QUICK = Effort(trials=6, rounds=2, longest_s=0.05)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One application's measurements and fits.

    table : every measured kernel; its rows are "micro", "own" or "test" according to `part`
    tests : the kernels of the latter, in order
    fits : model -> fit; predicted : model -> (n_test,) seconds
    """

    application: Application
    device: str
    table: FeatureTable
    part: npt.NDArray[np.str_]
    tests: tuple[MeasurementKernel, ...]
    fits: Mapping[str, Fit]
    predicted: Mapping[str, npt.NDArray[np.float64]]

    @property
    def measured(self) -> npt.NDArray[np.float64]:
        """(n_test,) seconds."""
        return np.asarray(self.table.outputs[self.part == "test"], np.float64)

    @property
    def labels(self) -> list[str]:
        """(n_test,) names of the variants."""
        return [self.application.label(kernel) for kernel in self.tests]

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """(n_test,) sizes."""
        return np.array([kernel.variant[self.application.size] for kernel in self.tests], np.int64)

    def errors(self, model: str) -> npt.NDArray[np.float64]:
        """(n_test,) predicted / measured - 1."""
        return self.predicted[model] / self.measured - 1

    def mean_error(self, model: str) -> float:
        """Geometric mean of the relative error."""
        return geometric_mean(np.abs(self.errors(model)))

    def ranked(self, model: str) -> tuple[int, int, int]:
        """Numbers of sizes with the correct order of variants, with the correct fastest variant,
        and of all sizes."""
        order = fastest = 0
        sizes = np.unique(self.sizes)
        for size in sizes:
            rows = self.sizes == size
            true = np.argsort(self.measured[rows])
            predicted = np.argsort(self.predicted[model][rows])
            order += bool((true == predicted).all())
            fastest += bool(true[0] == predicted[0])
        return order, fastest, len(sizes)


@functools.cache
def evaluate(name: str, quick: bool) -> Evaluation:
    """Measure and fit one application. The result is cached, because several figures show it."""
    application = APPLICATIONS[name]
    effort = QUICK if quick else FULL
    file = load_model_file(application.model)
    context = find_context()
    output = feature_name()
    models = _models(application, output, file.costs)
    on_gpu = is_gpu(context)
    groups = {
        "micro": file.kernels(on_gpu=on_gpu),
        **{part: application.kernels(part, on_gpu=on_gpu) for part in ("own", "test")},
    }
    rows = [kernel for each in groups.values() for kernel in each]
    part = np.repeat(list(groups), [len(each) for each in groups.values()])
    features = {f: None for model in models.values() for f in model.input_features}
    table = gather_feature_values(
        (output, *features),
        rows,
        context=EvaluationContext(
            cl_context=context,
            timing_trials=effort.trials,
            statistic="minimum",
            machine=HOST,
            replay_trials=2,
        ),
        rounds=effort.rounds,
        longest_s=effort.longest_s,
    )
    fits, predicted = {}, {}
    for model_name, model in models.items():
        chosen = part == ("own" if model_name.startswith("own") else "micro")
        fits[model_name] = fit_model(
            model,
            scale_features_by_output(table.rows(chosen)),
            nonnegative=True,
            singular="report",
        )
        tested = table.rows(part == "test")
        predicted[model_name] = model.evaluate(fits[model_name], tested.values)
    return Evaluation(
        application=application,
        device=device_title(context),
        table=table,
        part=part,
        tests=tuple(groups["test"]),
        fits=fits,
        predicted=predicted,
    )


def _models(application: Application, output: str, costs: Mapping[str, str]) -> dict[str, Model]:
    own = application.own_costs()
    simulated = "p_l2 * f_sim_l1_miss_sectors + p_below * f_sim_l2_miss_sectors"
    return {
        "linear": Model(output, LINEAR, costs=costs),
        "overlap": Model(output, OVERLAP, costs=costs),
        "overlap, simulated": Model(output, OVERLAP, costs={**costs, "c_gmem": SIMULATED_GMEM}),
        "own": Model(output, own),
        "own, simulated": Model(output, f"{own} + {simulated}"),
    }
