"""Random kernels whose text both NVRTC and this computer's C++ compiler take, so that machine code can be compared.

A kernel is a sequence of stages on the variables of a thread. Between stages, lanes exchange values; on this computer
a stage is a loop over the threads.
"""

from __future__ import annotations

import ctypes
import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from memsim.files import temporary_folder
from tracegen.tools.toolchain import nvidia_tools

N_INPUTS = 8
N_THREADS = 64
VARIABLES = {"u": 4, "i": 3, "l": 2, "f": 4, "d": 2, "w": 2, "b": 2, "h": 2}
TYPES = {
    "u": "unsigned", "i": "int", "l": "unsigned long long", "f": "float", "d": "double",
    "w": "short", "b": "unsigned char", "h": "unsigned",
}  # fmt: skip
"""Of variables: `h` has two halves."""
WORDS = 4 + 3 + 2 * 2 + 4 + 2 * 2 + 2 + 2 + 2

# Signed sums are computed without signs: overflow is undefined. What begins with `!` NVIDIA's devices alone have.
_INTEGER = (
    "({u} + {u}) ({u} - {u}) ({u} * {u}) ({u} & {u}) ({u} | {u}) ({u} ^ {u}) (~{u}) ({u} << ({u}&31)) ({u} >> ({u}&31)) "
    "(plain({u}) / ({u}|1u)) (plain({u}) % ({u}|1u)) (plain({u}) / {k}) (plain({u}) % {k}) min({u},{u}) max({u},{u}) ({u} < {u} ? {u} : {u}) "
    "({i} < {i} ? {u} : {u}) ({f} < {f} ? {u} : {u}) ({d} >= {d} ? {u} : {u}) ({l} > {l} ? {u} : {u}) __popc({u}) "
    "__clz({i}) __ffs({i}) __brev({u}) __byte_perm({u},{u},{u}) __funnelshift_l({u},{u},{u}) __funnelshift_r({u},{u},{u}) "
    "__funnelshift_lc({u},{u},{u}) __funnelshift_rc({u},{u},{u}) __umulhi({u},{u}) (unsigned)({l}>>({u}&63)) (unsigned){l} "
    "__usad({u},{u},{u}) (unsigned char){u} (unsigned short){u} ({u}*{k}+{u}) __dp4a({u},{u},{u}) __float2uint_rz({f}) "
    "__float2uint_rn({f}) __float2uint_ru({f}) __float2uint_rd({f}) __double2uint_rz({d}) __double2uint_rn({d}) __popcll({l}) "
    "__clzll({l}) __ffsll({l}) (unsigned){i} (({u}>>3)&{k}) (unsigned){w} (unsigned){b} ({h}) ({w} < {w} ? {u} : {u}) "
    "({b} == {b} ? {u} : {u}) (unsigned short)({w} * 3) ({u} ^ {b} << 24) (({u} >> {k1} | {u} << {k1}))"
)
_SIGNED = (
    "(int)((unsigned){i} + {i}) (int)((unsigned){i} - {i}) (int)(0u - {i}) (int)((unsigned){i} * {i}) ({i} >> ({u}&31)) "
    "({i} / quotient({i})) ({i} % quotient({i})) ({i} / {k}) ({i} % {k}) min({i},{i}) max({i},{i}) magnitude({i}) "
    "__mulhi({i},{i}) (int){u} (short){i} (signed char){i} __float2int_rz({f}) __float2int_rn({f}) __float2int_rd({f}) "
    "__float2int_ru({f}) __double2int_rz({d}) __double2int_rn({d}) __double2int_rd({d}) ({f} == {f} ? {i} : {i}) "
    "({f} != {f} ? {i} : {i}) (int){l} ({i} <= {i} ? {i} : (int)(0u - {i})) __sad({i},{i},{u}) __dp4a({i},{i},{i}) "
    "(int)((unsigned){i}*{i}-{i}) ({w} * {w}) ({w} + {b}) ({w} >> ({u}&15)) (signed char)({b} + {b}) min((int){w},(int){b}) "
    "(int)((long long){l} >> 33) (int)((long long)({i}) * {i} >> {k1}) (max(min({i},127),-128))"
)
_SHORT = (
    "({w} + {w}) ({w} - {w}) ({w} * {w}) ({w} / ({b} | 1)) (short){i} (short){u} min((int){w},(int){w}) max((int){w},(int){b}) "
    "({w} >> ({u}&15)) ({w} & {w}) ({w} ^ {b}) ({w} < {w} ? {w} : {w}) __float2int_rz({f}) (signed char){w} ({w} << 3)"
)
_BYTE = (
    "({b} + {b}) ({b} - {b}) ({b} * {b}) ({b} >> ({u}&7)) (unsigned char){u} ({b} & {b}) ({b} | {b}) (~{b}) ({b} / ({b} | 1)) "
    "({b} < {b} ? {b} : {b}) min((int){b},(int){b}) ({u} >> 8) ({w} >> 4) ({b} % 10)"
)
_LONG = (
    "({l} + {l}) ({l} - {l}) ({l} * {l}) ({l} & {l}) ({l} | {l}) ({l} ^ {l}) (~{l}) ({l} << ({u}&63)) ({l} >> ({u}&63)) "
    "(unsigned long long)((long long){l} >> ({u}&63)) (plain({l}) / ({l}|1ull)) (plain({l}) % ({l}|1ull)) __umul64hi({l},{l}) "
    "min({l},{l}) max({l},{l}) ((long long){l} < (long long){l} ? {l} : {l}) ({l} >= {l} ? {l} : {l}) "
    "((unsigned long long){u} * {u} + {l}) ((unsigned long long)((long long)({i}) * {i}) + {l}) (unsigned long long)({i}) "
    "(unsigned long long){u} __float2ull_rz({f}) (unsigned long long)__double2ll_rz({d}) __brevll({l}) "
    "(unsigned long long)((long long){l} / (long long)({u}|1u)) ({l} == {l} ? {l} : {l}) (({l} << 3) + {l}) "
    "(unsigned long long)((long long){l} % (long long)({u}|1u)) __double2ull_rz({d}) (unsigned long long)__float2ll_rz({f}) "
    "(unsigned long long)__float2ll_rn({f}) (unsigned long long)__double2ll_rn({d}) (plain({l}) / {k}) (plain({l}) % {k}) ({l} << 32 | {u}) "
    "(unsigned long long)((long long){l} < 0 ? 0 - {l} : {l}) (unsigned long long)(long long){w} ({l} >> 32 ^ {l})"
)
_FLOAT = (
    "({f} + {f}) ({f} - {f}) ({f} * {f}) ({f} / {f}) (-{f}) fabsf({f}) fmaf({f},{f},{f}) fmaf({f},-{f},{f}) sqrtf({f}) "
    "fminf({f},{f}) fmaxf({f},{f}) floorf({f}) ceilf({f}) truncf({f}) rintf({f}) __saturatef({f}) copysignf({f},__int2float_rn({i})) "
    "!__fadd_rd({f},{f}) !__fadd_ru({f},{f}) !__fadd_rz({f},{f}) !__fmul_rd({f},{f}) !__fmul_ru({f},{f}) !__fmul_rz({f},{f}) "
    "!__fmaf_rd({f},{f},{f}) !__fmaf_ru({f},{f},{f}) !__fmaf_rz({f},{f},{f}) __int2float_rn({i}) !__int2float_rd({i}) "
    "!__int2float_ru({i}) __uint2float_rn({u}) !__uint2float_rz({u}) __ull2float_rn({l}) __ll2float_rn((long long){l}) "
    "!__ll2float_rz((long long){l}) __double2float_rn({d}) !__double2float_rd({d}) !__double2float_ru({d}) "
    "!__double2float_rz({d}) ({f} > {f} ? {f} : {f}) ({u} & 1 ? {f} : {f}) (float)(unsigned char){u} (float)(short){i} "
    "({f} * 1.5f) ({f} + 0.25f) !__frcp_rn({f}) !__fsqrt_rn({f}) !__fsqrt_rz({f}) !__frcp_ru({f}) !__fdiv_rd({f},{f}) "
    "!fmodf({f},{f}) !roundf({f}) (float){w} (float){b} __uint_as_float({u}) low_half({h}) (fabsf({f}) < 1.0f ? {f} : 1.0f / {f}) "
    "fmaxf(fminf({f},1.0f),-1.0f) ({f} - {f} * {f}) !ldexpf({f},{w}) !nextafterf({f},{f}) ({f} == 0.0f ? 1.0f : {f})"
)
_DOUBLE = (
    "({d} + {d}) ({d} - {d}) ({d} * {d}) ({d} / {d}) (-{d}) fabs({d}) fma({d},{d},{d}) sqrt({d}) fmin({d},{d}) fmax({d},{d}) "
    "floor({d}) trunc({d}) rint({d}) ceil({d}) (double){f} (double){i} (double){u} __ull2double_rn({l}) "
    "__ll2double_rn((long long){l}) ({d} <= {d} ? {d} : {d}) !__dadd_rd({d},{d}) !__dadd_ru({d},{d}) !__dmul_rz({d},{d}) "
    "({d} * 3.0) __hiloint2double({i},{i}) !fmod({d},{d}) ({d} / 3.0) (1.0 / {d}) copysign({d},(double){i}) !__drcp_rn({d}) "
    "(fabs({d}) > 1e300 ? {d} : {d} * {d}) (double){w}"
)
_HALVES = (
    "half_add({h},{h}) half_sub({h},{h}) half_mul({h},{h}) half_fma({h},{h},{h}) half_pair({f},{f}) half_neg({h}) ({h}) "
    "clean({u}) half_fma({h},half_neg({h}),{h}) half_add({h},half_mul({h},{h})) ({h} >> 16 | {h} << 16)"
)


