"""SASS of integers and bits, lowered to micro-operations. Instructions of the uniform datapath are lowered as the others."""

from __future__ import annotations

from collections.abc import Callable

from tracegen.execution import operations as o
from tracegen.execution.operations import ALWAYS, NEVER, TRASH_MASK, TRASH_ROW, ZERO_ROW
from tracegen.machine_code.sass_emit import (
    FIELDS,
    Emitter,
    UnknownInstruction,
    carries,
    float_bits,
    lowers,
)
from tracegen.machine_code.sass_text import Operand, Sass

_NEGATE = (o.NEGATE_A, o.NEGATE_B, o.NEGATE_C)
RELATIONS = {
    "F": 0, "LT": 1, "EQ": 2, "LE": 3, "GT": 4, "NE": 5, "GE": 6, "NUM": 7, "NAN": 8, "LTU": 9, "EQU": 10, "LEU": 11,
    "GTU": 12, "NEU": 13, "GEU": 14, "T": 15,
}  # fmt: skip
BOOLEANS = {"AND": o.COMBINE_AND, "OR": o.COMBINE_OR, "XOR": o.COMBINE_XOR}
SIZES = "U32 S32 U64 S64 64"


# --- moves ------------------------------------------------------------------------------------------
@lowers("MOV", "64 SPILL")
def _move(e: Emitter, s: Sass) -> None:
    d, a = s.operands[:2]
    if s.has("64"):
        e.move(e.result(d), e.wide(a), 2)
    else:
        e.move(e.result(d), e.whole(a) if a.kind != "f" else e.constant(float_bits(a.value)))


@lowers("SEL", "64")
def _select(e: Emitter, s: Sass) -> None:
    d, a, b, p = s.operands
    words = 2 if s.has("64") else 1
    rows = (e.wide(a), e.wide(b)) if words == 2 else (e.whole(a), e.whole(b))
    for k in range(words):
        e.emit("SELECT", d=e.result(d) + k, a=rows[0] + k, b=rows[1] + k, m=e.mask(p))


_CHOICES = {
    "F4E": (0x3210, 0x4321, 0x5432, 0x6543),
    "B4E": (0x5670, 0x6701, 0x7012, 0x0123),
    "RC8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ECL": (0x3210, 0x3211, 0x3222, 0x3333),
    "ECR": (0x0000, 0x1110, 0x2210, 0x3210),
    "RC16": (0x1010, 0x3232, 0x1010, 0x3232),
}
"""What the lowest two bits of the selector choose in the other modes of PRMT (PTX ISA, prmt)."""


@lowers("PRMT", f"IDX {' '.join(_CHOICES)}")
def _permute(e: Emitter, s: Sass) -> None:
    d, a, chosen, b = s.operands
    selector = e.whole(chosen)
    if mode := s.one_of(*_CHOICES):
        first, second, third, fourth = _CHOICES[mode]
        table = e.constant(first | second << 16, third | fourth << 16)
        distance, found = e.temporary(), e.temporary(2)
        e.emit("BIT_FIELD_U", d=distance, a=selector, b=ZERO_ROW, c=e.constant(2))
        e.emit("SHIFT_LEFT", d=distance, a=distance, b=e.constant(4))
        e.emit("SHIFT_RIGHT64_U", d=found, a=table, b=distance)
        selector = found
    e.emit("PERMUTE_BYTES", d=e.result(d), a=e.whole(a), b=e.whole(b), c=selector)


@lowers("P2R")
def _predicates_to_register(e: Emitter, s: Sass) -> None:
    """`P2R R0, PR, R1, 0x7f`: the bits of the mask come from predicates, the others from R1; `.B1` puts them into a byte."""
    d, file, a, bits = s.operands
    at = _byte(d) if d.suffix else _byte(a)
    row = e.temporary()
    e.emit("LOGIC3", d=row, a=e.plain(a), b=e.constant(bits.number << at), y=0x30)
    for k in range(7):
        if bits.number >> k & 1:
            mask = 2 * e.assembler.mask(f"{_file(file)}{k}")
            bit = e.temporary()
            e.emit("SELECT", d=bit, a=e.constant(1 << (k + at)), m=mask)
            e.emit("LOGIC3", d=row, a=row, b=bit, y=0xFC)
    e.move(e.result(d), row)


