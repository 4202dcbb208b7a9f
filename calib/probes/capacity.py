"""The levels of a hierarchy: latency against working set, its plateaus, and the edges between them.

A CPU's pages lie anywhere in physical memory, so a cache that goes by physical addresses has no sharp
edge; and address translation makes plateaus of its own. Where an edge is not sharp, `random_pages`
looks for the capacity with translation taken out, and a plateau that ends below the capacity found is
translation's and no level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calib.probes.bench import PAGE_BYTES, Bench
from calib.probes.change_points import LEAST_RISE, Edge, Plateau, edge, plateaus, with_shelves
from calib.probes.outcome import (
    Curve,
    Finding,
    Floats,
    Notebook,
    Unclear,
    interval_of,
    lower_end,
)
from calib.probes.random_pages import half_rise, page_latencies, roundest
from calib.probes.traffic import missing_part

FIRST_BYTES = 4096
POINTS_OF_OCTAVE = 6
SMALL_BYTES = 128 << 10
LARGE_BYTES = 8 << 20
POINTS_OF_LARGE_OCTAVE = 3
FINE_POINTS = 48
LARGE_FINE_POINTS = 16
SHARP = 1.35
"""An edge is sharp where the next plateau begins within this factor: 4 ways and more."""
STEEP = 2.0
"""No sharp edge is looked for where the sweep takes longer than this to come to the next plateau."""
MOST_ASTRAY = 0.1
"""Of the points around a sharp edge, how many may lie on the wrong side."""
LEAST_AGREE = 0.9
"""Of the redraws of random pages, how many must tell the same size."""
UNPROVEN_RISE = 2.0
"""A rise without an edge is a level's end from this factor on; below, translation's or sharing's."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """One level of cache. size_bytes : None where its edge tells none; sharp : the edge is"""

    latency_ns: Finding
    size_bytes: Finding | None
    sharp: bool
    edge_bytes: float
    """Of the working set, where the plateau ends."""


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """The caches from the core outward, and what is behind the last."""

    levels: tuple[Level, ...]
    memory_ns: Finding


def sweep(bench: Bench, most_bytes: int) -> tuple[Floats, Floats]:
    """(n_size,) working sets, and (n_size, n_round) ns a step through them in random order."""
    most = min(most_bytes, bench.bytes)
    sizes = [float(FIRST_BYTES)]
    while sizes[-1] < most:
        points = POINTS_OF_OCTAVE if sizes[-1] < LARGE_BYTES else POINTS_OF_LARGE_OCTAVE
        sizes.append(sizes[-1] * 2 ** (1 / points))
    size = np.unique(np.round(np.minimum(sizes, most) / bench.block_bytes)) * bench.block_bytes
    # A large ring takes as long to make as a thousand small ones.
    tiny, large = size < SMALL_BYTES, size >= LARGE_BYTES
    plan = ((tiny, 24, 15.0, 10), (~tiny & ~large, 9, 20.0, 4), (large, 4, 30.0, 3))
    parts = [
        bench.curve(
            size[which],
            lambda at: bench.lines(at),
            rounds=rounds,
            seconds=seconds,
            least_rounds=least,
        )
        for which, rounds, seconds, least in plan
        if which.any()
    ]
    n_round = max(part.shape[1] for part in parts)
    # Rows of fewer rounds repeat theirs: the least stays the same, and so does its spread.
    return size, np.concatenate([_repeated(part, n_round) for part in parts])


def _repeated(part: Floats, n_round: int) -> Floats:
    return part[:, np.arange(n_round) % part.shape[1]]


