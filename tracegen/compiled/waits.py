"""Which loads an instruction waits for, because it needs the register that they write."""

from __future__ import annotations

from collections.abc import Iterator

from tracegen.compiled.model import BasicBlock, Instruction, MachineCode

_Pending = dict[str, int]
"""Register -> the loads that may not have written it yet, one bit each."""


def awaited(code: MachineCode) -> list[list[tuple[int, ...]]]:
    """For each block and instruction, the loads that may still be under way and must end before it.

    A load is named by the number of its instruction, counted from 0 over all blocks. An instruction
    waits for a load if it reads or overwrites its register; only the first such instruction of a path
    is listed, because after it the load has ended. Loads are those of global and private memory, and
    atomics that return a value.

    AMD's compiler writes the waits as instructions (`Instruction.outstanding`); there, the result is
    what these must ensure at least.
    """
    starts = _numbers(code.blocks)
    entering: list[_Pending] = [{} for _ in code.blocks]
    waiting = list(range(len(code.blocks)))
    while waiting:
        index = waiting.pop()
        pending = dict(entering[index])
        for _ in _walk(code.blocks[index], starts[index], pending):
            pass
        for successor in code.blocks[index].successors:
            if _merge(entering[successor], pending) and successor not in waiting:
                waiting.append(successor)
    return [
        [_loads(bits) for bits in _walk(block, start, dict(pending))]
        for block, start, pending in zip(code.blocks, starts, entering, strict=True)
    ]


def is_awaited(instruction: Instruction) -> bool:
    """Whether an instruction loads a value that a later one may wait for."""
    memory = instruction.memory
    return (
        memory is not None
        and memory.space in ("global", "private")
        and memory.direction != "store"
        and bool(instruction.writes)
    )


def _numbers(blocks: tuple[BasicBlock, ...]) -> list[int]:
    """Number of the first instruction of each block."""
    starts = [0]
    for block in blocks:
        starts.append(starts[-1] + len(block.instructions))
    return starts[:-1]


def _walk(block: BasicBlock, start: int, pending: _Pending) -> Iterator[int]:
    """Yields the loads that each instruction waits for, and keeps `pending` up to date."""
    guards: dict[int, str] = {}
    for number, instruction in enumerate(block.instructions, start):
        ended = 0
        guard = _guard(instruction)
        for register in instruction.reads:
            ended |= pending.get(register, 0)
        for register in instruction.writes:
            ended |= pending.get(register, 0) & ~_excluded(guards, guard)
        if ended:
            for register in [name for name, loads in pending.items() if loads & ended]:
                pending[register] &= ~ended
        if is_awaited(instruction):
            guards[number] = guard
            for register in instruction.writes:
                pending[register] = pending.get(register, 0) | 1 << number
        yield ended


def _guard(instruction: Instruction) -> str:
    return instruction.text.partition(" ")[0] if instruction.text.startswith("@") else ""


def _excluded(guards: dict[int, str], guard: str) -> int:
    """The loads of this block under the opposite predicate: they write other lanes' registers."""
    opposite = guard.replace("@!", "@") if "!" in guard else guard.replace("@", "@!")
    return sum(1 << number for number, other in guards.items() if other and other == opposite)


def _merge(into: _Pending, pending: _Pending) -> bool:
    """Adds the loads of `pending`; whether any was new."""
    changed = False
    for register, loads in pending.items():
        merged = into.get(register, 0) | loads
        if merged != into.get(register, 0):
            into[register] = merged
            changed = True
    return changed


def _loads(bits: int) -> tuple[int, ...]:
    found = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return tuple(found)