@lowers("R2P")
def _register_to_predicates(e: Emitter, s: Sass) -> None:
    file, a, bits = s.operands
    row, at, guard = e.plain(a), _byte(a), e.guard >> 1
    masks = [(e.assembler.mask(f"{_file(file)}{k}"), k) for k in range(7) if bits.number >> k & 1]
    for mask, k in sorted(
        masks, key=lambda one: one[0] == guard
    ):  # what is its guard is written last
        bit = e.temporary()
        e.emit("LOGIC3", d=bit, a=row, b=e.constant(1 << (k + at)), y=0xC0)
        e.emit("COMPARE_U", d=mask, a=bit, x=RELATIONS["NE"])


def _file(operand: Operand) -> str:
    if operand.text not in ("PR", "UPR"):
        raise UnknownInstruction
    return operand.text[:-1]


def _byte(operand: Operand) -> int:
    """The bit at which the byte of an operand begins."""
    return 8 * int(operand.suffix[0][1:]) if operand.suffix else 0


# --- sums -------------------------------------------------------------------------------------------
def add(
    e: Emitter, masks: list[Operand], d: int, rows: list[tuple[int, bool]], carried: list[int]
) -> None:
    """A sum of up to three rows, each with whether it is negated, with carries in and out."""
    x = sum(_NEGATE[k] for k, (_, negated) in enumerate(rows) if negated)
    fields = dict(zip(FIELDS, (row for row, _ in rows), strict=False))
    carried = [mask for mask in carried if mask != NEVER]
    out = [e.result_mask(mask) for mask in masks] + [TRASH_MASK, TRASH_MASK]
    if not carried and out[0] == out[1] == TRASH_MASK:
        if (len(rows) == 2 or rows[2][0] == ZERO_ROW) and rows[1][0] == ZERO_ROW and not x:
            return e.move(d, rows[0][0])
        return e.emit("ADD3", d=d, x=x, **fields)
    m, n = [*carried, NEVER, NEVER][:2]
    return e.emit("ADD_CARRY", d=d, e=out[0], y=out[1], x=x, m=m, n=n, **fields)


@lowers("IADD3 IADD", "X 64")
def _add3(e: Emitter, s: Sass) -> None:
    masks, d, sources = carries(s)
    count = next((k for k, one in enumerate(sources) if one.is_predicate), len(sources))
    carried = [e.mask(one) for one in sources[count:]] if s.has("X") else []
    if s.has("64"):
        return _add64(e, masks, e.result(d), sources[:count], carried)
    return add(e, masks, e.result(d), [e.signed(one) for one in sources[:count]], carried)


def _add64(
    e: Emitter, masks: list[Operand], d: int, sources: list[Operand], carried: list[int]
) -> None:
    """A sum of numbers of 64 bits; of two also with a carry in, and out: whether it does not fit."""
    out = [mask for mask in masks if e.result_mask(mask) != TRASH_MASK]
    sources = [one for one in sources if not one.is_zero]
    if not out and not carried:
        rows = [e.wide(one) for one in sources]
        while len(rows) > 2:
            total = e.temporary(2)
            e.emit("ADD64", d=total, a=rows.pop(), b=rows.pop())
            rows.append(total)
        rows += [ZERO_ROW] * (2 - len(rows))
        return e.emit("ADD64", d=d, a=rows[0], b=rows[1])
    ones = carried + [ALWAYS for one in sources if one.negative]  # -x is ~x + 1
    if len(sources) > 2 or len(out) > 1 or len(ones) > 1:
        raise UnknownInstruction
    rows = []
    for one in sources:
        rows.append(e.plain(one, 2))
        if one.negative or one.inverted:
            changed = e.temporary(2)
            for half in range(2):
                e.emit("LOGIC3", d=changed + half, a=rows[-1] + half, y=0x0F)
            rows[-1] = changed
    a, b = [*rows, ZERO_ROW, ZERO_ROW][:2]
    total, between = e.temporary(2), e.temporary_mask()
    carries_out = (between, e.result_mask(out[0]) if out else TRASH_MASK)
    for half, (m, carry) in enumerate(
        zip(([*ones, NEVER][0], 2 * between), carries_out, strict=True)
    ):
        fields = {"a": a + half, "b": b + half, "m": m, "n": NEVER}
        e.emit("ADD_CARRY", d=total + half, e=carry, y=TRASH_MASK, **fields)
    return e.move(d, total, 2)


PACKED = {"8x4": 8, "U8x4": 8, "S8x4": 8, "16x2": 16, "U16x2": 16, "S16x2": 16}
"""Instructions on the bytes or halves of their operands."""


