"""The replacement policy of a set: times of rings through one set, compared with each policy's misses.

The nodes of a ring are words. A line has several words, so a ring can visit the lines of one set in any
order. For some orders the misses of each policy are counted. The cost of a miss is unknown, so the
times, less that of a hit, are compared up to a factor. LRU and FIFO do not differ on cycles; a line that is visited between all others
distinguishes them.
"""

from __future__ import annotations

import math

import numpy as np

from calib.probes.bench import WORD_BYTES, Bench
from calib.probes.outcome import Floats, Notebook, Unclear
from memsim.hierarchy import Stream
from memsim.machine import Replacement
from memsim.report import percent

POLICIES: tuple[Replacement, ...] = ("lru", "fifo", "plru", "random")
PASSES = 60
PASTS = 8
ROUNDS = 7
CLEARLY = 2.0
"""The best policy's residual must be this many times smaller than the second one's."""
WORST = 0.2
"""Greatest residual of the best policy, relative to the times."""

Visits = list[int]


def patterns(ways: int, words_of_line: int) -> dict[str, Visits]:
    """Orders in which a ring visits lines 0, 1, ...; each visit uses a different word of the line."""
    orders = {
        f"{n} lines in a cycle": list(range(n))
        for n in sorted({ways + 1, ways + 2, ways + max(ways // 2, 2), 2 * ways})
    }
    hot = min(ways, words_of_line - 1)
    between = [v for k in range(1, hot + 2) for v in (0, k)][:-1]
    orders["one line between all others"] = between + list(range(hot + 2, ways + 1))
    back = list(range(ways + 1))
    orders["forward and backward"] = back + back[-2:0:-1]
    rng = np.random.default_rng(ways)
    for name, hot_visits in (
        ("at random", words_of_line // 3),
        ("at random, some lines more often", words_of_line - 1),
    ):
        visits = [
            v for v in range(ways + 2) for _ in range(hot_visits if v < 2 else words_of_line // 3)
        ]
        orders[name] = [int(v) for v in rng.permutation(visits)]
    return {
        name: visits
        for name, visits in orders.items()
        if max(visits.count(line) for line in set(visits)) < words_of_line
    }


class _Set:
    """One set of a cache, empty at first."""

    def __init__(self, ways: int, policy: Replacement, stream: Stream) -> None:
        self.ways, self.policy, self.stream = ways, policy, stream
        self.way_of: dict[int, int] = {}
        self.order: list[int] = []
        """The lines that are there, the next victim of LRU and FIFO first."""
        self.older_is_right: dict[tuple[int, int], bool] = {}
        """For each node of the tree, a range of ways: which half was used longer ago."""

    def misses(self, line: int) -> bool:
        """Visit a line; returns whether it was absent."""
        was_absent = line not in self.way_of
        if was_absent:
            self.way_of[line] = len(self.order) if len(self.order) < self.ways else self._emptied()
            self.order.append(line)
        elif self.policy == "lru":
            self.order.remove(line)
            self.order.append(line)
        if self.policy == "plru":
            low, high, way = 0, self.ways, self.way_of[line]
            while high - low > 1:
                middle = (low + high) // 2
                self.older_is_right[low, high] = way < middle
                low, high = (low, middle) if way < middle else (middle, high)
        return was_absent

    def _emptied(self) -> int:
        """The way whose line is evicted."""
        way = self.way_of[self.order[0]]
        if self.policy == "random":
            way = self.stream.below(self.ways)
        elif self.policy == "plru":
            low, high = 0, self.ways
            while high - low > 1:
                middle = (low + high) // 2
                right = self.older_is_right.get((low, high), False)
                low, high = (middle, high) if right else (low, middle)
            way = low
        victim = next(line for line, held in self.way_of.items() if held == way)
        self.order.remove(victim)
        return self.way_of.pop(victim)


def misses(visits: Visits, ways: int, policy: Replacement, seed: int = 0) -> float:
    """Misses per visit of a policy, once the set is full.

    seed : of random visits before; 0 for none
    """
    simulated = _Set(ways, policy, Stream(seed + 1))
    n_line = max(visits) + 1
    rng = np.random.default_rng(seed)
    before: Visits = []
    if seed:  # a mixture of these lines and others, and then only others
        mixed = rng.integers(0, n_line + 4 * ways, 6 * ways + seed)
        before = [*mixed.tolist(), *(n_line + rng.permutation(4 * ways)[: ways + seed]).tolist()]
    count = n = 0
    for turn in range(PASSES):
        counted = turn >= PASSES // 3
        n += len(visits) * counted
        for line in before + visits if turn == 0 else visits:
            count += simulated.misses(line) and counted
    return count / n


def possible(visits: Visits, ways: int, policy: Replacement) -> tuple[float, float]:
    """(least, most) misses per visit over several initial states, on which tree-PLRU depends."""
    rates = [misses(visits, ways, policy, seed) for seed in range(PASTS)]
    return min(rates), max(rates)


def replacement(
    bench: Bench,
    book: Notebook,
    name: str,
    *,
    size_bytes: float,
    ways: int,
    line_bytes: int,
    hit_ns: float,
) -> None:
    """Notes which of POLICIES fits the times of rings through one set.

    Raises Unclear where none fits, or more than one.
    """
    spacing = int(size_bytes)
    words = line_bytes // WORD_BYTES
    room = bench.bytes // spacing
    orders = {key: v for key, v in patterns(ways, words).items() if max(v) < room}
    if len(orders) < 3:
        raise Unclear(f"too few lines {spacing} bytes apart fit the buffer")
    times = np.empty((len(orders), ROUNDS))
    others = min(4 * spacing, bench.bytes // 2)
    for r in range(ROUNDS):
        for k in bench.rng.permutation(len(orders)):
            visits = list(orders.values())[k]
            begin = int(
                bench.rng.integers(0, max((bench.bytes - max(visits) * spacing) // line_bytes, 1))
            )
            place = bench.rng.permutation(max(visits) + 1)
            at = [
                (begin * line_bytes + int(place[v]) * spacing) // WORD_BYTES + visits[:i].count(v)
                for i, v in enumerate(visits)
            ]
            # Some policies depend on the set's earlier contents, so other lines are loaded first.
            bench.walk(bench.ring(bench.lines(others)), others // bench.stride_bytes)
            times[k, r] = bench.chase_ns(np.array(at)).min()
    measured = np.median(times, axis=1)
    extra = np.maximum(measured - hit_ns, 0.0)
    candidates = [p for p in POLICIES if p != "plru" or ways & (ways - 1) == 0]
    expected = {p: np.array([possible(v, ways, p) for v in orders.values()]) for p in candidates}
    residual = {p: _residual(extra, e) for p, e in expected.items()}
    book.draw(
        title=f"Replacement in {name}",
        x_label="order of visits",
        x=np.arange(len(orders), dtype=np.float64),
        y=measured,
        log_x=False,
        log_y=False,
        joined=False,
        reading="The lines of one set are visited in several orders. The number of misses in each depends on"
        " the policy; the times are compared with these numbers. "
        + "; ".join(f"{k}: {key}" for k, key in enumerate(orders))
        + ".",
    )
    best, second, *_ = sorted(residual, key=lambda p: residual[p])
    residuals = "residuals of the misses: " + ", ".join(
        f"{p} {percent(r, 0)}" for p, r in residual.items()
    )
    if residual[best] > WORST or residual[second] < CLEARLY * residual[best]:
        raise Unclear(residuals)
    book.say(f"{name} replacement", best, f"rings through one set: {residuals}")


def _residual(extra: Floats, expected: Floats) -> float:
    """Root mean square of what no common cost of a miss explains, relative to the times.

    extra : (n,);  expected : (n, 2) least and most misses
    """
    target = expected.mean(axis=1)
    cost = 0.0
    for _ in range(20):
        cost = float(extra @ target / max(float(target @ target), 1e-12))
        target = np.clip(extra / max(cost, 1e-12), expected[:, 0], expected[:, 1])
    left = float(np.mean((extra - cost * target) ** 2))
    return math.sqrt(left / max(float(np.mean(extra**2)), 1e-12))
