"""Declarations of OpenCL C that libclang lacks: types, constants, `as_type`."""

from __future__ import annotations

import re

_INTEGERS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong")
_BITS = dict(zip(_INTEGERS, (8, 8, 16, 16, 32, 32, 64, 64), strict=True))
_BITS |= {"half": 16, "float": 32, "double": 64}
_WIDTHS = (2, 3, 4, 8, 16)
_REINTERPRETED = re.compile(r"\bas_([a-z]+)(2|3|4|8|16)?\b")

_CONSTANTS = """\
CLK_LOCAL_MEM_FENCE 1
CLK_GLOBAL_MEM_FENCE 2
CLK_NORMALIZED_COORDS_FALSE 0
CLK_NORMALIZED_COORDS_TRUE 1
CLK_ADDRESS_NONE 0
CLK_ADDRESS_CLAMP_TO_EDGE 2
CLK_ADDRESS_CLAMP 4
CLK_ADDRESS_REPEAT 6
CLK_ADDRESS_MIRRORED_REPEAT 8
CLK_FILTER_NEAREST 16
CLK_FILTER_LINEAR 32
NULL ((void *) 0)
CHAR_BIT 8
SCHAR_MAX 127
SCHAR_MIN (-128)
CHAR_MAX 127
CHAR_MIN (-128)
UCHAR_MAX 255
SHRT_MAX 32767
SHRT_MIN (-32768)
USHRT_MAX 65535
INT_MAX 2147483647
INT_MIN (-2147483647-1)
UINT_MAX 0xffffffffU
LONG_MAX 0x7fffffffffffffffL
LONG_MIN (-0x7fffffffffffffffL-1)
ULONG_MAX 0xffffffffffffffffUL
FLT_DIG 6
FLT_MANT_DIG 24
FLT_MAX_10_EXP 38
FLT_MAX_EXP 128
FLT_MIN_10_EXP (-37)
FLT_MIN_EXP (-125)
FLT_RADIX 2
FLT_MAX 0x1.fffffep127f
FLT_MIN 0x1.0p-126f
FLT_EPSILON 0x1.0p-23f
DBL_DIG 15
DBL_MANT_DIG 53
DBL_MAX_10_EXP 308
DBL_MAX_EXP 1024
DBL_MIN_10_EXP (-307)
DBL_MIN_EXP (-1021)
DBL_MAX 0x1.fffffffffffffp1023
DBL_MIN 0x1.0p-1022
DBL_EPSILON 0x1.0p-52
HUGE_VALF __builtin_huge_valf()
HUGE_VAL __builtin_huge_val()
MAXFLOAT FLT_MAX
INFINITY __builtin_inff()
NAN __builtin_nanf("")
"""
_MATHEMATICS: tuple[str, ...] = (
    "E",
    "LOG2E",
    "LOG10E",
    "LN2",
    "LN10",
    "PI",
    "PI_2",
    "PI_4",
    "1_PI",
    "2_PI",
)
_MATHEMATICS += ("2_SQRTPI", "SQRT2", "SQRT1_2")


def header(text: str) -> str:
    """The declarations that libclang needs before `text`."""
    lines = [
        "#define __opencl_c_named_address_space_builtins 1",
        "#pragma OPENCL EXTENSION cl_khr_fp16 : enable",
        "#pragma OPENCL EXTENSION cl_khr_fp64 : enable",
        *(f"typedef unsigned {name[1:]} {name};" for name in _INTEGERS if name[0] == "u"),
        "typedef ulong size_t; typedef long ptrdiff_t; typedef long intptr_t;",
        "typedef ulong uintptr_t; typedef uint cl_mem_fence_flags;",
        "int printf(__constant const char *restrict format, ...);",
    ]
    for name in _BITS:
        for width in _WIDTHS:
            vector = f"__attribute__((ext_vector_type({width})))"
            lines.append(f"typedef {name} {name}{width} {vector};")
    lines += [f"#define {line}" for line in _CONSTANTS.splitlines()]
    for name in _MATHEMATICS:
        lines += [f"#define M_{name} 1.0", f"#define M_{name}_F 1.0f"]
    for target, width in sorted(set(_REINTERPRETED.findall(text))):
        lines += _reinterpretations(target, width)
    return "\n".join(lines) + "\n"


def _reinterpretations(target: str, width: str) -> list[str]:
    """`as_type` for every type of the same size, as functions: their arguments stay in place."""
    if target not in _BITS:
        return []
    size = _size_bits(target, int(width or 1))
    return [
        f"{target}{width} __attribute__((overloadable)) as_{target}{width}({name}{n or ''});"
        for name in _BITS
        for n in (0, *_WIDTHS)
        if _size_bits(name, n or 1) == size
    ]


def _size_bits(name: str, width: int) -> int:
    return _BITS[name] * (4 if width == 3 else width)
