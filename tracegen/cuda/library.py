"""The compiled kernel with probes, loaded into this process."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError
from memsim.files import temporary_folder

MOST_TURNS = 1 << 30
"""Turns of loops after which a thread is taken for endless."""
MOST_THREADS = 1024
FAULT_WORDS = 7
CRASHED = 70
_WORD = ctypes.c_uint64


class _Launch(ctypes.Structure):
    """`struct launch` of `runtime/run.c`."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("warp", ctypes.c_uint32),
        ("waits", ctypes.c_uint32),
        ("kernel", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("regions", ctypes.c_void_p),
        ("n_regions", _WORD),
        ("groups", ctypes.c_void_p),
        ("n_groups", _WORD),
        ("places", ctypes.c_void_p),
        ("tokens", ctypes.c_void_p),
        ("counts", ctypes.c_void_p),
        ("fault", ctypes.c_void_p),
        ("reached", ctypes.c_void_p),
        ("most_turns", _WORD),
        ("untraced", ctypes.c_void_p),
        ("n_untraced", _WORD),
        ("noted", ctypes.c_void_p),
        ("times", ctypes.c_void_p),
        ("most_times", ctypes.c_uint32),
        ("noted_group", ctypes.c_uint32),
        ("n_checks", _WORD),
        ("nests", ctypes.c_void_p),
        ("counted", ctypes.c_void_p),
        ("n_loops", _WORD),
    )


class Library:
    """Calls of the compiled kernel.

    variables : memory of those of its variables that a run may change
    """

    def __init__(self, content: bytes) -> None:
        self.variables: list[npt.NDArray[np.uint8]] = []
        with temporary_folder() as folder:
            path = folder / "kernel.so"
            path.write_bytes(content)
            try:
                self.library = ctypes.CDLL(str(path))
            except OSError as error:
                raise KernelError(f"the compiled kernel cannot be loaded: {error}") from None

    def table(self, name: str, count: int) -> npt.NDArray[np.uint64]:
        """(count, 2) addresses and sizes of variables, which the program lists under a name."""
        return np.array((_WORD * (2 * count)).in_dll(self.library, name), np.uint64).reshape(-1, 2)

    def bytes_at(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """The memory of a variable."""
        if size == 0:
            return np.empty(0, np.uint8)
        return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))

    def text_at(self, address: int) -> str:
        """A text of the program."""
        return ctypes.string_at(address).decode("utf-8", errors="replace") if address else ""

    def run(
        self,
        shape: Sequence[tuple[int, ...]],
        warp: int,
        waits: bool,
        arguments: Any,
        arrays: Mapping[str, npt.NDArray[Any]],
    ) -> npt.NDArray[np.int64]:
        """Runs groups; returns the fault that ended the run, all 0 without one.

        shape : of the grid and of a block, three axes each
        arrays : `regions` (n, 3) and `untraced` (n, 3) base, size and place; `groups`; `places`,
            `tokens` and `counts` as in tracegen.probes.tokens, both empty where a run only counts;
            `reached` by position; `noted` (n_check, most_times, n_thread) and `times` (n_check,
            n_thread) of the group in the middle of `groups`, empty where nothing is noted; `nests` by loop
            without accesses, and `counted` (n_loop, 2) its turns and how often its nest was reached, empty
            where these are not counted. What the run writes lies in shared memory
        """
        fault = shared(FAULT_WORDS * 8).view(np.int64)
        data = {name: array.ctypes.data for name, array in arrays.items()}
        recording = len(arrays["tokens"]) > 0
        launch = _Launch(
            grid=shape[0],
            block=shape[1],
            warp=warp,
            waits=waits,
            kernel=ctypes.c_void_p.in_dll(self.library, "memsim_kernel").value,
            arguments=ctypes.addressof(arguments),
            regions=data["regions"],
            n_regions=len(arrays["regions"]),
            groups=data["groups"],
            n_groups=len(arrays["groups"]),
            places=data["places"],
            tokens=data["tokens"] if recording else None,
            counts=data["counts"],
            fault=fault.ctypes.data,
            reached=data["reached"],
            most_turns=MOST_TURNS,
            untraced=data["untraced"],
            n_untraced=len(arrays["untraced"]),
            noted=data["noted"] if arrays["noted"].size else None,
            times=data["times"],
            most_times=arrays["noted"].shape[1],
            noted_group=arrays["groups"][len(arrays["groups"]) // 2]
            if len(arrays["groups"])
            else 0,
            n_checks=len(arrays["noted"]),
            nests=data["nests"],
            counted=data["counted"] if arrays["counted"].size else None,
            n_loops=len(arrays["nests"]),
        )
        self._in_own_process(lambda: self.library.memsim_run(ctypes.byref(launch)))
        return fault

    def _in_own_process(self, work: Callable[[], int]) -> None:
        """Runs in a forked process, which shares the arrays: a kernel that crashes ends that alone.

        What the kernel leaves in its variables is copied back.
        """
        copies = [(view, shared(len(view))) for view in self.variables]
        with warnings.catch_warnings():  # Python 3.12 warns where numpy has started threads
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            status = CRASHED
            try:
                status = work()
                for view, copy in copies:
                    copy[:] = view
            finally:
                os._exit(status)
        try:
            status = os.waitpid(child, 0)[1]
        except BaseException:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            why = "it left a private array, or needs more memory than there is"
            if number == signal.SIGFPE:
                why = "it divided an integer by zero"
            raise KernelError(
                f"the run of the kernel crashed ({signal.Signals(number).name}): {why}"
            )
        if os.WEXITSTATUS(status):
            raise KernelError("there is no memory for the stacks of the kernel's threads")
        for view, copy in copies:
            view[:] = copy


def shared(size_bytes: int) -> npt.NDArray[np.uint8]:
    """Memory that forked processes share, filled with zeros."""
    try:
        return np.frombuffer(mmap.mmap(-1, max(size_bytes, 1)), np.uint8)[:size_bytes]
    except (OSError, OverflowError, ValueError) as error:
        raise KernelError(f"there is no memory for {size_bytes} bytes: {error}") from None
