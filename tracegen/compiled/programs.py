"""A workload's program, as its kernels are compiled, and its machine code."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from memsim.errors import KernelError
from tracegen.compiled.binary import read_file
from tracegen.compiled.compile import compile_cuda, compile_kernel
from tracegen.compiled.cuda_signature import described
from tracegen.compiled.model import MachineCode
from tracegen.compiled.opencl_arguments import bound, shape
from tracegen.compiled.opencl_program import read_program
from tracegen.compiled.request import CompileError
from tracegen.compiled.signature import required_shape
from tracegen.compiled.triton_code import compile_triton
from tracegen.cuda import CudaProgram, launch_shape
from tracegen.cuda import read_program as read_cuda
from tracegen.workloads.binary import BinaryWorkload
from tracegen.workloads.cuda import CudaWorkload
from tracegen.workloads.load import AnyWorkload
from tracegen.workloads.opencl import OpenCLWorkload
from tracegen.workloads.triton import TritonWorkload


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program in OpenCL C.

    kernels : names, in the order of their launches
    group_shape : of a launch whose kernel does not require a shape, None if that is unknown
    local_argument_bytes : local memory of a group that is passed as arguments
    place : 1-based line of the text -> where the user wrote it
    """

    text: str
    kernels: tuple[str, ...]
    build_options: tuple[str, ...] = ()
    group_shape: tuple[int, ...] | None = None
    local_argument_bytes: int = 0
    place: Callable[[int], str]

    def compiled(self, kernel: str, target: str, registers_limit: int | None = None) -> MachineCode:
        """A kernel's machine code. As `compile_kernel`, but errors have the user's lines."""
        try:
            return compile_kernel(
                self.text,
                kernel,
                target,
                build_options=self.build_options,
                registers_limit=registers_limit,
            )
        except CompileError as error:
            if error.line is None:
                raise
            raise KernelError(f"{self.place(error.line)}: {error.reason}") from None

    def shape_of(self, kernel: str) -> tuple[int, ...] | None:
        """Work-items along the axes of a group; None if neither text nor launch gives them."""
        return required_shape(self.text, kernel) or self.group_shape


@dataclass(frozen=True, kw_only=True)
class _InCuda(Program):
    """A program in CUDA C++ or HIP, which nothing but its launch gives the shape of a group."""

    program: CudaProgram

    def compiled(self, kernel: str, target: str, registers_limit: int | None = None) -> MachineCode:
        return compile_cuda(described(self.program, target), target, registers_limit)

    def shape_of(self, kernel: str) -> tuple[int, ...] | None:
        return self.group_shape


def program_of(workload: AnyWorkload) -> Program:
    """The program of a workload. No OpenCL is needed.

    Raises KernelError where Loopy refuses the kernel, or the text cannot be preprocessed or parsed.
    """
    if isinstance(workload, OpenCLWorkload):
        return _of_opencl(workload)
    if isinstance(workload, CudaWorkload):
        return _of_cuda(workload)
    if isinstance(workload, BinaryWorkload | TritonWorkload):
        return _of_compiled(workload)
    from tracegen.instrumented import prepare

    prepared = prepare(workload, None)
    return Program(
        text=prepared.source,
        kernels=tuple(dict.fromkeys(prepared.launch_names)),
        build_options=(*prepared.build_options, *include_options()),
        place=functools.partial("line {} of the code that Loopy generates".format),
    )


@dataclass(frozen=True, kw_only=True)
class _Compiled(Program):
    """A kernel whose code is that of its launch."""

    workload: BinaryWorkload | TritonWorkload
    threads: dict[str, int] = field(default_factory=dict)

    def compiled(self, kernel: str, target: str, registers_limit: int | None = None) -> MachineCode:
        if isinstance(self.workload, BinaryWorkload):
            path, name = Path(self.workload.path or ""), self.workload.kernel
            return read_file(path, name, target, registers_limit).code
        made = compile_triton(self.workload, target)
        self.threads[kernel] = made.threads
        code = made.code(target, registers_limit).code
        local_bytes = code.local_memory_bytes + made.shared_bytes
        return replace(code, local_memory_bytes=local_bytes)

    def shape_of(self, kernel: str) -> tuple[int, ...] | None:
        return (self.threads[kernel],) if self.threads else self.group_shape


def include_options() -> list[str]:
    """The folder of pyopencl's headers, which Loopy's code includes for complex numbers."""
    spec = importlib.util.find_spec("pyopencl")
    folders = spec.submodule_search_locations if spec is not None else None
    return [f"-I{folder}/cl" for folder in folders or ()]


def _of_opencl(workload: OpenCLWorkload) -> Program:
    program = read_program(workload)
    kernel = program.named(workload.kernel)
    local = [one.value for one in bound(kernel, workload.arguments) if one.kind == "local"]
    return Program(
        text=program.text,
        kernels=(kernel.name,),
        build_options=program.options,
        group_shape=shape(workload, kernel)[1],
        local_argument_bytes=sum(local),
        place=lambda line: str(program.place(line)),
    )


def _of_compiled(workload: BinaryWorkload | TritonWorkload) -> Program:
    kernel, shape, shared_bytes = "the kernel", None, 0
    if isinstance(workload, BinaryWorkload):
        kernel, shared_bytes = workload.kernel or kernel, workload.shared_bytes
        shape = launch_shape(workload, kernel)[1]
    return _Compiled(
        text="",
        kernels=(kernel,),
        group_shape=shape,
        local_argument_bytes=shared_bytes,
        place="line {}".format,
        workload=workload,
    )


def _of_cuda(workload: CudaWorkload) -> Program:
    program = read_cuda(workload)
    return _InCuda(
        text=program.text,
        kernels=(program.kernel,),
        group_shape=launch_shape(workload, program.kernel)[1],
        local_argument_bytes=workload.shared_bytes,
        place=lambda line: ":".join(map(str, program.place(line))),
        program=program,
    )
