"""Errors that a user can cause; commands print them in one line and exit with code 2."""

from __future__ import annotations

from typing import Any


class MemsimError(Exception):
    """Root of every error that names a culprit outside this program and the rule it broke.

    Errors reach a command from its worker processes as they are, whatever arguments their classes take.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _as_raised, (type(self), self.args, self.__dict__)


def _as_raised(
    kind: type[MemsimError], args: tuple[Any, ...], state: dict[str, Any]
) -> MemsimError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


def one_line(error: BaseException) -> str:
    """What an error says, in one line; where it says nothing, its type."""
    return " ".join(str(error).split()) or type(error).__name__


class TraceError(MemsimError):
    """A trace, or a trace file, breaks its contract."""


class MachineError(MemsimError):
    """A machine description is unknown, incomplete or contradicts itself."""


class ReplayError(MemsimError):
    """The trace, machine and options of a replay do not fit together."""


class WorkerDied(ReplayError):
    """A process that replays trials ended by itself, or was killed."""


class ResultError(MemsimError):
    """A saved result cannot be read, or cannot be compared with another."""


class KernelError(MemsimError):
    """A kernel cannot be loaded, built, run or traced."""


class OpenCLError(MemsimError):
    """There is no usable OpenCL platform, or the requested one does not work."""


class SnapshotWarning(UserWarning):
    """A snapshot is too small for a reliable replay."""


class PathsWarning(UserWarning):
    """The paths of a kernel's work-items differ from run to run: its trace is one of many."""
