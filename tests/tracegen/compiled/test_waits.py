"""The loads that instructions wait for, on small programs and on compiled code."""

from __future__ import annotations

from pathlib import Path

from tracegen.compiled.model import BasicBlock, Instruction, MachineCode, MemoryOperation
from tracegen.compiled.nvidia.sass import read_sass
from tracegen.compiled.waits import awaited

LISTINGS = Path(__file__).parent / "listings"


def code(*blocks: BasicBlock) -> MachineCode:
    return MachineCode(kernel="k", target="sm_80", blocks=blocks, registers_per_item=8)


def block(*instructions: Instruction, to: tuple[int, ...] = ()) -> BasicBlock:
    return BasicBlock(label="", instructions=instructions, successors=to)


def load(register: str, guard: str = "", space: str = "global") -> Instruction:
    assert space in ("global", "local")
    return Instruction(
        opcode="LDG",
        text=f"{guard} LDG".strip(),
        pipe="load_store",
        writes=(register,),
        memory=MemoryOperation(
            space="global" if space == "global" else "local", direction="load", bytes_per_item=4
        ),
    )


def add(reads: str, writes: str = "R9") -> Instruction:
    return Instruction(
        opcode="FADD", text="FADD", pipe="fma", reads=tuple(reads.split()), writes=(writes,)
    )


def test_a_value_is_awaited_once() -> None:
    program = code(block(load("R0"), load("R1"), add("R5"), add("R1"), add("R0 R1"), add("R0")))
    assert awaited(program) == [[(), (), (), (1,), (0,), ()]]


def test_overwriting_waits() -> None:
    assert awaited(code(block(load("R0"), add("R5", writes="R0")))) == [[(), (0,)]]
    assert awaited(code(block(load("R0"), load("R0"), add("R0")))) == [[(), (0,), (1,)]]


def test_loads_under_opposite_predicates_do_not_wait_for_each_other() -> None:
    program = code(block(load("R0", "@P0"), load("R0", "@!P0"), add("R0")))
    assert awaited(program) == [[(), (), (0, 1)]]
    program = code(block(load("R0", "@P0"), load("R0", "@P1"), add("R0")))
    assert awaited(program) == [[(), (0,), (1,)]]


def test_local_memory_is_not_awaited() -> None:
    assert awaited(code(block(load("R0", space="local"), add("R0")))) == [[(), ()]]


def test_over_branches() -> None:
    program = code(
        block(load("R0"), load("R1"), to=(1, 2)),
        block(add("R0"), load("R2"), to=(3,)),
        block(load("R3"), to=(3,)),
        block(add("R0"), add("R1 R2 R3")),
    )
    # 0 ended on the way over block 1, but not over block 2.
    assert awaited(program) == [[(), ()], [(0,), ()], [()], [(0,), (1, 3, 4)]]


def test_over_a_back_edge() -> None:
    program = code(
        block(load("R0"), to=(1,)),
        block(add("R0", "R4"), load("R0"), add("R4"), to=(1, 2)),
        block(add("R0")),
    )
    assert awaited(program) == [[()], [(0, 2), (), ()], [(2,)]]


def test_a_compiled_loop_waits_for_its_load() -> None:
    blocks, _ = read_sass((LISTINGS / "row_sums.sm_80.sass").read_text(), "row_sums")
    result = awaited(code(*blocks))
    instructions = [instruction for block in blocks for instruction in block.instructions]
    waits = {
        instruction.opcode: [instructions[number].text for number in numbers]
        for block, rows in zip(blocks, result, strict=True)
        for instruction, numbers in zip(block.instructions, rows, strict=True)
        if numbers
    }
    assert waits == {"DADD": ["LDG.E.64 R2, [R2.64]"]}


def test_the_result_of_a_called_function_is_awaited_after_it() -> None:
    blocks, _ = read_sass((LISTINGS / "calls.sm_80.sass").read_text(), "calls")
    result = awaited(code(*blocks))
    assert [instruction.text for instruction, loads in zip(blocks[3].instructions, result[3], strict=True) if loads] == [
        "FADD R7, R2, R2"
    ]  # fmt: skip
