"""The rules that a machine's values obey, each with the message for a value that breaks it.

A rule that relates several values is a `Rule`. Rules are generated lazily and checked in order, so
each may rely on those before it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from memsim.errors import MachineError
from memsim.machine.parts import Dram, Level, Translation
from memsim.visible import shown

MAX_LINE_BYTES = 256
MIN_SECTOR_BYTES = 32  # the granule of a trace: traces record nothing smaller
LARGEST = 1 << 40
LEAST = 1e-6
"""The least positive number that is no integer: nothing shorter lasts or flows, and quotients stay finite."""
MAX_ENTRIES = 4096
MAX_LEVELS = 8
MAX_LEVEL_LINES = 1 << 25
"""Lines of a level in all its instances together, 4 GiB of 128 bytes. A replay keeps 32 to 96 bytes a line
in arrays that 32 bits index."""
_MOST = {
    "n_cores": 1 << 12,
    "n_schedulers": 1 << 6,
    "n_channels": 1 << 12,
    "n_banks": 1 << 10,
    "max_groups": 1 << 12,
    "max_groups_of_one_subgroup": 1 << 12,
    "tensor_columns": 1 << 12,
    "max_subgroups": 1 << 12,
    "max_registers_per_item": 1 << 12,
    "pending_requests": 1 << 20,
    "year": 9999,
}
"""Counts of which a replay keeps one record each, or tries each."""
SUBGROUP_SIZES = (8, 16, 32, 64)
_SETS_OF_INDEX = {"fermi": {32, 64}, "hopper": {512}}
"""Index functions that are of one cache -> the numbers of sets that they are made for."""
_MAY_BE_ZERO = frozenset({"local_memory_bytes", "row_miss_cycles", "row_conflict_cycles"})
"""Fields that may be 0 although they have no default. A field whose default is empty or 0 may be so too."""
_TARGET = re.compile(r"sm_[1-9][0-9]{1,2}[af]?|gfx[1-9][0-9a-f]{2,3}")


class RuleError(MachineError):
    """A value breaks a rule; `key` is its dotted key, from which a file's reader finds the line."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class Rule(NamedTuple):
    """Whether a value obeys a rule: `key` must `text`; `got` replaces the value in the message."""

    obeyed: bool
    key: str
    text: str
    got: object = None


_hints: Callable[[Any], dict[str, Any]] = functools.cache(get_type_hints)


def field_types(record: type[Any]) -> Mapping[str, Any]:
    """Field name -> type of a dataclass."""
    hints = _hints(record)
    return {f.name: hints[f.name] for f in dataclasses.fields(record)}


def check_machine(machine: Any) -> None:
    """Raises RuleError where a value of a memsim.machine.model.Machine breaks a rule."""
    _check(machine, _machine_rules(machine))
    _check_levels(machine.levels, machine.n_cores)
    _check(machine.dram, _dram_rules(machine.dram), "dram")
    _check(machine.residency, (), "residency")
    if machine.translation is not None:
        _check(machine.translation, _translation_rules(machine.translation), "translation")
    for name, value in machine.throughputs.items():
        _check_value(f"throughputs.{name}", name, value, float, " (throughputs)")
    table, names = "model_error_points", machine.level_names
    for name, value in machine.model_error_points.items():
        _check_value(f"{table}.{name}", name, value, float, f" ({table})", may_be_zero=True)
        if name not in names:
            known = ", ".join(names) or "there is none"
            raise RuleError(
                f"{table}.{name}", f"{table} must name a level ({known}), got {shown(name)}"
            )


def _check(record: Any, rules: Iterable[Rule], table: str = "") -> None:
    """Raises RuleError where a field of a record has the wrong type or is out of range, or for the first broken rule."""
    prefix, where = (f"{table}.", f" ({table})") if table else ("", "")
    _check_fields(record, prefix, where)
    _check_rules(rules, record, prefix, where)


def _check_fields(record: Any, prefix: str, where: str) -> None:
    """prefix : of the dotted key (`levels.L1.`);  where : ends the message (` (level 'L1')`)"""
    types = field_types(type(record))
    for field in dataclasses.fields(record):
        name, kind, value = field.name, types[field.name], getattr(record, field.name)
        if dataclasses.is_dataclass(kind) or name in ("levels", "sources", "translation"):
            continue
        is_full = name == "ways" and value == -1 and isinstance(value, int)
        if get_origin(kind) is Mapping or is_full:
            continue
        may_be_zero = not field.default or name in _MAY_BE_ZERO
        most = _MOST.get(name, LARGEST)
        _check_value(prefix + name, name, value, kind, where, may_be_zero=may_be_zero, most=most)


