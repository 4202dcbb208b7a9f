"""Trace the global memory accesses of Loopy kernels by running an instrumented copy on OpenCL.

`import tracegen` is cheap: loopy, pyopencl and numba are imported when first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracegen.api import trace, trace_launches, trace_snapshots
    from tracegen.blocks.counter import count_blocks
    from tracegen.workloads.load import load_kernel
    from tracegen.workloads.opencl import OpenCLWorkload
    from tracegen.workloads.workload import Workload

_HOMES = {
    "OpenCLWorkload": "tracegen.workloads.opencl",
    "Workload": "tracegen.workloads.workload",
    "count_blocks": "tracegen.blocks.counter",
    "load_kernel": "tracegen.workloads.load",
    "trace": "tracegen.api",
    "trace_launches": "tracegen.api",
    "trace_snapshots": "tracegen.api",
}

__all__ = [
    "OpenCLWorkload",
    "Workload",
    "count_blocks",
    "load_kernel",
    "trace",
    "trace_launches",
    "trace_snapshots",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
