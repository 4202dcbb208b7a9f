"""The variables of a program at namespace scope or in shared memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tracegen.cuda.accesses import MARKED
from tracegen.cuda.ir import Module, split

_VARIABLE = re.compile(
    r'^(?P<name>@(?:"[^"]*"|[-\w.$]+)) = (?P<before>[^=]*?)\b(?P<what>global|constant) (?P<rest>.*)$'
)
_NUMBERS = {
    "float": "f4",
    "double": "f8",
    "i8": "i1",
    "i16": "i2",
    "i32": "i4",
    "i64": "i8",
    "ptr": "p",
}
Memory = Literal["shared", "dynamic", "constant", "global"]


@dataclass(frozen=True)
class Variable:
    """A variable.

    symbol : its name in the program, with `@`; name : in the source
    number : of a single number, f or i and its bytes, as numpy names its type; p for a pointer
    """

    symbol: str
    name: str
    memory: Memory
    size_bytes: int
    line: int
    number: str = ""


def variables(module: Module) -> dict[str, Variable]:
    """The variables by symbol, the compiler's and our own left out."""
    found = {}
    for number, line in enumerate(module.lines):
        match = _VARIABLE.match(line)
        if match is None or match["name"][1:].startswith((MARKED, "llvm.", ".", "_ZTV", "_ZTI")):
            continue
        kind = _type(match["rest"])
        symbol = match["name"]
        found[symbol] = Variable(
            symbol=symbol,
            name=module.name_of_variable(line) or _last_name(symbol),
            memory=_memory(match["before"], match["what"], match["rest"], kind),
            size_bytes=module.layout(kind)[0],
            line=number,
            number=_NUMBERS.get(kind, ""),
        )
    return found


def _last_name(symbol: str) -> str:
    """The last name in a symbol: `x` of `_ZN2ns1xE`."""
    found = symbol[1:].strip('"')
    at = 2 if found.startswith("_Z") else len(found)
    while match := re.search(r"\d+", found[at:]):
        start = at + match.end()
        at = start + int(match[0])
        name = found[start:at]
        if not re.match(r"\d", found[at:]):
            return name or found
    return found


def _type(rest: str) -> str:
    """The type at the beginning of a definition."""
    first = split(rest)[0]
    if first[0] in "[{<":
        depth = 0
        for offset, character in enumerate(first):
            depth += (character in "[{<") - (character in "]}>")
            if depth == 0:
                return first[: offset + 1]
    quoted = re.match(r'%"[^"]*"', first)
    return quoted[0] if quoted else first.split()[0]


def _memory(before: str, what: str, rest: str, kind: str) -> Memory:
    if what == "constant" or "memsim_constant" in rest:
        return "constant"
    if "external " in before and "externally" not in before:
        return "dynamic" if kind.startswith("[0 x") else "global"
    if "externally_initialized" in before:
        return "global"
    return "shared" if re.search(r"\b(?:undef|poison)\b", rest) else "global"
