"""SASS that accesses memory, lowered to micro-operations."""

from __future__ import annotations

from tracegen.compiled.nvidia.sass_operands import access_bytes
from tracegen.execution import operations as o
from tracegen.execution.code import NO_SLOT
from tracegen.execution.operations import ALWAYS, TRASH_MASK, TRASH_ROW, ZERO_ROW
from tracegen.machine_code.sass_emit import Emitter, UnknownInstruction, lowers
from tracegen.machine_code.sass_integers import RELATIONS
from tracegen.machine_code.sass_text import NO_REGISTER, Operand, Part, Sass

COPIES = 6
"""The slot of copies to local memory."""
_WIDTHS = "U8 S8 U16 S16 32 64 128 256 U 64 ENL2"
_GLOBAL = f"E SYS STRONG WEAK CONSTANT CTA GPU SM EF EL LU EU NA PRIVATE MMIO LTC64B LTC128B LTC256B {_WIDTHS} INVALIDATE"
SPACES = {
    **dict.fromkeys(["LDG", "STG", "RED", "REDG", "ATOMG", "LDGSTS"], o.GLOBAL),
    **dict.fromkeys(["LDS", "STS", "ATOMS", "LDSM", "STSM"], o.LOCAL),
    **dict.fromkeys(["LDL", "STL"], o.PRIVATE),
    **dict.fromkeys(["LD", "ST", "ATOM"], o.GENERIC),
}
"""Opcode -> where its address points; of LDGSTS the one that it loads from."""


# --- addresses --------------------------------------------------------------------------------------
def address_fields(e: Emitter, s: Sass, address: Operand, space: int) -> dict[str, int]:
    """The rows, the offset and the modifiers of an address."""
    if address.kind != "[]":
        raise UnknownInstruction
    if space in (o.LOCAL, o.PRIVATE):
        rows = [_scaled(e, part) for part in address.parts]
        a, b = _two(e, rows, "ADD3", 1)
        return {"a": a, "b": b, "y": address.offset, "x": space | o.ADDRESS_32}
    far = s.has("E") or "desc" in address.suffix
    narrow = [part for part in address.parts if not _is_wide(part, far)]
    rows = [e.register(part.kind, part.number) for part in address.parts if part not in narrow]
    if narrow:
        if len(narrow) > 1 or narrow[0].scale != 1:
            raise UnknownInstruction
        first = e.register(narrow[0].kind, narrow[0].number)
        b, none = _two(e, rows, "ADD64", 2)
        if none != ZERO_ROW:
            b, none = _two(e, [b, none, ZERO_ROW], "ADD64", 2)
        return {"a": first, "b": b, "y": address.offset, "x": space | o.ADDRESS_32}
    a, b = _two(e, rows, "ADD64", 2)
    return {"a": a, "b": b, "y": address.offset, "x": space}


def _is_wide(part: Part, far: bool) -> bool:
    return part.wide or (far and not part.short)


def _scaled(e: Emitter, part: Part) -> int:
    row = e.register(part.kind, part.number)
    if part.scale == 1:
        return row
    product = e.temporary()
    e.emit("SHIFT_LEFT", d=product, a=row, b=e.constant(part.scale.bit_length() - 1))
    return product


def _two(e: Emitter, rows: list[int], add: str, words: int) -> tuple[int, int]:
    """The rows of a sum as two."""
    while len(rows) > 2:
        total = e.temporary(words)
        e.emit(add, d=total, a=rows[0], b=rows[1])
        rows = [total, *rows[2:]]
    first, second = [*rows, ZERO_ROW, ZERO_ROW][:2]
    return first, second


def _size(e: Emitter, s: Sass) -> int:
    memory = e.instruction.memory
    return (
        memory.bytes_per_item if memory is not None else access_bytes(".".join((s.base, *s.parts)))
    )


def _modifiers(e: Emitter, s: Sass, size: int) -> int:
    memory = e.instruction.memory
    x = size << o.BYTES
    if s.has("S8", "S16"):
        x |= o.SIGN_EXTEND
    if s.has("STRONG", "BYPASS", "MMIO") and s.has("GPU", "SYS", "BYPASS"):
        x |= o.BYPASS_L1
    if s.has("EF"):
        x |= o.NONTEMPORAL
    return x | (o.SPILL if memory is not None and memory.spill else 0)


