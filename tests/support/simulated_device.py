"""A simulated device with known parameters: the probes' kernels run through memsim's own caches.

Every load and store of a kernel passes, one after the other, through the levels of a machine as
`memsim.hierarchy.cache` replays them. The time of a launch is the sum over its accesses, lengthened by
random noise and rounded to the tick of the clock. The probes see nothing but these times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calib.probes.device import OUT_BYTES, Argument, Local, Words
from memsim.compile import hot, inner
from memsim.hierarchy import cache
from memsim.hierarchy.cache import LOAD, STORE, Queue, Stage
from memsim.hierarchy.dram import sample_latencies
from memsim.hierarchy.levels import LevelPlan, plan_level
from memsim.hierarchy.loads import read
from memsim.hierarchy.requests import DenseMap
from memsim.hierarchy.rng import below
from memsim.hierarchy.stores import Store, write
from memsim.machine.model import Machine
from memsim.montecarlo.trial import clear

CHUNK_BYTES = 256
PAGE_BYTES = 4096
_QUEUE = 4096
ACCESS_S = 2e-7


@dataclass(frozen=True, kw_only=True)
class Hidden:
    """The properties of a device that a machine file does not describe.

    scattered : pages are scattered over physical memory, whose addresses index the levels below the first
    translation_pages, translation_ns : entries of the TLB, and the cost of a miss in it
    prefetch_lines : lines prefetched after a miss in the line after the previous one
    noise : mean relative lengthening of a launch;  spikes : probability that a launch takes up to
        ten times as long
    """

    is_cpu: bool = True
    scattered: bool = False
    translation_pages: int = 1 << 20
    translation_ns: float = 0.0
    prefetch_lines: int = 0
    noise: float = 0.01
    spikes: float = 0.05
    launch_s: float = 20e-6
    tick_s: float = 1e-8


@inner
def _enter(stage, instance, line, mask, full, kind):  # type: ignore[no-untyped-def]
    """One request to one level; the level's queue receives the requests to the next."""
    if kind == LOAD:
        read(stage, instance, line, mask, 0, 0, LOAD, 1, 0, 0)
    else:
        write(stage, instance, Store(line, mask, full, 0, 1, 0, 0), 0)


@inner
def _loads(queue):  # type: ignore[no-untyped-def]
    results = False
    for k in range(queue.used[0]):
        results |= cache.unpack(queue.record[k])[4] == LOAD
    return results


@inner
def _pass_down(upper, stage, instance):  # type: ignore[no-untyped-def]
    """Serve the requests that the level above has queued."""
    stage.queue.used[0] = 0
    stage.queue.used[1] = 0
    taken = 0
    for k in range(upper.used[0]):
        line, mask, full, _, kind, _ = cache.unpack(upper.record[k])
        n_bytes = 0
        if kind == STORE:
            for g in range(8):
                if (mask & ~full) >> g & 1:
                    stage.store_bytes[n_bytes] = upper.partial[taken]
                    n_bytes += 1
                    taken += 1
        _enter(stage, instance, line, mask, full, kind)


