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
VARIABLES = {"u": 4, "i": 3, "l": 2, "f": 4, "d": 2}
TYPES = {"u": "unsigned", "i": "int", "l": "unsigned long long", "f": "float", "d": "double"}
WORDS = 4 + 3 + 2 * 2 + 4 + 2 * 2

_INTEGER = (
    "({u} + {u}) ({u} - {u}) ({u} * {u}) ({u} & {u}) ({u} | {u}) ({u} ^ {u}) (~{u}) ({u} << ({u}&31)) ({u} >> ({u}&31)) "
    "({u} / ({u}|1u)) ({u} % ({u}|1u)) ({u} / {k}) ({u} % {k}) min({u},{u}) max({u},{u}) ({u} < {u} ? {u} : {u}) "
    "({i} < {i} ? {u} : {u}) ({f} < {f} ? {u} : {u}) ({d} >= {d} ? {u} : {u}) ({l} > {l} ? {u} : {u}) __popc({u}) "
    "__clz({i}) __ffs({i}) __brev({u}) __byte_perm({u},{u},{u}) __funnelshift_l({u},{u},{u}) __funnelshift_r({u},{u},{u}) "
    "__funnelshift_lc({u},{u},{u}) __funnelshift_rc({u},{u},{u}) __umulhi({u},{u}) (unsigned)({l}>>({u}&63)) (unsigned){l} "
    "__usad({u},{u},{u}) (unsigned char){u} (unsigned short){u} ({u}*{k}+{u}) __dp4a({u},{u},{u}) __float2uint_rz({f}) "
    "__float2uint_rn({f}) __float2uint_ru({f}) __double2uint_rz({d}) __popcll({l}) __clzll({l}) (unsigned){i} (({u}>>3)&{k})"
)
_SIGNED = (
    "(int)((unsigned){i} + {i}) (int)((unsigned){i} - {i}) (int)(0u - {i}) (int)((unsigned){i} * {i}) ({i} >> ({u}&31)) "
    "({i} / quotient({i})) ({i} % quotient({i})) ({i} / {k}) min({i},{i}) max({i},{i}) magnitude({i}) __mulhi({i},{i}) (int){u} "
    "(short){i} (signed char){i} __float2int_rz({f}) __float2int_rn({f}) __float2int_rd({f}) __float2int_ru({f}) "
    "__double2int_rz({d}) __double2int_rn({d}) __double2int_rd({d}) ({f} == {f} ? {i} : {i}) ({f} != {f} ? {i} : {i}) (int){l} "
    "({i} <= {i} ? {i} : (int)(0u - {i})) __sad({i},{i},{u}) __dp4a({i},{i},{i}) (int)((unsigned){i}*{i}-{i})"
)
_LONG = (
    "({l} + {l}) ({l} - {l}) ({l} * {l}) ({l} & {l}) ({l} | {l}) ({l} ^ {l}) (~{l}) ({l} << ({u}&63)) ({l} >> ({u}&63)) "
    "(unsigned long long)((long long){l} >> ({u}&63)) ({l} / ({l}|1ull)) ({l} % ({l}|1ull)) __umul64hi({l},{l}) "
    "min({l},{l}) max({l},{l}) ((long long){l} < (long long){l} ? {l} : {l}) ({l} >= {l} ? {l} : {l}) "
    "((unsigned long long){u} * {u} + {l}) ((unsigned long long)((long long){i} * {i}) + {l}) (unsigned long long){i} "
    "(unsigned long long){u} __float2ull_rz({f}) (unsigned long long)__double2ll_rz({d}) __brevll({l}) "
    "(unsigned long long)((long long){l} / (long long)({u}|1u)) ({l} == {l} ? {l} : {l}) (({l} << 3) + {l})"
)
_FLOAT = (
    "({f} + {f}) ({f} - {f}) ({f} * {f}) ({f} / {f}) (-{f}) fabsf({f}) fmaf({f},{f},{f}) fmaf({f},-{f},{f}) sqrtf({f}) "
    "fminf({f},{f}) fmaxf({f},{f}) floorf({f}) ceilf({f}) truncf({f}) rintf({f}) __saturatef({f}) copysignf({f},__int2float_rn({i})) "
    "__fadd_rd({f},{f}) __fadd_ru({f},{f}) __fadd_rz({f},{f}) __fmul_rd({f},{f}) __fmul_ru({f},{f}) __fmul_rz({f},{f}) "
    "__fmaf_rd({f},{f},{f}) __fmaf_ru({f},{f},{f}) __fmaf_rz({f},{f},{f}) __int2float_rn({i}) __int2float_rd({i}) "
    "__int2float_ru({i}) __uint2float_rn({u}) __uint2float_rz({u}) __ull2float_rn({l}) __ll2float_rn((long long){l}) "
    "__double2float_rn({d}) __double2float_rd({d}) __double2float_ru({d}) ({f} > {f} ? {f} : {f}) ({u} & 1 ? {f} : {f}) "
    "(float)(unsigned char){u} (float)(short){i} ({f} * 1.5f) ({f} + 0.25f) __frcp_rn({f}) __fsqrt_rn({f})"
)
_DOUBLE = (
    "({d} + {d}) ({d} - {d}) ({d} * {d}) ({d} / {d}) (-{d}) fabs({d}) fma({d},{d},{d}) sqrt({d}) fmin({d},{d}) fmax({d},{d}) "
    "floor({d}) trunc({d}) rint({d}) (double){f} (double){i} (double){u} __ull2double_rn({l}) ({d} <= {d} ? {d} : {d}) "
    "__dadd_rd({d},{d}) __dadd_ru({d},{d}) __dmul_rz({d},{d}) ({d} * 3.0)"
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
    for kind, text in zip("uilfd", (_INTEGER, _SIGNED, _LONG, _FLOAT, _DOUBLE), strict=True)
}
_EXCHANGES = (
    ("{v} = __shfl_xor_sync(~0u, {v}, {c});", "{v} of lane ^ {c}"),
    ("{v} = __shfl_up_sync(~0u, {v}, {c});", "up"),
    ("{v} = __shfl_down_sync(~0u, {v}, {c});", "down"),
    ("{v} = __shfl_sync(~0u, {v}, s.u0);", "index"),
    ("{v} = __shfl_xor_sync(~0u, {v}, {c}, 8);", "xor8"),
    ("s.u1 = __ballot_sync(~0u, s.i0 < s.i1);", "ballot"),
    ("s.u2 = __any_sync(~0u, (s.u0 & 7) == 0);", "any"),
    ("s.u2 = __all_sync(~0u, (s.u0 & 7) != 9);", "all"),
    ("s.u3 = __match_any_sync(~0u, s.u0 & 3);", "match"),
)


