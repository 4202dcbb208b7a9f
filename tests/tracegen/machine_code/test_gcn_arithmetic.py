"""AMD's vector arithmetic against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tracegen.machine_code.gcn_programs import FLOATS, WORDS, lanes, machine_code, run
from tracegen.machine_code.gcn_lowering import lower

A, B, C = (lanes(WORDS, shift) for shift in (0, 4, 9))
F, G, H = (lanes(FLOATS, shift) for shift in (0, 4, 9))
K, J = A.view(np.int32), B.view(np.int32)
D, E = (lanes(FLOATS, shift).astype(np.float64) for shift in (1, 6))
W, X = (
    (A.astype(np.uint64) | B.astype(np.uint64) << np.uint64(32)),
    (C.astype(np.uint64) | A.astype(np.uint64) << np.uint64(32)),
)


def signed(values: Any, bits: int = 16) -> Any:
    return ((values.astype(np.int64) & (1 << bits) - 1) ^ 1 << bits - 1) - (1 << bits - 1)


def fused(a: Any, b: Any, c: Any) -> Any:
    with np.errstate(all="ignore"):
        return (a.astype(np.longdouble) * b + c).astype(np.float32)


WORDS_TO_WORDS = {
    "v_add_u32_e32 v10, v2, v3": A + B,
    "v_sub_u32_e32 v10, v2, v3": A - B,
    "v_subrev_u32_e32 v10, v2, v3": B - A,
    "v_add3_u32 v10, v2, v3, v4": A + B + C,
    "v_add_u32_e32 v10, 0xffffffc0, v3": B - np.uint32(64),
    "v_add_u32_e32 v10, -3, v3": B - np.uint32(3),
    "v_lshl_add_u32 v10, v2, 3, v4": (A << np.uint32(3)) + C,
    "v_add_lshl_u32 v10, v2, v3, 2": A + B << np.uint32(2),
    "v_lshl_or_b32 v10, v2, v3, v4": A << (B & np.uint32(31)) | C,
    "v_and_or_b32 v10, v2, v3, v4": A & B | C,
    "v_or3_b32 v10, v2, v3, v4": A | B | C,
    "v_xad_u32 v10, v2, v3, v4": (A ^ B) + C,
    "v_bfi_b32 v10, v2, v3, v4": A & B | ~A & C,
    "v_xnor_b32_e32 v10, v2, v3": ~(A ^ B),
    "v_not_b32_e32 v10, v2": ~A,
    "v_lshlrev_b32_e32 v10, v2, v3": B << (A & np.uint32(31)),
    "v_lshrrev_b32_e32 v10, v2, v3": B >> (A & np.uint32(31)),
    "v_ashrrev_i32_e32 v10, v2, v3": J >> (K & 31),
    "v_bfe_u32 v10, v2, 4, 9": A >> np.uint32(4) & np.uint32(511),
    "v_bfe_i32 v10, v2, 0, 16": signed(A),
    "v_bfm_b32 v10, 5, 3": np.full(64, 31 << 3),
    "v_alignbit_b32 v10, v2, v3, 8": A << np.uint32(24) | B >> np.uint32(8),
    "v_alignbyte_b32 v10, v2, v3, 3": A << np.uint32(8) | B >> np.uint32(24),
    "v_mul_lo_u32 v10, v2, v3": A * B,
    "v_mul_hi_u32 v10, v2, v3": A.astype(np.uint64) * B >> np.uint64(32),
    "v_mul_hi_i32 v10, v2, v3": K.astype(np.int64) * J >> 32,
    "v_mul_u32_u24_e32 v10, v2, v3": (A & np.uint32(0xFFFFFF)) * (B & np.uint32(0xFFFFFF)),
    "v_mad_i32_i24 v10, v2, v3, v4": signed(A, 24) * signed(B, 24) + C,
    "v_min_i32_e32 v10, v2, v3": np.minimum(K, J),
    "v_max_u32_e32 v10, v2, v3": np.maximum(A, B),
    "v_med3_i32 v10, v2, v3, v4": np.sort([K, J, C.view(np.int32)], axis=0)[1],
    "v_max3_u32 v10, v2, v3, v4": np.max([A, B, C], axis=0),
    "v_sad_u32 v10, v2, v3, v4": np.maximum(A, B) - np.minimum(A, B) + C,
    "v_bcnt_u32_b32 v10, v2, v3": np.array([int(a).bit_count() for a in A]) + B,
    "v_ffbh_u32_e32 v10, v2": np.array([32 - int(a).bit_length() if a else -1 for a in A]),
    "v_ffbl_b32_e32 v10, v2": np.array([(int(a) & -int(a)).bit_length() - 1 for a in A]),
    "v_bfrev_b32_e32 v10, v2": np.array([int(f"{int(a):032b}"[::-1], 2) for a in A]),
    "v_perm_b32 v10, v2, v3, 0x0c0d0501": (A >> np.uint32(8) & np.uint32(255)) << np.uint32(8) | B >> np.uint32(8) & np.uint32(255) | np.uint32(0xFF0000),
    "v_perm_b32 v10, v2, v3, 0x0b0a0908": sum((x >> np.uint32(31 - 16 * h) & np.uint32(1)) * np.uint32(255 << 8 * k) for k, (x, h) in enumerate(((B, 1), (B, 0), (A, 1), (A, 0)))),
    "v_perm_b32 v10, v2, v3, 0x07060100": A & np.uint32(0xFFFF0000) | B & np.uint32(0xFFFF),
    "v_add_u16_e32 v10, v2, v3": A + B & np.uint32(0xFFFF),
    "v_mul_lo_u16_e32 v10, v2, v3": A * B & np.uint32(0xFFFF),
    "v_ashrrev_i16_e32 v10, 3, v3": signed(B) >> 3 & 0xFFFF,
    "v_max_i16_e32 v10, v2, v3": np.maximum(signed(A), signed(B)) & 0xFFFF,
    "v_pk_add_u16 v10, v2, v3": A + B & np.uint32(0xFFFF) | ((A >> np.uint32(16)) + (B >> np.uint32(16))) << np.uint32(16),
    "v_pk_lshlrev_b16 v10, 4, v3 op_sel_hi:[0,1]": (B & np.uint32(0xFFF)) << np.uint32(4) | (B >> np.uint32(16) << np.uint32(20)),
    "v_mad_u32_u16 v10, v2, v3, v4": (A & np.uint32(0xFFFF)) * (B & np.uint32(0xFFFF)) + C,
    "v_cndmask_b32_e64 v10, v2, v3, s[10:11]": np.where(np.arange(64) % 2 == 0, B, A),
    "v_add_u32_sdwa v10, v2, v3 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:WORD_1":
        (A >> np.uint32(8) & np.uint32(255)) + (B >> np.uint32(16)),
    "v_mov_b32_sdwa v2, sext(v3) dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_0\nv_mov_b32_e32 v10, v2":
        A & np.uint32(0xFFFF) | (signed(B, 8).astype(np.uint32) << np.uint32(16)),
    "v_add_u32_e64 v10, v2, v3 clamp": np.minimum(A.astype(np.uint64) + B, 0xFFFFFFFF),
    "v_sub_u32_e64 v10, v2, v3 clamp": np.maximum(A.astype(np.int64) - B, 0),
    "v_add_i32 v10, v2, v3 clamp": np.clip(K.astype(np.int64) + J, -(1 << 31), (1 << 31) - 1),
    "v_sub_i32 v10, v2, v3 clamp": np.clip(K.astype(np.int64) - J, -(1 << 31), (1 << 31) - 1),
    "v_add_i16 v10, v2, v3 clamp": np.clip(signed(A) + signed(B), -0x8000, 0x7FFF) & 0xFFFF,
    "v_sub_u16_e64 v10, v2, v3 clamp": np.maximum((A & np.uint32(0xFFFF)).astype(int) - (B & np.uint32(0xFFFF)), 0),
    "v_dot4_i32_i8 v10, v2, v3, v4": sum(signed(A >> np.uint32(8 * k), 8) * signed(B >> np.uint32(8 * k), 8) for k in range(4)) + C,
}  # fmt: skip
with np.errstate(all="ignore"):
    FLOATS_TO_WORDS = {
        "v_add_f32_e32 v10, v5, v6": F + G,
        "v_sub_f32_e32 v10, v5, v6": F - G,
        "v_mul_f32_e64 v10, -v5, |v6|": -F * abs(G),
        "v_mul_f32_e64 v10, v5, v6 mul:2": F * G * np.float32(2),
        "v_add_f32_e64 v10, v5, v6 clamp": np.nan_to_num(np.clip(F + G, 0, 1), nan=0),
        "v_fma_f32 v10, v5, v6, -v7": fused(F, G, -H),
        "v_mov_b32_e32 v10, v7\nv_fmac_f32_e32 v10, v5, v6": fused(F, G, H),
        "v_fmamk_f32 v10, v5, 0x40490fdb, v6": fused(F, np.full(64, np.float32(np.pi)), G),
        "v_min_f32_e32 v10, v5, v6": np.fmin(F, G),
        "v_max_f32_e32 v10, 0, v6": np.fmax(np.float32(0), G),
        "v_trunc_f32_e32 v10, v5": np.trunc(F),
        "v_rndne_f32_e32 v10, v5": np.rint(F),
        "v_floor_f32_e64 v10, -v5": np.floor(-F),
        "v_ldexp_f32 v10, v5, 3": F * np.float32(8),
        "v_cvt_f32_i32_e32 v10, v2": K.astype(np.float32),
        "v_cvt_f32_u32_e32 v10, v2": A.astype(np.float32),
        "v_cvt_f32_ubyte2_e32 v10, v2": (A >> np.uint32(16) & np.uint32(255)).astype(np.float32),
        "v_rcp_f32_e32 v10, v5": (1 / F.astype(np.float64)).astype(np.float32),
        "v_med3_f32 v10, v5, 0, 1.0": np.clip(F, 0, 1),
        "v_cndmask_b32_e64 v10, v5, -v6, s[10:11]": np.where(np.arange(64) % 2 == 0, -G, F),
    }
WIDE = {
    "v_lshlrev_b64 v[10:11], 7, v[2:3]": W << np.uint64(7),
    "v_ashrrev_i64 v[10:11], v4, v[2:3]": W.view(np.int64) >> (C & np.uint32(63)),
    "v_lshl_add_u64 v[10:11], v[2:3], 2, v[4:5]": (W << np.uint64(2)) + X,
    "v_mad_u64_u32 v[10:11], s[12:13], v2, v3, v[4:5]": A.astype(np.uint64) * B + X,
    "v_mad_i64_i32 v[10:11], s[12:13], v2, v3, v[4:5]": K.astype(np.int64) * J + X.view(np.int64),
    "v_add_co_u32_e32 v10, vcc, v2, v4\nv_addc_co_u32_e32 v11, vcc, v3, v5, vcc": W + X,
    "v_sub_co_u32_e64 v10, s[12:13], v2, v4\nv_subb_co_u32_e64 v11, s[12:13], v3, v5, s[12:13]": W - X,
    "v_pk_mov_b32 v[10:11], v[2:3], v[4:5] op_sel:[1,0]": B | C.astype(np.uint64) << np.uint64(32),
    "v_mov_b64_e32 v[10:11], -2": np.full(64, np.uint64(2**64 - 2)),
}  # fmt: skip
with np.errstate(all="ignore"):
    DOUBLES = {
        "v_add_f64 v[10:11], v[2:3], -v[4:5]": D - E,
        "v_mul_f64 v[10:11], v[2:3], 0.5": D / 2,
        "v_mul_f64 v[10:11], |v[2:3]|, 4.0": abs(D) * 4,
        "v_max_f64 v[10:11], v[2:3], v[4:5]": np.fmax(D, E),
        "v_cvt_f64_f32_e32 v[10:11], v6": F.astype(np.float64),
        "v_rndne_f64_e32 v[10:11], v[2:3]": np.rint(D),
        "v_ldexp_f64 v[10:11], v[2:3], -3": D / 8,
        "v_floor_f64_e32 v[10:11], v[2:3]": np.floor(D),
    }


def halves_of(words: Any) -> tuple[Any, Any]:
    return tuple(words >> np.uint64(32 * k) & np.uint64(0xFFFFFFFF) for k in (0, 1))


def same(found: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    if expected.dtype.kind == "f":
        kind = np.float64 if found.dtype.itemsize == 8 else np.float32
        np.testing.assert_array_equal(found.view(kind), expected.astype(kind))
    else:
        np.testing.assert_array_equal(found, expected.astype(np.int64).astype(found.dtype))


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
@pytest.mark.parametrize(("text", "expected"), [*WORDS_TO_WORDS.items(), *FLOATS_TO_WORDS.items()])
def test_words(text: str, expected: Any) -> None:
    inputs = {"v2": A, "v3": B, "v4": C, "v5": F, "v6": G, "v7": H}
    inputs |= {"s10": 0x55555555, "s11": 0x55555555}
    same(run(text, inputs, ["v10"])[0], expected)


@pytest.mark.parametrize(("text", "expected"), [*WIDE.items(), *DOUBLES.items()])
def test_pairs_of_registers(text: str, expected: Any) -> None:
    first, second = (D.view(np.uint64), E.view(np.uint64)) if text in DOUBLES else (W, X)
    words = enumerate((*halves_of(first), *halves_of(second)), 2)
    inputs = {f"v{k}": value.astype(np.uint32) for k, value in words} | {"v6": F}
    low, high = run(text, inputs, ["v10", "v11"], target="gfx942")
    same(low | high.astype(np.uint64) << np.uint64(32), expected)


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
def test_packed_floats_choose_their_halves() -> None:
    text = "v_pk_fma_f32 v[2:3], v[2:3], v[4:5], v[6:7] op_sel:[1,0,0] op_sel_hi:[0,1,0] neg_lo:[0,0,1]"
    inputs = {"v2": F, "v3": G, "v4": H, "v5": F, "v6": G, "v7": H}
    low, high = run(text, inputs, ["v2", "v3"])
    same(low, fused(G, H, -G))
    same(high, fused(F, F, G))


def test_half_precision_keeps_or_clears_the_other_half() -> None:
    a, b = (lanes(np.array([1.5, -2.25, 0.1, 60000, 6e-8, np.inf], np.float16), k) for k in (0, 2))
    with np.errstate(over="ignore", invalid="ignore"):
        total = (a + b).view(np.uint16).astype(np.uint32)
    given, text = (
        [one.view(np.uint16).astype(np.uint32) for one in (a, b)],
        "v_add_f16_e32 v10, v2, v3",
    )
    inputs = {"v2": given[0], "v3": given[1], "v10": C}
    same(run(text, inputs, ["v10"])[0], total)
    inputs = {name: values[:32] for name, values in inputs.items()}
    (kept,) = run(text, inputs, ["v10"], "gfx1030", (32, 1, 1))
    same(kept, total[:32] | C[:32] & np.uint32(0xFFFF0000))


def test_division_of_floats() -> None:
    """What clang writes for a / b, of all pairs of numbers near the ends of the range."""
    values = np.array([1.0, -3.0, 1e-38, 3e38, 1e-44, 7.5e20, 1e38, -1e-20], np.float32)
    a, b = np.repeat(values, 8), np.tile(values, 8)
    text = """
        v_div_scale_f32 v5, s[12:13], v3, v3, v2
        v_rcp_f32_e32 v6, v5
        v_div_scale_f32 v7, vcc, v2, v3, v2
        v_fma_f32 v8, -v5, v6, 1.0
        v_fmac_f32_e32 v6, v8, v6
        v_mul_f32_e32 v8, v7, v6
        v_fma_f32 v9, -v5, v8, v7
        v_fmac_f32_e32 v8, v9, v6
        v_fma_f32 v5, -v5, v8, v7
        v_div_fmas_f32 v5, v5, v6, v8
        v_div_fixup_f32 v10, v5, v3, v2"""
    with np.errstate(all="ignore"):
        expected = a / b
    found = run(text, {"v2": a, "v3": b}, ["v10"])[0].view(np.float32)
    normal = ~(abs(expected) < 2.0**-126)  # v_div_fmas rounds a smaller quotient again
    same(found.view(np.uint32)[normal], expected[normal])
    np.testing.assert_allclose(found[~normal], expected[~normal], rtol=0, atol=2.0**-149)


TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561
"""The first 256 bits, from the table of fdlibm's e_rem_pio2.c."""


