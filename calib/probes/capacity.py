"""The levels of a hierarchy, from the latency as a function of the working set.

Cache capacity is the largest working set that still hits. The pages of a CPU's working set have any physical
address, so a cache that is indexed by physical addresses has no sharp edge, and address translation causes
plateaus of its own. Where an edge is not sharp, `random_pages` measures the capacity without
translation; a plateau that ends below this capacity is caused by translation and is not a level.
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
    size_text,
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
"""No sharp edge is searched where the next plateau begins beyond this factor."""
MOST_ASTRAY = 0.1
"""Greatest fraction of points around a sharp edge that may be closer to the other plateau."""
LEAST_AGREE = 0.9
"""Least fraction of the redraws of random pages that must give the same size."""
UNPROVEN_RISE = 2.0
"""From this factor on, a rise without an edge is the end of a level; a smaller one may be caused by
translation or sharing."""


@dataclass(frozen=True, kw_only=True)
class MeasuredLevel:
    """One level of cache.

    size_bytes : None where it could not be determined
    sharp : whether its plateau has a sharp edge
    edge_bytes : the working set at which its plateau ends
    """

    latency_ns: Finding
    size_bytes: Finding | None
    sharp: bool
    edge_bytes: float

    @property
    def capacity_bytes(self) -> float:
        """The measured size, else where the latency begins to rise."""
        return self.size_bytes.value if self.size_bytes else self.edge_bytes


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """The caches from the core outward, and the latency of memory."""

    levels: tuple[MeasuredLevel, ...]
    memory_ns: Finding


def sweep(bench: Bench, most_bytes: int) -> tuple[Floats, Floats]:
    """(n_size,) working sets, and (n_size, n_round) nanoseconds per step through them in random order."""
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
    # Rows with fewer rounds are repeated, which changes neither the least nor its spread.
    return size, np.concatenate([_repeated(part, n_round) for part in parts])


def _repeated(part: Floats, n_round: int) -> Floats:
    return part[:, np.arange(n_round) % part.shape[1]]


def hierarchy(bench: Bench, book: Notebook, most_bytes: int) -> Hierarchy:
    """Measures the hierarchy, and notes the levels whose capacity could not be determined.

    Raises Unclear where the latency has no plateau.
    """
    sizes, repeats = sweep(bench, most_bytes)
    flat = _plateaus(sizes, repeats.min(axis=1))
    if not flat:
        raise Unclear("the latency has no plateau")
    levels: list[MeasuredLevel] = []
    at = 0
    while at < len(flat) - 1:
        level = _level(bench, book, len(levels) + 1, sizes, repeats, flat[at], flat[at + 1], levels)
        at += 1
        if level.size_bytes is None and flat[at].level < UNPROVEN_RISE * level.latency_ns.value:
            book.silent.pop(f"L{len(levels) + 1} capacity", None)
            book.cannot_tell(
                f"plateau at {level.latency_ns.value:.3g} ns",
                f"not considered a level: the latency rises by less than {UNPROVEN_RISE:g} times and"
                " without an edge, which translation and other users of a cache also cause",
            )
            continue
        levels.append(level)
        if not level.sharp and sizes[flat[at].first] > STEEP * level.edge_bytes:
            book.cannot_tell(
                f"between L{len(levels)} and what follows",
                f"not determined: the latency rises from {size_text(level.edge_bytes)} to"
                f" {size_text(sizes[flat[at].first])}, where another level may be",
            )
        capacity = level.size_bytes.low if level.size_bytes and not level.sharp else 0.0
        while at < len(flat) - 1 and sizes[flat[at].last] < capacity:
            book.cannot_tell(
                f"plateau at {flat[at].level:.3g} ns",
                f"not a level: it ends at {size_text(sizes[flat[at].last])}, within the capacity of"
                f" L{len(levels)}; the rise there is the cost of address translation",
            )
            at += 1
    last = flat[-1]
    how = "pointer chase through working sets larger than all caches"
    memory = _latency(bench, sizes, repeats, last, how, levels)
    book.curves.insert(
        0,
        Curve(
            title="Latency against working set",
            x_label="working set, bytes",
            x=sizes,
            y=repeats.min(axis=1),
            edges=tuple(_mark(k, level) for k, level in enumerate(levels, 1)),
            reading="Each flat stretch is a level of cache, and the last one is memory. The stretch of a"
            " level ends where the working set no longer fits into it.",
        ),
    )
    return Hierarchy(levels=tuple(levels), memory_ns=memory)


def _plateaus(sizes: Floats, least_repeats: Floats) -> list[Plateau]:
    """Plateaus and shelves of a sweep, from the least repeat of each point.

    Larger sets are never faster, so the value of a point is its least or that of a larger set.
    Where a single large set was fast by chance, the points before it look like a plateau. So the
    median point of a plateau must itself have been that fast.
    """
    least = np.minimum.accumulate(least_repeats[::-1])[::-1]
    return [
        each
        for each in with_shelves(sizes, least, plateaus(sizes, least))
        if np.median(least_repeats[each.first : each.last + 1]) <= LEAST_RISE * each.level
    ]


def _mark(number: int, level: MeasuredLevel) -> tuple[float, str]:
    if level.size_bytes is None:
        return level.edge_bytes, f"L{number}, no edge"
    return level.size_bytes.value, f"L{number}"


def _latency(
    bench: Bench,
    sizes: Floats,
    repeats: Floats,
    plateau: Plateau,
    how: str,
    inner: list[MeasuredLevel],
) -> Finding:
    """The latency of a plateau: the median of its points, each the least of its repeats.

    The interval contains 95 % of the points, which differ by the hits of the level above, prefetching and
    address translation. It is widened by each point's noise and by a tick of the clock, and upward by
    the hits that the level above may have on the largest set if it replaces at random.
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
    inner: list[MeasuredLevel],
) -> MeasuredLevel:
    name = f"L{number}"
    first, last = float(sizes[plateau.first]), float(sizes[plateau.last])
    how = f"pointer chase through {size_text(first)} to {size_text(last)}"
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
            return MeasuredLevel(latency_ns=latency, size_bytes=size, sharp=True, edge_bytes=fine.x)
    spread = None
    if inner and inner[-1].size_bytes is not None and last >= 16 * PAGE_BYTES:
        rise_ns = above.level - latency.value
        spread = _random_pages(bench, book, name, last, inner[-1].size_bytes.value, rise_ns)
    if spread is None:
        book.cannot_tell(
            f"{name} capacity",
            f"not determined: the latency rises from {size_text(last)} to {size_text(begins)} without an edge",
        )
    return MeasuredLevel(latency_ns=latency, size_bytes=spread, sharp=False, edge_bytes=last)


