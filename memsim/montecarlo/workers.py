"""Many trials: in this process, in worker processes, or on a Dask cluster, with the same numbers.

Results are taken in the order of trials, so the trial at which `ci` stops does not depend on the
workers. A plan is passed to workers as a folder of files that they map into memory.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from memsim import statistics
from memsim.errors import ReplayError, WorkerDied
from memsim.files import temporary_folder
from memsim.hierarchy.cache import ACCESSES, HITS, OPEN, PENDING
from memsim.montecarlo.options import LEAST_TRIALS, Backend
from memsim.montecarlo.plan import Plan
from memsim.montecarlo.plan_files import load_plan, save_plan
from memsim.montecarlo.processes import Submit, check_locks, in_order, submit_locally
from memsim.montecarlo.trial import TrialResult, Workspace, run_trial
from memsim.statistics import MIN_TRIALS_TO_STOP, ONE_PLACE, Places

Progress = Callable[[int, int], None]
SMALL = 0.25
"""A half-width that is this part of another hardly changes the length of their hypotenuse: by 3 %."""


class Counted(Protocol):
    """The part of a trial's result that stopping depends on."""

    @property
    def counts(self) -> npt.NDArray[np.int64]: ...


class Moments:
    """Each hit ratio over the trials of one place: in how many it is defined, its mean, and sums of squared
    and cubed deviations (Terriberry's extension of Welford's method)."""

    def __init__(self) -> None:
        self.n: Any = 0
        self.mean: Any = 0.0
        self.squares: Any = 0.0
        self.cubes: Any = 0.0

    def add(self, ratio: npt.NDArray[np.float64]) -> None:
        defined = ~np.isnan(ratio)
        self.n = self.n + defined
        n = np.maximum(self.n, 1)
        off = np.where(defined, ratio - self.mean, 0.0)
        step = off / n
        grown = off * step * (n - 1)
        self.cubes = self.cubes + step * (grown * (n - 2) - 3 * self.squares)
        self.squares = self.squares + grown
        self.mean = self.mean + step

    def half_width(self) -> npt.NDArray[np.float64]:
        """Of the 95 % interval of each mean; 0 where it has fewer than two trials."""
        n = np.maximum(self.n, 2)
        skewness = statistics.sample_skewness(n, self.squares, self.cubes)
        width = statistics.factor(n, skewness) * np.sqrt(self.squares / (n - 1) / n)
        return np.where(self.n > 1, width, 0.0)


class Stopping:
    """Decides after each trial whether every hit ratio's interval due to the ordering is narrow enough.

    half_width : from MIN_TRIALS_TO_STOP trials on, intervals as narrow as this are; None: no number of
        trials is enough
    places : those that the trials replay in turn
    model_error : (n_level, 1) validated error of each level's hit ratios. From LEAST_TRIALS on, intervals
        are narrow if they are at most SMALL of what else is open: this error, what earlier groups have
        left in the caches, and the place. None: that does not count
    """

    def __init__(
        self,
        half_width: float | None,
        places: Places = ONE_PLACE,
        model_error: npt.NDArray[np.float64] | None = None,
    ) -> None:
        self.half_width, self.model_error = half_width, model_error
        self.places, self.moments = places, [Moments() for _ in range(places.n)]
        self.open: Any = 0.0
        self.trials = 0

    def enough(self, result: Counted) -> bool:
        """Add a trial; returns whether there are enough."""
        if self.half_width is None:
            return False
        counts, n_places = result.counts, self.places.n
        self.moments[self.trials % n_places].add(hit_ratio(counts))
        self.open = self.open + counts[..., OPEN] / np.maximum(counts[..., ACCESSES], 1)
        self.trials += 1
        least = MIN_TRIALS_TO_STOP if self.model_error is None else LEAST_TRIALS
        if self.trials < max(least, 2 * n_places):
            return False
        width = self.places.ordering([one.half_width() for one in self.moments])
        narrow: Any = 0.0
        if self.model_error is not None:
            place = self.places.place([one.mean for one in self.moments])
            narrow = SMALL * (self.model_error + self.open / self.trials / 2 + place)
        if self.trials >= MIN_TRIALS_TO_STOP:
            narrow = np.maximum(narrow, self.half_width)
        return bool((width <= narrow).all())


