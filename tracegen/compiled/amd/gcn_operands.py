"""The operands of a GCN instruction, and the registers that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_REGISTER = re.compile(
    r"(?<![\w.:])(?:(?P<kind>[vsa])(?:(?P<one>\d+)|\[(?P<first>\d+):(?P<last>\d+)\])"
    r"|(?P<named>vcc|exec)(?P<half>_lo|_hi)?)(?![\w\[])"
)
_OPERAND = re.compile(r"(?:\[[^\]]*\]|\([^)]*\)|\|[^|]*\||[^,\[(|])+")


@lru_cache(maxsize=1 << 14)
def split_operands(operands: str) -> tuple[str, ...]:
    """The operands between top-level commas."""
    return tuple(operand.strip() for operand in _OPERAND.findall(operands) if operand.strip())


@lru_cache(maxsize=1 << 14)
def names(operand: str) -> tuple[str, ...]:
    """The registers of an operand, with or without modifiers: `-v[2:3]`, `|v4|`, `vcc`."""
    return tuple(_names(operand))


def _names(operand: str) -> Iterator[str]:
    for match in _REGISTER.finditer(operand):
        if match["named"]:
            halves = [match["half"]] if match["half"] else ["_lo", "_hi"]
            yield from (match["named"] + half for half in halves)
        elif match["one"]:
            yield match["kind"] + match["one"]
        else:
            first, last = int(match["first"]), int(match["last"])
            yield from (f"{match['kind']}{number}" for number in range(first, last + 1))