def _check_rules(rules: Iterable[Rule], record: Any, prefix: str, where: str) -> None:
    for obeyed, key, text, got in rules:
        if not obeyed:
            value = getattr(record, key) if got is None else got
            raise RuleError(prefix + key, f"{key} must {text}, got {value}{where}")


def _machine_rules(machine: Any) -> Iterator[Rule]:
    """Coalescing works on whole eights of lanes, and on equal parts of a sub-group; dies have equally many cores."""
    sizes = ", ".join(map(str, SUBGROUP_SIZES))
    yield Rule(machine.subgroup_size in SUBGROUP_SIZES, "subgroup_size", f"be one of {sizes}")
    yield Rule(
        machine.coalesce_lanes % 8 == 0 and machine.subgroup_size % machine.coalesce_lanes == 0,
        "coalesce_lanes",
        f"be a multiple of 8 that divides subgroup_size ({machine.subgroup_size})",
    )
    target = machine.compiler_target
    yield Rule(
        not target or _TARGET.fullmatch(target) is not None,
        "compiler_target",
        "be NVIDIA's sm_ or AMD's gfx with a number, such as sm_80 or gfx90a",
        shown(target),
    )
    n_cores = machine.n_cores
    yield Rule(n_cores % machine.n_dies == 0, "n_dies", f"divide n_cores ({n_cores})")
    key = "dram_idle_during_l1_percent"
    yield Rule(machine.dram_idle_during_l1_percent <= 100.0, key, "be at most 100")


def _check_levels(levels: tuple[Level, ...], n_cores: int) -> None:
    """Raises RuleError where a level breaks a rule, or does not suit its position."""
    names = [level.name for level in levels]
    if len(levels) > MAX_LEVELS:
        raise RuleError("levels", f"there must be at most {MAX_LEVELS} levels, got {len(levels)}")
    for level in levels:
        prefix, where = _place_of(level)
        if names.count(level.name) > 1:
            raise RuleError(
                f"{prefix}name",
                f"level names must be unique, got {shown(level.name)} more than once",
            )
        _check_fields(level, prefix, where)
        rules = itertools.chain(
            _line_rules(level),
            _size_rules(level, n_cores),
            _policy_rules(level),
            _carveout_rules(level),
        )
        _check_rules(rules, level, prefix, where)
    for position, level in enumerate(levels):
        _check_rules(_position_rules(level, position), level, *_place_of(level))


def _dram_rules(dram: Dram) -> Iterator[Rule]:
    """Bursts make up lines, and between two refreshes there is time for a request."""
    yield Rule(_is_power_of_two(dram.burst_bytes), "burst_bytes", "be a power of two")
    yield Rule(
        dram.sustained_row_hits_percent <= 100.0, "sustained_row_hits_percent", "be at most 100"
    )
    most = f"be at most latency_cycles ({dram.latency_cycles:.10g})"
    yield Rule(dram.far_cycles <= dram.latency_cycles, "far_cycles", most)
    if dram.refresh_cycles:
        longest = dram.row_miss_cycles + dram.n_channels / dram.bandwidth_bytes_per_cycle * max(
            MAX_LINE_BYTES, dram.burst_bytes
        )
        yield Rule(
            dram.refresh_interval_cycles > dram.refresh_cycles + longest,
            "refresh_interval_cycles",
            f"be more than refresh_cycles and a request of {MAX_LINE_BYTES} bytes together"
            f" ({dram.refresh_cycles + longest:.10g})",
        )


def _translation_rules(translation: Translation) -> Iterator[Rule]:
    """A line lies in one page."""
    page = translation.page_bytes
    yield Rule(
        _is_power_of_two(page) and page >= MAX_LINE_BYTES,
        "page_bytes",
        f"be a power of two, at least {MAX_LINE_BYTES}",
    )
    for key in ("entries", "under_way"):
        yield Rule(getattr(translation, key) <= MAX_ENTRIES, key, f"be at most {MAX_ENTRIES}")


