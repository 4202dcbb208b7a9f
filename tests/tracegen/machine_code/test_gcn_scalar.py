"""Scalar instructions, masks, branches, calls and waits of AMD's sub-groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tracegen.machine_code.gcn_programs import execute, machine_code, run
from tracegen.execution import operations as o
from tracegen.machine_code.gcn_lowering import lower

WORD = 0xFFFFFFFF
LANE = np.arange(64, dtype=np.uint32)
S = {"s10": 0x80000001, "s11": 0x7FFFFFFF, "s12": 5, "s13": 0xFFFFFFFE}
SCALARS = [
    ("s_add_u32 s20, s10, s10\ns_addc_u32 s21, s12, s12", (2, 11)),
    ("s_sub_u32 s20, s12, s10\ns_subb_u32 s21, s12, s12", (0x80000004, WORD)),
    ("s_add_i32 s20, s11, s12\ns_cselect_b32 s21, 1, 2", (0x80000004, 1)),
    ("s_sub_i32 s20, s10, s12\ns_cselect_b32 s21, 1, 2", (0x7FFFFFFC, 1)),
    ("s_sub_i32 s20, s12, s13\ns_cselect_b32 s21, 1, 2", (7, 2)),
    ("s_mul_i32 s20, s12, s13\ns_mul_hi_u32 s21, s12, s13", (0xFFFFFFF6, 4)),
    ("s_and_b32 s20, s10, s11\ns_cselect_b32 s21, 1, 2", (1, 1)),
    ("s_andn2_b32 s20, s12, s12\ns_cselect_b32 s21, 1, 2", (0, 2)),
    ("s_lshl_b32 s20, s12, 33\ns_ashr_i32 s21, s10, 31", (10, WORD)),
    ("s_lshl_b64 s[20:21], s[12:13], 4", (0x50, 0xFFFFFFE0)),
    ("s_ashr_i64 s[20:21], s[12:13], 32", (0xFFFFFFFE, WORD)),
    ("s_bfe_u32 s20, s10, 0x10001f\ns_bfe_i32 s21, s13, 0x80000", (1, 0xFFFFFFFE)),
    ("s_bfe_u64 s[20:21], s[12:13], 0x220000", (5, 2)),
    ("s_bfm_b32 s20, 4, 2\ns_brev_b32 s21, s12", (60, 0xA0000000)),
    ("s_bfm_b64 s[20:21], 34, 1", (0xFFFFFFFE, 7)),
    ("s_min_i32 s20, s10, s12\ns_cselect_b32 s21, 1, 2", (0x80000001, 1)),
    ("s_max_u32 s20, s12, s10\ns_cselect_b32 s21, 1, 2", (0x80000001, 2)),
    ("s_movk_i32 s20, 0xff80\ns_mov_b32 s21, s12\ns_addk_i32 s21, 0xfffe", (0xFFFFFF80, 3)),
    ("s_cmp_lt_i32 s10, s12\ns_cselect_b64 s[20:21], s[12:13], 0", (5, 0xFFFFFFFE)),
    ("s_cmpk_lg_i32 s12, 0x5\ns_cselect_b32 s20, s10, s11\ns_mov_b32 s21, 0", (0x7FFFFFFF, 0)),
    ("s_cmp_eq_u64 s[12:13], s[12:13]\ns_cselect_b32 s20, 1, 2\ns_cmov_b32 s21, s12", (1, 5)),
    ("s_cmp_nlt_f32 s10, 1.0\ns_cselect_b32 s20, 1, 2\ns_cmp_nlt_f32 s11, 1.0\ns_cselect_b32 s21, 1, 2", (2, 1)),
    ("s_cmp_u_f32 s11, s12\ns_cselect_b32 s20, 1, 2\ns_cmp_neq_f32 1.0, 1.0\ns_cselect_b32 s21, 1, 2", (1, 2)),
    ("s_fmaak_f32 s20, 2.0, 1.0, 0x40400000\ns_max_num_f32 s21, 2.0, 1.0", (0x40A00000, 0x40000000)),
    ("s_bitcmp1_b32 s12, 2\ns_cselect_b32 s20, 1, 0\ns_bitcmp0_b32 s12, 0\ns_cselect_b32 s21, 1, 0", (1, 0)),
    ("s_ff1_i32_b64 s20, s[12:13]\ns_flbit_i32_b64 s21, s[10:11]", (0, 1)),
    ("s_bcnt1_i32_b64 s20, s[12:13]\ns_flbit_i32_b32 s21, s12", (33, 29)),
    ("s_sext_i32_i8 s20, 0xfe\ns_sext_i32_i16 s21, 0x8000", (0xFFFFFFFE, 0xFFFF8000)),
    ("s_pack_ll_b32_b16 s20, s12, s13\ns_pack_lh_b32_b16 s21, s12, s13", (0xFFFE0005, 0xFFFF0005)),
    ("s_abs_i32 s20, s13\ns_not_b32 s21, s12", (2, 0xFFFFFFFA)),
    ("s_mov_b64 vcc, s[12:13]\ns_lshl_b64 vcc, vcc, 1\ns_mov_b32 s20, vcc_lo\ns_mov_b32 s21, vcc_hi", (10, 0xFFFFFFFC)),
    ("s_mov_b64 vcc, s[12:13]\ns_mov_b32 vcc_hi, 7\ns_xor_b64 s[20:21], vcc, s[12:13]", (0, 0xFFFFFFF9)),
    ("s_mov_b64 s[20:21], 1.0", (0, 0x3FF00000)),
    ("s_mov_b64 s[20:21], exec", (WORD, WORD)),
    ("s_mov_b64 s[20:21], src_shared_base", (0, o.LOCAL_WINDOW >> 32)),
    ("s_wqm_b64 s[20:21], s[12:13]", (0xF, WORD)),
    ("s_getpc_b64 s[20:21]\ns_add_u32 s20, s20, (.LBB0_9-.Lpost_getpc0)&4294967295", (0, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SCALARS)
def test_scalars(text: str, expected: tuple[int, int]) -> None:
    found = run(text, S, ["s20", "s21"])
    assert [set(row.tolist()) for row in found] == [{value} for value in expected]


def test_comparisons_of_inactive_lanes_are_false() -> None:
    text = """
        v_cmp_gt_u32_e32 vcc, 40, v2
        s_and_saveexec_b64 s[20:21], vcc
        v_cmp_lt_u32_e64 s[22:23], 9, v2
        v_cmp_ne_u32_e32 vcc, 9, v2
        s_mov_b64 exec, s[20:21]
        s_mov_b64 s[24:25], vcc"""
    rows = run(text, {"v2": LANE}, ["s22", "s23", "s24", "s25"])
    low, high, low_of_others, high_of_others = (int(row[0]) for row in rows)
    assert high << 32 | low == ((1 << 40) - 1) & ~0x3FF
    assert high_of_others << 32 | low_of_others == ((1 << 40) - 1) & ~(1 << 9)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v_cmp_nlt_f32_e32 vcc, v3, v4", [False, True, True, True]),
        ("v_cmp_lg_f32_e32 vcc, v3, v4", [True, False, False, True]),
        ("v_cmp_u_f32_e32 vcc, v3, v4", [False, False, True, False]),
        ("v_cmp_eq_f32_e64 vcc, -v3, -v4", [False, True, False, False]),
        ("v_cmp_class_f32_e64 vcc, v3, 3", [False, False, True, False]),
        ("v_cmp_gt_f32_e64 vcc, |v4|, v3", [True, False, False, False]),
    ],
)
def test_comparisons_of_floats(text: str, expected: list[bool]) -> None:
    a = np.resize(np.array([1, 2, np.nan, np.inf], np.float32), 64)
    b = np.resize(np.array([3, 2, 1, 1], np.float32), 64)
    found = run(f"{text}\nv_cndmask_b32_e64 v10, 0, 1, vcc", {"v3": a, "v4": b}, ["v10"])
    assert found[0].astype(bool).tolist() == expected * 16


def test_branches_follow_the_whole_mask() -> None:
    """A loop that runs as often as the lane with most rounds, each lane counting its own."""
    text = """
        v_mov_b32_e32 v10, 0
        s_mov_b32 s20, 0
        s_mov_b64 s[22:23], 0
        .LBB0_1:
        s_add_i32 s20, s20, 1
        v_add_u32_e32 v10, 1, v10
        v_cmp_ge_u32_e32 vcc, v10, v2
        s_or_b64 s[22:23], vcc, s[22:23]
        s_andn2_b64 exec, exec, s[22:23]
        s_cbranch_execnz .LBB0_1
        s_or_b64 exec, exec, s[22:23]"""
    rounds = LANE % 7 + 1
    count, turns = run(text, {"v2": rounds}, ["v10", "s20"])
    assert count.tolist() == rounds.tolist()
    assert set(turns.tolist()) == {7}


def test_flags_reach_the_next_block() -> None:
    text = """
        s_cmp_eq_u32 s12, 5
        s_cbranch_scc0 .LBB0_2
        s_cselect_b32 s20, 3, 4
        .LBB0_2:
        s_nop 0"""
    assert set(run(text, S, ["s20"])[0].tolist()) == {3}


def test_part_of_a_sub_group_works() -> None:
    found = run("s_mov_b64 s[20:21], exec", {}, ["s20", "s21"], items=(70, 1, 1))
    assert found[0].tolist() == [WORD] * 64 + [63] * 6
    assert found[1].tolist() == [WORD] * 64 + [0] * 6


def test_calls_return_behind_themselves() -> None:
    body = """
        s_getpc_b64 s[14:15]
        s_add_u32 s14, s14, twice@rel32@lo+4
        s_addc_u32 s15, s15, twice@rel32@hi+12
        v_mov_b32_e32 v2, 1
        s_swappc_b64 s[30:31], s[14:15]
        s_swappc_b64 s[30:31], s[14:15]
        v_lshlrev_b32_e32 v60, 2, v0
        global_store_dword v60, v2, s[6:7]"""
    text = "\n".join(f"\t{line.strip()}" for line in body.strip().splitlines())
    function = "twice:\n\tv_add_u32_e32 v2, v2, v2\n\ts_setpc_b64 s[30:31]\n.Lfunc_end1:\n"
    made = machine_code(f"{text}\n\ts_endpgm\n.Lfunc_end9:\n{function}")
    data = np.zeros(64, np.uint32)
    execute(lower(made), data.view(np.uint8), (64, 1, 1))
    assert set(data.tolist()) == {4}


def test_places_of_work_items_and_groups() -> None:
    items = (8, 4, 2)
    text = "v_bfe_u32 v2, v0, 10, 10\nv_bfe_u32 v3, v0, 20, 10\nv_and_b32_e32 v4, 0x3ff, v0"
    x, y, z = np.arange(64) % 8, np.arange(64) // 8 % 4, np.arange(64) // 32
    # The helper stores by x alone: work-items of one x write the same place, the last one of a sub-group stays.
    found = run(text, {}, ["v4", "s8", "s9"], items=items, place=(5, 6, 0), axes=2)
    assert found[0][:8].tolist() == list(range(8))
    assert (int(found[1][0]), int(found[2][0])) == (5, 6)
    stored = run(text, {}, ["v2", "v3"], items=items, axes=2)
    assert (stored[0][0], stored[1][0]) == (y[-1], z[-1])
    old = run(
        "v_mov_b32_e32 v4, v1\nv_mov_b32_e32 v5, v2", {}, ["v4", "v5"], "gfx803", items, axes=2
    )
    assert (old[0][0], old[1][0], x[-1]) == (y[-1], z[-1], 7)


def test_waits_name_their_counters() -> None:
    text = "\ts_waitcnt vmcnt(3) lgkmcnt(0)\n\ts_waitcnt_vscnt null, 0x1\n\ts_wait_kmcnt 0x0"
    number = o.OPERATIONS["WAIT_COUNT"].number
    waits: list[Any] = [row for row in lower(machine_code(text)).table if row[0] == number]
    x, y = (o.MicroOperation._fields.index(name) for name in "xy")
    assert {(int(row[x]), int(row[y])) for row in waits} == {(0, 3), (1, 0), (2, 1)}


def test_one_counter_of_loads_and_stores_before_gfx10() -> None:
    for target, counted in (("gfx90a", o.COUNTED), ("gfx942", o.COUNTED), ("gfx1100", 0)):
        code = lower(machine_code("\tglobal_store_dword v0, v1, s[6:7]", target))
        (store,) = (row for row in code.table if row[0] == o.OPERATIONS["STORE"].number)
        assert int(store[o.MicroOperation._fields.index("x")]) & o.COUNTED == counted


def test_subnormal_numbers_are_dropped_where_the_mode_says_so() -> None:
    text = """
        v_add_f32_e32 v10, v2, v2
        s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0
        v_add_f32_e32 v11, v2, v2
        s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3
        v_add_f32_e32 v12, v2, v2"""
    found = run(text, {"v2": np.full(64, 3, np.uint32)}, ["v10", "v11", "v12"])
    assert [int(row[0]) for row in found] == [6, 0, 6]


@pytest.mark.parametrize(
    "between",
    [
        "s_add_u32 s20, s20, taps@rel32@lo+68\n\ts_addc_u32 s21, s21, taps@rel32@hi+76",
        "s_sext_i32_i16 s21, s21\n\ts_add_u32 s20, s20, taps@rel32@lo+72\n\ts_addc_u32 s21, s21, taps@rel32@hi+80",
    ],
    ids=["gfx9 to gfx11", "gfx12"],
)
def test_a_symbol_becomes_its_address(between: str) -> None:
    """The 64th byte of an array; what is added also has the bytes from behind s_getpc_b64 to the numbers."""
    code = lower(machine_code(f"\ts_getpc_b64 s[20:21]\n\t{between}"))
    assert set(code.specials.values()) >= {"taps@lo", "taps@hi"}
    constants = {(code.constants.get(row), code.constants.get(row + 1)) for row in code.constants}
    assert (64, 0) in constants
    assert (68, 0) not in constants


def test_lanes_that_rest_carry_nothing() -> None:
    """An addition writes vcc whole: the bits of lanes that exec leaves out become 0."""
    body = """
        s_mov_b64 vcc, -1
        s_mov_b64 exec, 3
        v_add_co_u32 v2, vcc, v0, v1
        s_mov_b64 s[20:21], vcc
        s_cmp_lg_u64 vcc, 0
        s_cselect_b32 s22, 1, 2
        s_mov_b64 exec, -1
    """
    carries = {"v0": np.full(64, WORD, np.uint32), "v1": (LANE == 1).astype(np.uint32)}
    low, high, some = run(body, carries, ["s20", "s21", "s22"])
    assert (low[0], high[0], some[0]) == (2, 0, 1)
