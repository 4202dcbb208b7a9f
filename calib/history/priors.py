"""Priors for launches of which a history has too few samples.

The calibrated model is one that `memsim calibrate` fitted on the launch's device. The uncalibrated one
predicts from the kernel and a machine file. Both are evaluated only where the history needs them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from calib.history.answers import AskPrior, Prior
from calib.history.errors import HistoryError
from calib.history.key import Key
from calib.history.regression import NORMAL_95, Question

if TYPE_CHECKING:
    from calib.fitting.saved_model import SavedModel
    from memsim.machine import Machine

UNCALIBRATED_DEVIATION = math.log(2.0)
"""Assumed error of the uncalibrated model: two of three times are within a factor of two."""


def calibrated(saved: SavedModel, workload: Any) -> AskPrior:
    """A prior from a fitted model; its deviation comes from the model's interval.

    It is None on devices other than the model's, and where the model's interval is unbounded.
    """

    def ask(key: Key, question: Question) -> Prior | None:
        from calib.counting.kernel_arguments import sizes_of
        from calib.features.gather import feature_arrays

        if saved.device and not key.device.startswith(saved.device):
            return None
        features = feature_arrays(saved.model.input_features, workload, sizes_of(workload))
        predicted = saved.fit.predict(features)
        time_s, high_s = float(predicted.value), float(predicted.high)
        if not (time_s > 0.0 and math.isfinite(high_s)):
            return None
        deviation = max(math.log(high_s / time_s) / NORMAL_95, 1e-6)
        name = f" {saved.name}" if saved.name else ""
        return Prior(time_s=time_s, deviation=deviation, kind=f"calibrated model{name}")

    return ask


def uncalibrated(
    workload: Any, machine: Machine, *, deviation: float = UNCALIBRATED_DEVIATION
) -> AskPrior:
    """A prior from the time model that needs no measurement.

    deviation : relative standard deviation of its error

    Raises HistoryError for a machine whose number of cores and clock are assumed, such as the shipped
    `cpu-pocl`: it describes no device, so nothing bounds its error.
    """
    if machine.is_assumed("n_cores") and machine.is_assumed("clock_hz"):
        raise HistoryError(
            f"machine {machine.name} describes no device, for its cores and clock are assumed: measure this"
            " one with 'memsim machines measure', and pass the file"
        )

    def ask(key: Key, question: Question) -> Prior | None:
        import tracegen
        from calib.prediction.prediction import predict

        traces = tracegen.trace_snapshots(workload, machine, snapshots=1)
        time_s = float(predict(traces, machine).timing.estimate.mean)
        kind = f"uncalibrated model of {machine.name}"
        return Prior(time_s=time_s, deviation=deviation, kind=kind, calibrated=False)

    return ask
