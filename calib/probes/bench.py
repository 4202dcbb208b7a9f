"""Chains of dependent loads on a device, timed by events; no kernel reads a clock."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from calib.probes.device import Device
from calib.probes.outcome import Floats

WORD_BYTES = 4
PAGE_BYTES = 4096
CPU_LINE_BYTES = 64
GPU_BLOCK_BYTES = 256
"""The longest line of GPUs. If the words of a line were visited at random times, they would keep it in the
cache, and the latency would have no edge at the capacity; so they are visited one after another. On a CPU
this would trigger prefetching, so its line size must be known: 64 bytes."""
Ring = npt.NDArray[np.integer]
LEAST_STEPS, REPEATS = 1 << 11, 3
_LEAST_TICKS = 150
"""Least length of a timed run in ticks of the clock, where the chain is long enough."""
_LONGEST_S = 4e-3
"""Runs that would take longer have fewer steps, but at least LEAST_STEPS."""
_MOST_STEPS = 1 << 16
_MOST_WARM_STEPS = 1 << 16


class Bench:
    """Runs rings of words in a device's buffer.

    Disturbances only make a run slower. Runs are short, so that the least of many is close to the true
    time even on a machine that is shared with others.

    clock : a clock in seconds, which limits the duration of a curve
    """

    def __init__(
        self, device: Device, seed: int = 0, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.device, self.clock = device, clock
        self.rng = np.random.default_rng(seed)
        self.is_cpu = device.is_cpu
        self.bytes = device.bytes
        self.start = 0
        self.stride_bytes = CPU_LINE_BYTES
        self.block_bytes = CPU_LINE_BYTES if device.is_cpu else GPU_BLOCK_BYTES

    @functools.cached_property
    def overhead_s(self) -> float:
        """Seconds of a chain without steps: extrapolated from chains of 8 and 1032 steps in L1.

        Where a launch begins with an empty first level, the first steps of any chain miss; there it is the
        time of a launch without steps.
        """
        self.ring(np.arange(8))
        if not self.device.keeps_caches:
            return min(self._chase(0, 0) for _ in range(25))
        short, long = (min(self._chase(0, steps) for _ in range(25)) for steps in (8, 1032))
        return max(short - (long - short) / 128, 0.0)

    def ring(self, words: Ring) -> int:
        """Links words of the buffer into a ring in this order; returns its first word."""
        order = np.ascontiguousarray(words, np.uint32)
        group = min(64, self.device.max_group_items)
        n = len(order)
        self.device.run("link", -(-n // group) * group, group, order, np.roll(order, -1), n)
        return int(order[0])

    def chase_ns(self, words: Ring) -> Floats:
        """(REPEATS,) nanoseconds per step of the ring through these words, in their order.

        Each run continues where the previous one stopped, so that all of a long ring is walked. A first,
        untimed run fetches it into the caches.
        """
        times_ns: Floats = self.chases_ns([words])[0]
        return times_ns

    def chases_ns(self, rings: Sequence[Ring]) -> Floats:
        """(n_ring, REPEATS) nanoseconds per step of several rings, which must not share words.

        They are walked alternately, so that slow changes of the machine affect all of them.
        """
        spent, before, steps = self._runs(rings)
        return _ns_a_step(spent, before[:, None], steps[:, None])

    def resolution_ns(self, step_ns: float, n_words: int) -> float:
        """Resolution in ns per step: a tick of the clock, divided by the steps of a timed run."""
        steps = self._steps(step_ns * 1e-9, n_words)
        return self.device.tick_s / steps * 1e9

    def _steps(self, step_s: float, n_words: int) -> int:
        """Steps of a timed run."""
        wanted = max(self.device.tick_s * _LEAST_TICKS / step_s, 2 * n_words)
        return _eights(int(max(min(wanted, _MOST_STEPS, _LONGEST_S / step_s), LEAST_STEPS)))

    def _runs(self, rings: Sequence[Ring]) -> tuple[Floats, Floats, Floats]:
        """Measures rings alternately; see `chases_ns`.

        Returns the seconds of each run (n_ring, REPEATS), the seconds before its first timed step
        (n_ring,), and its number of timed steps (n_ring,).
        """
        _ = self.overhead_s  # measured first, because it walks a separate ring
        starts = [self.ring(words) for words in rings]
        steps = []
        for k, words in enumerate(rings):
            warm = _eights(min(max(2 * len(words), 256), _MOST_WARM_STEPS))
            estimate = max(self._chase(starts[k], warm) / warm, 1e-10)
            steps.append(self._steps(estimate, len(words)))
            starts[k] = self.start
        filled = [(0, self.overhead_s) for _ in rings]
        if not self.device.keeps_caches:
            filled = [self._filling(starts[k], len(words)) for k, words in enumerate(rings)]
        spent = np.empty((len(rings), REPEATS))
        for r in range(REPEATS):
            for k, words in enumerate(rings):
                if len(rings) > 1:  # the other rings may have evicted it
                    starts[k] = self._on(starts[k], min(len(words), 1 << 14))
                spent[k, r] = self._chase(starts[k], filled[k][0] + steps[k])
                starts[k] = self.start
        return spent, np.array([s for _, s in filled]), np.array(steps, np.float64)

    def _filling(self, start: int, n: int) -> tuple[int, float]:
        """(steps, seconds) that a launch needs to fill a first level that is empty at its beginning.

        The least of six is taken: since it is subtracted, a disturbed one would make steps too fast.
        """
        steps = _eights(min(n, _MOST_STEPS))
        return steps, min(self._chase(start, steps) for _ in range(6))

    def _on(self, start: int, steps: int) -> int:
        self._chase(start, _eights(steps))
        return self.start

    def _chase(self, start: int, steps: int) -> float:
        spent = self.device.run("chase", 1, 1, start, steps)
        self.start = int(self.device.result(1)[0])
        return spent

    def walk(self, start: int, steps: int) -> float:
        """Seconds of a single walk of this many steps, without the time of an empty chain."""
        overhead = self.overhead_s
        return max(self._chase(start, _eights(steps)) - overhead, 1e-9)

    def curve(
        self,
        x: Floats,
        ring_of: Callable[[float], Ring],
        *,
        rounds: int,
        seconds: float,
        least_rounds: int = 3,
    ) -> Floats:
        """(n_x, n_round) nanoseconds per step of the ring of each x, which is made again in every round.

        Each round visits all x in random order, so that a disturbance of seconds spoils one round and not
        one x. After least_rounds rounds, none begins later than `seconds`.

        The time to fill a first level is the least of all rounds. If each round's own time were subtracted,
        the least difference would be that of the round whose filling was disturbed most.
        """
        rows: list[Floats] = []
        for _ in self.rounds(rounds, seconds, least_rounds):
            row = np.empty((3, len(x)))
            for i in self.rng.permutation(len(x)):
                spent, before, steps = self._runs([ring_of(float(x[i]))])
                row[:, i] = spent.min(), before[0], steps[0]
            rows.append(row)
        spent, before, steps = np.stack(rows, axis=2)
        return _ns_a_step(spent, before.min(axis=1, keepdims=True), steps)

    def rounds(self, most: int, seconds: float, least: int) -> Iterator[int]:
        """0, 1, ... up to `most`; after the least number of rounds, none begins later than `seconds`."""
        begun = self.clock()
        for number in range(most):
            if number >= least and self.clock() - begun > seconds:
                return
            yield number

    def _apart(self, n: int) -> npt.NDArray[np.int64]:
        """0..n - 1 in random order; no number follows its predecessor where n allows it."""
        order = self.rng.permutation(n)
        for _ in range(100 if n > 3 else 0):
            beside = _neighbours(order)
            if not len(beside):
                break
            others = self.rng.integers(0, n, len(beside))
            for k, other in zip(beside, others, strict=True):
                order[k], order[other] = order[other], order[k]
        return order

    def lines(self, size_bytes: float) -> Ring:
        """One word per stride of a region of size_bytes that begins at a random page of the buffer.

        Request blocks are in random order, but none follows the one at the preceding address, because this
        would trigger a prefetcher. The words of a block come one after another. The region's start
        matters: a CPU predicts the way from linear addresses, and two pages that it cannot distinguish are
        slow together (Zen 4: 5 ns instead of 1.4 ns).
        """
        n = max(int(size_bytes) // self.stride_bytes, 1)
        room = max(self.bytes - n * self.stride_bytes, 0) // PAGE_BYTES
        begin = int(self.rng.integers(0, room + 1)) * PAGE_BYTES
        each = max(self.block_bytes // self.stride_bytes, 1)
        blocks = self._apart(-(-n // each))
        order = (blocks[:, None] * each + np.arange(each)).reshape(-1)
        return (begin + order[order < n] * self.stride_bytes) // WORD_BYTES


def _neighbours(order: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Positions in a ring whose element is the successor of the previous one."""
    return np.flatnonzero(order == np.roll(order, 1) + 1)


def _ns_a_step(spent_s: Floats, before_s: Floats, steps: Floats) -> Floats:
    step_ns: Floats = np.maximum(spent_s - before_s, 0.01 * spent_s) / steps * 1e9
    return step_ns


def _eights(steps: int) -> int:
    return max(8, (steps + 7) // 8 * 8)