def each_part(
    e: Emitter, s: Sass, d: int, sources: list[Operand], step: Callable[[list[int]], int]
) -> None:
    """Does a step with each byte or half of the sources, and packs what it finds."""
    kind = s.one_of(*PACKED)
    bits, total = PACKED[kind], ZERO_ROW
    for at in range(0, 32, bits):
        rows = []
        for one in sources:
            rows.append(e.temporary())
            name = "BIT_FIELD_S" if kind[0] == "S" else "BIT_FIELD_U"
            fields = {"a": e.plain(one), "b": e.constant(at), "c": e.constant(bits)}
            e.emit(name, d=rows[-1], **fields)
        found, joined = e.temporary(), e.temporary()
        e.emit("BIT_FIELD_U", d=found, a=step(rows), b=ZERO_ROW, c=e.constant(bits))
        e.emit("SHIFT_LEFT", d=found, a=found, b=e.constant(at))
        e.emit("LOGIC3", d=joined, a=total, b=found, y=0xFC)
        total = joined
    e.move(d, total)


def added(e: Emitter, a: Operand, b: Operand, rows: list[int]) -> int:
    """A row with the sum of parts of two operands, with the operands' signs."""
    total = e.temporary()
    add(e, [], total, [(rows[0], a.negative), (rows[1], b.negative)], [])
    return total


@lowers("VIADD", " ".join(PACKED))
def _add2(e: Emitter, s: Sass) -> None:
    d, a, b = s.operands
    if s.has(*PACKED):
        return each_part(e, s, e.result(d), [a, b], lambda rows: added(e, a, b, rows))
    return add(e, [], e.result(d), [e.signed(a), e.signed(b)], [])


@lowers("IABS")
def _absolute(e: Emitter, s: Sass) -> None:
    d, a = s.operands
    e.emit("ABSOLUTE", d=e.result(d), a=e.whole(a))


@lowers("IMAD", "X WIDE HI U32 S32 IADD MOV SHL")
def _multiply_add(e: Emitter, s: Sass) -> None:
    masks, d, (a, b, c, *carried) = carries(s)
    into = [e.mask(one) for one in carried] if s.has("X") else []
    if s.has("WIDE", "HI"):
        return _multiply_wide(e, s, masks, e.result(d), (a, b, c), into)
    if not into and not masks:
        if a.is_zero or b.is_zero:
            return e.move(e.result(d), e.whole(c))
        if b.kind == "i" and b.number == 1:
            return add(e, [], e.result(d), [e.signed(a), e.signed(c)], [])
        (x, a_negated), (y, b_negated), (z, c_negated) = (e.signed(one) for one in (a, b, c))
        signs = (o.NEGATE_A if a_negated != b_negated else 0) | (o.NEGATE_C if c_negated else 0)
        return e.emit("MULTIPLY_ADD", d=e.result(d), a=x, b=y, c=z, x=signs)
    product = ZERO_ROW
    if not a.is_zero and not b.is_zero:
        product = e.temporary()
        e.emit("MULTIPLY_ADD", d=product, a=e.whole(a), b=e.whole(b))
    return add(e, masks, e.result(d), [(product, False), e.signed(c)], into)


def _multiply_wide(
    e: Emitter, s: Sass, masks: list[Operand], d: int, sources: tuple[Operand, ...], into: list[int]
) -> None:
    a, b, c = sources
    name = "MULTIPLY_WIDE_U" if s.has("U32") else "MULTIPLY_WIDE_S"
    row = d if s.has("WIDE") else e.temporary(2)
    carry = e.result_mask(masks[0]) if masks else TRASH_MASK
    fields = {"a": e.whole(a), "b": e.whole(b), "c": e.wide(c), "m": into[0] if into else NEVER}
    e.emit(name, d=row, e=carry, **fields)
    if row != d:
        e.move(d, row + 1)


