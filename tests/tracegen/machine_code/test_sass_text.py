"""Operands of SASS, and what lowering needs of a listing besides its instructions."""

from __future__ import annotations

import pytest

from memsim.errors import KernelError
from tracegen.compiled.model import BasicBlock, Instruction, MachineCode
from tracegen.execution.operations import OPERATIONS
from tracegen.machine_code.sass_lower import lower
from tracegen.machine_code.sass_text import NO_REGISTER, read


def test_operands() -> None:
    sass = read("@!UP3 FFMA.FTZ R4, -|R2|.reuse, c[0x3][R7+0x10], -1.5")
    assert (sass.guard.kind, sass.guard.number, sass.guard.inverted) == ("UP", 3, True)
    d, a, b, c = sass.operands
    assert (d.kind, d.number, a.number, a.negative, a.absolute) == ("R", 4, 2, True, True)
    assert (b.kind, b.number, b.offset, b.parts[0].number) == ("c", 3, 16, 7)
    assert (c.kind, c.value) == ("f", -1.5)
    to, source = read("LDGSTS.E.BYPASS.128 [R2.X4+UR5+-0x8], desc[UR6][R8.64]").operands
    assert to.offset == -8
    assert [(one.kind, one.number, one.scale) for one in to.parts] == [("R", 2, 4), ("UR", 5, 1)]
    assert [(one.number, one.wide) for one in source.parts] == [(8, True)]
    assert read("LDS [RZ]").operands[0].parts == ()
    d, a, part = read("PRMT RZ, -R3.H1_H1, R4.B2").operands
    assert (d.number, a.suffix, part.suffix) == (NO_REGISTER, ("H1_H1",), ("B2",))
    _, half = read("HADD2.F32 R2, c[0x0] [0x1a0].H0_H0").operands
    assert (half.kind, half.offset, half.suffix) == ("c", 0x1A0, ("H0_H0",))
    assert read("MOV R2, c[0x0][-0x6880]").operands[1].offset == 0x9780
    with pytest.raises(KernelError, match="no instruction"):
        read("1 + 1")


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
