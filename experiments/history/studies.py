"""The paper's figures: each returns a Figure with its cases, what was found, and its pictures."""

from __future__ import annotations

from experiments.history.feedback import figure7, figure8
from experiments.history.scheduling import figure5, figure6
from experiments.history.simulated import core_times, simulation
from experiments.reproduction import MakeFigure

TITLE = "History-based performance models that calibrate themselves"
FIGURES: dict[str, MakeFigure] = {
    "figure5": figure5,
    "figure6": figure6,
    "figure7": figure7,
    "figure8": figure8,
    "core-time": core_times,
    "simulation": simulation,
}