# --- loads and stores -------------------------------------------------------------------------------
@lowers("LDG LD LDS LDL", _GLOBAL)
def _load(e: Emitter, s: Sass) -> None:
    operands = list(s.operands)
    if operands[-1].is_predicate and (operands[-1].is_true or operands[-1].is_false):
        operands.pop()
    if operands[0].is_predicate and operands[0].is_true:
        operands.pop(0)
    *results, address = operands
    size, space = _size(e, s), SPACES[s.base]
    fields = address_fields(e, s, address, space)
    fields["x"] |= _modifiers(e, s, size)
    slot = e.instruction.slot if space != o.LOCAL else NO_SLOT
    if len(results) == 1 and size <= 16:
        return e.emit("LOAD", d=e.result(results[0]), slot=slot, **fields)
    if len(results) != 2 or size != 32:
        raise UnknownInstruction
    row = e.temporary(8)
    e.emit("LOAD", d=row, slot=slot, **fields)
    for k, result in enumerate(reversed(results)):  # the high half is named first
        e.move(e.result(result), row + 4 * k, 4)
    return None


@lowers("STG ST STS STL", _GLOBAL)
def _store(e: Emitter, s: Sass) -> None:
    address, *sources = s.operands
    size, space = _size(e, s), SPACES[s.base]
    fields = address_fields(e, s, address, space)
    fields["x"] |= _modifiers(e, s, size)
    if len(sources) == 1 and size <= 16:
        return e.emit("STORE", c=_value(e, sources[0], size), **fields)
    if len(sources) != 2 or size != 32:
        raise UnknownInstruction
    row = e.temporary(8)
    for k, source in enumerate(sources):
        e.move(row + 4 * k, _value(e, source, 16), 4)
    return e.emit("STORE", c=row, **fields)


