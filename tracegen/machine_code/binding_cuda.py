"""The launch of a workload in CUDA C++ or HIP."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from memsim.errors import KernelError
from memsim.trace import SourceLocation
from tracegen.compiled.compile import compile_cuda
from tracegen.compiled.cuda_signature import Described, DeviceVariable, described, last_name
from tracegen.compiled.model import MachineCode
from tracegen.compiled.request import with_places
from tracegen.cuda.arguments import Arguments, bound
from tracegen.cuda.program import CudaProgram, launch_shape, read_program
from tracegen.machine_code.binding_makers import code_of
from tracegen.machine_code.binding_memory import Bytes, Memory, content
from tracegen.machine_code.binding_values import Shape
from tracegen.machine_code.bound import BoundKernel
from tracegen.options import Compiler
from tracegen.workloads.checks import axes, check_array, number
from tracegen.workloads.workload import CudaWorkload

_REFUSED = {
    "texture": "a texture",
    "surface": "a surface",
    "matrix": "a matrix instruction (wmma)",
    "bulk": "a bulk copy (TMA)",
    "arrival": "a barrier at which threads arrive without waiting",
    "roles": "a pipeline whose threads have roles, or are not a block,",
    "grid": "grid-wide synchronisation",
    "cluster": "a cluster of thread blocks before sm_90, or without NVRTC,",
}
"""What our headers mark in the code that clang compiles: see `headers/memsim/refused.h`."""
_MARK = re.compile(r"(?://|;) memsim_refused_(\w+)")


def bind_cuda(
    workload: CudaWorkload, target: str, compiler: Compiler, registers: int | None
) -> BoundKernel:
    program = read_program(workload)
    grid, block = launch_shape(workload, program.kernel)
    found = described(program, target, compiler)
    program = found.program
    arguments = bound(program.kernel, found.parameters, workload.arguments)
    symbols = _as_pointers(workload.symbols, found.variables.values())
    arguments.add_pointers(symbols)
    code = _compiled(found, target, registers)
    made = code_of(code)
    _check_threads(program.kernel, block, made.most_threads)
    names = {symbol: _unused(_name(symbol, found), arguments.arrays) for symbol in made.variables}
    memory = Memory(arguments.arrays, {names[k]: data for k, data in made.variables.items()})
    sizes = made.constants | {symbol: len(data) for symbol, data in made.variables.items()}
    given = _values(symbols, found, sizes, memory)
    _set_variables(given, names, memory)
    machine = made.machine(
        memory,
        names,
        arguments.values,
        Shape(grid, block, axes(workload.cluster) if workload.cluster else ()),
        workload.shared_bytes,
        {symbol: data for symbol, data in given.items() if symbol in made.constants},
    )
    _set_variables(given, names, memory)
    declared = {variable.name for variable in found.variables.values()}
    return BoundKernel(
        name=program.kernel,
        code=made.code,
        grid=grid,
        group_shape=block,
        memory=memory,
        machine=machine,
        symbols=names,
        writable=frozenset(arguments.writable) | set(names.values()),
        local_memory_bytes=code.local_memory_bytes + workload.shared_bytes,
        settings=program.template_integers | _integers(arguments),
        text=program.text,
        included=program.included_text,
        source=lambda line: _source(program, line),
        named_outputs=_outputs(arguments) | {k: k for k in names.values() if k in declared},
    )


def _compiled(found: Described, target: str, registers: int | None) -> MachineCode:
    """The machine code, under the kernel's symbol; errors have the user's lines."""
    program = found.program
    with with_places(lambda line: ":".join(map(str, program.place(line)))):
        code = compile_cuda(found, target, registers)
    text = code.intermediate or code.listing
    _, _, own = text.partition(f"\n{found.symbol}:")  # of AMD's assembly, which has all kernels
    if ".callprototype" in text:
        raise KernelError(f"{program.file}: a call through a pointer cannot be traced")
    for mark in _MARK.findall(own.partition(".Lfunc_end")[0] or text):
        if mark in _REFUSED:
            raise KernelError(f"{program.file}: {_REFUSED[mark]} cannot be traced")
    return dataclasses.replace(code, kernel=found.symbol)


def _source(program: CudaProgram, line: int) -> SourceLocation:
    file, line_there = program.place(line)
    return SourceLocation(generated_line=line, user_file=file, user_line=line_there)


def _check_threads(kernel: str, block: tuple[int, ...], most: int | None) -> None:
    if most is not None and math.prod(block) > most:
        raise KernelError(
            f"block of kernel {kernel} may have {most} threads (__launch_bounds__), got {math.prod(block)}"
        )


def _as_pointers(symbols: Mapping[str, Any], variables: Any) -> dict[str, Any]:
    """The values of variables; an array of numbers, or None, for a pointer is what it points to."""
    pointers = {one.name: one.number for one in variables if one.number in ("p", "i8")}
    made = dict(symbols)
    for name in set(pointers) & set(made):
        value = made[name]
        is_array = isinstance(value, np.ndarray) and not value.dtype.hasobject
        if is_array and pointers[name] == "i8" and value.dtype.kind in "iu" and value.nbytes == 8:
            continue  # a number
        if value is None or is_array:
            made[name] = np.empty((), object)
            made[name][()] = value
    return made


def _name(symbol: str, found: Described) -> str:
    """The name of a variable in the source; the compiler's own tables have none there."""
    known = found.variables.get(symbol)
    return known.name if known else last_name(symbol)