@inner
def _access(entry, stages, n_level, sharers, core, word, kind):  # type: ignore[no-untyped-def]
    """The level that serves an access to a word, from 0 for the first; n_level stands for memory.

    entry : the queue to the first level
    """
    granule = word // 8
    per_line = stages[0].geometry.granules_per_line
    mask = np.int64(1) << (granule % per_line)
    entry.record[0] = cache.pack(granule // per_line, mask, 0, 0, kind, 1)
    entry.partial[0] = np.uint32(0xF) << np.uint32(4 * (word % 8))
    entry.used[0] = 1
    upper, depth = entry, 0
    for k in range(n_level):
        stage = stages[k]
        _pass_down(upper, stage, core // sharers[k])
        if stage.queue.used[0] == 0:
            return depth
        if depth == k and (_loads(stage.queue) or (k == 0 and kind == STORE)):
            depth = k + 1
        upper = stage.queue
    return depth


@inner
def _translate(pages, slots, rng, word, missing_ns):  # type: ignore[no-untyped-def]
    """The cost of translating a word's address, with random replacement.

    pages : slot of each page, or -1;  slots : page in each slot, or -1
    """
    page = word // 1024
    if pages[page] >= 0:
        return 0.0
    slot = below(rng, len(slots))
    if slots[slot] >= 0:
        pages[slots[slot]] = -1
    slots[slot] = page
    pages[page] = slot
    return missing_ns


# An access is inlined, and its compilation takes long: each loop has one.


@hot
def _chase(entry, stages, n_level, sharers, ns, rng, core, words, start, steps, pages, slots, missing_ns, ahead):  # type: ignore[no-untyped-def]  # fmt: skip
    """(word, ns): the end and the time of a pointer chase of `steps` steps from `start`."""
    p = np.int64(start)
    total = 0.0
    last = np.int64(-9)
    for _ in range(steps):
        total += _translate(pages, slots, rng, p, missing_ns)
        line = p // 16
        word, k, n = p, np.int64(0), np.int64(1)
        while k < n:
            depth = _access(entry, stages, n_level, sharers, core, word, LOAD)
            if k == 0:
                total += ns[depth]
                if depth and line == last + 1:  # lines that are prefetched, as far as there are any
                    n += min(ahead, len(words) // 16 - line - 1)
            k += 1
            word = (line + k) * 16
        last = line
        p = np.int64(words[p])
    return p, total


@hot
def _serve(entry, stages, n_level, sharers, core, at, kind, served):  # type: ignore[no-untyped-def]
    """Adds to served (4,) the number of accesses that each level serves; memory comes after the last."""
    for word in at:
        served[_access(entry, stages, n_level, sharers, core, np.int64(word), kind)] += 1


def _queue() -> Queue:
    return Queue(
        record=np.zeros(_QUEUE, np.uint64),
        partial=np.zeros(_QUEUE, np.uint32),
        used=np.zeros(2, np.int64),
    )


class SimulatedDevice:
    """See calib.probes.device.Device. machine : two or three levels, lines no shorter below"""

    def __init__(self, machine: Machine, hidden: Hidden, n_bytes: int, seed: int) -> None:
        assert 1 <= len(machine.levels) <= 3
        self.machine, self.hidden = machine, hidden
        self.title = f"Simulated: {machine.name}"
        self.is_cpu = self.keeps_caches = hidden.is_cpu
        self.bytes, self.n_units = n_bytes, machine.n_cores
        self.max_group_items = machine.residency.max_group_items
        self.tick_s = hidden.tick_s
        self.noise = np.random.default_rng([seed, 1])
        self.words = np.zeros(n_bytes // 4, np.uint32)
        self.out = np.zeros(OUT_BYTES // 4, np.uint32)
        space = DenseMap(np.arange(n_bytes // CHUNK_BYTES))
        pages = np.random.default_rng([seed, 2]).permutation(n_bytes // PAGE_BYTES)
        each = PAGE_BYTES // CHUNK_BYTES
        moved = (pages[:, None] * each + np.arange(each)).reshape(-1)
        shared = DenseMap(moved) if hidden.scattered else space
        self.plans: list[LevelPlan] = [
            plan_level(
                level,
                machine.levels[k + 1] if k + 1 < len(machine.levels) else None,
                shared if k else space,
                machine.n_cores,
            )
            for k, level in enumerate(machine.levels)
        ]
        self.rng = np.array([seed + 1], np.uint64)
        self.entry = _queue()
        self.stages: list[Stage] = []
        for plan in self.plans:
            state = plan.empty_cache()
            clear(plan.geometry, state)
            counts = np.zeros((2, cache.N_COUNTS), np.int64)
            self.stages.append(plan.stage(state, counts, _queue(), self.rng))
        while len(self.stages) < 3:
            self.stages.append(self.stages[-1])
        to_ns = 1e9 / machine.clock_hz
        latencies = [level.latency_cycles for level in machine.levels]
        latencies += [machine.dram.latency_cycles] * (4 - len(latencies))
        self.ns = np.array(latencies) * to_ns
        self.sharers = np.array([level.cores_per_instance for level in machine.levels] + [1, 1])
        self.n_accesses = 0
        self.page_slot = np.full(n_bytes // PAGE_BYTES, -1, np.int64)
        self.slot_page = np.full(min(hidden.translation_pages, 1 << 16), -1, np.int64)

    def clock(self) -> float:
        """Simulated seconds, so that a survey takes the same number of rounds on any machine."""
        return self.n_accesses * ACCESS_S

    def run(self, name: str, items: int, group: int, *arguments: Argument) -> float:
        if not self.keeps_caches:
            clear(self.plans[0].geometry, self.stages[0].cache)
        ns = getattr(self, f"_{name}")(items, group, *arguments)
        return self._timed(ns * 1e-9 + 1e-6)

    def host_s(self, name: str, items: int, group: int, *arguments: Argument) -> float:
        return self._timed(self.run(name, items, group, *arguments) + self.hidden.launch_s)

    def result(self, n: int) -> Words:
        return self.out[:n].copy()

    def facts(self) -> dict[str, Any]:
        return {
            "compute units": self.n_units,
            "clock, MHz": round(self.machine.clock_hz / 1e6),
            "local memory, bytes": self.machine.residency.local_memory_bytes,
            "largest group, work-items": self.max_group_items,
        }

    def _timed(self, seconds: float) -> float:
        factor = 1 + self.noise.exponential(self.hidden.noise)
        if self.noise.random() < self.hidden.spikes:
            factor *= 1 + 9 * self.noise.random()
        return float(np.ceil(seconds * factor / self.tick_s) * self.tick_s)

    def _walk(self, core: int, start: int, steps: int) -> tuple[int, float]:
        self.n_accesses += steps
        p, ns = _chase(
            self.entry, tuple(self.stages), len(self.plans), self.sharers, self.ns, self.rng, core,
            self.words, start, steps, self.page_slot, self.slot_page, self.hidden.translation_ns,
            self.hidden.prefetch_lines,
        )  # fmt: skip
        return int(p), float(ns)

    def _served(self, core: int, at: npt.NDArray[np.integer], kind: int) -> npt.NDArray[np.int64]:
        """(4,) the number of accesses that each level serves; memory comes after the last."""
        served = np.zeros(4, np.int64)
        _serve(
            self.entry, tuple(self.stages), len(self.plans), self.sharers, core,
            np.ascontiguousarray(at, np.int64), kind, served,
        )  # fmt: skip
        return served

    def _touched(self, core: int, at: npt.NDArray[np.integer], kind: int) -> float:
        """Time in ns of independent accesses: a quarter of the sum of their latencies."""
        return float(0.25 * self._served(core, at, kind) @ self.ns)

    def _link(self, items: int, group: int, order: Words, after: Words, n: int) -> float:
        self.n_accesses += n
        self.words[order[:n]] = after[:n]
        return float(n)

    def _chase(self, items: int, group: int, start: int, steps: int) -> float:
        self.out[0], ns = self._walk(0, start, -(-steps // 8) * 8)
        return ns

    def _walks(self, items: int, group: int, start: Words, steps: int) -> float:
        times = [self._walk(k % self.n_units, int(at), steps)[1] for k, at in enumerate(start)]
        return max(times)

    def _prepared(
        self, items: int, group: int, large: int, n_large: int, small: int, n_small: int,
        mode: int, rounds: int, passes: int, order: Words,
    ) -> float:  # fmt: skip
        p, s, total = large, small, 0.0
        for _ in range(rounds):
            p, ns = self._walk(0, p, n_large)
            total += ns
            if mode:
                total += self._touched(0, order.astype(np.int64) + 1, LOAD if mode == 1 else STORE)
                if mode == 2:
                    self.words[order + 1] = 0
            s, ns = self._walk(0, s, passes * n_small)
            total += ns
        self.out[0] = p
        return total

    def _stores(self, items: int, group: int, n: int, line_words: int, rounds: int) -> float:
        at = np.arange(n * rounds) % n * line_words
        return self._touched(0, at, STORE)

    def _reads(self, items: int, group: int, n_each: int, rounds: int) -> float:
        """The slowest instance of a level, each passing lines at its bandwidth, decides.

        Work-groups alternate round by round. Rounds after the second repeat it.
        """
        line = self.machine.levels[0].line_bytes
        widths = [level.bandwidth_bytes_per_cycle for level in self.machine.levels]
        widths.append(self.machine.dram.bandwidth_bytes_per_cycle)
        line_ns = line / np.array(widths) / self.machine.clock_hz * 1e9
        sharers = [level.cores_per_instance for level in self.machine.levels] + [self.n_units]
        spent = []
        for _ in range(min(rounds, 2)):
            lines = np.zeros((self.n_units, 4), np.int64)
            for k in range(items // group):
                at = (k * n_each * 16 + np.arange(0, n_each * 16, line)) // 4
                core = k % self.n_units
                lines[core] += self._served(core, at, LOAD)
            reaching = lines[:, ::-1].cumsum(axis=1)[:, ::-1]
            each = [
                np.add.reduceat(reaching[:, d], np.arange(0, self.n_units, sharers[d])).max()
                for d in range(len(widths))
            ]
            spent.append(float((np.array(each) * line_ns).max()))
        return spent[0] + (rounds - 1) * spent[-1]

    def _batches(
        self, items: int, group: int, address: Words, offset: Words, n_batches: int, part: Local
    ) -> float:
        """Batches of concurrent requests to memory; a batch starts when the one before has finished."""
        if not address.any():
            return float(self.ns[0]) * n_batches
        sample = sample_latencies(
            self.machine.dram,
            address_bytes=address.astype(np.int64) * 4,
            size_bytes=np.full(len(address), self.machine.dram.burst_bytes),
            is_read=np.ones(len(address), np.bool_),
            batch_offset=offset.astype(np.int64),
        )
        slowest = np.maximum.reduceat(sample.latency_cycles, offset[:-1].astype(np.int64))
        return float(slowest[:n_batches].sum()) * 1e9 / self.machine.clock_hz

    def _additions(self, items: int, group: int, start: int, steps: int, room: Local) -> float:
        limits = self.machine.residency
        fitting = min(
            limits.max_groups,
            limits.max_items // group,
            limits.local_memory_bytes // max(room.n_bytes, 1),
        )
        turns = -(-(items // group) // (self.n_units * fitting))
        return turns * (steps / 8) * 17 * 1e9 / self.machine.clock_hz

    def _nothing(self, items: int, group: int) -> float:
        return 0.0


class RefusingDevice(SimulatedDevice):
    """A device on which some kernels raise: they are refused, or interrupted."""

    def __init__(self, *arguments: object, refused: dict[str, BaseException]) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.refused = refused

    def run(self, name: str, items: int, group: int, *arguments: Argument) -> float:
        if name in self.refused:
            raise self.refused[name]
        return super().run(name, items, group, *arguments)
