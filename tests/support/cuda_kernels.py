"""Kernels in CUDA C++ that tests run, and a run of a workload on this computer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memsim.errors import KernelError
from memsim.trace import Trace
from tracegen import CudaWorkload, cuda
from tracegen.cuda.front_end import host_clang
from tracegen.options import TraceOptions


def _is_missing() -> bool:
    try:
        host_clang()
    except KernelError:
        return True
    return False


needs_clang = pytest.mark.skipif(_is_missing(), reason="CUDA C++ needs clang")


def run(workload: CudaWorkload, warp: int = 32) -> dict[str, Any]:
    """The arrays that a kernel leaves."""
    prepared = cuda.prepare(workload, warp)
    return prepared.run(
        lambda launch: cuda.CudaRun(prepared, launch, TraceOptions(subgroup_size=warp)).whole()
    )


def workload(source: str, *arguments: Any, **others: Any) -> CudaWorkload:
    """A kernel of a text; by default one block of a warp."""
    return CudaWorkload(source=source, arguments=arguments, **{"grid": 1, "block": 32, **others})


def rows(trace: Trace, subgroup: int = 0) -> list[str]:
    """The accesses of one sub-group: their names and lanes, "barrier" for barriers."""
    first, last = trace.subgroup_offset[subgroup : subgroup + 2]
    names = [site.name for site in trace.sites]
    return [
        "barrier" if trace.site[k] < 0 else f"{names[trace.site[k]]} ({trace.lanes[k]})"
        for k in range(first, last)
    ]


def floats(n: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).random(n, np.float32)
