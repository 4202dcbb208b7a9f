"""NVIDIA's machine code (SASS) as micro-operations."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from tracegen.compiled.model import Instruction, MachineCode
from tracegen.execution.code import NO_SLOT, Assembler, Code
from tracegen.execution.operations import ALWAYS
from tracegen.machine_code import sass_floats, sass_memory, sass_warp  # noqa: F401 (they enter their handlers)
from tracegen.machine_code.sass_emit import HANDLERS, Emitter, UnknownInstruction
from tracegen.machine_code.sass_text import Sass, read

_REGISTER = re.compile(r"(?<![\w$.@])(UR|R|UP|P|B)(\d+)(?![\w$])")
_SPARE = 8
"""Rows behind the last register that an instruction names, for the widest group that begins there."""
_RECORDED = ("global", "private")


@dataclass(frozen=True)
class Lowered:
    """A kernel's micro-operations.

    unknown : number of each instruction that nothing is known of -> its text; it fails when it runs
    """

    code: Code
    unknown: dict[int, str]


def lower(code: MachineCode, lanes: int = 32) -> Lowered:
    """The micro-operations of a kernel for NVIDIA's GPUs from Turing on. Instructions are numbered in the order of the
    blocks. A basic block's label is the address of its first instruction, in hexadecimal digits.
    """
    instructions = [one for block in code.blocks for one in block.instructions]
    read_ones = [_sass(one) for one in instructions]
    assembler = Assembler(lanes=lanes)
    slots, copies = _slots(instructions, read_ones)
    emitter = Emitter(assembler, _sizes(instructions), copy_slot=copies)
    unknown: dict[int, str] = {}
    number = 0
    for block in code.blocks:
        assembler.block([f"{block.instructions[0].address:x}"])
        for instruction in block.instructions:
            assembler.instruction(number, instruction.address)
            if not _lowered(emitter, instruction, read_ones[number], slots):
                unknown[number] = instruction.text
            number += 1
    return Lowered(assembler.finish(), unknown)


def _sass(instruction: Instruction) -> Sass:
    """A far call is a jump (see tracegen.compiled.nvidia.sass)."""
    sass = read(instruction.text)
    base = instruction.opcode.partition(".")[0]
    return sass if base == sass.base else Sass(sass.text, base, (), sass.guard, sass.operands)


def _lowered(e: Emitter, instruction: Instruction, sass: Sass, slots: int) -> bool:
    """Emits an instruction; False if it is unknown."""
    waits = instruction.waits & slots
    if waits:
        e.assembler.emit("WAIT_SLOTS", guard=ALWAYS, y=waits)
    if sass.guard is not None and sass.guard.is_false:
        return True
    before = len(e.assembler.operations)
    handler, modifiers = (
        HANDLERS.get(sass.base) or HANDLERS.get(sass.base[1:]) or (None, frozenset())
    )
    try:
        if handler is None or not modifiers.issuperset(sass.parts):
            raise UnknownInstruction
        e.begin(instruction, sass)
        handler(e, sass)
    except (UnknownInstruction, ValueError, KeyError, IndexError, StopIteration):
        del e.assembler.operations[before:]
        e.emit("TRAP", guard=ALWAYS, y=2)
        return False
    return True


def _sizes(instructions: list[Instruction]) -> dict[str, int]:
    """How many registers of each file the code uses."""
    most: dict[str, int] = defaultdict(int)
    for instruction in instructions:
        for kind, number in _REGISTER.findall(instruction.text):
            most[kind] = max(most[kind], int(number) + _SPARE)
    return {kind: most[kind] + _SPARE for kind in ("R", "UR", "B")}


def _slots(instructions: list[Instruction], read_ones: list[Sass]) -> tuple[int, int]:
    """The scoreboards that accesses to global and private memory name, as bits, and that of groups of copies."""
    named, copies = 0, NO_SLOT
    for one, sass in zip(instructions, read_ones, strict=True):
        if sass.base == "LDGDEPBAR":
            copies = one.slot
        if one.slot != NO_SLOT and (sass.base == "LDGDEPBAR" or _is_recorded(one)):
            named |= 1 << one.slot
    return named, copies


def _is_recorded(instruction: Instruction) -> bool:
    memory = instruction.memory
    return memory is not None and memory.space in _RECORDED
