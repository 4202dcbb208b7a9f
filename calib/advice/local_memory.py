"""Remedies that stage data in local memory: tiles of a loop, or the data of a group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from calib.advice.facts import Access, Facts
from calib.advice.mapping import swap
from calib.advice.variants import Proposal, Step, step

TILES = (16, 32)


def staged(facts: Facts) -> Iterator[Proposal]:
    """What a group reads of an array, fetched together before it is used.

    Fetches are contiguous whatever lanes run along. They may therefore run along the second axis of a
    group instead, which makes the other accesses contiguous: a transpose through a tile. Lanes then read a
    column of the tile, whose rows have an element more, so that a column lies in different banks.
    """
    for array in facts.read_only:
        accesses = facts.of(array)
        swept = _swept(facts, accesses)
        if not swept or _loops_of(facts, accesses) or array in facts.bounding:
            continue
        fetch = _prefetch(facts, array, swept, _outer(facts, accesses, swept))
        if _may_gain(facts, accesses, 0):
            steps = (fetch, *_longer_rows(facts, array, swept))
            yield Proposal(what=f"stage {array} in local memory", steps=steps)
        if {0, 1} <= facts.lanes.keys() and _may_gain(facts, accesses, 1):
            first, second = facts.lanes[0], facts.lanes[1]
            tile = facts.fresh(f"{array}_tile")
            padded = (step("advice.pad", tile, 1),) if len(swept) > 1 else ()
            yield Proposal(
                what=f"stage {array} in local memory, and let lanes run along {second}",
                steps=(*swap(first, second, "l.0", "l.1"), fetch, *padded),
            )


def _may_gain(facts: Facts, accesses: Sequence[Access], axis: int) -> bool:
    """Whether work-items share data, or lanes along this axis of a group access no neighbours."""
    lane, all_lanes = facts.lanes.get(axis), set(facts.lanes.values())
    shared = any(not all_lanes <= one.names for one in accesses)
    strided = lane is not None and any(
        not (coefficients := one.coefficient(lane)) or coefficients[-1] != 1 for one in accesses
    )
    return shared or strided or len(accesses) > 1


def tiled(facts: Facts) -> Iterator[Proposal]:
    """Tiles of a loop, whose data are fetched into local memory before each tile."""
    for loop in facts.loops:
        extent = facts.extent(loop)
        arrays = [array for array in facts.read_only if _loops_of(facts, facts.of(array)) == [loop]]
        # An array that no group shares among its work-items gains nothing but coalescing.
        if extent is None or not arrays:
            continue
        for tile in TILES:
            if extent < 2 * tile:
                continue
            chosen = [list(arrays)] if len(arrays) <= 3 else []
            chosen += [[array] for array in arrays[:3] if len(arrays) > 1]
            for some in chosen:
                yield Proposal(
                    what=f"tile {loop} by {tile} and stage {' and '.join(some)} in local memory",
                    steps=_tiles(facts, loop, tile, some),
                )


def _tiles(facts: Facts, loop: str, tile: int, arrays: Sequence[str]) -> tuple[Step, ...]:
    inner, outer = f"{loop}_inner", f"{loop}_outer"
    steps = [step("lp.split_iname", loop, tile)]
    for array in arrays:
        accesses = facts.of(array)
        swept = [*_swept(facts, accesses), inner]
        around = (_outer(facts, accesses, swept) | {outer}) - {loop}
        steps += [_prefetch(facts, array, swept, around), *_longer_rows(facts, array, swept)]
    return tuple(steps)


def _prefetch(facts: Facts, array: str, swept: Sequence[str], outer: frozenset[str]) -> Step:
    return step(
        "lp.add_prefetch",
        array,
        list(swept),
        temporary_name=facts.fresh(f"{array}_tile"),
        fetch_outer_inames=outer,
        default_tag="l.auto",
    )


def _longer_rows(facts: Facts, array: str, swept: Sequence[str]) -> tuple[Step, ...]:
    """Where lanes read a column of the tile: an element more in each row, so that a column lies in different
    banks."""
    lane = facts.lanes.get(0)
    if lane is None or len(swept) < 2:
        return ()
    moves = [one.coefficient(lane) or (1,) for one in facts.of(array)]
    if all(axes[-1] or not any(axes) for axes in moves):
        return ()
    return (step("advice.pad", facts.fresh(f"{array}_tile"), 1),)


def _swept(facts: Facts, accesses: Sequence[Access]) -> list[str]:
    """The inames of a group along which the accesses move."""
    return [name for name in facts.lanes.values() if any(name in one.names for one in accesses)]


def _loops_of(facts: Facts, accesses: Sequence[Access]) -> list[str]:
    """The sequential loops along which the accesses move."""
    return [name for name in facts.loops if any(name in one.names for one in accesses)]


def _outer(facts: Facts, accesses: Sequence[Access], swept: Sequence[str]) -> frozenset[str]:
    around = frozenset().union(*(one.loops for one in accesses))
    return around - set(swept) - set(facts.lanes.values()) - facts.reductions
