"""Runs all probes one after another; one that fails reports why, and the others continue."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

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
P = ParamSpec("P")
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

    def probe(
        self, name: str, run: Callable[P, Result], /, *arguments: P.args, **named: P.kwargs
    ) -> Result | None:
        self.now = name
        self.say(name)
        return attempt(self.book, name, lambda: run(*arguments, **named))

    def number(
        self,
        key: str,
        name: str,
        run: Callable[P, Finding],
        /,
        *arguments: P.args,
        **named: P.kwargs,
    ) -> Finding | None:
        finding = self.probe(name, run, *arguments, **named)
        if finding is not None:
            self.book.note(key, finding)
        return finding

    def of_level(
        self,
        name: str,
        what: str,
        run: Callable[P, Finding],
        /,
        *arguments: P.args,
        **named: P.kwargs,
    ) -> Finding | None:
        """Measures a number that the machine file has of a level."""
        title = f"{name} {what.removesuffix('_bytes')}"
        return self.number(f"levels.{name}.{what}", title, run, *arguments, **named)

    def first_line(self, otherwise: int) -> int:
        """The line size of the first level, where it was measured."""
        measured = self.book.findings.get("levels.L1.line_bytes")
        return int(measured.value) if measured else otherwise

    def all(self, most_bytes: int, groups: DramGroups | None) -> None:
        bench, book = self.bench, self.book
        self.number("launch_overhead", "launch overhead", execution.launch_overhead, bench)
        if bench.is_cpu:
            self.number("clock_hz", "clock", execution.addition_hz, bench)
        else:
            book.cannot_tell(
                "clock", "not measured: the cycles of an operation on this device are unknown"
            )
            self.probe("stride of the chase", self.set_stride)
        caches = self.probe("pointer chase", hierarchy, bench, book, most_bytes)
        self.hierarchy = caches
        if caches is not None:
            self.levels(caches)
        self.memory(caches.levels if caches else (), groups)
        self.cores()

    def set_stride(self) -> None:
        """Sets the chase's stride to the fill size: a denser chase would hit what a miss has fetched."""
        bench = self.bench
        hit_ns = float(bench.chase_ns(bench.lines(2048)).min())
        n_pairs = min(bench.bytes // 2, 16 << 20) // geometry.PITCH_BYTES
        fill = geometry.fill_bytes(bench, self.book, "all caches", n_pairs, hit_ns, hit_ns)
        bench.stride_bytes = min(max(int(fill.value), 32), bench.block_bytes)

    def levels(self, caches: Hierarchy) -> None:
        levels, most_bytes = caches.levels, self.bench.bytes
        for index in range(len(levels)):
            self.level(index, levels, *_below(caches, index, most_bytes))
        if levels and levels[0].size_bytes is not None:
            self.first_level(levels[0], *_below(caches, 0, most_bytes))

    def level(
        self, index: int, levels: Sequence[MeasuredLevel], below_ns: float, region: float
    ) -> None:
        """Measures one level; region : a working set that it cannot contain and the next level can."""
        name, level, above = f"L{index + 1}", levels[index], levels[index - 1] if index else None
        bench, book, hit_ns = self.bench, self.book, level.latency_ns.value
        line_bytes = self.level_line(name, level, below_ns)
        self.of_level(
            name,
            "fill_bytes",
            geometry.fill_bytes,
            bench,
            book,
            name,
            region / (2 * line_bytes),
            hit_ns,
            levels[0].latency_ns.value,
            below_ns,
        )
        size = level.size_bytes
        if size is None:
            return
        book.note(f"levels.{name}.size_bytes", size)
        # The size is one core's part of a level that the cores of a CPU may share. Pages at random
        # physical addresses overflow some sets at half of a level, and none at a quarter.
        fits_bytes = size.value / (2 if level.sharp else 4)
        cached = self.capacity(index, above) if above else (0.0, True)
        self.of_level(
            name, "bandwidth", traffic.bandwidth, bench, name, fits_bytes, groups=1, above=cached
        )
        if not level.sharp:
            why = "not determined: its pages have any physical address, so no lines are known to share a set"
            book.cannot_tell(f"{name} line, ways and replacement", why)
            return
        ways = self.of_level(
            name,
            "ways",
            geometry.ways,
            bench,
            book,
            name,
            size.value,
            line_bytes,
            hit_ns,
            below_ns,
            above.latency_ns.value if above else 0.0,
        )
        if above:
            why = "not determined: the level above serves some visits of every order of visits to one set"
            book.cannot_tell(f"{name} replacement", why)
        elif ways is not None:
            self.probe(
                f"{name} replacement",
                replacement,
                bench,
                book,
                name,
                size_bytes=size.value,
                ways=int(ways.value),
                line_bytes=line_bytes,
                hit_ns=hit_ns,
            )

    def level_line(self, name: str, level: MeasuredLevel, below_ns: float) -> int:
        """The line size of a level, measured where it has a sharp edge."""
        if level.size_bytes is None or not level.sharp:
            return LINE_BYTES
        at = (name, level.size_bytes.value, level.latency_ns.value, below_ns)
        line = self.of_level(name, "line_bytes", geometry.line_bytes, self.bench, self.book, *at)
        return int(line.value) if line else LINE_BYTES

    def capacity(self, number: int, level: MeasuredLevel) -> tuple[float, bool]:
        """Greatest capacity of a level, and whether it surely evicts data that are read cyclically.

        A level with random replacement has no edge, and its latency begins to rise before it is full.
        """
        policy = self.book.words.get(f"L{number} replacement", ("unknown", ""))[0]
        capacity = level.size_bytes.value if level.size_bytes else 2 * level.edge_bytes
        return capacity, policy in ("lru", "fifo")

    def first_level(self, level: MeasuredLevel, below_ns: float, region: float) -> None:
        """Probes of a core's private cache: stores, and copies that other cores find."""
        assert level.size_bytes is not None
        bench, book, size = self.bench, self.book, level.size_bytes.value
        line, own_ns = self.first_line(LINE_BYTES), level.latency_ns.value
        stores = (bench, book, "L1", size)
        self.probe("L1 stores allocate", policies.store_allocates, *stores, line, own_ns, below_ns)
        self.probe("L1 stores", policies.writes_back, *stores, region, line, below_ns)
        self.probe("shared copies", policies.shared_copies, bench, book, size, line, own_ns)

    def memory(self, levels: Sequence[MeasuredLevel], groups: DramGroups | None) -> None:
        bench, book = self.bench, self.book
        line = self.first_line(bench.block_bytes)
        l1_lines = levels[0].edge_bytes / line if levels else float("inf")
        self.number("translation", "address translation", translation, bench, book, l1_lines, line)
        sizes = [level.size_bytes.value for level in levels if level.size_bytes]
        cached = max([level.edge_bytes for level in levels] + sizes) if sizes else 1 << 20
        far = min(max(4 * cached, 16 << 20), bench.bytes)
        longest = max(
            [int(f.value) for key, f in book.findings.items() if key.endswith(".line_bytes")],
            default=LINE_BYTES,
        )
        self.probe("prefetching", policies.prefetching, bench, book, far, longest)
        hit = levels[0].latency_ns if levels else None
        self.number("memory_ns", "batches", traffic.memory_batches, bench, book, cached, hit)
        if groups is not None:
            hit_ns = hit.value if hit else 0.0
            name = "batches of a kernel"
            self.number("kernel_memory_ns", name, traffic.kernel_memory, bench, groups, hit_ns)
        whole, units = bench.bytes * 0.9, bench.device.n_units
        self.number(
            "memory_bandwidth",
            "memory bandwidth",
            traffic.bandwidth,
            bench,
            "DRAM",
            whole,
            groups=4 * units,
        )

    def cores(self) -> None:
        def number(key: str, what: str, items: int = 1, local_bytes: int = 0) -> None:
            self.number(
                key,
                key.replace("_", " "),
                execution.concurrency,
                self.bench,
                self.book,
                what,
                items=items,
                local_bytes=local_bytes,
            )

        local, items = (
            self.bench.device.facts().get("local memory, bytes", 0),
            self.bench.device.max_group_items,
        )
        number("groups_at_once", "one work-item each")
        if local:
            number("cores", "each with all local memory", local_bytes=int(local))
        if not self.bench.is_cpu:
            number("full_groups_at_once", f"{items} work-items each", items=items)


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


def _below(caches: Hierarchy, index: int, most_bytes: int) -> tuple[float, float]:
    """Latency of what follows a level, and a working set that exceeds the level's capacity and fits into what follows."""
    capacity = caches.levels[index].capacity_bytes
    if index + 1 == len(caches.levels):
        return caches.memory_ns.value, float(min(8 * capacity, most_bytes))
    below = caches.levels[index + 1]
    region = max(min((2 * capacity * below.capacity_bytes) ** 0.5, 4 * capacity), 2 * capacity)
    return below.latency_ns.value, float(region)
