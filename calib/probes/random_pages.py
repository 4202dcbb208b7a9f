"""A cache's capacity where pages lie anywhere: from how many random pages half the lines miss.

A cache indexed by physical addresses sorts pages into K groups of sets (colours), each of which holds
W of them; it holds C = K W pages. Of N random pages, one finds its group overfull with
P(Binomial(N - 1, 1/K) >= W), which is a half at N = 0.95 C to 0.97 C for any W from 4 to 32. Where
replacement is LRU all lines of such a page miss; where it is random they miss later, and half of all
miss at up to 1.4 C. What else lies in the cache (code, page tables, other programs) makes it come
earlier: we allow for a fifth. So of the N at which the latency of a ring over all lines of N random
pages has risen half of the way,

    N / 1.4  <=  C  <=  N / 0.8

Address translation costs more with N as well: a second ring over the same pages, but of so few lines of
each that no group can overflow, and yet more than the cache above holds, costs that alone and is
subtracted. Caches have round sizes: the roundest one in the interval is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calib.probes.bench import PAGE_BYTES, WORD_BYTES, Bench
from calib.probes.outcome import Floats, Unclear, interval_of

LATEST, EARLIEST = 1.4, 0.8
"""Of the capacity, where half of the lines may miss."""
MOST_SLOPE = 0.15
"""Of the height, what the curve may rise where it should be flat."""
LIKE_EXPECTED, NEAR = math.log(2), math.log(1.5)
_DRAWS = 100


@dataclass(frozen=True, kw_only=True)
class HalfRise:
    """at_bytes : where half of the rise is reached, with its 95 % interval; low, high of the capacity

    sizes, extra_ns : the curve, (n_size,) each; height_ns : of the plateau behind the rise
    agreeing : part of the draws of pages, drawn again, that tell the same round size
    """

    at_bytes: float
    low_bytes: float
    high_bytes: float
    height_ns: float
    sizes: Floats
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
    draws: int = 24,
    seconds: float = 30.0,
) -> Floats:
    """(2, n_size, n_draw) ns a step through full pages and through sparse ones; a draw chooses pages.

    above_bytes : capacity of the cache above, which the sparse ring overruns four times
    After four draws none begins later than `seconds`.
    """
    lines = PAGE_BYTES // line_bytes
    n_all = bench.bytes // PAGE_BYTES
    begun = bench.clock()
    found: list[Floats] = []
    while len(found) < draws:  # outermost, so that a disturbance spoils one draw of each size
        if len(found) >= 4 and bench.clock() - begun > seconds:
            break
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
            row[:, i] = bench.chases_ns(rings, repeats=3).min(axis=1)
        found.append(row)
    return np.stack(found, axis=2)


def half_rise(sizes: Floats, latency_ns: Floats, *, expected_ns: float, seed: int = 0) -> HalfRise:
    """Where what full pages cost beyond sparse ones has risen half of the way to its plateau.

    latency_ns : (2, n_size, n_draw) of full and of sparse pages
    expected_ns : about how high it lies: another level's rise may follow before the curve is flat

    Raises Unclear where they do not rise to one within the sizes.
    """
    curve = _extra(latency_ns)
    at, height = _crossing(sizes, curve, expected_ns)
    if not math.isfinite(at):
        raise Unclear("the latency of random pages does not rise to a plateau")
    rng = np.random.default_rng(seed)
    again = []
    for _ in range(_DRAWS):
        draw = rng.integers(0, latency_ns.shape[2], latency_ns.shape)
        drawn = _extra(np.take_along_axis(latency_ns, draw, axis=2))
        again.append(_crossing(sizes, drawn, expected_ns)[0])
    finite = np.array(again)[np.isfinite(again)]
    if len(finite) < _DRAWS / 2:
        raise Unclear("where the latency of random pages rises depends on the draw")
    low, high = interval_of(finite)
    told = [_roundest_of(one) for one in (at, *finite)]
    return HalfRise(
        agreeing=float(np.mean(np.array(told[1:]) == told[0])),
        at_bytes=at,
        low_bytes=low / LATEST,
        high_bytes=high / EARLIEST,
        height_ns=height,
        sizes=sizes,
        extra_ns=curve,
    )


def _roundest_of(at: float) -> int:
    return roundest(at / LATEST, at / EARLIEST, at)


def roundest(low: float, high: float, near: float, unit: int = 1024) -> int:
    """The whole multiple of unit in [low, high] with the fewest binary digits set, nearest to `near`."""
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
    """(n_size,) what full pages cost beyond sparse ones, of each the lowest tenth of its draws.

    What disturbs a ring makes it slower. The least differences would be those of disturbed sparse
    rings.
    """
    full, sparse = np.quantile(latency_ns, 0.1, axis=2)
    return np.asarray(full - sparse)


def _crossing(sizes: Floats, curve: Floats, expected_ns: float) -> tuple[float, float]:
    """(size where half the height is reached, height): height is what 1.7 to 2.5 times that size cost, or
    the one expected, if what they cost comes near it.

    On a straight slope any size may be its own answer: of all that are, the one behind which the curve
    is flattest, if its height is within LIKE_EXPECTED of the one expected. NaN where none is flat.
    """
    at = _reaches(sizes, curve, expected_ns / 2)
    behind = curve[(sizes >= 1.7 * at) & (sizes <= 2.5 * at)]
    if len(behind) >= 3 and abs(math.log(max(np.median(behind), 1e-9) / expected_ns)) < NEAR:
        return at, expected_ns
    best = math.nan, math.nan
    flattest = MOST_SLOPE
    tried = np.geomspace(sizes[0], sizes[-1] / 1.7, 60)
    before = 0.0
    for at in tried:
        found, height, slope = _half_of(sizes, curve, float(at))
        off = math.log(found / at) if found > 0 else math.nan
        like = abs(math.log(max(height, 1e-9) / expected_ns)) < LIKE_EXPECTED
        if before > 0 >= off and slope < flattest and like:
            best, flattest = (found, height), slope
        before = off
    return best


def _half_of(sizes: Floats, curve: Floats, at: float) -> tuple[float, float, float]:
    """(size where the curve comes to half its height behind `at`, height, how much it rises there)."""
    window = curve[(sizes >= 1.7 * at) & (sizes <= 2.5 * at)]
    if len(window) < 3:
        return math.nan, math.nan, math.inf
    height = float(np.median(window))
    half = len(window) // 2
    slope = abs(float(np.median(window[-half:]) - np.median(window[:half])))
    found = _reaches(sizes, curve, height / 2) if height > 0 else math.nan
    if not math.isfinite(found):
        return math.nan, math.nan, math.inf
    return found, height, slope / height


def _reaches(sizes: Floats, curve: Floats, wanted: float) -> float:
    """The size where the curve comes to what is wanted: behind it most points lie above, before it most
    below; NaN where it does not."""
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
