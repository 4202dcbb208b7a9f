"""SASS of floating-point numbers and conversions, lowered to micro-operations."""

from __future__ import annotations

from tracegen.execution import operations as o
from tracegen.execution.operations import ZERO_ROW
from tracegen.machine_code import sass_fp8
from tracegen.machine_code.sass_compare import packed, saturated
from tracegen.machine_code.sass_emit import (
    FIELDS,
    FLOAT_SIGNS,
    Emitter,
    UnknownInstruction,
    double_words,
    float_bits,
    float_modifiers,
    lowers,
)
from tracegen.machine_code.sass_integers import BOOLEANS, RELATIONS
from tracegen.machine_code.sass_text import Operand, Sass

_ROUNDINGS = "RN RM RP RZ"
COMPARED = f"{' '.join(RELATIONS)} AND OR XOR FTZ"


def _arithmetic(e: Emitter, s: Sass, name: str, double: bool) -> None:
    d, *sources = s.operands
    x, fields = float_modifiers(s), {}
    for field, source in zip(FIELDS, sources, strict=False):
        row, sign = e.double(source, field) if double else e.number(source, field)
        fields[field] = row
        x |= sign
    e.emit(name, d=e.result(d), x=x, **fields)


_SCALES = {"D2": 0.5, "D4": 0.25, "D8": 0.125, "M2": 2.0, "M4": 4.0, "M8": 8.0}
"""Of products: `FMUL.D2` is half of one."""


@lowers("FADD FADD32I FMUL FMUL32I FFMA FFMA32I", f"FTZ SAT {_ROUNDINGS} {' '.join(_SCALES)}")
def _single(e: Emitter, s: Sass) -> None:
    if scale := s.one_of(*_SCALES):
        return _scaled_product(e, s, _SCALES[scale])
    return _arithmetic(
        e, s, {"A": "ADD_F32", "M": "MULTIPLY_F32", "F": "FUSED_F32"}[s.base[1]], False
    )


def _scaled_product(e: Emitter, s: Sass, scale: float) -> None:
    if not s.base.startswith("FMUL"):
        raise UnknownInstruction
    d, a, b = s.operands
    (x, first), (y, second), scaled = e.number(a, "a"), e.number(b, "a"), e.temporary()
    e.emit("MULTIPLY_F32", d=scaled, a=y, b=e.constant(float_bits(scale)), x=second)
    e.emit("MULTIPLY_F32", d=e.result(d), a=x, b=scaled, x=first | float_modifiers(s))


@lowers("DADD DMUL DFMA", _ROUNDINGS)
def _double(e: Emitter, s: Sass) -> None:
    _arithmetic(e, s, {"A": "ADD_F64", "M": "MULTIPLY_F64", "F": "FUSED_F64"}[s.base[1]], True)


_PAIR_HALVES = {
    "": ((0, 0), (1, 0)),
    "F32": ((0, 0), (0, 0)),
    "H0_H0": ((0, 0), (0, 0)),
    "F32x2.HI_LO": ((0, 0), (1, 0)),
    "F32x2.LO_HI": ((1, 0), (0, 0)),
    "F32x2.HI_LO.NP": ((0, 0), (1, 1)),
    "F32x2.LO_HI.NP": ((1, 0), (0, 1)),
}
"""Suffix of a source -> of the first and the second result, which of its registers is meant, and whether it is negated."""


@lowers("FADD2 FMUL2 FFMA2", f"FTZ {_ROUNDINGS} F32")
def _pairs(e: Emitter, s: Sass) -> None:
    """Two floats in two registers."""
    d, *sources = s.operands
    name = {"A": "ADD_F32", "M": "MULTIPLY_F32", "F": "FUSED_F32"}[s.base[1]]
    row = e.temporary(2)
    for k in range(2):
        x, fields = float_modifiers(s), {}
        for field, source in zip(FIELDS, sources, strict=False):
            if source.kind == "f":  # for both
                fields[field] = e.number(source, field)[0]
                continue
            if ".".join(source.suffix) not in _PAIR_HALVES:
                raise UnknownInstruction
            half, negated = _PAIR_HALVES[".".join(source.suffix)][k]
            fields[field] = e.plain(source, 2) + half
            x |= e.sign(source, field) ^ negated * FLOAT_SIGNS[field][0]
        e.emit(name, d=row + k, x=x, **fields)
    e.move(e.result(d), row, 2)


@lowers("FSEL", "FTZ")
def _select(e: Emitter, s: Sass) -> None:
    d, a, b, p = s.operands
    (x, first), (y, second) = e.number(a, "a"), e.number(b, "b")
    e.emit("SELECT", d=e.result(d), a=x, b=y, m=e.mask(p), x=first | second)


