"""The latency hidden factor (Yuan et al. 2010), and predicted times compared with times measured on
other GPUs."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.lhf.arithmetic import arithmetic
from experiments.lhf.h100_times import h100_times
from experiments.lhf.mi250x_laplacian import laplacian_times
from experiments.lhf.occupancy_bandwidth import stream_occupancy
from experiments.lhf.opencl_device import order
from experiments.lhf.tesla_c1060 import figure, table_3
from experiments.lhf.v100_stencil_times import v100_times
from experiments.reproduction import MakeFigure

TITLE = "Latency hidden factor: the paper, and times predicted without any fit"

FIGURES: Mapping[str, MakeFigure] = {
    "table-3": table_3,
    "figure-14": figure("figure-14", "Figure 14: naive matrix product on a Tesla C1060, predicted"),
    "figure-15": figure("figure-15", "Figure 15: tiled matrix product (CUBLAS 1.1), predicted"),
    "figure-16": figure("figure-16", "Figure 16: register-blocked product (Volkov), predicted"),
    "v100-times": v100_times,
    "h100-times": h100_times,
    "stream-occupancy": stream_occupancy,
    "mi250x-times": laplacian_times,
    "arithmetic": arithmetic,
    "opencl-device": order,
}
