"""Disassembled SASS is read into blocks; the listings were compiled from the kernels quoted here.

    __kernel void row_sums(__global double const *in, __global double *out, int n)
    {
      int i = get_global_id(0);
      if (i >= n) return;
      double sum = 0;
    #pragma unroll 1
      for (int k = 0; k < n; ++k)
        sum += in[i * n + k];
      out[i] = sum;
    }

`reversed` reads a tile of local memory backwards; `calls` calls a device function twice.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from memsim.errors import KernelError
from tests.support.compiled_code import access, only, opcodes
from tracegen.compiled.model import BasicBlock
from tracegen.compiled.nvidia.sass import read_sass

LISTINGS = Path(__file__).parent / "listings"


def read(name: str) -> tuple[tuple[BasicBlock, ...], tuple[str, ...]]:
    return read_sass((LISTINGS / f"{name}.sass").read_text(), name.partition(".")[0])


def test_blocks_of_a_loop() -> None:
    blocks, notes = read("row_sums.sm_80")

    assert [block.successors for block in blocks] == [(1,), (2,), (2, 3), ()]
    assert [block.label for block in blocks] == ["", "", ".L_x_2", ""]
    assert opcodes(blocks[0])[-1] == "EXIT"
    assert blocks[0].instructions[-1].predicated
    assert opcodes(blocks[2]) == [
        "MOV", "IMAD.MOV.U32", "LDG.E.64", "UIADD3", "IADD3", "IADD3.X", "ISETP.NE.AND", "DADD", "BRA"
    ]  # fmt: skip
    assert opcodes(blocks[3])[-1] == "EXIT"
    assert not blocks[3].instructions[-1].predicated
    assert notes == ()


def test_the_first_line_is_the_number_of_the_ptx_instruction() -> None:
    blocks, _ = read("row_sums.sm_80")
    origins = [instruction.origin for instruction in blocks[2].instructions]
    assert origins == [14, 14, 14, 16, 17, 17, 18, 15, 20]
    text = (LISTINGS / "row_sums.sm_80.sass").read_text()
    line = '\t//## File "ptx", line 15\n'
    inlined = '\t//## File "ptx", line 15 inlined at "ptx", line 99\n\t//## File "ptx", line 99\n'
    assert line in text
    assert read_sass(text.replace(line, inlined), "row_sums") == read("row_sums.sm_80")


def test_local_memory_and_barriers_of_another_target() -> None:
    blocks, notes = read("reversed.sm_120")

    (block,) = blocks
    pipes = {instruction.opcode: instruction.pipe for instruction in block.instructions}
    assert pipes["BAR.SYNC.DEFER_BLOCKING"] == "barrier"
    assert pipes["IADD.64"] == "alu"
    assert pipes["UMOV"] == pipes["LDCU.64"] == "scalar"
    assert pipes["IMAD.WIDE.U32"] == "fma"
    spaces = [access(one)[0] for one in block.instructions if one.memory]
    assert spaces.count("local") == 2
    assert spaces.count("global") == 2
    assert only(blocks, "LDG").reads == ("UR6", "UR7", "R2", "R3")
    assert notes == ()


def test_a_called_function_returns_to_each_call() -> None:
    blocks, notes = read("calls.sm_80")

    assert notes == ("Called functions are part of the code: $calls$twice.",)
    first, second, last, callee = blocks
    assert callee.label == "$calls$twice"
    assert first.successors == second.successors == (3,)
    assert set(callee.successors) == {1, 2}
    assert last.successors == ()
    assert opcodes(callee)[-1] == "RET.REL.NODEC"
    with pytest.raises(KernelError, match="no kernel 'columns'"):
        read_sass((LISTINGS / "calls.sm_80.sass").read_text(), "columns")


def listing(*lines: str) -> str:
    numbered = [
        line if line.endswith(":") else f"        /*{number * 16:04x}*/  {line}"
        for number, line in enumerate(lines)
    ]
    return "\n".join(['\t.section\t.text.k,"ax",@progbits', "k:", *numbered])


def test_a_branch_may_depend_on_an_operand() -> None:
    blocks, _ = read_sass(
        listing("BRA P1, `(.L_1) ;", "BRA.U !UP0, `(.L_1) ;", "BRA `(.L_1) ;", ".L_1:", "EXIT ;"),
        "k",
    )
    assert [block.successors for block in blocks] == [(3, 1), (3, 2), (3,), ()]
    predicated = [block.instructions[-1].predicated for block in blocks]
    assert predicated == [True, True, False, False]


def test_a_jump_through_a_table() -> None:
    table = 'BRX R4 -0x180    (*"BRANCH_TARGETS .L_1,.L_2"*);'
    blocks, notes = read_sass(listing(table, ".L_1:", "EXIT ;", ".L_2:", "EXIT ;"), "k")
    assert blocks[0].successors == (1, 2)
    assert blocks[0].instructions[0].reads == ("R4", "R5")
    assert notes == ()

    unknown = read_sass(listing("BRX R4 -0x180 ;", ".L_1:", "EXIT ;", ".L_2:", "EXIT ;"), "k")
    assert unknown[0][0].successors == (1, 2)
    assert unknown[1] == ("A jump through a table may go to every label.",)


def test_a_call_of_a_label_is_a_far_jump() -> None:
    """Around long loops ptxas jumps so; what follows the label is no function and returns nowhere."""
    blocks, notes = read_sass(
        listing(
            ".L_2:",
            "FFMA R1, R1, R1, R1 ;",
            "@!P1 CALL.REL.NOINC `(.L_1) ;",
            "BRA `(.L_2) ;",
            ".L_1:",
            "BAR.SYNC 0x0 ;",
            "EXIT ;",
        ),
        "k",
    )
    assert [block.successors for block in blocks] == [(2, 1), (0,), ()]
    assert notes == ()


def test_code_that_cannot_be_reached_is_left_out() -> None:
    blocks, _ = read_sass(listing("EXIT ;", ".L_1:", "BRA `(.L_1);", "NOP;"), "k")
    assert [opcodes(block) for block in blocks] == [["EXIT"]]


def test_notes_on_what_is_approximate() -> None:
    _, notes = read_sass(
        listing(
            "FOO R1, R2 ;",
            "BAR.SYNC 0x0 ;",
            "LDGSTS.E.128 [R2], [R4.64] ;",
            "UBLKCP.S.G [UR6], [UR4], UR10 ;",
            "CALL.REL.NOINC R2 `(k) ;",
            "QUUX ;",
            "EXIT ;",
        ),
        "k",
    )
    assert notes == (
        "Instructions of unknown opcode: 2 (FOO, QUUX).",
        "Copies of whole tiles are recorded in equal parts for the group's sub-groups: UBLKCP.",
        "Asynchronous copies (LDGSTS) count as loads from global memory.",
        "Functions that are called through pointers are left out.",
    )


def test_spilled_registers_are_marked() -> None:
    blocks, _ = read_sass(
        listing('STL.64 [R1+0x8], R14       (*"SpillRefill"*);', "LDL R2, [R3] ;", "EXIT ;"), "k"
    )
    store, load = blocks[0].instructions[:2]
    assert (access(store), store.memory.spill) == (("private", "store", 8), True)
    assert (access(load), load.memory.spill) == (("private", "load", 4), False)


def test_an_instruction_that_never_runs_accesses_nothing() -> None:
    blocks, _ = read_sass(listing("@!PT LDS RZ, [RZ] ;", "EXIT ;"), "k")
    assert blocks[0].instructions[0].memory is None
    assert blocks[0].instructions[0].pipe == "wait"
