"""The rules that a machine's values keep, each with the words to say that one was broken."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from memsim.errors import MachineError

if TYPE_CHECKING:
    from memsim.machine.model import Level, Machine, Translation

MAX_LINE_BYTES = 256
MIN_SECTOR_BYTES = 32  # the granule of a trace: nothing smaller can be told apart
LARGEST = 1 << 40
MAX_ENTRIES = 4096
SUBGROUP_SIZES = (8, 16, 32, 64)
_MAY_BE_ZERO = frozenset(
    {
        "storage_bytes",
        "local_carveouts_bytes",
        "local_memory_bytes",
        "local_memory_reserved_bytes",
        "max_groups_of_one_subgroup",
        "row_miss_cycles",
        "row_conflict_cycles",
        "refresh_interval_cycles",
        "refresh_cycles",
        "far_latency_cycles",
        "partial_write_back_percent",
        "sustained_bandwidth_bytes_per_cycle",
        "group_start_cycles",
        "store_wait_cycles",
        "model_error_points",
    }
)


class RuleError(MachineError):
    """A value breaks a rule; `key` is its dotted key, for whoever knows where that stands."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def shown(value: object) -> str:
    """What stands in a message for a value from outside: one line, and not a long one."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of thousands of digits
        return "a huge number"
    return text if len(text) <= 60 else f"{text[:57]}..."


def field_types(record: type[Any]) -> Mapping[str, Any]:
    """Field name -> type of a dataclass."""
    hints = get_type_hints(record)
    return {f.name: hints[f.name] for f in dataclasses.fields(record)}


def check_machine(machine: Machine) -> None:
    """Raises MachineError where a value has the wrong type or range or contradicts another."""
    _check_fields(machine, "", "")
    if machine.subgroup_size not in SUBGROUP_SIZES:
        sizes = ", ".join(map(str, SUBGROUP_SIZES))
        raise RuleError(
            "subgroup_size", f"subgroup_size must be one of {sizes}, got {machine.subgroup_size}"
        )
    if machine.coalesce_lanes % 8 or machine.subgroup_size % machine.coalesce_lanes:
        raise RuleError(
            "coalesce_lanes",
            f"coalesce_lanes must be a multiple of 8 that divides subgroup_size"
            f" ({machine.subgroup_size}), got {machine.coalesce_lanes}",
        )
    names = machine.level_names
    for level in machine.levels:
        if names.count(level.name) > 1:
            raise RuleError(
                f"levels.{level.name}.name",
                f"level names must be unique, got {shown(level.name)} more than once",
            )
        _check_level(level, machine.n_cores)
    _check_positions(machine)
    _check_fields(machine.dram, "dram.", " (dram)")
    _check_fields(machine.residency, "residency.", " (residency)")
    if machine.translation is not None:
        _check_translation(machine.translation)
    dram = machine.dram
    if dram.refresh_cycles and dram.refresh_interval_cycles <= dram.refresh_cycles:
        raise RuleError(
            "dram.refresh_interval_cycles",
            f"refresh_interval_cycles must be more than refresh_cycles ({dram.refresh_cycles}),"
            f" got {dram.refresh_interval_cycles} (dram)",
        )
    for table in ("throughputs", "model_error_points"):
        for name, value in getattr(machine, table).items():
            _check_value(f"{table}.{name}", table, name, value, float, f" ({table})")
    for name in machine.model_error_points:
        if name not in names:
            raise RuleError(
                f"model_error_points.{name}",
                f"model_error_points must name a level ({', '.join(names) or 'there is none'}),"
                f" got {shown(name)}",
            )


def _check_level(level: Level, n_cores: int) -> None:
    prefix, where = f"levels.{level.name}.", f" (level {shown(level.name)})"
    _check_fields(level, prefix, where)

    def demand(kept: bool, key: str, rule: str, got: object = None) -> None:
        if not kept:
            value = getattr(level, key) if got is None else got
            raise RuleError(prefix + key, f"{key} must {rule}, got {value}{where}")

    demand(level.name.isidentifier(), "name", "be letters, digits and _", repr(level.name))
    line, sector = level.line_bytes, level.sector_bytes
    demand(_is_power_of_two(line), "line_bytes", "be a power of two")
    demand(line <= MAX_LINE_BYTES, "line_bytes", f"be at most {MAX_LINE_BYTES}")
    demand(_is_power_of_two(sector), "sector_bytes", "be a power of two")
    demand(
        sector >= MIN_SECTOR_BYTES,
        "sector_bytes",
        f"be at least {MIN_SECTOR_BYTES}, the granule of a trace",
    )
    demand(sector <= line, "sector_bytes", f"be at most line_bytes ({line})")
    demand(
        level.fill_bytes % sector == 0,
        "fill_bytes",
        f"be a multiple of sector_bytes ({sector})",
    )
    demand(level.fill_bytes <= line, "fill_bytes", f"be at most line_bytes ({line})")
    demand(line % level.fill_bytes == 0, "fill_bytes", f"divide line_bytes ({line})")
    demand(level.ways == -1 or level.ways > 0, "ways", "be positive, or -1 for fully associative")
    unit = line * level.n_slices * max(level.ways, 1)
    parts = "line_bytes x n_slices" if level.ways == -1 else "line_bytes x ways x n_slices"
    demand(
        level.size_bytes % unit == 0,
        "size_bytes",
        f"be a multiple of {parts} ({unit})",
    )
    if level.replacement == "plru":
        demand(_is_power_of_two(level.n_ways), "ways", "be a power of two for plru")
    demand(
        level.cores_per_instance <= n_cores,
        "cores_per_instance",
        f"be at most n_cores ({n_cores})",
    )
    _check_fermi(level, demand)
    if level.partial_write_back_percent:
        percent = "partial_write_back_percent"
        demand(level.partial_write_back_percent <= 100.0, percent, "be at most 100")
        demand(
            level.write_policy == "write_back" and level.write_allocate == "lazy_fetch_on_read",
            percent,
            "be given only with write_back and lazy_fetch_on_read",
        )
    if level.allocate == "on_fill":
        demand(
            level.write_policy == "write_through" and level.write_allocate == "none",
            "allocate",
            "be on_miss where stores are kept (write_back, or any write_allocate but none)",
        )
    carveouts = level.local_carveouts_bytes
    demand(
        bool(carveouts) == bool(level.storage_bytes),
        "local_carveouts_bytes",
        "be given with storage_bytes, and only then",
        list(carveouts),
    )
    demand(
        all(a < b for a, b in itertools.pairwise(carveouts)),
        "local_carveouts_bytes",
        "ascend",
        list(carveouts),
    )
    if carveouts:
        demand(
            level.size_bytes == level.storage_bytes - carveouts[0],
            "size_bytes",
            f"be what the smallest carve-out leaves of storage_bytes"
            f" ({level.storage_bytes - carveouts[0]})",
        )
    unit = level.carveout_unit_bytes
    for carveout in carveouts:
        left = level.storage_bytes - carveout
        demand(
            left > 0 and left % unit == 0,
            "local_carveouts_bytes",
            f"leave a multiple of {level.carveout_unit} ({unit} bytes) of storage_bytes",
            carveout,
        )


def _check_fermi(level: Level, demand: Callable[..., None]) -> None:
    if level.set_index == "fermi":
        sets = {level.n_sets} | {
            level.resized(level.storage_bytes - taken).n_sets
            for taken in level.local_carveouts_bytes
            if taken < level.storage_bytes
            and (level.storage_bytes - taken) % level.carveout_unit_bytes == 0
        }
        demand(
            level.line_bytes == 128 and level.n_slices == 1 and sets <= {32, 64},
            "set_index",
            "have 32 or 64 sets of 128-byte lines in one slice where it is fermi",
            f"{level.n_slices} x {level.n_sets} of {level.line_bytes}",
        )


def _check_positions(machine: Machine) -> None:
    """The first level is a core's own; only the second knows which core asks."""
    for position, level in enumerate(machine.levels):
        prefix, where = f"levels.{level.name}.", f" (level {shown(level.name)})"
        if level.partial_write_back_percent and position == 0:
            raise RuleError(
                f"{prefix}partial_write_back_percent",
                "partial_write_back_percent must be 0 in the first level, which a core has to itself,"
                f" got {level.partial_write_back_percent}{where}",
            )
        if level.n_partitions == 1:
            continue
        if position != 1:
            raise RuleError(
                f"{prefix}n_partitions",
                f"n_partitions must be 1 but for the second level, got {level.n_partitions}{where}",
            )
        for key in ("n_slices", "cores_per_instance"):
            if getattr(level, key) % level.n_partitions:
                raise RuleError(
                    prefix + key,
                    f"{key} must be a multiple of n_partitions ({level.n_partitions}),"
                    f" got {getattr(level, key)}{where}",
                )
        if level.allocate == "on_fill":
            raise RuleError(
                f"{prefix}allocate", f"allocate must be on_miss where n_partitions is more{where}"
            )


