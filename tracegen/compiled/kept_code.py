"""Machine code as the compilers' cache keeps it: what was read from a listing need not be read again.

Instructions are rows of their fields. Places in memory and in the text that several instructions share are kept once.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tracegen.compiled.model import (
    BasicBlock,
    Instruction,
    Location,
    MachineCode,
    MemoryOperation,
)
from tracegen.tools import cache
from tracegen.tools.headers import unchanged

_NUMBERED = {"memory": MemoryOperation, "location": Location}
"""Fields of an instruction that are kept as numbers of the values of a table."""
_FIELDS = [field.name for field in dataclasses.fields(Instruction)]
_TABLES = [(_FIELDS.index(name), name, kind) for name, kind in _NUMBERED.items()]
_SEQUENCES = [_FIELDS.index(name) for name in ("reads", "writes")]


def machine_code(
    key: str, make: Callable[[], tuple[MachineCode, Mapping[str, Any]]]
) -> MachineCode:
    """The code under a key of the cache, or else that which `make` returns with its headers; it is saved then."""
    code = load(key)
    if code is None:
        code, headers = make()
        save(key, code, headers)
    return code


def load(key: str) -> MachineCode | None:
    """The code saved under a key of the cache; None if there is none, or a header that it includes has changed."""
    content = cache.load(key, "code")
    if content is None or not unchanged(content.get("headers")):
        return None
    try:
        return _code(json.loads(content["code"]))
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, RecursionError):
        return None


def save(key: str, code: MachineCode, headers: Mapping[str, Any]) -> None:
    """Saves code; headers : the files that it includes, see tracegen.tools.headers."""
    cache.save(key, {"code": json.dumps(_content(code)), "headers": headers})


def _content(code: MachineCode) -> dict[str, Any]:
    tables: dict[str, dict[Any, int]] = {name: {None: 0} for name in _NUMBERED}
    content = {
        field.name: getattr(code, field.name)
        for field in dataclasses.fields(code)
        if field.name != "blocks"
    }
    content["tools"] = dict(code.tools)
    content["blocks"] = [
        [block.label, [_row(one, tables) for one in block.instructions], block.successors]
        for block in code.blocks
    ]
    content["tables"] = {
        name: [dataclasses.astuple(value) for value in table if value is not None]
        for name, table in tables.items()
    }
    return content


def _row(instruction: Instruction, tables: Mapping[str, dict[Any, int]]) -> list[Any]:
    row = [getattr(instruction, name) for name in _FIELDS]
    for at, name, _ in _TABLES:
        row[at] = tables[name].setdefault(row[at], len(tables[name]))
    return row


def _code(content: dict[str, Any]) -> MachineCode:
    tables = {
        name: [None, *(_made(kind, values) for values in content["tables"][name])]
        for name, kind in _NUMBERED.items()
    }
    blocks = [
        BasicBlock(
            label=label,
            instructions=tuple(_instruction(row, tables) for row in rows),
            successors=tuple(successors),
        )
        for label, rows, successors in content["blocks"]
    ]
    others = {name: value for name, value in content.items() if name not in ("blocks", "tables")}
    return MachineCode(**others | {"blocks": tuple(blocks), "notes": tuple(content["notes"])})


def _made(kind: type, values: Sequence[Any]) -> Any:
    names = (field.name for field in dataclasses.fields(kind))
    return kind(**dict(zip(names, values, strict=True)))


def _instruction(row: list[Any], tables: Mapping[str, Sequence[Any]]) -> Instruction:
    for at, name, _ in _TABLES:
        row[at] = tables[name][row[at]]
    for at in _SEQUENCES:
        row[at] = tuple(row[at])
    # The constructor of a frozen class takes three times as long.
    instruction = object.__new__(Instruction)
    instruction.__dict__.update(zip(_FIELDS, row, strict=True))
    return instruction
