"""Where PyOpenCL's launches pass: hooks that see arguments being set and kernels being enqueued.

Every launch ends in `enqueue_nd_range_kernel`, from `kernel(queue, ...)` through pyopencl's invoker
and from Loopy's; arguments are set one by one or in packs just before. The hooks are in place only
while somebody listens, and a program needs no change. OpenCL cannot be asked for a kernel's
arguments: what the hooks see being set is all there is, so a kernel whose arguments were set earlier
is told by its grid alone, until it is set anew.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from calib.history.key import crc32c, fold

INTEGERS = frozenset(letter.encode() for letter in "bBhHiIlLqQnN")
"""Of the struct module, as pyopencl gives them to its own packing."""


class Listener(Protocol):
    """What is told of every launch; it must not raise, and should take microseconds."""

    def launched(self, queue: Any, kernel: Any, grid: Any, group: Any, event: Any) -> None: ...


_listeners: list[Listener] = []
_originals: dict[tuple[Any, str], Any] = {}
_lock = threading.Lock()


def listen(listener: Listener) -> None:
    """Tells it of every launch from now on, of all threads."""
    with _lock:
        if not _listeners:
            _install()
        _listeners.append(listener)


def unlisten(listener: Listener) -> None:
    """The opposite; the last one to leave puts PyOpenCL back as it was."""
    with _lock:
        _listeners.remove(listener)
        if not _listeners:
            _uninstall()


def _install() -> None:
    import pyopencl
    from pyopencl import _cl

    enqueue = _listening(_cl.enqueue_nd_range_kernel)
    _replace(_cl, "enqueue_nd_range_kernel", enqueue)
    _replace(pyopencl, "enqueue_nd_range_kernel", enqueue)
    kernel = _cl.Kernel
    for name, noting in (
        ("set_arg", _noting_one),
        ("_set_arg_multi", _noting_many),
        ("_set_arg_buf_multi", _noting_bytes),
        ("_set_arg_buf_pack_multi", _noting_packed),
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


def _listening(original: Callable[..., Any]) -> Callable[..., Any]:
    def enqueue_nd_range_kernel(
        queue: Any,
        kernel: Any,
        global_work_size: Any,
        local_work_size: Any,
        *rest: Any,
        **named: Any,
    ) -> Any:
        pretended = _pretended.get()
        if pretended is not None:
            slots = tuple(getattr(kernel, "_memsim_told", ((), (), (), ())))
            pretended.append((queue, kernel, global_work_size, local_work_size, slots))
            return _event_that_is_over(queue)
        event = original(queue, kernel, global_work_size, local_work_size, *rest, **named)
        for listener in _listeners:
            listener.launched(queue, kernel, global_work_size, local_work_size, event)
        return event

    return enqueue_nd_range_kernel


Pretended = tuple[Any, Any, Any, Any, tuple[Any, ...]]
"""Queue, kernel, grid, group and what was seen of the arguments, of a launch that was not carried out."""

_pretended: contextvars.ContextVar[list[Pretended] | None]
_pretended = contextvars.ContextVar("pretended", default=None)


@contextlib.contextmanager
def pretending() -> Iterator[list[Pretended]]:
    """Launches of this thread within are noted and not carried out: which keys would they have?"""
    noted: list[Pretended] = []
    nobody = _Nobody()
    listen(nobody)
    token = _pretended.set(noted)
    try:
        yield noted
    finally:
        _pretended.reset(token)
        unlisten(nobody)


class _Nobody:
    def launched(self, queue: Any, kernel: Any, grid: Any, group: Any, event: Any) -> None:
        """Launches of other threads go on as ever."""


def _event_that_is_over(queue: Any) -> Any:
    from pyopencl import UserEvent, command_execution_status

    event = UserEvent(queue.context)
    event.set_status(command_execution_status.COMPLETE)
    return event


_PACKED, _BYTES, _MANY, _SINGLE = range(4)
"""Slots of what a kernel was told, one for each way to set arguments; later slots go before earlier."""


def _slots(kernel: Any) -> list[Any]:
    """An attribute of the kernel: what each way of setting arguments set last."""
    try:
        return kernel._memsim_told  # type: ignore[no-any-return]
    except AttributeError:
        kernel._memsim_told = [(), (), (), ()]
        return kernel._memsim_told  # type: ignore[no-any-return]


def told(argument: Any) -> Any:
    """What tells an argument from others of its type, which the kernel's source fixes.

    Bytes of a buffer as int, an integer as itself, of other numbers nothing but that they are there.
    """
    if isinstance(argument, np.integer):
        return argument
    if isinstance(argument, np.generic):
        return ""
    size = getattr(argument, "size", None)
    return size if isinstance(size, int) else type(argument).__name__


@functools.cache
def _telling() -> dict[type, Callable[[Any], Any]]:
    """`told` for the frequent types, without asking what they are."""
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


def _noting_one(original: Callable[..., Any]) -> Callable[..., Any]:
    def set_arg(self: Any, index: int, argument: Any) -> None:
        original(self, index, argument)
        slots = _slots(self)
        single = dict(slots[_SINGLE])
        single[index] = told(argument)
        slots[_SINGLE] = tuple(single.items())

    return set_arg


def _noting_many(original: Callable[..., Any]) -> Callable[..., Any]:
    quick = _telling()

    def _set_arg_multi(self: Any, pairs: tuple[Any, ...]) -> None:
        original(self, pairs)
        slots = _slots(self)
        slots[_MANY] = (pairs[::2], *[quick.get(type(a), told)(a) for a in pairs[1::2]])
        if slots[_SINGLE]:
            slots[_SINGLE] = tuple(s for s in slots[_SINGLE] if s[0] not in pairs[::2])

    return _set_arg_multi


def _noting_bytes(original: Callable[..., Any]) -> Callable[..., Any]:
    def _set_arg_buf_multi(self: Any, pairs: tuple[Any, ...]) -> None:
        original(self, pairs)
        # 64-bit integers, structures, complex numbers: their bytes tell them.
        slots = _slots(self)
        slots[_BYTES] = (pairs[::2], *map(bytes, pairs[1::2]))
        if slots[_SINGLE]:
            slots[_SINGLE] = tuple(s for s in slots[_SINGLE] if s[0] not in pairs[::2])

    return _set_arg_buf_multi


def _noting_packed(original: Callable[..., Any]) -> Callable[..., Any]:
    def _set_arg_buf_pack_multi(self: Any, triples: tuple[Any, ...]) -> None:
        original(self, triples)
        slots = _slots(self)
        values: Sequence[Any] = triples[2::3]
        # What is no integer is masked by its type's letter.
        letters = triples[1::3]
        if not INTEGERS.issuperset(letters):
            values = [v if c in INTEGERS else "" for c, v in zip(letters, values, strict=True)]
        slots[_PACKED] = (triples[::3], *values)
        if slots[_SINGLE]:
            slots[_SINGLE] = tuple(s for s in slots[_SINGLE] if s[0] not in triples[::3])

    return _set_arg_buf_pack_multi


def arguments(slots: Sequence[Any]) -> dict[int, int | bytes | str | np.integer[Any]]:
    """Index to what tells the argument there: bytes of buffers are int, integers numpy's."""
    packed, raw, many, single = slots
    found: dict[int, Any] = {}
    if packed:
        integers = (v if isinstance(v, str) else np.int64(v) for v in packed[1:])
        found.update(zip(packed[0], integers, strict=True))
    for part in (raw, many):
        if part:
            found.update(zip(part[0], part[1:], strict=True))
    found.update(dict(single))
    return found


def _profiling(queue_class: Any) -> Any:
    """Stands in for the class of queues: those made by it profile their commands.

    They are of the very class, and for `isinstance` so is the stand-in: pyopencl's constructor cannot
    be replaced in place. A class derived from it meanwhile would not be a queue.
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
    """The layout hash of a launch, of what was seen of its arguments and of its grid."""
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
    """Of all the buffers among the arguments."""
    return sum(what for what in arguments(slots).values() if isinstance(what, int))
