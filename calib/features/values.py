"""Evaluates features: counted, simulated, timed, or registered by the user."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

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
from calib.timing.trials import feature_context, time_kernel


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
    parsed = _parsed(feature) if isinstance(feature, str) else feature
    if isinstance(parsed, WallTimeFeature):
        return _wall_time(parsed, kernel, env, context)
    if isinstance(parsed, UserFeature):
        return float(registered(parsed.name)(kernel, env, context))
    if isinstance(parsed, SimulatedFeature):
        if context.machine is None:
            raise FeatureError(f"{parsed} needs a machine: EvaluationContext(machine='v100')")
        return simulated(parsed, kernel, env, context)
    return float(_count(parsed, kernel, context).value(env))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Feature:
    return parse_feature(text)


def _count(feature: Feature, kernel: Any, context: EvaluationContext) -> Any:
    return kernel_counts(kernel).count(feature, context.count_options(kernel))


def _wall_time(
    feature: WallTimeFeature, kernel: Any, env: Mapping[str, int], context: EvaluationContext
) -> float:
    workload = workload_of(kernel, env)
    where = context.cl_context
    if feature.platform or where is None:
        where = feature_context(str(feature))
    if context.timer is not None:
        return context.timer(workload, context=where, trials=context.timing_trials)
    result = time_kernel(
        workload.kernel,
        workload.arguments,
        trials=context.timing_trials,
        trial_s=context.trial_s,
        context=where,
    )
    return result.value(context.statistic)
