"""AMD's products of matrices, v_mfma and v_wmma, as micro-operations.

Where a lane's elements lie: AMD, "CDNA3" and "RDNA3" Instruction Set Architecture Reference Guides, sections on matrix
instructions.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tracegen.execution import operations as o
from tracegen.machine_code.gcn_wave import Wave, by_patterns
from tracegen.machine_code.matrix_products import Kind, Place, Product, multiply

_LANES = 64
_KINDS: dict[str, tuple[Kind, int, tuple[int, ...]]] = {
    "f32": ("f32", 1, (1,)), "xf32": ("tf32", 1, (2,)), "f16": ("f16", 2, (4,)), "bf16": ("bf16", 2, (2, 4)),
    "bf16_1k": ("bf16", 2, (4,)), "i8": ("i8", 4, (4, 8)), "f64": ("f64", 1, (1,)),
}  # fmt: skip
"""Name -> kind, elements of a register (of a double, of its two), and elements along k that a lane may have."""


@lru_cache(maxsize=64)
def _mfma(name: str, rows: int, depth: int, blocks: int) -> Product:
    """The product of v_mfma. blocks : 0 where the name of the instruction does not tell

    The lanes form groups of `rows`. Lane i of a group has elements of row i of a block, or of its column. The groups of a block
    have elements along k that follow each other. Raises KeyError for a shape that does not exist.
    """
    kind, parts, choices = _KINDS[name]
    groups = _LANES // rows
    blocks = blocks or (4 if (name, rows) == ("f64", 4) else groups if depth == choices[0] else 1)
    each = depth * blocks // groups
    if each not in choices and not (blocks > 1 and each == depth):
        raise KeyError(name)

    def factor(i: int, k: int, block: int) -> Place:
        within = k % each
        return Place(i + rows * (block + blocks * (k // each)), within // parts, within % parts)

    def results(lane: int, number: int) -> tuple[int, int, int]:
        group, column = divmod(lane, rows)
        if rows == 4:
            return (group // 4, column, group % 4) if kind == "f64" else (number, column, group)
        block, number = divmod(number, rows * rows // _LANES)
        if kind == "f64":
            return 4 * number + group, column, block
        return 4 * groups * (number // 4) + 4 * group + number % 4, column, block

    return Product(kind, depth, factor, factor, results, rows * rows * blocks // _LANES)


@lru_cache(maxsize=8)
def _wmma(kind: Kind) -> Product:
    """Of gfx11: lane l has all of row, or column, l modulo 16, and every other result of a column."""
    parts = 4 if kind == "i8" else 2

    def factor(i: int, k: int, _: int) -> Place:
        return Place(i, k // parts, k % parts)

    def results(lane: int, number: int) -> tuple[int, int, int]:
        return 2 * number + lane // 16, lane % 16, 0

    return Product(kind, 16, factor, factor, results, 8)


def _of_match(match: re.Match[str]) -> Product:
    return _mfma(match[5], int(match[2]), int(match[3]), int(match[4] or 0))


def _lower_mfma(wave: Wave, match: re.Match[str]) -> None:
    """`v_mfma_f32_32x32x8f16 a[0:15], v[0:1], v[2:3], a[0:15]`, of gfx942 `v_mfma_f32_32x32x4_2b_f16`."""
    modifiers = wave.parsed.modifiers
    if any(wave.parsed.number(one) for one in ("cbsz", "abid", "blgp")) or "neg" in modifiers:
        raise wave.unknown("matrices that blocks share, or whose signs change")
    try:
        product = _of_match(match)
    except KeyError:
        raise wave.unknown("a shape that is not known") from None
    _multiply(wave, product, 3)


def _lower_wmma(wave: Wave, match: re.Match[str]) -> None:
    """`v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]`; neg_lo of integers tells which factors have a sign."""
    kind: Kind = {"f16": "f16", "bf16": "bf16", "iu8": "i8"}[match[2]]  # type: ignore[assignment]
    signs = wave.parsed.listed("neg_lo", (0, 0, 0))
    is_changed = (kind != "i8" and any(signs)) or any(wave.parsed.listed("neg_hi", (0, 0, 0)))
    if wave.generation > 11 or wave.lanes != 32 or is_changed or "clamp" in wave.parsed.modifiers:
        raise wave.unknown("matrices of another shape, or whose signs change")
    if match[1] in ("f32", "i32"):
        return _multiply(wave, _wmma(kind), signs[0] | signs[1] << 1)
    return _of_halves(wave, _wmma(kind))


def _multiply(wave: Wave, product: Product, signs: int) -> None:
    words, kind = 2 if product.kind == "f64" else 1, product.kind
    text, d = wave.operand(3), wave.read(wave.operand(0))
    is_register = text[0] in "va" and text[1:2] in "[0123456789"
    of_number: dict[str, str] = {"f64": "f64", "i8": "b32"}
    c = wave.read(text, "b32" if is_register else of_number.get(kind, "f32"))  # type: ignore[arg-type]
    totals = [wave.out.rows(f"matrix total {k}", 2) for k in range(product.n_results)]
    for k, total in enumerate(totals):
        _move(wave, total, c + words * k * is_register, words)
    factors = wave.read(wave.operand(1)), wave.read(wave.operand(2))
    multiply(wave.out, wave.emit_always, product, factors, totals, signs)
    for k, total in enumerate(totals):
        _move(wave, d + words * k, total, words)


def _of_halves(wave: Wave, product: Product) -> None:
    """Results are the low halves of registers, or the high ones with op_sel; the other halves stay."""
    text, d = wave.operand(3), wave.read(wave.operand(0))
    if text[0] != "v" or product.kind == "bf16":
        raise wave.unknown("of these numbers")
    high, c = wave.parsed.listed("op_sel", (0, 0, 0))[2], wave.read(text)
    totals = [wave.out.rows(f"matrix total {k}", 2) for k in range(product.n_results)]
    for k, total in enumerate(totals):
        x = o.F16 | o.F32 << 4 | high << o.SOURCE_PART
        wave.emit_always("CONVERT", d=total, a=c + k, x=x)
    factors = wave.read(wave.operand(1)), wave.read(wave.operand(2))
    multiply(wave.out, wave.emit_always, product, factors, totals)
    chosen = wave.constant(0x5410 if high else 0x3254)
    for k, total in enumerate(totals):
        wave.emit_always("CONVERT", d=total, a=total, x=o.F32 | o.F16 << 4)
        wave.emit_always("PERMUTE_BYTES", d=d + k, a=d + k, b=total, c=chosen)


def _move(wave: Wave, d: int, a: int, words: int) -> None:
    wave.emit_always("MOVE2" if words == 2 else "MOVE", d=d, a=a)


_MFMA = r"v_mfma_(f32|f64|i32)_(\d+)x\2x(\d+)_?(?:(\d+)b_)?(xf32|f32|f64|f16|bf16_1k|bf16|i8)$"


def mfma_of_opcode(opcode: str) -> tuple[str, Product] | None:
    """The type of the factors of v_mfma, and the product; None for other opcodes and unknown shapes."""
    match = re.match(_MFMA, opcode)
    try:
        return match and (match[5], _of_match(match))
    except KeyError:
        return None


matrices = by_patterns(
    (_MFMA, _lower_mfma),
    (r"v_wmma_(f32|f16|bf16|i32)_16x16x16_(f16|bf16|iu8)$", _lower_wmma),
)
"""Lowers a product of matrices; False if the instruction is another one."""