@lowers("LEA", "HI X SX32")
def _scaled_add(e: Emitter, s: Sass) -> None:
    """`LEA d, a, b, n`: (a << n) + b; `.HI` with c: the high half of (c:a) << n, plus b."""
    masks, d, sources = carries(s)
    carried = [e.mask(one) for one in sources if one.is_predicate] if s.has("X") else []
    a, b, *others = [one for one in sources if not one.is_predicate]
    distance = others[-1]
    row, (source, negated) = e.temporary(), e.signed(a)
    if negated and s.has("HI"):
        raise UnknownInstruction
    if not s.has("HI"):
        e.emit("SHIFT_LEFT", d=row, a=source, b=e.whole(distance))
    elif s.has("SX32"):
        e.emit("SHIFT_RIGHT_S", d=row, a=source, b=e.constant(32 - distance.number))
    else:
        fields = {"a": source, "b": e.whole(distance), "c": e.whole(others[0])}
        e.emit("FUNNEL_LEFT", d=row, x=o.WRAP, **fields)
    add(e, masks, e.result(d), [(row, negated), e.signed(b)], carried)


@lowers("IDP", "4A 2A LO HI U8 S8 U16 S16")
def _dot(e: Emitter, s: Sass) -> None:
    """`IDP.4A.S8.U8`, and `IDP.2A.LO.S16.U8`: two halves of a times two bytes of b."""
    d, a, b, c = s.operands
    kinds = [part for part in s.parts if part in ("U8", "S8", "U16", "S16")]
    first, second = kinds if len(kinds) == 2 else ("S8", "S8") if s.has("4A") else ("S16", "S8")
    if s.has("4A"):
        signs = (first == "S8") | (second == "S8") << 1
        return e.emit("DOT4", d=e.result(d), a=e.whole(a), b=e.whole(b), c=e.whole(c), x=signs)
    total, x, y = e.whole(c), e.whole(a), e.whole(b)
    for k in range(2):
        half, byte, product = e.temporary(), e.temporary(), e.temporary()
        at = 8 * k + (16 if s.has("HI") else 0)
        e.emit(f"BIT_FIELD_{first[0]}", d=half, a=x, b=e.constant(16 * k), c=e.constant(16))
        e.emit(f"BIT_FIELD_{second[0]}", d=byte, a=y, b=e.constant(at), c=e.constant(8))
        e.emit("MULTIPLY_ADD", d=product, a=half, b=byte, c=total)
        total = product
    return e.move(e.result(d), total)


@lowers("VABSDIFF VABSDIFF4", "U32 S32 U8 S8 ACC")
def _sum_of_differences(e: Emitter, s: Sass) -> None:
    """Of the four bytes with `.ACC` the sum, else each for itself."""
    d, a, b, c = s.operands
    if s.base == "VABSDIFF4" and not s.has("ACC"):
        kind = Sass(s.text, s.base, ("S8x4" if s.has("S8") else "U8x4",), s.guard, s.operands)
        return each_part(e, kind, e.result(d), [a, b], lambda rows: _difference(e, rows))
    x = s.has("U32", "U8") | (s.base == "VABSDIFF4") << 1
    fields = {"a": e.whole(a), "b": e.whole(b), "c": e.whole(c)}
    return e.emit("SUM_DIFFERENCES", d=e.result(d), x=x, **fields)


def _difference(e: Emitter, rows: list[int]) -> int:
    found = e.temporary()
    e.emit("SUM_DIFFERENCES", d=found, a=rows[0], b=rows[1])
    return found


# --- bits -------------------------------------------------------------------------------------------
@lowers("LOP3", "LUT PAND")
def _logic(e: Emitter, s: Sass) -> None:
    masks, d, (a, b, c, table, *p) = carries(s)
    lut = inverted_table(table.number, (a.inverted, b.inverted, c.inverted))
    row = e.result(d)
    if masks and row == TRASH_ROW:
        row = e.temporary()
    rows = [e.plain(one) if one.kind != "i" else e.whole(one) for one in (a, b, c)]
    e.emit("LOGIC3", d=row, a=rows[0], b=rows[1], c=rows[2], y=lut)
    if masks:
        how = o.COMBINE_AND if s.has("PAND") else o.COMBINE_OR
        m = e.mask(p[0]) if p else NEVER
        e.emit("COMPARE_U", d=e.result_mask(masks[0]), a=row, m=m, x=RELATIONS["NE"] | how)


def inverted_table(table: int, inverted: tuple[bool, bool, bool]) -> int:
    """The table of a function of three bits, some of which come inverted."""
    flip = inverted[0] << 2 | inverted[1] << 1 | inverted[2]
    return sum((table >> (k ^ flip) & 1) << k for k in range(8))