def _unused(name: str, arrays: Mapping[str, Any]) -> str:
    return f"{name} (variable)" if name in arrays else name


def _values(
    symbols: Mapping[str, Any], found: Described, sizes: Mapping[str, int], memory: Memory
) -> dict[str, Bytes]:
    """Symbol -> the bytes of its value, of the variables that the code has.

    sizes : symbol -> bytes
    Raises KernelError for a variable that the program does not have, or whose value does not fit.
    """
    kernel = found.program.kernel
    declared = {variable.name: variable for variable in found.variables.values()}
    in_code = {_name(symbol, found): symbol for symbol in sizes}
    made = {}
    for name, value in symbols.items():
        if name not in declared:
            known = ", ".join(declared) or "none"
            raise KernelError(f"kernel {kernel} uses no variable {name}; it has {known}")
        what = f"variable {name} of kernel {kernel}"
        if not isinstance(value, (np.ndarray, np.generic)):
            value = number(what, _dtype(declared[name], value), value)
        array = check_array(what, np.asarray(value), objects=True)
        size = sizes.get(in_code.get(name, ""), array.nbytes)
        if array.nbytes > size:
            raise KernelError(f"variable {name} has {size} bytes, its value has {array.nbytes}")
        if name in in_code:
            made[in_code[name]] = content(array, memory.address)
    return made


def _dtype(variable: DeviceVariable, value: Any) -> np.dtype[Any] | None:
    """The type of a variable that is a single number."""
    if variable.number in ("", "p"):
        return None
    is_unsigned = variable.number[0] == "i" and isinstance(value, int) and value >= 0
    return np.dtype(f"u{variable.number[1:]}" if is_unsigned else variable.number)


def _set_variables(given: Mapping[str, Bytes], names: Mapping[str, str], memory: Memory) -> None:
    for symbol, data in given.items():
        if symbol in names:
            view = memory.views[names[symbol]]
            view[: len(data)] = data
            memory.raw[names[symbol]] = view.tobytes()


def _integers(arguments: Arguments) -> dict[str, int]:
    named = zip(arguments.parameters, arguments.values, strict=True)
    return {
        parameter.name: int(value[0])
        for parameter, value in named
        if parameter.kind in ("i", "u") and value is not None
    }


def _outputs(arguments: Arguments) -> dict[str, str]:
    named = {
        parameter: array
        for parameter, array in arguments.owners.items()
        if array in arguments.writable
    }
    return named | {name: name for name in arguments.writable - set(named.values())}
