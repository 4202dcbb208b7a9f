"""Work in a process of its own, with limits: a broken kernel cannot take the command down.

The process is forked: everything that is imported already need not be imported again, and while it
traces, the command imports what it needs for the rest. What it reports of its progress, and its warnings,
reach the command through a pipe. OpenCL drivers do not survive a fork. A Python
program that uses pyopencl already therefore works in its own process, without limits.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, ClassVar, TypeVar

from memsim.errors import KernelError, MemsimError
from memsim.options import Options, option
from memsim.progress import heard_by, report
from tracegen.options import computer_bytes

T = TypeVar("T")

GIB = 2**30
_ALIGNMENT = 64
_SHARED_PART = 8
"""Results are written to memory up to one part in so many of this computer's."""
_PR_SET_PDEATHSIG = 1
TICK_S = 0.2
"""Reports of progress are at most so long apart, so that a display can show the time."""


@dataclass(frozen=True, kw_only=True)
class Limits(Options):
    """What a process of its own may use."""

    error: ClassVar[type[MemsimError]] = KernelError

    time_limit: float = option(
        3600.0,
        "End the run of a kernel after this time: its loops may not end.",
        above=0.0,
        unit="seconds",
        metavar="SECONDS",
        recorded=False,
    )
    memory_limit: float | None = option(
        None,
        "Memory that the run of a kernel may use.",
        above=0.0,
        most=float(1 << 30),
        unit="GiB",
        metavar="GIB",
        default_text="three quarters of this computer's memory",
        recorded=False,
    )

    @property
    def memory_bytes(self) -> int:
        """The limit in bytes."""
        if self.memory_limit is not None:
            return int(self.memory_limit * GIB)
        return computer_bytes() * 3 // 4


def in_own_process(
    work: Callable[[], T], limits: Limits, what: str, meanwhile: Callable[[], object] | None = None
) -> T:
    """What `work` returns, or raises, in a forked process.

    what : names the work in errors
    meanwhile : called in this process while the other one works

    Raises KernelError where the process crashes or exceeds a limit.
    """
    if "pyopencl" in sys.modules or not hasattr(os, "fork"):
        return work()
    return in_forked_process(work, limits, what, meanwhile)


def in_forked_process(
    work: Callable[[], T], limits: Limits, what: str, meanwhile: Callable[[], object] | None = None
) -> T:
    """As `in_own_process`, where the caller knows that no OpenCL driver runs in this process yet."""
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    with contextlib.closing(os.fdopen(reader, "rb")), _Results() as results:
        with warnings.catch_warnings():  # Python 3.12 warns where numpy has started threads
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            _work(work, limits, writer, results)  # does not return
        os.close(writer)  # the child's copy is closed when it ends
        status = None
        try:
            if meanwhile is not None:
                meanwhile()
            if _has_ended(reader, limits.time_limit):
                status = os.waitpid(child, 0)[1]
        finally:
            if status is None:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
        if status is None:
            raise KernelError(
                f"{what}: its run took more than {limits.time_limit:g} s: its loops may not end, or"
                " --time-limit must be longer"
            )
        if status != 0:
            raise KernelError(f"{what}: {_end(status, limits)}")
        returned: T = _returned(results.written)
        return returned


def _has_ended(reader: int, limit_s: float) -> bool:
    """Passes on what the other process says until it ends; False where it does not within the limit."""
    end, said = time.monotonic() + limit_s, b""
    while True:
        report("")
        left_s = end - time.monotonic()
        if left_s <= 0:
            return False
        if select.select([reader], [], [], min(left_s, TICK_S))[0]:
            part = os.read(reader, 1 << 16)
            if not part:
                return True
            *lines, said = (said + part).split(b"\n")
            for line in lines:
                what, *numbers = json.loads(line)
                if numbers:
                    report(what, *numbers)
                else:
                    warnings.warn(what, UserWarning, stacklevel=4)


def _end(status: int, limits: Limits) -> str:
    if not os.WIFSIGNALED(status):
        return f"its run ended with exit code {os.WEXITSTATUS(status)}"
    number = os.WTERMSIG(status)
    name = signal.Signals(number).name
    if number in (signal.SIGKILL, signal.SIGABRT):
        gib = limits.memory_bytes / GIB
        gave_up = "the OpenCL driver gave up, or " if number == signal.SIGABRT else "perhaps "
        return (
            f"its run was ended by {name}: {gave_up}it needs more memory than {gib:.3g} GiB"
            " (--memory-limit)"
        )
    return f"its run crashed ({name}): code of the function of --args, a library or the OpenCL driver is broken"


