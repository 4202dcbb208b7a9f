"""Values of features: counted, simulated, timed, or the user's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from calib.counting.control_flow import Taken, TripCounts
from calib.counting.counter import SUBGROUP_SIZE, CountOptions, kernel_counts
from calib.counting.language import (
    Feature,
    FeatureError,
    SimulatedFeature,
    UserFeature,
    WallTimeFeature,
    parse_feature,
    registered,
)
from calib.counting.shapes import sizes_of
from memsim.errors import KernelError
from memsim.machine import Machine
from tracegen.workloads import Workload

TIMING_TRIALS = 60
"""Runs of a kernel whose time is taken (seed 000, section 6.1.4)."""
REPLAY_TRIALS = 32
HISTORY_AGE_S = 30 * 86_400.0


@dataclass(frozen=True, kw_only=True)
class EvaluationContext:
    """What values depend on beside the kernel and its size.

    subgroup_size, index_arithmetic, trip_counts, taken : see counting.CountOptions
    machine, seed, replay_trials : of simulated features
    snapshot_groups : work-groups that these trace, None for as many as the tracer takes
    cl_context : the pyopencl.Context for tracing, and for wall times whose feature names no device
    timing_trials, trial_s, statistic : of wall times; trial_s : see timing.time_kernel
    history : a calib.history.Store: a wall time is the mean that it holds where that is calibrated,
        repeats and is at most `history_age_s` old; else the trials feed it and their mean is taken
    """

    subgroup_size: int = SUBGROUP_SIZE
    index_arithmetic: bool = False
    trip_counts: TripCounts = field(default_factory=dict)
    taken: Taken = field(default_factory=dict)
    machine: Machine | str | None = None
    seed: int = 0
    replay_trials: int = REPLAY_TRIALS
    snapshot_groups: int | None = None
    cl_context: Any = None
    timing_trials: int = TIMING_TRIALS
    trial_s: float = 0.0
    statistic: Literal["median", "minimum", "mean"] = "median"
    history: Any = None
    history_age_s: float = HISTORY_AGE_S

    def count_options(self, kernel: Any) -> CountOptions:
        """Options for `count`, with the trip counts that a measurement kernel brings along."""
        own = getattr(kernel, "trip_counts", None) or {}
        return CountOptions(
            subgroup_size=self.subgroup_size,
            index_arithmetic=self.index_arithmetic,
            trip_counts={**own, **self.trip_counts},
            taken=self.taken,
        )


def evaluate(
    feature: str | Feature,
    kernel: Any,
    env: Mapping[str, int],
    *,
    context: EvaluationContext | None = None,
) -> float:
    """The value of a feature of a kernel at one size.

    kernel : loopy.TranslationUnit, tracegen.Workload, or what has them as `.kernel` and
        `.arguments` (a UIPiCK measurement kernel)
    env : size parameters by name; the rest of a kernel's arguments are its own, or made up

    Raises FeatureError and KernelError as `calib.count` does, and where the feature needs a machine
    and none is given.
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
        from calib.features.simulated import simulated

        return simulated(parsed, kernel, env, context)
    return float(_count(parsed, kernel, context).value(env))


def evaluate_all(
    features: Iterable[str],
    kernel: Any,
    env: Mapping[str, int],
    *,
    context: EvaluationContext | None = None,
) -> dict[str, float]:
    """As `evaluate`, of several features."""
    return {each: evaluate(each, kernel, env, context=context) for each in features}


def workload_of(kernel: Any, env: Mapping[str, int]) -> Workload:
    """A kernel with arguments for one size.

    A Workload's, and a measurement kernel's, are its own: KernelError where they are of another
    size. A bare TranslationUnit's are made up.
    """
    import loopy as lp

    if isinstance(kernel, lp.TranslationUnit):
        from tracegen.workloads import arguments

        scalars = {a.name for a in kernel.default_entrypoint.args if isinstance(a, lp.ValueArg)}
        given = {name: str(value) for name, value in env.items() if name in scalars}
        return Workload(kernel, arguments(kernel, given))
    if isinstance(kernel, Workload):
        workload = kernel
    else:
        made = kernel.arguments
        workload = Workload(kernel.kernel, dict(made() if callable(made) else made))
    own = {**sizes_of(workload), **getattr(kernel, "env", {})}
    for name, value in env.items():
        if own.get(name, value) != value:
            raise KernelError(
                f"the kernel's own arguments are for {name} = {own[name]}, not {value}"
            )
    return workload


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Feature:
    return parse_feature(text)


def _count(feature: Feature, kernel: Any, context: EvaluationContext) -> Any:
    return kernel_counts(kernel).count(feature, context.count_options(kernel))


def _wall_time(
    feature: WallTimeFeature, kernel: Any, env: Mapping[str, int], context: EvaluationContext
) -> float:
    from calib.timing import trials as timing

    workload = workload_of(kernel, env)
    where = context.cl_context
    if feature.platform or where is None:
        where = timing.feature_context(str(feature))
    if context.history is not None:
        from calib.history.workloads import wall_time

        return wall_time(
            context.history,
            workload,
            context=where,
            max_age_s=context.history_age_s,
            trials=context.timing_trials,
        )
    result = timing.time_kernel(
        workload.kernel,
        workload.arguments,
        trials=context.timing_trials,
        trial_s=context.trial_s,
        context=where,
    )
    return result.value(context.statistic)
