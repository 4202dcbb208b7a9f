"""Many trials: in threads or processes of this computer, or on a Dask cluster, with the same numbers.

Results are taken in the order of trials, so the trial at which `ci` stops does not depend on the
workers. A plan is passed to processes as a folder of files that they map into memory.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from memsim import statistics
from memsim.errors import ReplayError, WorkerDied
from memsim.files import temporary_folder
from memsim.hierarchy.cache import ACCESSES, DOUBTFUL, HITS, OPEN, PENDING, Memory
from memsim.montecarlo import plan_files
from memsim.montecarlo.options import LEAST_TRIALS, Backend
from memsim.montecarlo.plan import Plan
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
        """Half-width of the 95 % interval of each mean; 0 where it has fewer than two trials."""
        n = np.maximum(self.n, 2)
        skewness = statistics.sample_skewness(n, self.squares, self.cubes)
        width = statistics.factor(n, skewness) * np.sqrt(self.squares / (n - 1) / n)
        return np.where(self.n > 1, width, 0.0)


class Stopping:
    """Decides after each trial whether every hit ratio's interval due to the ordering is narrow enough.

    half_width : from MIN_TRIALS_TO_STOP trials on, intervals as narrow as this are; None: no number of
        trials is enough
    places : those that the trials replay in turn
    model_error : (n_level, 1) validated error of each level's hit ratios. From `least` trials on, intervals
        are narrow if they are at most SMALL of `half_width` and of what else is open: this error, what earlier groups
        have left in the caches, and the place. None: that does not count
    """

    def __init__(
        self,
        half_width: float | None,
        places: Places = ONE_PLACE,
        model_error: npt.NDArray[np.float64] | None = None,
        least: int = LEAST_TRIALS,
    ) -> None:
        self.half_width, self.model_error = half_width, model_error
        self.places, self.moments = places, [Moments() for _ in range(places.n)]
        self.least = max(MIN_TRIALS_TO_STOP if model_error is None else least, 2 * places.n)
        self.open: Any = 0.0
        self.trials = 0

    def enough(self, result: Counted) -> bool:
        """Add a trial; returns whether there are enough."""
        if self.half_width is None:
            return False
        counts = result.counts
        self.moments[self.trials % self.places.n].add(hit_ratio(counts))
        unknown = counts[..., OPEN] / 2 + counts[..., DOUBTFUL]
        self.open = self.open + unknown / np.maximum(counts[..., ACCESSES], 1)
        self.trials += 1
        if self.trials < self.least:
            return False
        width = self.places.ordering([one.half_width() for one in self.moments])
        narrow: Any = 0.0
        if self.model_error is not None:
            place = self.places.place([one.mean for one in self.moments])
            other = self.model_error + self.open / self.trials + place
            narrow = SMALL * (self.half_width + other)
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


class Call(NamedTuple):
    """task(plan, workspace, *arguments), where the plan is given by its number."""

    task: Task
    plan: int
    arguments: tuple[Any, ...]


@dataclass
class Results:
    """Results so far: of the trials in order, of other calls by their keys; whether the trials are enough, and suffice."""

    trials: list[Any] = field(default_factory=list)
    others: dict[Hashable, Any] = field(default_factory=dict)
    interrupted: bool = False
    suffices: bool = False


Watch = Callable[[Results, int], object]
"""Called after each result with all so far, and how many there will be at most."""


def counted(progress: Progress | None) -> Watch:
    """Calls `progress` with the number of results, and how many there will be at most."""

    def watch(made: Results, most: int) -> None:
        if progress is not None:
            progress(len(made.trials) + len(made.others), most)

    return watch


def enough_trials(
    workers: Workers,
    seed: int,
    most_trials: int,
    stopping: Stopping,
    watch: Watch,
    task: Task = _trial,
    others: Mapping[Hashable, Call] | None = None,
    suffices: Callable[[Results], bool] = lambda made: True,
) -> Results:
    """Up to `most_trials` results of task(plan, workspace, seed, trial), in order of trials, until `stopping` has enough; trial i
    runs on plan i modulo the number of plans.

    others : run besides, from when there may be enough trials on: so workers have something to do that is needed, while it is found
        out that there are
    suffices : asked when there are enough trials; if not, others are left out

    Where a worker process dies, the trials that are complete are kept too, with a warning, and count
    as interrupted. Raises KeyboardInterrupt, or WorkerDied, if no trial is complete.
    """
    made, others, is_enough = Results(), others or {}, threading.Event()
    keys: deque[Hashable] = deque()  # of calls whose results are not there yet; None for a trial
    first = min(stopping.least, most_trials)

    def calls() -> Iterator[Call]:
        for i in range(first):
            keys.append(None)
            yield Call(task, i % len(workers.plans), (seed, i))
        for key, call in others.items():
            keys.append(key)
            yield call
        for i in range(first, most_trials):
            if is_enough.is_set():
                return
            keys.append(None)
            yield Call(task, i % len(workers.plans), (seed, i))

    try:
        with workers.run_calls(calls()) as results:
            for result in results:
                key = keys.popleft()
                if key is not None:
                    made.others[key] = result
                elif not is_enough.is_set():
                    made.trials.append(result)
                    if stopping.enough(result) or len(made.trials) == most_trials:
                        made.suffices = suffices(made)
                        if not made.suffices:
                            break
                        is_enough.set()
                watch(made, most_trials + len(others))
                if is_enough.is_set() and len(made.others) == len(others):
                    break
    except KeyboardInterrupt:
        made.interrupted = True
        if not made.trials:
            raise
    except WorkerDied as error:
        made.interrupted = True
        if not made.trials:
            raise
        warnings.warn(f"{error}; {len(made.trials)} complete trials are kept", stacklevel=2)
    return made


def run_others(
    workers: Workers, made: Results, others: Mapping[Hashable, Call], watch: Watch
) -> None:
    """Run what a number of trials calls for besides, if these suffice; an interrupt ends it, and the trials are kept."""
    if made.interrupted or not made.suffices:
        return
    left = {key: call for key, call in others.items() if key not in made.others}
    most = len(made.trials) + len(made.others) + len(left)
    try:
        with workers.run_calls(left.values()) as results:
            for key, result in zip(left, results, strict=True):
                made.others[key] = result
                watch(made, most)
    except (KeyboardInterrupt, WorkerDied):
        made.interrupted = True


Prepare = Callable[[Any, Memory], Any]
"""(plan, memory) -> buffers in the memory, which tasks of several plans use in turn; workers import it by name."""
MOST_OPEN = 16
"""Plans that a worker keeps open."""


class Kept(threading.local):
    """What each thread keeps from one call to the next: memory, and the last plans with their workspaces."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.opened: dict[Any, tuple[Any, Any]] = {}

    def close(self, keys: Iterable[Any]) -> None:
        for key in keys:
            del self.opened[key]

    def open(self, key: Any, load: Callable[[], Any], prepare: Prepare) -> tuple[Any, Any]:
        """A plan and its workspace."""
        if key not in self.opened:
            self.close(list(self.opened)[: max(len(self.opened) - MOST_OPEN + 1, 0)])
            plan = load()
            self.opened[key] = plan, prepare(plan, self.memory)
        return self.opened[key]


