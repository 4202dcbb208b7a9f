"""Files that Kernel Tuner reads: the cache of its simulation mode and its dashboard, and T4 results.

Times are in milliseconds, as Kernel Tuner's are (kernel_tuner.util.process_cache and
kernel_tuner.file_utils.get_t4_results, version 1.5). Values of parameters keep their types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calib.tuning.outcome import Outcome
from calib.tuning.search import Found
from calib.tuning.space import Space, number

MS = 1e3
FAILED = "CompilationFailedConfig"
WRITTEN_BY = {"written_by": "memsim"}
"""Begins a file: one that does not begin so may hold somebody's measurements, and is not replaced."""
_TIMINGS = (
    "compile_time",
    "verification_time",
    "benchmark_time",
    "framework_time",
    "strategy_time",
)


def cache(kernel: str, space: Space, machine: str, found: Found) -> dict[str, Any]:
    """The content of a cache file: simulation mode of kernel_tuner.tune_kernel runs from it.

    It states no problem size, for a configuration decides its own launch.
    """
    return {
        **WRITTEN_BY,
        "device_name": f"{machine} (memsim)",
        "kernel_name": kernel,
        "tune_params_keys": list(space.names),
        "tune_params": {one.name: [number(v) for v in one.values] for one in space.parameters},
        "objective": "time",
        "cache": {_key(one): _entry(one) for one in found.outcomes},
    }


def t4_results(found: Found) -> dict[str, Any]:
    """Results in the T4 format of the auto-tuning community (schema 1.0.0)."""
    return {
        **WRITTEN_BY,
        "schema_version": "1.0.0",
        "metadata": {"timeunit": "milliseconds"},
        "results": [_t4(one) for one in found.outcomes],
    }


def _values(outcome: Outcome) -> dict[str, int | float | str]:
    return {name: number(value) for name, value in outcome.configuration.items()}


def _key(outcome: Outcome) -> str:
    return ",".join(str(value) for value in _values(outcome).values())


def _entry(outcome: Outcome) -> dict[str, Any]:
    entry: dict[str, Any] = {**_values(outcome), **dict.fromkeys(_TIMINGS, 0)}
    if outcome.failure:
        return {**entry, "time": FAILED, "times": []}
    time_ms = outcome.time_s * MS
    return {**entry, "time": time_ms, "times": [time_ms], **_metrics(outcome)}


def _metrics(outcome: Outcome) -> Mapping[str, float | int]:
    """What Kernel Tuner's dashboard may draw beside the time."""
    metrics: dict[str, float | int] = {"occupancy": outcome.occupancy}
    if outcome.registers is not None:
        metrics["registers"] = outcome.registers
    return metrics


def _t4(outcome: Outcome) -> dict[str, Any]:
    time_ms = outcome.time_s * MS
    measurements = [{"name": "time", "value": time_ms, "unit": "ms"}]
    return {
        "configuration": _values(outcome),
        "times": {
            "compilation_time": 0,
            "framework": 0,
            "search_algorithm": 0,
            "validation": 0,
            "runtimes": [] if outcome.failure else [time_ms],
        },
        "invalidity": "compile" if outcome.failure else "correct",
        "correctness": 0 if outcome.failure else 1,
        "measurements": [] if outcome.failure else measurements,
        "objectives": ["time"],
    }
