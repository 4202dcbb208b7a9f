"""Chains of dependent loads on a device, timed by events: no kernel here reads a clock."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from calib.probes.device import Device
from calib.probes.outcome import Floats

WORD_BYTES = 4
PAGE_BYTES = 4096
CPU_LINE_BYTES = 64
GPU_BLOCK_BYTES = 256
"""No line is longer. Words of one line that are visited at random times keep it alive between them,
and no edge is left of its capacity; visited one after the other they do not. A CPU would prefetch
them then, so its lines must be known: 64 bytes."""
Ring = npt.NDArray[np.integer]
LEAST_STEPS = 1 << 11
_LEAST_TICKS = 150
"""A timed run is at least so many ticks long, where the chain may be."""
_LONGEST_S = 4e-3
"""What takes longer per run takes fewer steps, but never fewer than the least."""
_MOST_STEPS = 1 << 16
_MOST_WARM_STEPS = 1 << 16


class Bench:
    """Runs rings of words through a device's buffer.

    Runs are short, because whatever disturbs one makes it slower: of many short ones, the least is
    near the truth even on a machine that others use as well.

    clock : seconds, by which a curve ends its rounds
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
        """Of a chain of no length, to the tick: the line through chains of 8 and of 1024 steps in L1.

        Where a launch begins with an empty first level, the first steps of any chain miss: there it is
        the time of a launch that takes no step.
        """
        self.ring(np.arange(8))
        if not self.device.keeps_caches:
            return min(self._chase(0, 0) for _ in range(25))
        short, long = (min(self._chase(0, steps) for _ in range(25)) for steps in (8, 1032))
        return max(short - (long - short) / 128, 0.0)

    def ring(self, words: Ring) -> int:
        """Links words of the buffer into one ring in the order given; returns its first word."""
        order = np.ascontiguousarray(words, np.uint32)
        group = min(64, self.device.max_group_items)
        n = len(order)
        self.device.run("link", -(-n // group) * group, group, order, np.roll(order, -1), n)
        return int(order[0])

    def chase_ns(self, words: Ring, *, repeats: int = 3, least_steps: int = LEAST_STEPS) -> Floats:
        """(repeats,) nanoseconds a step of the ring through these words, in their order.

        Each run goes on where the last one stopped, so a ring that is longer than a run is walked
        all the same; a first, untimed one brings it in.
        """
        found: Floats = self.chases_ns([words], repeats=repeats, least_steps=least_steps)[0]
        return found

    def chases_ns(
        self, rings: Sequence[Ring], *, repeats: int = 3, least_steps: int = LEAST_STEPS
    ) -> Floats:
        """(n_ring, repeats) likewise of several rings, walked in turn: what drifts, drifts for all.

        The rings must share no word.
        """
        spent, before, steps = self._runs(rings, repeats, least_steps)
        return _ns_a_step(spent, before[:, None], steps[:, None])

    def resolution_ns(self, step_ns: float, n_words: int) -> float:
        """What a tick makes of a step of that length, in a ring of so many words."""
        steps = self._steps(step_ns * 1e-9, n_words, LEAST_STEPS)
        return self.device.tick_s / steps * 1e9

    def _steps(self, step_s: float, n_words: int, least_steps: int) -> int:
        """Of a timed run."""
        wanted = max(self.device.tick_s * _LEAST_TICKS / step_s, 2 * n_words)
        return _eights(int(max(min(wanted, _MOST_STEPS, _LONGEST_S / step_s), least_steps)))

    def _runs(
        self, rings: Sequence[Ring], repeats: int, least_steps: int
    ) -> tuple[Floats, Floats, Floats]:
        """Seconds (n_ring, repeats), of them before the first timed step (n_ring,), steps (n_ring,)."""
        _ = self.overhead_s  # it walks a ring of its own
        starts = [self.ring(words) for words in rings]
        steps = []
        for k, words in enumerate(rings):
            warm = _eights(min(max(2 * len(words), 256), _MOST_WARM_STEPS))
            estimate = max(self._chase(starts[k], warm) / warm, 1e-10)
            steps.append(self._steps(estimate, len(words), least_steps))
            starts[k] = self.start
        filled = [(0, self.overhead_s) for _ in rings]
        if not self.device.keeps_caches:
            filled = [self._filling(starts[k], len(words)) for k, words in enumerate(rings)]
        spent = np.empty((len(rings), repeats))
        for r in range(repeats):
            for k, words in enumerate(rings):
                if len(rings) > 1:  # the others drove it out
                    starts[k] = self._on(starts[k], min(len(words), 1 << 14))
                spent[k, r] = self._chase(starts[k], filled[k][0] + steps[k])
                starts[k] = self.start
        return spent, np.array([s for _, s in filled]), np.array(steps, np.float64)

    def _filling(self, start: int, n: int) -> tuple[int, float]:
        """(steps, seconds) of a launch that fills a first level which begins empty: those of every
        launch. The least of six: what disturbs it would make steps faster than they are."""
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
        """Seconds of a single walk of so many steps, less what an empty chain takes."""
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
        """(n_x, n_round) ns a step of the ring of each x, made anew in every round.

        Rounds are outermost, and x in random order within each, so that a disturbance of seconds
        spoils one round and not one x. After least_rounds none begins later than `seconds`.

        What a launch takes to fill a first level is the least of all rounds: were it each round's own,
        the least difference would be that of the round whose filling was disturbed most.
        """
        begun = self.clock()
        found: list[Floats] = []
        while len(found) < rounds:
            if len(found) >= least_rounds and self.clock() - begun > seconds:
                break
            row = np.empty((3, len(x)))
            for i in self.rng.permutation(len(x)):
                spent, before, steps = self._runs([ring_of(float(x[i]))], 3, LEAST_STEPS)
                row[:, i] = spent.min(), before[0], steps[0]
            found.append(row)
        spent, before, steps = np.stack(found, axis=2)
        return _ns_a_step(spent, before.min(axis=1, keepdims=True), steps)

    def _apart(self, n: int) -> npt.NDArray[np.int64]:
        """0..n - 1 in random order, none of them right after its predecessor where n allows that."""
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
        """Words, one every stride of size_bytes that begin at any page of the buffer.

        Blocks come in random order, but none right after the one that lies before it, which would set off
        a prefetcher; the words of a block come one after the other. Where a region begins
        matters: a CPU's guess of the way goes by linear addresses, and two pages that look alike to
        it are slow together (Zen 4: 5 ns instead of 1.4).
        """
        n = max(int(size_bytes) // self.stride_bytes, 1)
        room = max(self.bytes - n * self.stride_bytes, 0) // PAGE_BYTES
        begin = int(self.rng.integers(0, room + 1)) * PAGE_BYTES
        each = max(self.block_bytes // self.stride_bytes, 1)
        blocks = self._apart(-(-n // each))
        order = (blocks[:, None] * each + np.arange(each)).reshape(-1)
        return (begin + order[order < n] * self.stride_bytes) // WORD_BYTES


def _neighbours(order: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Places in a ring whose element is the last one's successor."""
    return np.flatnonzero(order == np.roll(order, 1) + 1)


def _ns_a_step(spent_s: Floats, before_s: Floats, steps: Floats) -> Floats:
    found: Floats = np.maximum(spent_s - before_s, 0.01 * spent_s) / steps * 1e9
    return found


def _eights(steps: int) -> int:
    return max(8, (steps + 7) // 8 * 8)