def _split(text: str) -> list[str]:
    """The parts between those spaces that are not in brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == " " and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


_POOLS = {
    kind: _split(text)
    for kind, text in {
        "u": _INTEGER, "i": _SIGNED, "l": _LONG, "f": _FLOAT, "d": _DOUBLE, "w": _SHORT, "b": _BYTE, "h": _HALVES,
    }.items()
}  # fmt: skip
_EXCHANGES = (
    ("{v} = __shfl_xor_sync(~0ull, {v}, {c});", "xor"),
    ("{v} = __shfl_up_sync(~0ull, {v}, {c});", "up"),
    ("{v} = __shfl_down_sync(~0ull, {v}, {c});", "down"),
    ("{v} = __shfl_sync(~0ull, {v}, s.u0);", "index"),
    ("{v} = __shfl_xor_sync(~0ull, {v}, {c}, 8);", "xor8"),
    ("s.l1 = __ballot_sync(~0ull, s.i0 < s.i1);", "ballot"),
    ("s.u2 = __any_sync(~0ull, (s.u0 & 7) == 0);", "any"),
    ("s.u2 = __all_sync(~0ull, (s.u0 & 7) != 9);", "all"),
    ("s.l0 = __match_any_sync(~0ull, s.u0 & 3);", "match"),
    ("sh[t] = s.u0; __syncthreads(); s.u1 = sh[t * {c} + 7 & 63]; __syncthreads();", "shared"),
    ("((unsigned long long *)sh)[t] = s.l0; __syncthreads(); s.l1 = ((unsigned long long *)sh)[s.u2 & 63]; __syncthreads();", "shared8"),
    ("((unsigned char *)sh)[t] = s.b0; __syncthreads(); s.u3 = sh[t & 15]; s.w0 = ((short *)sh)[t + {c} & 31]; __syncthreads();", "shared1"),
    (
        "sh[t] = 7; __syncthreads(); atomicAdd(&sh[s.u0 & 7], s.u1); atomicMax((int *)&sh[8 + (s.u0 & 3)], s.i0); "
        "atomicXor(&sh[12 + (t & 1)], s.u2); __syncthreads(); s.u3 = sh[t & 15]; __syncthreads();",
        "atomics",
    ),
)  # fmt: skip


@dataclass
class Kernel:
    """stages : texts of the stages' bodies;  exchanges : (device's text, kind, variable, number) between them;
    noinline : whether a stage is a function that is called"""

    name: str
    stages: list[str] = field(default_factory=list)
    exchanges: list[tuple[str, str, str, int]] = field(default_factory=list)
    noinline: list[bool] = field(default_factory=list)


class _Writer:
    """Writes random statements.

    amd : without the instructions that AMD's devices do not have
    """

    def __init__(self, seed: int, amd: bool) -> None:
        self.random = random.Random(seed)
        self.loops = 0
        self.amd = amd

    def variable(self, kind: str) -> str:
        return f"s.{kind}{self.random.randrange(VARIABLES[kind])}"

    def expression(self, kind: str, depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.2:
            return self.variable(kind)
        text = self.random.choice(_POOLS[kind])
        while self.amd and text[0] == "!":
            text = self.random.choice(_POOLS[kind])
        text = text.lstrip("!").replace("{k1}", str(self.random.randrange(1, 31)))
        while "{" in text:
            at = text.index("{")
            inner = text[at + 1]
            written = (
                str(self.random.choice((3, 7, 10, 16, 100, 1000, 65535)))
                if inner == "k"
                else self.expression(inner, depth - 1)
            )
            text = text[:at] + written + text[at + 3 :]
        return f"(({TYPES[kind]}){text})"

    def condition(self) -> str:
        kind = self.random.choice("uilfdwb")
        relation = self.random.choice(("<", "<=", ">", ">=", "==", "!="))
        text = f"({self.expression(kind, 1)} {relation} {self.expression(kind, 1)})"
        if self.random.random() < 0.3:
            text = f"({text} {self.random.choice(('&&', '||', '^'))} {self.condition()})"
        return text

    def statement(self, depth: int, in_loop: bool) -> Iterator[str]:
        what = self.random.random()
        if depth <= 0 or what < 0.62:
            kind = self.random.choice("uuuiiilllffffddwbh")
            yield f"{self.variable(kind)} = {self.expression(kind, 2)};"
        elif what < 0.76:
            yield f"if ({self.condition()}) {{"
            yield from self.block(depth - 1, in_loop)
            if self.random.random() < 0.6:
                yield "} else {"
                yield from self.block(depth - 1, in_loop)
            yield "}"
        elif what < 0.86:
            self.loops += 1
            n = f"n{self.loops}"
            yield f"for (unsigned {n} = 0; {n} < ({self.variable('u')} & {self.random.choice((3, 7))}); {n}++) {{"
            yield from self.block(depth - 1, True)
            yield f"s.u0 += {n}; }}"
        elif what < 0.885:
            self.loops += 1
            n = f"n{self.loops}"
            yield f"unsigned {n} = 0; do {{"
            yield from self.block(depth - 1, True)
            yield f"}} while ({self.condition()} && ++{n} < {self.random.choice((3, 9))});"
        elif what < 0.915:
            yield f"switch ({self.variable('u')} & 7) {{"
            for case in range(self.random.randrange(4, 8)):
                yield f"case {case}:"
                yield from self.block(0, False)
                yield "break;" if self.random.random() < 0.8 else "// on"
            yield "}"
        elif what < 0.95:
            yield f"s.m[{self.variable('u')} & 7] = {self.expression('u', 1)};"
            yield f"{self.variable('u')} = s.m[{self.variable('u')} & 7];"
        elif what < 0.97:
            yield f"s.b[{self.variable('u')} & 7] = (unsigned char){self.expression('u', 1)};"
            yield f"{self.variable('i')} = (signed char)s.b[{self.variable('u')} & 7];"
        elif in_loop:
            yield f"if ({self.condition()}) {self.random.choice(('break', 'continue'))};"

    def block(self, depth: int, in_loop: bool) -> Iterator[str]:
        for _ in range(self.random.randrange(1, 4)):
            yield from self.statement(depth, in_loop)


def kernel(name: str, seed: int, amd: bool = False) -> Kernel:
    """A random kernel of two or three stages. amd : without the instructions that AMD's devices do not have"""
    writer, made = _Writer(seed, amd), Kernel(name)
    for k in range(writer.random.randrange(2, 4)):
        if k:
            text, kind = writer.random.choice(_EXCHANGES)
            v, c = writer.variable(writer.random.choice("uifld")), writer.random.randrange(1, 32)
            made.exchanges.append((text.format(v=v, c=c), kind, v, c))
        lines = [one for _ in range(3) for one in writer.statement(2, False)]
        made.stages.append("\n  ".join(lines))
        made.noinline.append(writer.random.random() < 0.15)
    return made