def hierarchy(bench: Bench, book: Notebook, most_bytes: int) -> Hierarchy:
    """Measures it; what a level's edge does not tell is noted.

    Raises Unclear where the latency has no plateau.
    """
    sizes, repeats = sweep(bench, most_bytes)
    found = _plateaus(sizes, repeats.min(axis=1))
    if not found:
        raise Unclear("the latency has no plateau")
    levels: list[Level] = []
    at = 0
    while at < len(found) - 1:
        level = _level(
            bench, book, len(levels) + 1, sizes, repeats, found[at], found[at + 1], levels
        )
        at += 1
        if level.size_bytes is None and found[at].level < UNPROVEN_RISE * level.latency_ns.value:
            book.silent.pop(f"L{len(levels) + 1} capacity", None)
            book.cannot_tell(
                f"plateau at {level.latency_ns.value:.3g} ns",
                f"not called a level: the latency rises by less than {UNPROVEN_RISE:g} times and"
                " without an edge, as translation and neighbours also make it",
            )
            continue
        levels.append(level)
        if not level.sharp and sizes[found[at].first] > STEEP * level.edge_bytes:
            book.cannot_tell(
                f"between L{len(levels)} and what follows",
                f"not told: the latency takes from {_size(level.edge_bytes)} to"
                f" {_size(sizes[found[at].first])} to rise, where one more level has room",
            )
        capacity = level.size_bytes.low if level.size_bytes and not level.sharp else 0.0
        while at < len(found) - 1 and sizes[found[at].last] < capacity:
            book.cannot_tell(
                f"plateau at {found[at].level:.3g} ns",
                f"not a level: it ends at {_size(sizes[found[at].last])}, which L{len(levels)} holds;"
                " what rises there is the cost of address translation",
            )
            at += 1
    last = found[-1]
    how = "pointer chase through working sets that no cache holds"
    memory = _latency(bench, sizes, repeats, last, how, levels)
    book.curves.insert(
        0,
        Curve(
            title="Latency against working set",
            x_label="working set, bytes",
            y_label="ns a dependent load",
            x=sizes,
            y=repeats.min(axis=1),
            edges=tuple(_mark(k, level) for k, level in enumerate(levels, 1)),
            reading="Flat stretches are levels of cache, and the last one is memory. A level's flat"
            " stretch ends where the working set no longer fits it.",
        ),
    )
    return Hierarchy(levels=tuple(levels), memory_ns=memory)


def _plateaus(sizes: Floats, own: Floats) -> list[Plateau]:
    """Plateaus and shelves of a sweep whose points' least repeats are `own`.

    Larger sets are never faster, so a point counts as its least or that of a larger set. Where one
    large set was fast for once, those before it only look like a plateau: most of a plateau's points
    must have been as fast themselves.
    """
    least = np.minimum.accumulate(own[::-1])[::-1]
    return [
        each
        for each in with_shelves(sizes, least, plateaus(sizes, least))
        if np.median(own[each.first : each.last + 1]) <= LEAST_RISE * each.level
    ]


def _mark(number: int, level: Level) -> tuple[float, str]:
    if level.size_bytes is None:
        return level.edge_bytes, f"L{number}, no edge"
    return level.size_bytes.value, f"L{number}"


def _latency(
    bench: Bench, sizes: Floats, repeats: Floats, plateau: Plateau, how: str, inner: list[Level]
) -> Finding:
    """The median of a plateau's points, each its least repeat.

    Its interval holds what the points differ by (95 % of them): what a level above still serves, what is
    prefetched, and translation add to no two alike. It is widened by each point's noise and by a tick;
    and upward by what the level above may serve of the largest set if it replaces at random.
    """
    part = slice(plateau.first, plateau.last + 1)
    ends = np.array([lower_end(times) for times in repeats[part]])
    least = ends[:, 1]
    value = float(np.median(least))
    words = sizes[part] / bench.stride_bytes
    ticks = [bench.resolution_ns(ns, int(n)) for ns, n in zip(least, words, strict=True)]
    low, _ = interval_of(ends[:, 0] - ticks)
    _, high = interval_of(least + ticks)
    if inner:
        hit_ns = inner[-1].latency_ns.value
        missing = missing_part(sizes[plateau.last] / inner[-1].edge_bytes)
        slowest_ns = float(least[-1] + ticks[-1])
        high = max(high, hit_ns + (slowest_ns - hit_ns) / max(missing, 0.1))
    return Finding(
        value=value, low=max(min(low, value), 0), high=max(high, value), unit="ns", how=how
    )


def _level(
    bench: Bench,
    book: Notebook,
    number: int,
    sizes: Floats,
    repeats: Floats,
    plateau: Plateau,
    above: Plateau,
    inner: list[Level],
) -> Level:
    name = f"L{number}"
    first, last = float(sizes[plateau.first]), float(sizes[plateau.last])
    how = f"pointer chase through {_size(first)} to {_size(last)}"
    latency = _latency(bench, sizes, repeats, plateau, how, inner)
    begins = float(sizes[above.first])
    if begins <= STEEP * last:
        fine = _fine_edge(bench, book, name, last, latency.value, above.level)
        if fine is not None and is_sharp(fine):
            value = roundest(fine.low, fine.high, fine.x)
            size = Finding(
                value=value,
                low=fine.low,
                high=fine.high,
                unit="bytes",
                how="edge of the pointer chase, the roundest size in its interval",
            )
            return Level(latency_ns=latency, size_bytes=size, sharp=True, edge_bytes=fine.x)
    spread = None
    if inner and inner[-1].size_bytes is not None and last >= 16 * PAGE_BYTES:
        rise_ns = above.level - latency.value
        spread = _random_pages(bench, book, name, last, inner[-1].size_bytes.value, rise_ns)
    if spread is None:
        book.cannot_tell(
            f"{name} capacity",
            f"not told: the latency rises from {_size(last)} to {_size(begins)} without an edge",
        )
    return Level(latency_ns=latency, size_bytes=spread, sharp=False, edge_bytes=last)