_KEPT = Kept()


class Workers:
    """Run tasks on plans: in this process, in its threads or children, or on a Dask cluster.

    plans : passed to tasks, with what `prepare` makes of each
    jobs : processes or threads; with 1, tasks run in this process
    threads : threads instead of processes. They start at once, where a process needs two seconds of a
        core, but cannot be ended before their task, and what ends one of them ends all
    scheduler : address of the Dask scheduler, for backend `dask`
    scratch : a folder that all workers can access, for the plans' files; by default a temporary one
    """

    def __init__(
        self,
        plans: Sequence[Any],
        *,
        jobs: int = 1,
        threads: bool = False,
        backend: Backend = "local",
        scheduler: str | None = None,
        scratch: Path | None = None,
        prepare: Prepare = Workspace,
    ) -> None:
        self.plans = plans
        self._prepare = prepare
        self._in_process = backend == "local" and jobs == 1
        self._in_threads = backend == "local" and jobs > 1 and threads
        self._jobs, self._backend, self._scheduler = jobs, backend, scheduler
        self._scratch = scratch
        self._submit: Submit = functools.partial(submit_locally, jobs)
        self._most_ahead = 2 * jobs
        self._died: type[Exception] = BrokenExecutor
        self._kept = Kept()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Workers:
        if self._in_process:
            return self
        if self._in_threads:
            executor = ThreadPoolExecutor(self._jobs)
            self._stack.callback(executor.shutdown, wait=False, cancel_futures=True)
            self._submit = executor.submit
            return self
        try:
            self._start()
        except OSError as error:  # no folder for temporary files, or no shared memory
            if self._backend == "dask":
                raise
            warnings.warn(
                f"no worker processes can be started: {error.strerror or error}; all trials run in this one",
                stacklevel=2,
            )
            self._in_process = True
        return self

    def _start(self) -> None:
        """Write the plans for the workers; raises OSError where these cannot be reached."""
        if self._backend == "local":
            check_locks()
        with contextlib.ExitStack() as stack:
            self._folder = stack.enter_context(temporary_folder(self._scratch))
            for k, plan in enumerate(self.plans):
                (self._folder / str(k)).mkdir()
                plan_files.save(plan, self._folder / str(k))
            if self._backend == "dask":
                # All tasks at once: the scheduler queues them.
                self._submit, self._died = dask_cluster(stack, self._scheduler)
                self._most_ahead = sys.maxsize
            self._stack = stack.pop_all()

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def run(
        self, task: Task, arguments: Iterable[tuple[int, tuple[Any, ...]]]
    ) -> contextlib.AbstractContextManager[Iterator[Any]]:
        """The task's results in order, for each (number of a plan, further arguments)."""
        return self.run_calls(Call(task, k, rest) for k, rest in arguments)

    @contextlib.contextmanager
    def run_calls(self, calls: Iterable[Call]) -> Iterator[Iterator[Any]]:
        """The results of calls in order. Leaving the context drops results that were not consumed."""
        if self._in_process:
            yield (self._here(call) for call in calls)
            return
        tasks: Iterator[tuple[Any, ...]] = (
            (self._here, call)
            if self._in_threads
            else (_in_folder, str(self._folder / str(call.plan)), self._prepare, call)
            for call in calls
        )
        try:
            with in_order(self._submit, tasks, self._most_ahead) as results:
                yield results
        except self._died as error:
            raise WorkerDied(
                "a worker process died: it was killed, perhaps because memory ran out"
            ) from error

    def _here(self, call: Call) -> Any:
        """Run a call in this process."""
        plan = self.plans[call.plan]
        return call.task(*self._kept.open(call.plan, lambda: plan, self._prepare), *call.arguments)


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


def _in_folder(folder: str, prepare: Prepare, call: Call) -> Any:
    """Run a call on the plan of a folder."""
    path = Path(folder)
    _KEPT.close({key for key in _KEPT.opened if key.parent != path.parent})
    return call.task(*_KEPT.open(path, lambda: plan_files.load(path), prepare), *call.arguments)