_STRUCT = (
    "struct S { "
    + " ".join(
        f"{TYPES[kind]} {', '.join(f'{kind}{k}' for k in range(n))};"
        for kind, n in VARIABLES.items()
    )
    + " unsigned m[8]; unsigned char b[8]; };\n"
)
_COMMON = (
    _STRUCT
    + """
DEVICE unsigned bits_of(float x) { return x != x ? 0x7fffffffu : __float_as_uint(x); }
DEVICE unsigned long long bits_of(double x) { return x != x ? ~0ull >> 1 : (unsigned long long)__double_as_longlong(x); }
DEVICE int quotient(int x) { return x == 0 || x == -1 ? 3 : x; }
DEVICE int magnitude(int x) { return abs(x == (int)0x80000000 ? 1 : x); }
DEVICE float float_in(unsigned x) {
  const unsigned edges[16] = {0, 0x80000000u, 0x7f800000u, 0xff800000u, 0x7fffffffu, 1, 0x807fffffu, 0x00800000u, 0x7f7fffffu,
    0x3f800000u, 0xbf800000u, 0x4f000000u, 0xcf000000u, 0x4f800000u, 0x5f000000u, 0x33800000u};
  if ((x & 0x30) == 0x10) return __uint_as_float(edges[x & 15]);
  return x & 1 ? __uint_as_float(x) : (float)(int)x * (1.0f / 65536.0f);
}
template <class T> DEVICE T plain(T x) {
#ifdef ON_AMD // clang 19 takes a divided number whose sign was extended for a narrow one, without its sign
  asm("" : "+v"(x));
#endif
  return x;
}
DEVICE unsigned clean(unsigned x) {
  if ((x & 0x7fffu) > 0x7c00u) x = (x & 0xffff0000u) | 0x7fffu;
  if ((x >> 16 & 0x7fffu) > 0x7c00u) x = (x & 0xffffu) | 0x7fff0000u;
  return x;
}
DEVICE unsigned half_neg(unsigned x) { return clean(x ^ 0x80008000u); }
DEVICE void init(S &s, unsigned t, const unsigned *in) {
  const unsigned *p = in + 8 * t;
  s.u0 = p[0]; s.u1 = p[1]; s.u2 = p[2] & 255; s.u3 = t;
  s.i0 = (int)p[3]; s.i1 = (int)(p[4] & 1023) - 512; s.i2 = (int)p[5];
  s.l0 = (unsigned long long)p[1] << 32 | p[0]; s.l1 = p[5];
  s.f0 = float_in(p[5]); s.f1 = float_in(p[6]); s.f2 = float_in(p[7]); s.f3 = (float)(int)p[2];
  s.d0 = (double)s.f1 * 1.25; s.d1 = (double)(int)p[4] / 3.0;
  s.w0 = (short)p[0]; s.w1 = (short)p[6]; s.b0 = (unsigned char)p[1]; s.b1 = (unsigned char)(p[7] >> 9);
  s.h0 = half_pair(s.f1, (float)s.w0); s.h1 = clean(p[4]);
  for (int k = 0; k < 8; k++) { s.m[k] = p[k] * 3u; s.b[k] = (unsigned char)p[k]; }
}
DEVICE void leave(S &s, unsigned t, unsigned *out) {
  unsigned *p = out + WORDS * t;
  p[0] = s.u0; p[1] = s.u1; p[2] = s.u2; p[3] = s.u3; p[4] = s.i0; p[5] = s.i1; p[6] = s.i2;
  p[7] = (unsigned)s.l0; p[8] = s.l0 >> 32; p[9] = (unsigned)s.l1; p[10] = s.l1 >> 32;
  p[11] = bits_of(s.f0); p[12] = bits_of(s.f1); p[13] = bits_of(s.f2); p[14] = bits_of(s.f3);
  unsigned long long x = bits_of(s.d0), y = bits_of(s.d1);
  p[15] = (unsigned)x; p[16] = x >> 32; p[17] = (unsigned)y; p[18] = y >> 32;
  p[19] = s.w0; p[20] = s.w1; p[21] = s.b0; p[22] = s.b1; p[23] = s.h0; p[24] = s.h1;
}
"""
)


