"""SASS that starts copies of tiles between global and local memory (NVIDIA's TMA, from Hopper on), lowered to micro-operations.

The instructions take uniform registers: `UTMALDG.2D [UR4], [UR8]` brings the tile that the tensor map at UR8 describes; UR4 has its address
in local memory, UR5 that of the barrier to which its bytes come, UR6 and UR7 its coordinates. Of stores and prefetches the
coordinates are one or two registers before. `UBLKCP.S.G [UR4], [UR8], UR6` brings 16 UR6 bytes, of which the low half counts.
"""

from __future__ import annotations

from tracegen.execution import operations as o
from tracegen.execution.operations import ALWAYS, TRASH_ROW, ZERO_ROW
from tracegen.machine_code.sass_emit import Emitter, UnknownInstruction, lowers
from tracegen.machine_code.sass_integers import RELATIONS
from tracegen.machine_code.sass_memory import ATOMICS, COPIES, come
from tracegen.machine_code.sass_text import Operand, Sass

LOADS = ("UTMALDG", "UBLKCP")
_AXES = "1D 2D 3D 4D 5D"
_REDUCTIONS = ("ADD", "MIN", "MAX", "AND", "OR", "XOR", "INC", "DEC")
_BYTES = {"U32": 4, "S32": 4, "F32": 4, "U64": 8, "S64": 8, "64": 8, "F64": 8, "F16": 2, "BF16": 2}
_EVERY_SECOND = 0x5555
_HEAD = 16 << o.BYTES | o.BULK


@lowers("UTMALDG", f"{_AXES} MULTICAST 2CTA")
def _load_tile(e: Emitter, s: Sass) -> None:
    """With `.2CTA` the bytes that come to a group of a pair may be awaited by either: by the one whose barrier is named, or, of several
    pairs, the one in the same place."""
    place, source, *more = s.operands
    groups = _groups(e, more[0]) if s.has("MULTICAST") else None
    b = _first(e, place, 7) + 2
    _load(e, place, _first(e, source, 2), _axes(s), b, groups, s.has("2CTA"))


@lowers("UBLKCP", "S G MULTICAST")
def _copy(e: Emitter, s: Sass) -> None:
    to, source, count, *_ = s.operands
    n_bytes = _bytes(e, count)
    if s.parts[:2] == ("S", "G"):
        groups = _groups(e, count) if s.has("MULTICAST") else None
        return _load(e, to, _first(e, source, 2), 0, n_bytes, groups)
    if s.parts[:2] == ("S", "S"):
        own = e.temporary(2)
        e.move(own, _first(e, source, 1))
        e.move(own + 1, ZERO_ROW)
        return _load(e, to, own, o.FROM_LOCAL, n_bytes, None)
    if s.parts[:2] != ("G", "S"):
        raise UnknownInstruction
    fields = {"a": _first(e, to, 2), "b": n_bytes, "c": _first(e, source, 1)}
    return e.emit("STORE", guard=first_lane(e), x=_HEAD, y=0, **fields)


@lowers("UTMASTG", _AXES)
def _store_tile(e: Emitter, s: Sass) -> None:
    to, source = s.operands[:2][::-1]
    place = _first(e, source, 6)
    e.emit(
        "STORE", guard=first_lane(e), a=_first(e, to, 2), b=place + 1, c=place, x=_HEAD, y=_axes(s)
    )


@lowers("UTMAREDG", f"{_AXES} {' '.join(_REDUCTIONS)}")
def _reduce_tile(e: Emitter, s: Sass) -> None:
    """The tensor map has the type of the elements."""
    place, x = _first(e, s.operands[0], 6), _operation(s) | _HEAD
    to = _first(e, s.operands[1], 2)
    e.emit("ATOMIC", guard=first_lane(e), a=to, b=place + 1, c=place, x=x, y=_axes(s))


@lowers("UBLKRED", f"G S {' '.join(_REDUCTIONS)} {' '.join(_BYTES)} RN FTZ NOFTZ")
def _reduce(e: Emitter, s: Sass) -> None:
    to, source, count, *_ = s.operands
    kind = s.one_of(*_BYTES) or "U32"
    x = _operation(s) | _BYTES[kind] << o.BYTES | o.BULK
    if "F" in kind:
        x |= o.FLOATING | (o.PACKED if "16" in kind else 0) | (o.BF16 if kind == "BF16" else 0)
    if kind in ("S32", "S64") and s.has("MIN", "MAX"):
        x += (o.ATOMIC_MIN_S - o.ATOMIC_MIN_U) << o.ATOMIC_OPERATION
    fields = {"a": _first(e, to, 2), "b": _bytes(e, count), "c": _first(e, source, 1)}
    e.emit("ATOMIC", guard=first_lane(e), x=x, y=0, **fields)


