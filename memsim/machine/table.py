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
    ("row_activations_per_cycle", "rows/cycle"),
    ("subgroup_starts_per_cycle", "sub-groups/cycle"),
    ("group_starts_per_cycle", "groups/cycle"),
    ("_look_ups", "look-ups"),
    ("launch_us", "us"),
    ("_bytes", "bytes"),
    ("_cycles", "cycles"),
    ("cycles_per_turn", "cycles"),
    ("_hz", "Hz"),
    ("_percent", "%"),
)
_UNITS_OF_TABLES = {"throughputs": "operations/cycle", "model_error_points": "points"}


_OMITTED_FIRST = (
    "title",
    "other caches",
    "assumed",
    "target",
    "year",
    "maker",
    "sub-\ngroup",
    "cores",
)
_NUMBERS = ("cores", "sub-\ngroup", "L1", "L2", "DRAM\nGB/s", "assumed")


def machines_table(machines: list[Machine], width: int = 200) -> Table:
    """A table with one line for each machine, by maker and year.

    width : in characters; columns that do not fit are left out: the title first
    """
    ordered = sorted(machines, key=lambda m: (m.vendor.lower(), m.year, m.name))
    rows = [_listed(machine) for machine in ordered]
    longest = {
        name: max(map(len, [*name.split("\n"), *(row[name] for row in rows)])) for name in rows[0]
    }
    shown = list(longest)
    for name in _OMITTED_FIRST:
        if sum(longest[column] + 2 for column in shown) - 2 > width:
            shown.remove(name)
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name in shown:
        table.add_column(name, no_wrap=True, justify="right" if name in _NUMBERS else "left")
    for row in rows:
        table.add_row(*(Text(row[n], style="bold" if n == "machine" else "") for n in shown))
    return table


def _listed(machine: Machine) -> dict[str, str]:
    """Column -> text of a machine in the list."""
    dotted = keys(machine)
    n_assumed = sum(machine.is_assumed(key) for key in dotted)
    sizes = {level.name: _size_text(level, machine.n_cores) for level in machine.levels}
    bandwidth = machine.dram.bandwidth_bytes_per_cycle * machine.clock_hz / 1e9
    return {
        "machine": machine.name,
        "maker": machine.vendor,
        "year": str(machine.year or ""),
        "cores": str(machine.n_cores),
        "sub-\ngroup": str(machine.subgroup_size),
        "L1": sizes.pop("L1", ""),
        "L2": sizes.pop("L2", ""),
        "DRAM\nGB/s": f"{bandwidth:.0f}",
        "target": machine.compiler_target,
        "assumed": f"{100 * n_assumed / len(dotted):.0f} %",
        "other caches": ", ".join(f"{name} {size}" for name, size in sizes.items()),
        "title": machine.title.removeprefix(f"{machine.vendor} "),
    }


def machine_rows(machine: Machine) -> tuple[tuple[str, ...], list[tuple[str | Text, ...]]]:
    """The heads and one row for each value; those that nobody measured or published, and those that were
    fitted to a comparison, are marked."""
    rows: list[tuple[str | Text, ...]] = []
    for key in keys(machine):
        standing = machine.standing(key)
        source = machine.sources.get(key, ASSUMED).removeprefix(standing).lstrip(": ")
        rows.append(
            (
                key,
                value_text(value_of(machine, key)),
                unit_of(key),
                Text(standing, style="yellow"),
                Text(source, style="yellow" if standing else ""),
            )
        )
    return ("parameter", "value", "unit", "", "source"), rows


def _size_text(level: Level, n_cores: int) -> str:
    """`8 x 4 MiB` for eight instances, each shared by several cores."""
    n_instances = level.n_instances(n_cores)
    times = f"{n_instances} x " if n_instances > 1 and level.cores_per_instance > 1 else ""
    return f"{times}{size_text(level.size_bytes)}"


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
