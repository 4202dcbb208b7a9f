"""What AMD's lanes exchange, and their accesses to memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegen
from tests.support import cuda_kernels, gcn_runs
from tests.support.compilers import needs_amd
from tests.tracegen.machine_code.gcn_programs import ARGUMENTS, execute, lanes, machine_code, run
from tracegen.execution import operations as o
from tracegen.machine_code.gcn_lowering import lower

LANE = np.arange(64, dtype=np.uint32)
VALUES = LANE * np.uint32(3) + np.uint32(100)
OLD = np.full(64, 7, np.uint32)


def dpp(source: Any, old: int = 7) -> Any:
    """What a move leaves. source : (64,) lane, -1 for none"""
    return np.where(source < 0, old, VALUES[source])


NUMBER = LANE.astype(int)
ROW, IN_ROW = NUMBER // 16 * 16, NUMBER % 16
MOVES = {
    "quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf": dpp(NUMBER ^ 1),
    "row_shr:1 row_mask:0xf bank_mask:0xf": dpp(np.where(IN_ROW < 1, -1, NUMBER - 1)),
    "row_shr:2 row_mask:0xf bank_mask:0xf bound_ctrl:1": dpp(np.where(IN_ROW < 2, -1, NUMBER - 2), 0),
    "row_shl:3 row_mask:0xf bank_mask:0xf": dpp(np.where(IN_ROW > 12, -1, NUMBER + 3)),
    "row_ror:4 row_mask:0xf bank_mask:0xf": dpp(ROW + (IN_ROW - 4) % 16),
    "row_mirror row_mask:0xf bank_mask:0xf": dpp(ROW + 15 - IN_ROW),
    "row_half_mirror row_mask:0xf bank_mask:0xf": dpp(NUMBER ^ 7),
    "row_bcast:15 row_mask:0xa bank_mask:0xf": dpp(np.where(ROW // 16 % 2 == 1, ROW - 1, -1)),
    "row_bcast:31 row_mask:0xc bank_mask:0xf": dpp(np.where(LANE >= 32, 31, -1)),
    "wave_shr:1 row_mask:0xf bank_mask:0xf": dpp(NUMBER - 1),
    "row_mirror row_mask:0xf bank_mask:0x5": dpp(np.where(IN_ROW // 4 % 2 == 0, ROW + 15 - IN_ROW, -1)),
}  # fmt: skip


def test_moves_between_lanes() -> None:
    for control, expected in MOVES.items():
        (found,) = run(f"v_mov_b32_dpp v10, v2 {control}", {"v2": VALUES, "v10": OLD}, ["v10"])
        assert found.tolist() == expected.tolist(), control


def test_inactive_lanes_give_nothing() -> None:
    text = """
        s_mov_b64 exec, s[20:21]
        v_add_u32_dpp v10, v2, v3 row_shr:1 row_mask:0xf bank_mask:0xf
        s_mov_b64 exec, -1"""
    active = LANE % 3 != 0
    bits = int("".join(str(int(one)) for one in active[::-1]), 2)
    inputs = {"v2": VALUES, "v3": LANE, "v10": OLD, "s20": bits & 0xFFFFFFFF, "s21": bits >> 32}
    source_works = np.r_[False, active[:-1]] & (LANE % 16 > 0)
    expected = np.where(active & source_works, np.roll(VALUES, 1) + LANE, 7)
    assert run(text, inputs, ["v10"])[0].tolist() == expected.tolist()


SWIZZLES = {
    "swizzle(SWAP,16)": LANE ^ np.uint32(16),
    "swizzle(REVERSE,8)": LANE ^ np.uint32(7),
    "swizzle(BROADCAST,4,2)": LANE & np.uint32(0xFFFFFFFC) | np.uint32(2),
    "swizzle(QUAD_PERM,3,0,1,2)": LANE & np.uint32(0xFFFFFFFC) | (LANE + np.uint32(3)) % np.uint32(4),
    'swizzle(BITMASK_PERM,"0ip01")': (LANE & np.uint32(44) | np.uint32(1)) ^ np.uint32(8),
    "0x041f": (LANE & np.uint32(31)) ^ np.uint32(1) | LANE & np.uint32(32),
}  # fmt: skip


def test_swizzles() -> None:
    for offset, source in SWIZZLES.items():
        (found,) = run(f"ds_swizzle_b32 v10, v2 offset:{offset}", {"v2": VALUES}, ["v10"])
        assert found.tolist() == VALUES[source].tolist(), offset


def test_lanes_that_are_named() -> None:
    text = """
        ds_bpermute_b32 v10, v3, v2 offset:8
        ds_permute_b32 v11, v4, v2
        v_readlane_b32 s20, v2, 5
        v_readfirstlane_b32 s21, v2
        v_mov_b32_e32 v12, v2
        v_writelane_b32 v12, s20, 9
        v_mbcnt_lo_u32_b32 v13, -1, 0
        v_mbcnt_hi_u32_b32 v13, -1, v13"""
    inputs = {"v2": VALUES, "v3": LANE * np.uint32(8), "v4": (np.uint32(63) - LANE) * np.uint32(4)}
    outputs = ["v10", "v11", "s20", "s21", "v12", "v13"]
    read, sent, lane_5, first, written, below = run(text, inputs, outputs)
    assert read.tolist() == VALUES[(2 * LANE + 2) % 64].tolist()
    assert sent.tolist() == VALUES[::-1].tolist()
    assert (lane_5[0], first[0]) == (VALUES[5], VALUES[0])
    assert written.tolist() == [*VALUES[:9], VALUES[5], *VALUES[10:]]
    assert below.tolist() == LANE.tolist()


def test_rows_of_16_lanes_are_permuted() -> None:
    text = "v_permlane16_b32 v10, v2, s20, s21\nv_permlanex16_b32 v11, v2, s20, s21"
    inputs = {"v2": VALUES[:32], "s20": 0x76543210, "s21": 0x01234567}
    own, other = run(text, inputs, ["v10", "v11"], "gfx1030", (32, 1, 1))
    choice = np.array([*range(8), *range(7, -1, -1)])
    assert own.tolist() == VALUES[np.r_[choice, choice + 16]].tolist()
    assert other.tolist() == VALUES[np.r_[choice + 16, choice]].tolist()


def test_local_memory() -> None:
    text = """
        v_lshlrev_b32_e32 v5, 3, v3
        ds_write2_b32 v5, v2, v3 offset1:1
        ds_write_b8 v5, v2 offset:600
        s_waitcnt lgkmcnt(0)
        s_barrier
        ds_read2_b32 v[10:11], v5 offset0:8 offset1:9
        ds_read_i8 v12, v5 offset:600
        ds_read2st64_b32 v[14:15], v4 offset1:1
        ds_add_rtn_u32 v13, v4, v3 offset:512
        ds_max_u32 v4, v3 offset:516
        ds_read_b32 v16, v4 offset:512"""
    inputs = {"v2": VALUES[:32], "v3": LANE[:32], "v4": np.zeros(32, np.uint32)}
    outputs = [f"v{k}" for k in range(10, 17)]
    first, second, byte, old, low, high, total = run(text, inputs, outputs, items=(32, 1, 1))
    assert first[:28].tolist() == VALUES[4:32].tolist()
    assert second[:28].tolist() == LANE[4:32].tolist()
    assert byte.tolist() == ((VALUES[:32] & 255 ^ 128).astype(int) - 128).astype(np.uint32).tolist()
    assert old.tolist() == np.r_[0, np.cumsum(LANE[:31])].tolist()
    assert (set(low.tolist()), set(high.tolist())) == ({int(VALUES[0])}, {0})
    assert set(total.tolist()) == {int(LANE[:32].sum())}


def test_private_memory() -> None:
    text = """
        s_movk_i32 s20, 0x400
        buffer_store_dword v2, off, s[0:3], 0 offset:20
        v_mov_b32_e32 v5, 4
        buffer_load_dword v10, v5, s[0:3], s20 offen
        scratch_store_dword off, v3, off offset:24
        scratch_load_dword v11, v5, off offset:20
        scratch_load_ushort v12, off, off offset:22"""
    low, high, half = run(text, {"v2": VALUES, "v3": LANE}, ["v10", "v11", "v12"])
    assert low.tolist() == VALUES.tolist()
    assert high.tolist() == LANE.tolist()
    assert set(half.tolist()) == {0}


def test_generic_addresses_find_their_memory() -> None:
    text = """
        s_mov_b64 s[20:21], src_shared_base
        v_mov_b32_e32 v7, s21
        v_lshlrev_b32_e32 v6, 2, v3
        flat_store_dword v[6:7], v2 offset:16
        ds_read_b32 v10, v6 offset:16
        s_mov_b64 s[20:21], src_private_base
        v_mov_b32_e32 v7, s21
        v_mov_b32_e32 v6, 8
        flat_store_dword v[6:7], v3
        scratch_load_dword v11, off, off offset:8"""
    local, private = run(text, {"v2": VALUES, "v3": LANE}, ["v10", "v11"])
    assert (local.tolist(), private.tolist()) == (VALUES.tolist(), LANE.tolist())


def test_accesses_to_halves_and_bytes() -> None:
    text = """
        global_load_short_d16_hi v10, v60, s[6:7] offset:2
        global_load_sbyte v11, v60, s[6:7]
        v_lshl_add_u64 v[12:13], s[6:7], 0, 0
        v_add_co_u32_e32 v12, vcc, v12, v60
        v_addc_co_u32_e32 v13, vcc, 0, v13, vcc
        global_load_ushort v14, v[12:13], off offset:4
        s_load_dword s20, s[6:7], s21"""
    words = lanes(np.array([0x8180FF7F, 0x12345678], np.uint32))
    inputs = {"v2": words, "v10": OLD, "s21": 4}
    high, byte, half, word = run(text, inputs, ["v10", "v11", "v14", "s20"], "gfx942")[:4]
    assert high.tolist() == (words & np.uint32(0xFFFF0000) | np.uint32(7)).tolist()
    assert byte.tolist() == [0x7F, 0x78] * 32
    assert half[:-1].tolist() == (words[1:] & np.uint32(0xFFFF)).tolist()
    assert set(word.tolist()) == {0x12345678}


ATOMICS = {
    "global_atomic_add v10, v3, v2, s[6:7] glc": (5, 5 + int(VALUES.sum())),
    "global_atomic_umax v10, v3, v2, s[6:7] sc0": (5, int(VALUES.max())),
    "global_atomic_smin v3, v2, s[6:7]": (5, 5),
    "global_atomic_sub_u32 v3, v2, s[6:7]": (5, (5 - int(VALUES.sum())) & 0xFFFFFFFF),
    "global_atomic_swap v10, v3, v2, s[6:7] glc": (5, int(VALUES[-1])),
    "global_atomic_cmpswap v10, v3, v[4:5], s[6:7] glc": (5, 77),
    "global_atomic_cmpswap_b32 v10, v3, v[4:5], s[6:7] th:TH_ATOMIC_RETURN scope:SCOPE_DEV": (5, 77),
    "global_atomic_add_f32 v3, v6, s[6:7]": (5, int((np.float32(64) + np.array(5, np.uint32).view(np.float32)).view(np.uint32))),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), ATOMICS.items())
def test_atomic_operations(text: str, expected: tuple[int, int]) -> None:
    body = f"\t{text}\n"
    setup = "\n".join(
        f"\t{line}"
        for line in (
            "v_mov_b32_e32 v3, 0", "v_mul_u32_u24_e32 v2, 3, v0", "v_add_u32_e32 v2, 0x64, v2", "v_mov_b32_e32 v4, 0x4d",
            "v_mov_b32_e32 v5, 5", "v_mov_b32_e32 v6, 1.0",
        )
    )  # fmt: skip
    data = np.array([5, 0], np.uint32)
    execute(lower(machine_code(f"{setup}\n{body}")), data.view(np.uint8), (64, 1, 1))
    assert int(data[0]) == expected[1]


def test_scalar_loads_of_many_registers() -> None:
    """The base is overwritten by the first half; both halves use the old one."""
    text = "\ts_load_dwordx16 s[0:15], s[6:7], 0x8\n\tv_mov_b32_e32 v2, s15\n\tv_mov_b32_e32 v3, 0\n\tv_mov_b32_e32 v4, s0"
    end = f"\tv_mov_b32_e32 v6, {ARGUMENTS & 0xFFFFFFFF:#x}\n\tv_mov_b32_e32 v7, {ARGUMENTS >> 32:#x}\n\tglobal_store_dwordx2 v[6:7], v[2:3], off"
    data = np.arange(100, 140, dtype=np.uint32)
    code = lower(machine_code(f"{text}\n{end}"))
    execute(code, data.view(np.uint8), (1, 1, 1))
    assert data[:3].tolist() == [117, 0, 102]
    loads = [row for row in code.table if row[0] == o.OPERATIONS["LOAD"].number]
    assert len(loads) == 2


BUFFERS = """
extern "C" __attribute__((global)) void k(unsigned *in, unsigned *out) {
  const unsigned l = __builtin_amdgcn_workitem_id_x();
  __amdgpu_buffer_rsrc_t a = __builtin_amdgcn_make_buffer_rsrc(in, 0, 200, 0x27000);
  __amdgpu_buffer_rsrc_t b = __builtin_amdgcn_make_buffer_rsrc(out, 0, 100, 0x27000);
  unsigned x = __builtin_amdgcn_raw_buffer_load_b32(a, 4 * l, 16, 0);
  unsigned y = __builtin_amdgcn_raw_buffer_load_b8(a, l, 0, 0);
  __builtin_amdgcn_raw_buffer_store_b32(x + y, b, 4 * l, 0, 0);
}
"""


@needs_amd
def test_buffers_that_code_describes() -> None:
    """What lies beyond a buffer's end is 0, and is not stored."""
    given = np.arange(64, dtype=np.uint32) + 5
    for target in ("gfx90a", "gfx1100"):
        code = gcn_runs.compiled(BUFFERS, target, ["k"])["k"]
        assert any(one.opcode.startswith("buffer") for block in code.blocks for one in block.instructions)  # fmt: skip
        arrays = {"in": given, "out": np.zeros(64, np.uint32)}
        found = gcn_runs.executed(code, arrays, ["in", "out"])["out"]
        lane = np.arange(64)
        loaded = np.where(4 * lane + 16 + 4 <= 200, given[np.minimum(lane + 4, 63)], 0)
        assert np.array_equal(found, np.where(lane < 25, loaded + given.view(np.uint8)[:64], 0))