def is_sharp(detected: Edge) -> bool:
    """Whether an edge determines a size: it is short, and few points are on the wrong side."""
    return (
        bool(np.isfinite(detected.end))
        and detected.end <= SHARP * detected.x
        and detected.high <= SHARP * detected.low
        and detected.astray <= MOST_ASTRAY
    )


def _fine_edge(
    bench: Bench, book: Notebook, name: str, near: float, low_level: float, high_level: float
) -> Edge | None:
    """The edge on a grid of 1/48 of the size, so that one of 8 ways is several cells."""
    n = FINE_POINTS if near < LARGE_BYTES else LARGE_FINE_POINTS
    step = max(near / n, bench.stride_bytes)
    sizes = near * 0.8 + step * np.arange(n)
    sizes = np.unique(np.round(sizes / bench.stride_bytes)) * bench.stride_bytes
    sizes = sizes[sizes <= bench.bytes]
    repeats = bench.curve(sizes, lambda at: bench.lines(at), rounds=12, seconds=15.0)
    detected = edge(sizes, repeats, low_level, high_level, n_flat=max(n // 8, 2))
    sharp = detected is not None and is_sharp(detected)
    marks = ((detected.x, f"{name} ends"),) if detected is not None and sharp else ()
    book.draw(
        title=f"Capacity of {name}",
        x_label="working set, bytes",
        x=sizes,
        y=repeats.min(axis=1),
        edges=marks,
        log_x=False,
        log_y=False,
        reading=f"The rise at the end of {name} on a fine grid. "
        + (
            f"{name} ends at the last point that is as fast as the flat stretch on the left. Its"
            " capacity is the roundest size within the interval."
            if sharp
            else "It has no sharp edge, so it does not determine a capacity."
        ),
    )
    return detected


def _random_pages(
    bench: Bench, book: Notebook, name: str, start: float, inner_bytes: float, rise_ns: float
) -> Finding | None:
    """Capacity of a level whose pages have any physical address; None where it is not determined.

    rise_ns : difference to the next level's latency
    """
    sizes = np.round(np.geomspace(start, min(14 * start, bench.bytes / 2), 32) / PAGE_BYTES)
    sizes = np.unique(sizes) * PAGE_BYTES
    latency_ns = page_latencies(bench, sizes, bench.stride_bytes, inner_bytes)
    try:
        half = half_rise(sizes, latency_ns, expected_ns=rise_ns)
        if half.agreeing < LEAST_AGREE:
            interval = f"{size_text(half.low_bytes)} to {size_text(half.high_bytes)}"
            raise Unclear(
                f"it may be {interval}, and the roundest size in the interval depends on the pages"
            )
    except Unclear as error:
        book.cannot_tell(f"{name} capacity by random pages", f"not determined: {error}")
        return None
    book.draw(
        title=f"Capacity of {name}, by random pages",
        x_label="working set of random pages, bytes",
        y_label="ns per dependent load, full less sparse pages",
        x=sizes,
        y=half.extra_ns,
        edges=((half.at_bytes, "half of the first rise"),),
        log_y=False,
        reading="Pages have any physical address, so some sets overflow before the level is full. About"
        f" half of the lines miss when the pages take its capacity. The capacity of {name} is therefore"
        " the working set where the curve has risen half of the way to the next flat stretch. Rises"
        " farther to the right belong to the next level.",
    )
    return Finding(
        value=half.roundest_bytes,
        low=half.low_bytes,
        high=half.high_bytes,
        unit="bytes",
        how=f"random pages, half of whose lines miss at {size_text(half.at_bytes)}; the roundest size"
        " in the interval",
    )
