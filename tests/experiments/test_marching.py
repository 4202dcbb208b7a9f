"""Groups that march along z: what they compute, and which of them have stores that caches need not keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from experiments.kernels.marching import march_xyz, march_z
from memsim.errors import KernelError
from tests.support.compilers import needs_amd
from tests.support.cuda_kernels import run
from tracegen import trace

SMALL: dict[str, Any] = {"nz": 5, "window": 2, "filled": True}


@needs_amd
@pytest.mark.parametrize(("made", "n"), [(march_z, 64), (march_xyz, 256)])
def test_each_computes_its_derivatives(made: Any, n: int) -> None:
    workload = made(n, **SMALL)
    written = run(workload, "mi250x")
    workload.check(written)
    wrong = np.array(written["to"])
    wrong[np.flatnonzero(wrong)[7]] += 1
    with pytest.raises(AssertionError):
        workload.check({"to": wrong})


@needs_amd
def test_only_stores_of_the_fused_kernel_are_nontemporal() -> None:
    for workload, nontemporal in ((march_z(64, nz=1), False), (march_xyz(256, nz=1), True)):
        sites = trace(workload, "mi250x").sites
        assert {(site.direction, site.nontemporal) for site in sites} == {
            ("load", False),
            ("store", nontemporal),
        }


def test_rows_that_do_not_fill_groups_are_refused() -> None:
    with pytest.raises(KernelError, match="n must be a multiple of 256, got 64"):
        march_xyz(64)
