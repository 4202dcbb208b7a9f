"""An instruction of AMD's assembly as text, taken apart: opcode, encoding, operands and modifiers."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tracegen.compiled.amd.gcn_opcodes import split_operands

Kind = Literal["b32", "b64", "i64", "f16", "f32", "f64"]
"""Of an operand: how many bits it has, and how a number in the text is meant."""

_FORM = re.compile(r"_(e32|e64|sdwa|e64_dpp|e64_dpp8|dpp|dpp8)$")
_SHORT = re.compile(r"s_(mov|add|co_add|mul|cmov|cmp)k_")
"""Instructions with an immediate of 16 bits, which is extended with its sign unless they are unsigned."""
_NUMBER = re.compile(r"-?(0x[0-9a-f]+|\d+)$")
_INVERSE_TURN = {"f16": 0x3118, "f32": 0x3E22F983, "f64": 0x3FC45F306DC9C882}
"""1 / (2 pi), which is an inline constant."""
_WORD = 0xFFFFFFFF


@dataclass(frozen=True)
class Parsed:
    """An instruction.

    opcode : without the suffix of its encoding
    form : e32, e64, sdwa, dpp and so on, or ""
    operands : as the text has them, with signs and bars
    modifiers : name -> value, `offset` -> `16`, `clamp` -> ``
    """

    opcode: str
    form: str
    operands: tuple[str, ...]
    modifiers: dict[str, str]

    def number(self, modifier: str, default: int = 0) -> int:
        return int(self.modifiers[modifier], 0) if modifier in self.modifiers else default

    def with_operands(self, operands: tuple[str, ...], modifiers: dict[str, str]) -> Parsed:
        return Parsed(self.opcode, self.form, operands, modifiers)

    def listed(self, modifier: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """The numbers of `op_sel:[0,1]`, made as long as the default."""
        if modifier not in self.modifiers:
            return default
        text = self.modifiers[modifier].strip("[]")
        found = tuple(int(one, 0) for one in text.split(",") if one)
        return found + default[len(found) :]


@lru_cache(maxsize=1 << 14)
def parse(text: str) -> tuple[Parsed, ...]:
    """The instruction, or the two that run at once in `v_dual_mov_b32 v0, v1 :: v_dual_add_f32 v2, v3, v4`."""
    return tuple(_parsed(part.strip()) for part in text.split("::"))


def _parsed(text: str) -> Parsed:
    opcode, _, rest = text.partition(" ")
    rest = re.sub(r",\s+(?=[^(]*\))", ",", rest)
    operands: list[str] = []
    modifiers: dict[str, str] = {}
    for piece in split_operands(rest):
        first, *others = piece.split()
        operands.append(first)
        modifiers.update(other.partition(":")[::2] for other in others)
    if _SHORT.match(opcode) and not opcode.endswith("u32"):
        operands[-1] = str((int(operands[-1], 0) & 0xFFFF ^ 0x8000) - 0x8000)
    form = _FORM.search(opcode)
    opcode = opcode[: form.start()] if form else opcode
    return Parsed(
        opcode.replace("v_dual_", "v_"), form[1] if form else "", tuple(operands), modifiers
    )


@lru_cache(maxsize=1 << 12)
def number(text: str, kind: Kind) -> int | None:
    """The bits of a constant operand; None if the text is none.

    Of 64-bit floating-point numbers a literal of 32 bits is the high half (AMD, "CDNA3" Instruction Set Architecture,
    section "Literal constants").
    """
    if _NUMBER.match(text):
        value = int(text, 0)
        if kind == "f64" and not -16 <= value <= 64:
            return (value & _WORD) << 32
        if kind == "i64" and value >> 31 == 1:
            value -= 1 << 32
        return value & (1 << 64) - 1 if kind in ("b64", "i64", "f64") else value & _WORD
    try:
        real = float(text)
    except ValueError:
        return None
    if kind[0] != "f":
        kind = "f64" if kind in ("b64", "i64") else "f32"
    if f"{real:.7f}" == "0.1591549":
        return _INVERSE_TURN[kind]
    code = {"f16": "e", "f32": "f", "f64": "d"}[kind]
    return int.from_bytes(struct.pack(f"<{code}", real), "little")
