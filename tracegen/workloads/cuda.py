"""A workload in CUDA C++ or HIP: one kernel of a program, its arguments, and its launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracegen.workloads.checks import check_fields


@dataclass(frozen=True, kw_only=True)
class CudaWorkload:
    """A kernel of a CUDA C++ or HIP file, or of a text, with its arguments and launch sizes.

    path, source : the program; exactly one is needed. With both, source is the text, and path says
        where it came from and where its includes are searched
    kernel : name of the kernel with its namespaces and template arguments, `ns::transpose<float, 32>`;
        not needed where the program has only one, and that is no template
    arguments : parameter name -> value, or the values in the order of the parameters. A pointer takes a
        numpy array (parameters that take the same array share its memory) or None; a struct takes a
        numpy scalar of that layout, or a mapping from its fields to arrays (pointers) and numpy scalars, all
        else a number. In arrays and structs, a field of dtype object is a pointer: it contains an array or None
    grid : blocks along each axis; block : threads along each axis of a block
    shared_bytes : dynamic shared memory of a block
    symbols : name of a `__constant__` or `__device__` variable -> its value, an array or a number
    build_options : as for nvcc: -D, -U, -I, -std, -use_fast_math, -ftz, -prec-div, -prec-sqrt, -fmad and
        -maxrregcount; other options are ignored
    check : called with the arrays that the kernel may write (name -> array) after a run; raises
        AssertionError where they are wrong
    registers_per_item : 32-bit registers of a thread on the target, if known
    """

    path: str | Path | None = None
    source: str | None = None
    kernel: str | None = None
    arguments: Mapping[str, Any] | Sequence[Any] = field(default_factory=dict)
    grid: int | tuple[int, ...] = 0
    block: int | tuple[int, ...] = 0
    shared_bytes: int = 0
    symbols: Mapping[str, Any] = field(default_factory=dict)
    build_options: str | Sequence[str] = ()
    check: Callable[[Mapping[str, Any]], None] | None = None
    registers_per_item: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
