"""All generators of measurement kernels."""

from __future__ import annotations

from calib.kernels import dg as dg
from calib.kernels import flops as flops
from calib.kernels import global_memory as global_memory
from calib.kernels import linear_algebra as linear_algebra
from calib.kernels import local_memory as local_memory
from calib.kernels import matmul as matmul
from calib.kernels import stencils as stencils
from calib.kernels import synchronisation as synchronisation
from calib.kernels.collection import REGISTERED, Generator

ALL_GENERATORS: tuple[Generator, ...] = tuple(REGISTERED)
"""All generators, in the order in which they are listed."""
