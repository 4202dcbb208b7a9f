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
from memsim.hierarchy.cache import ACCESSES, HITS, PENDING
from memsim.montecarlo.options import Backend
from memsim.montecarlo.plan import Plan
from memsim.montecarlo.plan_files import load_plan, save_plan
from memsim.montecarlo.processes import Submit, check_locks, in_order, submit_locally
from memsim.montecarlo.trial import TrialResult, Workspace, run_trial
from memsim.statistics import MIN_TRIALS_TO_STOP

Progress = Callable[[int, int], None]


class Counted(Protocol):
    """The part of a trial's result that stopping depends on."""

    @property
    def counts(self) -> npt.NDArray[np.int64]: ...


class Stopping:
    """Decides after each trial whether every hit ratio's 95 % interval is narrow enough.

    n, mean, squares, cubes : of each hit ratio so far: number of trials in which it is defined, mean,
        and sums of squared and cubed deviations (Terriberry's extension of Welford's method)
    """

    def __init__(self, half_width: float | None) -> None:
        self.half_width = half_width
        self.n: Any = 0
        self.mean: Any = 0.0
        self.squares: Any = 0.0
        self.cubes: Any = 0.0
        self.trials = 0

    def enough(self, result: Counted) -> bool:
        """Add a trial; returns whether there are enough."""
        if self.half_width is None:
            return False
        ratio = hit_ratio(result.counts)
        defined = ~np.isnan(ratio)
        self.n = self.n + defined
        n = np.maximum(self.n, 1)
        off = np.where(defined, ratio - self.mean, 0.0)
        step = off / n
        grown = off * step * (n - 1)
        self.cubes = self.cubes + step * (grown * (n - 2) - 3 * self.squares)
        self.squares = self.squares + grown
        self.mean = self.mean + step
        self.trials += 1
        if self.trials < MIN_TRIALS_TO_STOP:
            return False
        sampled = self.n > 1
        n, squares = self.n[sampled], self.squares[sampled]
        skewness = statistics.sample_skewness(n, squares, self.cubes[sampled])
        width = statistics.factor(n, skewness) * np.sqrt(squares / (n - 1) / n)
        return bool((width <= self.half_width).all())


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
    progress: Progress | None = None,
    task: Task = _trial,
) -> tuple[list[Any], bool]:
    """Up to `trials` results of task(plan, workspace, seed, trial), in order of trials, and whether
    Ctrl-C interrupted them.

    Trial i runs on plan i modulo the number of plans.
    ci : stop once every hit ratio's 95 % interval has at most this half-width, from
        MIN_TRIALS_TO_STOP trials on

    Where a worker process dies, the trials that are complete are kept too, with a warning, and count
    as interrupted. Raises KeyboardInterrupt, or WorkerDied, if no trial is complete.
    """
    done: list[Any] = []
    stopping = Stopping(ci)
    n_plans = len(workers.plans)
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
        try:
            from distributed import Client, KilledWorker
        except ImportError as error:
            raise ReplayError("backend dask needs the packages of memsim[dask]") from error
        try:
            client = stack.enter_context(Client(self._scheduler, timeout=10))
        except (OSError, ValueError) as error:
            raise ReplayError(f"scheduler {self._scheduler} does not answer: {error}") from error
        self._submit = client.get_executor(pure=False).submit
        self._most_ahead = sys.maxsize
        self._died = KilledWorker

    def _workspace(self, k: int) -> Any:
        if k not in self._workspaces:
            self._workspaces[k] = self.handling.workspace(self.plans[k])
        return self._workspaces[k]


@functools.lru_cache(maxsize=4)
def _opened(folder: str, handling: Handling) -> tuple[Any, Any]:
    plan = handling.load(Path(folder))
    return plan, handling.workspace(plan)


def _in_folder(task: Task, folder: str, handling: Handling, arguments: tuple[Any, ...]) -> Any:
    """Run a task on the plan of a folder; a worker keeps the last few plans open."""
    return task(*_opened(folder, handling), *arguments)
