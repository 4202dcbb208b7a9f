"""Operands of SASS, and what lowering needs of a listing besides its instructions."""

from __future__ import annotations

from pathlib import Path

import pytest

from memsim.errors import KernelError
from tracegen.compiled.model import BasicBlock, Instruction, MachineCode
from tracegen.compiled.nvidia.sass import read_sass
from tracegen.execution.operations import OPERATIONS
from tracegen.machine_code.sass_lower import lower
from tracegen.machine_code.sass_text import NO_REGISTER, read

LISTINGS = Path(__file__).parents[1] / "compiled" / "listings"


def test_operands() -> None:
    sass = read("@!UP3 FFMA.FTZ R4, -|R2|.reuse, c[0x3][R7+0x10], -1.5")
    assert (sass.guard.kind, sass.guard.number, sass.guard.inverted) == ("UP", 3, True)
    assert (sass.base, sass.parts) == ("FFMA", ("FTZ",))
    d, a, b, c = sass.operands
    assert (d.kind, d.number) == ("R", 4)
    assert (a.number, a.negative, a.absolute) == (2, True, True)
    assert (b.kind, b.number, b.offset, b.parts[0].number) == ("c", 3, 16, 7)
    assert (c.kind, c.value) == ("f", -1.5)


def test_addresses() -> None:
    to, source = read("LDGSTS.E.BYPASS.128 [R2.X4+UR5+-0x8], desc[UR6][R8.64]").operands
    assert to.offset == -8
    assert [(one.kind, one.number, one.scale) for one in to.parts] == [("R", 2, 4), ("UR", 5, 1)]
    assert [(one.number, one.wide) for one in source.parts] == [(8, True)]
    (zero,) = read("LDS [RZ]").operands
    assert zero.parts == ()
    d, a, part = read("PRMT RZ, -R3.H1_H1, R4.B2").operands
    assert d.number == NO_REGISTER
    assert (a.suffix, part.suffix) == (("H1_H1",), ("B2",))
    _, half = read("HADD2.F32 R2, c[0x0] [0x1a0].H0_H0").operands
    assert (half.kind, half.offset, half.suffix) == ("c", 0x1A0, ("H0_H0",))


def test_text_that_is_no_instruction() -> None:
    with pytest.raises(KernelError, match="no instruction"):
        read("1 + 1")


def test_addresses_of_instructions_and_of_what_they_jump_to() -> None:
    text = (LISTINGS / "calls.sm_80.sass").read_text(encoding="utf-8")
    blocks, _ = read_sass(text, "calls")
    instructions = [one for block in blocks for one in block.instructions]
    assert [one.address for one in instructions[:3]] == [0, 16, 32]
    calls = [one for one in instructions if one.opcode.startswith("CALL")]
    starts = {block.instructions[0].address for block in blocks}
    assert {target for one in calls for target in one.targets} < starts
    assert len({one.targets for one in calls}) == 1


def test_an_unknown_instruction_fails_where_it_runs() -> None:
    """Other modifiers than those that are known are not guessed at."""
    texts = {"FADD.NEW R0, R1, R2": ("R0",), "STG.E [R2.64], R5, R6": ()}
    instructions = tuple(
        Instruction(opcode=text.split()[0], text=text, pipe="other", writes=writes, address=16 * k)
        for k, (text, writes) in enumerate(texts.items())
    )
    code = MachineCode(
        kernel="k",
        target="sm_80",
        blocks=(BasicBlock(label="", instructions=instructions),),
        registers_per_item=8,
    )
    lowered = lower(code)
    assert list(lowered.unknown.values()) == list(texts)
    names = list(OPERATIONS)
    assert [names[row[0]] for row in lowered.table] == ["BLOCK", "UNKNOWN", "TRAP"]
