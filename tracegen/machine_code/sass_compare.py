"""SASS that compares integers, chooses between them or cuts them off, lowered to micro-operations."""

from __future__ import annotations

from tracegen.execution import operations as o
from tracegen.execution.operations import ALWAYS, TRASH_MASK, ZERO_ROW
from tracegen.machine_code.sass_emit import Emitter, UnknownInstruction, carries, lowers
from tracegen.machine_code.sass_integers import (
    BOOLEANS,
    PACKED,
    RELATIONS,
    SIZES,
    add,
    added,
    each_part,
)
from tracegen.machine_code.sass_text import Operand, Sass


@lowers("ISETP", f"{' '.join(RELATIONS)} AND OR XOR EX {SIZES}")
def _compare(e: Emitter, s: Sass) -> None:
    d, second, a, b, p, *low = s.operands
    kind = "COMPARE_U" if s.has("U32", "U64") else "COMPARE_S"
    if s.has("64", "U64", "S64"):
        kind = kind.replace("COMPARE", "COMPARE64")
        rows = e.wide(a), e.wide(b)
    else:
        rows = e.whole(a), e.whole(b)
    relation = RELATIONS[s.one_of(*RELATIONS)]
    relation = 7 if relation == 15 else relation
    combine = BOOLEANS[s.one_of(*BOOLEANS)]
    results = {"d": e.result_mask(d), "e": e.result_mask(second)}
    if not s.has("EX"):
        return e.emit(kind, a=rows[0], b=rows[1], m=e.mask(p), x=relation | combine, **results)
    # Of numbers of several words, `low` is the result for the lower ones: it counts where the higher ones are equal. PT is left out.
    lower, compared = e.mask(low[0]) if low else ALWAYS, e.temporary_mask()
    if relation in (RELATIONS["EQ"], RELATIONS["NE"]):
        how = o.COMBINE_AND if relation == RELATIONS["EQ"] else o.COMBINE_OR
        e.emit(kind, d=compared, a=rows[0], b=rows[1], m=lower, x=relation | how)
    else:
        equal = e.temporary_mask()
        e.emit(kind, d=equal, a=rows[0], b=rows[1], m=lower, x=o.EQUAL)
        strict = relation & ~o.EQUAL
        e.emit(kind, d=compared, a=rows[0], b=rows[1], m=2 * equal, x=strict | o.COMBINE_OR)
    return combined(e, results, compared, e.mask(p), combine)


def combined(
    e: Emitter, results: dict[str, int], compared: int, with_mask: int, combine: int
) -> None:
    """A condition and its opposite, each combined with another mask, written to d and e."""
    table = {o.COMBINE_AND: 0xC0, o.COMBINE_OR: 0xFC, o.COMBINE_XOR: 0x3C}[combine]
    opposite = e.temporary_mask()
    e.emit("MASK_LOGIC3", d=opposite, m=2 * compared + 1, n=with_mask, x=table)
    if results["d"] != TRASH_MASK:
        e.emit("MASK_LOGIC3", d=results["d"], m=2 * compared, n=with_mask, x=table)
    e.move_mask(results["e"], 2 * opposite)


@lowers("IMNMX VIMNMX", f"{SIZES} RELU {' '.join(PACKED)}")
def _extreme(e: Emitter, s: Sass) -> None:
    """`VIMNMX p, q, d, a, b, !PT`: p and q, also behind d, tell whether it was a: of halves p for the low ones."""
    told, d, (a, b, least, *low) = carries(s)
    if any(not one.is_false for one in low):
        raise UnknownInstruction
    if s.has(*PACKED):
        waiting = list(told)

        def step(rows: list[int]) -> int:
            if waiting:
                _tell(e, waiting.pop(0), rows, least)
            return extreme(e, s, (rows[0], rows[1]), least)

        return each_part(e, s, e.result(d), [a, b], step)
    if any(not one.is_true for one in told):
        raise UnknownInstruction
    wide = s.has("64", "U64", "S64")
    rows = (e.wide(a), e.wide(b)) if wide else (e.whole(a), e.whole(b))
    return e.move(e.result(d), extreme(e, s, rows, least), 2 if wide else 1)


def _tell(e: Emitter, told: Operand, rows: list[int], least: Operand) -> None:
    if not (least.is_true or least.is_false):
        raise UnknownInstruction
    relation = RELATIONS["LE" if least.is_true else "GE"]
    if not told.is_true:
        e.emit("COMPARE_S", d=e.result_mask(told), a=rows[0], b=rows[1], x=relation)