def hit_ratio(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The hit ratios of counts (..., N_COUNTS); NaN without accesses."""
    return statistics.hit_ratio(counts[..., ACCESSES], counts[..., HITS], counts[..., PENDING])


Task = Callable[..., Any]
"""task(plan, workspace, *arguments): a function of a module, which workers import by name."""


def _trial(plan: Plan, workspace: Workspace, seed: int, trial: int) -> TrialResult:
    return run_trial(plan, seed, trial, workspace=workspace)


def trials_on(
    workers: Workers,
    *,
    seed: int,
    trials: int,
    ci: float | None = None,
    places: Places = ONE_PLACE,
    model_error: npt.NDArray[np.float64] | None = None,
    progress: Progress | None = None,
    task: Task = _trial,
) -> tuple[list[Any], bool]:
    """Up to `trials` results of task(plan, workspace, seed, trial), in order of trials, and whether
    Ctrl-C interrupted them.

    Trial i runs on plan i modulo the number of plans.
    ci, places, model_error : when to stop, see Stopping

    Where a worker process dies, the trials that are complete are kept too, with a warning, and count
    as interrupted. Raises KeyboardInterrupt, or WorkerDied, if no trial is complete.
    """
    done: list[Any] = []
    n_plans = len(workers.plans)
    stopping = Stopping(ci, places, model_error)
    try:
        with workers.run(task, [(i % n_plans, (seed, i)) for i in range(trials)]) as results:
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
    except WorkerDied as error:
        if not done:
            raise
        warnings.warn(f"{error}; {len(done)} complete trials are kept", stacklevel=2)
        return done, True
    return done, False


class Handling(NamedTuple):
    """The functions through which workers obtain a plan; they are imported by name.

    save : (plan, folder);  load : folder -> plan;  workspace : plan -> buffers that its tasks reuse
    """

    save: Callable[[Any, Path], None]
    load: Callable[[Path], Any]
    workspace: Callable[[Any], Any]


PLANS = Handling(save_plan, load_plan, Workspace)


class Workers:
    """Run tasks on plans: in this process, in its children, or on a Dask cluster.

    plans : passed to tasks by the functions of `handling`
    jobs : processes; with 1, tasks run in this process
    scheduler : address of the Dask scheduler, for backend `dask`
    scratch : a folder that all workers can access, for the plans' files; by default a temporary one
    """

    def __init__(
        self,
        plans: Sequence[Any],
        *,
        jobs: int = 1,
        backend: Backend = "local",
        scheduler: str | None = None,
        scratch: Path | None = None,
        handling: Handling = PLANS,
    ) -> None:
        self.plans = plans
        self.handling = handling
        self._in_process = backend == "local" and jobs == 1
        self._jobs, self._backend, self._scheduler = jobs, backend, scheduler
        self._scratch = scratch
        self._submit: Submit = functools.partial(submit_locally, jobs)
        self._most_ahead = 2 * jobs
        self._died: type[Exception] = BrokenExecutor
        self._workspaces: dict[int, Any] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Workers:
        if self._in_process:
            return self
        try:
            self._prepare()
        except OSError as error:  # no folder for temporary files, or no shared memory
            if self._backend == "dask":
                raise
            warnings.warn(
                f"no worker processes can be started: {error.strerror or error}; all trials run in this one",
                stacklevel=2,
            )
            self._in_process = True
        return self

    def _prepare(self) -> None:
        """Write the plans for the workers; raises OSError where these cannot be reached."""
        if self._backend == "local":
            check_locks()
        with contextlib.ExitStack() as stack:
            self._folder = stack.enter_context(temporary_folder(self._scratch))
            for k, plan in enumerate(self.plans):
                (self._folder / str(k)).mkdir()
                self.handling.save(plan, self._folder / str(k))
            if self._backend == "dask":
                self._connect(stack)
            self._stack = stack.pop_all()

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def run(
        self, task: Task, arguments: Sequence[tuple[int, tuple[Any, ...]]]
    ) -> Iterator[Iterator[Any]]:
        """The task's results in order, for each (number of a plan, further arguments).

        Leaving the context drops results that were not consumed.
        """
        if self._in_process:
            yield (task(self.plans[k], self._workspace(k), *rest) for k, rest in arguments)
            return
        folders = [str(self._folder / str(k)) for k in range(len(self.plans))]
        tasks = [(_in_folder, task, folders[k], self.handling, rest) for k, rest in arguments]
        try:
            with in_order(self._submit, tasks, self._most_ahead) as results:
                yield results
        except self._died as error:
            raise WorkerDied(
                "a worker process died: it was killed, perhaps because memory ran out"
            ) from error

    def _connect(self, stack: contextlib.ExitStack) -> None:
        """Submit to the Dask cluster, all tasks at once: the scheduler queues them."""
        self._submit, self._died = dask_cluster(stack, self._scheduler)
        self._most_ahead = sys.maxsize

    def _workspace(self, k: int) -> Any:
        if k not in self._workspaces:
            self._workspaces[k] = self.handling.workspace(self.plans[k])
        return self._workspaces[k]


def dask_cluster(
    stack: contextlib.ExitStack, scheduler: str | None
) -> tuple[Submit, type[Exception]]:
    """What submits to a Dask cluster as long as the stack is open, and the error of a worker that died.

    Raises ReplayError where Dask is not installed or the scheduler does not answer.
    """
    try:
        from distributed import Client, KilledWorker
    except ImportError as error:
        raise ReplayError("backend dask needs the packages of memsim[dask]") from error
    try:
        client = stack.enter_context(Client(scheduler, timeout=10))
    except (OSError, ValueError) as error:
        raise ReplayError(f"scheduler {scheduler} does not answer: {error}") from error
    return client.get_executor(pure=False).submit, KilledWorker


@functools.lru_cache(maxsize=4)
def _opened(folder: str, handling: Handling) -> tuple[Any, Any]:
    plan = handling.load(Path(folder))
    return plan, handling.workspace(plan)


def _in_folder(task: Task, folder: str, handling: Handling, arguments: tuple[Any, ...]) -> Any:
    """Run a task on the plan of a folder; a worker keeps the last few plans open."""
    return task(*_opened(folder, handling), *arguments)
