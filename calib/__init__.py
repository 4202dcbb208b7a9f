"""Counted features, calibrated and uncalibrated models of time, block counts, and their history.

`import calib` is cheap: what is heavy is imported when first needed.
"""

from __future__ import annotations

from typing import Any

_HOMES: dict[str, str] = {
    "ALL_GENERATORS": "calib.kernels",
    "EvaluationContext": "calib.features.values",
    "FeatureError": "calib.counting.language",
    "FeatureTable": "calib.features.table",
    "Fit": "calib.fitting.fit",
    "KernelCollection": "calib.kernels",
    "MatchCondition": "calib.kernels",
    "Model": "calib.fitting.model",
    "block_forms": "calib.block_counts.closed_form",
    "count": "calib.counting.counter",
    "counting_check": "calib.counting.check",
    "fit_model": "calib.fitting.fit",
    "gather_feature_values": "calib.features.gather",
    "load_model": "calib.fitting.saved_model",
    "measure_control_flow": "calib.counting.measured_control_flow",
    "parse_feature": "calib.counting.language",
    "register_feature": "calib.counting.language",
    "remove_work": "calib.counting.work_removal",
    "save_model": "calib.fitting.saved_model",
    "scale_features_by_output": "calib.features.scaling",
    "time_kernel": "calib.timing.trials",
}
"""Each public name and the module that it lives in."""

__all__: list[str] = [
    "ALL_GENERATORS",
    "EvaluationContext",
    "FeatureError",
    "FeatureTable",
    "Fit",
    "KernelCollection",
    "MatchCondition",
    "Model",
    "block_forms",
    "count",
    "counting_check",
    "fit_model",
    "gather_feature_values",
    "load_model",
    "measure_control_flow",
    "parse_feature",
    "register_feature",
    "remove_work",
    "save_model",
    "scale_features_by_output",
    "time_kernel",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
