"""What the other models say of a launch that the history does not know: its priors.

A calibrated model is one that `memsim calibrate` fitted on the launch's own device; the uncalibrated
one predicts from the kernel and a machine's file. Both are asked only where the history asks.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from calib.history.answers import NORMAL_95, AskPrior, Prior
from calib.history.key import Key
from calib.history.regression import Question

if TYPE_CHECKING:
    from calib.fitting.saved_model import SavedModel
    from memsim.machine import Machine

UNCALIBRATED_DEVIATION = math.log(2.0)
"""Assumed of the uncalibrated model: two times of three within a factor of two. Say what is known."""


def calibrated(saved: SavedModel, workload: Any) -> AskPrior:
    """A fitted model, asked about this workload: its own interval says how far off it may be.

    It has no answer for another device than it was fitted on, nor where its fit leaves the time open.
    """

    def ask(key: Key, question: Question) -> Prior | None:
        from calib.counting.kernel_arguments import sizes_of
        from calib.features.gather import feature_arrays

        if saved.device and not key.device.startswith(saved.device):
            return None
        features = feature_arrays(saved.model.input_features, workload, sizes_of(workload))
        found = saved.fit.predict(features)
        time_s, high_s = float(found.value), float(found.high)
        if not (time_s > 0.0 and math.isfinite(high_s)):
            return None
        deviation = max(math.log(high_s / time_s) / NORMAL_95, 1e-6)
        name = f" {saved.name}" if saved.name else ""
        return Prior(time_s=time_s, deviation=deviation, kind=f"calibrated model{name}")

    return ask


def uncalibrated(
    workload: Any, machine: Machine, *, deviation: float = UNCALIBRATED_DEVIATION
) -> AskPrior:
    """The model that needs no measurement, asked about this workload on a machine.

    deviation : relative, of how far off it usually is
    """

    def ask(key: Key, question: Question) -> Prior | None:
        import tracegen
        from calib.prediction.prediction import predict

        traces = tracegen.trace_snapshots(workload, machine, snapshots=1)
        time_s = float(predict(workload, traces, machine).timing.estimate.mean)
        return Prior(
            time_s=time_s, deviation=deviation, kind=f"uncalibrated model of {machine.name}"
        )

    return ask


def first_of(*models: AskPrior) -> AskPrior:
    """The first that has an answer: name the calibrated model before the uncalibrated one."""

    def ask(key: Key, question: Question) -> Prior | None:
        for model in models:
            prior = model(key, question)
            if prior is not None:
                return prior
        return None

    return ask
