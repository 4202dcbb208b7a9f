"""Kernels of applications: what each computes, and that the table's rows are kernels."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.data_files import rows
from experiments.hardware.applications import MACHINE, TABLE, workload
from experiments.kernels import applications
from memsim.errors import KernelError
from memsim.machine import load_machine
from tests.support.cuda_kernels import needs_clang
from tracegen.executed.launches import checked
from tracegen.options import TraceOptions

LISTED = {row["kernel"]: row for row in rows(TABLE)}
SMALL = {"transposed": 128, "convolved": 40, "smoothed": 128, "nearest": 300, "unfolded": 40}


@needs_clang
@pytest.mark.weekly(4)
@pytest.mark.parametrize("kernel", LISTED)
def test_each_kernel_computes_what_numpy_does(kernel: str) -> None:
    made = workload(LISTED[kernel], n=SMALL.get(kernel, 512))
    assert checked(made, load_machine(MACHINE), TraceOptions()) == "the workload's own check"
    assert made.check is not None
    with pytest.raises(AssertionError):
        made.check({name: np.zeros_like(x) for name, x in made.arguments.items() if np.ndim(x)})


def test_sizes_that_do_not_fit_are_refused() -> None:
    for kernel, settings in (("transposed", {"n": 100}), ("filtered", {"n": 100, "taps": 3})):
        with pytest.raises(KernelError, match="n must be a multiple of"):
            getattr(applications, kernel)(**settings)
    with pytest.raises(KernelError, match="side must be at least 1, got 0"):
        applications.convolved(n=64, side=0)