_HALVES_OF_NVIDIA = """
DEVICE unsigned half_pair(float low, float high) {
  unsigned short a, b; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(a) : "f"(low)); asm("cvt.rn.f16.f32 %0, %1;" : "=h"(b) : "f"(high));
  return clean(a | (unsigned)b << 16);
}
DEVICE float low_half(unsigned x) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"((unsigned short)x)); return r; }
#define HALVES(name, text) \\
  DEVICE unsigned name(unsigned a, unsigned b) { unsigned r; asm(text " %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return clean(r); }
HALVES(half_add, "add.rn.f16x2") HALVES(half_sub, "sub.rn.f16x2") HALVES(half_mul, "mul.rn.f16x2")
DEVICE unsigned half_fma(unsigned a, unsigned b, unsigned c) {
  unsigned r; asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); return clean(r);
}
"""
_CLEAN, _REST = _COMMON.split("DEVICE unsigned half_neg")
_REST = "DEVICE unsigned half_neg" + _REST


def device_text(kernels: list[Kernel], amd: bool = False) -> str:
    """The kernels in CUDA C++, or for AMD's devices in HIP without any header."""
    text = [f"#define WORDS {WORDS}\n"]
    if amd:
        text += ["#define ON_AMD\n", _PRELUDE, _CLEAN, _HALVES_ELSEWHERE, _REST]
    else:
        text += ["#define DEVICE __device__ __forceinline__\n", _CLEAN, _HALVES_OF_NVIDIA, _REST]
    for one in kernels:
        for k, body in enumerate(one.stages):
            how = "__device__ __noinline__" if one.noinline[k] else "DEVICE"
            text.append(f"{how} void {one.name}_stage{k}(S &s) {{\n  {body}\n}}\n")
        lines = ["init(s, t, in);"]
        for k in range(len(one.stages)):
            lines += [one.exchanges[k - 1][0]] if k else []
            lines.append(f"{one.name}_stage{k}(s);")
        text.append(
            f'extern "C" __global__ void {one.name}(const unsigned *in, unsigned *out) {{\n'
            "  __shared__ __align__(8) unsigned sh[128]; unsigned t = threadIdx.x; S s;\n  "
            + "\n  ".join(lines)
            + "\n  leave(s, t, out);\n}\n"
        )
    return "".join(text)


