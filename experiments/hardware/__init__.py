"""Replays compared with measurements on real GPUs, one kernel or curve a module."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.hardware.applications import applications
from experiments.hardware.babelstream import babelstream
from experiments.hardware.common_kernels import common_times, common_traffic
from experiments.hardware.copies import b200_copies
from experiments.hardware.derivatives import derivative_times
from experiments.hardware.h100_stencil import h100_points, h100_stencil
from experiments.hardware.l1_carveouts import l1_carveouts
from experiments.hardware.l1_strides import l1_strides
from experiments.hardware.l1_sweep import v100_l1
from experiments.hardware.laplacian_fetch import mi250x_laplacian
from experiments.hardware.marching_groups import marching_times, mi250x_marching
from experiments.hardware.matmul_steps import matmul_steps
from experiments.hardware.pointer_chase import latency
from experiments.hardware.profiled_stencil import v100_profile
from experiments.hardware.star13_volumes import v100_points
from experiments.hardware.stencil_volumes import v100_stencil
from experiments.hardware.tensor_steps import tensor_steps
from experiments.hardware.textbook import textbook
from experiments.hardware.triton_launches import triton_launches
from experiments.hardware.tuned_kernels import TUNED_KERNELS
from experiments.hardware.tuned_stencils import tuned_stencils
from experiments.reproduction import MakeFigure

TITLE = "memsim compared with measured hardware"
FIGURES: Mapping[str, MakeFigure] = {
    "v100-stencil": v100_stencil,
    "v100-profile": v100_profile,
    "v100-points": v100_points,
    "h100-stencil": h100_stencil,
    "h100-points": h100_points,
    "mi250x-laplacian": mi250x_laplacian,
    "derivatives": derivative_times,
    "mi250x-marching": mi250x_marching,
    "marching-times": marching_times,
    "v100-l1": v100_l1,
    "latency": latency,
    "l1-carveouts": l1_carveouts,
    "l1-strides": l1_strides,
    **TUNED_KERNELS,
    "tuned-stencils": tuned_stencils,
    "babelstream": babelstream,
    "b200-copies": b200_copies,
    "matmul-steps": matmul_steps,
    "tensor-steps": tensor_steps,
    "triton-launches": triton_launches,
    "textbook": textbook,
    "applications": applications,
    "common-kernels": common_times,
    "common-traffic": common_traffic,
}
