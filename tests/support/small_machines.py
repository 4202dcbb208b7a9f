"""Small made-up machines for tests: everything that a test does not say is plain."""

from __future__ import annotations

from typing import Any

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


def machine(
    *levels: Level,
    cores: int = 1,
    subgroup: int = 32,
    coalesce: int | None = None,
    max_groups: int = 1,
    miss_turns: float = 1.0,
    **fields: Any,
) -> Machine:
    """A machine of these levels, `max_groups` resident a core.

    miss_turns : latency of DRAM and of every level, in turns of a core; 1 leaves nothing pending
    """
    dram = Dram(
        n_channels=2,
        n_banks=2,
        row_bytes=1024,
        interleave_bytes=256,
        burst_bytes=32,
        latency_cycles=miss_turns,
        row_miss_cycles=1.0,
        row_conflict_cycles=2.0,
        bandwidth_bytes_per_cycle=32.0,
    )
    residency = Residency(
        max_items=2048,
        max_subgroups=64,
        max_groups=max_groups,
        max_group_items=1024,
        registers=65536,
        max_registers_per_item=255,
        register_unit=256,
        local_memory_bytes=65536,
        local_memory_unit_bytes=32,
    )
    plain: dict[str, Any] = {
        "name": "made",
        "title": "made up",
        "vendor": "nobody",
        "clock_hz": 1e9,
        "cycles_per_turn": 1.0,
        "dram": dram,
        "residency": residency,
    }
    return Machine(
        levels=levels,
        n_cores=cores,
        subgroup_size=subgroup,
        coalesce_lanes=subgroup if coalesce is None else coalesce,
        **{**plain, **fields},
    )
