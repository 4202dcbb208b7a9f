"""What executed code did wrong, in a sentence for its user."""

from __future__ import annotations

import math
import re

from memsim.errors import KernelError
from tracegen.executed.sites import DIRECTIONS, PRIVATE_MEMORY, access_text, line_of
from tracegen.execution import state as s
from tracegen.execution.code import Code
from tracegen.execution.run import Fault
from tracegen.machine_code.bound import BoundKernel

MOST_WAITING = 4
_REFUSED = {"(?:TEX|TLD4?|TXD|TXQ|TMML|image_)": "a texture", "SU(?:LD|ST|RED|ATOM)": "a surface"}
"""What unknown instructions begin with, and what is not there to be read."""
_NULL = 1 << 16
"""Null pointers with an index have addresses up to this."""


def not_known(bound: BoundKernel, code: Code, number: int) -> KernelError:
    """That an instruction cannot be run, with its place, or that of the nearest one before it whose place is known."""
    instructions = bound.code.instructions
    before = instructions[number::-1]
    location = next((one.location for one in before if one.location is not None), None)
    where = f"{bound.place(location.line)}: " if location is not None else ""
    text = code.unknown.get(number) or instructions[number].text
    opcode = re.sub(r"^@\S+ ", "", text)
    what = next((what for start, what in _REFUSED.items() if re.match(start, opcode)), "")
    reason = f"{what} cannot be traced: {text}" if what else f"instruction {text!r} is not known"
    return KernelError(f"{where}kernel {bound.name}: {reason}")


def sentence(bound: BoundKernel, code: Code, fault: Fault) -> KernelError:
    """One line: the access or instruction, the rule that it breaks, and the work-item."""
    instructions = bound.code.instructions

    def where(number: int) -> str:
        one = instructions[number] if number < len(instructions) else None
        if one is None or one.location is None:
            return f"instruction {number}"
        return bound.place(one.location.line)

    item = f"work-item {fault.item} of group {fault.group}"
    place = where(fault.instruction)
    if fault.kind in (s.STUCK_BARRIER, s.STUCK_LANES):
        waiting = ", ".join(
            f"sub-group {k} at {where(at)}" for k, at in fault.waiting[:MOST_WAITING]
        )
        more = (
            f" and {len(fault.waiting) - MOST_WAITING} more"
            if len(fault.waiting) > MOST_WAITING
            else ""
        )
        what = (
            "a barrier that others never reach"
            if fault.kind == s.STUCK_BARRIER
            else "lanes that never come"
        )
        return KernelError(f"group {fault.group} waits for ever at {what}: {waiting}{more}")
    if fault.kind == s.ENDLESS:
        return KernelError(
            f"group {fault.group} does not end, or waits for a group that runs later: it has executed"
            f" 2^32 basic blocks (sub-group {fault.item // code.width})"
        )
    if fault.kind in (s.TRAPPED, s.ASSERTED):
        what = "an assertion failed" if fault.kind == s.ASSERTED else "__trap was called"
        return KernelError(f"{place}: {what} in {item}")
    if fault.kind == s.UNKNOWN:
        return not_known(bound, code, fault.instruction)
    if fault.kind == s.NO_PLACE:
        return KernelError(f"{place}: {item} jumps to {fault.address:#x}, where no instruction is")
    if fault.kind == s.WRONG_MAP:
        text = instructions[fault.instruction].text
        return KernelError(
            f"{place}: the tensor map of {text!r} has another number of axes, or a layout, a filling or elements that are not modelled ({item})"
        )
    if fault.kind == s.OUT_OF_TENSOR:
        lane, column = fault.address >> 16, fault.address & 0xFFFF
        return KernelError(
            f"{place}: lane {lane}, column {column} is beyond the 128 lanes and 512 columns of tensor memory ({item})"
        )
    return KernelError(f"{place}: {_access(bound, code, fault)} ({item})")


def _access(bound: BoundKernel, code: Code, fault: Fault) -> str:
    rows = [
        row
        for row in code.table.tolist()
        if row[11] & 0xFFFFF == fault.instruction and row[9] >> 3 & 63
    ]
    row = next(
        (row for row in rows if DIRECTIONS.get(row[0]) in ("load", "store")),
        rows[0] if rows else [0] * 12,
    )
    direction, size = DIRECTIONS.get(row[0], "atomic"), row[9] >> 3 & 63
    near = {s.OUT_OF_LOCAL: "local memory", s.OUT_OF_PRIVATE: PRIVATE_MEMORY}.get(fault.kind)
    array = None if near else _nearest(bound, fault)
    called = _name(bound, fault.instruction, near or (array[0] if array else ""), direction)
    name = f"access {called}"
    if fault.kind == s.MISALIGNED:
        return f"{name} is misaligned: its address {fault.address:#x} is no multiple of {size}"
    if fault.kind == s.OUT_OF_LOCAL:
        have = bound.launch_to_read.local_bytes
        return f"{name} is out of bounds: byte {fault.address} of {have} bytes of local memory"
    if fault.kind == s.OUT_OF_PRIVATE:
        have = bound.launch_to_read.private_bytes
        return f"{name} is out of bounds: byte {fault.address} of {have} bytes of private memory"
    if array is None:
        return f"{name} is out of bounds: its address {fault.address:#x} lies in no array"
    _, index, shape = array
    return f"{name} is out of bounds: {index} in array {shape} ({size} bytes, {direction})"


def _name(bound: BoundKernel, number: int, array: str, direction: str) -> str:
    one = bound.code.instructions[number]
    lines = bound.lines
    if one.location is None or not 1 <= one.location.line <= len(lines):
        return one.text.split(";")[0]
    return access_text(line_of(lines, one.location.line), one.location.column, array, direction)


def _nearest(bound: BoundKernel, fault: Fault) -> tuple[str, str, str] | None:
    """Name, index, and array in words that an address derives from; where the code does not say, the array before it, if it is
    no farther than that is long. A null pointer has none."""
    best, address = None, fault.address
    if -_NULL <= address < _NULL:
        return None
    if fault.array >= 0:
        best = bound.launch.regions[fault.array].extent
    else:
        for extent in bound.memory.extents:
            if address >= extent.base_bytes or best is None:
                best = extent
        if best is None or abs(address - best.base_bytes) > 2 * best.size_bytes + (1 << 20):
            return None
    array = bound.memory.arrays.get(best.name)
    element = array.dtype.itemsize if array is not None else 1
    shape = tuple(array.shape) if array is not None else (best.size_bytes,)
    offset = address - best.base_bytes
    index = f"index {offset // element}" if offset % element == 0 else f"byte {offset}"
    return (
        best.name,
        index,
        f"{best.name} of shape {shape}"
        if math.prod(shape)
        else f"{best.name}, which is empty or None",
    )
