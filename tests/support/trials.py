"""Trials of a trace or of plans, each in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memsim.machine.model import Machine
from memsim.montecarlo.plan import Plan, make_plan
from memsim.montecarlo.trial import TrialResult, Workspace, run_trial
from memsim.montecarlo.workers import (
    Progress,
    Stopping,
    Task,
    Workers,
    counted,
    enough_trials,
)
from memsim.trace.model import Trace


def replayed(trace: Trace, on: Machine, trial: int = 0, **options: Any) -> TrialResult:
    """One trial with seed 1; options as for make_plan."""
    plan, _ = make_plan(trace, on, **options)
    return run_trial(plan, 1, trial)


def one_trial(plan: Plan, workspace: Workspace, seed: int, trial: int) -> TrialResult:
    """A task of workers."""
    return run_trial(plan, seed, trial, workspace=workspace)


def trials_on(
    workers: Workers,
    *,
    seed: int,
    trials: int,
    ci: float | None = None,
    progress: Progress | None = None,
    task: Task = one_trial,
) -> tuple[list[Any], bool]:
    """Up to `trials` results of task(plan, workspace, seed, trial), in order of trials, and whether
    Ctrl-C interrupted them; ci : when to stop, see Stopping."""
    made = enough_trials(workers, seed, trials, Stopping(ci), counted(progress), task)
    return made.trials, made.interrupted


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