@dataclass
class Kernel:
    """stages : texts of the stages' bodies;  exchanges : (device's text, kind, variable, number) between them"""

    name: str
    stages: list[str] = field(default_factory=list)
    exchanges: list[tuple[str, str, str, int]] = field(default_factory=list)
    noinline: list[bool] = field(default_factory=list)


class _Writer:
    """Writes random statements."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.loops = 0

    def variable(self, kind: str) -> str:
        return f"s.{kind}{self.random.randrange(VARIABLES[kind])}"

    def expression(self, kind: str, depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.2:
            return self.variable(kind)
        text = self.random.choice(_POOLS[kind])
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
        kind = self.random.choice("uilfd")
        relation = self.random.choice(("<", "<=", ">", ">=", "==", "!="))
        text = f"({self.expression(kind, 1)} {relation} {self.expression(kind, 1)})"
        if self.random.random() < 0.3:
            text = f"({text} {self.random.choice(('&&', '||', '^'))} {self.condition()})"
        return text

    def statement(self, depth: int, in_loop: bool) -> Iterator[str]:
        what = self.random.random()
        if depth <= 0 or what < 0.62:
            kind = self.random.choice("uuuiillffffd")
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
        elif what < 0.90:
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


def kernel(name: str, seed: int) -> Kernel:
    """A random kernel of two or three stages."""
    writer, made = _Writer(seed), Kernel(name)
    for k in range(writer.random.randrange(2, 4)):
        if k:
            text, kind = writer.random.choice(_EXCHANGES)
            v, c = writer.variable(writer.random.choice("uifld")), writer.random.randrange(1, 32)
            made.exchanges.append((text.format(v=v, c=c), kind, v, c))
        lines = [one for _ in range(4) for one in writer.statement(2, False)]
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
DEVICE float float_in(unsigned x) { return x & 1 ? __uint_as_float(x) : (float)(int)x * (1.0f / 65536.0f); }
DEVICE void init(S &s, unsigned t, const unsigned *in) {
  const unsigned *p = in + 8 * t;
  s.u0 = p[0]; s.u1 = p[1]; s.u2 = p[2] & 255; s.u3 = t;
  s.i0 = (int)p[3]; s.i1 = (int)(p[4] & 1023) - 512; s.i2 = (int)p[5];
  s.l0 = (unsigned long long)p[1] << 32 | p[0]; s.l1 = p[5];
  s.f0 = float_in(p[5]); s.f1 = float_in(p[6]); s.f2 = float_in(p[7]); s.f3 = (float)(int)p[2];
  s.d0 = (double)s.f1 * 1.25; s.d1 = (double)(int)p[4] / 3.0;
  for (int k = 0; k < 8; k++) { s.m[k] = p[k] * 3u; s.b[k] = (unsigned char)p[k]; }
}
DEVICE void leave(S &s, unsigned t, unsigned *out) {
  unsigned *p = out + WORDS * t;
  p[0] = s.u0; p[1] = s.u1; p[2] = s.u2; p[3] = s.u3; p[4] = s.i0; p[5] = s.i1; p[6] = s.i2;
  p[7] = (unsigned)s.l0; p[8] = s.l0 >> 32; p[9] = (unsigned)s.l1; p[10] = s.l1 >> 32;
  p[11] = bits_of(s.f0); p[12] = bits_of(s.f1); p[13] = bits_of(s.f2); p[14] = bits_of(s.f3);
  unsigned long long x = bits_of(s.d0), y = bits_of(s.d1);
  p[15] = (unsigned)x; p[16] = x >> 32; p[17] = (unsigned)y; p[18] = y >> 32;
}
"""
)