def host_text(kernels: list[Kernel], warp: int = 32) -> str:
    """The same kernels in C++: functions of (input, output, threads). warp : lanes of a sub-group"""
    text = [f"#define WORDS {WORDS}\n", _PRELUDE, _CLEAN, _HALVES_ELSEWHERE, _REST]
    for one in kernels:
        for k, body in enumerate(one.stages):
            text.append(f"static void {one.name}_stage{k}(S &s) {{\n  {body}\n}}\n")
        lines = ["for (int t = 0; t < n; t++) init(a[t], t, in);"]
        for k in range(len(one.stages)):
            if k:
                _, kind, v, c = one.exchanges[k - 1]
                lines.append(_exchange(kind, v[2:], c, warp))
            lines.append(f"for (int t = 0; t < n; t++) {one.name}_stage{k}(a[t]);")
        lines.append("for (int t = 0; t < n; t++) leave(a[t], t, out); free(a); free(o);")
        text.append(
            f'extern "C" void {one.name}(const unsigned *in, unsigned *out, int n) {{\n'
            "  S *a = (S *)malloc(n * sizeof(S)), *o = (S *)malloc(n * sizeof(S)); unsigned sh[128];\n  "
            + "\n  ".join(lines)
            + "\n}\n"
        )
    return "".join(text)


