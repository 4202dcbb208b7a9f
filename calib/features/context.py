"""What feature values depend on besides the kernel and its sizes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from calib.counting.options import SUBGROUP_SIZE, CountOptions, Taken, TripCounts
from calib.timing.trials import TRIALS
from memsim.machine import Machine
from tracegen.workloads import Workload

REPLAY_TRIALS = 32


class Timer(Protocol):
    """Measures the seconds that a launch of a workload takes.

    context : the pyopencl.Context to run on, None to choose a device; trials : runs to time
    """

    def __call__(self, workload: Workload, *, context: Any, trials: int) -> float: ...


@dataclass(frozen=True, kw_only=True)
class EvaluationContext:
    """Options of feature values besides the kernel and its sizes.

    subgroup_size, index_arithmetic, trip_counts, taken : see counting.CountOptions
    machine, seed, replay_trials : for simulated features
    snapshot_groups : work-groups that simulated features trace; None for the tracer's default
    cl_context : the pyopencl.Context for tracing, and for wall times whose feature names no device
    timing_trials, trial_s, statistic : for wall times; see `calib.timing.time_kernel`
    timer : replaces `calib.timing.time_kernel` for wall times, without trial_s and statistic;
        `functools.partial(calib.history.wall_time, store)` uses the mean of a history if that is
        calibrated and recent
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
    timing_trials: int = TRIALS
    trial_s: float = 0.0
    statistic: Literal["median", "minimum", "mean"] = "median"
    timer: Timer | None = None

    def count_options(self, kernel: Any) -> CountOptions:
        """Options for `count`, including the trip counts of a measurement kernel."""
        known = getattr(kernel, "trip_counts", None) or {}
        return CountOptions(
            subgroup_size=self.subgroup_size,
            index_arithmetic=self.index_arithmetic,
            trip_counts={**known, **self.trip_counts},
            taken=self.taken,
        )
