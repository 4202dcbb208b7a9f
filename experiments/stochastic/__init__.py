"""The stochastic memory hierarchy (Baghsorkhi et al., PPoPP 2012), reproduced."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.reproduction import MakeFigure
from experiments.stochastic.case_study import figure_8
from experiments.stochastic.convergence import figure_7
from experiments.stochastic.dram_latency import figure_3
from experiments.stochastic.hit_ratios import figures_5_and_6

TITLE = "The stochastic memory hierarchy, reproduced"
FIGURES: Mapping[str, MakeFigure] = {
    "figure-3": figure_3,
    "figures-5-6": figures_5_and_6,
    "figure-7": figure_7,
    "figure-8": figure_8,
}
