"""BB-ML (Barai et al.), reproduced: execution counts of basic blocks."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.bbml.case_study import figure_5_right
from experiments.bbml.exactness import exact_path
from experiments.bbml.graphs import data_dependent
from experiments.bbml.tables import figure_3, figure_4, figure_5_left, table_2, table_3
from experiments.reproduction import MakeFigure

TITLE = "Counts of basic blocks, exact and learned"
FIGURES: Mapping[str, MakeFigure] = {
    "exact": exact_path,
    "table-2": table_2,
    "table-3": table_3,
    "figure-3": figure_3,
    "figure-4": figure_4,
    "figure-5-left": figure_5_left,
    "figure-5-right": figure_5_right,
    "data": data_dependent,
}
