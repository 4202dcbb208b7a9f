"""Spilled registers are distinguished from arrays by the PTX instruction of an access."""

from __future__ import annotations

import pytest

from tracegen.compiled.model import BasicBlock, Instruction, MemoryOperation, Space
from tracegen.compiled.nvidia.back_end import mark_spills
from tracegen.compiled.nvidia.ptx import Origin


def is_spill(ptx: str, space: Space = "private", origin: int | None = 2) -> bool:
    memory = MemoryOperation(space=space, direction="load", bytes_per_item=4)
    instruction = Instruction(
        opcode="LDL", text="LDL R2, [R1]", pipe="load_store", memory=memory, origin=origin
    )
    origins = [Origin("ret;", None), Origin(ptx, None)]
    (block,) = mark_spills([BasicBlock(label="", instructions=(instruction,))], origins)
    marked = block.instructions[0].memory
    return marked.spill


@pytest.mark.parametrize(
    ("ptx", "expected"),
    [
        ("add.f32 %f1, %f2, %f3;", True),
        ("ld.global.f32 %f1, [%rd1];", True),
        ("@%p1 st.volatile.global.f32 [%rd1], %f1;", True),
        ("st.shared.f32 [%rd1], %f1;", True),
        ("ld.local.f32 %f1, [%rd1];", False),
        ("@!%p1 st.local.v2.f32 [%rd1], {%f1, %f2};", False),
        ("ld.volatile.local.f32 %f1, [%rd1];", False),
        ("st.param.b64 [param0+0], %rd1;", False),
        # A generic address may be private.
        ("ld.f32 %f1, [%rd1];", False),
        ("atom.add.u32 %r1, [%rd1], 1;", False),
    ],
)
def test_by_the_ptx_instruction(ptx: str, expected: bool) -> None:
    assert is_spill(ptx) is expected


def test_what_is_left_alone() -> None:
    assert not is_spill("add.f32 %f1, %f2, %f3;", space="global")
    assert not is_spill("add.f32 %f1, %f2, %f3;", origin=None)