@needs_amd
@pytest.mark.parametrize("machine", ["mi300x", "mi355x"])
def test_loads_to_local_memory(machine: str) -> None:
    """Each sub-group's lanes store one after the other from where m0 says on, with the offset of the load."""
    source = """#include <hip/hip_runtime.h>
#define TO(space) __attribute__((address_space(space))) void *
__global__ void k(const unsigned *x, unsigned *y) {
  __shared__ unsigned s[256];
  int i = threadIdx.x;
  __builtin_amdgcn_global_load_lds((const TO(1))(x + (i ^ 5)), (TO(3))(s + i / 64 * 64), 4, 16, 0);
  __builtin_amdgcn_s_waitcnt(0);
  __syncthreads();
  y[i] = s[i];
}"""
    x = np.random.default_rng(0).integers(1, 1 << 32, 192, np.uint32)
    given = cuda_kernels.workload(source, x, np.zeros(128, np.uint32), block=128)
    found = cuda_kernels.run(given, machine)["y"]
    np.testing.assert_array_equal(found[4:], x[4 + (np.arange(124) ^ 5)])
    assert [site.array for site in tracegen.trace(given, machine).sites] == ["x", "y"]


def test_a_register_gives_the_number_of_another() -> None:
    text = """
    s_mov_b32 s20, 2
    s_set_gpr_idx_on s20, gpr_idx(SRC0)
    v_mov_b32_e32 v8, v4
    s_set_gpr_idx_off
    s_mov_b32 s20, 1
    s_set_gpr_idx_on s20, gpr_idx(DST)
    v_mov_b32_e32 v4, v8
    s_set_gpr_idx_off
    v_mov_b32_e32 v7, v4
    s_mov_b32 m0, 2
    v_movrels_b32_e32 v9, v5
    v_movreld_b32_e32 v4, 7
    """
    lane = np.arange(64, dtype=np.uint32)
    given = {"v4": lane, "v5": lane + 10, "v6": lane + 20}
    found = run(text, given, [f"v{k}" for k in (4, 5, 6, 7, 8, 9)])
    expected = [lane, lane + 20, 7 + 0 * lane, lane, lane + 20, lane]
    np.testing.assert_array_equal(found, expected)
    code = lower(machine_code("\ts_set_gpr_idx_on s2, gpr_idx(DST)\n\tv_add_u32_e32 v4, v5, v6"))
    assert list(code.unknown.values()) == ["v_add_u32_e32 v4, v5, v6 (of an indexed register)"]
