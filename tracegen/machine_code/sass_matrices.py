"""SASS that multiplies matrices with the tensor cores of a sub-group, lowered to micro-operations.

Where a lane's elements lie: PTX ISA, "Matrix Fragments for mma". Lane l has the numbers g = l / 4 and t = l modulo 4.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tracegen.execution import operations as o
from tracegen.execution.operations import ZERO_ROW
from tracegen.machine_code.matrix_products import Kind, Place, Product, multiply
from tracegen.machine_code.sass_emit import Emitter, UnknownInstruction, lowers
from tracegen.machine_code.sass_integers import RELATIONS
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


_GROUP_SHAPES = {f"64x{n}x{k}": (n, k) for n in range(8, 257, 8) for k in (8, 16)}
_DESCRIPTOR = re.compile(r"gdesc\[UR(\d+)\](\.tnspA)?(\.tnspB)?")


@lowers("HGMMA", f"{' '.join(_GROUP_SHAPES)} F32 F16 BF16 TF32")
def _of_four(e: Emitter, s: Sass) -> None:
    """`HGMMA.64x128x16.F32 d, gdesc[UR8].tnspB, c`: wgmma of four sub-groups, of which each has 16 rows of the first factor. That is in
    registers, or in local memory as the second one always is. It is computed at once; code waits for it with WARPGROUP.DEPBAR."""
    operands = [one for one in s.operands if not one.text.startswith("gsb")]
    given = [one for one in operands if one.is_predicate]
    d, *factors, c = [one for one in operands if not one.is_predicate]
    found = _DESCRIPTOR.fullmatch(factors[-1].text)
    if found is None or any(one.negative or one.kind != "R" for one in (d, *factors[:-1], c)):
        raise UnknownInstruction
    n, depth = _GROUP_SHAPES[s.one_of(*_GROUP_SHAPES)]
    kind: Kind = "bf16" if s.has("BF16") else "tf32" if s.has("TF32") else "f16"
    descriptor = e.register("UR", int(found[1]), 4)
    if len(factors) == 2:
        first = e.register("R", factors[0].number, 4)
    else:
        block, blocks = e.temporary(), []
        e.emit("LOGIC3", d=block, a=e.assembler.special("subgroup"), b=e.constant(3), y=0xC0)
        for half in range(2):
            blocks.append(e.temporary())
            e.emit("SHIFT_LEFT", d=blocks[-1], a=block, b=e.constant(1))
            e.emit("ADD3", d=blocks[-1], a=blocks[-1], b=e.constant(half))
        words = _words_of_blocks(e, descriptor, bool(found[2]), blocks)
        first = e.temporary(4)  # rows 0 to 7, rows 8 to 15, then the same further along k
        for k, word in enumerate((words[0], words[2], words[1], words[3])):
            e.move(first + k, word)
    blocks = [e.constant(k) for k in range(n // 8)]
    words = _words_of_blocks(e, descriptor + 2, bool(found[3]), blocks)
    product, halves = _product(kind, 16, depth), s.has("F16") and not s.has("F32")
    start = e.register("R", c.number, n // 4 if halves else n // 2)
    for k in range(n // 8):
        totals = [e.temporary(2) for _ in range(4)]
        for at, total in enumerate(totals):
            if halves:
                x = o.F16 | o.F32 << 4 | (at % 2) << o.SOURCE_PART
                e.emit("CONVERT", d=total, a=start + 2 * k + at // 2, x=x)
            else:
                e.move(total, start + 4 * k + at)
            if given:
                e.emit("SELECT", d=total, a=total, b=ZERO_ROW, m=e.mask(given[0]))
        second = e.temporary(2)
        e.move(second, words[2 * k])
        e.move(second + 1, words[2 * k + 1])
        multiply(e.assembler, e.emit, product, (first, second), totals)
        for at, total in enumerate(totals):
            if not halves:
                e.move(e.result(d) + 4 * k + at, total)
            elif at % 2:
                e.emit("PACK_F16", d=e.result(d) + 2 * k + at // 2, a=total, b=totals[at - 1])


def _words_of_blocks(e: Emitter, descriptor: int, across: bool, blocks: list[int]) -> list[int]:
    """Rows with what lane l has of each block of 8 rows of a factor in local memory: 4 bytes of row g from 4 t on, then those
    16 bytes further along k.

    descriptor : two rows;  across : whether elements follow each other across k (`tnsp`);  blocks : rows with their numbers
    Source: PTX ISA, "Matrix-descriptor", "Strides", "Swizzling modes" of wgmma.
    """

    def field(row: int, at: int) -> int:
        made = e.temporary()
        e.emit("BIT_FIELD_U", d=made, a=row, b=e.constant(at), c=e.constant(14))
        e.emit("SHIFT_LEFT", d=made, a=made, b=e.constant(4))
        return made

    start, leading, stride = field(descriptor, 0), field(descriptor, 16), field(descriptor + 1, 0)
    # Swizzled rows have 16 << width bytes, of which 16-byte parts are exchanged by the bits from the eighth on.
    width, pitch, parts, none = e.temporary(), e.temporary(), e.temporary(), e.temporary_mask()
    e.emit("SHIFT_RIGHT_U", d=width, a=descriptor + 1, b=e.constant(30))
    e.emit("ADD3", d=width, a=e.constant(4), b=width, x=o.NEGATE_B)
    e.emit("LOGIC3", d=width, a=width, b=e.constant(3), y=0xC0)
    e.emit("SHIFT_LEFT", d=pitch, a=e.constant(16), b=width)
    e.emit("ADD3", d=parts, a=pitch, b=e.constant(-16))
    e.emit("COMPARE_U", d=none, a=width, b=ZERO_ROW, x=RELATIONS["EQ"])
    e.emit("TRAP", guard=e.both(2 * none), y=2)  # without a swizzle
    lanes = range(e.assembler.lanes)
    rows = e.assembler.lane_table(tuple(lane // 4 for lane in lanes))
    columns = e.assembler.lane_table(tuple(4 * (lane % 4) for lane in lanes))
    made: list[int] = []
    for block in blocks:
        base, low, high = e.temporary(), e.temporary(), e.temporary()
        if across:
            e.emit("SHIFT_RIGHT_U", d=high, a=block, b=width)
            e.emit("MULTIPLY_ADD", d=base, a=high, b=leading, c=start)
            e.emit("SHIFT_LEFT", d=low, a=block, b=e.constant(4))
            e.emit("LOGIC3", d=low, a=low, b=parts, y=0xC0)
            e.emit("ADD3", d=base, a=base, b=low)
            e.emit("MULTIPLY_ADD", d=base, a=rows, b=e.constant(2), c=base)
        else:
            e.emit("MULTIPLY_ADD", d=base, a=block, b=stride, c=start)
            e.emit("MULTIPLY_ADD", d=base, a=rows, b=pitch, c=base)
            e.emit("ADD3", d=base, a=base, b=columns)
        for word in range(2):
            made.append(e.temporary())
            if not across:
                e.emit("ADD3", d=low, a=base, b=e.constant(16 * word))
                _swizzled_load(e, made[-1], low, parts, 4 << o.BYTES)
                continue
            for part in range(2):
                k = e.assembler.lane_table(tuple(2 * (lane % 4) + part for lane in lanes))
                e.emit("MULTIPLY_ADD", d=low, a=k, b=pitch, c=base)
                e.emit("ADD3", d=low, a=low, b=stride if word else ZERO_ROW)
                x = 2 << o.BYTES | o.KEEP_HALF | (o.HIGH_HALF if part else 0)
                _swizzled_load(e, made[-1], low, parts, x)
    return made


def _swizzled_load(e: Emitter, d: int, address: int, parts: int, x: int) -> None:
    swizzled = e.temporary()
    e.emit("SHIFT_RIGHT_U", d=swizzled, a=address, b=e.constant(3))
    e.emit("LOGIC3", d=swizzled, a=address, b=swizzled, c=parts, y=0x78)
    e.emit("LOAD", d=d, a=swizzled, x=x | o.LOCAL | o.ADDRESS_32)


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
        e.emit("PERMUTE_LANES", d=made[-1], a=e.plain(a), c=e.assembler.lane_table(sources), x=1)
        e.emit("SHIFT_RIGHT_U", d=made[-1], a=made[-1], b=upper)
    e.emit("PERMUTE_BYTES", d=e.result(d), a=made[0], b=made[1], c=e.constant(0x5410))
