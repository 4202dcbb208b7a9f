"""The launch of a workload in OpenCL C; compiling OpenCL C is shared with Loopy's kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError
from memsim.trace import SourceLocation
from tracegen.compiled.compile import compile_kernel
from tracegen.compiled.programs import EXTENSIONS
from tracegen.compiled.request import CompileError
from tracegen.machine_code.binding_makers import DeviceCode, code_of
from tracegen.machine_code.binding_memory import Memory
from tracegen.machine_code.binding_values import ConstantBytes, LocalBytes, Value
from tracegen.machine_code.bound import BoundKernel
from tracegen.opencl_c.arguments import Argument, bound
from tracegen.opencl_c.parse import parse
from tracegen.opencl_c.preprocess import preprocess
from tracegen.options import Compiler
from tracegen.workloads.opencl import OpenCLWorkload


def bind_opencl(
    workload: OpenCLWorkload, target: str, compiler: Compiler, registers: int | None
) -> BoundKernel:
    source, file = _source(workload)
    text = preprocess(source, file, workload.build_options, EXTENSIONS)
    cursor = parse(text).named(workload.kernel)
    name = str(cursor.spelling)
    arguments, _ = bound(cursor, workload.arguments)
    grid, group_shape = _shape(workload, name)

    def source_of(line: int) -> SourceLocation:
        place = text.place(line)
        return SourceLocation(generated_line=line, user_file=place.file, user_line=place.line)

    made = compiled_opencl(
        text.text,
        name,
        target,
        text.options,
        group_shape,
        registers,
        compiler,
        lambda line: str(text.place(line)),
    )
    arrays: dict[str, npt.NDArray[Any]] = {}
    owners: dict[int, str] = {}
    values = [_value(one, arrays, owners, made) for one in arguments]
    memory = Memory(arrays, made.variables)
    names = {symbol: symbol for symbol in made.variables}
    machine = made.machine(memory, names, values, (grid, group_shape), 0, {})
    written = {one.name: owners[id(one.value)] for one in arguments if _is_output(one)}
    local = sum(int(one.value) for one in arguments if one.kind == "local")
    return BoundKernel(
        name=name,
        code=made.code,
        grid=grid,
        group_shape=group_shape,
        memory=memory,
        machine=machine,
        symbols=names,
        writable=frozenset(written.values()) | set(names),
        local_memory_bytes=made.code.local_memory_bytes + local,
        settings={
            one.name: int(one.value) for one in arguments if isinstance(one.value, np.integer)
        },
        text=text.text,
        source=source_of,
        named_outputs=written,
    )


def compiled_opencl(
    text: str,
    kernel: str,
    target: str,
    options: Sequence[str],
    group_shape: Sequence[int],
    registers: int | None,
    compiler: Compiler,
    place: Callable[[int], str],
) -> DeviceCode:
    """A kernel's machine code; errors have the user's lines."""
    try:
        code = compile_kernel(
            text,
            kernel,
            target,
            build_options=options,
            group_shape=group_shape,
            registers_limit=registers,
            by=compiler,
        )
    except CompileError as error:
        if error.line is None:
            raise
        raise KernelError(f"{place(error.line)}: {error.reason}") from None
    return code_of(code)


def _value(
    argument: Argument,
    arrays: dict[str, npt.NDArray[Any]],
    owners: dict[int, str],
    made: DeviceCode,
) -> Value:
    """The argument as a value; arrays that lie in memory are added, once each."""
    value = argument.value
    if argument.kind == "local":
        return LocalBytes(value)
    if not argument.kind:
        return np.asarray(value).reshape(-1)
    if value is None:
        arrays[argument.name] = np.empty(0, np.uint8)
        return None
    if argument.kind == "constant" and made.has_constant_arguments:
        return ConstantBytes(value)
    name = owners.setdefault(id(value), argument.name)
    arrays.setdefault(name, value)
    return name


def _is_output(argument: Argument) -> bool:
    return argument.kind == "global" and argument.writable and argument.value is not None


def _source(workload: OpenCLWorkload) -> tuple[str, str]:
    """The program's text, and the name of its file."""
    if workload.source is not None:
        return workload.source, str(workload.path or "kernel.cl")
    if workload.path is None:
        raise KernelError("an OpenCLWorkload needs a path or a source")
    path = Path(workload.path)
    if not path.is_file():
        raise KernelError(f"no such kernel file: {path}")
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except (OSError, UnicodeDecodeError) as error:
        raise KernelError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        ) from error


def _shape(workload: OpenCLWorkload, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Groups along each axis, and work-items along each axis of a group."""
    items, group = _axes(workload.global_size), _axes(workload.local_size)
    if len(items) != len(group) or not 1 <= len(items) <= 3:
        raise KernelError(
            f"global_size and local_size of kernel {name} must have the same one to three axes,"
            f" got {items} and {group}"
        )
    for axis, (all_of, one) in enumerate(zip(items, group, strict=True)):
        if one < 1 or all_of < 1 or all_of % one:
            raise KernelError(
                f"local_size of kernel {name} must divide global_size along each axis, got"
                f" {one} and {all_of} along axis {axis}"
            )
    return tuple(a // b for a, b in zip(items, group, strict=True)), group


def _axes(size: Any) -> tuple[int, ...]:
    listed = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    return tuple(int(extent) for extent in listed)
