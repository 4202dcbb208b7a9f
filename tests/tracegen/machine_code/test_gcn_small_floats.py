"""Conversions of floats of 8 and 4 bits on AMD's GPUs, of all codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tracegen.machine_code.gcn_programs import run

CODES = np.arange(256, dtype=np.uint32)


def number_of(code: int, form: str) -> float:
    """What a code stands for: IEEE's rules, but for those of 4 exponent bits without infinity, and FNUZ, where 128 is not a number."""
    fraction = 3 if form.startswith("e4m3") else 2
    bias = {"e4m3": 7, "e5m2": 15, "e4m3fnuz": 8, "e5m2fnuz": 16}[form]
    size, sign = code % 128, -1.0 if code > 127 else 1.0
    if code == 128 if form.endswith("fnuz") else size > {"e4m3": 126, "e5m2": 124}[form]:
        return float("nan")
    if (form, size) == ("e5m2", 124):
        return sign * float("inf")
    exponent, inside = divmod(size, 1 << fraction)
    if exponent:
        return sign * (1 + inside / (1 << fraction)) * 2.0 ** (exponent - bias)
    return sign * inside / (1 << fraction) * 2.0 ** (1 - bias)


FORMS = [
    ("gfx942", "fp8", "e4m3fnuz"), ("gfx942", "bf8", "e5m2fnuz"), ("gfx950", "fp8", "e4m3"), ("gfx950", "bf8", "e5m2"),
]  # fmt: skip


def floats(rows: Any) -> Any:
    return np.asarray(rows, np.uint32).view(np.float32)


@pytest.mark.parametrize(("target", "name", "form"), FORMS)
def test_all_codes(target: str, name: str, form: str) -> None:
    want = np.array([number_of(code, form) for code in range(256)], np.float32).reshape(64, 4)
    words = CODES.reshape(64, 4) << np.arange(0, 32, 8, dtype=np.uint32)
    word = np.bitwise_or.reduce(words, axis=1)
    body = f"""v_cvt_pk_f32_{name}_e32 v[2:3], v1
        v_cvt_pk_f32_{name}_sdwa v[4:5], v1 src0_sel:WORD_1
        v_cvt_f32_{name}_sdwa v6, v1 src0_sel:BYTE_3"""
    found = [floats(row) for row in run(body, {"v1": word}, ["v2", "v3", "v4", "v5", "v6"], target)]
    np.testing.assert_array_equal(np.stack(found, 1), want[:, [0, 1, 2, 3, 3]])


@pytest.mark.parametrize(("target", "name", "form"), FORMS)
@pytest.mark.parametrize("saturates", [False, True])
def test_nearest_codes(target: str, name: str, form: str, saturates: bool) -> None:
    """Numbers, those halfway between two, and too large ones."""
    every = np.array([number_of(code, form) for code in range(128)])
    every = np.sort(every[np.isfinite(every)])
    given = np.concatenate([every, (every[1:] + every[:-1]) / 2, [3e38, np.nan]])[:254]
    given = np.resize(given, 256).astype(np.float32).reshape(64, 4) * np.array(
        [1, -1, 1, -1], np.float32
    )
    mode = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1" if saturates else ""
    body = f"""{mode}
        v_mov_b32_e32 v5, 0
        v_cvt_pk_{name}_f32 v5, v1, v2
        v_cvt_pk_{name}_f32 v5, v3, v4 op_sel:[0,0,1]"""
    inputs = {f"v{1 + k}": given[:, k].view(np.uint32) for k in range(4)}
    (word,) = run(body, inputs, ["v5"], target)
    codes = np.asarray(word, np.uint32)[:, None] >> np.arange(0, 32, 8) & 255
    found = np.vectorize(lambda code: number_of(int(code), form))(codes)
    distance = np.abs(np.abs(given.astype(float))[..., None] - every).min(-1)
    beyond = np.abs(given) > every[-1]
    largest = np.copysign(every[-1], given)
    over = np.copysign(np.inf, given) if form == "e5m2" else np.nan
    np.testing.assert_array_equal(
        found[beyond], (largest if saturates else np.broadcast_to(over, given.shape))[beyond]
    )
    assert np.isnan(found[np.isnan(given)]).all()
    within = ~beyond & ~np.isnan(given)
    np.testing.assert_array_equal(np.abs(found - given)[within], distance[within])
    is_tie = within & (distance > 0)
    assert np.all(codes[is_tie] % 2 == 0)


@pytest.mark.parametrize(("to", "of"), [("f16", np.float16), ("f32", np.float32)])
def test_numbers_with_a_scale(to: str, of: Any) -> None:
    """Of gfx950: floats of 4 bits, and of 8, times the exponent of a float."""
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    code = CODES[:64] * 37 % 256
    want = np.stack(
        [np.where(one & 8, -1, 1) * values[one & 7] * 8.0 for one in (code & 15, code >> 4)], 1
    )
    d = "v[2:3]" if to == "f32" else "v2"
    outputs = ["v2", "v3"] if to == "f32" else ["v2"]
    for byte in range(4):
        selected = f"op_sel:[{byte & 1},{byte >> 1},0]"
        body = f"v_cvt_scalef32_pk_{to}_fp4 {d}, v1, v4 {selected}"
        inputs = {"v1": code << 8 * byte, "v4": np.full(64, 0x41200000, np.uint32)}  # 10: 2^3
        found = np.ascontiguousarray(np.stack(run(body, inputs, outputs, "gfx950"), 1)).view(of)
        np.testing.assert_array_equal(found, want)


def test_codes_of_numbers_with_a_scale() -> None:
    given = np.array([1, -2, 0.5, 7, 448, 1e4, 0, -3], np.float32)
    inputs = {f"v{k}": np.resize(s * given * 4, 64).view(np.uint32) for k, s in ((1, 1), (2, -1))}
    body = """s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1
        v_mov_b32_e32 v3, -1
        v_cvt_scalef32_pk_fp8_f32 v3, v1, v2, 4.0 op_sel:[0,0,0,1]"""
    (word,) = run(body, inputs, ["v3"], "gfx950")
    word = np.asarray(word, np.uint32)[:8]
    found = [[number_of(int(one), "e4m3") for one in word >> at & 255] for at in (16, 24)]
    want = np.clip(given, -448, 448)
    assert np.array_equal(found, [want, -want])
    assert np.all(word & 0xFFFF == 0xFFFF)
