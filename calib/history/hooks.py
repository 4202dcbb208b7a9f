"""Hooks in PyOpenCL that observe the arguments of kernels and their launches.

Every launch, through PyOpenCL's `kernel(queue, ...)` or through Loopy, calls `enqueue_nd_range_kernel`;
its arguments are set before, one by one or several in one call. The hooks are installed only while there
are listeners, and a program needs no change. OpenCL has no query for the arguments of a kernel. A
kernel whose arguments were set before the hooks were installed is therefore identified by its grid
alone, until its arguments are set again.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from calib.history.key import crc32c, fold

INTEGERS = frozenset(letter.encode() for letter in "bBhHiIlLqQnN")
"""Letters of integers in the struct module, which PyOpenCL uses to pack arguments."""


class Listener(Protocol):
    """Observes every launch; its method must not raise, and should take microseconds."""

    def launched(self, queue: Any, kernel: Any, grid: Any, group: Any, event: Any) -> None: ...


_listeners: list[Listener] = []
_originals: dict[tuple[Any, str], Any] = {}
_lock = threading.Lock()


def listen(listener: Listener) -> None:
    """Reports every later launch, of all threads, to the listener."""
    with _lock:
        if not _listeners:
            _install()
        _listeners.append(listener)


def unlisten(listener: Listener) -> None:
    """Ends `listen`; without listeners PyOpenCL is restored."""
    with _lock:
        _listeners.remove(listener)
        if not _listeners:
            _uninstall()


def _install() -> None:
    import pyopencl
    from pyopencl import _cl

    enqueue = _hooked_enqueue(_cl.enqueue_nd_range_kernel)
    _replace(_cl, "enqueue_nd_range_kernel", enqueue)
    _replace(pyopencl, "enqueue_nd_range_kernel", enqueue)
    kernel = _cl.Kernel
    for name, noting in (
        ("set_arg", _recording_one),
        ("_set_arg_multi", _recording_several(_MANY, 2, _quick)),
        ("_set_arg_buf_multi", _recording_several(_BYTES, 2, _as_bytes)),
        ("_set_arg_buf_pack_multi", _recording_several(_PACKED, 3, _integers)),
    ):
        _replace(kernel, name, noting(getattr(kernel, name)))
    _replace(pyopencl, "CommandQueue", _profiling(pyopencl.CommandQueue))


def _replace(owner: Any, name: str, new: Any) -> None:
    _originals[(owner, name)] = getattr(owner, name)
    setattr(owner, name, new)


def _uninstall() -> None:
    for (owner, name), original in _originals.items():
        setattr(owner, name, original)
    _originals.clear()


def _hooked_enqueue(original: Callable[..., Any]) -> Callable[..., Any]:
    def enqueue_nd_range_kernel(
        queue: Any,
        kernel: Any,
        global_work_size: Any,
        local_work_size: Any,
        *rest: Any,
        **named: Any,
    ) -> Any:
        skipped = _dry_run_launches.get()
        if skipped is not None:
            slots = tuple(getattr(kernel, "_memsim_arguments", NO_ARGUMENTS))
            skipped.append((queue, kernel, global_work_size, local_work_size, slots))
            return _completed_event(queue)
        event = original(queue, kernel, global_work_size, local_work_size, *rest, **named)
        for listener in _listeners:
            listener.launched(queue, kernel, global_work_size, local_work_size, event)
        return event

    return enqueue_nd_range_kernel


NO_ARGUMENTS: tuple[Any, ...] = ((), (), (), ())
"""The slots of a kernel whose arguments were set before the hooks were installed."""
SkippedLaunch = tuple[Any, Any, Any, Any, tuple[Any, ...]]
"""Queue, kernel, grid, group and observed arguments of a launch that was not executed."""

_dry_run_launches: contextvars.ContextVar[list[SkippedLaunch] | None]
_dry_run_launches = contextvars.ContextVar("pretended", default=None)


@contextlib.contextmanager
def dry_run() -> Iterator[list[SkippedLaunch]]:
    """Collects the launches of this thread within the block instead of executing them."""
    launches: list[SkippedLaunch] = []
    listener = _NoListener()
    listen(listener)
    token = _dry_run_launches.set(launches)
    try:
        yield launches
    finally:
        _dry_run_launches.reset(token)
        unlisten(listener)


class _NoListener:
    def launched(self, queue: Any, kernel: Any, grid: Any, group: Any, event: Any) -> None:
        """Ignores launches of other threads, which are executed."""


def _completed_event(queue: Any) -> Any:
    from pyopencl import UserEvent, command_execution_status

    event = UserEvent(queue.context)
    event.set_status(command_execution_status.COMPLETE)
    return event


_PACKED, _BYTES, _MANY, _SINGLE = range(4)
"""Slots of a kernel's arguments, one for each function that sets them; later slots override earlier ones."""


def _slots(kernel: Any) -> list[Any]:
    """The kernel's slots: the arguments that each function set last."""
    try:
        return kernel._memsim_arguments  # type: ignore[no-any-return]
    except AttributeError:
        kernel._memsim_arguments = list(NO_ARGUMENTS)
        return kernel._memsim_arguments  # type: ignore[no-any-return]