_IN_LOCAL_MEMORY = {
    "shared": "EACH a[t].u1 = o[t * {c} + 7 & 63].u0;",
    "shared8": "EACH a[t].l1 = o[o[t].u2 & 63].l0;",
    "shared1": "EACH { const int k = t & 15, j = 2 * (t + {c} & 31); a[t].w0 = (short)(o[j].b0 | o[j + 1].b0 << 8); "
    "a[t].u3 = o[4 * k].b0 | o[4 * k + 1].b0 << 8 | o[4 * k + 2].b0 << 16 | (unsigned)o[4 * k + 3].b0 << 24; }",
    "atomics": "EACH sh[t] = 7; EACH sh[o[t].u0 & 7] += o[t].u1; EACH { int &m = (int &)sh[8 + (o[t].u0 & 3)]; m = max(m, o[t].i0); } "
    "EACH sh[12 + (t & 1)] ^= o[t].u2; EACH a[t].u3 = sh[t & 15];",
}


def _exchange(kind: str, v: str, c: int, warp: int) -> str:
    """What lanes exchange, as loops over the threads."""
    each, last = "for (int t = 0; t < n; t++)", warp - 1
    whole = f"{each} o[t] = a[t];"
    if kind in _IN_LOCAL_MEMORY:
        return f"{whole} {_IN_LOCAL_MEMORY[kind]}".replace("EACH", each).replace("{c}", str(c))
    source = {
        "up": f"(t & {last}) >= {c} ? t - {c} : t",
        "down": f"(t & {last}) + {c} <= {last} ? t + {c} : t",
        "index": f"(t & ~{last}) | (o[t].u0 & {last})",
        "xor8": f"(t ^ {c}) <= (t | 7) ? t ^ {c} : t",
    }.get(kind, f"t ^ {c}")
    condition = {
        "ballot": ("l1", f"(ull)(o[q].i0 < o[q].i1) << (q & {last})", "|", "0"),
        "any": ("u2", "(ull)((o[q].u0 & 7) == 0)", "|", "0"),
        "all": ("u2", "(ull)((o[q].u0 & 7) != 9)", "&", "1"),
        "match": ("l0", f"(ull)((o[q].u0 & 3) == (o[t].u0 & 3)) << (q & {last})", "|", "0"),
    }.get(kind)
    if condition is None:
        return f"{whole} {each} a[t].{v} = o[{source}].{v};"
    name, term, how, first = condition
    inner = f"for (int q = t & ~{last}; q <= (t | {last}); q++) r = r {how} ({term});"
    return f"{whole} {each} {{ ull r = {first}; {inner} a[t].{name} = r; }}"


