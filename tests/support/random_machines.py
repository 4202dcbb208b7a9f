"""Random machines for the simulated device."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from memsim.machine.model import Machine
from memsim.machine.parts import Level
from tests.support.simulated_device import Hidden
from tests.support.small_machines import dram, level, machine, residency

KB, MB = 1024, 1 << 20


def cpu(seed: int) -> tuple[Machine, Hidden]:
    """A CPU with two or three write-back levels of 64-byte lines; half of them have scattered pages."""
    rng = np.random.default_rng([seed, 11])
    ways = int(rng.choice([4, 8, 12, 16]))
    replacement = str(rng.choice(["lru", "plru", "random"] if ways & (ways - 1) == 0 else ["lru"]))
    first = _level(
        "L1",
        size_bytes=4096 * ways,  # a way is a page, as on CPUs
        ways=ways,
        replacement=replacement,
        latency_cycles=float(rng.integers(3, 6)),
        bandwidth_bytes_per_cycle=64.0,
        write_policy="write_back",
        write_allocate=str(rng.choice(["fetch_on_write", "none"])),
    )
    second = _level(
        "L2",
        size_bytes=int(rng.choice([128, 256, 512])) * KB,
        ways=int(rng.choice([8, 16])),
        latency_cycles=float(rng.integers(12, 18)),
        bandwidth_bytes_per_cycle=32.0,
        write_policy="write_back",
        write_allocate="fetch_on_write",
    )
    levels = [first, second]
    if rng.random() < 0.5:
        levels.append(
            _level(
                "L3",
                size_bytes=2 * MB,
                ways=16,
                latency_cycles=float(rng.integers(45, 60)),
                bandwidth_bytes_per_cycle=16.0,
                cores_per_instance=2,
                write_policy="write_back",
                write_allocate="fetch_on_write",
            )
        )
    made = _machine(f"cpu {seed}", levels, n_cores=2, clock_hz=3e9, memory=300.0, max_groups=1)
    return made, Hidden(
        is_cpu=True,
        scattered=bool(rng.random() < 0.5),
        translation_pages=int(rng.choice([64, 96])),
        translation_ns=float(rng.choice([0.0, 1.5])),
        prefetch_lines=int(rng.choice([0, 4])),
    )


def small_cpu() -> tuple[Machine, Hidden]:
    """A CPU with an L1 of 16 KB and an L2 of 128 KB, small enough for a survey within seconds."""
    machine, hidden = cpu(3)
    first, second, *_ = machine.levels
    first = dataclasses.replace(first, size_bytes=16384, ways=4, replacement="lru")
    second = dataclasses.replace(second, size_bytes=128 << 10, ways=8)
    quiet = dataclasses.replace(hidden, scattered=False, translation_ns=0.0, prefetch_lines=0)
    return machine.replace(levels=(first, second)), quiet


def gpu(seed: int) -> tuple[Machine, Hidden]:
    """A write-through L1 of sectors that each launch finds empty, and an L2 common to all cores."""
    rng = np.random.default_rng([seed, 12])
    first = _level(
        "L1",
        size_bytes=int(rng.choice([16, 24, 48, 96])) * KB,
        line_bytes=128,
        sector_bytes=32,
        fill_bytes=32,
        ways=4,
        set_index=str(rng.choice(["modulo", "xor"])),
        latency_cycles=float(rng.integers(28, 40)),
        bandwidth_bytes_per_cycle=128.0,
    )
    second = _level(
        "L2",
        size_bytes=int(rng.choice([384, 512, 768])) * KB,
        line_bytes=128,
        sector_bytes=32,
        fill_bytes=int(rng.choice([32, 64])),
        ways=16,
        latency_cycles=float(rng.integers(190, 240)),
        bandwidth_bytes_per_cycle=512.0,
        cores_per_instance=4,
        write_policy="write_back",
        write_allocate="lazy_fetch_on_read",
    )
    made = _machine(
        f"gpu {seed}", [first, second], n_cores=4, clock_hz=1.4e9, memory=500.0, max_groups=16
    )
    return made, Hidden(is_cpu=False)


def _level(name: str, *, size_bytes: int, ways: int, **fields: Any) -> Level:
    line = fields.pop("line_bytes", 64)
    sector, fill = fields.pop("sector_bytes", line), fields.pop("fill_bytes", line)
    sets = size_bytes // (line * ways)
    return level(name, line=line, sector=sector, fill=fill, ways=ways, sets=sets, **fields)


def _machine(
    name: str, levels: list[Level], *, n_cores: int, clock_hz: float, memory: float, max_groups: int
) -> Machine:
    return machine(
        *levels,
        cores=n_cores,
        subgroup=8,
        name=name,
        title=name,
        clock_hz=clock_hz,
        dram=dram(
            n_channels=8,
            n_banks=16,
            row_bytes=2048,
            burst_bytes=64,
            latency_cycles=memory,
            row_miss_cycles=0.0,
            row_conflict_cycles=0.0,
            bandwidth_bytes_per_cycle=16.0,
        ),
        residency=residency(
            max_subgroups=256,
            max_groups=max_groups,
            register_unit=8,
            local_memory_bytes=48 * KB,
            local_memory_unit_bytes=64,
        ),
    )
