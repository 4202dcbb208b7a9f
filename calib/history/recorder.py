"""Records the times of all OpenCL launches of a program, which needs no change, in a store.

    with record(store):
        ...                      # any PyOpenCL or Loopy program

At a launch, its event and key are kept in memory. A thread reads the profiles of finished events and
writes them to the store in batches, every FLUSH_S seconds. A sample is on the disk once `flush` has
returned or the `with` block has ended. If the process is killed, launches of the last FLUSH_S
seconds may be lost.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from calib.history import hooks
from calib.history.errors import HistoryError, HistoryWarning
from calib.history.key import Key, device_title, kernel_fingerprint, layout_hash, total_bytes
from calib.history.records import Sample
from calib.history.store import Store

FLUSH_S = 0.05
WAITING = 65_536
"""Most launches with unfinished events; further samples are dropped and counted."""
LONGEST_WAIT_S = 60.0
"""Wait for events at the end; those that are not complete by then are waiting for something else."""
KNOWN_LAUNCHES = 100_000
"""Most kinds of launch in memory, which is cleared when it is full. A program may have one kind for
each value of an integer argument."""
KNOWN_KERNELS = 4096


@dataclass(frozen=True, kw_only=True)
class _Kind:
    key: Key
    size_bytes: int
    terms: dict[str, float]


@dataclass(kw_only=True)
class Counts:
    """How many launches were observed and stored.

    untimed : launches on queues without profiling
    failed : launches that ended with an error or without a time above 0
    lost : launches that were unfinished when the recording ended, or exceeded WAITING
    """

    launched: int = 0
    stored: int = 0
    untimed: int = 0
    failed: int = 0
    lost: int = 0


class Recorder:
    """Stores the times of launches. `record` makes one for all queues, `RecordingQueue` for one queue.

    kernel_name : kernel -> its name; by default the kernel's name with a fingerprint of its source
    device_name : queue -> its device's name; by default platform, name and compute units
    only : the only queue whose launches are recorded; None for all queues
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
        self._counts = Counts()
        self._draining = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: HistoryError | None = None

    def start(self) -> None:
        """Starts the recording."""
        hooks.listen(self)
        self._thread = threading.Thread(target=self._run, name="memsim-history", daemon=True)
        self._thread.start()

    def stop(self) -> Counts:
        """Ends the recording, writes outstanding samples, and warns of launches without a time.

        A second call does nothing. Raises HistoryError where the store refused samples.
        """
        if self._stop.is_set():
            return self.counts()
        hooks.unlisten(self)
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.flush()
        counts = self.counts()
        if counts.untimed:
            warnings.warn(
                f"{counts.untimed} launches were on queues without profiling and are not timed: create"
                " queues within the recording, or with PROFILING_ENABLE",
                HistoryWarning,
                stacklevel=2,
            )
        if counts.failed or counts.lost:
            warnings.warn(
                f"{counts.failed} launches failed or have no time, {counts.lost} were unfinished at the"
                " end: they are not recorded",
                HistoryWarning,
                stacklevel=2,
            )
        return counts

    def counts(self) -> Counts:
        """The launches so far."""
        return replace(self._counts)

    @contextlib.contextmanager
    def laid_out(self, *arguments: Any, terms: dict[str, float] | None = None) -> Iterator[None]:
        """Gives the launches of this thread within the block the layout and size of these arguments.

        Without it, the layout consists of what OpenCL reports: bytes of buffers, values of
        integers, and the grid.

        arguments : arrays, CSR matrices, numbers
        terms : name -> value, for the linear regression
        """
        layout = (layout_hash(arguments), total_bytes(arguments), dict(terms or {}))
        token = self._layout.set(layout)
        try:
            yield
        finally:
            self._layout.reset(token)

    def launched(self, queue: Any, kernel: Any, grid: Any, group: Any, event: Any) -> None:
        """Remembers a launch; called by the hook."""
        if self._only is not None and queue is not self._only:
            return
        self._counts.launched += 1
        try:
            place, name = self._places[id(queue)][1], self._names[id(kernel)][1]
        except KeyError:
            place, name = self._name(queue, kernel)
        if place is None:
            self._counts.untimed += 1
            return
        given = self._layout.get()
        if given is None:
            slots = tuple(getattr(kernel, "_memsim_arguments", hooks.NO_ARGUMENTS))
            kind_of: tuple[Any, ...] = (name, place, grid, group, slots)
        else:
            slots = hooks.NO_ARGUMENTS
            kind_of = (name, place, given[0])
        try:
            kind = self._kinds[kind_of]
        except (KeyError, TypeError):
            kind = self._kind(name, place, grid, group, slots, given)
        if len(self._ring) < WAITING:
            self._ring.append((event, kind))
        else:
            self._counts.lost += 1

    def _name(self, queue: Any, kernel: Any) -> tuple[tuple[str, str] | None, str]:
        """The names of queue and kernel, cached, because a query to the driver takes longer than a launch.

        References to queue and kernel are kept, so that no other object gets their id.
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
        slots: tuple[Any, ...],
        given: tuple[int, int, dict[str, float]] | None,
    ) -> _Kind:
        grid, group = tuple(grid), tuple(group) if group is not None else None
        if given is None:
            layout, size_bytes = hooks.layout_of(slots, grid, group), hooks.bytes_of(slots)
            terms: dict[str, float] = {}
            kind_of: tuple[Any, ...] = (name, place, grid, group, slots)
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
        """Waits for all launches so far and writes their times; then they are on the disk.

        Launches that are unfinished after `longest_s` are dropped. Raises HistoryError where the store
        refused samples.
        """
        for queue, _ in list(self._places.values()):
            queue.flush()  # commands that were not submitted to the device would never finish
        end = time.monotonic() + longest_s
        while self._ring and time.monotonic() < end:
            if not self._drain():
                time.sleep(0.0005)
        with self._draining:
            self._counts.lost += len(self._ring)
            self._ring.clear()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _run(self) -> None:
        while not self._stop.wait(FLUSH_S):
            self._drain()

    def _drain(self) -> int:
        """Writes finished launches in one transaction; returns how many left the ring."""
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
                    self._counts.failed += 1
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
                self._counts.stored += len(samples)
            except HistoryError as error:  # flush raises it in the program's own thread
                self._error = error
                self._counts.lost += len(samples)
            return left


@contextlib.contextmanager
def record(
    store: Store,
    *,
    kernel_name: Callable[[Any], str] | None = None,
    device_name: Callable[[Any], str] | None = None,
) -> Iterator[Recorder]:
    """Stores the times of all launches of the program within the block.

    Queues that are created within the block profile their commands; earlier ones must have been created
    with profiling. It warns of launches without a time. Raises HistoryError at the end where the store
    refused samples.
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
    """A pyopencl.CommandQueue whose launches are recorded in a store.

    The recording ends with the block `with RecordingQueue(...) as queue`, or with
    `queue.recorder.stop()`.
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
