"""The options of counting, for `memsim count` and for `calib.count`.

It imports nothing heavy, because the help of the command group loads it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from memsim.errors import KernelError, MemsimError
from memsim.options import Options, option
from memsim.visible import shown
from tracegen.options import MOST_SUBGROUP_SIZE

if TYPE_CHECKING:
    import click

SUBGROUP_SIZE = 32

Granularity = Literal["work-item", "sub-group", "work-group", "kernel"]
Number = int | float | Fraction


@dataclass(frozen=True)
class Trips:
    """Average trips of a loop each time it is reached.

    by_items : trips of a work-item
    by_subgroups : trips of a sub-group, which continues until its longest lane is done
    """

    by_items: Number
    by_subgroups: Number


@dataclass(frozen=True)
class Share:
    """The share of times that a condition holds.

    by_items : among work-items
    by_subgroups : sub-groups in which it holds for a lane
    others_by_subgroups : sub-groups in which it fails for a lane; None if unknown
    """

    by_items: Number
    by_subgroups: Number
    others_by_subgroups: Number | None


TripCounts = Mapping[str, Number | Trips]
"""Trips by iname; a plain number applies to every lane."""
Taken = Mapping[str, Number | Share] | Literal["both"]
"""Share by the condition's text; a plain number assumes that the lanes of a sub-group agree. "both"
counts both branches in full, which is what hardware executes if lanes disagree (Stevens and
Klöckner 2020, section 4)."""


def parse_trips(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, float]:
    """loop -> iterations, from texts such as `j=24`."""
    import click

    trips: dict[str, float] = {}
    for value in values:
        name, _, text = value.partition("=")
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not name or not math.isfinite(number):
            raise click.BadParameter(f"must be LOOP=NUMBER, got {shown(value)}", context, parameter)
        if number < 0:
            raise click.BadParameter(
                f"must not be negative, got {shown(value)}", context, parameter
            )
        trips[name] = number
    return trips


def _parse_both(context: click.Context, parameter: click.Parameter, both: bool) -> Taken:
    return "both" if both else {}


@dataclass(frozen=True, kw_only=True)
class CountOptions(Options):
    """How to count."""

    error: ClassVar[type[MemsimError]] = KernelError

    subgroup_size: int = option(
        SUBGROUP_SIZE, "Lanes of a sub-group.", least=1, most=MOST_SUBGROUP_SIZE, metavar="N"
    )
    granularity: Granularity | None = option(
        None,
        "The unit per which executions are counted. By default global accesses count per work-item,"
        " or per sub-group where they are uniform, on-chip work per sub-group, and barriers per"
        " work-item.",
        default_text="that of each feature",
    )
    index_arithmetic: bool = option(False, "Count operations in subscripts too.")
    trip_counts: TripCounts = option(
        factory=dict,
        help="Average iterations of a loop whose bounds are read from memory. Repeat for several"
        " loops.",
        metavar="LOOP=N",
        flags=("--trips",),
        default_text="none: counting such a loop is an error",
        parse=parse_trips,
    )
    taken: Taken = option(
        factory=dict,
        help="Count both branches of conditions on values from memory. Python takes 'both', or the share"
        " of times that each condition holds.",
        flags=("--both-branches",),
        is_flag=True,
        default_text="none: counting under such a condition is an error",
        parse=_parse_both,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_control_flow(self.trip_counts, self.taken)

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


def _check_control_flow(trip_counts: TripCounts, taken: Taken) -> None:
    """Raises KernelError for negative trips and for shares outside 0..1."""
    for name, trips in trip_counts.items():
        given = (trips.by_items, trips.by_subgroups) if isinstance(trips, Trips) else (trips,)
        if min(given) < 0:
            raise KernelError(f"trip_counts[{name!r}] must not be negative, got {min(given)}")
    if isinstance(taken, str):
        if taken != "both":
            raise KernelError(f'taken must be "both" or shares by condition, got {taken!r}')
        return
    for name, share in taken.items():
        for value in shares(share):
            if value is not None and not 0 <= value <= 1:
                raise KernelError(f"taken[{name!r}] must lie in 0..1, got {value}")


def shares(share: Number | Share) -> tuple[Number | None, ...]:
    """(among work-items, among sub-groups, among sub-groups in which the condition fails)."""
    if isinstance(share, Share):
        return share.by_items, share.by_subgroups, share.others_by_subgroups
    return share, share, 1 - share
