"""Line size (bytes that share a tag), fill size (bytes that a miss fetches) and associativity."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from calib.probes.bench import PAGE_BYTES, WORD_BYTES, Bench, Ring
from calib.probes.outcome import Finding, Floats, Notebook, Unclear, resampled_interval

DISTANCES_BYTES = (8, 16, 32, 64, 128, 256, 512)
PITCH_BYTES = 1280
"""Distance between pairs: an odd multiple of the longest fill, so that the pairs use all sets evenly."""
MOST_SERVED = 1.25
"""A pair that takes more than this many times the next level's latency is not served by it."""
MOST_WAYS = 40
LINES_BYTES = (32, 64, 128, 256)
PART_OF_LEVEL = 0.7
"""Fraction of a level that the words occupy where lines are as short as tried; twice that where longer."""


def line_bytes(
    bench: Bench, book: Notebook, name: str, size_bytes: float, hit_ns: float, miss_ns: float
) -> Finding:
    """The bytes of a line, from words 2 d apart in two halves, the second of which is shifted by d.

    Lines of d bytes or less are then spread over all sets and occupy 0.7 of the level, so all loads hit.
    Longer lines occupy 1.4 of it, so loads miss.

    Raises Unclear where the words fit for no d, or for every d.
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
    book.draw(
        title=f"Line of {name}",
        x_label="d, bytes",
        x=tried,
        y=table.min(axis=1),
        log_y=False,
        reading=f"Words 2 d apart, so many that their lines occupy 0.7 of {name} if a line has d bytes. Where d"
        " is shorter than a line, the lines do not all fit and loads are slow. The line size is the least d"
        " at which loads are fast.",
    )
    threshold = hit_ns + 0.4 * (miss_ns - hit_ns)

    def shortest(values: Floats) -> int:
        return int(np.sum(np.maximum.accumulate(values[::-1])[::-1] > threshold))

    at = shortest(table.min(axis=1))
    if at == len(tried):
        raise Unclear(f"words 512 bytes apart that occupy 0.7 of {name} do not fit")
    low, high = (min(round(k), len(tried) - 1) for k in resampled_interval(table, shortest))
    if at == 0:
        raise Unclear("lines are not longer than 32 bytes, the shortest size tried")
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
    """The bytes that a miss fetches, from pairs of loads d apart, in random order.

    There are more pairs than the level has lines, so the first load of a pair misses. Where d is below the
    fill size, the second load hits; from there on it misses, and costs more than half of the difference
    between a hit and the next level's latency.

    inner_ns : latency of the first level, where the second load hits at the least distance
    below_ns : latency of the next level, which must contain all pairs; fewer are tried where it does not.
        None: half of what two loads far apart take

    Raises Unclear where no distance makes the second load miss, or the next level cannot contain the pairs.
    """
    distances, table, served = _served_pairs(bench, n_pairs, inner_ns, below_ns)
    least = table.min(axis=1)
    book.draw(
        title=f"Bytes that a miss in {name} fetches",
        x_label="distance of the two loads, bytes",
        x=distances,
        y=least,
        log_y=False,
        reading="Pairs of loads, the first of which misses. Their mean latency is low as long as that miss also"
        " fetches the data of the second. It rises at the distance from which on both miss.",
    )
    _require_two_latencies(least, served, inner_ns, below_ns)

    def first_apart(values: Floats) -> int:
        """The first distance from which on the second load always misses."""
        missing = below_ns if below_ns is not None else float(values[-2:].mean())
        hit = values[0] + 0.5 * (hit_ns - inner_ns)
        inside = np.flatnonzero(values <= hit + 0.5 * (missing - hit_ns) / 2)
        return int(inside[-1]) + 1 if len(inside) else 0

    at = first_apart(least)
    if at >= len(DISTANCES_BYTES):
        raise Unclear("the second load hits at every distance")
    ends = resampled_interval(table, first_apart)
    low, high = (min(round(k), len(DISTANCES_BYTES) - 1) for k in ends)
    if high > low + 1:
        raise Unclear(f"it may be {DISTANCES_BYTES[low]} to {DISTANCES_BYTES[high]} bytes")
    return Finding(
        value=DISTANCES_BYTES[at],
        low=DISTANCES_BYTES[low],
        high=DISTANCES_BYTES[high],
        unit="bytes",
        how="pairs of loads: the distance from which on the second one misses too",
    )


def _require_two_latencies(
    least: Floats, served: float, inner_ns: float, below_ns: float | None
) -> None:
    """Raises Unclear where the next level does not serve the first loads, or the second ones never miss."""
    if not 1 / MOST_SERVED < served < MOST_SERVED:
        raise Unclear(
            f"the first load of a pair takes {max(2 * least[0] - inner_ns, inner_ns):.3g} ns, and not the"
            f" {below_ns:.3g} ns of the next level"
        )
    together, apart = least[0], float(least[-2:].mean())
    if apart < together * 1.15:
        raise Unclear(
            f"two loads take {together:.3g} ns next to each other and {apart:.3g} ns far apart"
        )


def _served_pairs(
    bench: Bench, n_pairs: float, inner_ns: float, below_ns: float | None
) -> tuple[Floats, Floats, float]:
    """Distances, latencies (n_distance, n_round) and how many times the expected latency the pairs take.

    Fewer pairs are tried as long as the next level does not serve their first loads.
    """
    most = min(n_pairs, bench.bytes // PITCH_BYTES)
    for n in (int(most), int(most) // 2, int(most) // 4):
        if n < 2:
            raise Unclear("the buffer is too small")
        distances, table = _pairs(bench, n)
        first = table.min(axis=1)[0]
        # Of a pair at the least distance, one load comes from the next level and one from the first.
        served = 2 * first / (below_ns + inner_ns) if below_ns is not None else 1.0
        if served < MOST_SERVED:
            break
    return distances, table, float(served)


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
    """The associativity of a level: the most lines, one capacity apart, that all hit.

    Where the set index is linear in the address, such lines belong to one set.

    above_ns : latency of the level above, 0 for the first; lines of one set here are of one set there too

    Raises Unclear where the index is hashed, where the buffer is too small, or where the level above has
    at least as many ways.
    """
    spacing = int(size_bytes)
    most = min(MOST_WAYS, bench.bytes // spacing)
    if most < 4:
        raise Unclear(f"only {most} lines {spacing} bytes apart fit into the buffer")
    counts, table = _same_set_times(bench, book, name, spacing, line, most)
    threshold = hit_ns + 0.25 * (miss_ns - hit_ns)
    least = table.min(axis=1)

    def last_fitting(values: Floats) -> int:
        beyond = np.flatnonzero(values > threshold)
        return int(counts[beyond[0] - 1]) if len(beyond) and beyond[0] else 0

    fitting = last_fitting(least)
    if not (least > threshold).any():
        raise Unclear(
            f"{most} lines {spacing} bytes apart all hit: the set index is hashed, or there are more ways"
        )
    _require_one_set(name, fitting, spacing, line)
    if least[fitting - 1] < 0.5 * (above_ns + hit_ns):
        raise Unclear(
            f"{fitting} lines {spacing} bytes apart all hit the level above: {name} has at most as"
            " many ways, and their exact number is hidden"
        )
    usually = float(np.median([last_fitting(table[:, r]) for r in range(table.shape[1])]))
    _require_linear_index(bench, fitting, usually, spacing, line, threshold)
    low, high = resampled_interval(table, last_fitting)
    book.curves[-1] = dataclasses.replace(book.curves[-1], edges=((float(fitting), "ways"),))
    return Finding(
        value=fitting,
        low=min(low, fitting),
        high=max(high, fitting),
        unit="",
        how=f"the most lines {spacing} bytes apart that all hit",
    )


def _same_set_times(
    bench: Bench, book: Notebook, name: str, spacing: int, line: int, most: int
) -> tuple[npt.NDArray[np.int64], Floats]:
    """(n,) numbers of lines up to `most`, and (n, n_round) nanoseconds per load; notes the curve."""
    counts = np.arange(1, most + 1)
    table = bench.curve(
        counts.astype(np.float64),
        lambda n: same_set(bench, int(n), spacing, line),
        rounds=9,
        seconds=8.0,
    )
    book.draw(
        title=f"Ways of {name}",
        x_label="lines",
        x=counts.astype(np.float64),
        y=table.min(axis=1),
        log_x=False,
        log_y=False,
        reading=f"Lines whose addresses differ by a capacity of {name} belong to one set where the set index is"
        " linear in the address. All of them hit up to the number of ways.",
    )
    return counts, table


def _require_one_set(name: str, fitting: int, spacing: int, line: int) -> None:
    """Raises Unclear where the number of lines that fit cannot be the ways of one set."""
    if fitting == 0:
        raise Unclear(f"lines {spacing} bytes apart never hit, whatever their number")
    if fitting * line >= spacing:
        raise Unclear(
            f"{fitting} lines a capacity apart fit, which is all of {name}: it is fully"
            " associative, or its set index is hashed"
        )


def _require_linear_index(
    bench: Bench, fitting: int, usually: float, spacing: int, line: int, threshold_ns: float
) -> None:
    """Raises Unclear where rounds differ, or where twice as many lines, one way apart, all hit too.

    usually : the number of lines that fit, as the median over rounds
    """
    if abs(usually - fitting) > 0.1 * fitting:
        raise Unclear(
            f"{fitting} lines {spacing} bytes apart fit in one round, and usually {usually:.0f}:"
            " the number depends on the physical addresses of their pages"
        )
    way_bytes = spacing // fitting // line * line
    nearer = min(
        bench.chase_ns(same_set(bench, 2 * fitting, way_bytes, line)).min() for _ in range(5)
    )
    if nearer < threshold_ns:
        raise Unclear(
            f"{fitting} lines a capacity apart fit, but so do {2 * fitting} lines {way_bytes} bytes"
            " apart: the set index is hashed"
        )


def same_set(bench: Bench, n: int, spacing: int, line: int) -> Ring:
    """One word of each of n lines, `spacing` bytes apart, from a random line on, in random order."""
    room = (bench.bytes - (n - 1) * spacing) // line
    begin = int(bench.rng.integers(0, max(room, 1))) * line
    return (begin + bench.rng.permutation(n) * spacing) // WORD_BYTES