_HALVES_ELSEWHERE = """
DEVICE unsigned short bits_of_half(_Float16 x) { return as<unsigned short>(x); }
DEVICE _Float16 half_of(unsigned x) { return as<_Float16>((unsigned short)x); }
DEVICE unsigned half_pair(float low, float high) {
#ifdef ON_AMD // else clang fuses a product before it and drops the sign of zero
  asm("" : "+v"(low), "+v"(high));
#endif
  return clean(bits_of_half((_Float16)low) | (unsigned)bits_of_half((_Float16)high) << 16); }
DEVICE float low_half(unsigned x) { return (float)half_of(x); }
#define HALVES(name, op) DEVICE unsigned name(unsigned a, unsigned b) { \\
    return clean(bits_of_half(half_of(a) op half_of(b)) | (unsigned)bits_of_half(half_of(a >> 16) op half_of(b >> 16)) << 16); }
HALVES(half_add, +) HALVES(half_sub, -) HALVES(half_mul, *)
#ifdef ON_AMD
DEVICE _Float16 fused(_Float16 a, _Float16 b, _Float16 c) { return __builtin_fmaf16(a, b, c); }
#else
DEVICE _Float16 fused(_Float16 a, _Float16 b, _Float16 c) { return half_nearest((long double)a * b + c); }
#endif
DEVICE unsigned half_fma(unsigned a, unsigned b, unsigned c) {
  return clean(bits_of_half(fused(half_of(a), half_of(b), half_of(c))) |
               (unsigned)bits_of_half(fused(half_of(a >> 16), half_of(b >> 16), half_of(c >> 16))) << 16);
}
"""
_PRELUDE = (Path(__file__).parent / "random_cuda_host.h").read_text(encoding="utf-8")


def host_results(kernels: list[Kernel], given: Any, warp: int = 32) -> dict[str, Any]:
    """What the kernels leave on this computer. given : (n, 8) uint32;  warp : lanes of a sub-group"""
    n, results = len(given), {}
    with temporary_folder() as folder:
        (folder / "k.cpp").write_text(host_text(kernels, warp), encoding="utf-8")
        command = [
            str(nvidia_tools().clang.path),
            "-x",
            "c++",
            "-O0",
            "-w",
            "-ffp-contract=off",
            "-fwrapv",
            "-fno-builtin",
        ]
        flags = [
            "-frounding-math", "-mfma", "-mf16c", "-shared", "-fPIC", "k.cpp", "-o", "k.so", "-lm",
        ]  # fmt: skip
        subprocess.run([*command, *flags], cwd=folder, check=True)
        library = ctypes.CDLL(str(folder / "k.so"))
        for one in kernels:
            out = np.zeros((n, WORDS), np.uint32)
            getattr(library, one.name)(
                ctypes.c_void_p(given.ctypes.data), ctypes.c_void_p(out.ctypes.data), n
            )
            results[one.name] = out
    return results
