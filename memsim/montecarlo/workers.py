"""Many trials: in this process, in worker processes, or on a Dask cluster, with the same numbers.

Results are taken in the order of trials, so the trial at which `ci` stops does not depend on the
workers. A plan is passed to workers as a folder of files that they map into memory.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import joblib
import numpy as np
import numpy.typing as npt

from memsim import statistics
from memsim.errors import ReplayError
from memsim.hierarchy.cache import ACCESSES, HITS, PENDING
from memsim.montecarlo.options import Backend
from memsim.montecarlo.plan import Plan, load_plan, save_plan
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

    Raises KeyboardInterrupt if no trial is complete when Ctrl-C is pressed.
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
        self._workspaces: dict[int, Any] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Workers:
        if self._in_process:
            return self
        with contextlib.ExitStack() as stack:
            self._folder = Path(tempfile.mkdtemp(prefix="memsim-", dir=self._scratch))
            stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
            for k, plan in enumerate(self.plans):
                (self._folder / str(k)).mkdir()
                self.handling.save(plan, self._folder / str(k))
            self._parallel = stack.enter_context(
                _parallel(self._backend, self._scheduler, self._jobs)
            )
            self._stack = stack.pop_all()
        return self

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
        enough = False

        def tasks() -> Iterator[Any]:
            for k, rest in arguments:
                if enough:
                    return
                folder = str(self._folder / str(k))
                yield joblib.delayed(_in_folder)(task, folder, self.handling, rest)

        # Each run has its own Parallel: after results were dropped, a Parallel keeps the tasks that it had
        # dispatched ahead, and would run them first the next time (joblib 1.6).
        results = self._parallel()(tasks())
        try:
            yield results
            enough = True
            if self._backend == "local":
                # The few trials that have begun end by themselves. To abort them joblib would kill the
                # workers: the next run would start others, and now and then wait for them for ever.
                for _ in results:
                    pass
        finally:
            with warnings.catch_warnings():
                # Trials beyond the stopping point are dropped on purpose.
                warnings.simplefilter("ignore")
                results.close()

    def _workspace(self, k: int) -> Any:
        if k not in self._workspaces:
            self._workspaces[k] = self.handling.workspace(self.plans[k])
        return self._workspaces[k]


@contextlib.contextmanager
def _parallel(
    backend: Backend, scheduler: str | None, jobs: int
) -> Iterator[Callable[[], joblib.Parallel]]:
    """A factory of joblib.Parallel objects that yield their results one by one, in order."""
    made = functools.partial(joblib.Parallel, return_as="generator")
    if backend == "local":
        with joblib.parallel_config(backend="loky"):
            yield functools.partial(made, n_jobs=jobs, pre_dispatch="2*n_jobs")
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
        yield functools.partial(made, n_jobs=-1, pre_dispatch="all")


@functools.lru_cache(maxsize=4)
def _opened(folder: str, handling: Handling) -> tuple[Any, Any]:
    plan = handling.load(Path(folder))
    return plan, handling.workspace(plan)


def _in_folder(task: Task, folder: str, handling: Handling, arguments: tuple[Any, ...]) -> Any:
    """Run a task on the plan of a folder; a worker keeps the last few plans open."""
    return task(*_opened(folder, handling), *arguments)