def is_sharp(found: Edge) -> bool:
    """Whether an edge tells a size: a short way from plateau to plateau, and few points astray."""
    return (
        bool(np.isfinite(found.end))
        and found.end <= SHARP * found.x
        and found.high <= SHARP * found.low
        and found.astray <= MOST_ASTRAY
    )


def _fine_edge(
    bench: Bench, book: Notebook, name: str, near: float, low_level: float, high_level: float
) -> Edge | None:
    """The edge on a grid of a 48th of the size, so that an eighth of it (one of 8 ways) is many cells."""
    n = FINE_POINTS if near < LARGE_BYTES else LARGE_FINE_POINTS
    step = max(near / n, bench.stride_bytes)
    sizes = near * 0.8 + step * np.arange(n)
    sizes = np.unique(np.round(sizes / bench.stride_bytes)) * bench.stride_bytes
    sizes = sizes[sizes <= bench.bytes]
    repeats = bench.curve(sizes, lambda at: bench.lines(at), rounds=12, seconds=15.0)
    found = edge(sizes, repeats, low_level, high_level, n_flat=max(n // 8, 2))
    sharp = found is not None and is_sharp(found)
    marks = ((found.x, f"{name} ends"),) if found is not None and sharp else ()
    book.curves.append(
        Curve(
            title=f"The edge of {name}",
            x_label="working set, bytes",
            y_label="ns a dependent load",
            x=sizes,
            y=repeats.min(axis=1),
            edges=marks,
            log_x=False,
            log_y=False,
            reading=f"The rise behind {name} on a fine grid. "
            + (
                f"{name} ends at the last point that is as fast as the flat stretch on the left; the"
                " roundest size within the interval is its capacity."
                if sharp
                else "It has no sharp edge, so that no capacity is told by it."
            ),
        )
    )
    return found


def _random_pages(
    bench: Bench, book: Notebook, name: str, start: float, inner_bytes: float, rise_ns: float
) -> Finding | None:
    """Capacity of a level whose pages lie anywhere; None where the curve tells none, or fits two sizes
    that are as round. rise_ns : to the next level's latency"""
    sizes = np.round(np.geomspace(start, min(14 * start, bench.bytes / 2), 32) / PAGE_BYTES)
    sizes = np.unique(sizes) * PAGE_BYTES
    latency_ns = page_latencies(bench, sizes, bench.stride_bytes, inner_bytes)
    try:
        found = half_rise(sizes, latency_ns, expected_ns=rise_ns)
        if found.agreeing < LEAST_AGREE:
            interval = f"{_size(found.low_bytes)} to {_size(found.high_bytes)}"
            raise Unclear(
                f"it may be anything from {interval}, and which round size it is depends on the pages"
            )
    except Unclear as error:
        book.cannot_tell(f"{name} capacity by random pages", f"not told: {error}")
        return None
    book.curves.append(
        Curve(
            title=f"What full pages cost beyond sparse ones ({name})",
            x_label="working set of random pages, bytes",
            y_label="ns a dependent load",
            x=sizes,
            y=found.extra_ns,
            edges=((found.at_bytes, "half of the first rise"),),
            log_y=False,
            reading="Pages lie anywhere in physical memory, so some sets overflow before the level is"
            f" full. About half of the lines miss when the pages take its capacity: {name} is as large as"
            " the set where the curve has risen half of the way to the shelf behind it. What rises"
            " farther to the right belongs to the next level.",
        )
    )
    return Finding(
        value=found.roundest_bytes,
        low=found.low_bytes,
        high=found.high_bytes,
        unit="bytes",
        how=f"random pages, half of whose lines miss at {_size(found.at_bytes)}, the roundest size in"
        " the interval",
    )


def _size(size_bytes: float) -> str:
    from memsim.machine import size_text

    return size_text(round(size_bytes))
