"""SASS that multiplies matrices with the tensor cores of a sub-group, lowered to micro-operations.

Where a lane's elements lie: PTX ISA, "Matrix Fragments for mma". Lane l has the numbers g = l / 4 and t = l modulo 4.
"""

from __future__ import annotations

from functools import lru_cache

from tracegen.execution import operations as o
from tracegen.machine_code.matrix_products import Kind, Place, Product, multiply
from tracegen.machine_code.sass_emit import Emitter, UnknownInstruction, lowers
from tracegen.machine_code.sass_text import Operand, Sass

_SHAPES = {
    "884": (8, 4), "8816": (8, 16), "1684": (16, 4), "1688": (16, 8), "16816": (16, 16), "16832": (16, 32),
    "8x8x4": (8, 4), "16x8x4": (16, 4), "16x8x8": (16, 8), "16x8x16": (16, 16),
}  # fmt: skip
"""Name -> rows of the first factor, and depth; the second one has 8 columns."""


@lru_cache(maxsize=64)
def _product(kind: Kind, rows: int, depth: int) -> Product:
    """Each word of a lane has elements that follow each other along k: t, or 2 t and the next one, or 4 of them. Further words
    are 8 rows below, then 4 such words further along k."""
    parts = {"f16": 2, "bf16": 2, "i8": 4}.get(kind, 1)
    tall = rows // 8

    def first(i: int, k: int, _: int) -> Place:
        return Place(i % 8 * 4 + k // parts % 4, i // 8 + tall * (k // (4 * parts)), k % parts)

    def second(j: int, k: int, _: int) -> Place:
        return Place(j * 4 + k // parts % 4, k // (4 * parts), k % parts)

    def results(lane: int, number: int) -> tuple[int, int, int]:
        return lane // 4 + 8 * (number // 2), lane % 4 * 2 + number % 2, 0

    return Product(kind, depth, first, second, results, 2 * tall)


@lowers("HMMA", f"{' '.join(_SHAPES)} F32 F16 BF16 TF32")
def _floats(e: Emitter, s: Sass) -> None:
    """`HMMA.16816.F32.BF16 d, a, b, c`: of halves unless another kind is named; `.F16`: results are halves, too."""
    kind: Kind = "bf16" if s.has("BF16") else "tf32" if s.has("TF32") else "f16"
    d, a, b, c = _operands(e, s)
    product = _product(kind, *_SHAPES[s.one_of(*_SHAPES)])
    if s.has("F16"):
        return _of_halves(e, product, d, a, b, c)
    return _multiply(e, product, d, (a, b), c)


@lowers("IMMA", f"{' '.join(_SHAPES)} S8 U8")
def _integers(e: Emitter, s: Sass) -> None:
    d, a, b, c = _operands(e, s)
    kinds = [part for part in s.parts if part in ("S8", "U8")]
    signs = (kinds[0] == "S8") | (kinds[1] == "S8") << 1
    _multiply(e, _product("i8", *_SHAPES[s.one_of(*_SHAPES)]), d, (a, b), c, signs)


@lowers("DMMA", " ".join(_SHAPES))
def _doubles(e: Emitter, s: Sass) -> None:
    d, a, b, c = _operands(e, s)
    _multiply(e, _product("f64", *_SHAPES[s.one_of(*_SHAPES)]), d, (a, b), c)


def _operands(e: Emitter, s: Sass) -> tuple[Operand, ...]:
    """Result, factors and summand. The layouts `.ROW` and `.COL` are the only ones."""
    operands = s.operands[:4]
    if (
        e.assembler.width not in (None, 32)
        or len(operands) < 4
        or any(one.negative or one.kind != "R" for one in operands)
    ):
        raise UnknownInstruction
    if any(one.suffix not in ((), ("ROW",), ("COL",)) for one in operands):
        raise UnknownInstruction
    return operands


def _multiply(
    e: Emitter, product: Product, d: Operand, factors: tuple[Operand, Operand], c: Operand, signs: int = 0
) -> None:  # fmt: skip
    words = 2 if product.kind == "f64" else 1
    n = words * product.n_results
    totals = [e.temporary(words) for _ in range(product.n_results)]
    start = e.register("R", c.number, n)
    for k, total in enumerate(totals):
        e.move(total, start + words * k, words)
    rows = tuple(e.register("R", one.number, 16) for one in factors)
    multiply(e.assembler, e.emit, product, (rows[0], rows[1]), totals, signs)
    for k, total in enumerate(totals):
        e.move(e.result(d) + words * k, total, words)


def _of_halves(
    e: Emitter, product: Product, d: Operand, a: Operand, b: Operand, c: Operand
) -> None:
    totals = [e.temporary(2) for _ in range(product.n_results)]
    start = e.register("R", c.number, product.n_results // 2)
    for k, total in enumerate(totals):
        x = o.F16 | o.F32 << 4 | (k % 2) << o.SOURCE_PART
        e.emit("CONVERT", d=total, a=start + k // 2, x=x)
    factors = e.register("R", a.number, 16), e.register("R", b.number, 16)
    multiply(e.assembler, e.emit, product, factors, totals)
    for k in range(0, len(totals), 2):
        e.emit("PACK_F16", d=e.result(d) + k // 2, a=totals[k + 1], b=totals[k])


@lowers("MOVM", "16 MT88")
def _transpose(e: Emitter, s: Sass) -> None:
    """`MOVM.16.MT88`: 8 by 8 halves, of which lane l has elements 2 t and 2 t + 1 of row g, change rows for columns."""
    d, a = s.operands
    lanes, made = range(e.assembler.lanes), []
    if not s.has("MT88"):
        raise UnknownInstruction
    upper = e.assembler.lane_table(tuple(16 * (lane // 4 % 2) for lane in lanes))
    for part in range(2):
        sources = tuple((lane % 4 * 2 + part) * 4 + lane // 8 for lane in lanes)
        made.append(e.temporary())
        e.emit("PERMUTE_LANES", d=made[-1], a=e.plain(a), c=e.assembler.lane_table(sources))
        e.emit("SHIFT_RIGHT_U", d=made[-1], a=made[-1], b=upper)
    e.emit("PERMUTE_BYTES", d=e.result(d), a=made[0], b=made[1], c=e.constant(0x5410))
