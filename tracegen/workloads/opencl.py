"""A workload in OpenCL C: one kernel of a program, its arguments, and its launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracegen.workloads.checks import check_fields


@dataclass(frozen=True, kw_only=True)
class OpenCLWorkload:
    """A kernel of an OpenCL C file, or of a text, with its arguments and launch sizes.

    path, source : the program; exactly one is needed. With both, source is the text, and path says
        where it came from and where its includes are searched
    kernel : name of the kernel; not needed where the program has only one
    arguments : parameter name -> value, or the values in the order of the parameters. A pointer to
        __global or __constant memory takes a numpy array (two parameters that take the same array
        share its buffer) or None, a pointer to __local memory its number of bytes, all else a number
        or, for structs and vectors, a numpy scalar of that layout
    global_size : work-items along each axis; local_size : those of a group, a divisor of it
    build_options : as for clBuildProgram; without -cl-std the language is OpenCL C 1.2
    check : called with the arrays that the kernel may write (name -> array) after a run; raises
        AssertionError where they are wrong
    registers_per_item : 32-bit registers of a work-item on the target, if known
    """

    path: str | Path | None = None
    source: str | None = None
    kernel: str | None = None
    arguments: Mapping[str, Any] | Sequence[Any] = field(default_factory=dict)
    global_size: int | tuple[int, ...] = 0
    local_size: int | tuple[int, ...] = 0
    build_options: str | Sequence[str] = ()
    check: Callable[[Mapping[str, Any]], None] | None = None
    registers_per_item: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
