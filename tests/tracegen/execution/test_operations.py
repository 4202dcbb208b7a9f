"""What each operation gives at the ends of its range, from sources other than the twin: NumPy's arithmetic of fixed width,
the C library's fma under its own rounding modes, texts of bits, and cases worked out by hand."""

from __future__ import annotations

import ctypes
import itertools
import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.twins.operations import DO, Step
from tests.twins.programs import DOUBLES, WORDS
from tracegen.execution import operations as o

D, E, A, B, C = 10, 14, 20, 24, 28
"""Rows of the fields. Masks: d 2, e 3, y 4, m 5, n 6, guard 7."""
LIBM = ctypes.CDLL("libm.so.6")
for _name, _kind in (("fma", ctypes.c_double), ("fmaf", ctypes.c_float)):
    getattr(LIBM, _name).restype, getattr(LIBM, _name).argtypes = _kind, [_kind] * 3
MODES = {0: 0, o.ROUND_DOWN: 0x400, o.ROUND_UP: 0x800, o.ROUND_ZERO: 0xC00}
"""What fesetround of x86 takes."""


class Registers:
    """As much of a sub-group as an operation touches."""

    def __init__(self, lanes: int) -> None:
        self.rows = np.zeros((32, lanes), np.uint32)
        self.masks = np.zeros((8, lanes), bool)
        self.masks[0] = True

    def mask(self, source: int) -> Any:
        return ~self.masks[source // 2] if source % 2 else self.masks[source // 2]


def did(
    name: str, *, a: Any = (), b: Any = (), c: Any = (), m: Any = None, n: Any = None, guard: Any = None, d: Any = (),
    x: int = 0, y: int = 0,
) -> Registers:  # fmt: skip
    """Registers after one operation on lanes of these numbers, of up to 64 bits."""
    lanes = max(np.size(one) for one in (a, b, c, m, n, d) if one is not None)
    held, kind = Registers(lanes), o.OPERATIONS[name]
    for row, values in ((A, a), (B, b), (C, c), (D, d)):
        if np.size(values):
            wide = np.broadcast_to(np.array(values, np.uint64), lanes)
            held.rows[row], held.rows[row + 1] = wide & np.uint64(0xFFFFFFFF), wide >> np.uint64(32)
    for mask, given in ((5, m), (6, n), (7, guard)):
        held.masks[mask] = given if given is not None else mask != 6
    fields = {"guard": 14, "d": D, "a": A, "b": B, "c": C, "x": x, "y": y}
    fields |= {"m": o.ALWAYS if m is None else 10, "n": o.NEVER if n is None else 12, "e": E}
    fields |= {field: {"d": 2, "e": 3, "y": 4}[field] for field in kind.masks_written}
    DO[name](Step(held, o.MicroOperation(kind.number, **fields), np.ones(lanes, bool)))
    return held


def d32(name: str, **given: Any) -> list[int]:
    return did(name, **given).rows[D].tolist()


def d64(name: str, **given: Any) -> list[int]:
    rows = did(name, **given).rows.astype(np.uint64)
    return (rows[D] | rows[D + 1] << np.uint64(32)).tolist()


PAIRS = [list(one) for one in zip(*itertools.product(WORDS, WORDS), strict=True)]
WIDE = [list(one) for one in zip(*itertools.product([*DOUBLES, *WORDS[:12]], DOUBLES), strict=True)]
THIRD = [WORDS[(7 * k + k // 5) % len(WORDS)] for k in range(len(PAIRS[0]))]


def s32(value: int) -> int:
    return struct.unpack("i", struct.pack("I", value))[0]


def s64(value: int) -> int:
    return struct.unpack("q", struct.pack("Q", value))[0]


def text(value: int, bits: int = 32) -> str:
    """Bits, the highest first."""
    return f"{value & (1 << bits) - 1:0{bits}b}"


def shifted(value: int, by: int, bits: int, fill: str, left: bool) -> int:
    by = min(by, bits)
    word = text(value, bits)
    return int(word[by:] + "0" * by if left else fill * by + word[: bits - by], 2)


def four(value: int, kind: str) -> tuple[int, ...]:
    return struct.unpack(f"4{kind}", struct.pack("I", value))


ONE_ROW: dict[str, tuple[Callable[[int, int, int], int], int]] = {
    "MOVE": (lambda a, b, c: a, 0),
    "ADD3": (lambda a, b, c: int(np.array([a, b, c], np.uint32).sum(dtype=np.uint32)), 0),
    "MULTIPLY_ADD": (lambda a, b, c: int((np.array([a], np.uint32) * np.uint32(b) + np.uint32(c))[0]), 0),
    "MULTIPLY_HIGH_U": (lambda a, b, c: int(np.uint64(a) * np.uint64(b) >> np.uint64(32)), 0),
    "MULTIPLY_HIGH_S": (lambda a, b, c: int(np.int64(s32(a)) * np.int64(s32(b)) >> np.int64(32)), 0),
    "MULTIPLY_24": (lambda a, b, c: int(text(a, 24), 2) * int(text(b, 24), 2) + c, 0),
    "DOT4": (lambda a, b, c: c + int(np.dot(four(a, "B"), four(b, "B"))), 0),
    "SHIFT_LEFT": (lambda a, b, c: shifted(a, b, 32, "0", True), 0),
    "SHIFT_RIGHT_U": (lambda a, b, c: shifted(a, b % 32, 32, "0", False), o.WRAP),
    "SHIFT_RIGHT_S": (lambda a, b, c: shifted(a, b, 32, text(a)[0], False), 0),
    "FUNNEL_LEFT": (lambda a, b, c: int((text(c) + text(a))[min(b, 32) :][:32], 2), 0),
    "FUNNEL_RIGHT": (lambda a, b, c: int(("0" * 32 + text(c) + text(a))[32 - b % 32 :][32:64], 2), o.WRAP),
    "BIT_FIELD_U": (lambda a, b, c: int("0" + ("0" * 64 + text(a))[96 - b % 32 - c % 32 : 96 - b % 32], 2), 0),
    "BIT_FIELD_S": (lambda a, b, c: _signed_text((text(a)[0] * 64 + text(a))[96 - b % 32 - c % 32 : 96 - b % 32]), 0),
    "BIT_MASK": (lambda a, b, c: sum(1 << k for k in range(32) if a <= k < a + b), 0),
    "SIGN_EXTEND_AT": (lambda a, b, c: _signed_text(text(a)[32 - min(b, 32) :]), 0),
    "PERMUTE_BYTES": (lambda a, b, c: _permuted(a, b, c), 0),
    "MINIMUM_S": (lambda a, b, c: a if s32(a) < s32(b) else b, 0),
    "MAXIMUM_S": (lambda a, b, c: a if s32(a) > s32(b) else b, 0),
    "MINIMUM_U": (lambda a, b, c: sorted((a, b))[0], 0),
    "MAXIMUM_U": (lambda a, b, c: sorted((a, b))[1], 0),
    "ABSOLUTE": (lambda a, b, c: a if text(a)[0] == "0" else (1 << 32) - a, 0),
    "COUNT_ONES": (lambda a, b, c: text(a).count("1"), 0),
    "HIGHEST_BIT": (lambda a, b, c: 31 - text(a).find("1") if a else -1, 0),
    "LOWEST_BIT": (lambda a, b, c: 31 - text(a).rfind("1") if a else -1, 0),
    "REVERSE_BITS": (lambda a, b, c: sum(1 << 31 - k for k in range(32) if a & 1 << k), 0),
    "SUM_DIFFERENCES": (lambda a, b, c: c + sum(abs(p - q) for p, q in zip(four(a, "B"), four(b, "B"), strict=True)), 3),
}  # fmt: skip


def _signed_text(bits: str) -> int:
    return int(bits[0] * 64 + bits, 2) if bits else 0


def _permuted(a: int, b: int, c: int) -> int:
    held = struct.pack("II", a, b)
    chosen = [int(digit, 16) for digit in f"{c:08x}"[:3:-1]]
    return sum(
        (held[k % 8] if k < 8 else 255 * (held[k % 8] > 127)) << 8 * n for n, k in enumerate(chosen)
    )


@pytest.mark.parametrize("name", ONE_ROW)
def test_words(name: str) -> None:
    wanted, x = ONE_ROW[name]
    a, b = PAIRS
    found = d32(name, a=a, b=b, c=THIRD, x=x)
    assert found == [wanted(*one) & 0xFFFFFFFF for one in zip(a, b, THIRD, strict=True)]


TWO_ROWS: dict[str, Callable[[int, int], int]] = {
    "MOVE2": lambda a, b: a,
    "ADD64": lambda a, b: int((np.array([a], np.uint64) + np.uint64(b))[0]),
    "MULTIPLY64": lambda a, b: int((np.array([a], np.uint64) * np.uint64(b))[0]),
    "SHIFT_LEFT64": lambda a, b: shifted(a, b % (1 << 32), 64, "0", True),
    "SHIFT_RIGHT64_U": lambda a, b: shifted(a, b % (1 << 32), 64, "0", False),
    "SHIFT_RIGHT64_S": lambda a, b: shifted(a, b % (1 << 32), 64, text(a, 64)[0], False),
    "MINIMUM64_S": lambda a, b: a if s64(a) < s64(b) else b,
    "MAXIMUM64_S": lambda a, b: a if s64(a) > s64(b) else b,
    "MINIMUM64_U": lambda a, b: sorted((a, b))[0],
    "MAXIMUM64_U": lambda a, b: sorted((a, b))[1],
}


@pytest.mark.parametrize("name", TWO_ROWS)
def test_pairs_of_words(name: str) -> None:
    b, a = WIDE
    if "SHIFT" in name:
        b = [value & 127 if k % 2 else value for k, value in enumerate(b)]
    assert d64(name, a=a, b=b) == [TWO_ROWS[name](*one) for one in zip(a, b, strict=True)]


BY_HAND: list[tuple[str, dict[str, Any], int]] = [
    ("ADD3", {"a": 5, "b": 7, "c": 9, "x": o.NEGATE_A | o.NEGATE_C}, -7 & 0xFFFFFFFF),
    ("MULTIPLY_ADD", {"a": 5, "b": 7, "c": 9, "x": o.NEGATE_A | o.NEGATE_C}, -44 & 0xFFFFFFFF),
    ("SELECT", {"a": 0x3F800000, "b": 2, "m": [True], "x": o.NEGATE_A}, 0xBF800000),
    ("SELECT", {"a": 1, "b": 0xBF800000, "m": [False], "x": o.ABSOLUTE_B}, 0x3F800000),
    ("LOGIC3", {"a": 0b11110000, "b": 0b11001100, "c": 0b10101010, "y": 0b01101000}, 0b01101000),
    ("LOGIC3", {"a": 0xFFFFFFFF, "b": 0, "c": 0xFFFFFFFF, "y": 1 << 5}, 0xFFFFFFFF),
    ("MULTIPLY_24", {"a": 0xFF800000, "b": 2, "c": 1, "x": 1}, 0xFF000001),
    ("DOT4", {"a": 0xFF, "b": 0xFF, "c": 10, "x": 3}, 11),
    ("DOT4", {"a": 0xFF, "b": 0xFF, "c": 10, "x": 1}, 10 - 255 + (1 << 32)),
    ("SHIFT_LEFT", {"a": 1, "b": 33, "x": o.WRAP}, 2),
    ("SHIFT_RIGHT_S", {"a": 0x80000000, "b": 33, "x": o.WRAP}, 0xC0000000),
    ("FUNNEL_RIGHT", {"a": 0x80000001, "b": 40, "c": 7}, 7),
    ("FUNNEL_LEFT", {"a": 0x80000001, "b": 33, "c": 7, "x": o.WRAP}, 15),
    ("BIT_MASK", {"a": 33, "b": 34, "x": o.WRAP}, 6),
    ("SIGN_EXTEND_AT", {"a": 0x80, "b": 40, "x": o.WRAP}, 0xFFFFFF80),
    ("HIGHEST_BIT", {"a": 0x00FFFFFF, "x": 1}, 8),
    ("HIGHEST_BIT", {"a": 0xFFFFFF7F, "x": 2}, 7),
    ("HIGHEST_BIT", {"a": 0xFFFFFFFF, "x": 2}, 0xFFFFFFFF),
    ("SUM_DIFFERENCES", {"a": 0x80000000, "b": 0x7FFFFFFF, "c": 1}, 0),
    ("SUM_DIFFERENCES", {"a": 0x80000000, "b": 0x7FFFFFFF, "c": 1, "x": 1}, 2),
    ("SUM_DIFFERENCES", {"a": 0x80, "b": 0x7F, "x": 2}, 255),
    ("ADD_F32", {"a": 0x00000001, "b": 0x80000000, "x": o.FLUSH}, 0),
    ("ADD_F32", {"a": 0x00800000, "b": 0x807FFFFF}, 1),
    ("ADD_F32", {"a": 0x00800001, "b": 0x80800000, "x": o.FLUSH}, 0),
    ("ADD_F32", {"a": 0x3F800000, "b": 0x3F800000, "x": o.SATURATE}, 0x3F800000),
    ("ADD_F32", {"a": 0x7FC00000, "b": 0, "x": o.SATURATE}, 0),
    ("ADD_F32", {"a": 0xBF800000, "b": 0x40000000, "x": o.ABSOLUTE_A | o.NEGATE_A}, 0x3F800000),
    ("ADD_F32", {"a": 0x3F800000, "b": 0xBF800000, "x": o.ROUND_DOWN}, 0x80000000),
    ("MULTIPLY_F32", {"a": 0x7F7FFFFF, "b": 0x40000000, "x": o.ROUND_ZERO}, 0x7F7FFFFF),
    ("MULTIPLY_F32", {"a": 0x00000001, "b": 0x3F000000, "x": o.ROUND_UP}, 1),
    ("MINIMUM_F32", {"a": 0x80000000, "b": 0}, 0x80000000),
    ("MINIMUM_F32", {"a": 0x7FC00000, "b": 0x40000000}, 0x40000000),
    ("MAXIMUM_F32", {"a": 0x80000000, "b": 0}, 0),
    ("MAXIMUM_F32", {"a": 0xC0000000, "b": 0x7F800001}, 0xC0000000),
    ("ADD_F16", {"a": 0x3C004000, "b": 0x3C003C00}, 0x40004200),  # (1, 2) + (1, 1)
    ("ADD_F16", {"a": 0x3C004000, "b": 0x3C003C00, "x": 2 << o.HALVES_A | o.NEGATE_HIGH_B}, 0x4000),  # (1 - 1, 1 + 1)
    ("ADD_F16", {"a": 0x3F804000, "b": 0x3F803F80, "x": o.BF16}, 0x40004040),
    ("MULTIPLY_F16", {"a": 0x40400000, "b": 0x3C004000, "x": 3 << o.HALVES_A}, 0x42004600),  # 3 * (1, 2)
    ("FUSED_F16", {"a": 0x3C03, "b": 0x3C03, "c": 0xBC00}, 0x1E02),  # (1 + 3 / 1024)^2 - 1; 0x1E00 if rounded twice
    ("FUSED_F16", {"a": 0x7BFF, "b": 0x4000, "c": 0x7C00, "x": o.NEGATE_C}, 0xFC00),
    ("MINIMUM_F16", {"a": 0x7E008000, "b": 0x3C000000}, 0x3C008000),
    ("MAXIMUM_F16", {"a": 0x7E008000, "b": 0x3C000000}, 0x3C000000),
    ("SPECIAL_HIGH", {"a": 0x40000000, "y": o.RECIPROCAL}, 0x3FE00000),
    ("SPECIAL_HIGH", {"a": 0x40100000, "y": o.RECIPROCAL_ROOT}, 0x3FE00000),
    ("FRACTION_F32", {"a": 0xBFC00000}, 0x3F000000),  # -1.5 - -2
    ("FRACTION_F32", {"a": 0x80000001}, 0x3F7FFFFF),
    ("FRACTION_F32", {"a": 0xC0C00000, "y": 1}, 0xBF400000),  # -6 = -0.75 * 2^3
    ("FRACTION_F32", {"a": 0x00000001, "y": 2}, -148 & 0xFFFFFFFF),
    ("FRACTION_F64", {"a": 0xC018 << 48, "y": 2}, 3),
    ("SCALE_F32", {"a": 0x3F800003, "b": -149 & 0xFFFFFFFF}, 1),
    ("SCALE_F32", {"a": 0xBF800000, "b": 0x7FFFFFFF}, 0xFF800000),
    ("DIVISION_STEP_F32", {"a": 0x40000000, "b": 0x3F800000, "c": 0x40000000, "m": [True]}, 0x60800000),  # 4 * 2^64
    ("DIVISION_STEP_F32", {"a": 0x40000000, "b": 0x3F800000, "c": 0x3F800000, "m": [True]}, 0x20400000),  # 3 * 2^-64
    ("DIVISION_FIX_F32", {"a": 0x3F000000, "b": 0xC0000000, "c": 0x3F800000}, 0xBF000000),
    ("DIVISION_FIX_F32", {"a": 0x3F000000, "b": 0x80000000, "c": 0x3F800000}, 0xFF800000),
    ("PACK_F16", {"a": 0x3F801000, "b": 0x47800000}, 0x3C007C00),  # ties to even; too large
    ("PACK_F16", {"a": 0x3F803000, "b": 0x47800000, "x": o.ROUND_ZERO | o.NEGATE_A}, 0xBC017BFF),
    ("PACK_F16", {"a": 0x3F818000, "b": 0x7F7FFFFF, "x": o.BF16}, 0x3F827F80),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "wanted"), BY_HAND)
def test_by_hand(name: str, given: dict[str, Any], wanted: int) -> None:
    assert d32(name, **given) == [wanted]


def test_carries_and_borrows() -> None:
    a, b = PAIRS
    for x, m, n in itertools.product((0, o.NEGATE_B), (False, True), (False, True)):
        held = did("ADD_CARRY", a=a, b=b, c=THIRD, x=x, m=m, n=n)
        for k, (p, q, r) in enumerate(zip(a, b, THIRD, strict=True)):
            total = p + ((1 << 32) - q if x else q) + r + m + n
            carries = [total >= 1 << 32, total >= 2 << 32]
            assert [held.rows[D, k], *held.masks[3:5, k]] == [total % (1 << 32), *carries]
        held = did("BORROW", a=a, b=b, m=m)
        assert held.masks[3].tolist() == [p < q + m for p, q in zip(a, b, strict=True)]
        assert held.rows[D].tolist() == [int(text(p - q - m), 2) for p, q in zip(a, b, strict=True)]
        c = [third << 32 | 0xFFFFFFFF for third in THIRD]
        for name, kind in (("MULTIPLY_WIDE_U", int), ("MULTIPLY_WIDE_S", s32)):
            held = did(name, a=a, b=b, c=c, m=m)
            totals = [
                int(text(kind(p) * kind(q), 64), 2) + r + m for p, q, r in zip(a, b, c, strict=True)
            ]
            assert held.masks[3].tolist() == [total >= 1 << 64 for total in totals]
            assert d64(name, a=a, b=b, c=c, m=m) == [total % (1 << 64) for total in totals]


def as_floats(values: list[int], form: str) -> Any:
    return np.array(values, np.uint64).astype(f"u{form[1]}").view(form)


def test_comparisons() -> None:
    """All relations, and some combined with a mask in all ways."""
    ways = {
        o.COMBINE_AND: np.logical_and,
        o.COMBINE_OR: np.logical_or,
        o.COMBINE_XOR: np.logical_xor,
    }
    kinds = {"S": "i4", "U": "u4", "64_S": "i8", "64_U": "u8", "F32": "f4", "F64": "f8"}
    for suffix, kind in kinds.items():
        name = f"COMPARE{suffix}" if suffix[0] == "6" else f"COMPARE_{suffix}"
        a, b = WIDE if "8" in kind else PAIRS
        p, q = (as_floats(one, kind) for one in (a, b))
        outcomes = (p < q, p == q, p > q, (p != p) | (q != q))
        for x, (way, combined), m in itertools.product(range(16), ways.items(), (False, True)):
            if x % 7 != 3 and not (way == o.COMBINE_AND and m):
                continue
            holds = np.any([one & bool(x >> k & 1) for k, one in enumerate(outcomes)], axis=0)
            held = did(name, a=a, b=b, x=x | way, m=m)
            assert (held.masks[2] == combined(holds, m)).all()
            assert (held.masks[3] == combined(~holds, m)).all()


def test_packed_comparisons() -> None:
    held = did("COMPARE_F16", a=[0x3C007E00] * 2, b=[0x3C003C00] * 2, x=o.EQUAL, m=[True, False])
    assert (held.masks[2].tolist(), held.masks[3].tolist()) == ([False, False], [True, False])
    held = did(
        "COMPARE_F16", a=0x3C007E00, b=0x3C004000, x=o.UNORDERED | o.GREATER | 2 << 24 | 1 << 26
    )
    assert (held.masks[2].tolist(), held.masks[3].tolist()) == ([False], [False])  # both 1 and 2
    held = did("COMPARE_F16", a=0xBF804000, b=0x3F803F80, x=o.EQUAL | o.BF16 | o.ABSOLUTE_A << 8)
    assert (held.masks[2].tolist(), held.masks[3].tolist()) == ([False], [True])


CLASSES = {
    "CLASS_F32": [0x7F800001, 0x7FC00000, 0xFF800000, 0xC0000000, 0x80000001, 0x80000000, 0, 1, 0x40000000, 0x7F800000],
    "CLASS_F64": [(0x7FF << 52) + 1, 0x7FF8 << 48, 0xFFF << 52, 0xC << 60, (1 << 63) + 1, 1 << 63, 0, 1, 1 << 62, 0x7FF << 52],
}  # fmt: skip


def test_classes() -> None:
    for name, values in CLASSES.items():
        for bit in range(10):
            assert np.flatnonzero(did(name, a=values, b=1 << bit).masks[2]).tolist() == [bit]


def test_masks() -> None:
    m, n = np.array([0, 0, 1, 1] * 16, bool), np.array([0, 1] * 32, bool)
    assert (did("MASK_LOGIC3", m=m, n=n, x=0b11001100, y=o.NEVER).masks[2] == n).all()
    assert (did("MASK_LOGIC3", m=m, n=n, x=0b00100000, y=o.ALWAYS).masks[2] == (m & ~n)).all()
    few = np.arange(64) < 3
    assert (did("MASK_LOGIC3", m=m, n=n, x=0xFF, y=o.ALWAYS, guard=few).masks[2] == few).all()
    assert d64("MASK_TO_ROWS", m=m) == [0xCCCCCCCCCCCCCCCC] * 64
    assert d64("MASK_TO_ROWS", m=m, x=3, guard=few) == [4] * 64
    held = did("ROWS_TO_MASK", a=[0x8000000000000005, *[0] * 63], guard=few)
    assert np.flatnonzero(held.masks[2]).tolist() == [0, 2, 63]
    for y, some, answers in (
        (o.VOTE_ANY, few, [1, 1, 0]),
        (o.VOTE_ALL, few, [0, 1, 0]),
        (o.VOTE_EQUAL, few, [0, 1, 1]),
    ):
        for said, answer in zip((np.arange(64) < 2, few, ~few), answers, strict=True):
            assert (did("VOTE", m=said, guard=some, y=y).masks[2] == (some & bool(answer))).all()
    assert did("VOTE_WHOLE", m=np.arange(64) == 63, guard=few).masks[2].all()
    assert not did("VOTE_WHOLE", m=np.zeros(64, bool)).masks[2].any()


def fused(name: str, form: str, x: int, *values: Any) -> Any:
    """The C library's a * b + c, rounded as x says."""
    function = LIBM.fmaf if form == "f4" else LIBM.fma
    out = []
    assert LIBM.fesetround(MODES[x]) == 0
    try:
        for lane in zip(*(one.tolist() for one in values), strict=True):
            out.append(function(*lane))
    finally:
        LIBM.fesetround(0)
    return np.array(out, form)


@pytest.mark.parametrize("x", MODES)
@pytest.mark.parametrize(("suffix", "form"), [("F32", "f4"), ("F64", "f8")])
def test_floats(suffix: str, form: str, x: int) -> None:
    a, b = PAIRS if form == "f4" else WIDE
    c = THIRD if form == "f4" else [DOUBLES[7 * k % len(DOUBLES)] for k in range(len(a))]
    p, q, r = (as_floats(one, form) for one in (a, b, c))
    one = np.ones_like(p)
    zero = np.where(np.signbit(p) != np.signbit(q), -0.0, 0.0).astype(form)
    sources = {"ADD": (p, one, q), "MULTIPLY": (p, q, zero), "FUSED": (p, q, r)}
    for name, given in sources.items():
        wanted = fused(name, form, x, *given)
        bits = (d32 if form == "f4" else d64)(f"{name}_{suffix}", a=a, b=b, c=c, x=x)
        found = as_floats(bits, form)
        assert (
            (found == wanted) & (np.signbit(found) == np.signbit(wanted))
            | np.isnan(found) & np.isnan(wanted)
        ).all(), name
    if x == 0:
        for name, function in (("MINIMUM", np.minimum), ("MAXIMUM", np.maximum)):
            found = as_floats((d32 if form == "f4" else d64)(f"{name}_{suffix}", a=a, b=b), form)
            # A signalling NaN is a NaN to NumPy's fmin on some processors, and a missing number on others.
            wanted = np.where(np.isnan(p), q, np.where(np.isnan(q), p, function(p, q)))
            np.testing.assert_array_equal(found, wanted)


def test_halves() -> None:
    halves = [
        0x0000, 0x8000, 0x0001, 0x03FF, 0x0400, 0x3C00, 0x3C01, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00,
        0x7E00, 0x1234,
    ]  # fmt: skip
    a, b = zip(*itertools.product(halves, halves), strict=True)
    p, q = (np.array(one, np.uint16).view(np.float16) for one in (a, b))
    with np.errstate(all="ignore"):
        fused = (p.astype("f8") * q - 1).astype("f2")
        wanted = {"ADD_F16": p + q, "MULTIPLY_F16": p * q, "FUSED_F16": fused}
    for name, values in wanted.items():
        found = np.array(d32(name, a=a, b=b, c=0xBC00), np.uint32)
        np.testing.assert_array_equal(found.astype(np.uint16).view(np.float16), values)


SPECIAL: dict[int, Callable[[float], float]] = {
    o.RECIPROCAL: lambda a: 1 / a, o.ROOT: math.sqrt, o.RECIPROCAL_ROOT: lambda a: a**-0.5, o.EXP2: lambda a: math.exp(a * math.log(2)),
    o.LOG2: lambda a: math.log(a) / math.log(2), o.SINE: lambda a: (math.e ** (1j * a)).imag,
    o.COSINE: lambda a: (math.e ** (1j * a)).real, o.TANH: lambda a: 1 - 2 / (math.exp(2 * a) + 1),
}  # fmt: skip


@pytest.mark.parametrize("y", SPECIAL)
def test_special(y: int) -> None:
    values = np.array([0.5, 1, 3, 0.1, 7.25], np.float32)
    bits = values.view(np.uint32).tolist()
    wanted = [SPECIAL[y](float(value)) for value in values]
    np.testing.assert_allclose(as_floats(d32("SPECIAL", a=bits, y=y), "f4"), wanted, rtol=2e-7)
    if y <= o.RECIPROCAL_ROOT:
        doubles = values.astype(np.float64).view(np.uint64).tolist()
        np.testing.assert_allclose(
            as_floats(d64("SPECIAL_F64", a=doubles, y=y), "f8"), wanted, rtol=1e-15
        )


def test_special_ends() -> None:
    ends = np.array([0, -0.0, np.inf, -np.inf, np.nan, -1], np.float32).view(np.uint32).tolist()
    nan, inf = math.nan, math.inf
    wanted = {
        o.RECIPROCAL: [inf, -inf, 0, -0.0, nan, -1], o.ROOT: [0, -0.0, inf, nan, nan, nan],
        o.RECIPROCAL_ROOT: [inf, -inf, 0, nan, nan, nan], o.EXP2: [1, 1, inf, 0, nan, 0.5], o.LOG2: [-inf, -inf, inf, nan, nan, nan],
    }  # fmt: skip
    for y, values in wanted.items():
        np.testing.assert_array_equal(as_floats(d32("SPECIAL", a=ends, y=y), "f4"), values)
    quarter = as_floats(d32("SPECIAL", a=0x3E800000, y=o.SINE, x=o.TURNS | o.NEGATE_A), "f4")
    np.testing.assert_allclose(quarter, [-1])


def test_divisions() -> None:
    """The operations together divide as AMD's compiler writes it, for every pair of exponents."""
    special = [0, -0.0, np.inf, -np.inf, np.nan, 1, 5e-324, 3e38]
    for form, first, last, bits in (("f4", -149, 128, 23), ("f8", -1074, 1024, 52)):
        rng = np.random.default_rng(5)
        numbers = rng.uniform(1, 2, (2, 600)) * rng.choice([-1, 1], (2, 600))
        low, high = np.ldexp(numbers, rng.integers(first, last, (2, 600))).astype(form)
        low = np.concatenate([low, np.repeat(np.array(special, form), 8)])
        high = np.concatenate([high, np.tile(np.array(special, form), 8)])
        with np.errstate(all="ignore"):
            wanted, found = high / low, divided(form, low, high)
            step = np.spacing(np.abs(wanted)) * (np.abs(wanted) < np.ldexp(1.0, first + bits))
            is_near = np.abs(found - wanted) <= step
        right = (found == wanted) | (np.isnan(found) & np.isnan(wanted)) | is_near
        assert right.all(), [one[~right][:5] for one in (low, high, found, wanted)]


def divided(form: str, low: Any, high: Any) -> Any:
    """high / low as LLVM's AMDGPU back end expands it (LowerFDIV32, LowerFDIV64)."""
    suffix, get = ("F32", d32) if form == "f4" else ("F64", d64)

    def bits_of(*values: Any) -> dict[str, list[int]]:
        lists = (one.view(f"u{form[1]}").tolist() for one in values)
        return dict(zip("abc", lists, strict=False))

    def of(name: str, *values: Any, **given: Any) -> Any:
        return as_floats(get(f"{name}_{suffix}", **bits_of(*values), **given), form)

    d, n = of("DIVISION_SCALE", low, low, high), of("DIVISION_SCALE", high, low, high)
    is_scaled = did(f"DIVISION_SCALE_{suffix}", **bits_of(high, low, high)).masks[3]
    one, r = np.ones_like(low), 1 / d
    for _ in range(2):
        r = of("FUSED", r, of("FUSED", d, r, one, x=o.NEGATE_A), r)
    q = of("MULTIPLY", n, r)
    q = of("FUSED", of("FUSED", d, q, n, x=o.NEGATE_A), r, q)
    rest = of("FUSED", d, q, n, x=o.NEGATE_A)
    return of("DIVISION_FIX", of("DIVISION_STEP", rest, r, q, m=is_scaled), low, high)


def test_division_check() -> None:
    a = [0x3F800000, 0x3F800000, 0x3F800000, 0x7F000000, 0x00000001, 0x7F800000]
    b = [0x40000000, 0x00800000, 0x7F000000, 0x3F000000, 0x3F800000, 0x3F800000]
    assert did("DIVISION_CHECK", a=a, b=b).masks[2].tolist() == [False, *[True] * 5]


KINDS = {o.U8: "u1", o.S8: "i1", o.U16: "u2", o.S16: "i2", o.U32: "u4", o.S32: "i4", o.U64: "u8", o.S64: "i8", o.F16: "f2", o.F32: "f4", o.F64: "f8"}  # fmt: skip
WHOLE = {o.TO_NEAREST: np.rint, o.TO_DOWN: np.floor, o.TO_UP: np.ceil, o.TO_ZERO: np.trunc}


@pytest.mark.parametrize("source", KINDS)
def test_conversions(source: int) -> None:
    given, a = np.dtype(KINDS[source]), [*DOUBLES, *WORDS]
    values = np.array(a, np.uint64).astype(f"u{given.itemsize}").view(given)
    for target, kind in KINDS.items():
        made, to_whole = np.dtype(kind), given.kind == "f" and np.dtype(kind).kind != "f"
        bits = f"u{made.itemsize}"
        for rounding in WHOLE if to_whole else [o.TO_NEAREST]:
            with np.errstate(all="ignore"):
                if to_whole:
                    wanted = [nearest(WHOLE[rounding](float(value)), made) for value in values]
                else:
                    wanted = values.astype(made).view(bits).tolist()
            found = d64("CONVERT", a=a, x=source | target << 4 | rounding << 8)
            assert max(found) < 1 << 8 * made.itemsize
            if made.kind == "f":
                given_floats, wanted_floats = (
                    np.array(one, bits).view(made) for one in (found, wanted)
                )
                np.testing.assert_array_equal(given_floats, wanted_floats)
            else:
                assert found == wanted, kind


def nearest(value: float, kind: Any) -> int:
    """The bits of the integer of a kind that is nearest to a whole number."""
    limits = np.iinfo(kind)
    if math.isnan(value):
        return 0
    whole = limits.max if value >= limits.max else limits.min if value <= limits.min else value
    return int(whole) & (1 << 8 * kind.itemsize) - 1


CONVERSIONS = [
    (o.BFLOAT16, o.F32, 0x12343F80, 0, 0x3F800000), (o.F32, o.BFLOAT16, 0x3F808000, 0, 0x3F80), (o.F32, o.BFLOAT16, 0x3F818000, 0, 0x3F82),
    (o.F32, o.F16, 0x477FF000, o.TO_ZERO << 8, 0x7BFF), (o.F64, o.F32, 0x3FF0000010000001, o.TO_DOWN << 8, 0x3F800000),
    (o.F64, o.F32, 0x3FF0000010000001, o.TO_UP << 8, 0x3F800001), (o.S32, o.F32, 0xFEFFFFFF, o.TO_ZERO << 8, 0xCB800000),
    (o.F32, o.F32, 0xBF000000, o.WHOLE_NUMBER, 0x80000000), (o.F32, o.F32, 0xBFC00000, o.WHOLE_NUMBER | o.TO_DOWN << 8, 0xC0000000),
    (o.F32, o.F32, 0x40000000, o.SATURATE_TO, 0x3F800000), (o.F32, o.F16, 0x7FC00000, o.SATURATE_TO, 0),
    (o.F32, o.S32, 0x3F800000, o.NEGATE_SOURCE, 0xFFFFFFFF), (o.F32, o.U32, 0xC0000000, o.ABSOLUTE_SOURCE, 2),
    (o.F32, o.F32, 0x80000001, o.FLUSH_SOURCE, 0x80000000), (o.F64, o.F32, 0x3690000000000000, o.FLUSH_SOURCE, 0),
    (o.U8, o.F32, 0x11223344, 2 << o.SOURCE_PART, 0x42080000), (o.F16, o.F32, 0xC0003C00, 1 << o.SOURCE_PART, 0xC0000000),
    (o.S32, o.U8, 300, o.SATURATE_TO, 255), (o.S32, o.U8, 300, 0, 44), (o.S32, o.S8, 0xFFFFFF00, o.SATURATE_TO, 0x80),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target", "a", "x", "wanted"), CONVERSIONS)
def test_conversions_by_hand(source: int, target: int, a: int, x: int, wanted: int) -> None:
    assert d32("CONVERT", a=a, x=source | target << 4 | x) == [wanted]


LANES = np.arange(32)


def test_between_lanes() -> None:
    a = 100 + LANES
    whole = 31
    assert d32("SHUFFLE", a=a, b=33, c=whole, y=o.SHUFFLE_INDEX) == [101] * 32
    assert d32("SHUFFLE", a=a, b=1, c=0, y=o.SHUFFLE_UP) == [100, *range(100, 131)]
    inside = did("SHUFFLE", a=a, b=1, c=24 << 8 | 7, y=o.SHUFFLE_DOWN).masks[3]
    assert np.flatnonzero(~inside).tolist() == [7, 15, 23, 31]
    assert d32("SHUFFLE", a=a, b=3, c=whole, y=o.SHUFFLE_BUTTERFLY) == (100 + (LANES ^ 3)).tolist()
    few = LANES >= 5
    assert d32("READ_LANE", a=a, b=[39, *[0] * 31], guard=few) == [107] * 32
    assert d32("READ_FIRST_LANE", a=a, guard=few) == [105] * 32
    assert d32("READ_FIRST_LANE", a=a, guard=LANES > 99) == [100] * 32
    assert d32("WRITE_LANE", a=a, b=[3, *[9] * 31], d=LANES) == [0, 1, 2, 100, *range(4, 32)]
    back = 33 - LANES
    permuted = [0, 1, *(100 + back)[2:29], 29, 30, 31]
    assert d32("PERMUTE_LANES", a=a, c=back, m=few, d=LANES) == permuted
    assert d32("PERMUTE_LANES", a=a, c=back, m=few, d=LANES, x=1)[:3] == [0, 0, 131]
    scattered = [*range(5), *range(111, 132, 2), *[0] * 16]
    assert d32("SCATTER_LANES", a=a, c=LANES // 2 + 32, d=LANES, guard=few) == scattered
    assert d32("MATCH_ANY", a=LANES % 2, guard=few)[5:7] == [0xAAAAAAA0, 0x55555540]
    assert d32("MATCH_ANY", a=[1 << 32] * 31 + [0], x=1)[30:] == [0x7FFFFFFF, 0x80000000]
    same, other = did("MATCH_ALL", a=[1] * 32), did("MATCH_ALL", a=LANES)
    assert (same.rows[D, 4], same.masks[3].all()) == (0xFFFFFFFF, True)
    assert (other.rows[D, 4], other.masks[3].any()) == (0, False)
    given = np.array([5, 0xFFFFFFFE, 7, 9, *[3] * 28], np.uint32)
    reduced = [19 + 84, 0xFFFFFFFE, 9, 3, 0xFFFFFFFE, 0, 0xFFFFFFFF, 5 ^ 0xFFFFFFFE ^ 7 ^ 9]
    for y, wanted in enumerate(reduced):
        assert d32("REDUCE", a=given, y=y) == [wanted] * 32


def test_results_of_others_are_kept() -> None:
    held = did("MOVE2", a=[1 << 40 | 5] * 4, d=[9 << 32 | 8] * 4, guard=[True, False, True, False])
    assert held.rows[D : D + 2].tolist() == [[5, 8, 5, 8], [256, 9, 256, 9]]
