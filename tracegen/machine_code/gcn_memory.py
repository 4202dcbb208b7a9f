"""AMD's loads, stores and atomic operations as accesses of the micro-operations.

Sources: AMD, "CDNA3" and "RDNA3" Instruction Set Architecture Reference Guides, sections on memory; LLVM, "User Guide for AMDGPU
Backend" for private memory.
"""

from __future__ import annotations

import re

from tracegen.compiled.amd.gcn_opcodes import access_bytes, returns_value
from tracegen.execution import operations as o
from tracegen.machine_code.gcn_wave import AND, Wave, by_patterns

_SPACES = {
    "global": o.GLOBAL,
    "flat": o.GENERIC,
    "scratch": o.PRIVATE,
    "buffer": o.PRIVATE,
    "ds": o.LOCAL,
}
_ATOMIC = re.compile(
    r"(?:\w+?_atomic|ds)_(pk_add|cmpswap|cmpstore|cmpst|swap|wrxchg|storexchg|add|sub|inc|dec|[suf]?min|[suf]?max|and|or|xor)"
    r"(?:_num)?(?:_rtn)?(?:_x2)?(?:_([uibf]|bf)(?:16|32|64))?$"
)
_OPERATIONS = {
    "add": o.ATOMIC_ADD, "sub": o.ATOMIC_SUBTRACT, "inc": o.ATOMIC_INCREMENT, "dec": o.ATOMIC_DECREMENT,
    "and": o.ATOMIC_AND, "or": o.ATOMIC_OR, "xor": o.ATOMIC_XOR, "swap": o.ATOMIC_EXCHANGE,
    "wrxchg": o.ATOMIC_EXCHANGE, "storexchg": o.ATOMIC_EXCHANGE, "cmpswap": o.ATOMIC_COMPARE, "cmpst": o.ATOMIC_COMPARE,
    "cmpstore": o.ATOMIC_COMPARE, "pk_add": o.ATOMIC_ADD,
}  # fmt: skip
_DESCRIPTION = re.compile(r"s\[(\d+):(\d+)\]$")
_SCALAR_BYTES = 32
"""A scalar load of more is cut in two."""


def _modifiers(wave: Wave, space: int, n_bytes: int) -> int:
    """What the text says of an access, as modifiers."""
    opcode, x = wave.parsed.opcode, space | n_bytes << o.BYTES
    if re.search(r"_(sbyte|sshort|i8|i16)", opcode):
        x |= o.SIGN_EXTEND
    if "d16" in opcode:
        x |= o.HIGH_HALF if "_hi" in opcode else o.KEEP_HALF
    if {"slc", "nt"} & wave.parsed.modifiers.keys() or "NT" in wave.parsed.modifiers.get("th", ""):
        x |= o.NONTEMPORAL * ("store" in opcode)
    if {"glc", "sc0", "sc1", "slc", "dlc", "scope"} & wave.parsed.modifiers.keys():
        x |= o.BYPASS_L1 * (space in (o.GLOBAL, o.GENERIC) and "load" in opcode)
    if wave.generation < 10 and space != o.LOCAL:
        x |= o.COUNTED
    return x


