"""One SASS instruction with its operands, as nvdisasm writes them."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from typing import Any

from memsim.errors import KernelError

_INSTRUCTION = re.compile(
    r"(?:@(?P<guard>!?U?P[T\d]) )?(?P<opcode>[A-Z]\w*)(?P<modifiers>[\w.]*) ?(?P<rest>.*)$"
)
_INTEGER = re.compile(r"-?0x[0-9a-f]+")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|INF|[QS]NAN)")
_SIGNS = re.compile(
    r"(?P<signs>[-~!]*)(?P<bars>\|?)(?P<name>[^|]*?)(?P=bars)(?P<suffix>(?:\.\w+)*)$"
)
_REGISTER = re.compile(r"(?P<kind>UR|R|UP|P|B)(?P<number>\d+|Z|T)")
_BANK = re.compile(r"c\[0x(?P<bank>[0-9a-f]+)\] ?\[(?P<inside>.*)\]$")
_BRACKETS = re.compile(r"(?P<before>(?:desc\[UR\d+\])?)\[(?P<inside>.*)\]$")
_PART = re.compile(
    r"(?P<sign>-?)(?:(?P<kind>UR|R)(?P<number>\d+|Z)(?P<suffix>(?:\.\w+)*)|0x(?P<offset>[0-9a-f]+))$"
)
NO_REGISTER = -1
"""The number of RZ, URZ, PT and UPT."""


@dataclass(frozen=True)
class Part:
    """A register of an address; wide : it has 64 bits; scale : what it is multiplied by"""

    kind: str
    number: int
    wide: bool
    short: bool
    scale: int


@dataclass(frozen=True)
class Operand:
    """One operand.

    kind : `R`, `UR`, `P`, `UP`, `B`, a register file; `c`, a constant bank; `[]`, an address; `i`, an integer; `f`, a
        number of floating point; `name`, anything else
    number : of the register, or NO_REGISTER; the integer; the bank
    suffix : `H0_H0`, `B1`, `64`
    offset, parts : of an address or of a place in a bank
    """

    text: str
    kind: str
    number: int = 0
    value: float = 0.0
    negative: bool = False
    inverted: bool = False
    absolute: bool = False
    suffix: tuple[str, ...] = ()
    offset: int = 0
    parts: tuple[Part, ...] = ()

    @property
    def is_zero(self) -> bool:
        """Whether it is RZ or URZ, or an integer 0, as it stands."""
        nothing = self.kind in ("R", "UR") and self.number == NO_REGISTER
        return (nothing and not self.inverted) or (self.kind == "i" and self.number == 0)

    @property
    def is_true(self) -> bool:
        """Whether it is PT or UPT."""
        return self.kind in ("P", "UP") and self.number == NO_REGISTER and not self.inverted

    @property
    def is_false(self) -> bool:
        """Whether it is !PT or !UPT."""
        return self.kind in ("P", "UP") and self.number == NO_REGISTER and self.inverted

    @property
    def is_predicate(self) -> bool:
        return self.kind in ("P", "UP")


@dataclass(frozen=True)
class Sass:
    """An instruction.

    base : the opcode without modifiers;  parts : the modifiers in their order;  guard : `!P0`, `` for none
    """

    text: str
    base: str
    parts: tuple[str, ...]
    guard: Operand | None
    operands: tuple[Operand, ...]

    def has(self, *names: str) -> bool:
        """Whether it has one of these modifiers."""
        return any(name in self.parts for name in names)

    def one_of(self, *names: str) -> str:
        """The first of its modifiers that is one of these, `` for none."""
        return next((part for part in self.parts if part in names), "")


def read(text: str) -> Sass:
    """An instruction from its text. Raises KernelError for what is no instruction."""
    match = _INSTRUCTION.match(text)
    if match is None:
        raise KernelError(f"{text!r} is no instruction of SASS")
    rest = match["rest"].replace(".reuse", "")
    return Sass(
        text=text,
        base=match["opcode"],
        parts=tuple(match["modifiers"].split(".")[1:]),
        guard=operand(match["guard"]) if match["guard"] else None,
        operands=tuple(operand(part.strip()) for part in rest.split(", ") if part.strip()),
    )


@functools.lru_cache(maxsize=1 << 14)
def operand(text: str) -> Operand:
    """One operand from its text."""
    if _INTEGER.fullmatch(text):
        return Operand(text, "i", int(text, 16))
    if _NUMBER.fullmatch(text):
        return Operand(text, "f", value=_number(text))
    match = _SIGNS.match(text)
    if match is None:
        return Operand(text, "name")
    signs, name = match["signs"], match["name"]
    place, bracket, after = name.rpartition(
        "]"
    )  # registers within brackets have suffixes of their own
    first, *others = [after] if name.startswith(("SR", "`")) else after.split(".")
    pieces = [f"{place}{bracket}{first}", *others]
    marks: dict[str, Any] = {
        "negative": "-" in signs,
        "inverted": "~" in signs or "!" in signs,
        "absolute": bool(match["bars"]),
        "suffix": tuple(pieces[1:]) + tuple(match["suffix"].split(".")[1:]),
    }
    if register := _REGISTER.fullmatch(pieces[0]):
        number = NO_REGISTER if register["number"] in "ZT" else int(register["number"])
        return Operand(text, register["kind"], number, **marks)
    if bank := _BANK.fullmatch(pieces[0]):
        parts, offset = _inside(bank["inside"])
        if not parts:
            offset &= 0xFFFF  # nvdisasm shows the upper half of a bank as negative
        return Operand(text, "c", int(bank["bank"], 16), offset=offset, parts=parts, **marks)
    if brackets := _BRACKETS.fullmatch(text):
        try:
            parts, offset = _inside(brackets["inside"])
        except KernelError:
            return Operand(text, "name")
        suffix = ("desc",) if brackets["before"] else ()
        return Operand(text, "[]", offset=offset, parts=parts, suffix=suffix)
    return Operand(text, "name")


def _number(text: str) -> float:
    if "NAN" in text:
        return math.copysign(math.nan, -1.0 if text[0] == "-" else 1.0)
    return float(text.lower())


def _inside(text: str) -> tuple[tuple[Part, ...], int]:
    """The registers and the offset of `R2.64+UR4+-0x10`."""
    parts: list[Part] = []
    offset = 0
    for piece in text.split("+"):
        match = _PART.match(piece.strip())
        if match is None:
            raise KernelError(f"[{text}] is no address of SASS")
        if match["offset"] is not None:
            offset += int(match["sign"] + match["offset"], 16)
        elif match["number"] != "Z":
            suffix = match["suffix"].split(".")[1:]
            scale = next((int(name[1:]) for name in suffix if re.fullmatch(r"X\d+", name)), 1)
            parts.append(
                Part(match["kind"], int(match["number"]), "64" in suffix, "U32" in suffix, scale)
            )
    return tuple(parts), offset
