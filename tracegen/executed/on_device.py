"""A plain run of a kernel in OpenCL C on an OpenCL device of this computer, to compare results with."""

from __future__ import annotations

from typing import Any

import pyopencl as cl

from memsim.errors import KernelError, one_line
from tracegen.compiled.opencl_arguments import Argument, bound, shape
from tracegen.compiled.opencl_program import read_program
from tracegen.devices.program import Builds
from tracegen.workloads.workload import OpenCLWorkload


def device_outputs(workload: OpenCLWorkload, context: cl.Context) -> dict[str, Any]:
    """The arrays that the kernel may write, as a run of the user's own text leaves them.

    Raises KernelError where the device does not build or run it.
    """
    program = read_program(workload)
    kernel = program.named(workload.kernel)
    arguments = bound(kernel, workload.arguments)
    grid, group = shape(workload, kernel)
    items = tuple(a * b for a, b in zip(grid, group, strict=True))
    ready = Builds(context, program.text, [kernel.name], program.options).kernel(kernel.name)
    try:
        with cl.CommandQueue(context) as queue:
            buffers = {
                id(one.value): _buffer(context, one.value) for one in arguments if _is_array(one)
            }
            ready.set_args(*(_passed(one, buffers) for one in arguments))
            cl.enqueue_nd_range_kernel(queue, ready, items, group).wait()
            outputs = {one.name: one.value.copy(order="K") for one in arguments if one.writable}
            for one in arguments:
                if one.writable and one.value.nbytes:
                    cl.enqueue_copy(queue, outputs[one.name], buffers[id(one.value)])
    except cl.Error as error:
        raise KernelError(
            f"kernel {kernel.name} cannot be run through OpenCL: {one_line(error)}"
        ) from error
    return outputs


def _is_array(argument: Argument) -> bool:
    return argument.kind in ("global", "constant") and argument.value is not None


def _buffer(context: cl.Context, array: Any) -> cl.Buffer:
    if not array.nbytes:
        return cl.Buffer(context, cl.mem_flags.READ_WRITE, 64)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    return cl.Buffer(context, flags, hostbuf=array)


def _passed(argument: Argument, buffers: dict[int, cl.Buffer]) -> Any:
    if argument.kind == "local":
        return cl.LocalMemory(argument.value)
    return buffers[id(argument.value)] if _is_array(argument) else argument.value
