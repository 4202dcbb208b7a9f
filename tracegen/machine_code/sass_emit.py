"""What lowering of SASS shares: the rows and masks of operands, and the table of handlers."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tracegen.compiled.model import Instruction
from tracegen.execution import operations as o
from tracegen.execution.code import Assembler
from tracegen.execution.operations import (
    ALWAYS,
    FIRST_MASK,
    NEVER,
    TRASH_MASK,
    TRASH_ROW,
    ZERO_ROW,
)
from tracegen.machine_code.sass_text import NO_REGISTER, Operand, Sass

Handler = Callable[["Emitter", Sass], None]


class UnknownInstruction(Exception):
    """The tables have no such instruction, or not with such operands."""


HANDLERS: dict[str, tuple[Handler, frozenset[str]]] = {}
"""Opcode without modifiers -> what lowers it, and the modifiers that it understands."""


def lowers(opcodes: str, modifiers: str = "") -> Callable[[Handler], Handler]:
    """Enters a handler for these opcodes. Other modifiers than those named make an instruction unknown."""

    def entered(handler: Handler) -> Handler:
        HANDLERS.update((name, (handler, frozenset(modifiers.split()))) for name in opcodes.split())
        return handler

    return entered


FIELDS = ("a", "b", "c")
"""Of sources."""
FLOAT_SIGNS = {
    "a": (o.NEGATE_A, o.ABSOLUTE_A),
    "b": (o.NEGATE_B, o.ABSOLUTE_B),
    "c": (o.NEGATE_C, o.ABSOLUTE_C),
}
_ROUNDING = {"RM": o.ROUND_DOWN, "RP": o.ROUND_UP, "RZ": o.ROUND_ZERO}


_SYMBOL = re.compile(r"32@(?P<half>lo|hi)\((?P<name>[\w$.]+)\)")
"""Half of the address of a variable of the program."""


def float_bits(value: float) -> int:
    """The 32 bits of a number."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def double_words(value: float) -> tuple[int, int]:
    """The low and the high half of a double."""
    low, high = struct.unpack("<II", struct.pack("<d", value))
    return low, high


def half_bits(value: float) -> int:
    """The 16 bits of a half."""
    return int(struct.unpack("<H", struct.pack("<e", value))[0])


