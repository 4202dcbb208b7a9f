"""Trials of a trace or of plans, each in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memsim.machine.model import Machine
from memsim.montecarlo.plan import Plan, make_plan
from memsim.montecarlo.trial import TrialResult, run_trial
from memsim.montecarlo.workers import Progress, Workers, trials_on
from memsim.trace.model import Trace


def replayed(trace: Trace, on: Machine, trial: int = 0, **options: Any) -> TrialResult:
    """One trial with seed 1; options as for make_plan."""
    plan, _ = make_plan(trace, on, **options)
    return run_trial(plan, 1, trial)


def run_trials(
    plans: Sequence[Plan],
    *,
    seed: int,
    trials: int,
    ci: float | None = None,
    progress: Progress | None = None,
    **workers: Any,
) -> tuple[list[TrialResult], bool]:
    """The result of `trials_on` on workers of its own; `workers` are the options of Workers."""
    with Workers(plans, **workers) as running:
        return trials_on(running, seed=seed, trials=trials, ci=ci, progress=progress)
