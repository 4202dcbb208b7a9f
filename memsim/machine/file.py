"""Machine files: TOML in which every value stands beside its source.

    name = "v100"
    title = "NVIDIA Tesla V100 SXM2"
    vendor = "NVIDIA"
    n_cores = { value = 80, source = "NVIDIA Tesla V100 architecture whitepaper" }
    ...
    [residency]   [dram]   [translation]   [throughputs]   [model_error_points]
    [[levels]]    # from the core outward, none at all where nothing is cached
    name = "L1"
    size_bytes = { value = 131072, source = "..." }

The keys are the fields of the dataclasses in `memsim.machine.model` and `memsim.machine.parts`. A key
whose field has a default is optional. JSON has the same structure, and `schema` in addition.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn, get_origin

from memsim.errors import MachineError
from memsim.machine.clocks import at_clock, split_clock
from memsim.machine.model import ASSUMED, Machine
from memsim.machine.parts import Dram, Level, Residency, Translation
from memsim.machine.rules import RuleError, field_types
from memsim.visible import shown, visible

SCHEMA = 1
MAX_FILE_BYTES = 1 << 20
NO_SOURCE = f"{ASSUMED}: the default, no source given"

_PLAIN = ("name", "title", "vendor", "year")  # what needs no source
_UNSET = (None, "")
_RECORDS = {"dram": Dram, "residency": Residency, "translation": Translation}
_TABLES = (*_RECORDS, "throughputs", "model_error_points")


def machine_names() -> list[str]:
    """Names of the machines in this package, sorted."""
    folder = resources.files("memsim.machine").joinpath("shipped")
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    )


def load_machine(machine: Machine | str | os.PathLike[str]) -> Machine:
    """The machine with a shipped name (`v100`), or of a file (`my.toml`, `./mine`); with another core clock
    where one follows (`v100@1200MHz`). A Machine is itself.

    Raises MachineError: one line with the file, the line, the value and the rule it breaks.
    """
    if isinstance(machine, Machine):
        return machine
    if not isinstance(machine, str | os.PathLike):
        raise MachineError(
            f"a machine is a name, a file or a Machine, got {visible(repr(machine)[:40])}"
        )
    text = str(os.fspath(machine))
    name, clock_hz = (text, None) if os.path.isfile(text) else split_clock(text)
    if clock_hz is not None:
        return at_clock(load_machine(name), clock_hz)
    if text in machine_names():
        entry = resources.files("memsim.machine").joinpath("shipped", f"{text}.toml")
        return machine_from_toml(entry.read_text("utf-8"), f"machines/{text}.toml")
    path = Path(text)
    if not (text.endswith(".toml") or path.name != text or os.path.isfile(text)):
        hint = _near(text, machine_names())
        raise MachineError(
            f"unknown machine {shown(text)}{hint}; there are {', '.join(machine_names())},"
            " or give the path of a .toml file"
        )
    content = read_small(text, "a machine file")
    try:
        return machine_from_toml(content.decode("utf-8"), visible(text))
    except UnicodeDecodeError:
        raise MachineError(f"{visible(text)}: a machine file must be UTF-8 text") from None


def read_small(path: str | os.PathLike[str], what: str) -> bytes:
    """A file's content. Raises MachineError where it cannot be read, or is too large for what it is."""
    name = visible(os.fspath(path))
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise MachineError(f"{name}: cannot be read: {error.strerror or error}") from None
    except ValueError:  # a zero byte, or a surrogate that no file name can hold
        raise MachineError(f"{name}: no file has such a name") from None
    if len(content) > MAX_FILE_BYTES:
        raise MachineError(f"{name}: {what} must be at most {MAX_FILE_BYTES} bytes")
    return content


