"""AMD's products of matrices, v_mfma and v_wmma, as micro-operations.

Where a lane's elements lie: AMD, "CDNA3" and "RDNA3" Instruction Set Architecture Reference Guides, sections on matrix
instructions.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tracegen.execution import operations as o
from tracegen.execution.operations import ALWAYS, NEVER
from tracegen.execution.slicing import block_rows
from tracegen.machine_code.gcn_wave import Wave, by_patterns

_LANES = 64
_KINDS: dict[str, tuple[str, tuple[int, ...]]] = {
    "f32": ("f32", (1,)), "xf32": ("tf32", (2,)), "f16": ("f16", (4, 8)), "bf16": ("bf16", (2, 4, 8)), "bf16_1k": ("bf16", (4,)),
    "i8": ("s8", (4, 8, 16)), "f64": ("f64", (1,)), "fp8": ("e4m3", (8,)), "bf8": ("e5m2", (8,)),
}  # fmt: skip
"""Name -> format, and elements along k that a lane may have."""
_OF_GFX950 = ("e4m3", "e5m2")
"""Formats of v_mfma_f32_*_f8f6f4, by number; those of 6 and 4 bits lie otherwise."""


class Blocks(NamedTuple):
    """Products of square blocks. elements : that a lane has along the depth"""

    rows: int
    blocks: int
    depth: int
    elements: int


def _shape(name: str, rows: int, depth: int, blocks: int) -> Blocks:
    """That of v_mfma. blocks : 0 where the name of the instruction does not tell

    The lanes form groups of `rows`. Lane i of a group has elements of row i of a block, or of its column. The groups of a block
    have elements along k that follow each other. Raises KeyError for a shape that does not exist.
    """
    groups, choices = _LANES // rows, (32,) if name == "f8f6f4" else _KINDS[name][1]
    blocks = blocks or (4 if (name, rows) == ("f64", 4) else groups if depth == choices[0] else 1)
    each = depth * blocks // groups
    if each not in choices and not (blocks > 1 and each == depth):
        raise KeyError(name)
    return Blocks(rows, blocks, depth, each)


def _of_match(match: re.Match[str]) -> Blocks:
    return _shape(
        match[5].partition("_")[0] if match[5] in EIGHT else match[5],
        int(match[2]),
        int(match[3]),
        int(match[4] or 0),
    )


def _lower_mfma(wave: Wave, match: re.Match[str]) -> None:
    """`v_mfma_f32_32x32x8f16 a[0:15], v[0:1], v[2:3], a[0:15]`, of gfx942 `v_mfma_f32_32x32x4_2b_f16`. Floats of 8 bits are OCP's from
    gfx950 on; in `f8f6f4` cbsz and blgp are the formats of both factors."""
    modifiers, name = wave.parsed.modifiers, match[5]
    numbers = [wave.parsed.number(one) for one in ("cbsz", "blgp")]
    names = name.split("_") if name in EIGHT else [name, name]
    if name == "f8f6f4":
        if max(numbers) > 1:
            raise wave.unknown("floats of 6 and 4 bits")
        formats = [_OF_GFX950[number] for number in numbers]
    else:
        formats = [_KINDS[one][0] for one in names]
        if any(numbers) or wave.parsed.number("abid") or "neg" in modifiers:
            raise wave.unknown("matrices that blocks share, or whose signs change")
    if name in EIGHT and wave.target == "gfx942":
        formats = [f"{one}fnuz" for one in formats]
    try:
        shape = _of_match(match)
    except KeyError:
        raise wave.unknown("a shape that is not known") from None
    _multiply(wave, shape, formats, o.WHOLE_SUMS if match[1] == "i32" else 0)


def _lower_wmma(wave: Wave, match: re.Match[str]) -> None:
    """`v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]`: lane l has all of row, or column, l modulo 16, and every other result of
    a column. neg_lo of integers tells which factors have a sign; halves are low ones, or high ones with op_sel."""
    signs, total = wave.parsed.listed("neg_lo", (0, 0, 0)), match[1]
    formats, is_whole = [match[2]] * 2, match[2] == "iu8"
    is_changed = (not is_whole and any(signs)) or any(wave.parsed.listed("neg_hi", (0, 0, 0)))
    if wave.generation > 11 or wave.lanes != 32 or is_changed or "clamp" in wave.parsed.modifiers:
        raise wave.unknown("matrices of another shape, or whose signs change")
    if is_whole:
        formats = ["s8" if sign else "u8" for sign in signs[:2]]
    flags = o.WHOLE_SUMS if is_whole else 0
    if total not in ("f32", "i32"):
        if total == "bf16" or wave.operand(3)[0] != "v":
            raise wave.unknown("of these numbers")
        flags = o.HALF_SUMS | (o.HIGH_HALVES if wave.parsed.listed("op_sel", (0, 0, 0))[2] else 0)
    _multiply(wave, Blocks(16, 1, 16, 16), formats, flags)


def _multiply(wave: Wave, shape: Blocks, formats: list[str], flags: int) -> None:
    first, second = (o.FACTORS.index(name) for name in formats)
    x = first | second << 4 | flags
    y = shape.rows | shape.blocks << 6 | shape.depth << 11 | shape.elements << 19
    text, d, n = wave.operand(3), wave.read(wave.operand(0)), block_rows(x, y)[0]
    if text[0] in "va" and text[1:2] in "[0123456789":
        c, adds = wave.read(text), ALWAYS
    elif text == "0":
        c, adds = o.ZERO_ROW, NEVER
    else:
        words, c, adds = 2 if formats[0] == "f64" else 1, wave.out.rows("matrix sums", n), ALWAYS
        number = wave.read(text, "f64" if words == 2 else "b32" if flags else "f32")
        for k in range(0, n, words):
            wave.emit_always("MOVE2" if words == 2 else "MOVE", d=c + k, a=number)
    a, b = wave.read(wave.operand(1)), wave.read(wave.operand(2))
    wave.emit_always("BLOCK_MULTIPLY", d=d, a=a, b=b, c=c, m=adds, x=x, y=y)


EIGHT = ("fp8_fp8", "fp8_bf8", "bf8_fp8", "bf8_bf8")
"""Formats of both factors, numbers of eight bits."""
_MFMA = (
    r"v_mfma_(f32|f64|i32)_(\d+)x\2x(\d+)_?(?:(\d+)b_)?"
    rf"(xf32|f32|f64|f16|bf16_1k|bf16|i8|f8f6f4|{'|'.join(EIGHT)})$"
)


def mfma_of_opcode(opcode: str) -> tuple[str, float] | None:
    """The type of the factors of v_mfma, and the multiply-adds of a lane; None for other opcodes and unknown shapes."""
    match = re.match(_MFMA, opcode)
    try:
        shape = match and _of_match(match)
    except KeyError:
        return None
    return match and shape and (match[5], shape.rows**2 * shape.blocks * shape.depth / _LANES)


matrices = by_patterns(
    (_MFMA, _lower_mfma),
    (r"v_wmma_(f32|f16|bf16|i32)_16x16x16_(f16|bf16|iu8)$", _lower_wmma),
)
"""Lowers a product of matrices; False if the instruction is another one."""
