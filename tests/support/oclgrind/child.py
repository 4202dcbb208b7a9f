"""Runs pickled workloads, uninstrumented, on the only OpenCL platform of this process: Oclgrind.

A request is a Loopy kernel and its arguments, or what `run_source` takes: a kernel in OpenCL C.

Reads one JSON list a line, [request, record, outputs, build options], and prints one line for each.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import loopy as lp
import numpy as np
import pyopencl as cl


def run_source(
    queue: Any,
    *,
    text: str,
    name: str,
    options: list[str],
    arguments: list[tuple[str, str, Any]],
    global_size: tuple[int, ...],
    local_size: tuple[int, ...],
) -> dict[str, Any]:
    """Runs a kernel; returns its global arrays.

    arguments : (parameter, global, constant, local or "", value), in order
    """
    program = cl.Program(queue.context, text).build(options=options)
    kernel = cl.Kernel(program, name)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers: dict[int, Any] = {}
    for position, (_, kind, value) in enumerate(arguments):
        if kind == "local":
            kernel.set_arg(position, cl.LocalMemory(value))
        elif kind:
            if id(value) not in buffers:
                buffers[id(value)] = cl.Buffer(queue.context, flags, hostbuf=value)
            kernel.set_arg(position, buffers[id(value)])
        else:
            kernel.set_arg(position, value)
    cl.enqueue_nd_range_kernel(queue, kernel, global_size, local_size)
    results = {}
    for parameter, kind, value in arguments:
        if kind == "global":
            results[parameter] = value.copy()
            cl.enqueue_copy(queue, results[parameter], buffers[id(value)])
    return results


def main() -> None:
    (platform,) = cl.get_platforms()
    assert platform.name == "Oclgrind", platform.name
    context = cl.Context(platform.get_devices())
    queue = cl.CommandQueue(context)
    for line in sys.stdin:
        request, record, outputs, options = json.loads(line)
        os.environ["MEMSIM_OCLGRIND_OUT"] = record
        os.environ["OCLGRIND_BUILD_OPTIONS"] = options
        with contextlib.redirect_stdout(sys.stderr):  # stdout is for answers
            try:
                kernel, arguments = pickle.loads(Path(request).read_bytes())
                if isinstance(kernel, dict):
                    results = run_source(queue, arguments=arguments, **kernel)
                else:
                    kernel = lp.set_options(kernel, return_dict=True)
                    _, results = kernel.executor(context)(queue, **arguments)
                queue.finish()
                np.savez(outputs, **results)
                answer = "done"
            except Exception as error:
                answer = " ".join(repr(error).split())
        print(answer, flush=True)


if __name__ == "__main__":
    main()