def test_segments_of_two_over_pi() -> None:
    x = np.resize(np.array([1.0, -1e5, 2.0**54, 2.0**55, 2.0**61, 2.0**70]), 64)
    beyond = np.maximum(np.frexp(x)[1] + 1022 - 1077, 0)
    low, high = halves_of(x.view(np.uint64))
    inputs = {"v2": low.astype(np.uint32), "v3": high.astype(np.uint32)}
    for segment in (0, 1, 2):
        shift = [53 * segment + int(n) for n in beyond]
        expected = [np.ldexp(float(TWO_OVER_PI >> 203 - n & (1 << 53) - 1), -53 - n) for n in shift]
        found = run(f"v_trig_preop_f64 v[10:11], |v[2:3]|, {segment}", inputs, ["v10", "v11"])
        same(found[0] | found[1].astype(np.uint64) << np.uint64(32), np.array(expected))


@pytest.mark.parametrize("target", ["gfx90a", "gfx1100"])
def test_classes_of_halves(target: str) -> None:
    bits = [0x7D00, 0x7E00, 0xFC00, 0xC000, 0x8001, 0x8000, 0, 1, 0x0400, 0x7C00]
    n, mask = (64, "vcc") if target == "gfx90a" else (32, "vcc_lo")
    kinds = np.uint32(1) << np.arange(n, dtype=np.uint32) % np.uint32(10)
    inputs = {"v2": lanes(np.array(bits, np.uint32), 0, n), "v3": kinds}
    text = f"v_cmp_class_f16_e32 {mask}, v2, v3\nv_cndmask_b32_e64 v10, 0, 1, {mask}"
    assert set(run(text, inputs, ["v10"], target, (n, 1, 1))[0].tolist()) == {1}


def test_a_pair_reads_before_it_writes() -> None:
    inputs = {"v2": A[:32], "v3": B[:32]}
    text = "v_dual_mov_b32 v2, v3 :: v_dual_add_f32 v3, v2, v2"
    first, second = run(text, inputs, ["v2", "v3"], "gfx1100", (32, 1, 1))
    same(first, B[:32])
    with np.errstate(all="ignore"):
        same(second, A[:32].view(np.float32) * np.float32(2))


def test_an_unknown_instruction_is_named() -> None:
    code = lower(machine_code("\tv_mov_b32_e32 v1, v0\n\tv_mystery_b32 v1, v2"))
    assert code.unknown == {1: "v_mystery_b32 v1, v2"}
