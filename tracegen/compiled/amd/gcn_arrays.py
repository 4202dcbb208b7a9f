"""Which array parameter an access of AMD's code refers to.

The arguments lie in memory at a pointer in scalar registers. Pointers that are loaded from there are
followed through moves and additions, forward over the blocks, until nothing changes.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import structs

from tracegen.compiled.amd.gcn_metadata import Parameter
from tracegen.compiled.amd.gcn_operands import names, split_operands
from tracegen.compiled.model import BasicBlock, Instruction

_ARGUMENTS = "arguments"
"""Marks a register that holds the address of the kernel's arguments."""
_POINTER_SOURCES = (
    (r"[sv]_mov|v_(readfirstlane|accvgpr)", (0,)),
    (r"v_lshl_add_u(32|64)|v_lshl_or_b32|v_and_or_b32", (0, 2)),
    (r"v_mad_", (2,)),
    (r"[sv]_(add|sub|or|and|cselect|cndmask|min|max|xad)", (0, 1, 2)),
)
_NOTHING: frozenset[str] = frozenset()
_State = dict[str, frozenset[str]]
"""Register or spill slot -> the names of the arrays that its value may derive from."""


def name_arrays(
    blocks: Sequence[BasicBlock], parameters: Sequence[Parameter], argument_register: int
) -> tuple[BasicBlock, ...]:
    """The blocks with `MemoryOperation.array` set where an address derives from one parameter.

    parameters : with their names;  argument_register : the first of the two scalar registers that
    hold the address of the arguments when the kernel starts
    """
    entering: list[_State] = [{} for _ in blocks]
    entering[0] = {f"s{argument_register + half}": frozenset([_ARGUMENTS]) for half in (0, 1)}
    arguments = _by_offset(parameters)
    waiting, seen = [0], {0}
    while waiting:
        index = waiting.pop()
        state = dict(entering[index])
        for instruction in blocks[index].instructions:
            _step(instruction, state, arguments)
        for successor in blocks[index].successors:
            if _merge(entering[successor], state) or successor not in seen:
                seen.add(successor)
                waiting.append(successor)
    return tuple(
        dataclasses.replace(block, instructions=tuple(_named(block, dict(state), arguments)))
        for block, state in zip(blocks, entering, strict=True)
    )


def _by_offset(parameters: Sequence[Parameter]) -> dict[int, str]:
    """Offset of each 32-bit word of a pointer -> the array's name."""
    return {
        parameter.offset + word: parameter.name
        for parameter in parameters
        if parameter.is_array
        for word in range(0, parameter.n_bytes, 4)
    }


def _named(block: BasicBlock, state: _State, arguments: Mapping[int, str]) -> Iterable[Instruction]:
    for instruction in block.instructions:
        memory = instruction.memory
        if memory is not None and memory.space in ("global", "constant"):
            origins = _union(state, _address_registers(instruction)) - {_ARGUMENTS}
            if len(origins) == 1:
                memory = structs.replace(memory, array=next(iter(origins)))
                yield structs.replace(instruction, memory=memory)
            else:
                yield instruction
        else:
            yield instruction
        _step(instruction, state, arguments)


def _address_registers(instruction: Instruction) -> Iterable[str]:
    """`global_load_dword v1, v[2:3], off` and, with a scalar base, `global_load_dword v1, v2, s[0:1]`."""
    opcode = instruction.opcode
    operands = split_operands(instruction.text.partition(" ")[2])
    if opcode.startswith("s_"):
        return names(operands[1])
    address = operands[1 if instruction.writes else 0]
    return [*names(address), *(name for name in names(operands[-1]) if name.startswith("s"))]


def _step(instruction: Instruction, state: _State, arguments: Mapping[int, str]) -> None:
    """What the registers and the spill slots hold after an instruction."""
    targets, values = instruction.writes, [_derived(instruction, state)] * len(instruction.writes)
    if instruction.opcode.startswith("s_load"):
        values = _loaded(instruction, state, arguments)
    elif sources := _moved(instruction):
        targets, moved = sources
        values = [state.get(name, _NOTHING) for name in moved]
    for name, value in zip(targets, values, strict=False):
        if value:
            state[name] = value
        else:
            state.pop(name, None)


def _moved(instruction: Instruction) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Targets and sources of an instruction that moves values one by one.

    A spill slot is named by its address as the text has it, a lane of a vector register that keeps
    scalar registers by the register and its number.
    """
    opcode = instruction.opcode
    operands = split_operands(instruction.text.partition(" ")[2])
    if instruction.memory is not None and instruction.memory.spill:
        stored = instruction.memory.direction == "store"
        registers = names(operands[1 if opcode.startswith("scratch_store") else 0])
        slots = tuple(f"{operands[-1]} word {word}" for word in range(len(registers)))
        return (slots, registers) if stored else (registers, slots)
    if opcode.startswith("v_writelane"):
        return (f"{operands[0]} lane {operands[2]}",), names(operands[1])
    if opcode.startswith("v_readlane"):
        return instruction.writes, (f"{operands[1]} lane {operands[2]}",)
    if re.match(r"[sv]_mov_b64", opcode) and len(instruction.reads) == 2:
        return instruction.writes, instruction.reads
    return None


def _loaded(
    instruction: Instruction, state: _State, arguments: Mapping[int, str]
) -> list[frozenset[str]]:
    """The pointers that a scalar load of arguments brings, one for each 32-bit register."""
    operands = split_operands(instruction.text.partition(" ")[2])
    offset = re.fullmatch(r"(0x[0-9a-f]+|\d+).*", operands[2]) if len(operands) > 2 else None
    is_arguments = _union(state, names(operands[1])) == {_ARGUMENTS}
    if offset is None or not is_arguments:
        return [_NOTHING for _ in instruction.writes]
    start = int(offset[1], 0)
    pointers = (arguments.get(start + 4 * word) for word in range(len(instruction.writes)))
    return [frozenset([name]) if name else _NOTHING for name in pointers]


def _derived(instruction: Instruction, state: _State) -> frozenset[str]:
    """What the sources of a move or an addition derive from; products and shifts derive from nothing."""
    indices = _pointer_sources(instruction.opcode)
    if not indices:
        return _NOTHING
    operands = split_operands(instruction.text.partition(" ")[2])
    sources = operands[_result_operands(instruction, operands) :]
    return _union(
        state,
        [name for index in indices for text in sources[index : index + 1] for name in names(text)],
    )


@lru_cache(maxsize=4096)
def _pointer_sources(opcode: str) -> tuple[int, ...]:
    matching = (indices for pattern, indices in _POINTER_SOURCES if re.match(pattern, opcode))
    return next(matching, ())


def _result_operands(instruction: Instruction, operands: Sequence[str]) -> int:
    """How many operands are results: the second one of an addition may be its carry."""
    count = 1
    while count < len(operands) and set(names(operands[count])) & set(instruction.writes):
        carry = operands[count].startswith(("vcc", "s["))
        if not carry:
            break
        count += 1
    return count


def _union(state: _State, registers: Iterable[str]) -> frozenset[str]:
    return _NOTHING.union(*(state.get(name, _NOTHING) for name in registers))


def _merge(into: _State, state: _State) -> bool:
    changed = False
    for name, value in state.items():
        merged = into.get(name, _NOTHING) | value
        if merged != into.get(name, _NOTHING):
            into[name] = merged
            changed = True
    return changed
