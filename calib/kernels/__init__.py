"""UIPiCK: a tag-filtered collection of measurement kernels, all of them Loopy's.

KernelCollection(ALL_GENERATORS).generate_kernels(["matmul_sq", "prefetch:True", "n:256,512"])
"""

from __future__ import annotations

from calib.kernels import (
    dg,
    flops,
    global_memory,
    linear_algebra,
    local_memory,
    matmul,
    stencils,
    synchronisation,
)
from calib.kernels.collection import (
    Generator,
    KernelCollection,
    MatchCondition,
    MeasurementKernel,
    TagError,
)

ALL_GENERATORS: tuple[Generator, ...] = (
    *matmul.GENERATORS,
    *dg.GENERATORS,
    *stencils.GENERATORS,
    *linear_algebra.GENERATORS,
    *flops.GENERATORS,
    *global_memory.GENERATORS,
    *local_memory.GENERATORS,
    *synchronisation.GENERATORS,
)
"""Every generator that there is."""

__all__ = [
    "ALL_GENERATORS",
    "Generator",
    "KernelCollection",
    "MatchCondition",
    "MeasurementKernel",
    "TagError",
]
