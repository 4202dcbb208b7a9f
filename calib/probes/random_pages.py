"""The capacity of a cache that is indexed by physical addresses, from the latency of random pages.

Such a cache maps pages to K groups of sets (colours), each of which has room for W pages; its capacity is
C = K W pages. A page among N random ones is in an overfull group with P(Binomial(N - 1, 1/K) >= W), which
is one half at N = 0.95 C to 0.97 C for any W from 4 to 32. With LRU replacement all lines of such a page
miss. With random replacement they miss later, and half of all lines miss at up to 1.4 C. Other contents of
the cache (code, page tables, other programs) make misses begin earlier; a fifth is allowed for them. If
the latency of a ring over all lines of N random pages has risen half of the way, then

    N / 1.4  <=  C  <=  N / 0.8

The cost of address translation also grows with N. A second ring visits the same pages, but so few lines of
each that no group can overflow, though more than the cache above can hold. It measures this cost,
which is subtracted. Caches have round sizes, so the roundest one in the interval is chosen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calib.probes.bench import PAGE_BYTES, WORD_BYTES, Bench
from calib.probes.outcome import Floats, Unclear, interval_of

LATEST, EARLIEST = 1.4, 0.8
"""Range of the working set, relative to the capacity, at which half of the lines may miss."""
MOST_SLOPE = 0.15
"""Greatest rise of the curve where it should be flat, relative to its height."""
LIKE_EXPECTED, NEAR = math.log(2), math.log(1.5)
MOST_DRAWS, LONGEST_S = 24, 30.0
_DRAWS = 100


@dataclass(frozen=True, kw_only=True)
class HalfRise:
    """Half of the rise of the latency.

    at_bytes : the working set at which half of the rise is reached
    low_bytes, high_bytes : 95 % interval of the capacity
    extra_ns : the curve, (n_size,)
    agreeing : fraction of the resampled draws of pages that give the same round size
    """

    at_bytes: float
    low_bytes: float
    high_bytes: float
    extra_ns: Floats
    agreeing: float

    @property
    def roundest_bytes(self) -> int:
        return _roundest_of(self.at_bytes)


def page_latencies(
    bench: Bench,
    sizes: Floats,
    line_bytes: int,
    above_bytes: float,
) -> Floats:
    """(2, n_size, n_draw) nanoseconds per step through full and through sparse pages.

    A draw is a choice of pages. After four draws, none begins later than LONGEST_S.

    above_bytes : capacity of the cache above, which the sparse ring exceeds four times
    """
    lines = PAGE_BYTES // line_bytes
    n_all = bench.bytes // PAGE_BYTES
    rows: list[Floats] = []
    # The outermost loop: a disturbance spoils one draw of each size.
    for _ in bench.rounds(MOST_DRAWS, LONGEST_S, 4):
        row = np.empty((2, len(sizes)))
        for i in bench.rng.permutation(len(sizes)):
            size = sizes[i]
            pages = bench.rng.choice(n_all, int(size) // PAGE_BYTES, replace=False)
            full = pages[:, None] * PAGE_BYTES + np.arange(lines) * line_bytes
            few = bench.rng.permuted(np.tile(np.arange(lines), (len(pages), 1)), axis=1)
            n_few = min(max(int(4 * above_bytes / line_bytes / len(pages)), 1), lines)
            sparse = pages[:, None] * PAGE_BYTES + few[:, :n_few] * line_bytes
            rings = [
                bench.rng.permutation(ring.reshape(-1)) // WORD_BYTES + word
                for word, ring in enumerate((full, sparse))
            ]
            row[:, i] = bench.chases_ns(rings).min(axis=1)
        rows.append(row)
    return np.stack(rows, axis=2)


def half_rise(sizes: Floats, latency_ns: Floats, *, expected_ns: float) -> HalfRise:
    """Where the extra latency of full pages has risen half of the way to its plateau.

    latency_ns : (2, n_size, n_draw) of full and of sparse pages
    expected_ns : approximate height of the plateau; the rise of another level may follow before the curve
        is flat

    Raises Unclear where the curve does not rise to a plateau within the sizes.
    """
    curve = _extra(latency_ns)
    at = _crossing(sizes, curve, expected_ns)
    if not math.isfinite(at):
        raise Unclear("the latency of random pages does not rise to a plateau")
    rng = np.random.default_rng(0)
    again = []
    for _ in range(_DRAWS):
        draw = rng.integers(0, latency_ns.shape[2], latency_ns.shape)
        drawn = _extra(np.take_along_axis(latency_ns, draw, axis=2))
        again.append(_crossing(sizes, drawn, expected_ns))
    finite = np.array(again)[np.isfinite(again)]
    if len(finite) < _DRAWS / 2:
        raise Unclear("where the latency of random pages rises depends on the draw")
    low, high = interval_of(finite)
    sizes_found = [_roundest_of(one) for one in (at, *finite)]
    return HalfRise(
        agreeing=float(np.mean(np.array(sizes_found[1:]) == sizes_found[0])),
        at_bytes=at,
        low_bytes=low / LATEST,
        high_bytes=high / EARLIEST,
        extra_ns=curve,
    )


def _roundest_of(at: float) -> int:
    return roundest(at / LATEST, at / EARLIEST, at)


def roundest(low: float, high: float, near: float) -> int:
    """The multiple of 1 KiB in [low, high] with the fewest binary digits set, closest to `near`."""
    unit = 1024
    candidates = np.arange(math.ceil(low / unit), math.floor(high / unit) + 1)
    if not len(candidates):
        return round(near / unit) * unit
    if len(candidates) > 1 << 16:
        candidates = np.unique(np.geomspace(candidates[0], candidates[-1], 1 << 16).astype(int))
        powers = 2 ** np.arange(0, 40)
        inside = (powers >= candidates[0]) & (powers <= candidates[-1])
        candidates = np.union1d(candidates, powers[inside])
    digits = np.array([int(c).bit_count() for c in candidates])
    best = candidates[digits == digits.min()]
    return int(best[np.argmin(np.abs(np.log(best * unit / near)))]) * unit


def _extra(latency_ns: Floats) -> Floats:
    """(n_size,) latency of full pages less that of sparse ones, each the lowest tenth of its draws.

    Disturbances only make a ring slower. The least differences would be those of disturbed sparse rings.
    """
    full, sparse = np.quantile(latency_ns, 0.1, axis=2)
    return np.asarray(full - sparse)


def _crossing(sizes: Floats, curve: Floats, expected_ns: float) -> float:
    """The size at which half of the height is reached; NaN where the curve is nowhere flat.

    The height is the expected one where the curve is near it at 1.7 to 2.5 times that size; otherwise it is
    the curve's there. On a straight slope every size satisfies this. Among these the size is chosen after
    which the curve is flattest, if its height is within LIKE_EXPECTED of the expected one.
    """
    at = _reaches(sizes, curve, expected_ns / 2)
    behind = curve[(sizes >= 1.7 * at) & (sizes <= 2.5 * at)]
    if len(behind) >= 3 and abs(math.log(max(np.median(behind), 1e-9) / expected_ns)) < NEAR:
        return at
    best = math.nan
    flattest = MOST_SLOPE
    tried = np.geomspace(sizes[0], sizes[-1] / 1.7, 60)
    before = 0.0
    for at in tried:
        half_at, height, slope = _half_of(sizes, curve, float(at))
        off = math.log(half_at / at) if half_at > 0 else math.nan
        like = abs(math.log(max(height, 1e-9) / expected_ns)) < LIKE_EXPECTED
        if before > 0 >= off and slope < flattest and like:
            best, flattest = half_at, slope
        before = off
    return best


def _half_of(sizes: Floats, curve: Floats, at: float) -> tuple[float, float, float]:
    """(size where the curve reaches half of its height after `at`, that height, the relative rise there)."""
    window = curve[(sizes >= 1.7 * at) & (sizes <= 2.5 * at)]
    if len(window) < 3:
        return math.nan, math.nan, math.inf
    height = float(np.median(window))
    half = len(window) // 2
    slope = abs(float(np.median(window[-half:]) - np.median(window[:half])))
    half_at = _reaches(sizes, curve, height / 2) if height > 0 else math.nan
    if not math.isfinite(half_at):
        return math.nan, math.nan, math.inf
    return half_at, height, slope / height


def _reaches(sizes: Floats, curve: Floats, wanted: float) -> float:
    """The size where the curve reaches `wanted`; NaN where it does not.

    Most points after it are above, and most points before it below.
    """
    above = curve >= wanted
    score = np.concatenate([[0], np.cumsum(~above)]) + np.concatenate(
        [np.cumsum(above[::-1])[::-1], [0]]
    )
    k = int(np.argmax(score))
    if not 0 < k < len(sizes):
        return math.nan
    low, high = float(curve[k - 1]), float(curve[k])
    part = (wanted - low) / (high - low) if high > low else 0.5
    return float(sizes[k - 1] * (sizes[k] / sizes[k - 1]) ** min(max(part, 0.0), 1.0))
