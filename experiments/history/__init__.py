"""History-based performance models that calibrate themselves, on a tiled LU factorisation (Augonnet
et al. 2009)."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.history.feedback import figure7, figure8
from experiments.history.scheduling import figure5, figure6
from experiments.history.simulated_scheduling import core_times, simulation
from experiments.reproduction import MakeFigure

TITLE = "History-based performance models that calibrate themselves"
FIGURES: Mapping[str, MakeFigure] = {
    "figure5": figure5,
    "figure6": figure6,
    "figure7": figure7,
    "figure8": figure8,
    "core-time": core_times,
    "simulation": simulation,
}
