"""Control flow that depends on data: trips of loops bounded by memory, shares of conditions."""

from __future__ import annotations

from fractions import Fraction

from calib.counting.inventory import DomainRecord
from calib.counting.options import Granularity, Taken, TripCounts, Trips, shares
from memsim.errors import KernelError


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
    by_items, by_subgroups, others = shares(taken[condition])
    assert by_items is not None
    assert by_subgroups is not None
    if unit == "work-item":
        return Fraction(by_items) if holds else 1 - Fraction(by_items)
    if holds:
        return Fraction(by_subgroups)
    if others is None:
        raise KernelError(
            f"{kernel}: the share of sub-groups in which {condition} fails for a lane is unknown;"
            " specify it as calib.counting.Share"
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