def _check_translation(translation: Translation) -> None:
    _check_fields(translation, "translation.", " (translation)")
    page = translation.page_bytes
    if not _is_power_of_two(page) or page < MAX_LINE_BYTES:
        raise RuleError(
            "translation.page_bytes",
            f"page_bytes must be a power of two, at least {MAX_LINE_BYTES}, got {page} (translation)",
        )
    if translation.entries > MAX_ENTRIES:
        raise RuleError(
            "translation.entries",
            f"entries must be at most {MAX_ENTRIES}, got {translation.entries} (translation)",
        )


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def _check_fields(record: Any, prefix: str, where: str) -> None:
    for name, kind in field_types(type(record)).items():
        if dataclasses.is_dataclass(kind) or name in ("levels", "sources", "translation"):
            continue
        if get_origin(kind) is Mapping:
            continue
        value = getattr(record, name)
        _check_value(prefix + name, name, name, value, kind, where)


def _check_value(key: str, field_name: str, name: str, value: Any, kind: Any, where: str) -> None:
    """Raises RuleError unless value is a `kind` in the range that this field allows."""

    def fail(rule: str) -> None:
        raise RuleError(key, f"{name} must {rule}, got {shown(value)}{where}")

    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            fail(f"be one of {', '.join(get_args(kind))}")
    elif kind is bool:
        if not isinstance(value, bool):
            fail("be true or false")
    elif kind is str:
        if not isinstance(value, str) or not value:
            fail("be a text")
    elif get_origin(kind) is tuple:
        if not isinstance(value, tuple):
            fail("be a list of integers")
        for item in value:
            _check_value(key, field_name, name, item, int, where)
    elif isinstance(value, bool) or not isinstance(value, int if kind is int else int | float):
        fail("be an integer" if kind is int else "be a number")
    elif isinstance(value, float) and not math.isfinite(value):
        fail("be finite")
    elif field_name == "ways" and value == -1:
        return
    elif value < 0 or (value == 0 and field_name not in _MAY_BE_ZERO):
        fail("not be negative" if field_name in _MAY_BE_ZERO else "be positive")
    elif value > LARGEST:
        fail(f"be at most {LARGEST}")