def identifying_value(argument: Any) -> Any:
    """The value that distinguishes an argument from others of its type, which the kernel's source fixes.

    A buffer's bytes as int, an integer itself, and an empty text for other numbers.
    """
    if isinstance(argument, np.integer):
        return argument
    if isinstance(argument, np.generic):
        return ""
    size = getattr(argument, "size", None)
    return size if isinstance(size, int) else type(argument).__name__


@functools.cache
def _quick_values() -> dict[type, Callable[[Any], Any]]:
    """`identifying_value` for frequent types, without examining the argument."""
    from pyopencl import Buffer

    quick: dict[type, Callable[[Any], Any]] = {Buffer: operator.attrgetter("size")}
    for kind in (np.int32, np.uint32, np.int64, np.uint64, np.int8, np.uint8, np.int16, np.uint16):
        quick[kind] = _itself
    for real in (np.float32, np.float64):
        quick[real] = _nothing
    return quick


def _itself(argument: Any) -> Any:
    return argument


def _nothing(argument: Any) -> str:
    return ""


Recording = Callable[[Callable[..., Any]], Callable[..., Any]]


def _recording_one(original: Callable[..., Any]) -> Callable[..., Any]:
    def set_arg(self: Any, index: int, argument: Any) -> None:
        original(self, index, argument)
        slots = _slots(self)
        single = dict(slots[_SINGLE])
        single[index] = identifying_value(argument)
        slots[_SINGLE] = tuple(single.items())

    return set_arg


def _recording_several(
    slot: int, stride: int, values_of: Callable[[tuple[Any, ...]], Iterable[Any]]
) -> Recording:
    """Notes the arguments of functions that set several, in lists of an index and what belongs to it.

    stride : elements of the list for one argument;  values_of : a list -> its identifying values
    """

    def recording(original: Callable[..., Any]) -> Callable[..., Any]:
        def set_several(self: Any, listed: tuple[Any, ...]) -> None:
            original(self, listed)
            slots = _slots(self)
            slots[slot] = (listed[::stride], *values_of(listed))
            if slots[_SINGLE]:
                slots[_SINGLE] = tuple(s for s in slots[_SINGLE] if s[0] not in listed[::stride])

        return set_several

    return recording


def _quick(pairs: tuple[Any, ...]) -> list[Any]:
    quick = _quick_values()
    return [quick.get(type(a), identifying_value)(a) for a in pairs[1::2]]


def _as_bytes(pairs: tuple[Any, ...]) -> Iterable[bytes]:
    """64-bit integers, structures and complex numbers are identified by their bytes."""
    return map(bytes, pairs[1::2])


def _integers(triples: tuple[Any, ...]) -> Sequence[Any]:
    """Values that are not integers are not part of the key."""
    values, letters = triples[2::3], triples[1::3]
    if INTEGERS.issuperset(letters):
        return values
    return [v if c in INTEGERS else "" for c, v in zip(letters, values, strict=True)]


def arguments(slots: Sequence[Any]) -> dict[int, int | bytes | str | np.integer[Any]]:
    """Argument index -> its identifying value: an int is a buffer's bytes, integers are NumPy's."""
    packed, raw, many, single = slots
    values: dict[int, Any] = {}
    if packed:
        integers = (v if isinstance(v, str) else np.int64(v) for v in packed[1:])
        values.update(zip(packed[0], integers, strict=True))
    for part in (raw, many):
        if part:
            values.update(zip(part[0], part[1:], strict=True))
    values.update(dict(single))
    return values


def _profiling(queue_class: Any) -> Any:
    """A substitute for the class of queues whose queues profile their commands.

    PyOpenCL's constructor cannot be replaced in place. The queues are instances of the original class,
    and `isinstance` treats the substitute as that class. A class that is derived from the substitute
    would not be a queue.
    """
    from pyopencl import command_queue_properties

    wanted = int(command_queue_properties.PROFILING_ENABLE)

    class Profiling(type):
        def __call__(cls, context: Any, device: Any = None, properties: Any = None) -> Any:
            if properties is None or isinstance(properties, int):
                properties = int(properties or 0) | wanted
            return queue_class(context, device, properties)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, queue_class)

        def __subclasscheck__(cls, subclass: Any) -> bool:
            return issubclass(subclass, queue_class)

        def __getattr__(cls, name: str) -> Any:
            return getattr(queue_class, name)

    class CommandQueue(metaclass=Profiling):
        __doc__ = queue_class.__doc__

    return CommandQueue


def layout_of(slots: Sequence[Any], grid: Any, group: Any) -> int:
    """The layout hash of a launch, from its observed arguments and its grid."""
    hashes = [fold([index, *_words(what)]) for index, what in sorted(arguments(slots).items())]
    sizes = [len(grid), *map(int, grid), *(map(int, group) if group else ())]
    return fold([fold(sizes), *hashes])


def _words(what: Any) -> tuple[int | str, ...]:
    if isinstance(what, bytes):
        return ("bytes", crc32c(what))
    if isinstance(what, np.integer):
        return ("integer", int(what))
    if isinstance(what, int):
        return ("buffer", what)
    return (str(what),)


def bytes_of(slots: Sequence[Any]) -> int:
    """Bytes of all buffers among the arguments."""
    return sum(what for what in arguments(slots).values() if isinstance(what, int))
