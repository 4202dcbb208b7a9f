"""Outcomes from the store where it has them, else from processes of this computer or of a Dask cluster."""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from typing import Any

from calib.tuning.evaluation import Subject, Task, evaluate
from calib.tuning.options import TuneOptions
from calib.tuning.outcome import EFFORTS, Outcome
from calib.tuning.space import Configuration
from calib.tuning.store import OutcomeStore
from memsim.errors import WorkerDied
from memsim.montecarlo import check_locks, dask_cluster, in_order, submit_locally, usable_cores
from memsim.progress import as_part

Progress = Callable[[str, int, int], None]
"""(what is being done, how much of it is done, how much there is)"""


def _here(task: Task) -> Outcome:
    """The outcome of a task in this process, whose display shows how far all tasks are."""
    with as_part():
        return evaluate(task)


class Pool:
    """Outcomes from the store where it has them, else from worker processes."""

    def __init__(
        self,
        stack: contextlib.ExitStack,
        options: TuneOptions,
        store: OutcomeStore,
        progress: Progress,
    ) -> None:
        self._store, self._progress = store, progress
        jobs = options.jobs or usable_cores()
        self._in_process = jobs == 1 and options.scheduler is None
        self._died: type[Exception] = BrokenExecutor
        self._submit: Callable[..., Future[Any]] = functools.partial(submit_locally, jobs)
        self._ahead = 2 * jobs
        if not self._in_process and options.scheduler is None:
            try:
                check_locks()
            except OSError as error:
                warnings.warn(
                    f"no worker processes can be started: {error.strerror or error};"
                    " all configurations are predicted in this one",
                    stacklevel=2,
                )
                self._in_process = True
        if options.scheduler is not None:
            self._submit, self._died = dask_cluster(stack, options.scheduler)
            self._ahead = sys.maxsize

    def outcomes(
        self, subject: Subject, machine: str, configurations: Sequence[Configuration], effort: int
    ) -> Iterator[Outcome]:
        """An outcome of each configuration, in order."""
        tasks = [
            Task(subject=subject, configuration=one, machine=machine, effort=effort)
            for one in configurations
        ]
        known = [self._store.get(task) for task in tasks]
        new = [task for task, outcome in zip(tasks, known, strict=True) if outcome is None]
        what = f"{machine}, {EFFORTS[effort].name}"
        done = len(tasks) - len(new)
        self._progress(what, done, len(tasks))
        with self._results(new) as results:
            for task, outcome in zip(tasks, known, strict=True):
                if outcome is None:
                    outcome = next(results)
                    self._store.add(task, outcome)
                    done += 1
                    self._progress(what, done, len(tasks))
                yield outcome

    @contextlib.contextmanager
    def _results(self, tasks: Sequence[Task]) -> Iterator[Iterator[Outcome]]:
        """The outcomes of tasks, in order."""
        if self._in_process:
            yield map(_here, tasks)
            return
        try:
            with in_order(
                self._submit, [(evaluate, task) for task in tasks], self._ahead
            ) as results:
                yield results
        except self._died as error:
            raise WorkerDied(
                "a process that predicted a configuration died: it was killed, perhaps because memory ran out"
            ) from error
