"""Times every OpenCL launch into a store, without changing the program.

    with record(store):
        ...                      # any PyOpenCL or Loopy program

A launch costs a note in memory: the event, and which key it is. A thread asks finished events for
their profile and writes batches to the store, every FLUSH_S. A sample is safe once `flush` returned,
or the `with` block was left: what was launched up to FLUSH_S before a process is killed may be lost.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from calib.history import hooks as launches
from calib.history.errors import HistoryError, HistoryWarning
from calib.history.key import Key, device_title, kernel_fingerprint, layout_hash, total_bytes
from calib.history.records import Sample
from calib.history.store import Store

FLUSH_S = 0.05
WAITING = 65_536
"""Launches whose events may be outstanding; beyond, samples are dropped and counted, never the run."""
LONGEST_WAIT_S = 60.0
"""At the end: events that are not done by then depend on something that will never come."""
KNOWN_LAUNCHES = 100_000
"""Kinds of launch remembered, then begun anew: a program may have one for each value of an integer."""
KNOWN_KERNELS = 4096
NOTHING_TOLD: tuple[Any, ...] = ((), (), (), ())
"""Of a kernel whose arguments were set before the recording."""


@dataclass(frozen=True, kw_only=True)
class _Kind:
    key: Key
    size_bytes: int
    terms: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What became of the launches seen.

    untimed : on queues without profiling
    failed : ended with an error, or gave no time above 0
    lost : not done when the recording ended, or beyond what may be outstanding
    """

    launched: int
    stored: int
    untimed: int
    failed: int
    lost: int