def machine_from_toml(text: str, file_name: str = "<text>") -> Machine:
    """The machine that TOML text describes; raises MachineError with file_name and the line."""
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise MachineError(f"{file_name}: not TOML: nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError, and integers of thousands of digits
        position = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", str(error))
        line = (position and position.group(1)) or str(1 + text.rstrip("\n").count("\n"))
        reason = str(error)[: position.start()] if position else str(error)
        raise MachineError(f"{file_name}:{line}: not TOML: {reason}") from None
    try:
        return _machine(document)
    except RuleError as error:
        line = str(_line_of(error.key, document, index_lines(text)))
        raise MachineError(f"{file_name}:{line}: {error}") from None


def keys(machine: Machine) -> list[str]:
    """The dotted key of every value that has a source, in the order of the file."""
    dotted: list[str] = []
    for name in field_types(Machine):
        value = getattr(machine, name)
        if name == "levels":
            dotted += [f"levels.{level.name}.{key}" for level in value for key in _sourced(Level)]
        elif dataclasses.is_dataclass(value):
            dotted += [f"{name}.{key}" for key in _sourced(type(value))]
        elif isinstance(value, Mapping):
            dotted += [f"{name}.{key}" for key in value if name != "sources"]
        elif name not in _PLAIN and value not in _UNSET:
            dotted.append(name)
    return dotted


def _sourced(record: type[Any]) -> list[str]:
    return [name for name in field_types(record) if name != "name"]


def machine_to_json(machine: Machine) -> str:
    """Every parameter of a machine with its source, as JSON text."""
    return json.dumps({"schema": SCHEMA, **_document(machine, machine.sources, "")})


def _document(record: Any, sources: Mapping[str, str], prefix: str) -> dict[str, Any]:
    """The fields of a machine, or of a part of it, as plain data; prefix : of their dotted keys"""
    document: dict[str, Any] = {}
    for name in field_types(type(record)):
        value, key = getattr(record, name), f"{prefix}{name}"
        if name == "levels":
            document[name] = [_document(one, sources, f"levels.{one.name}.") for one in value]
        elif dataclasses.is_dataclass(value):
            document[name] = _document(value, sources, f"{key}.")
        elif isinstance(value, Mapping):
            if name != "sources":
                document[name] = {
                    entry: _with_source(number, sources, f"{key}.{entry}")
                    for entry, number in value.items()
                }
        elif name in _PLAIN:
            if value:
                document[name] = value
        elif value not in _UNSET:
            document[name] = _with_source(value, sources, key)
    return document


def machine_from_json(text: str) -> Machine:
    """The machine of `machine_to_json`; raises MachineError."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MachineError(f"machine is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise MachineError("machine must be a JSON object")
    if document.pop("schema", None) != SCHEMA:
        raise MachineError(f"schema of a machine must be {SCHEMA}")
    return _machine(document)


def _with_source(value: object, sources: Mapping[str, str], key: str) -> dict[str, object]:
    plain = list(value) if isinstance(value, tuple) else value
    return {"value": plain, "source": sources.get(key, NO_SOURCE)}


def _machine(document: Mapping[str, Any]) -> Machine:
    """The machine of a document; raises RuleError with the key of the value in error."""
    sources: dict[str, str] = {}
    types = field_types(Machine)
    _check_keys(document, [name for name in types if name != "sources"], "", "")
    values: dict[str, Any] = {}
    for name in types:
        if name not in document and name not in ("levels", "dram", "residency"):
            continue
        if name == "levels":
            values[name] = _levels(document, sources)
        elif name in _TABLES:
            table = document.get(name)
            if table is None:
                raise RuleError("", f"missing table [{name}]")
            if not isinstance(table, dict):
                raise RuleError(name, f"{name} must be a table, got {shown(table)}")
            if name in _RECORDS:
                record = _RECORDS[name]
                fields = _fields(table, record, f"{name}.", f" ({name})", sources)
                values[name] = record(**fields)
            else:
                values[name] = {
                    key: _value(entry, f"{name}.{key}", key, float, f" ({name})", sources)
                    for key, entry in table.items()
                }
        elif name in _PLAIN:
            values[name] = document[name]
        else:
            values[name] = _value(document[name], name, name, types[name], "", sources)
    _check_missing(document, Machine, "", "", given=("levels", "dram", "residency"))
    machine = Machine(**values)
    return machine.replace(sources={key: sources.get(key, NO_SOURCE) for key in keys(machine)})


def _levels(document: Mapping[str, Any], sources: dict[str, str]) -> tuple[Level, ...]:
    """The levels of a document; none where there is no list."""
    tables = document.get("levels", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise RuleError("levels", "levels must be an array of tables, [[levels]]")
    levels = []
    for position, table in enumerate(tables):
        name = table.get("name")
        if not isinstance(name, str):
            raise RuleError(
                f"levels.#{position}.name", f"name of level {position + 1} must be a text"
            )
        fields = _fields(table, Level, f"levels.{name}.", f" (level {shown(name)})", sources)
        levels.append(Level(**fields))
    return tuple(levels)


def _fields(
    table: Mapping[str, Any], record: type[Any], prefix: str, where: str, sources: dict[str, str]
) -> dict[str, Any]:
    types = field_types(record)
    _check_keys(table, list(types), prefix, where)
    _check_missing(table, record, prefix, where)
    return {
        name: entry
        if name == "name"
        else _value(entry, prefix + name, name, types[name], where, sources)
        for name, entry in table.items()
    }


def _check_keys(table: Mapping[str, Any], known: list[str], prefix: str, where: str) -> None:
    for key in table:
        if key in known:
            continue
        with_unit = [name for name in known if name.startswith(f"{key}_")]
        hint = (
            f"; a key carries its unit: {' or '.join(with_unit)}"
            if with_unit
            else _near(key, known)
        )
        raise RuleError(prefix + key, f"unknown key {shown(key)}{hint}{where}")


def _check_missing(
    table: Mapping[str, Any],
    record: type[Any],
    prefix: str,
    where: str,
    given: tuple[str, ...] = (),
) -> None:
    for field in dataclasses.fields(record):
        optional = (
            field.default is not dataclasses.MISSING
            or field.default_factory is not dataclasses.MISSING
        )
        if field.name not in table and field.name not in given and not optional:
            raise RuleError(prefix, f"missing key '{field.name}'{where}")


def _value(
    entry: object, key: str, name: str, kind: Any, where: str, sources: dict[str, str]
) -> Any:
    """The value of `{ value = ..., source = ... }`; its source is added to `sources`."""

    def fail(message: str) -> NoReturn:
        raise RuleError(key, f"{message}{where}")

    if not isinstance(entry, dict):
        fail(f'{name} must be {{ value = ..., source = "..." }}, got {shown(entry)}')
    for inner in entry:
        if inner not in ("value", "source"):
            fail(f"unknown key {shown(inner)} in {name}{_near(inner, ('value', 'source'))}")
    if "value" not in entry:
        fail(f"missing value of {name}")
    source = entry.get("source")
    if source is None:
        fail(f"missing source of {name}; write 'assumed' if nobody measured it")
    if not isinstance(source, str) or not source.strip():
        fail(f"source of {name} must be a text, got {shown(source)}")
    sources[key] = visible(source)
    value = entry["value"]
    if get_origin(kind) is tuple and isinstance(value, list):
        return tuple(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value) if abs(value) < 1 << 1000 else value
    return value


def _near(word: str, known: Iterable[str]) -> str:
    matches = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean '{matches[0]}'?" if matches else ""


def _line_of(key: str, document: Mapping[str, Any], lines: Mapping[KeyPath, int]) -> int:
    """Line of a dotted key, or of the innermost table that it belongs to."""
    path: list[str | int] = list(key.split("."))
    if path[0] == "levels" and len(path) > 1:
        position, rest = _level_of(key.removeprefix("levels."), document["levels"])
        path = ["levels", position, rest]
    while path and tuple(path) not in lines:
        path.pop()
    return lines.get(tuple(path), 1)


def _level_of(key: str, levels: list[dict[str, Any]]) -> tuple[int, str]:
    """(position of the level, rest) of a key `NAME.rest` or `#POSITION.rest`.

    If two levels have the same name, it is the later one, which is the one in error.
    """
    if key.startswith("#"):
        number, _, rest = key[1:].partition(".")
        return int(number), rest
    for position in reversed(range(len(levels))):
        prefix = f"{levels[position].get('name')}."
        if key.startswith(prefix):
            return position, key.removeprefix(prefix)
    return 0, ""


KeyPath = tuple[str | int, ...]


def index_lines(text: str) -> dict[KeyPath, int]:
    """Path of keys -> 1-based line of its first occurrence; elements of [[tables]] by position.

    For messages only: keys with escapes, and keys inside inline tables, are missing.
    """
    lines: dict[KeyPath, int] = {}
    n_elements: dict[str, int] = {}
    table: KeyPath = ()
    quote = ""  # the quote of a multi-line string that has not ended
    for number, line in enumerate(text.split("\n"), 1):
        if quote:
            quote = "" if quote in line else quote
            continue
        if match := re.match(r"\s*(\[\[?)\s*([^\[\]=]+?)\s*\]", line):
            first, *rest = _split_key(match.group(2))
            if match.group(1) == "[[" and not rest:
                n_elements[first] = n_elements.get(first, 0) + 1
            element = (n_elements[first] - 1,) if first in n_elements else ()
            table = (first, *element, *rest)
            for length in range(1, len(table) + 1):
                lines.setdefault(table[:length], number)
        elif match := re.match(r"""\s*([\w."' -]+?)\s*=""", line):
            path = (*table, *_split_key(match.group(1)))
            for length in range(len(table) + 1, len(path) + 1):
                lines.setdefault(path[:length], number)
        for mark in ('"""', "'''"):
            if line.count(mark) % 2:
                quote = mark
    return lines


def _split_key(text: str) -> list[str]:
    return [part.strip().strip("\"'") for part in text.split(".")]


def machine_to_toml(machine: Machine, comments: Sequence[str] = ()) -> str:
    """TOML text with every value and its source, after `comments`, one a line.

    Values that equal their default and have no source are omitted. Reading the text gives the same
    machine.
    """
    document: dict[str, Any] = json.loads(machine_to_json(machine))
    document.pop("schema")
    levels = [_without_defaults(level, Level) for level in document.pop("levels")]
    document = _without_defaults(document, Machine)
    for name, record in (("dram", Dram), ("residency", Residency)):
        document[name] = _without_defaults(document[name], record)
    tables = {name: value for name, value in document.items() if _is_table(value)}
    lines = [f"# {' '.join(comment.split())}" for comment in comments]
    lines += _entries({name: v for name, v in document.items() if name not in tables})
    for level in levels:
        lines += ["", "[[levels]]", *_entries(level)]
    for name, table in tables.items():
        if table or name in ("dram", "residency"):
            lines += ["", f"[{name}]", *_entries(table)]
    return "\n".join(lines) + "\n"


def _without_defaults(table: Mapping[str, Any], record: type[Any]) -> dict[str, Any]:
    defaults = {field.name: field.default for field in dataclasses.fields(record)}

    def is_default(name: str, entry: Any) -> bool:
        if _is_table(entry) or not isinstance(entry, dict) or entry["source"] != NO_SOURCE:
            return False
        default = defaults[name]
        return bool(entry["value"] == (list(default) if isinstance(default, tuple) else default))

    return {name: entry for name, entry in table.items() if not is_default(name, entry)}


def _is_table(value: object) -> bool:
    return isinstance(value, dict) and set(value) != {"value", "source"}


def _entries(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(name)} = {_toml_value(value)}" for name, value in table.items()]


def _key(name: str) -> str:
    plain = name.replace("_", "").replace("-", "")
    return name if plain.isascii() and plain.isalnum() else _text(name)


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_toml_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        assert math.isfinite(value), value  # a machine's rules
        return repr(value) if "e" not in repr(value) else f"{value:.17g}"
    return _text(value) if isinstance(value, str) else str(value)


def _text(text: str) -> str:
    """A basic string: TOML has the escapes of JSON, and requires one for DEL besides."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
