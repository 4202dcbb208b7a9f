"""Lines, fills and ways: which bytes share a tag, which come together, how many lines of a set fit."""

from __future__ import annotations

import numpy as np

from calib.probes.bench import PAGE_BYTES, WORD_BYTES, Bench, Ring
from calib.probes.outcome import (
    Curve,
    Finding,
    Floats,
    Notebook,
    Unclear,
    interval_of,
    resampled_least,
)

DISTANCES_BYTES = (8, 16, 32, 64, 128, 256, 512)
BLOCK_BYTES = 1024
MOST_WAYS = 40
LINES_BYTES = (32, 64, 128, 256)
PART_OF_LEVEL = 0.7
"""Of a level, what its lines take where they are as short as tried; twice that where they are not."""


def line_bytes(
    bench: Bench, book: Notebook, name: str, size_bytes: float, hit_ns: float, miss_ns: float
) -> Finding:
    """What one tag covers: words 2 d apart, in two halves of which the second is shifted by d.

    Lines of d bytes or less are then spread over all sets, and take 0.7 of the level: all hit. Longer
    ones take 1.4 of it, and miss.

    Raises Unclear where none fits, or where all do.
    """
    begin = (bench.bytes // 2) // PAGE_BYTES * PAGE_BYTES

    def ring(distance: float) -> Ring:
        d = int(distance)
        span = int(PART_OF_LEVEL * size_bytes) // (2 * d) * (2 * d)
        first = np.arange(0, span, 2 * d)
        at = np.concatenate([first, span + d + first])
        offset = int(bench.rng.integers(0, max((bench.bytes - 2 * span) // PAGE_BYTES, 1)))
        at = at + min(offset * PAGE_BYTES, begin)
        return bench.rng.permutation(at) // WORD_BYTES

    tried = np.array(LINES_BYTES, np.float64)
    table = bench.curve(tried, ring, rounds=9, seconds=8.0)
    book.curves.append(
        Curve(
            title=f"Words 2 d apart that take 0.7 of {name} if its lines are no longer than d",
            x_label="d, bytes",
            y_label="ns a dependent load",
            x=tried,
            y=table.min(axis=1),
            log_y=False,
        )
    )
    threshold = hit_ns + 0.4 * (miss_ns - hit_ns)

    def shortest(values: Floats) -> int:
        return int(np.sum(np.maximum.accumulate(values[::-1])[::-1] > threshold))

    at = shortest(table.min(axis=1))
    if at == len(tried):
        raise Unclear(f"words 512 bytes apart that take 0.7 of {name} do not fit")
    again = np.array([shortest(values) for values in resampled_least(table)], np.float64)
    low, high = (min(round(k), len(tried) - 1) for k in interval_of(again))
    if at == 0:
        raise Unclear("lines are no longer than 32 bytes, the shortest tried")
    return Finding(
        value=LINES_BYTES[at],
        low=LINES_BYTES[low],
        high=LINES_BYTES[high],
        unit="bytes",
        how="the least d for which words 2 d apart fit into 0.7 of the level",
    )


def fill_bytes(
    bench: Bench, book: Notebook, name: str, region_bytes: float, hit_ns: float
) -> Finding:
    """What a miss brings in: pairs of loads d apart, the pairs in random order in a region that the
    level does not hold. Below the fill's length the second load hits, from there on it misses.

    Raises Unclear where no distance makes the second load miss.
    """
    n = max(int(region_bytes) // BLOCK_BYTES, 2)

    def ring(distance: float) -> Ring:
        blocks = bench.rng.permutation(n) * BLOCK_BYTES
        begin = int(bench.rng.integers(0, max(bench.bytes // BLOCK_BYTES - n, 0) + 1)) * BLOCK_BYTES
        pairs = np.stack([blocks, blocks + int(distance)], axis=1).reshape(-1)
        return (pairs + begin) // WORD_BYTES

    distances = np.array(DISTANCES_BYTES, np.float64)
    table = bench.curve(distances, ring, rounds=9, seconds=8.0)
    least = table.min(axis=1)
    book.curves.append(
        Curve(
            title=f"Pairs of loads, the first of which misses {name}",
            x_label="distance of the two, bytes",
            y_label="ns a dependent load",
            x=distances,
            y=least,
            log_y=False,
        )
    )
    together, apart = least[0], float(least[-2:].mean())
    if apart < together * 1.15:
        raise Unclear(
            f"two loads take {together:.3g} ns next to each other and {apart:.3g} ns far apart"
        )

    def first_apart(values: Floats) -> int:
        """The first distance from which on all lie nearer to two misses than to one and a hit."""
        far = float(values[-2:].mean())
        beyond = values > 0.5 * (0.5 * (far + hit_ns) + far)
        inside = np.flatnonzero(~beyond)
        return int(inside[-1]) + 1

    at = first_apart(least)
    if at >= len(DISTANCES_BYTES):
        raise Unclear("no distance is far enough")
    again = np.array([first_apart(values) for values in resampled_least(table)], np.float64)
    low, high = (min(round(k), len(DISTANCES_BYTES) - 1) for k in interval_of(again))
    if high > low + 1:
        raise Unclear(f"anything from {DISTANCES_BYTES[low]} to {DISTANCES_BYTES[high]} bytes")
    return Finding(
        value=DISTANCES_BYTES[at],
        low=DISTANCES_BYTES[low],
        high=DISTANCES_BYTES[high],
        unit="bytes",
        how="pairs of loads: the distance from which on the second misses as well",
    )


def ways(
    bench: Bench,
    book: Notebook,
    name: str,
    size_bytes: float,
    line: int,
    hit_ns: float,
    miss_ns: float,
) -> Finding:
    """Lines of one set that fit: n lines, a capacity apart, lie in one set of any cache whose index is
    linear; the last n that all hit is the number of ways. A way apart they must do the same.

    Raises Unclear where they do not (the index is hashed), or where the buffer is too small.
    """
    spacing = int(size_bytes)
    most = min(MOST_WAYS, bench.bytes // spacing)
    if most < 4:
        raise Unclear(f"{spacing} bytes apart, only {most} lines fit the buffer")
    counts = np.arange(1, most + 1)
    table = bench.curve(
        counts.astype(np.float64),
        lambda n: same_set(bench, int(n), spacing, line),
        rounds=9,
        seconds=8.0,
    )
    threshold = hit_ns + 0.25 * (miss_ns - hit_ns)
    least = table.min(axis=1)

    def last_fitting(values: Floats) -> int:
        beyond = np.flatnonzero(values > threshold)
        return int(counts[beyond[0] - 1]) if len(beyond) and beyond[0] else 0

    found = last_fitting(least)
    fits_all = not (least > threshold).any()
    book.curves.append(
        Curve(
            title=f"Lines a capacity of {name} apart",
            x_label="lines",
            y_label="ns a dependent load",
            x=counts.astype(np.float64),
            y=least,
            edges=((float(found), "ways"),) if found and not fits_all else (),
            log_x=False,
            log_y=False,
        )
    )
    if fits_all:
        raise Unclear(
            f"{most} lines {spacing} bytes apart all hit: the sets are hashed, or there are more ways"
        )
    if found == 0:
        raise Unclear(f"no number of lines {spacing} bytes apart hits")
    if found * line >= spacing:
        raise Unclear(
            f"{found} lines a capacity apart fit, all that it holds: fully associative, or hashed"
        )
    each_time = np.median([last_fitting(table[:, r]) for r in range(table.shape[1])])
    if abs(each_time - found) > 0.1 * found:
        raise Unclear(
            f"once {found} lines {spacing} bytes apart fit, mostly {each_time:.0f}: it depends on where"
            " their pages lie"
        )
    way = spacing // found // line * line
    nearer = min(bench.chase_ns(same_set(bench, 2 * found, way, line)).min() for _ in range(5))
    if nearer < threshold:
        raise Unclear(
            f"{found} lines a capacity apart fit, but {2 * found} lines {way} bytes apart as well:"
            " the sets are hashed"
        )
    low, high = interval_of(
        np.array([last_fitting(values) for values in resampled_least(table)], np.float64)
    )
    return Finding(
        value=found,
        low=min(low, found),
        high=max(high, found),
        unit="",
        how=f"the most lines {spacing} bytes apart that all hit",
    )


def same_set(bench: Bench, n: int, spacing: int, line: int) -> Ring:
    """Words of n lines, so many bytes apart, from any line of the buffer on, in random order."""
    room = (bench.bytes - (n - 1) * spacing) // line
    begin = int(bench.rng.integers(0, max(room, 1))) * line
    return (begin + bench.rng.permutation(n) * spacing) // WORD_BYTES


def translation(bench: Bench, book: Notebook, l1_lines: float) -> Finding:
    """Pages that address translation holds: one line of each of n pages, in sets of their own.

    l1_lines : what the first level holds; where as many pages still hit, its own edge is met first

    Raises Unclear where the latency has no step before the lines fill the buffer or the first level.
    """
    line = 64
    most = min(bench.bytes // (PAGE_BYTES + line), 2048)
    counts = np.unique(np.geomspace(8, most, 40).astype(int))

    def ring(n: float) -> Ring:
        # A page begins where the last one's line ended, so that they spread over all sets.
        order = bench.rng.permutation(int(n))
        return (order * PAGE_BYTES + order * line % PAGE_BYTES) // WORD_BYTES

    table = bench.curve(counts.astype(np.float64), ring, rounds=6, seconds=8.0)
    least = table.min(axis=1)
    hit = float(np.median(least[:5]))
    book.curves.append(
        Curve(
            title="One line of each page",
            x_label="pages of 4 KB",
            y_label="ns a dependent load",
            x=counts.astype(np.float64),
            y=least,
        )
    )

    def first_beyond(values: Floats) -> int:
        above = np.flatnonzero(values > 1.25 * hit)
        return int(above[0]) if len(above) else len(values)

    at = first_beyond(least)
    if at in (0, len(counts)):
        raise Unclear("one line a page costs the same for any number of pages")
    if counts[at] > 0.9 * l1_lines:
        raise Unclear(
            f"up to {counts[at - 1]} pages cost the same; beyond, the first level is full"
        )
    again = np.array([first_beyond(values) for values in resampled_least(table)], np.float64)
    low, high = interval_of(again)
    return Finding(
        value=int(counts[at - 1]),
        low=int(counts[max(int(low) - 1, 0)]),
        high=int(counts[min(int(np.ceil(high)), len(counts) - 1)]),
        unit="pages of 4 KB",
        how="one line of each of n pages: the last n before the latency rises by a quarter",
    )
