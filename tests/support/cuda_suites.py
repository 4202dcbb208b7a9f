"""Kernels of public suites, as they are fetched: their launches, and what they compute.

MEMSIM_SUITES names a folder that contains the checked-out repositories.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tracegen
from tests.support.cuda_kernels import run
from tracegen import CudaWorkload

SUITES = Path(os.environ.get("MEMSIM_SUITES", "suites"))

Axes = int | tuple[int, ...]
Arrays = dict[str, Any]
Result = Callable[..., Arrays]


@dataclass(frozen=True)
class Case:
    """A kernel's launch. result : from the named arguments, the arrays that it writes"""

    program: str
    kernel: str
    arguments: Arrays
    grid: Axes
    block: Axes
    result: Result
    symbols: Arrays
    shared_bytes: int

    def workload(self, path: Path, build_options: Iterable[str] = ()) -> CudaWorkload:
        return CudaWorkload(
            path=path,
            kernel=self.kernel,
            arguments=[np.copy(v) if isinstance(v, np.ndarray) else v for v in self.arguments.values()],
            grid=self.grid,
            block=self.block,
            shared_bytes=self.shared_bytes,
            build_options=list(build_options),
            symbols=self.symbols,
        )  # fmt: skip


class Cases(dict[str, Case]):
    """Cases of a suite by program and kernel."""

    def add(
        self, program: str, kernel: str, arguments: Arrays, grid: Axes, block: Axes,
        shared_bytes: int = 0, **symbols: Any,
    ) -> Callable[[Result], Result]:  # fmt: skip
        """Declares what a kernel computes."""

        def declare(result: Result) -> Result:
            made = Case(program, kernel, arguments, grid, block, result, symbols, shared_bytes)
            self[f"{program} {kernel}"] = made
            return result

        return declare


def check(one: Case, workload: CudaWorkload, machine: str = "a100") -> None:
    """Runs a kernel, compares what it computes, and traces it."""
    out = run(workload, machine)
    expected = one.result(**one.arguments)
    assert expected
    for key, values in expected.items():
        if np.asarray(values).dtype.kind in "iub":
            np.testing.assert_array_equal(out[key].reshape(np.shape(values)), values)
            continue
        scale = np.abs(values).max() + 1e-30
        np.testing.assert_allclose(
            out[key].reshape(np.shape(values)) / scale,
            np.asarray(values) / scale,
            rtol=2e-4,
            atol=1e-5,
        )
    assert len(tracegen.trace(workload, machine).sites) > 0
