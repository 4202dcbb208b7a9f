"""Code that notes which instructions it executes, with which lanes and addresses: micro-operations before each instruction
write them to memory, as binary instrumentation (NVBit) does on a GPU.

Every sub-group has a part of the log: two words, the bytes used of what follows; entries of 8 bytes, the number of an
instruction and the lanes that take part in it; and, for each entry of an instruction with an address, 256 bytes, the
addresses of its lanes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tracegen.compiled.model import MachineCode
from tracegen.execution import operations as o
from tracegen.execution.code import INSTRUCTION_BITS, NO_SLOT
from tracegen.execution.operations import ALWAYS, OPERATIONS, ZERO_ROW, MicroOperation
from tracegen.machine_code.sass_emit import Emitter, UnknownInstruction
from tracegen.machine_code.sass_memory import SPACES, address_fields
from tracegen.machine_code.sass_text import Operand, Sass, read

LOG_BASE = 1 << 48
"""Address of the log: above all arrays, below the windows of local and private memory."""
ENTRY_BYTES, ADDRESSES_BYTES = 8, 8 * 32
_HEAD_BYTES = 64
_BYTES = 1 << 25
"""Of the whole log, unless the longest basic block needs more."""
_FEWEST_STEPS, _MOST_STEPS = 8, 1 << 14
"""Sub-groups that run together take their steps at once, or none: there must be more steps than such sub-groups."""


def address_operand(sass: Sass) -> Operand | None:
    """The operand with the address that an access is told apart by: of a copy to local memory, where it loads from."""
    if sass.base not in SPACES:
        return None
    return next((one for one in reversed(sass.operands) if one.kind == "[]"), None)


@dataclass(frozen=True)
class SassLog:
    """Where the log is, and when it must be read.

    steps : segments of code that may be executed until it is full
    addresses_at : in the part of a sub-group;  part_bytes : of a sub-group
    """

    steps: int
    addresses_at: int
    part_bytes: int

    @classmethod
    def of(cls, code: MachineCode, n_subgroup: int) -> SassLog:
        """One that takes little memory, but holds any basic block of the code."""
        blocks = [[read(one.text) for one in block.instructions] for block in code.blocks]
        entries = ENTRY_BYTES * max(len(block) for block in blocks)
        addresses = ADDRESSES_BYTES * max(
            sum(address_operand(one) is not None for one in block) for block in blocks
        )
        steps = _BYTES // n_subgroup // (entries + addresses)
        steps = min(max(steps, _FEWEST_STEPS), _MOST_STEPS)
        addresses_at = _HEAD_BYTES + (steps + 1) * entries
        return cls(steps, addresses_at, addresses_at + (steps + 1) * addresses)

    def note(self, e: Emitter, sass: Sass, number: int) -> None:
        """Writes what notes an instruction, before its own micro-operations."""
        part, used, entry = e.temporary(), e.temporary(2), e.temporary(2)
        self._part(e, part)
        _access(e, "LOAD", number, 8, part, 0, d=used)
        _always(e, "MOVE", d=entry, a=e.constant(number))
        _always(e, "MASK_TO_ROWS", d=entry + 1, m=e.guard, x=3)
        place = e.temporary()
        _always(e, "ADD3", d=place, a=part, b=used)
        _access(e, "STORE", number, 8, place, _HEAD_BYTES, c=entry)
        address = address_operand(sass)
        if address is not None:
            whole = _whole(e, sass, address)
            lane = e.assembler.lane_table(tuple(8 * k for k in range(e.assembler.lanes)))
            _always(e, "ADD3", d=place, a=part, b=used + 1, c=lane)
            _access(e, "STORE", number, 8, place, self.addresses_at, guard=e.guard, c=whole)
        more = e.constant(ENTRY_BYTES, ADDRESSES_BYTES if address is not None else 0)
        _always(e, "ADD64", d=used, a=used, b=more)
        _access(e, "STORE", number, 8, part, 0, c=used)

    def _part(self, e: Emitter, row: int) -> None:
        """Where the sub-group's part begins."""
        own = e.assembler.special("subgroup")
        _always(e, "MULTIPLY_ADD", d=row, a=own, b=e.constant(self.part_bytes), c=ZERO_ROW)


def _always(e: Emitter, name: str, **fields: Any) -> None:
    e.emit(name, guard=ALWAYS, **fields)


def _access(
    e: Emitter,
    name: str,
    number: int,
    size: int,
    offset: int,
    at: int,
    guard: int = ALWAYS,
    **value: int,
) -> None:
    """An access to the log at the 32-bit offset of a row. It is no access of the program's, so no segment ends with it."""
    x = o.GLOBAL | o.ADDRESS_32 | size << o.BYTES
    base = e.constant(LOG_BASE, LOG_BASE >> 32)
    z = number | NO_SLOT << INSTRUCTION_BITS
    e.assembler.operations.append(
        MicroOperation(OPERATIONS[name].number, guard, a=offset, b=base, x=x, y=at, z=z, **value)
    )


def _whole(e: Emitter, sass: Sass, address: Operand) -> int:
    """Two rows with the addresses of the lanes: in local and private memory, places in these."""
    whole = e.temporary(2)
    try:
        fields = address_fields(e, sass, address, SPACES[sass.base])
    except UnknownInstruction:  # which the lowering of the instruction itself says
        return whole
    a, b, offset = fields["a"], fields["b"], fields["y"]
    if SPACES[sass.base] in (o.LOCAL, o.PRIVATE):
        _always(e, "ADD3", d=whole, a=a, b=b, c=e.constant(offset))
        _always(e, "MOVE", d=whole + 1, a=ZERO_ROW)
        return whole
    if fields["x"] & o.ADDRESS_32:
        wide = e.temporary(2)
        _always(e, "MOVE", d=wide, a=a)
        _always(e, "MOVE", d=wide + 1, a=ZERO_ROW)
        a = wide
    _always(e, "ADD64", d=whole, a=a, b=b)
    if offset:
        _always(e, "ADD64", d=whole, a=whole, b=e.constant(offset, offset >> 32))
    return whole
