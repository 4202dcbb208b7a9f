"""The options of `memsim blocks`, and the bounds that Python checks too.

It imports nothing heavy, because the help of the command group loads it.
"""

from __future__ import annotations

from dataclasses import dataclass

from calib.counting.options import SUBGROUP_SIZE
from memsim.options import Options, option
from tracegen.options import MOST_SUBGROUP_SIZE

RUNS_TO_LEARN = 12
"""Fewest runs from which a count is learned."""


@dataclass(frozen=True, kw_only=True)
class BlockOptions(Options):
    """How basic blocks are counted."""

    subgroup_size: int = option(
        SUBGROUP_SIZE, "Lanes of a sub-group.", least=1, most=MOST_SUBGROUP_SIZE, metavar="N"
    )
    runs: int = option(
        40, "Number of runs that --train learns from.", least=RUNS_TO_LEARN, metavar="N"
    )