def _vector(wave: Wave, match: re.Match[str]) -> None:
    """`global_load_dword v1, v[2:3], off offset:4`, `scratch_store_dword off, v1, s32`, `buffer_load_dword v1, v2, s[0:3], 0 offen`."""
    unit, kind = match[1], match[2]
    operands = list(wave.parsed.operands)
    opcode, space = wave.parsed.opcode, _SPACES[unit]
    described = _described(wave, operands) if unit == "buffer" else None
    if described is not None:
        space = o.GLOBAL
    elif unit == "buffer" and kind == "atomic":
        raise wave.unknown("an atomic operation on private memory")
    said = " ".join((*wave.parsed.modifiers, *wave.parsed.modifiers.values()))
    returned = operands.pop(0) if kind == "atomic" and returns_value(opcode, said) else None
    data = operands.pop(0) if kind == "load" or unit == "buffer" else ""
    form = o.ADDRESS_64
    y = wave.parsed.number("offset")
    if described is not None:
        a, b = _buffer(wave, operands, described, y, access_bytes(opcode))
        form, y = o.ADDRESS_32, 0
        if kind == "load" and "d16" not in opcode:
            for word in range(max(access_bytes(opcode) // 4, 1)):
                wave.emit("MOVE", guard=wave.all_of_buffer, d=wave.read(data) + word)
    elif unit == "buffer":
        a, b = _private_buffer(wave, operands[0], operands[2])
    else:
        a = wave.read(operands.pop(0))
        data = data or operands.pop(0)
        base = operands[0] if operands else "off"
        b = wave.read(base)
        form = o.ADDRESS_32 if base != "off" and space == o.GLOBAL else o.ADDRESS_64
    x = _modifiers(wave, space, access_bytes(opcode)) | form
    if kind == "load":
        wave.emit("LOAD", d=wave.read(data), a=a, b=b, x=x, y=y)
    elif kind == "store":
        wave.emit("STORE", c=wave.read(data), a=a, b=b, x=x, y=y)
    else:
        row = wave.read(data)
        _atomic(
            wave, returned, row, row + access_bytes(opcode) // 4, {"a": a, "b": b, "x": x, "y": y}
        )


def _to_local(wave: Wave, match: re.Match[str]) -> None:
    """`global_load_lds_dword v[2:3], off offset:4`: to local memory, where m0 and the offset say, lane after lane."""
    opcode, (address, base) = wave.parsed.opcode, wave.parsed.operands
    n_bytes, y = access_bytes(opcode), wave.parsed.number("offset")
    row, place = wave.temporary(n_bytes // 4), wave.temporary()
    form = o.ADDRESS_32 if base != "off" else o.ADDRESS_64
    fields = {"a": wave.read(address), "b": wave.read(base), "y": y}
    wave.emit("LOAD", d=row, x=_modifiers(wave, o.GLOBAL, n_bytes) | form, **fields)
    lane, step = wave.out.special("lane"), wave.constant(n_bytes)
    wave.emit("MULTIPLY_ADD", d=place, a=lane, b=step, c=wave.read("m0"))
    wave.emit("STORE", a=place, c=row, x=o.LOCAL | n_bytes << o.BYTES, y=y)


def _described(wave: Wave, operands: list[str]) -> int | None:
    """The number of the first of the registers that describe a buffer in memory; None of those that describe private memory, which
    the driver has filled and the code copies whole."""
    match = next(match for one in operands if (match := _DESCRIPTION.match(one)))
    first, last = int(match[1]), int(match[2])
    return first if last in wave.described else None


def _buffer(
    wave: Wave, operands: list[str], described: int, offset: int, n_bytes: int
) -> tuple[int, int]:
    """The offset and the base of an access to a buffer whose bytes are counted, without rows. Lanes beyond its end take no
    part: what they load is 0."""
    if "idxen" in wave.parsed.modifiers or "lds" in wave.parsed.modifiers:
        raise wave.unknown("rows of a buffer, or copies to local memory")
    description = wave.read(f"s[{described}:{described + 3}]")
    place = next(k for k, one in enumerate(operands) if _DESCRIPTION.match(one))
    lane = wave.read(operands[place - 1]) if "offen" in wave.parsed.modifiers else o.ZERO_ROW
    total, base, limit = wave.temporary(), wave.temporary(2), wave.temporary()
    some, inside = wave.new_mask(), wave.new_mask()
    scalar = wave.read(operands[place + 1])
    wave.emit_always("ADD3", d=total, a=lane, b=scalar, c=wave.constant(offset))
    wave.emit_always("MOVE", d=base, a=description)
    wave.emit_always("LOGIC3", d=base + 1, a=description + 1, b=wave.constant(0xFFFF), y=AND)
    size = wave.constant(n_bytes)
    least, most = o.GREATER | o.EQUAL, o.LESS | o.EQUAL
    wave.emit_always("ADD3", d=limit, a=description + 2, b=size, x=o.NEGATE_B)
    wave.emit_always("COMPARE_U", d=some, a=description + 2, b=size, m=wave.guard, x=least)
    wave.emit_always("COMPARE_U", d=inside, a=total, b=limit, m=2 * some, x=most)
    wave.all_of_buffer, wave.guard = wave.guard, 2 * inside
    return total, base


def _private_buffer(wave: Wave, address: str, base: str) -> tuple[int, int]:
    """The addresses in private memory that a buffer's operands mean: the scalar offset counts bytes of the whole sub-group."""
    a = wave.read(address) if "offen" in wave.parsed.modifiers else o.ZERO_ROW
    if base == "0":
        return a, o.ZERO_ROW
    b = wave.temporary()
    by = wave.constant((wave.lanes - 1).bit_length())
    wave.emit("SHIFT_RIGHT_U", d=b, a=wave.read(base), b=by)
    return a, b


def _atomic(
    wave: Wave, returned: str | None, operand: int, compared: int, fields: dict[str, int]
) -> None:
    match = _ATOMIC.match(wave.parsed.opcode)
    if match is None:
        raise wave.unknown()
    name, kind = match[1], match[2] or ""
    x = fields.pop("x")
    if name.endswith(("min", "max")):
        signed = not (name[0] == "u" or kind == "u")
        operation = getattr(o, f"ATOMIC_{name[-3:].upper()}_{'S' if signed else 'U'}")
    else:
        operation = _OPERATIONS[name]
    if kind in ("f", "bf") or name in ("fmin", "fmax"):
        x |= o.FLOATING | o.BF16 * (kind == "bf") | o.PACKED * (name == "pk_add")
    x |= operation << o.ATOMIC_OPERATION | o.NO_RESULT * (returned is None) | o.IN_TURN
    d = {} if returned is None else {"d": wave.read(returned)}
    e = {"e": compared} if operation == o.ATOMIC_COMPARE else {}
    wave.emit("ATOMIC", c=operand, x=x, **d, **e, **fields)


def _scalar(wave: Wave, match: re.Match[str]) -> None:
    """`s_load_dwordx4 s[0:3], s[4:5], 0x10`; the offset may be in a register, and both may be there."""
    operands, n_bytes = wave.parsed.operands, access_bytes(wave.parsed.opcode)
    base, d = wave.read(operands[1]), wave.read(operands[0])
    offset = operands[2] if len(operands) > 2 else "0"
    x, y = _modifiers(wave, o.GLOBAL, 0) | o.ONE_LANE, wave.parsed.number("offset")
    fields = {"a": base}
    if offset[0] in "sm":
        fields, x = {"a": wave.read(offset), "b": base}, x | o.ADDRESS_32
    elif offset != "null":
        y += int(offset, 0)
    if n_bytes > _SCALAR_BYTES and any(d <= row < d + n_bytes // 4 for row in fields.values()):
        copies = {field: wave.temporary(2) for field in fields}
        for field, row in copies.items():
            wave.emit("MOVE2", d=row, a=fields[field])
        fields = copies
    for first in range(0, n_bytes, _SCALAR_BYTES):
        size = min(n_bytes - first, _SCALAR_BYTES)
        wave.emit("LOAD", d=d + first // 4, x=x | size << o.BYTES, y=y + first, **fields)


def _shared(wave: Wave, match: re.Match[str]) -> None:
    """ds_read, ds_write and their pairs: `ds_read2_b32 v[0:1], v2 offset0:1 offset1:2`, whose offsets count elements."""
    kind, pair, n_bytes = match[1], match[2] or "", int(match[4]) // 8
    operands, parsed = wave.parsed.operands, wave.parsed
    x = _modifiers(wave, o.LOCAL, n_bytes)
    step = n_bytes * (64 if "64" in pair else 1)
    offsets = [parsed.number("offset")]
    if pair:
        offsets = [step * parsed.number(f"offset{k}") for k in (0, 1)]
    if kind in ("write", "store"):
        address = wave.read(operands[0])
        for k, y in enumerate(offsets):
            wave.emit("STORE", a=address, c=wave.read(operands[1 + k]), x=x, y=y)
        return
    address, d, words = wave.read(operands[1]), wave.read(operands[0]), max(n_bytes // 4, 1)
    if (
        pair and d <= address < d + words
    ):  # the first load would overwrite the address of the second
        copy = wave.temporary()
        wave.emit("MOVE", d=copy, a=address)
        address = copy
    for k, y in enumerate(offsets):
        wave.emit("LOAD", d=d + k * words, a=address, x=x, y=y)


def _shared_atomic(wave: Wave, match: re.Match[str]) -> None:
    """`ds_add_rtn_u32 v0, v1, v2`; of ds_cmpst_b32 the compared value stands first, of ds_cmpstore_b32 the new one."""
    opcode, operands = wave.parsed.opcode, list(wave.parsed.operands)
    returned = operands.pop(0) if returns_value(opcode, "") else None
    address, *data = (wave.read(text) for text in operands)
    fields = {
        "a": address,
        "x": _modifiers(wave, o.LOCAL, access_bytes(opcode)),
        "y": wave.parsed.number("offset"),
    }
    if "cmpst" in opcode and "cmpstore" not in opcode:
        data.reverse()
    _atomic(wave, returned, data[0], data[-1], fields)


access = by_patterns(
    (r"global_load_lds_dword(x3|x4)?$", _to_local),
    (r"(global|flat|scratch|buffer)_(load|store|atomic)_(?!lds|format|block|tr)", _vector),
    (r"s_load_(dword|b\d|[iu]\d)", _scalar),
    (
        r"ds_(read|write|load|store)(2|2st64|_2addr(?:_stride64)?)?_([ubi])(8|16|32|64|96|128)",
        _shared,
    ),
    (r"ds_(?!(read|write|load|store)_addtid|append|consume|gws|nop)", _shared_atomic),
)
"""Lowers an access to memory; False if the instruction is none."""
