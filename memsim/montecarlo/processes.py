"""Tasks in other processes, with results in order, that stop early or at Ctrl-C without harm."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from multiprocessing import resource_tracker
from queue import SimpleQueue
from typing import Any

with warnings.catch_warnings():
    # Without /dev/shm joblib warns when it is imported; check_locks says it where it matters.
    warnings.simplefilter("ignore", UserWarning)
    from joblib.externals.loky import ProcessPoolExecutor
    from joblib.externals.loky.backend.context import get_context

from memsim.files import environment

Submit = Callable[..., Future[Any]]
_END = object()


@contextlib.contextmanager
def in_order(
    submit: Submit, tasks: Iterable[tuple[Any, ...]], most_ahead: int
) -> Iterator[Iterator[Any]]:
    """The results of submit(*task) for each task, in order.

    Leaving the context drops results that were not consumed; tasks that have begun end by themselves.
    The tasks are taken one by one, as others end, in another thread.

    most_ahead : number of tasks that are submitted ahead of the result that is waited for
    """
    finished: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
    requests: SimpleQueue[bool] = SimpleQueue()

    def serve() -> None:
        ahead: deque[Future[Any]] = deque()
        rest = iter(tasks)
        try:
            while requests.get():
                free = most_ahead - len(ahead)
                ahead.extend(submit(*task) for task in itertools.islice(rest, free))
                finished.put((ahead.popleft().result() if ahead else _END, None))
        except BaseException as error:
            finished.put((None, error))
        finally:
            for future in ahead:
                future.cancel()

    def results() -> Iterator[Any]:
        while True:
            requests.put(True)
            result, error = finished.get()
            if error is not None:
                raise error
            if result is _END:
                return
            yield result

    # A process that grew is replaced. Where warnings are errors, to warn of that would end the thread
    # that replaces it.
    warnings.filterwarnings("ignore", message="A worker stopped while some jobs")
    # Ctrl-C interrupts the main thread, and can leave the lock of a future or of an executor held for
    # ever. Therefore another thread uses them.
    threading.Thread(target=serve, daemon=True).start()
    try:
        yield results()
    finally:
        requests.put(False)


_safe_path = environment("PYTHONSAFEPATH", "1")
"""Processes that start here do not import a file `copy.py` of the current folder in place of Python's."""

_executors: dict[int, ProcessPoolExecutor] = {}
"""The worker processes of each number of jobs; later runs use them again."""


@_safe_path
def check_locks() -> None:
    """Raises OSError where processes cannot share locks, as in a container without /dev/shm."""
    get_context("loky").Lock()


@_safe_path
def submit_locally(jobs: int, *task: Any) -> Future[Any]:
    """Submit to `jobs` worker processes; raises BrokenExecutor when one of them dies.

    It blocks Ctrl-C in the thread that calls it.
    """
    executor = _executors.get(jobs)
    if executor is None or executor._flags.broken:
        threads = ("MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        executor = ProcessPoolExecutor(
            jobs, timeout=300, env=dict.fromkeys(threads, "1"), initializer=_end_with_parent
        )
        resource_tracker.ensure_running()  # otherwise submit starts it, and unblocks Ctrl-C
    # A terminal sends Ctrl-C to all processes. Those that start here inherit that it is blocked.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    future: Future[Any] = executor.submit(*task)
    if not _executors:
        # This is called before the executor's own function, which waits for tasks that have begun.
        threading._register_atexit(_terminate)  # type: ignore[attr-defined]
    _executors[jobs] = executor
    return future


def _end_with_parent() -> None:
    """In a worker: it ends within a second of a parent that was killed, and frees its memory."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _terminate() -> None:
    for executor in _executors.values():
        for process in list(executor._processes.values()):
            process.terminate()