@lowers("UTMAPF", f"{_AXES} L2")
def _prefetch_tile(e: Emitter, s: Sass) -> None:
    place, source, *_ = s.operands
    fields = {"a": _first(e, source, 2), "b": _first(e, place, 5)}
    e.emit("LOAD", guard=first_lane(e), x=_HEAD | o.BYPASS_L1, y=_axes(s) | o.PREFETCH, **fields)


@lowers("UBLKPF", "L2")
def _prefetch(e: Emitter, s: Sass) -> None:
    source, count, *_ = s.operands
    fields = {"a": _first(e, source, 2), "b": _bytes(e, count)}
    e.emit("LOAD", guard=first_lane(e), x=_HEAD | o.BYPASS_L1, y=o.PREFETCH, **fields)


def _load(
    e: Emitter, to: Operand, source: int, how: int, b: int, groups: int | None = None, paired: bool = False
) -> None:  # fmt: skip
    """A copy to local memory, whose bytes come to a barrier there, or to those of several groups.

    how : axes of the tile, or FROM_LOCAL;  groups : the row with those of the cluster, a bit each
    paired : whether one group of each pair awaits the bytes of both
    """
    place, came, less, pair = _first(e, to, 2), e.temporary(), e.temporary(), e.temporary(2)
    e.guard = first_lane(e)
    e.move(pair, place + 1)
    e.move(pair + 1, ZERO_ROW if groups is None else groups)
    fields = {"a": source, "b": b, "c": place, "e": pair, "x": _HEAD | o.BYPASS_L1}
    e.emit("LOAD", d=came, y=how, slot=COPIES, **fields)
    e.emit("ADD3", d=less, a=came, x=o.NEGATE_A)
    x = o.LOCAL | o.ADDRESS_32 | o.ANY_GROUP | 8 << o.BYTES
    barrier = {"a": place + 1, "e": pair + 1, "x": x}
    if not paired or groups is None:
        return come(e, barrier, o.ATOMIC_ARRIVE_HOPPER, (ZERO_ROW, less), TRASH_ROW)
    awaits, part, some = e.temporary(), e.temporary(), e.temporary_mask()
    e.emit("BIT_FIELD_U", d=awaits, a=place + 1, b=e.constant(o.GROUP_BITS), c=e.constant(1))
    for which in range(2):  # of each pair
        e.emit("SHIFT_RIGHT_U", d=part, a=groups, b=e.constant(which))
        e.emit("LOGIC3", d=part, a=part, b=e.constant(_EVERY_SECOND), y=0xC0)
        e.emit("SHIFT_LEFT", d=part, a=part, b=awaits)
        e.emit("COMPARE_U", d=some, a=part, b=ZERO_ROW, x=RELATIONS["NE"])
        guard, e.guard = e.guard, e.both(2 * some)
        come(e, barrier | {"e": part}, o.ATOMIC_ARRIVE_HOPPER, (ZERO_ROW, less), TRASH_ROW)
        e.guard = guard
    return None


def _groups(e: Emitter, operand: Operand) -> int:
    """The groups of a `.MULTICAST`, a bit each, which are the upper half of an operand."""
    made = e.temporary()
    e.emit("SHIFT_RIGHT_U", d=made, a=e.plain(operand), b=e.constant(16))
    return made


def first_lane(e: Emitter) -> int:
    """The first of the lanes, which starts the copy."""
    bits, first, mask = e.temporary(), e.temporary(), e.temporary_mask()
    e.emit("MASK_TO_ROWS", d=bits, m=ALWAYS, x=3)
    e.emit("LOWEST_BIT", d=first, a=bits)
    e.emit("COMPARE_U", d=mask, a=first, b=e.assembler.special("lane"), x=RELATIONS["EQ"])
    return e.both(2 * mask)


def _first(e: Emitter, operand: Operand, words: int) -> int:
    """The first of the uniform registers that an operand in brackets names."""
    if operand.kind != "[]" or len(operand.parts) != 1 or operand.offset:
        raise UnknownInstruction
    return e.register(operand.parts[0].kind, operand.parts[0].number, words)


def _axes(s: Sass) -> int:
    return int(s.one_of(*_AXES.split())[0])


def _operation(s: Sass) -> int:
    return ATOMICS[s.one_of(*_REDUCTIONS)] << o.ATOMIC_OPERATION | o.NO_RESULT


def _bytes(e: Emitter, count: Operand) -> int:
    made = e.temporary()
    e.emit("BIT_FIELD_U", d=made, a=e.plain(count), b=ZERO_ROW, c=e.constant(16))
    e.emit("SHIFT_LEFT", d=made, a=made, b=e.constant(4))
    return made
