"""Small machines for tests: what a test does not specify has a plain value."""

from __future__ import annotations

import dataclasses
from typing import Any

from memsim.machine.file import load_machine
from memsim.machine.model import Machine
from memsim.machine.parts import Dram, Level, Residency


def level(
    name: str = "L1",
    *,
    line: int = 32,
    sector: int | None = None,
    fill: int | None = None,
    ways: int = 1,
    sets: int = 1,
    slices: int = 1,
    **fields: Any,
) -> Level:
    """A level of sets x ways x slices lines; ways=-1 takes all `sets` lines of a slice as one set."""
    sector = line if sector is None else sector
    plain = {"latency_cycles": 1.0, "bandwidth_bytes_per_cycle": 32.0}
    return Level(
        name=name,
        size_bytes=line * abs(ways) * sets * slices,
        line_bytes=line,
        sector_bytes=sector,
        fill_bytes=sector if fill is None else fill,
        ways=ways,
        n_slices=slices,
        **{**plain, **fields},
    )


def dram(**fields: Any) -> Dram:
    """Two channels of 256 bytes with two banks of 1 KiB rows each."""
    plain: dict[str, Any] = {
        "n_channels": 2,
        "n_banks": 2,
        "row_bytes": 1024,
        "interleave_bytes": 256,
        "burst_bytes": 32,
        "latency_cycles": 1.0,
        "row_miss_cycles": 1.0,
        "row_conflict_cycles": 2.0,
        "bandwidth_bytes_per_cycle": 32.0,
    }
    return Dram(**{**plain, **fields})


def residency(**fields: Any) -> Residency:
    """The resources of a V100's core, but for its groups: one by default."""
    plain: dict[str, Any] = {
        "max_items": 2048,
        "max_subgroups": 64,
        "max_groups": 1,
        "max_group_items": 1024,
        "registers": 65536,
        "max_registers_per_item": 255,
        "register_unit": 256,
        "local_memory_bytes": 65536,
        "local_memory_unit_bytes": 32,
    }
    return Residency(**{**plain, **fields})


def machine(
    *levels: Level,
    cores: int = 1,
    subgroup: int = 32,
    coalesce: int | None = None,
    max_groups: int = 1,
    miss_turns: float = 1.0,
    **fields: Any,
) -> Machine:
    """A machine of these levels, with up to `max_groups` resident groups on a core.

    miss_turns : latency of memory in turns of a core; with 1, no sector is pending
    """
    plain: dict[str, Any] = {
        "name": "made",
        "title": "made up",
        "vendor": "nobody",
        "clock_hz": 1e9,
        "cycles_per_turn": 1.0,
        "dram": dram(latency_cycles=miss_turns),
        "residency": residency(max_groups=max_groups),
    }
    return Machine(
        levels=levels,
        n_cores=cores,
        subgroup_size=subgroup,
        coalesce_lanes=subgroup if coalesce is None else coalesce,
        **{**plain, **fields},
    )


def few_cores(name: str) -> Machine:
    """A shipped machine with three cores and an eighth of its caches, so that lines are evicted."""
    shipped = load_machine(name)
    levels = tuple(
        dataclasses.replace(
            cache,
            cores_per_instance=min(cache.cores_per_instance, 3),
            size_bytes=cache.size_bytes // 8,
            ways=cache.ways if cache.ways == -1 else max(1, cache.ways // 8),
            storage_bytes=0,
            local_carveouts_bytes=(),
        )
        for cache in shipped.levels
    )
    return shipped.replace(n_cores=3, levels=levels)
