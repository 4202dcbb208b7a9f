"""Tuning: every configuration of a space, predicted on machines by several processes."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future
from dataclasses import dataclass
from typing import Any

from calib.tuning.evaluation import Subject, Task, evaluate
from calib.tuning.options import TuneOptions
from calib.tuning.outcome import EFFORTS, Outcome
from calib.tuning.search import Found, Search
from calib.tuning.space import Configuration, Space
from calib.tuning.store import Store
from memsim.errors import WorkerDied
from memsim.montecarlo import dask_cluster, in_order, submit_locally, usable_cores

Progress = Callable[[str, int, int], None]
"""(what is being done, how much of it is done, how much there is)"""


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """The result of a tuning run.

    found : machine -> what was found on it
    interrupted : whether Ctrl-C ended it; `found` is then what was found until then
    """

    subject: Subject
    space: Space
    n_configurations: int
    found: Mapping[str, Found]
    interrupted: bool


def tune(
    subject: Subject,
    space: Space,
    machines: Sequence[str],
    store: Store,
    options: TuneOptions | None = None,
    progress: Progress | None = None,
) -> Tuned:
    """Predicts the configurations of a space, the promising ones closely.

    Raises SpaceError where there is no configuration, WorkerDied where a worker process was killed, and
    StoreError; what was predicted before is then in the store.
    """
    options = options or TuneOptions()
    configurations = space.configurations()
    found: dict[str, Found] = {}
    interrupted = False
    with contextlib.ExitStack() as stack:
        pool = _Pool(stack, options, store, progress or (lambda what, done, total: None))
        for machine in machines:
            search = Search(configurations, functools.partial(pool.outcomes, subject, machine))
            try:
                search.run()
            except KeyboardInterrupt:
                interrupted = True
            found[machine] = search.found
            if interrupted:
                break
    return Tuned(
        subject=subject,
        space=space,
        n_configurations=len(configurations),
        found=found,
        interrupted=interrupted,
    )


class _Pool:
    """Outcomes from the store where it has them, else from worker processes."""

    def __init__(
        self, stack: contextlib.ExitStack, options: TuneOptions, store: Store, progress: Progress
    ) -> None:
        self._store, self._progress = store, progress
        jobs = options.jobs or usable_cores()
        self._in_process = jobs == 1 and options.scheduler is None
        self._died: type[Exception] = BrokenExecutor
        self._submit: Callable[..., Future[Any]] = functools.partial(submit_locally, jobs)
        self._ahead = 2 * jobs
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
            yield map(evaluate, tasks)
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
