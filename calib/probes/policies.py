"""What a cache does beside holding lines: prefetching, stores, and copies in the level below."""

from __future__ import annotations

import numpy as np

from calib.probes.bench import WORD_BYTES, Bench, Ring
from calib.probes.outcome import Curve, Finding, Floats, Notebook, Unclear, interval_of

STRIDES_LINES = (1, 2, 4, 8, 16, 32)
WINDOW_BYTES = 64 << 10
HELPED = 1.5
THROUGH = 0.2
"""Of the next level's latency, what a store takes at least that is passed on to it."""
ROUNDS = 8
WALKS = 30


def prefetching(bench: Bench, book: Notebook, region_bytes: float, line_bytes: int) -> None:
    """Whether lines in order come faster than in random order, and for which strides.

    Both orders stay within one window of 64 KB until all its lines are met, so that address
    translation costs the same.
    """
    window = WINDOW_BYTES // line_bytes
    n_window = max(int(region_bytes) // WINDOW_BYTES, 1)
    first = np.arange(n_window)[:, None] * window

    def ring(stride: float) -> Ring:
        """Streams of this stride, one after the other: every line is met; 0 is random order."""
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
    book.curves.append(
        Curve(
            title="Lines in order: how many times faster than in random order",
            x_label="stride, lines",
            y_label="random / in order",
            x=x[1:],
            y=gains,
            log_y=False,
            reading="1 means that order does not matter. Far above it, something fetches ahead.",
        )
    )
    helped = [stride for stride, gain in zip(STRIDES_LINES, gains, strict=True) if gain > HELPED]
    how = "a pointer chase in order against one in random order: " + ", ".join(
        f"stride {stride}: {gain:.1f} times as fast"
        for stride, gain in zip(STRIDES_LINES, gains, strict=True)
    )
    said = f"yes, up to a stride of {max(helped)} lines" if helped else "none seen"
    book.say("prefetching", said, how)


def store_allocates(
    bench: Bench,
    book: Notebook,
    name: str,
    size_bytes: float,
    line_bytes: int,
    own_ns: float,
    below_ns: float,
) -> None:
    """Whether a store brings its line in: walks over lines that were left alone, loaded, or stored to.

    Lines that are stored to and not brought in may lie in the next level, `below_ns` away.

    Raises Unclear where loaded lines are not found about as fast as the level is, or hardly faster
    than those left alone.
    """
    absent, present, stored = _after(bench, size_bytes, line_bytes)
    said = (
        f"ns a line: {absent:.3g} left alone, {present:.3g} after loads, {stored:.3g} after stores"
    )
    missing = min(absent, below_ns)
    if not (missing > 1.5 * present and present < 0.5 * (own_ns + below_ns)):
        raise Unclear(said)
    part = (missing - stored) / (missing - present)
    if part > 0.7:
        book.say(f"{name} write_allocate", "allocates", said)
    elif part < 0.3:
        book.say(f"{name} write_allocate", "none", said)
    else:
        raise Unclear(said)


def _after(bench: Bench, size_bytes: float, line_bytes: int) -> tuple[float, float, float]:
    """ns a line of a first walk over half a cache: lines left alone, loaded before, stored to before.

    A walk's time is what a launch with it takes more than one without, the least of each.
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
    """Whether stores to a region that the level holds are faster than to one that only the next holds.

    A level that writes through passes every store on, and then both take the same: as long as the next
    level needs for one. On a CPU a single work-item's loop bounds both as well, so there the same
    time tells nothing.

    Raises Unclear where the two tell neither.
    """
    inside, outside = np.inf, np.inf

    def ns_a_store(region: float) -> float:
        n = max(int(region) // line_bytes, 8)
        rounds = max((1 << 15) // n, 1)
        return bench.device.run("stores", 1, 1, n, line_bytes // WORD_BYTES, rounds) / rounds / n

    for _ in range(15):
        inside = min(inside, ns_a_store(size_bytes / 2) * 1e9)
        outside = min(outside, ns_a_store(below_bytes) * 1e9)
    said = f"ns a store: {inside:.3g} within the level, {outside:.3g} beyond"
    if outside > 1.5 * inside:
        book.say(f"{name} write_policy", "write_back", said)
    elif not bench.is_cpu and outside < 1.15 * inside and inside > THROUGH * below_ns:
        book.say(f"{name} write_policy", "write_through", said)
    else:
        raise Unclear(said)


def shared_copies(
    bench: Bench, book: Notebook, size_bytes: float, line_bytes: int, own_ns: float
) -> None:
    """Whether what one core loaded is found by another in a shared level (seed 001, section 2.1).

    As many groups as there are cores each walk a ring of their own; then a single group walks one of
    them, or one that nobody walked. Walks about as fast as `own_ns` a line met the walking core's own
    copies and are left out.

    Raises Unclear where the two differ too little, or where no walk met another core's lines.
    """
    n_lines = max(int(size_bytes) // line_bytes // 2, 64)
    n_cores = max(bench.device.n_units, 2)
    span = n_lines * line_bytes
    half = bench.bytes // 2
    if 2 * n_cores * span > half:
        raise Unclear(f"rings for {n_cores} cores do not fit the buffer")
    far = (half + bench.rng.permutation(half // 256)[: 1 << 16] * 256) // WORD_BYTES
    walked, fresh = [], []
    for _ in range(WALKS):
        places = bench.rng.permutation(half // span)[: n_cores + 1] * span
        starts = [
            bench.ring((at + bench.rng.permutation(n_lines) * line_bytes) // WORD_BYTES)
            for at in places
        ]
        bench.walk(bench.ring(far), len(far))  # linking touched the rings: drive them out
        bench.device.run("walks", n_cores, 1, np.array(starts[:n_cores], np.uint32), n_lines)
        which = int(bench.rng.integers(n_cores))
        walked.append(bench.walk(starts[which], n_lines) / n_lines * 1e9)
        fresh.append(bench.walk(starts[-1], n_lines) / n_lines * 1e9)
    others = [ns for ns in walked if ns > 2 * own_ns]
    if len(others) < 5:
        raise Unclear(
            f"of {WALKS} walks over another group's lines only {len(others)} met another core's"
        )
    # The upper quartile: of two cores with levels of their own, half of the walks meet their own.
    new, old = float(np.quantile(fresh, 0.75)), float(np.quantile(others, 0.75))
    said = f"ns a line: {old:.3g} where another core had walked, {new:.3g} where nobody had"
    book.note("shared_copies_ns", _upper_quartile(np.array(others), said))
    if old < new / 1.5:
        book.say("shared copies", "kept: a shared level has what a core loaded", said)
    elif old > new / 1.15:
        book.say("shared copies", "none: no shared level has what a core loaded", said)
    else:
        raise Unclear(said)


def _upper_quartile(times_ns: Floats, how: str) -> Finding:
    draws = np.random.default_rng(0).integers(0, len(times_ns), (200, len(times_ns)))
    low, high = interval_of(np.quantile(times_ns[draws], 0.75, axis=1))
    value = float(np.quantile(times_ns, 0.75))
    return Finding(value=value, low=low, high=high, unit="ns", how=how)
