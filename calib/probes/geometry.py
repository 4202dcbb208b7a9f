"""Lines, fills and ways: which bytes share a tag, which come together, how many lines of a set fit."""

from __future__ import annotations

import dataclasses

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
PITCH_BYTES = 1280
"""Of pairs: a whole number of the longest fills, odd, so that the pairs use sets evenly."""
MOST_SERVED = 1.25
"""Times what the next level takes, or part of it: a pair beyond it is not served by it."""
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
            reading="Where d is shorter than a line, each word brings in a line that it leaves half unused, and"
            " they do not all fit. A line is as long as the least d at which they do, and loads are fast.",
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
    bench: Bench,
    book: Notebook,
    name: str,
    n_pairs: float,
    hit_ns: float,
    inner_ns: float,
    below_ns: float | None = None,
) -> Finding:
    """What a miss brings in: pairs of loads d apart, so many in random order that the level does not
    hold their lines. Below the fill's length the second load hits, from there on it misses: it costs
    more than half of the way from a hit to the next level's latency.

    inner_ns : of the first level, where the second load hits at the least distance
    below_ns : of the next level, which must hold all pairs: fewer are tried where it does not. None: what
        two loads far apart take, half of it

    Raises Unclear where no distance makes the second load miss, or the next level does not hold them.
    """
    most = min(n_pairs, bench.bytes // PITCH_BYTES)
    for n in (int(most), int(most) // 2, int(most) // 4):
        if n < 2:
            raise Unclear("the buffer is too small")
        distances, table = _pairs(bench, n)
        least = table.min(axis=1)
        # Of a pair at the least distance, one load comes from the next level and one from the first.
        served = 2 * least[0] / (below_ns + inner_ns) if below_ns is not None else 1.0
        if served < MOST_SERVED:
            break
    book.curves.append(
        Curve(
            title=f"Pairs of loads, the first of which misses {name}",
            x_label="distance of the two, bytes",
            y_label="ns a dependent load",
            x=distances,
            y=least,
            log_y=False,
            reading="While the second load of a pair comes along with the first, the mean of the two is low;"
            " it rises at the distance from which on both miss.",
        )
    )
    if not 1 / MOST_SERVED < served < MOST_SERVED:
        raise Unclear(
            f"the first load of a pair takes {max(2 * least[0] - inner_ns, inner_ns):.3g} ns, and not"
            f" {below_ns:.3g} as from the next level: it lies elsewhere"
        )
    together, apart = least[0], float(least[-2:].mean())
    if apart < together * 1.15:
        raise Unclear(
            f"two loads take {together:.3g} ns next to each other and {apart:.3g} ns far apart"
        )

    def first_apart(values: Floats) -> int:
        """The first distance from which on the second load misses in all."""
        missing = below_ns if below_ns is not None else float(values[-2:].mean())
        hit = values[0] + 0.5 * (hit_ns - inner_ns)
        inside = np.flatnonzero(values <= hit + 0.5 * (missing - hit_ns) / 2)
        return int(inside[-1]) + 1 if len(inside) else 0

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


def _pairs(bench: Bench, n: int) -> tuple[Floats, Floats]:
    """(distances, latencies (n_distance, n_round)) of n pairs, PITCH_BYTES apart, in random order."""

    def ring(distance: float) -> Ring:
        first = bench.rng.permutation(n) * PITCH_BYTES
        begin = int(bench.rng.integers(0, max(bench.bytes - n * PITCH_BYTES, 0) // PAGE_BYTES + 1))
        pairs = np.stack([first, first + int(distance)], axis=1).reshape(-1)
        return (pairs + begin * PAGE_BYTES) // WORD_BYTES

    distances = np.array(DISTANCES_BYTES, np.float64)
    return distances, bench.curve(distances, ring, rounds=9, seconds=8.0)


def ways(
    bench: Bench,
    book: Notebook,
    name: str,
    size_bytes: float,
    line: int,
    hit_ns: float,
    miss_ns: float,
    above_ns: float = 0.0,
) -> Finding:
    """Lines of one set that fit: n lines, a capacity apart, lie in one set of any cache whose index is
    linear; the last n that all hit is the number of ways. A way apart they must do the same.

    above_ns : latency of the level above, 0 for the first. Lines of one set here are of one set there, too

    Raises Unclear where they do not (the index is hashed), where the buffer is too small, or where the
    level above holds as many.
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
    curve = Curve(
        title=f"Lines a capacity of {name} apart",
        x_label="lines",
        y_label="ns a dependent load",
        x=counts.astype(np.float64),
        y=least,
        log_x=False,
        log_y=False,
        reading="Where sets are chosen by plain addresses, these lines belong to one set: up to the number"
        " of ways they all fit it.",
    )
    book.curves.append(curve)
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
    if least[found - 1] < 0.5 * (above_ns + hit_ns):
        raise Unclear(
            f"{found} lines {spacing} bytes apart all hit the level above: {name} has no more ways than"
            " that, and what it has is hidden"
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
    book.curves[-1] = dataclasses.replace(curve, edges=((float(found), "ways"),))
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
