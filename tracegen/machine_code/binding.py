"""From a workload to launches of machine code with their memory: everything that an execution needs.

No launch runs here, and no OpenCL is needed. The launches of one workload share their memory, so each is to be run
before the next one is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracegen.machine_code.bound import BoundKernel
from tracegen.options import Compiler
from tracegen.workloads.load import AnyWorkload
from tracegen.workloads.workload import BinaryWorkload, CudaWorkload, OpenCLWorkload, TritonWorkload


def bind(
    workload: AnyWorkload,
    target: str,
    compiler: Compiler = "auto",
    registers: int | None = None,
) -> Iterator[BoundKernel]:
    """The launches of a workload in order.

    target : `sm_80`, `gfx90a`;  compiler : see TraceOptions, without `none`;  registers : most that a work-item may have
    Raises KernelError for a program that does not compile, with the user's line; an unknown kernel; arguments that do
    not fit; a missing compiler.
    """
    if isinstance(workload, CudaWorkload):
        from tracegen.machine_code.binding_cuda import bind_cuda

        yield bind_cuda(workload, target, compiler, registers)
    elif isinstance(workload, OpenCLWorkload):
        from tracegen.machine_code.binding_opencl import bind_opencl

        yield bind_opencl(workload, target, compiler, registers)
    elif isinstance(workload, BinaryWorkload | TritonWorkload):
        from tracegen.machine_code.binding_binary import bind_binary, bind_triton

        is_triton = isinstance(workload, TritonWorkload)
        yield (bind_triton if is_triton else bind_binary)(workload, target, registers)  # type: ignore[arg-type]
    else:
        from tracegen.machine_code.binding_loopy import bind_loopy

        yield from bind_loopy(workload, target, compiler, registers)
