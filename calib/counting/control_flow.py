"""Control flow that depends on data: trips of loops bounded by memory, shares of conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from calib.counting.granularity import Granularity
from calib.counting.inventory import DomainRecord
from memsim.errors import KernelError

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


def check(trip_counts: TripCounts, taken: Taken) -> None:
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
        for value in _shares(share):
            if value is not None and not 0 <= value <= 1:
                raise KernelError(f"taken[{name!r}] must lie in 0..1, got {value}")


def _trips_of(name: str, kernel: str, trip_counts: TripCounts, unit: Granularity) -> Fraction:
    """Trips of a loop in one unit; raises KernelError if they are not specified."""
    if name not in trip_counts:
        raise KernelError(
            f"loop {name} of {kernel} is bounded by values from memory: specify its average trips,"
            f" trip_counts={{{name!r}: ...}}, or measure them with calib.measure_control_flow"
        )
    trips = trip_counts[name]
    if isinstance(trips, Trips):
        return Fraction(trips.by_items if unit == "work-item" else trips.by_subgroups)
    return Fraction(trips)


def _share_of(
    condition: str, holds: bool, kernel: str, taken: Taken, unit: Granularity
) -> Fraction:
    """The share of times that a condition holds, or fails; raises KernelError if it is unknown."""
    if isinstance(taken, str):
        return Fraction(1)
    if condition not in taken:
        raise KernelError(
            f"condition {condition} of {kernel} depends on values from memory: specify how often it"
            f" holds, taken={{{condition!r}: share}}, or taken='both' to count both branches in full"
        )
    by_items, by_subgroups, others = _shares(taken[condition])
    assert by_items is not None
    assert by_subgroups is not None
    if unit == "work-item":
        return Fraction(by_items) if holds else 1 - Fraction(by_items)
    if holds:
        return Fraction(by_subgroups)
    if others is None:
        raise KernelError(
            f"{kernel}: the share of sub-groups in which {condition} fails for a lane is unknown;"
            " specify it as calib.counting.control_flow.Share"
        )
    return Fraction(others)


def factor_of(
    record: DomainRecord, kernel: str, trip_counts: TripCounts, taken: Taken, unit: Granularity
) -> Fraction:
    """The factor of the data-dependent loops and conditions of a domain."""
    factor = Fraction(1)
    for loop in record.trips:
        factor *= _trips_of(loop, kernel, trip_counts, unit)
    for condition, holds in record.taken:
        factor *= _share_of(condition, holds, kernel, taken, unit)
    return factor


def _shares(share: Number | Share) -> tuple[Number | None, ...]:
    if isinstance(share, Share):
        return share.by_items, share.by_subgroups, share.others_by_subgroups
    return share, share, 1 - share