@lowers("VIMNMX3", f"U32 S32 RELU {' '.join(PACKED)}")
def _extreme3(e: Emitter, s: Sass) -> None:
    told, d, (a, b, c, least) = carries(s)
    if any(not one.is_true for one in told):
        raise UnknownInstruction

    def step(rows: list[int]) -> int:
        return extreme(e, s, (extreme(e, s, (rows[0], rows[1]), least), rows[2]), least)

    if s.has(*PACKED):
        return each_part(e, s, e.result(d), [a, b, c], step)
    return e.move(e.result(d), step([e.whole(one) for one in (a, b, c)]))


@lowers("VIADDMNMX", f"U32 S32 RELU {' '.join(PACKED)}")
def _add_extreme(e: Emitter, s: Sass) -> None:
    d, a, b, c, least = s.operands

    def step(rows: list[int]) -> int:
        total = added(e, a, b, rows)
        cut = {"a": total, "b": ZERO_ROW, "c": e.constant(PACKED[kind])}
        e.emit("BIT_FIELD_S" if kind[0] == "S" else "BIT_FIELD_U", d=total, **cut)
        return extreme(e, s, (total, rows[2]), least)

    if kind := s.one_of(*PACKED):
        return each_part(e, s, e.result(d), [a, b, c], step)
    total = e.temporary()
    add(e, [], total, [e.signed(a), e.signed(b)], [])
    return e.move(e.result(d), extreme(e, s, (total, e.whole(c)), least))


def extreme(e: Emitter, s: Sass, rows: tuple[int, int], least: Operand) -> int:
    """A row with the minimum of two integers where the predicate is set, else their maximum."""
    kind = ("64" if s.has("64", "U64", "S64") else "") + ("_U" if s.has("U32", "U64") else "_S")
    names = (f"MINIMUM{kind}", f"MAXIMUM{kind}")
    row = e.either(names, least, 2 if "64" in kind else 1, a=rows[0], b=rows[1])
    if s.has("RELU"):
        positive = e.temporary()
        e.emit("MAXIMUM_S", d=positive, a=row, b=ZERO_ROW)
        row = positive
    return row


@lowers("I2I", "U8 S8 U16 S16 U32 S32 SAT")
def _narrow(e: Emitter, s: Sass) -> None:
    """`I2I.U8.S32.SAT`: the nearest number that the narrower type has."""
    d, a = s.operands
    to, source = ([*s.parts, "S32"] if len(s.parts) < 2 or "SAT" in s.parts[:2] else [*s.parts])[:2]
    e.move(e.result(d), saturated(e, e.whole(a), to, source))


@lowers("I2IP", "U8 S8 U16 S16 U32 S32 SAT")
def _narrow_pack(e: Emitter, s: Sass) -> None:
    """`I2IP.S8.S32.SAT d, a, b, c`: c << 16, a's byte << 8 and b's byte."""
    d, a, b, *c = s.operands
    to, source = s.parts[:2]
    narrow = [saturated(e, e.whole(one), to, source) for one in (a, b)]
    packed(e, e.result(d), narrow, int(to[1:]), e.whole(c[0]) if c else ZERO_ROW)


def packed(e: Emitter, d: int, rows: list[int], bits: int, above: int) -> None:
    """d = above << 2 bits | rows[0] << bits | rows[1], each cut to its bits."""
    byte = e.constant(bits)
    low, high = e.temporary(), e.temporary()
    e.emit("BIT_FIELD_U", d=low, a=rows[1], b=ZERO_ROW, c=byte)
    e.emit("BIT_FIELD_U", d=high, a=rows[0], b=ZERO_ROW, c=byte)
    e.emit("SHIFT_LEFT", d=high, a=high, b=byte)
    if bits == 8:
        rest = e.temporary()
        e.emit("SHIFT_LEFT", d=rest, a=above, b=e.constant(16))
        e.emit("LOGIC3", d=d, a=low, b=high, c=rest, y=0xFE)
    else:
        e.emit("LOGIC3", d=d, a=low, b=high, y=0xFC)


def saturated(e: Emitter, row: int, to: str, source: str) -> int:
    """A row with the nearest number that a type of 8 or 16 bits has."""
    bits, signed = int(to[1:]), to[0] == "S"
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    below, found = e.temporary(), e.temporary()
    if source[0] == "U":
        e.emit("MINIMUM_U", d=found, a=row, b=e.constant(most))
    else:
        e.emit("MAXIMUM_S", d=below, a=row, b=e.constant(least))
        e.emit("MINIMUM_S", d=found, a=below, b=e.constant(most))
    return found