@lowers("FMNMX FMNMX3", "FTZ NAN")
def _extreme(e: Emitter, s: Sass) -> None:
    d, first, *others, least = s.operands
    row, sign = e.number(first, "a")
    for _k, other in enumerate(others):
        row = _extreme_of(e, s, row, sign, other, least)
        sign = 0
    e.move(e.result(d), row)


def _extreme_of(e: Emitter, s: Sass, row: int, sign: int, other: Operand, least: Operand) -> int:
    second, other_sign = e.number(other, "b")
    x = sign | other_sign | (o.FLUSH if s.has("FTZ") else 0)
    result = e.either(("MINIMUM_F32", "MAXIMUM_F32"), least, a=row, b=second, x=x)
    if s.has("NAN"):
        mask, kept = e.temporary_mask(), e.temporary()
        e.emit("COMPARE_F32", d=mask, a=row, b=second, x=o.UNORDERED)
        e.emit("SELECT", d=kept, a=e.constant(0x7FFFFFFF), b=result, m=2 * mask)
        result = kept
    return result


@lowers("DMNMX")
def _extreme_double(e: Emitter, s: Sass) -> None:
    d, a, b, least = s.operands
    (x, first), (y, second) = e.double(a, "a"), e.double(b, "b")
    names = ("MINIMUM_F64", "MAXIMUM_F64")
    e.move(e.result(d), e.either(names, least, 2, a=x, b=y, x=first | second), 2)


def _compare_fields(e: Emitter, s: Sass, double: bool, a: Operand, b: Operand) -> dict[str, int]:
    of = e.double if double else e.number
    (x, first), (y, second) = of(a, "a"), of(b, "b")
    flags = first | second | (o.FLUSH if s.has("FTZ") else 0)
    relation = RELATIONS[s.one_of(*RELATIONS)]
    return {"a": x, "b": y, "x": relation | flags << 8 | BOOLEANS[s.one_of(*BOOLEANS) or "AND"]}


@lowers("FSETP DSETP", f"{COMPARED} MIN MAX")
def _compare(e: Emitter, s: Sass) -> None:
    d, second, a, b, p = s.operands
    if s.has("MIN", "MAX"):
        return _which_extreme(e, s)
    fields = _compare_fields(e, s, s.base[0] == "D", a, b)
    name = "COMPARE_F64" if s.base[0] == "D" else "COMPARE_F32"
    return e.emit(name, d=e.result_mask(d), e=e.result_mask(second), m=e.mask(p), **fields)


def _which_extreme(e: Emitter, s: Sass) -> None:
    """`DSETP.MIN.AND p, q, a, b, PT`: p, whether a is the minimum; q, whether neither is a number."""
    d, second, a, b, p = s.operands
    if s.base != "DSETP" or not p.is_true:
        raise UnknownInstruction
    x, y = (_signed_double(e, one) for one in (a, b))
    least, none = e.temporary(2), e.temporary_mask()
    e.emit("MINIMUM_F64" if s.has("MIN") else "MAXIMUM_F64", d=least, a=x, b=y)
    e.emit("COMPARE_F64", d=none, a=x, b=x, x=o.UNORDERED)
    e.emit("COMPARE64_U", d=e.result_mask(d), a=least, b=x, x=o.EQUAL)
    e.emit("COMPARE_F64", d=e.result_mask(second), a=y, b=y, m=2 * none, x=o.UNORDERED)


def _signed_double(e: Emitter, operand: Operand) -> int:
    """Two rows with a double, its sign applied."""
    row, sign = e.double(operand, "a")
    if not sign:
        return row
    signed = e.temporary(2)
    e.emit("MOVE", d=signed, a=row)
    e.emit("SELECT", d=signed + 1, a=row + 1, x=sign)
    return signed


@lowers("FSET DSET", f"{COMPARED} BF")
def _compare_to_register(e: Emitter, s: Sass) -> None:
    """1.0 where the condition holds, without `.BF` all ones; else 0."""
    d, a, b, p = s.operands
    mask = e.temporary_mask()
    name = "COMPARE_F64" if s.base[0] == "D" else "COMPARE_F32"
    e.emit(name, d=mask, m=e.mask(p), **_compare_fields(e, s, s.base[0] == "D", a, b))
    ones = e.constant(float_bits(1.0) if s.has("BF") else -1)
    e.emit("SELECT", d=e.result(d), a=ones, m=2 * mask)


@lowers("FCHK", "DIVIDE")
def _check(e: Emitter, s: Sass) -> None:
    d, a, b = s.operands
    e.emit("DIVISION_CHECK", d=e.result_mask(d), a=e.number(a, "a")[0], b=e.number(b, "b")[0])


