"""Replays compared with measurements on real GPUs, one kernel or curve a module."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.hardware.l1_sweep import l1_curve
from experiments.hardware.laplacian_fetch import laplacian_fetch
from experiments.hardware.pointer_chase import pointer_chases
from experiments.hardware.snapshot_errors import snapshot_errors
from experiments.hardware.stencil_volumes import stencil_volumes
from experiments.reproduction import MakeFigure

TITLE = "memsim compared with measured hardware"
FIGURES: Mapping[str, MakeFigure] = {
    "v100-stencil": stencil_volumes,
    "snapshots": snapshot_errors,
    "mi250x-laplacian": laplacian_fetch,
    "v100-l1": l1_curve,
    "latency": pointer_chases,
}
