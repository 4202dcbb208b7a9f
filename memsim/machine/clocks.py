"""A machine with another core clock than its file states: locked, lowered by a power limit, overclocked."""

from __future__ import annotations

import dataclasses
import re

from memsim.errors import MachineError
from memsim.machine.model import Machine
from memsim.visible import shown

_CLOCKED = re.compile(r"(?P<machine>.+)@(?P<clock>[^@/]*)")
_CLOCK = re.compile(r"(?P<number>[0-9]{1,9}(?:\.[0-9]{1,9})?)(?P<unit>[MG]Hz)")
_UNITS = {"MHz": 1e6, "GHz": 1e9}
LEAST_HZ, MOST_HZ = 1e6, 1e11


def split_clock(name: str) -> tuple[str, float | None]:
    """`a100@1.2GHz` -> (`a100`, 1.2e9); a name without a clock and None.

    Raises MachineError for what is no clock.
    """
    named = _CLOCKED.fullmatch(name)
    if named is None:
        return name, None
    clock = _CLOCK.fullmatch(named["clock"])
    clock_hz = float(clock["number"]) * _UNITS[clock["unit"]] if clock else 0.0
    if not LEAST_HZ <= clock_hz <= MOST_HZ:
        raise MachineError(
            f"machine {shown(name)}: a clock is a number of MHz or GHz behind @, as in v100@1200MHz,"
            f" from {LEAST_HZ / 1e6:g} MHz to {MOST_HZ / 1e9:g} GHz"
        )
    if _CLOCKED.fullmatch(named["machine"]):
        raise MachineError(f"machine {shown(name)} has two clocks")
    return named["machine"], clock_hz


def at_clock(machine: Machine, clock_hz: float) -> Machine:
    """The machine with a core clock of clock_hz. Its caches keep their cycles; DRAM keeps its times: the
    bandwidth in GB/s, and the part of the latency that is beyond the last level of cache."""
    ratio = clock_hz / machine.clock_hz
    dram, in_cache = machine.dram, machine.levels[-1].latency_cycles if machine.levels else 0.0
    beyond = max(dram.latency_cycles - in_cache, 0.0)
    changes = {
        "latency_cycles": dram.latency_cycles + beyond * (ratio - 1),
        **{name: getattr(dram, name) * ratio for name in _TIMES},
        **{name: getattr(dram, name) / ratio for name in _RATES},
    }
    then = f"; for {machine.clock_hz / 1e6:g} MHz, here at {clock_hz / 1e6:g} MHz"
    scaled = {f"dram.{name}" for name in changes} & set(machine.sources)
    return machine.replace(
        name=f"{machine.name}@{clock_hz / 1e6:g}MHz",
        title=f"{machine.title} at {clock_hz / 1e6:g} MHz",
        clock_hz=clock_hz,
        dram=dataclasses.replace(dram, **changes),
        sources={
            **machine.sources,
            **{key: machine.sources[key] + then for key in scaled},
            "clock_hz": f"as requested; the machine's file has {machine.clock_hz / 1e6:g} MHz",
        },
    )


_TIMES = (
    "far_cycles",
    "row_miss_cycles",
    "row_conflict_cycles",
    "queue_cycles",
    "turnaround_cycles",
    "refresh_interval_cycles",
    "refresh_cycles",
)
_RATES = (
    "bandwidth_bytes_per_cycle",
    "sustained_bandwidth_bytes_per_cycle",
    "read_bandwidth_bytes_per_cycle",
    "row_activations_per_cycle",
)
