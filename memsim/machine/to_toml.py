"""A machine as the TOML that `memsim.machine.file` reads."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from memsim.machine.file import NO_SOURCE, machine_to_json
from memsim.machine.model import Machine
from memsim.machine.parts import Dram, Level, Residency


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
    return [f"{_key(name)} = {_value(value)}" for name, value in table.items()]


def _key(name: str) -> str:
    plain = name.replace("_", "").replace("-", "")
    return name if plain.isascii() and plain.isalnum() else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        assert math.isfinite(value), value  # a machine's rules
        return repr(value) if "e" not in repr(value) else f"{value:.17g}"
    return _text(value) if isinstance(value, str) else str(value)


def _text(text: str) -> str:
    """A basic string: TOML has the escapes of JSON, and requires one for DEL besides."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
