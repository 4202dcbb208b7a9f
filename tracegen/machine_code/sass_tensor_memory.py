"""SASS that uses tensor memory (NVIDIA's tcgen05, on B200 and B300), lowered to micro-operations.

Products are computed at once, so what commits them to a barrier in memory (`UTCBAR`) only comes to it. Columns are given out as
`tcgen05.alloc` does, in units of 32: which are taken is kept in a word that CUDA reserves of local memory.
"""

from __future__ import annotations

import re

from tracegen.execution import operations as o
from tracegen.execution.operations import ALWAYS, TRASH_ROW, ZERO_ROW
from tracegen.machine_code.sass_bulk import first_lane
from tracegen.machine_code.sass_emit import Emitter, UnknownInstruction, lowers
from tracegen.machine_code.sass_integers import RELATIONS
from tracegen.machine_code.sass_memory import come
from tracegen.machine_code.sass_text import NO_REGISTER, Operand, Sass

_TAKEN, _UNITS = 0x3FC, 16
"""The word's address, and how many units a core has."""
_PLACE = re.compile(r"(tmem|gdesc|idesc)\[UR(\d+|Z)(?:\+(-?0x[0-9a-f]+))?\]")
_SHAPES = {
    "": (0, 1), "16dp64bit": (1, 1), "16dp128bit": (2, 2), "16dp256bit": (3, 4), "16dp32bit_t0_t15": (4, 1),
    "16dp32bit_t16_t31": (4, 1),
}  # fmt: skip
"""Name -> its number in TENSOR_LOAD, and registers a repetition."""
_REPEATS = {f"x{1 << k}": 1 << k for k in range(1, 8)}
_MOVES = f"{' '.join(_SHAPES)} {' '.join(_REPEATS)}"
_KINDS = {"UTCHMMA": 0, "UTCQMMA": 1, "UTCIMMA": 2, "UTCOMMA": 3}


@lowers("LDTM", f"{_MOVES} PACK16BIT")
def _load(e: Emitter, s: Sass) -> None:
    d, place = s.operands
    a, y = _row(e, place, "tmem")
    e.emit("TENSOR_LOAD", d=e.result(d), a=a, y=y, x=_move(e, s, "PACK16BIT"))


@lowers("STTM", f"{_MOVES} EXPAND16BIT")
def _store(e: Emitter, s: Sass) -> None:
    place, source = s.operands
    x = _move(e, s, "EXPAND16BIT")
    a, y = _row(e, place, "tmem")
    if source.kind != "R" or source.negative:
        raise UnknownInstruction
    c = e.register("R", source.number, max(x >> o.TENSOR_COUNT, 3))
    e.emit("TENSOR_STORE", a=a, c=c, y=y, x=x)


def _move(e: Emitter, s: Sass, packing: str) -> int:
    """What is moved; by half of the lanes where the instruction says so."""
    if s.has("16dp32bit_t0_t15", "16dp32bit_t16_t31"):
        half, relation = e.temporary_mask(), "LT" if s.has("16dp32bit_t0_t15") else "GE"
        lane, middle = e.assembler.special("lane"), e.constant(16)
        e.emit("COMPARE_U", d=half, a=lane, b=middle, x=RELATIONS[relation])
        e.guard = e.both(2 * half)
    shape, registers = _SHAPES[s.one_of(*_SHAPES)]
    count = _REPEATS.get(s.one_of(*_REPEATS), 1) * registers
    return shape | count << o.TENSOR_COUNT | (o.TENSOR_PACKED if s.has(packing) else 0)


@lowers(" ".join(_KINDS), "4X 2CTA")
def _multiply(e: Emitter, s: Sass) -> None:
    """`UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11], UP0`: the factors, of which the first may lie in tensor memory,
    the sums, and whether these are added to. The fourth operand is for products that leave out lanes. Where blocks of the factors have scales, a
    sixth is the first of two registers that say where these are."""
    first, second, sums, _, kind, *scales, adds = s.operands
    in_tensor_memory = first.text.startswith("tmem")
    a, offset = _row(e, first, "tmem" if in_tensor_memory else "gdesc")
    rows = [_row(e, second, "gdesc"), _row(e, sums, "tmem"), _row(e, kind, "idesc")]
    if offset or any(offset for _, offset in rows):
        raise UnknownInstruction
    is_added = e.temporary(3)
    e.emit("SELECT", d=is_added, a=e.constant(1), b=ZERO_ROW, m=e.mask(adds))
    b, c, descriptor = (row for row, _ in rows)
    x = _KINDS[s.base] | (o.IN_TENSOR_MEMORY if in_tensor_memory else 0)
    x |= o.PAIRED if s.has("2CTA") else 0
    if scales:
        at, offset = _row(e, scales[0], "tmem", 2)
        if len(scales) > 1 or offset:
            raise UnknownInstruction
        e.move(is_added + 1, at)
        e.move(is_added + 2, at + 1)
        x |= (4 if s.has("4X") else 2 if s.base == "UTCOMMA" else 1) << o.SCALES
    e.emit("TENSOR_MULTIPLY", a=a, b=b, c=c, d=is_added, e=descriptor, x=x)


