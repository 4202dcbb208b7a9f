"""Options of counting."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from calib.counting.control_flow import Taken, TripCounts, check
from calib.counting.granularity import GRANULARITIES, Granularity
from memsim.errors import KernelError

SUBGROUP_SIZE = 32


@dataclass(frozen=True)
class CountOptions:
    """How to count.

    subgroup_size : lanes of a sub-group
    granularity : the unit that everything is counted per; None for the default of each (global
        accesses per work-item, or per sub-group if uniform; on-chip work per sub-group; barriers
        per work-item)
    index_arithmetic : count operations inside subscripts too
    trip_counts, taken : trips of loops and shares of conditions that depend on values from memory;
        see control_flow.py
    """

    subgroup_size: int = SUBGROUP_SIZE
    granularity: Granularity | None = None
    index_arithmetic: bool = False
    trip_counts: TripCounts = field(default_factory=dict)
    taken: Taken = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.subgroup_size < 1:
            raise KernelError(f"subgroup_size must be at least 1, got {self.subgroup_size}")
        if self.granularity is not None and self.granularity not in GRANULARITIES:
            raise KernelError(
                f"granularity must be one of {', '.join(GRANULARITIES)}, got {self.granularity!r}"
            )
        check(self.trip_counts, self.taken)

    @property
    def key(self) -> Any:
        taken = self.taken if isinstance(self.taken, str) else tuple(sorted(self.taken.items()))
        return (
            self.subgroup_size,
            self.granularity,
            self.index_arithmetic,
            tuple(sorted(self.trip_counts.items())),
            taken,
        )
