"""The launch of a workload in OpenCL C; compiling OpenCL C is shared with Loopy's kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.trace import SourceLocation
from tracegen.compiled.compile import compile_kernel
from tracegen.compiled.opencl_arguments import Argument, bound, shape
from tracegen.compiled.opencl_program import read_program
from tracegen.compiled.request import with_places
from tracegen.machine_code.binding_makers import DeviceCode, code_of
from tracegen.machine_code.binding_memory import Memory
from tracegen.machine_code.binding_values import ConstantBytes, LocalBytes, Shape, Value
from tracegen.machine_code.bound import BoundKernel
from tracegen.options import Compiler
from tracegen.workloads.workload import OpenCLWorkload


def bind_opencl(
    workload: OpenCLWorkload, target: str, compiler: Compiler, registers: int | None
) -> BoundKernel:
    program = read_program(workload)
    kernel = program.named(workload.kernel)
    arguments = bound(kernel, workload.arguments)
    grid, group_shape = shape(workload, kernel)

    def source_of(line: int) -> SourceLocation:
        place = program.place(line)
        return SourceLocation(generated_line=line, user_file=place.file, user_line=place.line)

    made = compiled_opencl(
        program.text,
        kernel.name,
        target,
        program.options,
        group_shape,
        registers,
        compiler,
        lambda line: str(program.place(line)),
    )
    arrays: dict[str, npt.NDArray[Any]] = {}
    owners: dict[int, str] = {}
    values = [_value(one, arrays, owners, made) for one in arguments]
    memory = Memory(arrays, made.variables)
    names = {symbol: symbol for symbol in made.variables}
    machine = made.machine(memory, names, values, Shape(grid, group_shape), 0, {})
    written = {one.name: owners[id(one.value)] for one in arguments if one.writable}
    local = sum(int(one.value) for one in arguments if one.kind == "local")
    return BoundKernel(
        name=kernel.name,
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
        text=program.text,
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
    with with_places(place):
        code = compile_kernel(
            text,
            kernel,
            target,
            build_options=options,
            group_shape=group_shape,
            registers_limit=registers,
            by=compiler,
        )
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