def _place_of(level: Level) -> tuple[str, str]:
    """(prefix of the keys, end of the messages) of a level."""
    return f"levels.{level.name}.", f" (level {shown(level.name)})"


def _line_rules(level: Level) -> Iterator[Rule]:
    """A line is made of fills, and a fill of sectors."""
    line, sector = level.line_bytes, level.sector_bytes
    granule = f"be at least {MIN_SECTOR_BYTES}, the granule of a trace"
    yield Rule(level.name.isidentifier(), "name", "be letters, digits and _", repr(level.name))
    yield Rule(_is_power_of_two(line), "line_bytes", "be a power of two")
    yield Rule(line <= MAX_LINE_BYTES, "line_bytes", f"be at most {MAX_LINE_BYTES}")
    yield Rule(_is_power_of_two(sector), "sector_bytes", "be a power of two")
    yield Rule(sector >= MIN_SECTOR_BYTES, "sector_bytes", granule)
    yield Rule(sector <= line, "sector_bytes", f"be at most line_bytes ({line})")
    multiple = f"be a multiple of sector_bytes ({sector})"
    yield Rule(level.fill_bytes % sector == 0, "fill_bytes", multiple)
    yield Rule(level.fill_bytes <= line, "fill_bytes", f"be at most line_bytes ({line})")
    yield Rule(line % level.fill_bytes == 0, "fill_bytes", f"divide line_bytes ({line})")


def _size_rules(level: Level, n_cores: int) -> Iterator[Rule]:
    """A level is made of whole sets, and its index function can address them."""
    ways = level.ways
    yield Rule(ways == -1 or ways > 0, "ways", "be positive, or -1 for fully associative")
    unit = level.line_bytes * level.n_slices * max(ways, 1)
    factors = "line_bytes x n_slices" if ways == -1 else "line_bytes x ways x n_slices"
    if level.tagged_bytes:
        unit, factors = level.line_bytes, "line_bytes"
    yield Rule(level.size_bytes % unit == 0, "size_bytes", f"be a multiple of {factors} ({unit})")
    if level.replacement == "plru":
        yield Rule(_is_power_of_two(level.n_ways), "ways", "be a power of two for plru")
    cores = f"be at most n_cores ({n_cores})"
    yield Rule(level.cores_per_instance <= n_cores, "cores_per_instance", cores)
    n_instances = level.n_instances(n_cores)
    most = f"have at most {MAX_LEVEL_LINES} lines in its {n_instances} instances"
    yield Rule(level.tagged_lines * n_instances <= MAX_LEVEL_LINES, "size_bytes", most)
    pending = f"be at most {_MOST['pending_requests']} in its {n_instances} instances together"
    yield Rule(
        level.pending_requests * n_instances <= _MOST["pending_requests"],
        "pending_requests",
        pending,
    )
    if level.set_index in _SETS_OF_INDEX:
        possible = _SETS_OF_INDEX[level.set_index]
        n_sets = {level.n_sets} | {
            level.resized(left).n_sets
            for left in map(level.size_beside, level.local_carveouts_bytes)
            if left > 0 and left % level.carveout_unit_bytes == 0
        }
        yield Rule(
            level.line_bytes == 128 and level.n_slices == 1 and n_sets <= possible,
            "set_index",
            f"have {' or '.join(map(str, sorted(possible)))} sets of 128-byte lines in one slice where it is"
            f" {level.set_index}",
            f"{level.n_slices} x {level.n_sets} of {level.line_bytes}",
        )
    if level.tagged_bytes:
        unit = level.line_bytes * max(ways, 1)
        yield Rule(
            level.tagged_bytes % unit == 0 and level.tagged_bytes >= level.size_bytes,
            "tagged_bytes",
            f"be at least size_bytes, and a multiple of line_bytes x ways ({unit})",
        )
        yield Rule(
            level.n_slices == 1 and level.replacement in ("lru", "lru_loads", "fifo"),
            "tagged_bytes",
            "be given only with one slice and lru, lru_loads or fifo",
        )


