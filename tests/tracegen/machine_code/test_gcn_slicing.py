"""What is left of AMD's code where only addresses and branches are wanted."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tracegen.machine_code.gcn_programs import execute, machine_code
from tracegen.execution.code import INSTRUCTION_BITS, Code
from tracegen.execution.operations import OPERATIONS, MicroOperation
from tracegen.execution.slicing import sliced
from tracegen.machine_code.gcn_lowering import lower

DATA_IN_A_REUSED_REGISTER = """
    v_lshlrev_b32_e32 v4, 2, v0
    global_load_dword v5, v4, s[6:7]
    v_add_f32_e32 v6, v5, v5
    global_store_dword v4, v6, s[6:7] offset:1024
    v_lshlrev_b32_e32 v6, 3, v0
    global_store_dword v6, v5, s[6:7] offset:2048"""
ADDRESSES_OF_SOME_LANES = """
    v_mov_b32_e32 v7, 1.0
    v_mul_f32_e32 v4, 2.0, v0
    v_lshlrev_b32_e32 v4, 2, v0
    v_cmp_gt_u32_e32 vcc, 20, v0
    s_and_saveexec_b64 s[10:11], vcc
    v_lshlrev_b32_e32 v4, 3, v0
    v_add_f32_e32 v7, v4, v4
    s_or_b64 exec, exec, s[10:11]
    global_store_dword v4, v7, s[6:7]"""
OTHER_LANES = """
    v_lshlrev_b32_e32 v4, 2, v0
    v_cmp_gt_u32_e32 vcc, 20, v0
    s_and_saveexec_b64 s[10:11], vcc
    s_xor_b64 s[10:11], exec, s[10:11]
    v_lshlrev_b32_e32 v4, 3, v0
    s_mov_b64 exec, s[10:11]
    global_store_dword v4, v0, s[6:7]"""
A_LOOP = """
    v_mov_b32_e32 v4, 0
    v_mov_b32_e32 v5, 0
    s_mov_b64 s[10:11], 0
.LBB0_1:
    global_load_dword v6, v4, s[6:7]
    v_add_f32_e32 v5, v5, v6
    v_add_u32_e32 v4, 4, v4
    v_cmp_le_u32_e32 vcc, v0, v4
    s_or_b64 s[10:11], vcc, s[10:11]
    s_andn2_b64 exec, exec, s[10:11]
    s_cbranch_execnz .LBB0_1
    s_or_b64 exec, exec, s[10:11]
    global_store_dword v4, v5, s[6:7] offset:1024"""
_SOME_OF_SOME_LANES = """
    s_nop 0
    v_lshlrev_b32_e32 v4, 3, v0
    v_cmp_gt_u32_e32 vcc, 40, v0
    s_and_saveexec_b64 s[10:11], vcc
    v_lshlrev_b32_e32 v4, 2, v0
    v_cmp_gt_u32_e32 vcc, 20, v0"""
"""Lanes from 40 on do not work when they have another v4; where they do not work again either, it need not be computed."""
A_BRANCH_OF_SOME_LANES = f"""{_SOME_OF_SOME_LANES}
    s_and_saveexec_b64 s[12:13], vcc
    v_add_f32_e32 v7, v4, v4
    s_or_b64 exec, exec, s[12:13]
    global_store_dword v4, v7, s[6:7]"""
TWO_BRANCHES_OF_SOME_LANES = f"""{_SOME_OF_SOME_LANES}
    s_and_saveexec_b64 s[12:13], vcc
    s_xor_b64 s[12:13], exec, s[12:13]
    v_add_u32_e32 v4, 4, v4
    s_andn2_saveexec_b64 s[12:13], s[12:13]
    v_add_u32_e32 v4, 8, v4
    s_or_b64 exec, exec, s[12:13]
    global_store_dword v4, v0, s[6:7]"""
A_LOOP_OF_SOME_LANES = f"""{_SOME_OF_SOME_LANES}
    s_mov_b64 s[12:13], 0