def _work(work: Callable[[], object], limits: Limits, writer: int, results: _Results) -> None:
    """The forked process: it writes what `work` returns, or raises, and ends."""
    code = 70

    def say(*message: object) -> None:
        os.write(writer, json.dumps(message).encode() + b"\n")

    try:
        _confine(limits)
        warnings.showwarning = lambda warning, *_: say(str(warning))
        try:
            with heard_by(say, alone=True):
                content: tuple[str, Any] = ("returned", work())
        except MemoryError:
            gib = limits.memory_bytes / GIB
            error = f"the run of the kernel needs more memory than {gib:.3g} GiB (--memory-limit)"
            content = ("raised", KernelError(error))
        except BaseException as error:
            content = ("raised", _portable(error))
        _write(content, results)
        sys.stdout.flush()
        sys.stderr.flush()
        code = 0
    finally:
        os._exit(code)


def _confine(limits: Limits) -> None:
    import ctypes
    import resource

    # The command ends this process where the user interrupts it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(
        OSError, AttributeError
    ):  # Linux: ends with the command, if that is killed
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for kind, most in ((resource.RLIMIT_DATA, limits.memory_bytes), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(OSError, ValueError):
            hard = resource.getrlimit(kind)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(kind, (most, hard))


def _portable(error: BaseException) -> BaseException:
    """The error, or one with its text where it cannot be pickled; a bug keeps its traceback."""
    text = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    if not isinstance(error, MemsimError):
        error.add_note(text)
    return error


class _Pickler(pickle.Pickler):
    """Memory maps are written as the arrays that they are."""

    def reducer_override(self, value: Any) -> Any:
        import numpy as np

        if isinstance(value, np.memmap):
            return np.asarray(value).__reduce_ex__(5)
        return NotImplemented


class _Results:
    """Where the other process writes what it returns: memory that both have, or a file where that would be much of this computer's."""

    def __enter__(self) -> _Results:
        self.files: list[IO[bytes]] = [tempfile.TemporaryFile()]
        if hasattr(os, "memfd_create"):  # pages of a file take seconds a gigabyte
            self.files.append(os.fdopen(os.memfd_create("memsim-results"), "wb+"))
        return self

    def __exit__(self, *error: object) -> None:
        for file in self.files:
            file.close()

    def room(self, n_bytes: int) -> IO[bytes]:
        fits = n_bytes <= computer_bytes() // _SHARED_PART
        return self.files[-1] if fits else self.files[0]

    @property
    def written(self) -> IO[bytes]:
        return max(self.files, key=lambda file: os.fstat(file.fileno()).st_size)


def _write(content: Any, results: _Results) -> None:
    """Arrays at aligned places, so that they can be mapped, then the rest, then the places."""
    places: list[tuple[int, int]] = []
    buffers: list[pickle.PickleBuffer] = []
    text = io.BytesIO()
    _Pickler(text, protocol=5, buffer_callback=buffers.append).dump(content)
    raws = [buffer.raw() for buffer in buffers]
    file = results.room(sum(raw.nbytes for raw in raws))
    for raw in raws:
        file.seek(-file.tell() % _ALIGNMENT, os.SEEK_CUR)
        places.append((file.tell(), raw.nbytes))
        file.write(raw)
    start = file.tell()
    file.write(text.getbuffer())
    end = file.tell()
    pickle.dump((start, end, places), file)
    file.write(end.to_bytes(8, "little"))
    file.flush()


def _returned(file: IO[bytes]) -> Any:
    """What `_work` wrote; its arrays are maps of the file, which lives as long as they do."""
    import mmap

    # Copy on write: whoever gets the arrays may change them.
    whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    start, end, places = pickle.loads(whole[int.from_bytes(whole[-8:], "little") : -8])
    buffers = [whole[at : at + size] for at, size in places]
    kind, content = pickle.loads(whole[start:end], buffers=buffers)
    if kind == "raised":
        raise content
    return content
