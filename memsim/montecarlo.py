"""Many trials: in this process, in worker processes, or on a Dask cluster; the numbers are the same.

Results are taken in the order of trials, so where `ci` stops does not depend on who ran them. A
plan travels as a folder of files that workers map into memory.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import joblib
import numpy as np
import numpy.typing as npt

from memsim.cache import ACCESSES, HITS, PENDING
from memsim.errors import ReplayError
from memsim.plan import Plan, load_plan, save_plan
from memsim.statistics import student_t
from memsim.trial import TrialResult, Workspace, run_trial

Progress = Callable[[int, int], None]
Backend = Literal["local", "dask"]
MIN_TRIALS_TO_STOP = 16
"""Stopping from the second trial on, intervals cover 87 to 90 % instead of 95."""


class Stopping:
    """Whether every hit ratio's 95 % interval is narrower than asked for (Student t, Welford)."""

    def __init__(self, half_width: float | None) -> None:
        self.half_width = half_width
        self.n: Any = 0
        self.mean: Any = 0.0
        self.square: Any = 0.0
        self.trials = 0

    def enough(self, result: TrialResult) -> bool:
        """Takes one more trial in."""
        if self.half_width is None:
            return False
        ratio = hit_ratio(result.counts)
        there = ~np.isnan(ratio)
        self.n = self.n + there
        step = np.where(there, ratio - self.mean, 0.0)
        self.mean = self.mean + step / np.maximum(self.n, 1)
        self.square = self.square + step * np.where(there, ratio - self.mean, 0.0)
        self.trials += 1
        if self.trials < MIN_TRIALS_TO_STOP:
            return False
        sampled = self.n > 1
        n = self.n[sampled]
        factor = np.array([student_t(int(k)) for k in n])
        width = factor * np.sqrt(self.square[sampled] / (n - 1) / n)
        return bool((width <= self.half_width).all())


def hit_ratio(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """(hits + pending) / accesses over the last axis of counts; NaN where nothing was asked for."""
    asked = counts[..., ACCESSES]
    got = counts[..., HITS] + counts[..., PENDING]
    return np.where(asked > 0, got / np.maximum(asked, 1), np.nan)


def run_trials(
    plans: Sequence[Plan],
    *,
    seed: int,
    trials: int,
    jobs: int = 1,
    ci: float | None = None,
    backend: Backend = "local",
    scheduler: str | None = None,
    scratch: Path | None = None,
    progress: Progress | None = None,
) -> tuple[list[TrialResult], bool]:
    """Up to `trials` trials in order, and whether Ctrl-C cut them short.

    plans : one a snapshot; trial i replays plans[i % len(plans)]
    ci : stop once every hit ratio's 95 % interval has this half-width, from 16 trials on
    scratch : a folder that all workers see, for the plan's files; a temporary one by default
    """
    done: list[TrialResult] = []
    stopping = Stopping(ci)
    with _results(plans, seed, trials, jobs, backend, scheduler, scratch) as results:
        try:
            for result in results:
                done.append(result)
                if progress is not None:
                    progress(len(done), trials)
                if stopping.enough(result):
                    break
        except KeyboardInterrupt:
            if not done:
                raise
            return done, True
    return done, False


@contextlib.contextmanager
def _results(
    plans: Sequence[Plan],
    seed: int,
    trials: int,
    jobs: int,
    backend: Backend,
    scheduler: str | None,
    scratch: Path | None,
) -> Iterator[Iterator[TrialResult]]:
    jobs = min(jobs, trials)
    if backend == "local" and jobs == 1:
        yield _in_process(plans, seed, trials)
        return
    folder = Path(tempfile.mkdtemp(prefix="memsim-", dir=scratch))
    try:
        for k, plan in enumerate(plans):
            (folder / str(k)).mkdir()
            save_plan(plan, folder / str(k))
        with _parallel(backend, scheduler, jobs) as parallel:
            results = parallel(
                joblib.delayed(trial_in_folder)(str(folder / str(i % len(plans))), seed, i)
                for i in range(trials)
            )
            try:
                yield results
            finally:
                with warnings.catch_warnings():
                    # Trials beyond the stopping point are dropped on purpose.
                    warnings.simplefilter("ignore")
                    results.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _in_process(plans: Sequence[Plan], seed: int, trials: int) -> Iterator[TrialResult]:
    workspaces = [Workspace(plan) for plan in plans]
    for i in range(trials):
        k = i % len(plans)
        yield run_trial(plans[k], seed, i, workspace=workspaces[k])


@contextlib.contextmanager
def _parallel(backend: Backend, scheduler: str | None, jobs: int) -> Iterator[Any]:
    if backend == "local":
        with joblib.parallel_config(backend="loky"):
            yield joblib.Parallel(n_jobs=jobs, return_as="generator", pre_dispatch="2*n_jobs")
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise ReplayError("backend dask needs the packages of memsim[dask]") from error
    try:
        client = Client(scheduler, timeout=10)
    except (OSError, ValueError) as error:
        raise ReplayError(f"scheduler {scheduler} does not answer: {error}") from error
    with client, joblib.parallel_config(backend="dask", client=client):
        yield joblib.Parallel(n_jobs=-1, return_as="generator", pre_dispatch="all")


@functools.lru_cache(maxsize=4)
def _opened(folder: str) -> tuple[Plan, Workspace]:
    plan = load_plan(Path(folder))
    return plan, Workspace(plan)


def trial_in_folder(folder: str, seed: int, trial: int) -> TrialResult:
    """Run one trial of a plan that lies in a folder; a worker keeps the last few open."""
    plan, workspace = _opened(folder)
    return run_trial(plan, seed, trial, workspace=workspace)
