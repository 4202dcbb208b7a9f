"""Single PTX instructions, through ptxas and the lowering of SASS, against what the PTX manual says they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.compilers import needs_nvidia
from tests.support.sass_runs import compiled, executed, ptx_of
from tracegen.compiled.model import MachineCode

Rule = Callable[[int, int, int], int]
WORD = 0xFFFFFFFF


def signed(x: int, bits: int = 32) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> bits - 1 else x


def byte_of(x: int, k: int) -> int:
    return x >> 8 * k & 255


def permuted(a: int, b: int, selectors: int) -> int:
    both, result = b << 32 | a, 0
    for k in range(4):
        chosen = selectors >> 4 * k & 15
        byte = both >> 8 * (chosen & 7) & 255
        result |= ((255 if byte >> 7 else 0) if chosen & 8 else byte) << 8 * k
    return result


MODES: dict[str, Callable[[int], int]] = {
    "f4e": lambda n: 0x3210 + 0x1111 * n,
    "b4e": lambda n: (0x5670, 0x6701, 0x7012, 0x0123)[n],
    "rc8": lambda n: 0x1111 * n,
    "ecl": lambda n: (0x3210, 0x3211, 0x3222, 0x3333)[n],
    "ecr": lambda n: (0x0000, 0x1110, 0x2210, 0x3210)[n],
    "rc16": lambda n: (0x1010, 0x3232)[n & 1],
}


def field(a: int, at: int, length: int, is_signed: bool) -> int:
    at, length = at & 255, length & 255
    if length == 0:
        return 0
    sign = a >> min(at + length - 1, 31) & 1 if is_signed else 0
    bits = [a >> at + k & 1 if at + k < 32 and k < length else sign for k in range(32)]
    return sum(bit << k for k, bit in enumerate(bits))


def inserted(a: int, b: int, at: int, length: int) -> int:
    mask = ((1 << length) - 1) << at & WORD
    return b & ~mask | a << at & mask


def highest(a: int, is_signed: bool) -> int:
    if is_signed and a >> 31:
        a = ~a & WORD
    return a.bit_length() - 1 & WORD


def extended(a: int, length: int, is_signed: bool) -> int:
    if length == 0:
        return 0
    if length >= 32:
        return a
    return (signed(a, length) if is_signed else a & (1 << length) - 1) & WORD


def clamped(x: int, least: int, most: int) -> int:
    return max(least, min(most, x))


def dot4(a: int, b: int, c: int, sa: bool, sb: bool) -> int:
    def part(x: int, is_signed: bool, k: int) -> int:
        return signed(byte_of(x, k), 8) if is_signed else byte_of(x, k)

    return c + sum(part(a, sa, k) * part(b, sb, k) for k in range(4))


def permuted_as(mode: str) -> Rule:
    return lambda a, b, c: permuted(a, b, MODES[mode](c & 3))


def product_rounded(way: str) -> Rule:
    return lambda a, b, c: directed(np.float64(float32(a)) * np.float64(float32(b)), way)


INTEGERS: dict[str, Rule] = {
    **{f"prmt.b32.{mode} %0,%1,%2,%3;": permuted_as(mode) for mode in MODES},
    "prmt.b32 %0,%1,%2,%3;": permuted,
    "bfe.u32 %0,%1,%2,%3;": lambda a, b, c: field(a, b, c, False),
    "bfe.s32 %0,%1,%2,%3;": lambda a, b, c: field(a, b, c, True),
    "bfi.b32 %0,%1,%2,5,9;": lambda a, b, c: inserted(a, b, 5, 9),
    "bfind.u32 %0,%1;": lambda a, b, c: highest(a, False),
    "bfind.s32 %0,%1;": lambda a, b, c: highest(a, True),
    "bfind.shiftamt.u32 %0,%1;": lambda a, b, c: 31 - highest(a, False) if a else WORD,
    "szext.wrap.s32 %0,%1,%2;": lambda a, b, c: extended(a, b & 31, True),
    "szext.clamp.u32 %0,%1,%2;": lambda a, b, c: extended(a, b, False),
    "bmsk.clamp.b32 %0,%1,%2;": lambda a, b, c: (
        ((1 << min(b, 32)) - 1 << a) & WORD if a < 32 else 0
    ),
    "bmsk.wrap.b32 %0,%1,%2;": lambda a, b, c: ((1 << (b & 31)) - 1 << (a & 31)) & WORD,
    "shf.l.wrap.b32 %0,%1,%2,%3;": lambda a, b, c: (b << 32 | a) << (c & 31) >> 32,
    "shf.l.clamp.b32 %0,%1,%2,%3;": lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32,
    "shf.r.wrap.b32 %0,%1,%2,%3;": lambda a, b, c: (b << 32 | a) >> (c & 31),
    "shf.r.clamp.b32 %0,%1,%2,%3;": lambda a, b, c: (b << 32 | a) >> min(c, 32),
    "shl.b32 %0,%1,%2;": lambda a, b, c: a << min(b, 32),
    "shr.u32 %0,%1,%2;": lambda a, b, c: a >> min(b, 32),
    "shr.s32 %0,%1,%2;": lambda a, b, c: signed(a) >> min(b, 32),
    "lop3.b32 %0,%1,%2,%3,0x96;": lambda a, b, c: a ^ b ^ c,
    "lop3.b32 %0,%1,%2,%3,0xe8;": lambda a, b, c: a & b | a & c | b & c,
    "dp4a.s32.u32 %0,%1,%2,%3;": lambda a, b, c: dot4(a, b, c, True, False),
    "dp4a.u32.s32 %0,%1,%2,%3;": lambda a, b, c: dot4(a, b, c, False, True),
    "dp2a.lo.s32.u32 %0,%1,%2,%3;": lambda a, b, c: (
        c + signed(a, 16) * byte_of(b, 0) + signed(a >> 16, 16) * byte_of(b, 1)
    ),
    "dp2a.hi.u32.s32 %0,%1,%2,%3;": lambda a, b, c: (
        c + (a & 65535) * signed(byte_of(b, 2), 8) + (a >> 16) * signed(byte_of(b, 3), 8)
    ),
    "mad.hi.s32 %0,%1,%2,%3;": lambda a, b, c: (signed(a) * signed(b) >> 32) + c,
    "mad.hi.u32 %0,%1,%2,%3;": lambda a, b, c: (a * b >> 32) + c,
    "mul24.lo.s32 %0,%1,%2;": lambda a, b, c: signed(a, 24) * signed(b, 24),
    "mul24.hi.u32 %0,%1,%2;": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16,
    "sad.s32 %0,%1,%2,%3;": lambda a, b, c: c + abs(signed(a) - signed(b)),
    "{.reg .u32 q; add.cc.u32 q,%1,%2; addc.cc.u32 q,%2,%3; addc.u32 %0,%1,q;}": lambda a, b, c: (
        a + (b + c + (a + b >> 32)) % (1 << 32) + (b + c + (a + b >> 32) >> 32)
    ),
    "{.reg .u32 q; sub.cc.u32 q,%1,%2; subc.cc.u32 q,%2,%3; subc.u32 %0,%1,q;}": lambda a, b, c: (
        a - (b - c - (a < b)) % (1 << 32) - (b - c - (a < b) < 0)
    ),
    "{.reg .u32 q; mad.lo.cc.u32 q,%1,%2,%3; madc.hi.u32 %0,%1,%2,%3;}": lambda a, b, c: (
        (a * b >> 32) + c + ((a * b & WORD) + c >> 32)
    ),
    "{.reg .u64 x; .reg .u32 l; mov.b64 x,{%1,%2}; shl.b64 x,x,3; neg.s64 x,x; mov.b64 {l,%0},x;}": (
        lambda a, b, c: -((b << 32 | a) << 3) >> 32
    ),
    "cvt.sat.u8.s32 %0,%1;": lambda a, b, c: clamped(signed(a), 0, 255),
    "cvt.sat.s16.s32 %0,%1;": lambda a, b, c: clamped(signed(a), -32768, 32767),
    "cvt.pack.sat.s8.s32.b32 %0,%1,%2,%3;": lambda a, b, c: (
        c << 16 | (clamped(signed(a), -128, 127) & 255) << 8 | clamped(signed(b), -128, 127) & 255
    ),
    "cvt.pack.sat.u8.s32.b32 %0,%1,%2,%3;": lambda a, b, c: (
        c << 16 | clamped(signed(a), 0, 255) << 8 | clamped(signed(b), 0, 255)
    ),
    "{.reg .u64 x; mov.b64 x,{%1,%2}; cvt.sat.s32.s64 %0,x;}": lambda a, b, c: clamped(
        signed(b << 32 | a, 64), -(1 << 31), (1 << 31) - 1
    ),
    "{.reg .u64 x; mov.b64 x,{%1,%2}; cvt.sat.u8.s64 %0,x;}": lambda a, b, c: clamped(
        signed(b << 32 | a, 64), 0, 255
    ),
    "popc.b32 %0,%1;": lambda a, b, c: a.bit_count(),
    "clz.b32 %0,%1;": lambda a, b, c: 32 - a.bit_length(),
    "brev.b32 %0,%1;": lambda a, b, c: int(f"{a:032b}"[::-1], 2),
    "vabsdiff4.u32.u32.u32 %0,%1,%2,%3;": lambda a, b, c: sum(
        abs(byte_of(a, k) - byte_of(b, k)) << 8 * k for k in range(4)
    ),
    "vabsdiff4.u32.u32.u32.add %0,%1,%2,%3;": lambda a, b, c: (
        c + sum(abs(byte_of(a, k) - byte_of(b, k)) for k in range(4))
    ),
    "{.reg .pred p; setp.lt.s32 p,%1,%2; selp.u32 %0,%3,%1,p;}": lambda a, b, c: (
        c if signed(a) < signed(b) else a
    ),
    "{.reg .pred p,q; setp.gt.u32 p|q,%1,%2; @p mov.u32 %0,%3; @q mov.u32 %0,7;}": lambda a, b, c: (
        c if a > b else 7
    ),
    "slct.u32.s32 %0,%1,%2,%3;": lambda a, b, c: a if signed(c) >= 0 else b,
}


def float32(bits: int) -> Any:
    return np.uint32(bits).view(np.float32)


def bits32(x: Any) -> int:
    value = np.float32(x)
    return 0x7FFFFFFF if np.isnan(value) else int(value.view(np.uint32))


def directed(exact: Any, way: str) -> int:
    """A double as the float next to it in a direction. The double is exact, or nearly so."""
    near = np.float32(exact)
    if way == "rz":
        way = "rm" if exact > 0 else "rp"
    if way == "rm" and np.float64(near) > exact:
        near = np.nextafter(near, np.float32(-np.inf))
    if way == "rp" and np.float64(near) < exact:
        near = np.nextafter(near, np.float32(np.inf))
    return bits32(near)


def flushed(x: Any) -> Any:
    return np.copysign(np.float32(0), x) if abs(x) < np.finfo(np.float32).tiny else x


def halves(x: int) -> Any:
    return np.uint32(x).reshape(1).view(np.float16)


def packed(values: Any) -> int:
    return int(np.asarray(values, np.float16).view(np.uint32)[0])


def brain(x: Any) -> int:
    """The bfloat16 nearest to a float, ties to even."""
    bits = bits32(x)
    return bits + 0x7FFF + (bits >> 16 & 1) >> 16


FLOATS: dict[str, Rule] = {
    **{f"mul.{way}.f32 %0,%1,%2;": product_rounded(way) for way in ("rm", "rp", "rz")},
    "div.rn.f32 %0,%1,%2;": lambda a, b, c: bits32(float32(a) / float32(b)),
    "rcp.rn.f32 %0,%1;": lambda a, b, c: bits32(np.float32(1) / float32(a)),
    "sqrt.rn.f32 %0,%1;": lambda a, b, c: bits32(np.sqrt(float32(a))),
    "add.ftz.f32 %0,%1,%2;": lambda a, b, c: bits32(
        flushed(flushed(float32(a)) + flushed(float32(b)))
    ),
    "add.sat.f32 %0,%1,%2;": lambda a, b, c: bits32(
        np.clip(float32(a) + float32(b), np.float32(0), np.float32(1)) + np.float32(0)
    ),
    "cvt.rni.s32.f32 %0,%1;": lambda a, b, c: clamped(
        int(np.rint(np.float64(float32(a)))), -(1 << 31), (1 << 31) - 1
    ),
    "cvt.rmi.s32.f32 %0,%1;": lambda a, b, c: clamped(
        int(np.floor(np.float64(float32(a)))), -(1 << 31), (1 << 31) - 1
    ),
    "cvt.rzi.u32.f32 %0,%1;": lambda a, b, c: clamped(int(float32(a)), 0, WORD),
    "cvt.rpi.f32.f32 %0,%1;": lambda a, b, c: bits32(np.ceil(float32(a))),
    "cvt.rp.f32.s32 %0,%3;": lambda a, b, c: directed(np.float64(signed(c)), "rp"),
    "cvt.rz.f32.u32 %0,%3;": lambda a, b, c: directed(np.float64(c), "rz"),
    "cvt.rn.sat.f32.s32 %0,%3;": lambda a, b, c: bits32(np.clip(signed(c), 0, 1)),
    "cvt.rn.f32.u8 %0,%3;": lambda a, b, c: bits32(c & 255),
    "cvt.rn.f32.s16 %0,%3;": lambda a, b, c: bits32(signed(c, 16)),
    "max.f32 %0,%1,%2;": lambda a, b, c: bits32(np.fmax(float32(a), float32(b))),
    "set.gt.f32.f32 %0,%1,%2;": lambda a, b, c: bits32(float32(a) > float32(b)),
    "set.ltu.u32.f32 %0,%1,%2;": lambda a, b, c: 0 if float32(a) >= float32(b) else WORD,
    "{.reg .b16 h; cvt.rn.f16.f32 h,%1; cvt.f32.f16 %0,h;}": lambda a, b, c: bits32(
        np.float16(float32(a))
    ),
    "{.reg .b16 h; cvt.rz.f16.f32 h,%1; cvt.u32.u16 %0,h;}": lambda a, b, c: truncated(float32(a)),
    "{.reg .b16 h; cvt.rm.f16.f32 h,%1; cvt.u32.u16 %0,h;}": lambda a, b, c: half_below(float32(a)),
    "{.reg .b16 h; cvt.rn.bf16.f32 h,%1; cvt.u32.u16 %0,h;}": lambda a, b, c: brain(float32(a)),
}


def half_below(x: Any) -> int:
    """The bits of the greatest half that is no greater than a float."""
    near = np.float16(x)
    if np.float32(near) > x:
        near = np.nextafter(near, np.float16(-np.inf))
    return int(near.view(np.uint16))


def truncated(x: Any) -> int:
    """The bits of the half next to a float towards zero."""
    near = np.float16(x)
    bits = int(near.view(np.uint16))
    return bits - 1 if abs(np.float32(near)) > abs(x) else bits


def flushed_halves(x: Any) -> Any:
    return np.where(np.abs(x) < np.finfo(np.float16).tiny, np.copysign(np.float16(0), x), x)


HALVES: dict[str, Rule] = {
    "add.rn.f16x2 %0,%1,%2;": lambda a, b, c: packed(halves(a) + halves(b)),
    "mul.rn.f16x2 %0,%1,%2;": lambda a, b, c: packed(halves(a) * halves(b)),
    "fma.rn.f16x2 %0,%1,%2,%3;": lambda a, b, c: packed(
        halves(a).astype(float) * halves(b).astype(float) + halves(c).astype(float)
    ),
    "fma.rn.relu.f16x2 %0,%1,%2,%3;": lambda a, b, c: packed(
        np.maximum(halves(a).astype(float) * halves(b).astype(float) + halves(c).astype(float), 0)
    ),
    "max.f16x2 %0,%1,%2;": lambda a, b, c: packed(np.fmax(halves(a), halves(b))),
    "min.f16x2 %0,%1,%2;": lambda a, b, c: packed(np.fmin(halves(a), halves(b))),
    "max.NaN.f16x2 %0,%1,%2;": lambda a, b, c: packed(np.maximum(halves(a), halves(b))),
    "add.rn.ftz.f16x2 %0,%1,%2;": lambda a, b, c: packed(
        flushed_halves(flushed_halves(halves(a)) + flushed_halves(halves(b)))
    ),
    "neg.f16x2 %0,%1;": lambda a, b, c: packed(-halves(a)),
    "set.gt.f16x2.f16x2 %0,%1,%2;": lambda a, b, c: packed(halves(a) > halves(b)),
    "{.reg .pred p,q; setp.lt.f16x2 p|q,%1,%2; selp.u32 %0,1,2,p; @q add.u32 %0,%0,4;}": (
        lambda a, b, c: (
            (1 if (halves(a) < halves(b))[0] else 2) + 4 * int((halves(a) < halves(b))[1])
        )
    ),
    "{.reg .b16 l,h; mov.b32 {l,h},%1; fma.rn.f16 l,l,h,l; mov.b32 %0,{l,h};}": lambda a, b, c: (
        packed([float(halves(a)[0]) * float(halves(a)[1]) + float(halves(a)[0]), halves(a)[1]])
    ),
}
NEW = ("bf16", "relu", "max.f16x2", "max.NaN", "min.f16x2", "cvt.pack")
"""What Turing has not."""


def integer_sources() -> Any:
    rng = np.random.default_rng(5)
    sources = rng.integers(0, 1 << 32, (3, 32), dtype=np.uint32)
    sources[:, 8:20] &= rng.integers(0, 64, (3, 12), dtype=np.uint32)
    sources[1:, 20:28] &= 31
    sources[0, :4] = 0, WORD, 1 << 31, 0x7FFFFFFF
    return sources


def float_sources() -> Any:
    rng = np.random.default_rng(6)
    values = rng.standard_normal((3, 32)) * 10.0 ** rng.integers(-3, 7, (3, 32))
    values[:2, :5] = [[1e-40, -0.0, 0.5, 3e-39, 1e38], [1e-41, 0.0, 1.5, 1e-36, 1e-38]]
    sources = values.astype(np.float32).view(np.uint32)
    sources[2] = rng.integers(0, 1 << 32, 32, dtype=np.uint32)
    return sources


def half_sources() -> Any:
    values = (np.random.default_rng(7).standard_normal((3, 64)) * 4).astype(np.float16)
    values[:2, :4] = [[3e-6, -5e-5, 6.1e-5, np.inf], [1e-6, 2e-5, -6.2e-5, 1]]
    return values.view(np.uint32)


TABLES: dict[str, tuple[dict[str, Rule], Callable[[], Any]]] = {
    "integers": (INTEGERS, integer_sources),
    "floats": (FLOATS, float_sources),
    "halves": (HALVES, half_sources),
}


def rules_of(table: str, target: str) -> dict[str, Rule]:
    is_new = {text for text in TABLES[table][0] if any(word in text for word in NEW)}
    left_out = is_new if target == "sm_75" else set()
    return {text: rule for text, rule in TABLES[table][0].items() if text not in left_out}


@pytest.fixture(scope="module", params=["sm_75", "sm_80", "sm_120"])
def codes(request: pytest.FixtureRequest) -> dict[str, MachineCode]:
    """A kernel of each table, whose instructions store their results one after another."""
    target, text = request.param, ""
    for name in TABLES:
        body = "\n".join(
            f'asm volatile("{instruction}" : "=r"(d) : "r"(a), "r"(b), "r"(c)); out[32 * {k} + t] = d;'
            for k, instruction in enumerate(rules_of(name, target))
        )
        text += f"""extern "C" __global__ void k_{name}(const unsigned *in, unsigned *out) {{
          unsigned t = threadIdx.x, a = in[t], b = in[t + 32], c = in[t + 64], d;
          {body} }}"""
    oldest = "compute_75" if target == "sm_75" else "compute_80"
    return compiled(ptx_of(text, (), oldest), target, [f"k_{name}" for name in TABLES])


@needs_nvidia
@pytest.mark.parametrize("table", TABLES)
def test_instructions(codes: dict[str, MachineCode], table: str) -> None:
    code, sources = codes[f"k_{table}"], TABLES[table][1]()
    rules = rules_of(table, code.target)
    arrays = {"in": sources.ravel(), "out": np.zeros(32 * len(rules), np.uint32)}
    found = executed(code, arrays, ["in", "out"])["out"].reshape(-1, 32)
    wrong = []
    for (text, rule), row in zip(rules.items(), found.tolist(), strict=True):
        for (a, b, c), got in zip(sources.T.tolist(), row, strict=True):
            with np.errstate(all="ignore"):
                wanted = rule(a, b, c) & WORD
            are_nan = all(one & 0x7FFFFFFF > 0x7F800000 for one in (got, wanted))
            if got != wanted and not (table == "floats" and are_nan):
                wrong.append(f"{text} of {a:#x}, {b:#x}, {c:#x}: {got:#x}, not {wanted:#x}")
    assert not wrong, "\n".join(wrong)


PAIRS: dict[str, Callable[[Any], Any]] = {
    "v": lambda v: v,
    "turned(v)": lambda v: v[:, ::-1],
    "pair(low(v), low(v))": lambda v: v[:, [0, 0]],
    "v ^ FIRST": lambda v: v * [-1, 1],
    "v ^ SECOND": lambda v: v * [1, -1],
    "v ^ FIRST ^ SECOND": lambda v: -v,
    "ALIKE": lambda v: np.full_like(v, 1.5),
    "WHOLE": lambda v: np.full_like(v, -2),
    "UNLIKE": lambda v: np.broadcast_to([1.5, -2], v.shape),
}
"""A pair of floats in CUDA C++, and in numpy."""
OF_PAIRS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "mul.rn.f32x2 %0,%1,%2;": lambda a, b, c: a * b,
    "add.rn.f32x2 %0,%1,%2;": lambda a, b, c: a + b,
    "fma.rn.f32x2 %0,%1,%2,%3;": lambda a, b, c: a * b + c,
}


@needs_nvidia
def test_arithmetic_of_pairs_of_floats() -> None:
    cases = [(text, pair) for text in OF_PAIRS for pair in PAIRS]
    body = "\n".join(
        f'asm("{text}" : "=l"(r) : "l"({pair}), "l"(w), "l"(v)); y[32 * {k} + t] = r;'
        for k, (text, pair) in enumerate(cases)
    )
    constants = {"ALIKE": "3FC000003FC00000", "WHOLE": "C0000000C0000000", "UNLIKE": "C00000003FC00000", "FIRST": "80000000", "SECOND": "8000000000000000"}  # fmt: skip
    text = "typedef unsigned long long pair_t;\n" + "".join(
        f"#define {name} 0x{digits}ull\n" for name, digits in constants.items()
    )
    text += f"""
    __device__ unsigned low(pair_t v) {{ return v; }}
    __device__ pair_t pair(unsigned first, unsigned second) {{ return (pair_t)second << 32 | first; }}
    __device__ pair_t turned(pair_t v) {{ return pair(v >> 32, v); }}
    extern "C" __global__ void k_pairs(const pair_t *x, pair_t *y) {{
      unsigned t = threadIdx.x; pair_t v = x[t], w = x[t + 32], r;
      {body} }}"""
    code = compiled(ptx_of(text, (), "compute_100"), "sm_100", ["k_pairs"])["k_pairs"]
    lines = [line for line in code.listing.splitlines() if "F32x2" in line]
    for written in (".LO_HI", ".NP", ", 1.5", ", -2"):
        assert any(written in line for line in lines), written
    x = np.random.default_rng(8).standard_normal((2, 32, 2)).astype(np.float32)
    arrays = {"x": x.ravel(), "y": np.zeros(64 * len(cases), np.float32)}
    found = executed(code, arrays, ["x", "y"])["y"].reshape(-1, 32, 2)
    for (rule, pair), got in zip(cases, found, strict=True):
        wanted = OF_PAIRS[rule](PAIRS[pair](x[0]), x[1], x[0])
        np.testing.assert_allclose(got, wanted, 1e-6, 1e-6, err_msg=f"{rule} of {pair}")