@lowers("UTCCP", "T S 4x32dp128bit 2CTA")
def _copy(e: Emitter, s: Sass) -> None:
    """`UTCCP.T.S.4x32dp128bit tmem[UR4], gdesc[UR6]`: scales of 128 rows. Other shapes are not known."""
    to, source = s.operands
    a, offset = _row(e, to, "tmem")
    if offset or not s.has("4x32dp128bit"):
        raise UnknownInstruction
    x = o.PAIRED if s.has("2CTA") else 0
    e.emit("TENSOR_COPY", a=a, b=_row(e, source, "gdesc")[0], x=x)


@lowers("UTCBAR", "2CTA MULTICAST")
def _commit(e: Emitter, s: Sass) -> None:
    """`UTCBAR.MULTICAST [UR4], URZ, UR6`: to the barriers of the groups of the cluster whose bits UR6 has."""
    address, other, *groups = s.operands
    if len(address.parts) != 1 or other.number != NO_REGISTER or len(groups) != s.has("MULTICAST"):
        raise UnknownInstruction
    e.guard = first_lane(e)
    part, row = address.parts[0], e.temporary()
    base = e.register(part.kind, part.number)
    e.emit("ADD3", d=row, a=base, b=e.constant(address.offset))
    barrier = {"a": row, "x": o.LOCAL | o.ADDRESS_32 | o.ANY_GROUP | 8 << o.BYTES}
    if groups:
        named = e.temporary()
        e.emit("LOGIC3", d=named, a=e.plain(groups[0]), b=e.constant(0xFFFF), y=0xC0)
        barrier["e"] = named
    come(e, barrier, o.ATOMIC_ARRIVE_HOPPER, (e.constant(1), ZERO_ROW), TRASH_ROW)
    if e.yields:  # who only multiplies lets the next tile be copied first
        e.emit("REST", guard=ALWAYS, x=1)


@lowers("UTCATOMSWS", "FIND_AND_SET ALIGN AND 2CTA")
def _columns(e: Emitter, s: Sass) -> None:
    """`FIND_AND_SET.ALIGN UP0, UR4, UR7`: the first UR7 free units, a power of two, whose number that is a multiple of; `AND URZ, UR4`: units whose bits are not
    set become free. With `.2CTA` units that are free in both groups of a pair, which are taken in both."""
    word = {"a": e.constant(_TAKEN), "x": o.LOCAL | o.ADDRESS_32 | 4 << o.BYTES}
    taken, new = e.temporary(), e.temporary()
    e.emit("LOAD", d=taken, **word)
    there = word | {"x": word["x"] | o.ANY_GROUP}
    if s.has("2CTA"):
        there["a"], partner = e.temporary(), e.temporary()
        e.emit("LOGIC3", d=partner, a=e.assembler.special("rank"), b=e.constant(1), y=0x3C)
        e.emit("SHIFT_LEFT", d=there["a"], a=partner, b=e.constant(o.GROUP_BITS))
        e.emit("ADD3", d=there["a"], a=there["a"], b=e.constant(_TAKEN))
        e.emit("LOAD", d=partner, **there)
        e.emit("LOGIC3", d=taken, a=taken, b=partner, y=0xFC)
    if s.has("AND"):
        e.emit("LOGIC3", d=new, a=taken, b=e.plain(s.operands[-1]), y=0xC0)
        return e.emit("STORE", guard=first_lane(e), c=new, **word)
    p, d, a = s.operands
    n, bits, less, found = e.plain(a), e.temporary(), e.temporary(), e.temporary()
    here, misfits, free = e.temporary(), e.temporary(), e.temporary_mask()
    e.emit("BIT_MASK", d=bits, a=ZERO_ROW, b=n)
    e.emit("ADD3", d=less, a=n, b=e.constant(-1))
    e.move(found, e.constant(-1))
    for k in reversed(range(_UNITS)):
        e.emit("SHIFT_RIGHT_U", d=here, a=taken, b=e.constant(k))
        e.emit("LOGIC3", d=misfits, a=less, b=e.constant(k), y=0xC0)
        e.emit("LOGIC3", d=here, a=here, b=bits, c=misfits, y=0xEA)  # (here & bits) | misfits
        e.emit("COMPARE_U", d=free, a=here, b=ZERO_ROW, x=RELATIONS["EQ"])
        e.emit("SELECT", d=found, a=e.constant(k), b=found, m=2 * free)
    e.emit("COMPARE_S", d=free, a=found, b=ZERO_ROW, x=RELATIONS["GE"])
    e.emit("SHIFT_LEFT", d=bits, a=bits, b=found)
    e.emit("LOGIC3", d=new, a=taken, b=bits, y=0xFC)
    e.move_mask(e.result_mask(p), 2 * free)
    e.move(e.result(d), found)
    e.guard = e.both(2 * free)
    chosen = first_lane(e)
    if s.has("2CTA"):
        e.emit("STORE", guard=chosen, c=new, **there)
    return e.emit("STORE", guard=chosen, c=new, **word)


@lowers("UVIRTCOUNT", "DEALLOC SMPOOL")
def _nothing(e: Emitter, s: Sass) -> None:
    """Gives up the right to further columns."""


def _row(e: Emitter, operand: Operand, kind: str, words: int = 1) -> tuple[int, int]:
    """The first row of what is in brackets, and the offset."""
    found = _PLACE.fullmatch(operand.text)
    if found is None or found[1] != kind:
        raise UnknownInstruction
    words = 2 if kind == "gdesc" else words
    number = NO_REGISTER if found[2] == "Z" else int(found[2])
    return e.register("UR", number, words), int(found[3] or "0", 16)
