"""Counted features, calibrated and uncalibrated models of time, block counts, and their history.

`import calib` is cheap: what is heavy is imported when first needed.
"""

from __future__ import annotations

from typing import Any

_HOMES: dict[str, str] = {}
"""Each public name and the module that it lives in."""

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