def _value(e: Emitter, source: Operand, size: int) -> int:
    """The rows of what is stored, or of an operand of an atomic operation."""
    words = max(1, size // 4)
    if source.kind not in ("R", "UR") or source.inverted or source.absolute:
        raise UnknownInstruction
    if source.negative:
        return e.whole(source) if words == 1 else e.wide(source)
    return e.register(source.kind, source.number, words)


@lowers("LDC ULDC LDCU", "U8 S8 U16 S16 32 64 128 U IL IS ISL")
def _load_constant(e: Emitter, s: Sass) -> None:
    """Addresses of `.IL` count through all banks, which lie behind each other in bank 0."""
    d, a = s.operands
    size = _size(e, s)
    words = max(1, size // 4)
    if a.kind != "c" or s.has("IS", "ISL"):
        raise UnknownInstruction
    if not a.parts and size >= 4:
        return e.move(e.result(d), e.assembler.bank(a.number, a.offset, words), words)
    return e.load_constant(e.result(d), a, size, o.SIGN_EXTEND if s.has("S8", "S16") else 0)


@lowers("LDGSTS", f"{_GLOBAL} BYPASS ACCESS ZFILL")
def _copy(e: Emitter, s: Sass) -> None:
    """A load from global memory and a store to local memory; where a predicate is false, zeros are stored.

    The address of `.ZFILL` has in its lowest bits how many of the last bytes are zero, which are not loaded.
    """
    to, source, *p = s.operands
    size = _size(e, s)
    words = max(1, size // 4)
    row = e.temporary(words)
    fields = address_fields(e, s, source, o.GLOBAL)
    fields["x"] |= _modifiers(e, s, size) | (o.BYPASS_L1 if s.has("BYPASS") else 0)
    guard = e.guard
    if s.has("ZFILL") or (p and not p[0].is_true):
        e.move(row, e.constant(*[0] * words), words)
        guard = e.both(e.mask(p[0])) if p else guard
    if s.has("ZFILL"):
        _load_some(e, row, fields, size, guard)
    else:
        e.emit("LOAD", guard=guard, d=row, slot=COPIES, **fields)
    fields = address_fields(e, s, to, o.LOCAL)
    fields["x"] |= size << o.BYTES
    e.emit("STORE", c=row, **fields)


def _load_some(e: Emitter, row: int, fields: dict[str, int], size: int, guard: int) -> None:
    place, own = e.temporary(2), e.temporary(2)
    if fields["x"] & o.ADDRESS_32:
        e.move(own, fields["a"])
        e.move(own + 1, ZERO_ROW)
    else:
        e.move(own, fields["a"], 2)
    e.emit("ADD64", d=place, a=own, b=fields["b"])
    e.emit("ADD64", d=place, a=place, b=e.constant(fields["y"], fields["y"] >> 32))
    left, bits, some = e.temporary(), e.temporary(), e.temporary_mask()
    e.emit("LOGIC3", d=left, a=place, b=e.constant(size - 1), y=0xC0)
    e.emit("LOGIC3", d=place, a=place, b=e.constant(-size), y=0xC0)
    e.emit("ADD3", d=left, a=left, b=e.constant(size), x=o.NEGATE_A)
    e.emit("COMPARE_U", d=some, a=left, b=e.constant(size), m=guard, x=RELATIONS["LT"])
    x = fields["x"] & ~o.ADDRESS_32
    whole = e.temporary_mask()
    e.emit("MASK_LOGIC3", guard=ALWAYS, d=whole, m=guard, n=2 * some, x=0x30)
    e.emit("LOAD", guard=2 * whole, d=row, a=place, x=x, slot=COPIES)
    for k in range(max(1, size // 4)):
        here = e.temporary_mask()
        e.emit("COMPARE_U", d=here, a=left, b=e.constant(4 * k), m=2 * some, x=RELATIONS["GT"])
        one = x & ~(63 << o.BYTES) | 4 << o.BYTES
        e.emit("LOAD", guard=2 * here, d=row + k, a=place, y=4 * k, x=one, slot=COPIES)
        e.emit("ADD3", d=bits, a=left, b=e.constant(-4 * k))
        e.emit("SHIFT_LEFT", d=bits, a=bits, b=e.constant(3))
        e.emit("BIT_MASK", d=bits, a=ZERO_ROW, b=bits)
        e.emit("LOGIC3", guard=2 * here, d=row + k, a=row + k, b=bits, y=0xC0)


# --- atomics ----------------------------------------------------------------------------------------
ATOMICS = {
    "ADD": o.ATOMIC_ADD, "AND": o.ATOMIC_AND, "OR": o.ATOMIC_OR, "XOR": o.ATOMIC_XOR, "EXCH": o.ATOMIC_EXCHANGE,
    "CAS": o.ATOMIC_COMPARE, "CAST": o.ATOMIC_COMPARE, "INC": o.ATOMIC_INCREMENT, "DEC": o.ATOMIC_DECREMENT,
    "MIN": o.ATOMIC_MIN_U, "MAX": o.ATOMIC_MAX_U, "POPC": o.ATOMIC_ADD, "ARRIVE": o.ATOMIC_ARRIVE,
}  # fmt: skip
_ATOMIC = f"{_GLOBAL} {' '.join(ATOMICS)} SPIN S32 S64 U32 U64 F32 F64 F16x2 BF16_V2 BF16x2 FTZ RN 32 NOFTZ"


@lowers("RED REDG ATOMG ATOM ATOMS", _ATOMIC)
def _atomic(e: Emitter, s: Sass) -> None:
    operands = list(s.operands)
    place = next(k for k, one in enumerate(operands) if one.kind == "[]")
    results, address, values = operands[:place], operands[place], operands[place + 1 :]
    told = [one for one in results if one.is_predicate]
    row = e.result(next((one for one in results if not one.is_predicate), operand_none()))
    name, size, space = s.one_of(*ATOMICS), _size(e, s), SPACES[s.base]
    words = size // 4
    if words > 2:
        raise UnknownInstruction
    fields = address_fields(e, s, address, space)
    fields["x"] |= _modifiers(e, s, size) | _atomic_kind(s, name) << o.ATOMIC_OPERATION
    if s.has("F32", "F64", "F16x2", "BF16_V2", "BF16x2"):
        fields["x"] |= o.FLOATING | (o.PACKED if not s.has("F32", "F64") else 0)
        fields["x"] |= o.BF16 if s.has("BF16_V2", "BF16x2") else 0
    if row == TRASH_ROW and not told:
        fields["x"] |= o.NO_RESULT
    if not s.has("CAS", "CAST", "POPC", "ARRIVE"):
        fields["x"] |= o.IN_TURN
    if name in ("CAS", "CAST"):
        fields["e"], fields["c"] = (_value(e, one, size) for one in values)
    else:
        fields["c"] = e.constant(1) if name == "POPC" or not values else _value(e, values[0], size)
    slot = e.instruction.slot if space != o.LOCAL else NO_SLOT
    if name != "CAST" and not any(one.number != NO_REGISTER for one in told):
        return e.emit("ATOMIC", d=row, slot=slot, **fields)
    old = e.temporary(2)
    e.emit("ATOMIC", d=old, slot=slot, **fields)
    return _tell(e, s, row, told, old, fields.get("e", old), words)


def operand_none() -> Operand:
    return Operand("RZ", "R", NO_REGISTER)


def _tell(
    e: Emitter, s: Sass, row: int, told: list[Operand], old: int, compared: int, words: int
) -> None:
    """`ATOMS.CAST.SPIN` tells whether it has stored; the predicate of a generic one, that it was done."""
    mask = e.temporary_mask()
    e.emit(
        "COMPARE_U" if words == 1 else "COMPARE64_U", d=mask, a=old, b=compared, x=RELATIONS["EQ"]
    )
    for one in told:
        e.move_mask(e.result_mask(one), 2 * mask if s.has("CAST") else ALWAYS)
    if not s.has("CAST"):
        e.move(row, old, words)
    elif row != TRASH_ROW:
        e.emit("SELECT", d=row, a=e.constant(1), m=2 * mask)
        if words == 2:
            e.move(row + 1, ZERO_ROW)


def _atomic_kind(s: Sass, name: str) -> int:
    if not name:
        raise UnknownInstruction
    if name in ("MIN", "MAX") and s.has("S32", "S64"):
        return o.ATOMIC_MIN_S if name == "MIN" else o.ATOMIC_MAX_S
    if name == "INC" and s.has("POPC"):
        return o.ATOMIC_ADD
    return ATOMICS[name]


# --- barriers in memory -----------------------------------------------------------------------------
_EXPECTED = "expected"
"""The row with the number of threads of the barrier whose phase was read last."""


def _of_barrier(e: Emitter, s: Sass, address: Operand) -> dict[str, int]:
    """The fields of an access to 8 bytes of local memory, whose address is in one row, too."""
    fields, row = address_fields(e, s, address, o.LOCAL), e.temporary()
    e.emit("ADD3", d=row, a=fields["a"], b=fields["b"], c=e.constant(fields["y"]))
    return {"a": row, "x": o.LOCAL | o.ADDRESS_32 | o.ANY_GROUP | 8 << o.BYTES}


def come(e: Emitter, fields: dict[str, int], kind: int, words: tuple[int, int], d: int) -> None:
    x = kind << o.ATOMIC_OPERATION | (o.NO_RESULT if d == TRASH_ROW else 0)
    pair = e.temporary(2)
    for k, word in enumerate(words):
        e.move(pair + k, word)
    e.emit("ATOMIC", d=d, c=pair, **fields | {"x": fields["x"] | x})


def _pass(e: Emitter, address: int, expected: int, mask: int) -> None:
    """Lanes have seen the phase change."""
    e.emit("WAIT_COPIES", a=address, x=3 if e.yields else 1)
    e.emit("BARRIER", guard=mask, d=TRASH_ROW, e=TRASH_MASK, a=expected, x=8)


@lowers("ARRIVES", "LDGSTSBAR 64 TRANSCNT ARVCNT")
def _copies_arrive(e: Emitter, s: Sass) -> None:
    """The thread's copies, which are done at once, come to a barrier."""
    fields = _of_barrier(e, s, s.operands[0])
    e.emit("COPIES_END", a=fields["a"], x=1)
    one, less = e.constant(1), e.constant(-1)
    if s.has("TRANSCNT"):
        come(e, fields, o.ATOMIC_ARRIVE_HOPPER, (ZERO_ROW, less), TRASH_ROW)
    else:
        kind = o.ATOMIC_ARRIVE_HOPPER if s.has("ARVCNT") else o.ATOMIC_ARRIVE
        come(e, fields, kind, (one, ZERO_ROW), TRASH_ROW)


@lowers(
    "SYNCS",
    "ARRIVE EXCH PHASECHK CCTL TRANS64 64 TRYWAIT IV RED OPTOUT A1T0 ART0 A0T1 A0TR A0TX A1TR",
)
def _barrier_in_memory(e: Emitter, s: Sass) -> None:
    """`SYNCS.ARRIVE.TRANS64.A0TR d, [a], b`: so many threads come, and so many bytes more are awaited, of which R is b."""
    if s.has("CCTL"):
        return None
    d, address, b = s.operands
    fields = _of_barrier(e, s, address)
    if s.has("EXCH"):
        if e.result(d) != TRASH_ROW:
            raise UnknownInstruction
        return e.emit("STORE", c=e.plain(b, 2), **fields)
    if s.has("ARRIVE"):
        how, given, less = (
            s.one_of("A1T0", "ART0", "A0T1", "A0TR", "A0TX") or "A1TR",
            e.plain(b),
            e.temporary(),
        )
        e.emit("ADD3", d=less, a=given, x=o.NEGATE_A)
        words = {"0": ZERO_ROW, "1": e.constant(1), "R": given, "X": less}
        kind = o.ATOMIC_DROP_HOPPER if s.has("OPTOUT") else o.ATOMIC_ARRIVE_HOPPER
        come(e, fields, kind, (words[how[1]], words[how[3]]), e.result(d))
        return e.emit("REST", guard=ALWAYS) if e.yields and how[3] == "0" else None
    word, changed, done = e.temporary(2), e.temporary(), e.temporary_mask()
    for tried in range(2):
        e.emit("LOAD", d=word, **fields)
        e.emit("LOGIC3", d=changed, a=word + 1, b=e.plain(b), y=0x3C)
        e.emit("COMPARE_S", d=done, a=changed, x=RELATIONS["LT"])
        if not tried:
            e.emit("REST", guard=e.both(2 * done + 1))
    e.emit("BIT_FIELD_U", d=word, a=word, b=e.constant(1), c=e.constant(20))
    e.emit("ADD3", d=word, a=word, b=e.constant(1 << 20), x=o.NEGATE_A)
    _pass(e, fields["a"], word, e.both(2 * done))
    return e.move_mask(e.result_mask(d), 2 * done)


@lowers("STAS", "64 128")
def _store_and_come(e: Emitter, s: Sass) -> None:
    """`STAS [R4.64], R6`: a store to the local memory of a group of the cluster, whose bytes come to the barrier at R5."""
    address, value = s.operands
    if len(address.parts) != 1 or address.offset:
        raise UnknownInstruction
    size = _size(e, s)
    to = e.register(address.parts[0].kind, address.parts[0].number, 2)
    x = o.LOCAL | o.ADDRESS_32 | o.ANY_GROUP
    e.emit("STORE", a=to, c=_value(e, value, size), x=x | size << o.BYTES)
    words = (ZERO_ROW, e.constant(-size))
    come(e, {"a": to + 1, "x": x | 8 << o.BYTES}, o.ATOMIC_ARRIVE_HOPPER, words, TRASH_ROW)


def reads_phase(e: Emitter, s: Sass) -> None:
    """On an A100 a thread reads the upper half of a barrier, whose sign is the phase."""
    fields = address_fields(e, s, s.operands[-1], o.LOCAL)
    place, low = e.assembler.rows("barrier in memory", 1), e.assembler.rows(_EXPECTED, 1)
    e.emit("ADD3", d=place, a=fields["a"], b=fields["b"], c=e.constant(fields["y"] - 4))
    e.emit("LOAD", d=low, a=place, x=o.LOCAL | o.ADDRESS_32 | 4 << o.BYTES)
    e.emit("ADD3", d=low, a=low, b=e.constant(1 << 30), x=o.NEGATE_A)


def compares_phase(e: Emitter, s: Sass) -> None:
    """... and compares it with the one that it waits for."""
    done = e.mask(s.operands[0])
    e.emit("REST", guard=e.both(done ^ 1))
    _pass(e, e.assembler.rows("barrier in memory", 1), e.assembler.rows(_EXPECTED, 1), e.both(done))


# --- matrices in local memory -----------------------------------------------------------------------
@lowers("LDSM STSM", "16 8 M88 MT88 2 4")
def _matrices(e: Emitter, s: Sass) -> None:
    """`LDSM.16.M88.4`: matrix k has 8 rows of 16 bytes, at the addresses of lanes 8k to 8k + 7. Lane l has the 4 bytes of its
    row l / 4 that begin at 4 (l modulo 4); transposed, elements 2 (l modulo 4) and the next one of column l / 4."""
    loads = s.base == "LDSM"
    value, address = s.operands if loads else s.operands[::-1]
    count = int(s.one_of("2", "4") or 1)
    if s.has("8") or not s.has("M88", "MT88"):
        raise UnknownInstruction
    own, rows = e.temporary(), address_fields(e, s, address, o.LOCAL)
    e.emit("ADD3", d=own, a=rows["a"], b=rows["b"], c=e.constant(rows["y"]))
    lanes, half = range(e.assembler.lanes), o.KEEP_HALF
    for k in range(count):
        row = e.result(value) + k if loads else e.plain(value, count) + k
        if not s.has("MT88"):
            places = [(8 * k + lane // 4, 4 * (lane % 4)) for lane in lanes]
            _element(e, own, places, row, loads, 4 << o.BYTES)
            continue
        for part in range(2):
            places = [(8 * k + 2 * (lane % 4) + part, 2 * (lane // 4)) for lane in lanes]
            x = 2 << o.BYTES | half | (o.HIGH_HALF if part else 0)
            _element(e, own, places, row, loads, x)


def _element(
    e: Emitter, own: int, places: list[tuple[int, int]], row: int, loads: bool, x: int
) -> None:
    """Each lane's access to an element. places : by lane, the lane with the address of its row, and bytes to add"""
    base = e.temporary()
    sources = e.assembler.lane_table(tuple(lane for lane, _ in places))
    offsets = e.assembler.lane_table(tuple(offset for _, offset in places))
    e.emit("PERMUTE_LANES", d=base, a=own, c=sources, x=1)
    fields = {"a": base, "b": offsets, "x": x | o.LOCAL | o.ADDRESS_32}
    e.emit("LOAD", d=row, **fields) if loads else e.emit("STORE", c=row, **fields)


@lowers("QSPC", "E S G L")
def _space(e: Emitter, s: Sass) -> None:
    """Whether a generic address lies in local (`.S`), private (`.L`) or global memory."""
    p, d, address = s.operands
    fields = address_fields(e, s, address, o.GENERIC)
    whole, mask = e.temporary(2), e.temporary_mask()
    e.emit("ADD64", d=whole, a=fields["a"], b=fields["b"])
    windows = {"S": o.LOCAL_WINDOW, "L": o.PRIVATE_WINDOW}
    which = s.one_of("S", "G", "L")
    if which == "G":
        e.emit(
            "COMPARE_U", d=mask, a=whole + 1, b=e.constant(o.LOCAL_WINDOW >> 32), x=RELATIONS["LT"]
        )
    else:
        e.emit(
            "COMPARE_U", d=mask, a=whole + 1, b=e.constant(windows[which] >> 32), x=RELATIONS["EQ"]
        )
    e.move_mask(e.result_mask(p), 2 * mask)
    if e.result(d) != TRASH_ROW:
        e.emit("SELECT", d=e.result(d), a=e.constant(1), m=2 * mask)
