"""The launch of a kernel that somebody has compiled, and of one in Triton: arguments by their places alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from memsim.errors import KernelError
from memsim.trace import SourceLocation
from tracegen.compiled.binary import CompiledText, read_file
from tracegen.compiled.triton_code import compile_triton
from tracegen.cuda.arguments import Arguments, Parameter
from tracegen.cuda.program import launch_shape
from tracegen.machine_code.binding_makers import code_of
from tracegen.machine_code.binding_memory import Memory
from tracegen.machine_code.binding_nvidia import NvidiaCode
from tracegen.machine_code.binding_values import Shape
from tracegen.machine_code.bound import BoundKernel
from tracegen.workloads.checks import axes, is_whole, short
from tracegen.workloads.workload import BinaryWorkload, TritonWorkload

_FLOATS = {2: np.float16, 4: np.float32, 8: np.float64}
_POINTER_BYTES = 8


def bind_binary(workload: BinaryWorkload, target: str, registers: int | None) -> BoundKernel:
    if workload.path is None:
        raise KernelError("a BinaryWorkload needs a path")
    found = read_file(Path(workload.path), workload.kernel, target, registers)
    given = workload.arguments
    if not isinstance(given, Mapping):
        given = {f"argument {k}": value for k, value in enumerate(given)}
    grid, block = launch_shape(workload, found.code.kernel)
    shape = Shape(grid, block, axes(workload.cluster) if workload.cluster else ())
    return bound(found, given, shape, workload.shared_bytes)


def bind_triton(workload: TritonWorkload, target: str, registers: int | None) -> BoundKernel:
    made = compile_triton(workload, target)
    found = made.code(target, registers)
    shape = Shape(made.grid, (made.threads, *[1] * (len(made.grid) - 1)), made.cluster)
    return bound(found, made.given, shape, made.shared_bytes, made.settings)


def bound(
    found: CompiledText,
    given: Mapping[str, Any],
    shape: Shape,
    dynamic_bytes: int,
    settings: Mapping[str, int] | None = None,
) -> BoundKernel:
    """A launch. given : name -> value of each parameter, in their order"""
    made = code_of(found.code)
    kernel, sizes = found.code.kernel, parameter_bytes(made)
    if len(given) != len(sizes):
        raise KernelError(f"kernel {kernel} takes {len(sizes)} arguments, got {len(given)}")
    if made.most_threads is not None and math.prod(shape.group) > made.most_threads:
        raise KernelError(
            f"block of kernel {kernel} may have {made.most_threads} threads, got {math.prod(shape.group)}"
        )
    arguments = Arguments([], kernel)
    types = found.types if len(found.types) == len(sizes) else [""] * len(sizes)
    for (name, value), size, declared in zip(given.items(), sizes, types, strict=True):
        _add(arguments, name, value, size, declared)
    names = {symbol: _unused(symbol, arguments.arrays) for symbol in made.variables}
    memory = Memory(arguments.arrays, {names[k]: data for k, data in made.variables.items()})
    machine = made.machine(memory, names, arguments.values, shape, dynamic_bytes, {})
    integers = {
        name: int(value) for name, value in given.items() if is_whole(value, 1 << 62, -(1 << 62))
    }
    return BoundKernel(
        name=kernel,
        code=made.code,
        grid=tuple(shape.grid),
        group_shape=tuple(shape.group),
        memory=memory,
        machine=machine,
        symbols=names,
        writable=frozenset(arguments.writable) | set(names.values()),
        local_memory_bytes=found.code.local_memory_bytes + dynamic_bytes,
        settings=integers if settings is None else settings,
        text=found.text,
        source=lambda line: SourceLocation(
            generated_line=line, user_file=found.file or None, user_line=line
        ),
        named_outputs=arguments.owners,
    )


def parameter_bytes(made: Any) -> list[int]:
    """The size of each parameter."""
    if isinstance(made, NvidiaCode):
        return [size for _, size in made.cubin.parameters]
    return [one.n_bytes for one in made.resources.parameters]


def _add(arguments: Arguments, name: str, value: Any, size: int, declared: str) -> None:
    """An argument of so many bytes. declared : its type, where somebody says it"""
    what = f"argument {name.removeprefix('argument ')} of kernel {arguments.kernel}"
    kind, count = "", size
    if value is None or (
        isinstance(value, np.ndarray) and not (value.dtype.fields and not value.ndim)
    ):
        kind = "p"
    elif isinstance(value, np.generic | np.ndarray) and value.dtype.fields:
        kind = "s"
    elif isinstance(value, bool | np.bool_) or is_whole(value, (1 << 64) - 1, -(1 << 63)):
        kind = "i" if int(value) < 0 else "u"
    elif isinstance(value, float | np.floating) and size in _FLOATS:
        kind = "f"
    if kind and kind in "iuf" and declared[:1] in ("u", "s", "f"):  # else a number says what it is
        kind = "f" if declared[0] == "f" else "i" if value < 0 else "u"
    if (
        not kind
        or (kind == "p" and size != _POINTER_BYTES)
        or (kind in "iu" and size not in (1, 2, 4, 8))
    ):
        raise KernelError(f"{what} has {size} bytes in the machine code, got {short(value)}")
    if isinstance(value, bool | np.bool_):
        value = int(value)
    arguments.add(Parameter(name, count, kind, "", False, 1), arguments.kernel, value)


def _unused(name: str, arrays: Mapping[str, Any]) -> str:
    taken = itertools.chain([name], (f"{name} ({k})" for k in itertools.count(2)))
    return next(one for one in taken if one not in arrays)
