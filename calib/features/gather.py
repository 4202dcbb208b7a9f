"""Feature values of kernels: counted, simulated, timed, or registered by the user."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from calib.counting.feature_counts import kernel_counts
from calib.counting.kernel_arguments import workload_of
from calib.counting.language import (
    Feature,
    FeatureError,
    SimulatedFeature,
    UserFeature,
    WallTimeFeature,
    parse_feature,
    registered,
)
from calib.features.context import EvaluationContext
from calib.features.simulated import simulated
from calib.features.table import FeatureTable
from calib.timing import trials as timing
from calib.timing.launching import built_beside
from calib.words import near
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
    rows, context = list(kernels), context or EvaluationContext()
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
        values[name][:] = [each.value(context.statistic) for each in trials]
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
    context: EvaluationContext,
    rounds: int = 1,
    longest_s: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[timing.KernelTrials]:
    """Trials of measurement kernels, in `rounds` passes over all of them.

    They run on the context's device or, if it has none, on the device that the feature names.
    """
    where = _context_of(feature, context)
    if rounds < 1:
        raise MemsimError(f"rounds must be at least 1, got {rounds}")
    passes: list[list[timing.KernelTrials]] = [[] for _ in kernels]
    for turn in range(rounds):
        for row, kernel in enumerate(kernels):
            one = timing.time_kernel(
                kernel.kernel,
                kernel.arguments(),
                trials=-(-context.timing_trials // rounds),
                warmup=1 if turn else timing.WARMUP,
                longest_s=longest_s,
                least=-(-timing.LEAST // rounds),
                trial_s=context.trial_s,
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
    context = context or EvaluationContext()
    return {name: _value(name, kernel, env, shape, context) for name in features}


def evaluate(
    feature: str | Feature,
    kernel: Any,
    env: Mapping[str, int],
    *,
    context: EvaluationContext | None = None,
) -> float:
    """The value of a feature of a kernel at one size.

    kernel : loopy.TranslationUnit, tracegen.Workload, or a measurement kernel
    env : size parameters by name; other arguments are those of the kernel, or generated

    Raises FeatureError and KernelError as `calib.count` does, and FeatureError if a simulated
    feature has no machine.
    """
    context = context or EvaluationContext()
    parsed = parse_feature(feature) if isinstance(feature, str) else feature
    if isinstance(parsed, WallTimeFeature):
        return _wall_time(parsed, kernel, env, context)
    if isinstance(parsed, UserFeature):
        return float(registered(parsed.name)(kernel, env, context))
    if isinstance(parsed, SimulatedFeature):
        if context.machine is None:
            raise FeatureError(f"{parsed} needs a machine: EvaluationContext(machine='v100')")
        return simulated(parsed, kernel, env, context)
    return float(kernel_counts(kernel).count(parsed, context.count_options(kernel)).value(env))


def _wall_time(
    feature: WallTimeFeature, kernel: Any, env: Mapping[str, int], context: EvaluationContext
) -> float:
    workload = workload_of(kernel, env)
    where = context.cl_context
    if feature.platform or where is None:
        where = timing.feature_context(str(feature))
    if context.timer is not None:
        return context.timer(workload, context=where, trials=context.timing_trials)
    result = timing.time_kernel(
        workload.kernel,
        workload.arguments,
        trials=context.timing_trials,
        trial_s=context.trial_s,
        context=where,
    )
    return result.value(context.statistic)


def _context_of(feature: str, context: EvaluationContext) -> Any:
    """The pyopencl.Context on which a wall time is measured."""
    given = context.cl_context
    return timing.feature_context(feature) if given is None else given


def is_timing(feature: str) -> bool:
    return feature.startswith(timing.FEATURE_PREFIX)


def _value(
    name: str,
    kernel: Any,
    env: Mapping[str, Any],
    shape: tuple[int, ...],
    context: EvaluationContext,
) -> Floats:
    feature = parse_feature(name)
    if _lacks(kernel, feature):
        return np.zeros(shape)
    if not isinstance(feature, (SimulatedFeature, UserFeature, WallTimeFeature)):
        counted = kernel_counts(kernel).count(feature, context.count_options(kernel))
        if shape == ():
            return np.asarray(float(counted.value(env)))
        return np.broadcast_to(counted.at_many(**env), shape)
    columns = {key: np.broadcast_to(value, shape).ravel() for key, value in env.items()}
    sizes = (
        {key: int(column[row]) for key, column in columns.items()}
        for row in range(int(np.prod(shape, dtype=np.int64)))
    )
    rows = [evaluate(feature, kernel, one, context=context) for one in sizes]
    return np.array(rows, np.float64).reshape(shape)


def _lacks(kernel: Any, feature: Any) -> bool:
    """Whether a feature's tag is not in this kernel, so that its count is 0.

    Each kernel of a set has its own tags, and features name those of all of them.
    """
    tag = getattr(getattr(feature, "accesses", feature), "tag", None)
    if tag is None:
        return False
    return tag not in kernel_counts(kernel).inventory.tags


def _refuse_unknown_tags(features: Iterable[str], kernels: Sequence[MeasurementKernel]) -> None:
    """Raises FeatureError if a feature's tag is in none of the kernels."""
    tags = sorted({t for k in kernels for t in kernel_counts(k).inventory.tags})
    for name in features:
        if all(_lacks(kernel, parse_feature(name)) for kernel in kernels):
            tag = name.partition("tag:")[2]
            raise FeatureError(f"no kernel has the accesses of {name}{near(tag, tags)}")
