"""Feature values of kernels: counted, measured, or simulated, row by row."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from calib.counting.feature_counts import kernel_counts
from calib.counting.language import (
    FeatureError,
    SimulatedFeature,
    UserFeature,
    WallTimeFeature,
    near,
    parse_feature,
)
from calib.features.context import EvaluationContext
from calib.features.table import FeatureTable
from calib.features.values import evaluate
from calib.timing import trials as timing
from calib.timing.launching import built_beside
from memsim.errors import MemsimError

if TYPE_CHECKING:
    from calib.kernels.collection import MeasurementKernel

Floats = npt.NDArray[np.float64]


def gather_feature_values(
    features: Sequence[str],
    kernels: Iterable[MeasurementKernel],
    *,
    context: EvaluationContext | None = None,
    rounds: int = 1,
    longest_s: float | None = None,
    timings: dict[str, timing.KernelTrials] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> FeatureTable:
    """The values of every feature for every kernel; the first feature is the table's output.

    context : how to count, time and simulate
    rounds : number of passes over all kernels among which each kernel's trials are divided, so that
        a temporary disturbance affects a few trials of each kernel and not all trials of one
    longest_s : time after which a kernel's trials of one pass end early; see
        `calib.timing.trials.time_kernel`
    timings : filled with every kernel's trials, kernel name -> KernelTrials
    progress : called with (kernels done, total)

    Kernels that differ only in size are counted once. Raises the errors of counting and timing, and
    FeatureError if a feature's tag is in no kernel.
    """
    rows = list(kernels)
    if not rows:
        raise MemsimError("there is no kernel to gather features of")
    if not features:
        raise MemsimError("there is no feature to gather")
    timed = [name for name in features if is_timing(name)]
    others = [name for name in features if name not in timed]
    values = {name: np.empty(len(rows)) for name in features}
    with contextlib.ExitStack() as building:
        for name in timed:
            where = _context_of(name, context)
            building.enter_context(built_beside((kernel.kernel for kernel in rows), where))
        _refuse_unknown_tags(others, rows)
        for row, kernel in enumerate(rows):
            for name, value in feature_arrays(others, kernel, kernel.env, context=context).items():
                values[name][row] = value
    spread = np.zeros(len(rows))
    for name in timed:
        trials = time_measurements(
            name, rows, context=context, rounds=rounds, longest_s=longest_s, progress=progress
        )
        values[name][:] = [each.value(_statistic(context)) for each in trials]
        spread[:] = [each.half_width_s for each in trials]
        if timings is not None:
            timings |= {kernel.name: each for kernel, each in zip(rows, trials, strict=True)}
    return FeatureTable(
        output=features[0],
        kernels=tuple(kernel.name for kernel in rows),
        values=values,
        spread=spread if is_timing(features[0]) else None,
    )


def time_measurements(
    feature: str,
    kernels: Sequence[MeasurementKernel],
    *,
    context: EvaluationContext | None = None,
    rounds: int = 1,
    longest_s: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[timing.KernelTrials]:
    """Trials of measurement kernels, in `rounds` passes over all of them.

    They run on the context's device or, if it has none, on the device that the feature names.
    """
    where = _context_of(feature, context)
    trials = timing.TRIALS if context is None else context.timing_trials
    if rounds < 1:
        raise MemsimError(f"rounds must be at least 1, got {rounds}")
    passes: list[list[timing.KernelTrials]] = [[] for _ in kernels]
    for turn in range(rounds):
        for row, kernel in enumerate(kernels):
            one = timing.time_kernel(
                kernel.kernel,
                kernel.arguments(),
                trials=-(-trials // rounds),
                warmup=1 if turn else timing.WARMUP,
                longest_s=longest_s,
                least=-(-timing.LEAST // rounds),
                trial_s=0.0 if context is None else context.trial_s,
                context=where,
            )
            passes[row].append(one)
            if progress is not None:
                progress(turn * len(kernels) + row + 1, rounds * len(kernels))
    return [timing.joined(each) for each in passes]


def feature_arrays(
    features: Iterable[str],
    kernel: Any,
    env: Mapping[str, Any],
    *,
    context: EvaluationContext | None = None,
) -> dict[str, Floats]:
    """Feature -> value of one kernel; arrays in env, which broadcast, give arrays.

    A feature whose tag is not in the kernel is 0.

    kernel : loopy.TranslationUnit, a tracegen.Workload or a measurement kernel
    env : the kernel's sizes, name -> integer or array of them
    """
    shape = np.broadcast_shapes(*(np.shape(value) for value in env.values()), ())
    return {name: _value(name, kernel, env, shape, context) for name in features}


def _context_of(feature: str, context: EvaluationContext | None) -> Any:
    """The pyopencl.Context on which a wall time is measured."""
    given = None if context is None else context.cl_context
    return timing.feature_context(feature) if given is None else given


def is_timing(feature: str) -> bool:
    return feature.startswith(timing.FEATURE_PREFIX)


def _statistic(context: EvaluationContext | None) -> timing.Statistic:
    return "median" if context is None else context.statistic


def _value(
    name: str,
    kernel: Any,
    env: Mapping[str, Any],
    shape: tuple[int, ...],
    context: EvaluationContext | None,
) -> Floats:
    feature = parse_feature(name)
    if _lacks(kernel, feature):
        return np.zeros(shape)
    if not isinstance(feature, (SimulatedFeature, UserFeature, WallTimeFeature)):
        options = (context or EvaluationContext()).count_options(kernel)
        counted = kernel_counts(getattr(kernel, "kernel", kernel)).count(feature, options)
        if shape == ():
            return np.asarray(float(counted.value(env)))
        return np.broadcast_to(counted.at_many(**env), shape)
    columns = {key: np.broadcast_to(value, shape).ravel() for key, value in env.items()}
    rows = [
        evaluate(
            feature,
            kernel,
            {key: int(column[row]) for key, column in columns.items()},
            context=context,
        )
        for row in range(int(np.prod(shape, dtype=np.int64)))
    ]
    return np.array(rows, np.float64).reshape(shape)


def _lacks(kernel: Any, feature: Any) -> bool:
    """Whether a feature's tag is not in this kernel, so that its count is 0.

    Each kernel of a set has its own tags, and features name those of all of them.
    """
    tag = getattr(getattr(feature, "accesses", feature), "tag", None)
    if tag is None:
        return False
    return tag not in kernel_counts(getattr(kernel, "kernel", kernel)).inventory.tags


def _refuse_unknown_tags(features: Iterable[str], kernels: Sequence[MeasurementKernel]) -> None:
    """Raises FeatureError if a feature's tag is in none of the kernels."""
    tags = sorted({t for k in kernels for t in kernel_counts(k.kernel).inventory.tags})
    for name in features:
        if all(_lacks(kernel, parse_feature(name)) for kernel in kernels):
            tag = name.partition("tag:")[2]
            raise FeatureError(f"no kernel has the accesses of {name}{near(tag, tags)}")
