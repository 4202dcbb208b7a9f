"""NVIDIA's machine code (SASS) as micro-operations."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable

from msgspec import structs

from tracegen.compiled.model import Instruction, MachineCode
from tracegen.execution.code import NO_SLOT, Assembler, Code
from tracegen.execution.operations import ALWAYS
from tracegen.machine_code import (
    sass_bulk,  # noqa: F401
    sass_halves,  # noqa: F401
    sass_matrices,  # noqa: F401
    sass_tensor_memory,  # noqa: F401
    sass_warp,
)
from tracegen.machine_code.sass_bulk import LOADS
from tracegen.machine_code.sass_emit import HANDLERS, Emitter, UnknownInstruction
from tracegen.machine_code.sass_memory import COPIES, compares_phase, reads_phase
from tracegen.machine_code.sass_text import Sass, read

_REGISTER = re.compile(r"(?<![\w$.@])(UR|R|UP|P|B)(\d+)(?![\w$])")
_SPARE = 8
"""Rows behind the last register that an instruction names, for the widest group that begins there."""
_FUNCTION = re.compile(r"^\s*\.type\s+(\w+),@function", re.MULTILINE)
_RECORDED = ("global", "private")
_NO_WAIT = 0x36
"""More accesses than are ever outstanding: `DEPBAR.LE SB0, 0x36` stands before columns of tensor memory are asked for."""
Note = Callable[[Emitter, Sass, int], None]
"""Called with an instruction and its number."""


def lower(code: MachineCode, lanes: int = 32, note: Note | None = None) -> Code:
    """The micro-operations of a kernel for NVIDIA's GPUs from Turing on. Instructions are numbered in the order of the
    blocks; those that are not known are in `Code.unknown`.

    lanes : of a sub-group: 8, 16, 32 or 64
    note : called before the micro-operations of each instruction are emitted
    """
    instructions = code.instructions
    read_ones = [_sass(one) for one in instructions]
    assembler = Assembler(lanes=max(lanes, 32), width=lanes)
    slots, copies, counted = _slots(instructions, read_ones)
    phases = _phases(read_ones)
    outside = set(_FUNCTION.findall(code.listing)) - {code.kernel}
    emitter = Emitter(
        assembler,
        _sizes(instructions),
        copy_slots=copies | counted,
        outside=_outside(outside),
        yields=any(sass.base in LOADS for sass in read_ones),
    )
    number = 0
    for block in code.blocks:
        assembler.block([f"{block.instructions[0].address:x}"])
        end = number + len(block.instructions)
        for instruction in block.instructions:
            assembler.instruction(number, instruction.address)
            behind = (one.base for one in read_ones[number + 1 : min(number + 4, end)])
            emitter.follows = next((base for base in behind if base != "NOP"), "")
            if note is not None:
                emitter.begin(instruction, read_ones[number])
                note(emitter, read_ones[number], number)
            is_counted = instruction.slot in counted
            one = structs.replace(instruction, slot=COPIES) if is_counted else instruction
            phase = phases.get(number)
            if phase == "LDS":
                emitter.begin(one, read_ones[number])
                reads_phase(emitter, read_ones[number])
            if not _lowered(emitter, one, read_ones[number], slots):
                assembler.unknown[number] = instruction.text
            if phase == "LOP3":
                compares_phase(emitter, read_ones[number])
            if is_counted:
                assembler.emit("COPIES_END", guard=ALWAYS)
            number += 1
    return assembler.finish()


def _outside(functions: set[str]) -> int:
    """See Emitter.outside."""
    others = {name for name in functions if not name.startswith("__cuda_syscall_cp_async_bulk")}
    return 0 if others - {"__assertfail"} else 2 if functions != others else len(others)


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
    if any(instruction.waits >> slot & 1 for slot in e.copy_slots):
        e.assembler.emit("WAIT_COPIES", guard=ALWAYS)
    base = sass.base if sass.base in HANDLERS else sass.base.removeprefix("U")
    handler, modifiers = HANDLERS.get(base, (None, frozenset()))
    e.begin(instruction, sass)
    before = len(e.assembler.operations)
    try:
        if handler is None or not modifiers.issuperset(sass.parts):
            raise UnknownInstruction
        handler(e, sass)
    except (UnknownInstruction, ValueError, KeyError, IndexError, StopIteration):
        del e.assembler.operations[before:]
        sass_warp.fails(e)
        return False
    return True


def _sizes(instructions: list[Instruction]) -> dict[str, int]:
    """How many registers of each file the code uses."""
    most: dict[str, int] = defaultdict(int)
    for instruction in instructions:
        for kind, number in _REGISTER.findall(instruction.text):
            most[kind] = max(most[kind], int(number) + _SPARE)
        for name in (
            *instruction.reads,
            *instruction.writes,
        ):  # of a group the text names the first
            kind = name.rstrip("0123456789")
            most[kind] = max(most[kind], int(name[len(kind) :]) + _SPARE)
    return {kind: most[kind] or _SPARE for kind in ("R", "UR", "B")}


def _slots(
    instructions: list[Instruction], read_ones: list[Sass]
) -> tuple[int, frozenset[int], frozenset[int]]:
    """The scoreboards that accesses to global and private memory name, as bits; those of groups of copies; and those of whose
    accesses all but some are waited for (`DEPBAR.LE SB0, 0x1`): of these each access ends a group of its own."""
    named = [one.slot for one in instructions if one.slot != NO_SLOT and _is_recorded(one)]
    pairs = zip(instructions, read_ones, strict=True)
    copies = frozenset(one.slot for one, sass in pairs if sass.base == "LDGDEPBAR")
    of_bulk = any(sass.base == "UTMACMDFLUSH" for sass in read_ones)  # its waits are for stores
    counted = frozenset(
        int(sass.operands[0].text[2:])
        for sass in read_ones
        if sass.base == "DEPBAR"
        and len(sass.operands) > 1
        and 0 < sass.operands[1].number < _NO_WAIT
        and not of_bulk
    )
    return sum(1 << slot for slot in set(named)), copies, counted - copies


def _phases(read_ones: list[Sass]) -> dict[int, str]:
    """Which instructions read the phase of a barrier in memory of an A100, and which compare it, by number."""
    found: dict[int, str] = {}
    if not any(
        sass.base in ("ATOMS", "ARRIVES") and sass.has("ARRIVE", "LDGSTSBAR") for sass in read_ones
    ):
        return found
    loaded: dict[str, int] = {}
    for number, sass in enumerate(read_ones):
        if sass.base == "LDS":
            loaded[sass.operands[0].text] = number
        compared = [one.text for one in sass.operands]
        is_phase = compared[3:4] + compared[5:6] == ["0x80000000", "0x48"]
        if sass.base == "LOP3" and is_phase and compared[2] in loaded:
            found |= {loaded[compared[2]]: "LDS", number: "LOP3"}
    return found


def _is_recorded(instruction: Instruction) -> bool:
    memory = instruction.memory
    return memory is not None and memory.space in _RECORDED
