"""Workloads: a kernel of each language together with its arguments and its launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracegen.workloads.checks import check_fields
from tracegen.workloads.origin import Origin, origin_of_caller


@dataclass(frozen=True)
class Workload:
    """A Loopy kernel and its arguments.

    kernel : loopy.TranslationUnit, with its inames already split and tagged for the device
    arguments : argument name -> numpy array or number, as the kernel's executor takes them; Loopy
        derives missing sizes from shapes, and allocates missing outputs
    check : called with the outputs (name -> array) after a run; raises AssertionError where they
        are wrong
    source_file : the user's own file, where the kernel was written
    origin : the call that made the kernel, with the lines of its instructions, if it is known
    registers_per_item : 32-bit registers of a work-item on the target, if known
    """

    kernel: Any
    arguments: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Mapping[str, Any]], None] | None = None
    source_file: str | None = None
    registers_per_item: int | None = None
    origin: Origin | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.origin is None and (origin := origin_of_caller(self.kernel)) is not None:
            object.__setattr__(self, "origin", origin)
            object.__setattr__(self, "source_file", self.source_file or origin.file)


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
    cluster : blocks of a cluster along each axis, where the launch and not the kernel says it
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
    cluster: int | tuple[int, ...] = 0
    shared_bytes: int = 0
    symbols: Mapping[str, Any] = field(default_factory=dict)
    build_options: str | Sequence[str] = ()
    check: Callable[[Mapping[str, Any]], None] | None = None
    registers_per_item: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)


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


@dataclass(frozen=True, kw_only=True)
class BinaryWorkload:
    """A kernel of a `.ptx`, `.cubin`, `.hsaco` or `.amdgcn` file, with its arguments and launch sizes.

    path : the file
    kernel : its symbol in the file; not needed where there is only one
    arguments : the values in the order of the parameters, or name -> value in that order, for names in reports. A
        pointer takes a numpy array (parameters that take the same array share its memory) or None, a struct a numpy
        scalar of its layout, all else a number, which gets the parameter's size
    grid : blocks along each axis; block : threads along each axis of a block
    cluster : blocks of a cluster along each axis, where the launch and not the kernel says it
    shared_bytes : dynamic shared memory of a block
    check : called with the arrays (name -> array) after a run; raises AssertionError where they are wrong
    registers_per_item : 32-bit registers of a thread on the target, if known better than the file does
    """

    path: str | Path | None = None
    kernel: str | None = None
    arguments: Mapping[str, Any] | Sequence[Any] = ()
    grid: int | tuple[int, ...] = 0
    block: int | tuple[int, ...] = 0
    cluster: int | tuple[int, ...] = 0
    shared_bytes: int = 0
    check: Callable[[Mapping[str, Any]], None] | None = None
    registers_per_item: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class TritonWorkload:
    """A `@triton.jit` function, also one under `@triton.autotune` and `@triton.heuristics`, with its arguments and grid.

    kernel : the function; the command line puts there what `kernel.py:NAME` names
    arguments : parameter name -> value, or the values in the order of the parameters: numpy arrays, torch tensors, None
        and numbers; constants of the compilation may be among them
    grid : groups along each axis, or a function of all arguments by name, as Triton takes it
    settings : further constants of the compilation, and options as `num_warps` and `num_stages`
    config : which of the autotuner's configurations, from 0
    check : called with the arrays (name -> array) after a run; raises AssertionError where they are wrong
    registers_per_item : 32-bit registers of a thread on the target, if known
    """

    kernel: Any = None
    arguments: Mapping[str, Any] | Sequence[Any] = field(default_factory=dict)
    grid: Any = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    config: int = 0
    check: Callable[[Mapping[str, Any]], None] | None = None
    registers_per_item: int | None = None

    @property
    def configurations(self) -> list[str]:
        """The autotuner's configurations in words, `BLOCK=64 num_warps=4`; none of a kernel without an autotuner."""
        kernel = self.kernel
        while kernel is not None and not hasattr(kernel, "configs"):
            kernel = getattr(kernel, "fn", None)
        listed = [] if kernel is None else [one.all_kwargs() for one in kernel.configs]
        return [" ".join(f"{name}={value}" for name, value in one.items()) for one in listed]

    def __post_init__(self) -> None:
        check_fields(self, skipped=("grid",) if callable(self.grid) else ())