def _policy_rules(level: Level) -> Iterator[Rule]:
    """Some policies exist only together with others."""
    percent = "partial_write_back_percent"
    yield Rule(level.partial_write_back_percent <= 100.0, percent, "be at most 100")
    is_lazy = level.write_policy == "write_back" and level.write_allocate == "lazy_fetch_on_read"
    for key, what in ((percent, "be given"), ("completes_sectors", "be true")):
        only = f"{what} only with write_back and lazy_fetch_on_read"
        yield Rule(is_lazy or not getattr(level, key), key, only)
    if level.replacement == "lru_loads":
        yield Rule(
            level.write_policy == "write_through" and level.allocate == "on_miss",
            "replacement",
            "be lru_loads only with write_through and on_miss",
        )
    if level.allocate == "on_fill":
        yield Rule(
            level.write_policy == "write_through" and level.write_allocate == "none",
            "allocate",
            "be on_miss where stores are kept (write_back, or any write_allocate but none)",
        )


def _carveout_rules(level: Level) -> Iterator[Rule]:
    """Every carve-out leaves the level a whole number of ways, or of sets."""
    key, carveouts = "local_carveouts_bytes", level.local_carveouts_bytes
    yield Rule(
        bool(carveouts) == bool(level.storage_bytes),
        key,
        "be given with storage_bytes, and only then",
        list(carveouts),
    )
    yield Rule(
        level.bank_bytes in (0, 4, 8),
        "bank_bytes",
        "be 4 or 8, or 0 for a level that delivers whole sectors",
        level.bank_bytes,
    )
    ascending = all(a < b for a, b in itertools.pairwise(carveouts))
    yield Rule(ascending, key, "ascend", list(carveouts))
    if carveouts:
        largest = level.storage_bytes - carveouts[0]
        yield Rule(
            level.size_bytes == largest or (level.tagged_bytes > 0 and level.size_bytes < largest),
            "size_bytes",
            f"be what the smallest carve-out leaves of storage_bytes ({largest})",
        )
        yield Rule(
            (level.carveout_takes == "data") == (level.tagged_bytes > 0),
            "carveout_takes",
            "be data where tagged_bytes is given, and only there",
        )
    unit = level.carveout_unit_bytes
    multiple = f"leave a multiple of {level.carveout_unit} ({unit} bytes) of storage_bytes"
    for carveout in carveouts:
        left = level.size_beside(carveout)
        yield Rule(left > 0 and left % unit == 0, key, multiple, carveout)


def _position_rules(level: Level, position: int) -> Iterator[Rule]:
    """The first level belongs to one core; only the second knows which core sent a request."""
    n = level.n_partitions
    yield Rule(
        position > 0 or not level.partial_write_back_percent,
        "partial_write_back_percent",
        "be 0 in the first level, which a core has to itself",
    )
    yield Rule(n == 1 or position == 1, "n_partitions", "be 1 but for the second level")
    for key in ("n_slices", "cores_per_instance"):
        yield Rule(getattr(level, key) % n == 0, key, f"be a multiple of n_partitions ({n})")
    yield Rule(
        n == 1 or level.allocate == "on_miss",
        "allocate",
        "be on_miss where n_partitions is more than 1",
    )


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def _check_value(
    key: str,
    name: str,
    value: Any,
    kind: Any,
    where: str,
    *,
    may_be_zero: bool = False,
    most: int = LARGEST,
) -> None:
    """Raises RuleError unless value is a `kind` in range; may_be_zero : or, of a text, empty"""

    def fail(rule: str) -> None:
        raise RuleError(key, f"{name} must {rule}, got {shown(value)}{where}")

    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            fail(f"be one of {', '.join(get_args(kind))}")
    elif kind is bool:
        if not isinstance(value, bool):
            fail("be true or false")
    elif kind is str:
        if not isinstance(value, str) or not (value or may_be_zero):
            fail("be a text")
        if not value.isprintable():
            fail("be one line of text without control characters")
    elif get_origin(kind) is tuple:
        if not isinstance(value, tuple):
            fail("be a list of integers")
        for item in value:
            _check_value(key, name, item, int, where, may_be_zero=may_be_zero)
    elif isinstance(value, bool) or not isinstance(value, int if kind is int else int | float):
        fail("be an integer" if kind is int else "be a number")
    elif isinstance(value, float) and not math.isfinite(value):
        fail("be finite")
    elif value < 0 or (value == 0 and not may_be_zero):
        fail("not be negative" if may_be_zero else "be positive")
    elif value > most:
        fail(f"be at most {most}")
    elif kind is float and 0 < value < LEAST:
        fail(f"be at least {LEAST:g}")