def device_text(kernels: list[Kernel]) -> str:
    """The kernels in CUDA C++."""
    text = [f"#define DEVICE __device__ __forceinline__\n#define WORDS {WORDS}\n", _COMMON]
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
            "  unsigned t = blockIdx.x * blockDim.x + threadIdx.x; S s;\n  "
            + "\n  ".join(lines)
            + "\n  leave(s, t, out);\n}\n"
        )
    return "".join(text)


def host_text(kernels: list[Kernel]) -> str:
    """The same kernels in C++: functions of (input, output, threads)."""
    text = [f"#define WORDS {WORDS}\n", _PRELUDE, _COMMON]
    for one in kernels:
        for k, body in enumerate(one.stages):
            text.append(f"static void {one.name}_stage{k}(S &s) {{\n  {body}\n}}\n")
        lines = ["for (int t = 0; t < n; t++) init(a[t], t, in);"]
        for k in range(len(one.stages)):
            if k:
                _, kind, v, c = one.exchanges[k - 1]
                lines.append(_exchange(kind, v[2:], c))
            lines.append(f"for (int t = 0; t < n; t++) {one.name}_stage{k}(a[t]);")
        lines.append("for (int t = 0; t < n; t++) leave(a[t], t, out); free(a); free(o);")
        text.append(
            f'extern "C" void {one.name}(const unsigned *in, unsigned *out, int n) {{\n'
            "  S *a = (S *)malloc(n * sizeof(S)), *o = (S *)malloc(n * sizeof(S));\n  "
            + "\n  ".join(lines)
            + "\n}\n"
        )
    return "".join(text)


def _exchange(kind: str, v: str, c: int) -> str:
    """What lanes exchange, as a loop over the threads."""
    whole = "for (int t = 0; t < n; t++) o[t] = a[t];"
    source = {
        "up": f"(t & 31) >= {c} ? t - {c} : t",
        "down": f"(t & 31) + {c} < 32 ? t + {c} : t",
        "index": "(t & ~31) | (o[t].u0 & 31)",
        "xor8": f"(((t & 31) ^ {c}) | 7) <= ((t & 31) | 7) ? t ^ {c} : t",
    }.get(kind, f"t ^ {c}")
    condition = {
        "ballot": ("u1", "(unsigned)(o[q].i0 < o[q].i1) << (q & 31)", "|", "0u"),
        "any": ("u2", "(unsigned)((o[q].u0 & 7) == 0)", "|", "0u"),
        "all": ("u2", "(unsigned)((o[q].u0 & 7) != 9)", "&", "1u"),
        "match": ("u3", "(unsigned)((o[q].u0 & 3) == (o[t].u0 & 3)) << (q & 31)", "|", "0u"),
    }.get(kind)
    if condition is None:
        return f"{whole} for (int t = 0; t < n; t++) a[t].{v} = o[{source}].{v};"
    name, term, how, first = condition
    inner = f"for (int q = t & ~31; q < (t & ~31) + 32; q++) r = r {how} ({term});"
    return (
        f"{whole} for (int t = 0; t < n; t++) {{ unsigned r = {first}; {inner} a[t].{name} = r; }}"
    )


_PRELUDE = (Path(__file__).parent / "random_cuda_host.h").read_text(encoding="utf-8")


def host_results(kernels: list[Kernel], given: Any) -> dict[str, Any]:
    """What the kernels leave on this computer. given : (n, 8) uint32"""
    n, results = len(given), {}
    with temporary_folder() as folder:
        (folder / "k.cpp").write_text(host_text(kernels), encoding="utf-8")
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
        flags = ["-frounding-math", "-mfma", "-shared", "-fPIC", "k.cpp", "-o", "k.so", "-lm"]
        subprocess.run([*command, *flags], cwd=folder, check=True)
        library = ctypes.CDLL(str(folder / "k.so"))
        for one in kernels:
            out = np.zeros((n, WORDS), np.uint32)
            getattr(library, one.name)(
                ctypes.c_void_p(given.ctypes.data), ctypes.c_void_p(out.ctypes.data), n
            )
            results[one.name] = out
    return results
