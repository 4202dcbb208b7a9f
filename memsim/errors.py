"""The errors a user can cause; commands print them in one line and leave with exit code 2."""

from __future__ import annotations


class MemsimError(Exception):
    """Root of every error that names a culprit outside this program and the rule it broke."""


class TraceError(MemsimError):
    """A trace, or a trace file, breaks its contract."""


class MachineError(MemsimError):
    """A machine description is unknown, incomplete or contradicts itself."""


class ReplayError(MemsimError):
    """A replay was asked for something that its trace, machine or options cannot give."""


class ResultError(MemsimError):
    """A saved result cannot be read, or cannot be compared with another."""


class KernelError(MemsimError):
    """A kernel cannot be loaded, built, run or traced."""


class OpenCLError(MemsimError):
    """No usable OpenCL platform, or the one asked for does not work."""


class SnapshotWarning(UserWarning):
    """A snapshot is smaller than what its replay is trusted for."""
