"""Perflex and UIPiCK (Stevens and Klöckner 2020), reproduced on the OpenCL device at hand."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from experiments.perflex.accuracy import overall, variants
from experiments.perflex.overlap import figure_4, figure_5
from experiments.perflex.simple_model import figures_1_and_2
from experiments.perflex.tables import figure_6, table_1, table_3
from experiments.reproduction import MakeFigure

TITLE = "Perflex and UIPiCK, reproduced"
FIGURES: Mapping[str, MakeFigure] = {
    "table-1": table_1,
    "figures-1-2": figures_1_and_2,
    "figure-4": figure_4,
    "figure-5": figure_5,
    "figure-6": figure_6,
    "figure-7": functools.partial(variants, "matmul", "figure-7"),
    "figure-8": functools.partial(variants, "dg", "figure-8"),
    "figure-9": functools.partial(variants, "finite_diff", "figure-9"),
    "errors": overall,
    "table-3": table_3,
}
