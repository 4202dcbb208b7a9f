"""Counted features, calibrated and uncalibrated models of time, block counts, and their history.

`import calib` is cheap: what is heavy is imported when first needed.
"""

from __future__ import annotations

from typing import Any

_HOMES: dict[str, str] = {
    "ALL_GENERATORS": "calib.kernels",
    "EvaluationContext": "calib.feature_values",
    "FeatureError": "calib.features",
    "FeatureTable": "calib.feature_table",
    "Fit": "calib.fit",
    "KernelCollection": "calib.kernels",
    "MatchCondition": "calib.kernels",
    "Model": "calib.model",
    "block_forms": "calib.block_counts.closed_form",
    "count": "calib.counting",
    "counting_check": "calib.count_check",
    "fit_model": "calib.fit",
    "gather_feature_values": "calib.gather",
    "load_model": "calib.saved_model",
    "measure_control_flow": "calib.measured",
    "parse_feature": "calib.features",
    "register_feature": "calib.features",
    "remove_work": "calib.work_removal",
    "save_model": "calib.saved_model",
    "scale_features_by_output": "calib.scaling",
    "time_kernel": "calib.timing",
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
