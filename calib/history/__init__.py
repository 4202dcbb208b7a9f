"""Models of kernel time that come for free: every timed launch feeds a store, later questions read it.

After StarPU (Augonnet, Thibault and Namyst, HPPC 2009): a task is told by its kernel, its device and
a hash of its data's layout; what was measured for it is its prediction, and regressions over the
sizes serve where that very layout was never run. `import calib.history` is cheap: what is heavy is
imported when first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calib.history.answers import Answer, Prior, answer, fresh_time
    from calib.history.errors import HistoryError, HistoryWarning
    from calib.history.key import Csr, Key, layout_hash
    from calib.history.priors import calibrated, uncalibrated
    from calib.history.recorder import Recorder, RecordingQueue, record
    from calib.history.records import Sample
    from calib.history.store import Store
    from calib.history.workloads import ask_workload, wall_time

_HOMES = {
    "Answer": "calib.history.answers",
    "Csr": "calib.history.key",
    "HistoryError": "calib.history.errors",
    "HistoryWarning": "calib.history.errors",
    "Key": "calib.history.key",
    "Prior": "calib.history.answers",
    "Recorder": "calib.history.recorder",
    "RecordingQueue": "calib.history.recorder",
    "Sample": "calib.history.records",
    "Store": "calib.history.store",
    "answer": "calib.history.answers",
    "ask_workload": "calib.history.workloads",
    "calibrated": "calib.history.priors",
    "fresh_time": "calib.history.answers",
    "layout_hash": "calib.history.key",
    "record": "calib.history.recorder",
    "uncalibrated": "calib.history.priors",
    "wall_time": "calib.history.workloads",
}
"""Each public name and the module that it lives in."""

__all__ = [
    "Answer",
    "Csr",
    "HistoryError",
    "HistoryWarning",
    "Key",
    "Prior",
    "Recorder",
    "RecordingQueue",
    "Sample",
    "Store",
    "answer",
    "ask_workload",
    "calibrated",
    "fresh_time",
    "layout_hash",
    "record",
    "uncalibrated",
    "wall_time",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
