"""Runs all probes one after another; one that fails reports why, and the others continue."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from calib.probes import execution, geometry, policies, traffic
from calib.probes.bench import Bench
from calib.probes.capacity import Hierarchy, MeasuredLevel, hierarchy
from calib.probes.device import Device
from calib.probes.dram_groups import DramGroups
from calib.probes.outcome import Finding, Notebook, attempt
from calib.probes.replacement import replacement
from calib.probes.translation import translation

Progress = Callable[[str], None]
Result = TypeVar("Result")
LINE_BYTES = 64
"""Assumed for a level whose line size could not be measured."""


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The findings on a device.

    facts : what the driver reports
    hierarchy : None where the pointer chase had no result
    interrupted : the probe during which Ctrl-C was pressed; earlier findings are kept
    busy : that other programs ran and what it does to the numbers; empty where hardly any did
    """

    device: str
    is_cpu: bool
    facts: dict[str, Any]
    hierarchy: Hierarchy | None
    book: Notebook
    seed: int
    interrupted: str = ""
    busy: str = ""


class _Surveyor:
    """Runs probes and keeps their findings."""

    def __init__(self, bench: Bench, say: Progress) -> None:
        self.bench, self.say, self.book = bench, say, Notebook()
        self.hierarchy: Hierarchy | None = None
        self.now = ""

    def probe(self, name: str, run: Callable[[], Result]) -> Result | None:
        self.now = name
        self.say(name)
        return attempt(self.book, name, run)

    def number(self, key: str, name: str, run: Callable[[], Finding]) -> Finding | None:
        finding = self.probe(name, run)
        if finding is not None:
            self.book.note(key, finding)
        return finding

    def all(self, most_bytes: int, groups: DramGroups | None) -> None:
        bench, book = self.bench, self.book
        self.number("launch_overhead", "launch overhead", partial(execution.launch_overhead, bench))
        if bench.is_cpu:
            self.number("clock_hz", "clock", partial(execution.addition_hz, bench))
        else:
            book.cannot_tell(
                "clock", "not measured: the cycles of an operation on this device are unknown"
            )
            self.probe("stride of the chase", self.set_stride)
        caches = self.probe("pointer chase", partial(hierarchy, bench, book, most_bytes))
        self.hierarchy = caches
        if caches is not None:
            self.levels(caches)
        self.memory(caches, groups)
        self.cores()

    def set_stride(self) -> None:
        """Sets the chase's stride to the fill size: a denser chase would hit what a miss has fetched."""
        bench = self.bench
        hit_ns = float(bench.chase_ns(bench.lines(2048)).min())
        n_pairs = min(bench.bytes // 2, 16 << 20) // geometry.PITCH_BYTES
        fill = geometry.fill_bytes(bench, self.book, "all caches", n_pairs, hit_ns, hit_ns)
        bench.stride_bytes = min(max(int(fill.value), 32), bench.block_bytes)

    def levels(self, caches: Hierarchy) -> None:
        for k, level in enumerate(caches.levels):
            inner = caches.levels[k + 1] if k + 1 < len(caches.levels) else None
            below_ns = inner.latency_ns.value if inner else caches.memory_ns.value
            self.level(f"L{k + 1}", level, below_ns, _between(level, inner, self.bench.bytes))
        if caches.levels and (first := caches.levels[0]).size_bytes is not None:
            second = _second(caches)
            below_ns = (second.latency_ns if second else caches.memory_ns).value
            self.first_level(first, _between(first, second, self.bench.bytes), below_ns)

    def level(self, name: str, level: MeasuredLevel, below_ns: float, region: float) -> None:
        """Measures one level; region : a working set that it cannot contain and the next level can."""
        line_bytes = self.level_line(name, level, below_ns)
        assert self.hierarchy is not None
        self.number(
            f"levels.{name}.fill_bytes",
            f"{name} fill",
            partial(
                geometry.fill_bytes,
                self.bench,
                self.book,
                name,
                region / (2 * line_bytes),
                level.latency_ns.value,
                self.hierarchy.levels[0].latency_ns.value,
                below_ns,
            ),
        )
        size = level.size_bytes
        if size is None:
            return
        self.book.note(f"levels.{name}.size_bytes", size)
        # The size is one core's part of a level that the cores of a CPU may share. Pages at random
        # physical addresses overflow some sets at half of a level, and none at a quarter.
        self.number(
            f"levels.{name}.bandwidth",
            f"{name} bandwidth",
            partial(
                traffic.bandwidth,
                self.bench,
                name,
                size.value / (2 if level.sharp else 4),
                groups=1,
                above=self.capacity_above(name),
            ),
        )
        self.level_sets(name, level, line_bytes, below_ns)

    def level_line(self, name: str, level: MeasuredLevel, below_ns: float) -> int:
        """The line size of a level, measured where it has a sharp edge."""
        if level.size_bytes is None or not level.sharp:
            return LINE_BYTES
        size_bytes, hit_ns = level.size_bytes.value, level.latency_ns.value
        line = self.number(
            f"levels.{name}.line_bytes",
            f"{name} line",
            partial(geometry.line_bytes, self.bench, self.book, name, size_bytes, hit_ns, below_ns),
        )
        return int(line.value) if line else LINE_BYTES

    def level_sets(self, name: str, level: MeasuredLevel, line_bytes: int, below_ns: float) -> None:
        """Associativity of a level, and replacement of the first one."""
        bench, book, hit_ns = self.bench, self.book, level.latency_ns.value
        assert level.size_bytes is not None
        size_bytes = level.size_bytes.value
        if not level.sharp:
            why = "not determined: its pages have any physical address, so no lines are known to share a set"
            book.cannot_tell(f"{name} line, ways and replacement", why)
            return
        ways = self.number(
            f"levels.{name}.ways",
            f"{name} ways",
            partial(
                geometry.ways,
                bench,
                book,
                name,
                size_bytes,
                line_bytes,
                hit_ns,
                below_ns,
                self.latency_above(name),
            ),
        )
        if name != "L1":
            why = "not determined: the level above serves some visits of every order of visits to one set"
            book.cannot_tell(f"{name} replacement", why)
        elif ways is not None:
            self.probe(
                f"{name} replacement",
                partial(
                    replacement,
                    bench,
                    book,
                    name,
                    size_bytes=size_bytes,
                    ways=int(ways.value),
                    line_bytes=line_bytes,
                    hit_ns=hit_ns,
                ),
            )

    def latency_above(self, name: str) -> float:
        """Latency of the level above in nanoseconds; 0 for the first level."""
        number = int(name[1:]) - 1
        assert self.hierarchy is not None
        return self.hierarchy.levels[number - 1].latency_ns.value if number else 0.0

    def capacity_above(self, name: str) -> tuple[float, bool]:
        """Greatest capacity of the level above, and whether it surely evicts data that are read cyclically.

        A level with random replacement has no edge, and its latency begins to rise before it is full.
        """
        number = int(name[1:]) - 1
        if number == 0:
            return 0.0, True
        assert self.hierarchy is not None
        level = self.hierarchy.levels[number - 1]
        policy = self.book.words.get(f"L{number} replacement", ("unknown", ""))[0]
        capacity = level.size_bytes.value if level.size_bytes else 2 * level.edge_bytes
        return capacity, policy in ("lru", "fifo")

    def first_level(self, level: MeasuredLevel, region: float, below_ns: float) -> None:
        """Probes of a core's private cache: stores, and copies that other cores find."""
        assert level.size_bytes is not None
        bench, book, size = self.bench, self.book, level.size_bytes.value
        measured = book.findings.get("levels.L1.line_bytes")
        line = int(measured.value) if measured else LINE_BYTES
        own_ns = level.latency_ns.value
        self.probe(
            "L1 stores allocate",
            partial(policies.store_allocates, bench, book, "L1", size, line, own_ns, below_ns),
        )
        self.probe(
            "L1 stores",
            partial(policies.writes_back, bench, book, "L1", size, region, line, below_ns),
        )
        self.probe(
            "shared copies",
            partial(policies.shared_copies, bench, book, size, line, own_ns),
        )

    def memory(self, caches: Hierarchy | None, groups: DramGroups | None) -> None:
        bench, book = self.bench, self.book
        sizes = (
            [level.size_bytes.value for level in caches.levels if level.size_bytes]
            if caches
            else []
        )
        first = caches.levels[0].edge_bytes if caches and caches.levels else float("inf")
        measured = book.findings.get("levels.L1.line_bytes")
        line = int(measured.value) if measured else bench.block_bytes
        self.number(
            "translation",
            "address translation",
            partial(translation, bench, book, first / line, line),
        )
        cached = (
            max([level.edge_bytes for level in caches.levels] + sizes)
            if sizes and caches
            else 1 << 20
        )
        far = min(max(4 * cached, 16 << 20), bench.bytes)
        longest = max(
            [int(f.value) for key, f in book.findings.items() if key.endswith(".line_bytes")],
            default=LINE_BYTES,
        )
        self.probe("prefetching", partial(policies.prefetching, bench, book, far, longest))
        hit = caches.levels[0].latency_ns if caches and caches.levels else None
        self.number(
            "memory_ns", "batches", partial(traffic.memory_batches, bench, book, cached, hit)
        )
        if groups is not None:
            self.number(
                "kernel_memory_ns",
                "batches of a kernel",
                partial(traffic.kernel_memory, bench, groups, hit.value if hit else 0.0),
            )
        self.number(
            "memory_bandwidth",
            "memory bandwidth",
            partial(
                traffic.bandwidth,
                bench,
                "DRAM",
                bench.bytes * 0.9,
                groups=4 * bench.device.n_units,
            ),
        )

    def cores(self) -> None:
        bench, book = self.bench, self.book
        local = int(bench.device.facts().get("local memory, bytes", 0))
        one = "one work-item each"
        self.number(
            "groups_at_once", "groups at once", partial(execution.concurrency, bench, book, one)
        )
        if local:
            self.number(
                "cores",
                "cores",
                partial(
                    execution.concurrency,
                    bench,
                    book,
                    "each with all local memory",
                    local_bytes=local,
                ),
            )
        if not bench.is_cpu:
            items = bench.device.max_group_items
            self.number(
                "full_groups_at_once",
                "full groups at once",
                partial(
                    execution.concurrency, bench, book, f"{items} work-items each", items=items
                ),
            )


def survey(
    device: Device,
    *,
    most_bytes: int = 256 << 20,
    seed: int = 0,
    groups: DramGroups | None = None,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.perf_counter,
    busy: str = "",
) -> Survey:
    """Measures a device.

    most_bytes : largest working set in bytes; smaller where the device cannot allocate as much
    groups : requests of a kernel whose latency in memory is measured
    progress : called with the name of each probe
    clock : a clock in seconds, which limits the duration of long curves
    busy : that other programs run, as the survey keeps it
    """
    surveyor = _Surveyor(Bench(device, seed, clock), progress or (lambda _: None))
    interrupted = ""
    try:
        surveyor.all(most_bytes, groups)
    except KeyboardInterrupt:
        interrupted = surveyor.now
        surveyor.book.cannot_tell(
            interrupted, "not measured: interrupted, as were all probes after it"
        )
    return Survey(
        device=device.title,
        is_cpu=device.is_cpu,
        facts=device.facts(),
        hierarchy=surveyor.hierarchy,
        book=surveyor.book,
        seed=seed,
        interrupted=interrupted,
        busy=busy,
    )


def _second(caches: Hierarchy) -> MeasuredLevel | None:
    return caches.levels[1] if len(caches.levels) > 1 else None


def _between(level: MeasuredLevel, below: MeasuredLevel | None, most: int) -> float:
    """A working set that exceeds a level's capacity and fits into the next level."""
    capacity = level.size_bytes.value if level.size_bytes else level.edge_bytes
    if below is None:
        return float(min(8 * capacity, most))
    outer = below.size_bytes.value if below.size_bytes else below.edge_bytes
    return float(max(min((2 * capacity * outer) ** 0.5, 4 * capacity), 2 * capacity))