_SPECIAL = {
    "RCP": o.RECIPROCAL, "SQRT": o.ROOT, "RSQ": o.RECIPROCAL_ROOT, "EX2": o.EXP2, "LG2": o.LOG2, "SIN": o.SINE,
    "COS": o.COSINE, "TANH": o.TANH, "RCP64H": o.RECIPROCAL, "RSQ64H": o.RECIPROCAL_ROOT,
}  # fmt: skip


@lowers("MUFU", f"{' '.join(_SPECIAL)} FTZ F16 BF16")
def _special(e: Emitter, s: Sass) -> None:
    """The arguments of SIN and COS are turns: `FMUL.RZ R0, R0, 0.15915494` comes before them."""
    d, a = s.operands
    which = s.one_of(*_SPECIAL)
    row, sign = e.number(a, "a")
    if which.endswith("64H"):
        if a.kind == "f":
            row = e.constant(double_words(a.value)[1])
        return e.emit("SPECIAL_HIGH", d=e.result(d), a=row, y=_SPECIAL[which], x=sign)
    x = sign | (o.TURNS if which in ("SIN", "COS") else 0)
    kind = _KINDS.get(s.one_of("F16", "BF16"))
    if kind is None:
        return e.emit("SPECIAL", d=e.result(d), a=row, y=_SPECIAL[which], x=x)
    wide, found = e.temporary(2), e.temporary(2)
    e.emit("CONVERT", d=wide, a=row, x=kind | o.F32 << 4 | _half_of(a) << o.SOURCE_PART)
    e.emit("SPECIAL", d=found, a=wide, y=_SPECIAL[which], x=x)
    e.emit("CONVERT", d=wide, a=found, x=o.F32 | kind << 4)
    return e.emit("BIT_FIELD_U", d=e.result(d), a=wide, b=ZERO_ROW, c=e.constant(16))


# --- conversions ------------------------------------------------------------------------------------
_KINDS = {
    "U8": o.U8, "S8": o.S8, "U16": o.U16, "S16": o.S16, "U32": o.U32, "S32": o.S32, "U64": o.U64, "S64": o.S64,
    "F16": o.F16, "BF16": o.BFLOAT16, "F32": o.F32, "F64": o.F64,
}  # fmt: skip
_INTEGERS = ("U8", "S8", "U16", "S16", "U32", "S32", "U64", "S64")
_FLOATS = ("F16", "BF16", "F32", "F64")
_WAYS = {"RN": 0, "ROUND": 0, "RM": 1, "FLOOR": 1, "RP": 2, "CEIL": 2, "RZ": 3, "TRUNC": 3}
_CONVERSION = f"{' '.join(_KINDS)} {' '.join(_WAYS)} FTZ NTZ SAT"


def _convert(e: Emitter, s: Sass, source: str, to: str, flags: int = 0) -> None:
    d, a = s.operands
    x = _KINDS[source] | _KINDS[to] << 4 | _WAYS[s.one_of(*_WAYS) or "RN"] << 8 | flags
    x |= o.FLUSH_SOURCE if s.has("FTZ") else 0
    if source in _FLOATS:
        x |= (o.NEGATE_SOURCE if a.negative else 0) | (o.ABSOLUTE_SOURCE if a.absolute else 0)
    row = _source_row(e, a, source)
    x |= _part_of(a, source) << o.SOURCE_PART
    if to in ("U8", "S8", "U16", "S16", "F16", "BF16"):
        found = e.temporary(2)
        e.emit("CONVERT", d=found, a=row, x=x)
        name, bits = (
            ("BIT_FIELD_S" if to[0] == "S" else "BIT_FIELD_U"),
            e.constant(8 if "8" in to else 16),
        )
        return e.emit(name, d=e.result(d), a=found, b=ZERO_ROW, c=bits)
    is_wide = to in ("U64", "S64")
    if source not in _FLOATS or to in _FLOATS or not (is_wide or source == "F64"):
        return e.emit("CONVERT", d=e.result(d), a=row, x=x)
    # Of what is no number these give the highest bit, the others 0 (PTX: cvt).
    if source != "F64":
        wide = e.temporary(2)
        e.emit("CONVERT", d=wide, a=row, x=x & ~0xFF0 | o.F64 << 4)
        row, x = wide, x & 0xFF0 | o.F64
    found, nothing, words = e.temporary(2), e.temporary_mask(), 2 if is_wide else 1
    e.emit("COMPARE_F64", d=nothing, a=row, b=row, x=o.UNORDERED)
    e.emit("CONVERT", d=found, a=row, x=x)
    highest = e.constant(*[0, 1 << 31][2 - words :])
    for k in range(words):
        e.emit("SELECT", d=found + k, a=highest + k, b=found + k, m=2 * nothing)
    return e.move(e.result(d), found, words)


def _source_row(e: Emitter, a: Operand, source: str) -> int:
    if source == "F64":
        return e.double(a, "a")[0]
    if source in _FLOATS:
        return e.number(a, "a")[0]
    if source in ("U64", "S64"):
        return e.wide(a)
    return e.plain(a) if a.suffix else e.whole(a)


