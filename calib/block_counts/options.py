"""The options of `memsim blocks`, and the bounds that Python checks too.

It imports nothing heavy, because the help of the command group loads it.
"""

from __future__ import annotations

from dataclasses import dataclass

from memsim.options import Options, option

RUNS_TO_LEARN = 12
"""Fewest runs from which a count is learned."""


@dataclass(frozen=True, kw_only=True)
class BlockOptions(Options):
    """How basic blocks are counted."""

    subgroup_size: int | None = option(
        None,
        "Lanes of a sub-group: 8, 16, 32 or 64.",
        metavar="N",
        default_text="the machine's, or 32",
    )
    runs: int = option(
        40, "Number of runs that --train learns from.", least=RUNS_TO_LEARN, metavar="N"
    )
