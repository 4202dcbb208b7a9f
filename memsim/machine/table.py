"""Machines as tables for a terminal: all machines, or every value of one with its source."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from memsim.machine.file import keys
from memsim.machine.model import ASSUMED, Machine
from memsim.machine.parts import Level

_UNITS = (
    ("_bytes_per_cycle", "bytes/cycle"),
    ("tags_per_cycle", "lines/cycle"),
    ("_bytes", "bytes"),
    ("_cycles", "cycles"),
    ("cycles_per_turn", "cycles"),
    ("_hz", "Hz"),
    ("_percent", "%"),
)
_UNITS_OF_TABLES = {"throughputs": "operations/cycle", "model_error_points": "points"}


def machines_table(machines: list[Machine]) -> Table:
    """A table with one row for each machine."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    for title in ("machine", "title"):
        table.add_column(title, no_wrap=True)
    for title in ("cores", "GHz", "lanes"):
        table.add_column(title, justify="right")
    table.add_column("caches")
    table.add_column("DRAM GB/s", justify="right")
    table.add_column("assumed", justify="right")
    for machine in machines:
        dotted = keys(machine)
        n_assumed = sum(machine.is_assumed(key) for key in dotted)
        caches = ", ".join(_cache_text(level, machine.n_cores) for level in machine.levels)
        bandwidth = machine.dram.bandwidth_bytes_per_cycle * machine.clock_hz / 1e9
        table.add_row(
            Text(machine.name, style="bold"),
            Text(machine.title),
            str(machine.n_cores),
            f"{machine.clock_hz / 1e9:.3f}",
            str(machine.subgroup_size),
            caches or "none",
            f"{bandwidth:.0f}",
            f"{n_assumed} of {len(dotted)}",
        )
    return table


def machine_table(machine: Machine) -> Table:
    """A table with one row for each value; those that nobody measured or published, and those that were
    fitted to a comparison, are marked."""
    table = Table(
        title=Text(f"{machine.name}: {machine.title}"),
        title_justify="left",
        header_style="bold",
        box=None,
        pad_edge=False,
    )
    table.add_column("parameter", no_wrap=True)
    table.add_column("value", justify="right")
    table.add_column("unit")
    table.add_column("")
    table.add_column("source", ratio=1)
    for key in keys(machine):
        standing = machine.standing(key)
        source = machine.sources.get(key, ASSUMED).removeprefix(standing).lstrip(": ")
        table.add_row(
            Text(key),
            Text(value_text(value_of(machine, key))),
            Text(unit_of(key)),
            Text(standing, style="yellow"),
            Text(source, style="yellow" if standing else ""),
        )
    return table


def _cache_text(level: Level, n_cores: int) -> str:
    """`L2 8 x 4 MiB` for eight instances, each shared by several cores."""
    n_instances = -(-n_cores // level.cores_per_instance)
    times = f"{n_instances} x " if n_instances > 1 and level.cores_per_instance > 1 else ""
    return f"{level.name} {times}{size_text(level.size_bytes)}"


def value_of(machine: Machine, key: str) -> Any:
    """The value of a dotted key; see `memsim.machine.file.keys`."""
    table, _, name = key.rpartition(".")
    if table.startswith("levels."):
        level = table.removeprefix("levels.")
        return next(getattr(lv, name) for lv in machine.levels if lv.name == level)
    if table in _UNITS_OF_TABLES:
        return getattr(machine, table)[name]
    return getattr(getattr(machine, table) if table else machine, name)


def unit_of(key: str) -> str:
    """The unit in the name of a dotted key; empty for a count or a choice."""
    table, _, name = key.rpartition(".")
    if table in _UNITS_OF_TABLES:
        return _UNITS_OF_TABLES[table]
    return next((unit for suffix, unit in _UNITS if name.endswith(suffix)), "")


def value_text(value: Any) -> str:
    """A value as text, numbers without exponents: 1380000000 and 393.48, not 1.38e9."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " ".join(value_text(item) for item in value)
    if isinstance(value, float):
        return f"{value:.10g}" if abs(value) < 1e10 else f"{value:g}"
    return str(value)


def size_text(size_bytes: int) -> str:
    """A size in the largest binary unit that is not larger."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.4g} {unit}"
    return f"{size_bytes} B"
