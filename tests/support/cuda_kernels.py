"""Kernels in CUDA C++ that tests run: their machine code, on this computer."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.machine import load_machine
from memsim.trace import Trace
from tests.support.compilers import needs_nvidia
from tracegen import CudaWorkload
from tracegen.executed.launches import checked
from tracegen.options import TraceOptions
from tracegen.tools.toolchain import find_library

needs_clang = needs_nvidia
"""Names and types of parameters are clang's, which is one of the compilers for NVIDIA's GPUs."""

needs_nvrtc = pytest.mark.skipif(find_library("nvrtc") is None, reason="NVRTC is not installed")
needs_both = [needs_clang, needs_nvrtc]


def run(workload: CudaWorkload, machine: str = "a100", **options: Any) -> dict[str, Any]:
    """The arrays and variables that a kernel leaves."""
    left: dict[str, Any] = {}
    given = dataclasses.replace(workload, check=left.update)
    checked(given, load_machine(machine), TraceOptions(**options))
    return left


def is_right_and_a_wrong_one_is_seen(workload: CudaWorkload, machine: str = "a100") -> None:
    """By the workload's own check: what the kernel leaves, and what is off by one."""
    written = run(workload, machine)
    assert workload.check is not None
    workload.check(written)
    with pytest.raises(AssertionError):
        workload.check({name: values + values.dtype.type(1) for name, values in written.items()})


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


def compiler_of(trace: Trace) -> dict[str, Any]:
    found: dict[str, Any] = trace.provenance["compiler"]
    return found


def traced(kernel: Any, compiler: Any, machine: str = "a100") -> Trace:
    """Two groups. compiler : as in the options of tracing"""
    return tracegen.trace(kernel, machine, groups=2, options=TraceOptions(compiler=compiler))


def floats(n: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).random(n, np.float32)
