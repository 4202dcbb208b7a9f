"""All generators of measurement kernels."""

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
from calib.kernels.collection import Generator

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
"""All generators, in the order in which they are listed."""
