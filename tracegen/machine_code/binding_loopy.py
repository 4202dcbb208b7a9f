"""The launches of a Loopy kernel, as Loopy's own host code makes them. No OpenCL is needed."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from memsim.errors import KernelError
from memsim.trace import SourceLocation
from tracegen.instrumented import known_arguments, prepare
from tracegen.instrumented.host import build_options
from tracegen.instrumented.launch import LoopyLaunch, element_bytes
from tracegen.instrumented.sites import static_accesses
from tracegen.machine_code.binding_makers import DeviceCode
from tracegen.machine_code.binding_memory import Memory
from tracegen.machine_code.binding_opencl import compiled_opencl
from tracegen.machine_code.binding_values import Shape, Value
from tracegen.machine_code.bound import BoundKernel, KnownAccess
from tracegen.options import Compiler
from tracegen.polyhedral.host import StaticPrepared, static
from tracegen.workloads.workload import Workload


def bind_loopy(
    workload: Workload, target: str, compiler: Compiler, registers: int | None
) -> Iterator[BoundKernel]:
    prepared = _prepared(workload)
    launches = prepared.launches
    options = [*build_options(prepared.kernel), *_include_options()]
    place = "line {} of the code that Loopy generates".format
    made: dict[Any, DeviceCode] = {}
    accesses: dict[str, tuple[KnownAccess, ...]] = {}
    for launch in launches:
        key = launch.name, launch.group_shape
        if launch.name not in accesses:
            accesses[launch.name] = tuple(_accesses(launch))
        if key not in made:
            made[key] = compiled_opencl(
                prepared.source,
                launch.name,
                target,
                options,
                launch.group_shape,
                registers,
                compiler,
                place,
            )
    variables = {name: data for code in made.values() for name, data in code.variables.items()}
    memory = _memory(launches[0], variables) if launches else Memory({}, {})
    for launch in launches:
        code = made[launch.name, launch.group_shape]
        yield _bound(prepared, launch, code, memory, accesses[launch.name])


def _include_options() -> list[str]:
    """The folder of pyopencl's headers, which Loopy's code includes for complex numbers."""
    spec = importlib.util.find_spec("pyopencl")
    folders = spec.submodule_search_locations if spec is not None else None
    return [f"-I{folder}/cl" for folder in folders or ()]


_latest: list[tuple[Any, StaticPrepared]] = []


def _prepared(workload: Workload) -> StaticPrepared:
    """The kernel with its generated code, which is kept for the next workload: with other sizes it is the same."""
    types = _types(workload)
    if not _latest or _latest[0][0] != types:
        made = static(prepare(workload, None))
        # Without the arrays.
        plain = dataclasses.replace(workload, arguments={}, check=None)
        _latest[:] = [(types, dataclasses.replace(made, workload=plain))]
    known = _latest[0][1]
    known_arguments(known.kernel, workload)
    return dataclasses.replace(known, workload=workload)


def _types(workload: Workload) -> tuple[Any, ...]:
    """What the generated code depends on, and where it says that its text comes from."""
    given = {
        name: getattr(value, "dtype", None) or np.asarray(value).dtype
        for name, value in workload.arguments.items()
        if value is not None
    }
    return given, workload.source_file, workload.origin, workload.kernel


def _bound(
    prepared: StaticPrepared,
    launch: LoopyLaunch,
    made: DeviceCode,
    memory: Memory,
    accesses: tuple[KnownAccess, ...],
) -> BoundKernel:
    names = {symbol: symbol for symbol in made.variables}
    values = [
        _value(launch, memory, position, name)
        for position, name in enumerate(launch.proxy.info.passed_names)
    ]
    lines = {one.source.generated_line: one.source for one in reversed(accesses)}

    def source(line: int) -> SourceLocation:
        return lines.get(line) or SourceLocation(generated_line=line)

    outputs = [one.name for one in launch.kernel.args if getattr(one, "is_output", False)]
    return BoundKernel(
        name=launch.name,
        index=launch.index,
        launch_names=prepared.launch_names,
        code=made.code,
        grid=launch.grid,
        group_shape=launch.group_shape,
        memory=memory,
        machine=made.machine(memory, names, values, Shape(launch.grid, launch.group_shape), 0, {}),
        symbols=names,
        writable=frozenset(launch.proxy.info.written_names) & set(memory.bases) | set(names),
        local_memory_bytes=made.code.local_memory_bytes,
        settings=launch.settings,
        text=prepared.source,
        source=source,
        accesses=accesses,
        named_outputs={name: name for name in outputs if name in memory.bases},
    )


def _memory(launch: LoopyLaunch, variables: Mapping[str, bytes]) -> Memory:
    """The arguments and temporaries of the kernel; what Loopy allocates is zero."""
    arrays, layouts = {}, {}
    for name in launch.array_names:
        bound = launch.bound.get(name)
        given = None if bound is None else bound.content
        if given is not None and given.nbytes == launch.array_bytes(name):
            arrays[name] = given
        elif bound is not None:
            layouts[name] = (bound.shape, bound.dtype, bound.strides)
    zeros = {name: launch.array_bytes(name) for name in launch.array_names if name not in arrays}
    ordered = {name: arrays.get(name) for name in launch.array_names}
    return Memory(arrays, {**zeros, **variables}, order=[*ordered, *variables], layouts=layouts)


def _value(launch: LoopyLaunch, memory: Memory, position: int, name: str) -> Value:
    kind, value = launch.proxy.arguments[position]
    if name in memory.bases:
        return name
    if kind == "object" and value is None:
        raise KernelError(f"argument {name} of kernel {launch.name} has no memory of its own")
    if kind == "pack":
        code, number = value
        return np.array([number], np.dtype(code))
    return np.frombuffer(bytes(value), np.uint8)


def _accesses(launch: LoopyLaunch) -> Iterator[KnownAccess]:
    probes = launch.program.probes
    arrays = {probe.array for probe in probes if probe.mark >= 0}
    elements = {name: element_bytes(launch.kernel, name) for name in arrays}
    static_ones = static_accesses(
        launch.program, launch.instrumented.table, launch.kernel, elements, launch.user
    )
    for probe, access in zip(probes, static_ones, strict=True):
        if access is not None:
            yield KnownAccess(
                array=probe.array,
                direction=probe.kind,
                label=access.label,
                instruction=probe.instruction,
                line=probe.line,
                source=access.source,
            )