@dataclass
class Emitter:
    """Writes the micro-operations of one instruction after another.

    sizes : register file -> how many registers the code uses
    guard : of the instruction, as a source mask
    outside : what a call of a function outside the code is: 1 a failed assertion, 2 a copy to another block of a cluster, which no block here
        makes, 0 anything else
    yields : whether who comes to a barrier in memory lets the others go on first, so that copies are recorded where they are started
    follows : what the instruction that follows in the block begins with, less `NOP`; empty at its end
    chosen : the row whose bits choose the lanes of the next reduction; 0 where all are meant
    """

    assembler: Assembler
    sizes: dict[str, int]
    instruction: Instruction = field(
        default_factory=lambda: Instruction(opcode="", text="", pipe="other")
    )
    guard: int = ALWAYS
    scratch: dict[int, int] = field(default_factory=dict)
    copy_slots: frozenset[int] = frozenset()
    """The scoreboards of groups of copies to local memory."""
    outside: int = 0
    yields: bool = False
    follows: str = ""
    chosen: int = 0

    def begin(self, instruction: Instruction, sass: Sass) -> None:
        self.instruction = instruction
        self.scratch = {}
        self.guard = ALWAYS
        if sass.guard is not None:
            self.guard = self.mask(sass.guard)
            if f"{sass.guard.kind}{sass.guard.number}" in instruction.writes:
                kept = self.temporary_mask()
                self.emit("MASK_LOGIC3", guard=ALWAYS, d=kept, m=self.guard, x=0xF0)
                self.guard = 2 * kept

    def emit(self, name: str, *, guard: int | None = None, **fields: Any) -> None:
        """A micro-operation under the instruction's guard, or another one."""
        self.assembler.emit(name, guard=self.guard if guard is None else guard, **fields)

    # --- rows -----------------------------------------------------------------------------------------
    def temporary(self, words: int = 1) -> int:
        """Rows that hold a value within the instruction, others at each call."""
        number = self.scratch.get(words, 0)
        self.scratch[words] = number + 1
        return self.assembler.rows(f"scratch {words} {number}", words)

    def temporary_mask(self) -> int:
        """A mask that holds a value within the instruction, another at each call."""
        number = self.scratch.get(0, 0)
        self.scratch[0] = number + 1
        return self.assembler.temporary_mask(number)

    def constant(self, *words: int) -> int:
        return self.assembler.constant(*words)

    def register(self, kind: str, number: int, words: int = 1) -> int:
        """The first row of a register; zeros of RZ."""
        if number == NO_REGISTER:
            return ZERO_ROW if words <= 2 else self.constant(*[0] * words)
        return self.assembler.rows(kind, self.sizes[kind]) + number

    def result(self, operand: Operand) -> int:
        """The first row of a register that is written."""
        if operand.kind not in ("R", "UR", "B"):
            raise UnknownInstruction
        return (
            TRASH_ROW
            if operand.number == NO_REGISTER
            else self.register(operand.kind, operand.number)
        )

    def plain(self, operand: Operand, words: int = 1) -> int:
        """The first row of an operand, without its sign."""
        if operand.kind in ("R", "UR", "B"):
            return self.register(operand.kind, operand.number, words)
        if operand.kind == "i":
            extension = -1 if operand.number < 0 else operand.number >> 32
            return self.constant(operand.number, *[extension] * (words - 1))
        if operand.kind == "c" and not operand.parts:
            return self.assembler.bank(operand.number, operand.offset, words)
        if operand.kind == "c":
            row = self.temporary(words)
            self.load_constant(row, operand, 4 * words)
            return row
        if symbol := _SYMBOL.fullmatch(operand.text):
            return self.assembler.symbol(symbol["name"]) + (symbol["half"] == "hi")
        raise UnknownInstruction

    def load_constant(self, row: int, operand: Operand, size: int, flags: int = 0) -> None:
        """Loads from a constant bank at an address that registers give."""
        first, *others = operand.parts or (None,)
        if others or (first is not None and (first.wide or first.scale != 1)):
            raise UnknownInstruction
        a = self.register(first.kind, first.number) if first is not None else ZERO_ROW
        x = o.CONSTANT | size << o.BYTES | flags
        self.emit("LOAD_CONSTANT", d=row, a=a, n=operand.number << 1, y=operand.offset, x=x)

    def whole(self, operand: Operand) -> int:
        """A row with the operand as an integer, its sign applied."""
        if operand.kind == "i" and (operand.negative or operand.inverted):
            return self.constant(-operand.number if operand.negative else ~operand.number)
        row = self._part(operand)
        for wanted, name, fields in (
            (operand.absolute, "ABSOLUTE", {}),
            (operand.negative, "ADD3", {"x": o.NEGATE_A}),
            (operand.inverted, "LOGIC3", {"y": 0x0F}),
        ):
            if wanted:
                changed = self.temporary()
                self.emit(name, d=changed, a=row, **fields)
                row = changed
        return row

    def _part(self, operand: Operand) -> int:
        """A byte or half of an operand, where it names one."""
        row, at = self.plain(operand), -1
        for name in operand.suffix:
            if name[0] == "B" and name[1:].isdigit():
                at, bits = 8 * int(name[1:]), 8
            elif name in ("H0", "H1"):
                at, bits = 16 * int(name[1:]), 16
            elif name not in ("64", "U32", "H0_H0"):
                raise UnknownInstruction
        if at < 0:
            return row
        part = self.temporary()
        self.emit("BIT_FIELD_U", d=part, a=row, b=self.constant(at), c=self.constant(bits))
        return part

    def signed(self, operand: Operand) -> tuple[int, bool]:
        """A row with the operand as an integer, and whether it is to be negated."""
        if not operand.negative or operand.absolute or operand.inverted or operand.kind == "i":
            return self.whole(operand), False
        return self._part(operand), True

    def wide(self, operand: Operand) -> int:
        """Two rows with the operand as an integer of 64 bits, its sign applied."""
        row = self.plain(operand, 2)
        if operand.inverted:
            changed = self.temporary(2)
            for half in range(2):
                self.emit("LOGIC3", d=changed + half, a=row + half, y=0x0F)
            row = changed
        if operand.negative:
            changed = self.temporary(2)
            self.emit("ADD64", d=changed, a=row, x=o.NEGATE_A)
            row = changed
        return row

    def number(self, operand: Operand, field: str) -> tuple[int, int]:
        """A row with the operand as a float, and its sign as a modifier of this field."""
        if operand.kind == "f":
            return self.constant(float_bits(operand.value)), 0
        return self.plain(operand), self.sign(operand, field)

    def double(self, operand: Operand, field: str) -> tuple[int, int]:
        """Two rows with the operand as a double, and its sign as a modifier of this field."""
        if operand.kind == "f":
            return self.constant(*double_words(operand.value)), 0
        if operand.kind == "i":
            return self.constant(0, operand.number), self.sign(operand, field)
        return self.plain(operand, 2), self.sign(operand, field)

    @staticmethod
    def sign(operand: Operand, field: str) -> int:
        negate, absolute = FLOAT_SIGNS[field]
        return (negate if operand.negative else 0) | (absolute if operand.absolute else 0)

    # --- masks ----------------------------------------------------------------------------------------
    def mask(self, operand: Operand) -> int:
        """A predicate as a source mask."""
        if not operand.is_predicate:
            raise UnknownInstruction
        if operand.number == NO_REGISTER:
            return NEVER if operand.inverted else ALWAYS
        return 2 * self._mask(operand) + operand.inverted

    def result_mask(self, operand: Operand) -> int:
        """A predicate that is written."""
        if not operand.is_predicate:
            raise UnknownInstruction
        return TRASH_MASK if operand.number == NO_REGISTER else self._mask(operand)

    def _mask(self, operand: Operand) -> int:
        return self.assembler.mask(f"{operand.kind}{operand.number}")

    def both(self, mask: int) -> int:
        """The lanes of the guard that a mask has, too."""
        if self.guard == ALWAYS or mask == NEVER:
            return mask
        if mask in (ALWAYS, self.guard):
            return self.guard
        joined = self.temporary_mask()
        self.emit("MASK_LOGIC3", guard=ALWAYS, d=joined, m=self.guard, n=mask, x=0xC0)
        return 2 * joined

    # --- what many instructions end with --------------------------------------------------------------
    def move(self, d: int, a: int, words: int = 1) -> None:
        """Copies rows."""
        if d in (TRASH_ROW, a):
            return
        for at in range(0, words - 1, 2):
            self.emit("MOVE2", d=d + at, a=a + at)
        if words & 1:
            self.emit("MOVE", d=d + words - 1, a=a + words - 1)

    def either(self, names: tuple[str, str], first: Operand, words: int = 1, **fields: Any) -> int:
        """Rows with what the first of two operations gives where a predicate is set, else what the second one does."""
        found = []
        for name, needed in zip(names, (not first.is_false, not first.is_true), strict=True):
            if needed:
                found.append(self.temporary(words))
                self.emit(name, d=found[-1], **fields)
        row = self.temporary(words) if len(found) == 2 else found[0]
        for k in range(words if len(found) == 2 else 0):
            self.emit("SELECT", d=row + k, a=found[0] + k, b=found[1] + k, m=self.mask(first))
        return row

    def move_mask(self, d: int, m: int) -> None:
        """Copies a mask."""
        if d >= FIRST_MASK:
            self.emit("MASK_LOGIC3", d=d, m=m, x=0xF0)


def float_modifiers(sass: Sass) -> int:
    """Rounding, flushing and saturation of an instruction, as modifiers."""
    rounding = _ROUNDING.get(sass.one_of(*_ROUNDING), 0)
    return rounding | (o.FLUSH if sass.has("FTZ") else 0) | (o.SATURATE if sass.has("SAT") else 0)


def carries(sass: Sass) -> tuple[list[Operand], Operand, list[Operand]]:
    """The predicates that carry out, the result, and the sources. The result may stand before or behind them."""
    operands = list(sass.operands)
    masks: list[Operand] = []
    result: Operand | None = None
    while operands and (operands[0].is_predicate or result is None):
        first = operands.pop(0)
        if first.is_predicate:
            masks.append(first)
        else:
            result = first
    if result is None:
        raise UnknownInstruction
    return masks, result, operands
