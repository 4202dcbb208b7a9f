"""Which loads an instruction waits for, because it needs the register that they write."""

from __future__ import annotations

import itertools

from tracegen.compiled.model import Instruction, MachineCode

_Pending = dict[str, set[int]]
"""Register -> the loads that may not have written it yet."""
_NONE: frozenset[int] = frozenset()


def awaited(code: MachineCode) -> list[list[tuple[int, ...]]]:
    """For each block and instruction, the loads that may still be under way and must end before it.

    A load is named by the number of its instruction, counted from 0 over all blocks. An instruction
    waits for a load if it reads or overwrites its register; only the first such instruction of a path
    is listed, because after it the load has ended. Loads are those of global and private memory, and
    atomics that return a value.

    AMD's compiler writes the waits as instructions (`Instruction.outstanding`); there, the result is
    what these must ensure at least.
    """
    walker = _Walker(code)
    entering: list[_Pending] = [{} for _ in code.blocks]
    waiting = list(range(len(code.blocks)))
    while waiting:
        index = waiting.pop()
        pending, _ = walker.walk(index, entering[index])
        for successor in code.blocks[index].successors:
            if _merge(entering[successor], pending) and successor not in waiting:
                waiting.append(successor)
    return [walker.walk(index, pending)[1] for index, pending in enumerate(entering)]


def is_awaited(instruction: Instruction) -> bool:
    """Whether an instruction loads a value that a later one may wait for."""
    memory = instruction.memory
    return (
        memory is not None
        and memory.space in ("global", "private")
        and memory.direction != "store"
        and bool(instruction.writes)
    )


class _Walker:
    """Walks over blocks.

    instructions : of all blocks;  starts : number of the first instruction of each block
    """

    def __init__(self, code: MachineCode) -> None:
        self.instructions = [one for block in code.blocks for one in block.instructions]
        sizes = (len(block.instructions) for block in code.blocks)
        self.starts = list(itertools.accumulate(sizes, initial=0))

    def walk(self, index: int, entering: _Pending) -> tuple[_Pending, list[tuple[int, ...]]]:
        """What is pending after a block, and the loads that each of its instructions waits for."""
        start, end = self.starts[index : index + 2]
        pending = {register: set(loads) for register, loads in entering.items()}
        awaited = []
        for number in range(start, end):
            instruction = self.instructions[number]
            ended = self._ended(instruction, pending, start)
            for load in ended:
                for register in self.instructions[load].writes:
                    pending[register].discard(load)
            if is_awaited(instruction):
                for register in instruction.writes:
                    pending.setdefault(register, set()).add(number)
            awaited.append(tuple(sorted(ended)))
        return pending, awaited

    def _ended(self, instruction: Instruction, pending: _Pending, start: int) -> set[int]:
        """Loads whose register is read or overwritten.

        A load under `@P0` and another one under `@!P0` in one block write different items' registers.
        """
        ended: set[int] = set()
        for register in instruction.reads:
            ended |= pending.get(register, _NONE)
        guard = _guard(instruction)
        for register in instruction.writes:
            for load in pending.get(register, _NONE):
                if load < start or not _are_opposite(guard, _guard(self.instructions[load])):
                    ended.add(load)
        return ended


def _guard(instruction: Instruction) -> str:
    return instruction.text.partition(" ")[0] if instruction.text.startswith("@") else ""


def _are_opposite(guard: str, other: str) -> bool:
    return bool(guard) and guard != other and guard.replace("!", "") == other.replace("!", "")


def _merge(into: _Pending, pending: _Pending) -> bool:
    """Adds the loads of `pending`; whether any was new."""
    changed = False
    for register, loads in pending.items():
        known = into.setdefault(register, set())
        if not loads <= known:
            known |= loads
            changed = True
    return changed
