"""Policies of a cache: prefetching, stores, and copies in a shared level."""

from __future__ import annotations

import numpy as np

from calib.probes.bench import WORD_BYTES, Bench, Ring
from calib.probes.outcome import Finding, Floats, Notebook, Unclear, interval_of, resampled

STRIDES_LINES = (1, 2, 4, 8, 16, 32)
WINDOW_BYTES = 64 << 10
HELPED = 1.5
THROUGH = 0.2
"""Least time of a store that is passed to the next level, as a fraction of that level's latency."""
ROUNDS = 8
WALKS = 30


def prefetching(bench: Bench, book: Notebook, region_bytes: float, line_bytes: int) -> None:
    """Measures whether sequential lines are faster than lines in random order, and for which strides.

    Both orders visit all lines of a window of 64 KB before the next one, so that address translation
    costs the same.
    """
    window = WINDOW_BYTES // line_bytes
    n_window = max(int(region_bytes) // WINDOW_BYTES, 1)
    first = np.arange(n_window)[:, None] * window

    def ring(stride: float) -> Ring:
        """Streams of this stride, one after another, which visit every line; 0 is random order."""
        lines = np.tile(np.arange(window), (n_window, 1))
        if stride:
            lines = (
                lines.reshape(n_window, -1, int(stride)).transpose(0, 2, 1).reshape(n_window, -1)
            )
        else:
            lines = bench.rng.permuted(lines, axis=1)
        return (first + lines).reshape(-1) * line_bytes // WORD_BYTES

    x = np.array([0, *STRIDES_LINES], np.float64)
    least = bench.curve(x, ring, rounds=3, seconds=10.0).min(axis=1)
    gains = least[0] / least[1:]
    book.draw(
        title="Prefetching",
        x_label="stride, lines",
        y_label="random / sequential",
        x=x[1:],
        y=gains,
        log_y=False,
        reading="How many times as fast lines are read in sequence as in random order. 1 means that the order"
        " does not matter; values far above 1 show prefetching.",
    )
    helped = [stride for stride, gain in zip(STRIDES_LINES, gains, strict=True) if gain > HELPED]
    how = "a sequential pointer chase, compared with one in random order: " + ", ".join(
        f"stride {stride}: {gain:.1f} times as fast"
        for stride, gain in zip(STRIDES_LINES, gains, strict=True)
    )
    result = f"yes, up to a stride of {max(helped)} lines" if helped else "none detected"
    book.say("prefetching", result, how)


def store_allocates(
    bench: Bench,
    book: Notebook,
    name: str,
    size_bytes: float,
    line_bytes: int,
    own_ns: float,
    below_ns: float,
) -> None:
    """Measures whether a store allocates a line, from walks over untouched, loaded and stored lines.

    Stored lines without an allocation may be in the next level, whose latency is `below_ns`.

    Raises Unclear where loaded lines are not about as fast as the level, or hardly faster than untouched
    ones.
    """
    absent, present, stored = _after(bench, size_bytes, line_bytes)
    how = (
        f"ns per line: {absent:.3g} untouched, {present:.3g} after loads, {stored:.3g} after stores"
    )
    missing = min(absent, below_ns)
    if not (missing > 1.5 * present and present < 0.5 * (own_ns + below_ns)):
        raise Unclear(how)
    part = (missing - stored) / (missing - present)
    if part > 0.7:
        book.say(f"{name} write_allocate", "allocates", how)
    elif part < 0.3:
        book.say(f"{name} write_allocate", "none", how)
    else:
        raise Unclear(how)


def _after(bench: Bench, size_bytes: float, line_bytes: int) -> tuple[float, float, float]:
    """Nanoseconds per line of a first walk over half a cache: untouched, loaded and stored lines.

    The time of a walk is the difference between launches with it and without it, the least of each.
    """
    n_small = max(int(size_bytes) // line_bytes // 2, 8)
    small = bench.rng.permutation(n_small) * line_bytes // WORD_BYTES
    large_at = n_small * line_bytes
    n_large = min(4 * int(size_bytes), bench.bytes - 2 * large_at) // line_bytes
    large = (large_at + bench.rng.permutation(n_large) * line_bytes) // WORD_BYTES
    start_small, start_large = bench.ring(small), bench.ring(large)
    order = bench.rng.permutation(small).astype(np.uint32)
    spent = np.full((3, 2), np.inf)
    for _ in range(15):
        for mode in range(3):
            for walks in range(2):
                run = bench.device.run(
                    "prepared", 1, 1, start_large, n_large, start_small, n_small, mode, ROUNDS,
                    walks, order,
                )  # fmt: skip
                spent[mode, walks] = min(spent[mode, walks], run)
    absent, present, stored = (spent[:, 1] - spent[:, 0]) / ROUNDS / n_small * 1e9
    return float(absent), float(present), float(stored)


def writes_back(
    bench: Bench,
    book: Notebook,
    name: str,
    size_bytes: float,
    below_bytes: float,
    line_bytes: int,
    below_ns: float,
) -> None:
    """Measures whether stores within the level are faster than stores to a region in the next level.

    A level that writes through passes every store on, so both take the next level's time. On a CPU the
    loop of a single work-item also limits both, so that equal times are unclear there.

    Raises Unclear where the two times determine neither policy.
    """
    inside, outside = np.inf, np.inf

    def ns_a_store(region: float) -> float:
        n = max(int(region) // line_bytes, 8)
        rounds = max((1 << 15) // n, 1)
        return bench.device.run("stores", 1, 1, n, line_bytes // WORD_BYTES, rounds) / rounds / n

    for _ in range(15):
        inside = min(inside, ns_a_store(size_bytes / 2) * 1e9)
        outside = min(outside, ns_a_store(below_bytes) * 1e9)
    how = f"ns per store: {inside:.3g} within the level, {outside:.3g} beyond it"
    if outside > 1.5 * inside:
        book.say(f"{name} write_policy", "write_back", how)
    elif not bench.is_cpu and outside < 1.15 * inside and inside > THROUGH * below_ns:
        book.say(f"{name} write_policy", "write_through", how)
    else:
        raise Unclear(how)


def shared_copies(
    bench: Bench, book: Notebook, size_bytes: float, line_bytes: int, own_ns: float
) -> None:
    """Measures whether a core hits lines in a shared level that another core loaded.

    After Baghsorkhi et al. 2012, section 2.1. As many groups as there are cores each walk a separate
    ring. Then a single group walks one of these rings, or one that no group has walked. Walks that take
    about `own_ns` per line have hit the walking core's private copies and are left out.

    Raises Unclear where the two times differ too little, or where too few walks met another core's lines.
    """
    ring_lines = max(int(size_bytes) // line_bytes // 2, 64)
    n_cores = max(bench.device.n_units, 2)
    span = ring_lines * line_bytes
    half = bench.bytes // 2
    if 2 * n_cores * span > half:
        raise Unclear(f"rings for {n_cores} cores do not fit the buffer")
    far = (half + bench.rng.permutation(half // 256)[: 1 << 16] * 256) // WORD_BYTES
    walked, fresh = [], []
    for _ in range(WALKS):
        places = bench.rng.permutation(half // span)[: n_cores + 1] * span
        starts = [
            bench.ring((at + bench.rng.permutation(ring_lines) * line_bytes) // WORD_BYTES)
            for at in places
        ]
        bench.walk(bench.ring(far), len(far))  # evicts the rings, which linking has touched
        bench.device.run("walks", n_cores, 1, np.array(starts[:n_cores], np.uint32), ring_lines)
        which = int(bench.rng.integers(n_cores))
        walked.append(bench.walk(starts[which], ring_lines) / ring_lines * 1e9)
        fresh.append(bench.walk(starts[-1], ring_lines) / ring_lines * 1e9)
    others = [ns for ns in walked if ns > 2 * own_ns]
    if len(others) < 5:
        raise Unclear(
            f"only {len(others)} of {WALKS} walks over another group's lines met another core's lines"
        )
    # The upper quartile: with two cores and private levels, half of the walks hit the core's own copies.
    new, old = float(np.quantile(fresh, 0.75)), float(np.quantile(others, 0.75))
    how = f"ns per line: {old:.3g} where another core had walked, {new:.3g} where none had"
    book.note("shared_copies_ns", _upper_quartile(np.array(others), how))
    if old < new / 1.5:
        book.say("shared copies", "kept: a shared level has the lines that a core loaded", how)
    elif old > new / 1.15:
        book.say("shared copies", "none: no shared level has the lines that a core loaded", how)
    else:
        raise Unclear(how)


def _upper_quartile(times_ns: Floats, how: str) -> Finding:
    low, high = interval_of(np.quantile(resampled(times_ns), 0.75, axis=1))
    value = float(np.quantile(times_ns, 0.75))
    return Finding(value=value, low=low, high=high, unit="ns", how=how)
