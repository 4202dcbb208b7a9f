"""History-based performance models that calibrate themselves, on a tiled LU factorisation (Augonnet
et al. 2009)."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.history.feedback import figure_7, figure_8
from experiments.history.scheduling import figure_5, figure_6, simulation
from experiments.reproduction import MakeFigure

TITLE = "History-based performance models that calibrate themselves"
FIGURES: Mapping[str, MakeFigure] = {
    "figure-5": figure_5,
    "figure-6": figure_6,
    "figure-7": figure_7,
    "figure-8": figure_8,
    "simulation": simulation,
}