.LBB0_1:
    global_load_dword v6, v4, s[6:7]
    v_add_u32_e32 v4, 4, v4
    v_cmp_le_u32_e32 vcc, v0, v4
    s_or_b64 s[12:13], vcc, s[12:13]
    s_andn2_b64 exec, exec, s[12:13]
    s_cbranch_execnz .LBB0_1
    s_or_b64 exec, exec, s[12:13]
    global_store_dword v4, v5, s[6:7]"""
A_COPY_OF_THEIR_MASK = f"""{_SOME_OF_SOME_LANES}
    s_and_saveexec_b64 s[12:13], vcc
    s_mov_b64 s[16:17], s[12:13]
    s_mov_b64 exec, s[16:17]
    global_store_dword v4, v0, s[6:7]"""
MORE_LANES_IN_THEIR_MASK = f"""{_SOME_OF_SOME_LANES}
    s_and_saveexec_b64 s[12:13], vcc
    s_mov_b64 s[12:13], -1
    s_or_b64 exec, exec, s[12:13]
    global_store_dword v4, v0, s[6:7]"""
MORE_LANES_IN_HALF_OF_THEIR_MASK = f"""{_SOME_OF_SOME_LANES}
    s_and_saveexec_b64 s[12:13], vcc
    s_mov_b32 s13, -1
    s_or_b64 exec, exec, s[12:13]
    global_store_dword v4, v0, s[6:7]"""
THEIR_MASK_ON_ONE_WAY = f"""{_SOME_OF_SOME_LANES}
    s_and_saveexec_b64 s[12:13], vcc
    s_cmp_eq_u32 s8, 0
    s_cbranch_scc1 .LBB0_1
    s_or_b64 exec, exec, s[12:13]
    s_branch .LBB0_2
.LBB0_1:
    s_mov_b64 exec, -1
.LBB0_2:
    global_store_dword v4, v0, s[6:7]"""
A_LANE_OF_A_VECTOR_REGISTER = """
    s_mov_b32 s12, 0x100
    v_mov_b32_e32 v9, 0
    v_writelane_b32 v9, s12, 3
    v_readlane_b32 s13, v9, 3
    v_lshlrev_b32_e32 v4, 2, v0
    v_add_u32_e32 v4, s13, v4
    global_store_dword v4, v9, s[6:7]"""


def lowered(text: str) -> Code:
    lines = [line.strip() for line in text.strip().splitlines()]
    return lower(machine_code("\n".join(line if line[0] == "." else f"\t{line}" for line in lines)))


def numbers(code: Code) -> set[int]:
    """Instructions that something is done for."""
    block, z = OPERATIONS["BLOCK"].number, MicroOperation._fields.index("z")
    return {int(row[z]) & (1 << INSTRUCTION_BITS) - 1 for row in code.table if row[0] != block}


@pytest.mark.parametrize(
    ("text", "removed"),
    [
        (DATA_IN_A_REUSED_REGISTER, {2}),
        (ADDRESSES_OF_SOME_LANES, {1, 6}),
        (OTHER_LANES, set()),
        (A_LOOP, {1, 4}),
        (A_BRANCH_OF_SOME_LANES, {1, 7}),
        (TWO_BRANCHES_OF_SOME_LANES, {1}),
        (A_LOOP_OF_SOME_LANES, {1, 5}),
        (A_COPY_OF_THEIR_MASK, {1, 5}),
        (MORE_LANES_IN_THEIR_MASK, set()),
        (MORE_LANES_IN_HALF_OF_THEIR_MASK, set()),
        (THEIR_MASK_ON_ONE_WAY, set()),
        (A_LANE_OF_A_VECTOR_REGISTER, set()),
    ],
)
def test_accesses_stay_and_data_goes(text: str, removed: set[int]) -> None:
    whole = lowered(text)
    part = sliced(whole)
    assert numbers(whole) - numbers(part) == removed
    found = []
    for code in (whole, part):
        group = execute(code, np.zeros(1 << 13, np.uint8), (64, 1, 1))
        events = [one for warp in group.warps for one in warp.events]
        found.append([(one.instruction, one.addresses) for one in events])
    assert found[0] == found[1]
    assert len(found[0]) > 0


def test_comparisons_of_data_go_where_no_branch_needs_them() -> None:
    code = sliced(
        lowered("""
            v_lshlrev_b32_e32 v4, 2, v0
            v_cmp_lt_f32_e32 vcc, v4, v0
            v_cndmask_b32_e32 v5, v4, v0, vcc
            global_store_dword v4, v5, s[6:7]""")
    )
    left = {list(OPERATIONS)[row[0]] for row in code.table}
    assert not left & {"COMPARE_F32", "SELECT"}