class Recorder:
    """Notes launches and feeds a store. Made by `record`, or for one queue by RecordingQueue.

    kernel_name : names a kernel; its name and a fingerprint of its source unless given
    device_name : names a queue's device; its platform, name and compute units unless given
    only : a queue whose launches alone are recorded; None for all
    """

    def __init__(
        self,
        store: Store,
        *,
        kernel_name: Callable[[Any], str] | None = None,
        device_name: Callable[[Any], str] | None = None,
        only: Any = None,
    ) -> None:
        self._store = store
        self._kernel_name = kernel_name or kernel_fingerprint
        self._device_name = device_name or device_title
        self._only = only
        self._ring: deque[tuple[Any, _Kind]] = deque()
        self._kinds: dict[tuple[Any, ...], _Kind] = {}
        self._places: dict[int, tuple[Any, tuple[str, str] | None]] = {}
        self._names: dict[int, tuple[Any, str]] = {}
        self._layout: contextvars.ContextVar[tuple[int, int, dict[str, float]] | None]
        self._layout = contextvars.ContextVar("layout", default=None)
        self._launched = self._stored = self._untimed = self._failed = self._lost = 0
        self._draining = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: HistoryError | None = None

    def start(self) -> None:
        """Begins to listen."""
        launches.listen(self)
        self._thread = threading.Thread(target=self._run, name="memsim-history", daemon=True)
        self._thread.start()

    def stop(self) -> Counts:
        """Ends listening, writes what is outstanding, and warns of what could not be timed.

        A second time it does nothing. Raises HistoryError where the store refused samples.
        """
        if self._stop.is_set():
            return self.counts()
        launches.unlisten(self)
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.flush()
        counts = self.counts()
        if counts.untimed:
            warnings.warn(
                f"{counts.untimed} launches were on queues without profiling and are not timed: make"
                " queues inside the recording, or with PROFILING_ENABLE",
                HistoryWarning,
                stacklevel=2,
            )
        if counts.failed or counts.lost:
            warnings.warn(
                f"{counts.failed} launches failed or gave no time, {counts.lost} were not done at the"
                " end: they are not recorded",
                HistoryWarning,
                stacklevel=2,
            )
        return counts

    def counts(self) -> Counts:
        """So far."""
        return Counts(
            launched=self._launched,
            stored=self._stored,
            untimed=self._untimed,
            failed=self._failed,
            lost=self._lost,
        )

    @contextlib.contextmanager
    def laid_out(self, *arguments: Any, terms: dict[str, float] | None = None) -> Iterator[None]:
        """Launches within, in this thread, have this layout and size: arrays, CSR matrices, numbers.

        Without it a launch is told by what OpenCL knows: bytes of buffers, values of integers, grid.
        terms : for the linear regression
        """
        layout = (layout_hash(arguments), total_bytes(arguments), dict(terms or {}))
        token = self._layout.set(layout)
        try:
            yield
        finally:
            self._layout.reset(token)

    def launched(self, queue: Any, kernel: Any, grid: Any, group: Any, event: Any) -> None:
        """Notes a launch: called by the hook."""
        if self._only is not None and queue is not self._only:
            return
        self._launched += 1
        try:
            place, name = self._places[id(queue)][1], self._names[id(kernel)][1]
        except KeyError:
            place, name = self._name(queue, kernel)
        if place is None:
            self._untimed += 1
            return
        given = self._layout.get()
        if given is None:
            try:
                told = tuple(kernel._memsim_told)
            except AttributeError:
                told = NOTHING_TOLD
            kind_of: tuple[Any, ...] = (name, place, grid, group, told)
        else:
            told = NOTHING_TOLD
            kind_of = (name, place, given[0])
        try:
            kind = self._kinds[kind_of]
        except (KeyError, TypeError):
            kind = self._kind(name, place, grid, group, told, given)
        if len(self._ring) < WAITING:
            self._ring.append((event, kind))
        else:
            self._lost += 1

    def _name(self, queue: Any, kernel: Any) -> tuple[tuple[str, str] | None, str]:
        """Names of queue and kernel, remembered: asking the driver takes longer than launching.

        Queue and kernel are held, so that no other gets their id.
        """
        from pyopencl import command_queue_properties

        if id(queue) not in self._places:
            profiling = int(queue.properties) & int(command_queue_properties.PROFILING_ENABLE)
            driver = queue.device.driver_version
            place = (self._device_name(queue), driver) if profiling else None
            self._places[id(queue)] = (queue, place)
        if id(kernel) not in self._names:
            if len(self._names) >= KNOWN_KERNELS:  # a program that makes a kernel for every launch
                self._names.clear()
            self._names[id(kernel)] = (kernel, self._kernel_name(kernel))
        return self._places[id(queue)][1], self._names[id(kernel)][1]

    def _kind(
        self,
        name: str,
        place: tuple[str, str],
        grid: Any,
        group: Any,
        told: tuple[Any, ...],
        given: tuple[int, int, dict[str, float]] | None,
    ) -> _Kind:
        grid, group = tuple(grid), tuple(group) if group is not None else None
        if given is None:
            layout, size_bytes = launches.layout_of(told, grid, group), launches.bytes_of(told)
            terms: dict[str, float] = {}
            kind_of: tuple[Any, ...] = (name, place, grid, group, told)
        else:
            layout, size_bytes, terms = given
            kind_of = (name, place, given[0])
        device, driver = place
        kind = _Kind(
            key=Key(kernel=name, device=device, driver=driver, layout=layout),
            size_bytes=size_bytes,
            terms=terms,
        )
        if len(self._kinds) >= KNOWN_LAUNCHES:
            self._kinds.clear()
        self._kinds[kind_of] = kind
        return kind

    def flush(self, longest_s: float = LONGEST_WAIT_S) -> None:
        """Waits for every launch noted so far and writes it: what was launched before is safe after.

        Launches not done after `longest_s` are given up. Raises HistoryError where the store refused.
        """
        for queue, _ in list(self._places.values()):
            queue.flush()  # what was never handed to the device would never be done
        end = time.monotonic() + longest_s
        while self._ring and time.monotonic() < end:
            if not self._drain():
                time.sleep(0.0005)
        with self._draining:
            self._lost += len(self._ring)
            self._ring.clear()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _run(self) -> None:
        while not self._stop.wait(FLUSH_S):
            self._drain()

    def _drain(self) -> int:
        """Writes the launches that are done, in one transaction; returns how many left the ring."""
        from pyopencl import Error, command_execution_status, profiling_info

        complete = int(command_execution_status.COMPLETE)
        with self._draining:
            samples, waiting, left, now = [], [], 0, time.time()
            for _ in range(len(self._ring)):
                event, kind = self._ring.popleft()
                try:
                    status = int(event.command_execution_status)
                    if status > complete:
                        waiting.append((event, kind))
                        continue
                    start, end = (
                        event.get_profiling_info(what)
                        for what in (profiling_info.START, profiling_info.END)
                    )
                except Error:  # a launch that failed has no profile
                    status, start, end = -1, 0, 0
                left += 1
                if status < 0 or end <= start:
                    self._failed += 1
                    continue
                samples.append(
                    Sample(
                        key=kind.key,
                        time_s=(end - start) * 1e-9,
                        size_bytes=kind.size_bytes,
                        terms=kind.terms,
                        at=now,
                    )
                )
            self._ring.extendleft(reversed(waiting))
            try:
                self._store.add_many(samples)
                self._stored += len(samples)
            except HistoryError as error:  # said by flush, in the program's own thread
                self._error = error
                self._lost += len(samples)
            return left


@contextlib.contextmanager
def record(
    store: Store,
    *,
    kernel_name: Callable[[Any], str] | None = None,
    device_name: Callable[[Any], str] | None = None,
) -> Iterator[Recorder]:
    """Times every launch of the program into the store, for as long as the block lasts.

    Queues made within profile their commands; earlier ones must have been made so. Warns of launches
    that could not be timed. Raises HistoryError at the end where the store refused samples.
    """
    recorder = Recorder(store, kernel_name=kernel_name, device_name=device_name)
    recorder.start()
    try:
        yield recorder
    finally:
        recorder.stop()


def RecordingQueue(
    context: Any,
    device: Any = None,
    *,
    store: Store,
    kernel_name: Callable[[Any], str] | None = None,
    device_name: Callable[[Any], str] | None = None,
) -> Any:
    """A pyopencl.CommandQueue whose launches are timed into a store until it is left or closed.

    It is used as any queue is; `with RecordingQueue(...) as queue` or `queue.recorder.stop()` ends
    the recording.
    """
    import pyopencl
    from pyopencl import _cl

    class Recording(_cl.CommandQueue):
        recorder: Recorder

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *problem: object) -> None:
            self.recorder.stop()
            super().__exit__(*problem)

    queue = Recording(
        context, device, properties=pyopencl.command_queue_properties.PROFILING_ENABLE
    )
    queue.recorder = Recorder(store, kernel_name=kernel_name, device_name=device_name, only=queue)
    queue.recorder.start()
    return queue