def _part_of(a: Operand, source: str) -> int:
    """Which byte or half of its register a source is."""
    name = a.suffix[0] if a.suffix else ""
    if not name or name in ("64", "U32"):
        return 0
    if name[0] == "B" and source in ("U8", "S8"):
        return int(name[1:])
    if name[0] == "H" and source in ("U16", "S16", "F16", "BF16"):
        return int(name[1])
    if name[0] == "B" and source in ("U16", "S16") and name[1:] in "02":
        return int(name[1:]) // 2
    raise UnknownInstruction


def _half_of(a: Operand) -> int:
    return int(a.suffix[0][1]) if a.suffix else 0


@lowers("I2F I2FP", _CONVERSION)
def _to_float(e: Emitter, s: Sass) -> None:
    _convert(e, s, s.one_of(*_INTEGERS) or "S32", s.one_of(*_FLOATS) or "F32")


@lowers("F2I", _CONVERSION)
def _to_integer(e: Emitter, s: Sass) -> None:
    _convert(e, s, s.one_of(*_FLOATS) or "F32", s.one_of(*_INTEGERS) or "S32")


@lowers("F2F", _CONVERSION)
def _between_floats(e: Emitter, s: Sass) -> None:
    kinds = [part for part in s.parts if part in _FLOATS]
    to, source = (*kinds, "F32", "F32")[:2] if len(kinds) != 1 else (kinds[0], "F32")
    flags = o.SATURATE_TO if s.has("SAT") else 0
    _convert(e, s, source, to, flags | (o.WHOLE_NUMBER if to == source and s.has(*_WAYS) else 0))


@lowers("FRND", _CONVERSION)
def _whole_number(e: Emitter, s: Sass) -> None:
    kind = s.one_of(*_FLOATS) or "F32"
    _convert(e, s, kind, kind, o.WHOLE_NUMBER)


@lowers(
    "F2FP",
    "F16 BF16 F32 PACK_AB RELU RN RZ FTZ TF32 PACK_B E4M3 E5M2 SATFINITE PACK_AB_MERGE_C UNPACK_B UNPACK_B_MERGE_C",
)
def _pack(e: Emitter, s: Sass) -> None:
    """The halves of a, above, and b. `.TF32`: b rounded to 10 bits of mantissa, ties away from zero."""
    if s.has(*sass_fp8.FORMATS):
        return sass_fp8.convert(e, s)
    d, a, b = s.operands
    if s.has("TF32"):
        rounded = e.temporary()
        e.emit("ADD3", d=rounded, a=e.number(b, "a")[0], b=e.constant(0x1000))
        return e.emit("LOGIC3", d=e.result(d), a=rounded, b=e.constant(0x1FFF), y=0x30)
    (x, first), (y, second) = e.number(a, "a"), e.number(b, "b")
    signs = first | second
    if s.has("RELU"):
        x, y = (_not_negative(e, row, sign) for row, sign in ((x, first), (y, second)))
        signs = 0
    flags = signs | (o.BF16 if s.has("BF16") else 0) | (o.ROUND_ZERO if s.has("RZ") else 0)
    return e.emit("PACK_F16", d=e.result(d), a=x, b=y, x=flags)


def _not_negative(e: Emitter, row: int, sign: int) -> int:
    """A row with the larger one of a float and 0, or with no number where it is none."""
    positive, none = e.temporary(), e.temporary_mask()
    e.emit("MAXIMUM_F32", d=positive, a=row, b=ZERO_ROW, x=o.NEGATE_A if sign else 0)
    e.emit("COMPARE_F32", d=none, a=row, b=row, x=o.UNORDERED)
    e.emit("SELECT", d=positive, a=row, b=positive, m=2 * none)
    return positive


@lowers("F2IP", "U8 S8 F32 NTZ TRUNC FTZ")
def _pack_integers(e: Emitter, s: Sass) -> None:
    """c << 16, a's byte << 8 and b's byte."""
    d, a, b, c = s.operands
    to, rows = s.one_of("U8", "S8"), []
    for source in (a, b):
        row, sign = e.number(source, "a")
        whole = e.temporary(2)
        flags = (o.NEGATE_SOURCE if sign & o.NEGATE_A else 0) | (
            o.ABSOLUTE_SOURCE if sign & o.ABSOLUTE_A else 0
        )
        e.emit(
            "CONVERT",
            d=whole,
            a=row,
            x=o.F32 | o.S32 << 4 | (3 if s.has("TRUNC") else 0) << 8 | flags,
        )
        rows.append(saturated(e, whole, to, "S32"))
    packed(e, e.result(d), rows, 8, e.whole(c))