@lowers("PLOP3", "LUT")
def _mask_logic(e: Emitter, s: Sass) -> None:
    d, second, a, b, c, table, other = s.operands
    m, n, y = (e.mask(one) for one in (a, b, c))
    results = [(e.result_mask(d), table.number), (e.result_mask(second), other.number)]
    results = [one for one in results if one[0] != TRASH_MASK]
    first = e.temporary_mask() if len(results) == 2 else results[0][0] if results else TRASH_MASK
    for mask, (_, lut) in zip((first, results[-1][0] if results else 0), results, strict=False):
        e.emit("MASK_LOGIC3", d=mask, m=m, n=n, y=y, x=lut)
    if len(results) == 2:
        e.move_mask(results[0][0], 2 * first)


@lowers("SHF", "L R HI W U32 S32 U64 S64 CLAMP")
def _funnel(e: Emitter, s: Sass) -> None:
    """`SHF.L.U64.HI d, a, n, c`: of (c:a) << n the high half; without `.HI` the low one; `.W` takes n modulo the width."""
    d, a, n, c = s.operands
    row, distance = e.result(d), e.whole(n)
    wide, wrap = s.has("U64", "S64"), o.WRAP if s.has("W") else 0
    if not wide and s.has("L") and not s.has("HI"):
        return e.emit("SHIFT_LEFT", d=row, a=e.whole(a), b=distance, x=wrap)
    if not wide and s.has("R") and s.has("HI"):
        name = "SHIFT_RIGHT_S" if s.has("S32") else "SHIFT_RIGHT_U"
        return e.emit(name, d=row, a=e.whole(c), b=distance, x=wrap)
    short = n.kind == "i" and 0 <= n.number < 32
    if short or not wide:
        name = "FUNNEL_LEFT" if s.has("L") else "FUNNEL_RIGHT"
        if short and s.has("L") and not s.has("HI"):
            return e.emit("SHIFT_LEFT", d=row, a=e.whole(a), b=distance)
        if short and s.has("R") and s.has("HI"):
            name = "SHIFT_RIGHT_S" if s.has("S64") else "SHIFT_RIGHT_U"
            return e.emit(name, d=row, a=e.whole(c), b=distance)
        return e.emit(name, d=row, a=e.whole(a), b=distance, c=e.whole(c), x=wrap)
    pair, shifted = e.temporary(2), e.temporary(2)
    e.move(pair, e.whole(a))
    e.move(pair + 1, e.whole(c))
    name = (
        "SHIFT_LEFT64" if s.has("L") else "SHIFT_RIGHT64_S" if s.has("S64") else "SHIFT_RIGHT64_U"
    )
    e.emit(name, d=shifted, a=pair, b=distance, x=wrap)
    return e.move(row, shifted + s.has("HI"))


@lowers("FLO", "U32 S32 SH")
def _highest(e: Emitter, s: Sass) -> None:
    masks, d, (a,) = carries(s)
    x = s.has("SH") | (not s.has("U32")) << 1
    row = e.whole(a)
    for mask in masks:
        e.emit("COMPARE_U", d=e.result_mask(mask), a=row, x=RELATIONS["NE"])
    e.emit("HIGHEST_BIT", d=e.result(d), a=row, x=x)


@lowers("POPC")
def _ones(e: Emitter, s: Sass) -> None:
    d, a = s.operands
    e.emit("COUNT_ONES", d=e.result(d), a=e.whole(a))


@lowers("BREV")
def _reverse(e: Emitter, s: Sass) -> None:
    d, a = s.operands
    e.emit("REVERSE_BITS", d=e.result(d), a=e.whole(a))


@lowers("BMSK", "C W")
def _bit_mask(e: Emitter, s: Sass) -> None:
    d, a, b = s.operands
    e.emit("BIT_MASK", d=e.result(d), a=e.whole(a), b=e.whole(b), x=o.WRAP if s.has("W") else 0)


@lowers("SGXT", "U32 S32 W C")
def _extend(e: Emitter, s: Sass) -> None:
    """The low b bits of a, with their sign; `.U32`, with zeros."""
    d, a, b = s.operands
    wrap = o.WRAP if s.has("W") else 0
    if not s.has("U32"):
        return e.emit("SIGN_EXTEND_AT", d=e.result(d), a=e.whole(a), b=e.whole(b), x=wrap)
    mask = e.temporary()
    e.emit("BIT_MASK", d=mask, a=ZERO_ROW, b=e.whole(b), x=wrap)
    return e.emit("LOGIC3", d=e.result(d), a=e.whole(a), b=mask, y=0xC0)
