"""Groups that march along z: which of them have stores that caches need not keep."""

from __future__ import annotations

from experiments.kernels.marching import march_xyz, march_z
from tests.support.compilers import needs_amd
from tracegen import trace


@needs_amd
def test_only_stores_of_the_fused_kernel_are_nontemporal() -> None:
    for workload, nontemporal in ((march_z(64, nz=1), False), (march_xyz(256, nz=1), True)):
        sites = trace(workload, "mi250x").sites
        assert {(site.direction, site.nontemporal) for site in sites} == {
            ("load", False),
            ("store", nontemporal),
        }
