"""What AMD's sub-groups exchange between lanes: DPP, swizzles, permutations, counts of lower lanes.

Sources: AMD, "CDNA3" and "RDNA3" Instruction Set Architecture, sections "DPP" and "Data share"; LLVM, "Syntax of AMDGPU
Instruction Modifiers".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tracegen.execution import operations as o
from tracegen.machine_code.gcn_text import Kind, Parsed

NOBODY = 255
"""A lane that does not exist."""
_AND = 0xC0
_ROW = 16


def _within(width: int, lane: int, source: int) -> int:
    """A lane of the same aligned group of so many lanes, or nobody."""
    return source if source // width == lane // width and source >= 0 else NOBODY


_CONTROLS: dict[str, Callable[[int, int, int], int]] = {
    "row_shl": lambda lane, by, lanes: _within(_ROW, lane, lane + by),
    "row_shr": lambda lane, by, lanes: _within(_ROW, lane, lane - by),
    "row_ror": lambda lane, by, lanes: lane // _ROW * _ROW + (lane - by) % _ROW,
    "row_mirror": lambda lane, by, lanes: lane ^ 15,
    "row_half_mirror": lambda lane, by, lanes: lane ^ 7,
    "row_newbcast": lambda lane, by, lanes: lane // _ROW * _ROW + by,
    "row_share": lambda lane, by, lanes: lane // _ROW * _ROW + by,
    "row_xmask": lambda lane, by, lanes: lane ^ by,
    "row_bcast": lambda lane, by, lanes: (lane // (by + 1) * (by + 1) - 1) % (NOBODY + 1),
    "wave_shl": lambda lane, by, lanes: _within(lanes, lane, lane + by),
    "wave_shr": lambda lane, by, lanes: _within(lanes, lane, lane - by),
    "wave_rol": lambda lane, by, lanes: (lane + by) % lanes,
    "wave_ror": lambda lane, by, lanes: (lane - by) % lanes,
}
"""The lane that each lane reads; by : the number in the text."""


def _dpp_sources(parsed: Parsed, lanes: int) -> tuple[int, ...] | None:
    for name in ("quad_perm", "dpp8"):
        if name in parsed.modifiers:
            chosen = [int(one) for one in parsed.modifiers[name].strip("[]").split(",")]
            n = len(chosen)
            return tuple(lane // n * n + chosen[lane % n] for lane in range(lanes))
    for name, control in _CONTROLS.items():
        if name in parsed.modifiers:
            by = int(parsed.modifiers[name] or "0", 0)
            return tuple(control(lane, by, lanes) for lane in range(lanes))
    return None


def data_parallel(wave: Any, row: int, kind: Kind) -> int:
    """The row as the lanes that DPP names have it. Lanes that get nothing are taken out of the instruction's guard."""
    parsed = wave.parsed
    sources = _dpp_sources(parsed, wave.lanes)
    if sources is None:
        raise wave.unknown("a control of DPP")
    rows, banks = parsed.number("row_mask", 15), parsed.number("bank_mask", 15)
    written = tuple(
        -(rows >> lane // _ROW & banks >> lane % _ROW // 4 & 1) for lane in range(wave.lanes)
    )
    table: int = wave.out.lane_table(sources)
    words = 2 if kind.endswith("64") else 1
    made: int = wave.temporary(words)
    for word in range(words):
        wave.emit(
            "PERMUTE_LANES", guard=wave.exec, d=made + word, a=row + word, c=table, m=wave.exec, x=1
        )
    zeros = "bound_ctrl" in parsed.modifiers or "dpp8" in parsed.modifiers
    if all(written) and (zeros or NOBODY not in sources):
        return made
    allowed = wave.out.lane_table(written)
    if not zeros:
        got, ones = wave.temporary(), wave.constant(-1)
        wave.emit("PERMUTE_LANES", guard=wave.exec, d=got, a=ones, c=table, m=wave.exec, x=1)
        wave.logic(got, got, allowed, _AND)
        allowed = got
    mask = wave.new_mask()
    wave.emit("COMPARE_U", guard=o.ALWAYS, d=mask, a=allowed, m=wave.guard, x=o.LESS | o.GREATER)
    wave.guard = 2 * mask
    return made


def _permute(wave: Any) -> None:
    """ds_bpermute_b32: each lane names the lane that it reads, in bytes; ds_permute_b32: the one that it writes to."""
    parsed = wave.parsed
    d = wave.result(parsed.operands[0])
    address, data = wave.read(parsed.operands[1]), wave.read(parsed.operands[2])
    lane = wave.temporary()
    if offset := parsed.number("offset"):
        wave.emit("ADD3", d=lane, a=address, b=wave.constant(offset))
        address = lane
    width = wave.constant((wave.lanes - 1).bit_length())
    wave.emit("BIT_FIELD_U", d=lane, a=address, b=wave.constant(2), c=width)
    if parsed.opcode == "ds_permute_b32":
        wave.emit("SCATTER_LANES", d=d, a=data, c=lane)
    else:
        wave.emit("PERMUTE_LANES", d=d, a=data, c=lane, m=wave.exec, x=1)


def swizzled(offset: str, lane: int) -> int:
    """The lane that a lane reads with `ds_swizzle_b32 ... offset:swizzle(BROADCAST,8,3)`, or with a number."""
    if match := re.fullmatch(r"swizzle\((\w+),(.*)\)", offset):
        mode, arguments = match[1], match[2].replace('"', "").split(",")
        if mode == "BITMASK_PERM":
            keep, put, flip = (
                int("".join(str(int(one in chosen)) for one in arguments[0]), 2)
                for chosen in ("pi", "1", "i")
            )
            return (lane & keep | put) ^ flip | lane & 32
        values = [int(one, 0) for one in arguments]
        if mode == "QUAD_PERM":
            return lane & ~3 | values[lane & 3]
        if mode == "BROADCAST":
            return lane & -values[0] | values[1]
        return lane ^ (values[0] if mode == "SWAP" else values[0] - 1)
    bits = int(offset, 0)
    if bits >> 15:
        return lane & ~3 | bits >> 2 * (lane & 3) & 3
    return (lane & bits & 31 | bits >> 5 & 31) ^ bits >> 10 & 31 | lane & 32


def _swizzle(wave: Any) -> None:
    parsed = wave.parsed
    offset = parsed.modifiers.get("offset", "0")
    table = wave.out.lane_table(tuple(swizzled(offset, lane) for lane in range(wave.lanes)))
    source, d = wave.read(parsed.operands[1]), wave.result(parsed.operands[0])
    wave.emit("PERMUTE_LANES", d=d, a=source, c=table, m=wave.exec, x=1)


def _permute_row(wave: Any) -> None:
    """v_permlane16_b32 and v_permlanex16_b32: 16 numbers of 4 bits name lanes of this row of 16, or of its neighbour."""
    lanes = range(wave.lanes)
    low, high, choice = wave.source(2).row, wave.source(3).row, wave.temporary()
    upper = wave.out.lane_table(tuple(-(lane >> 3 & 1) for lane in lanes))
    other = _ROW if "x16" in wave.parsed.opcode else 0
    base = wave.out.lane_table(tuple(lane // _ROW * _ROW ^ other for lane in lanes))
    shift = wave.out.lane_table(tuple(4 * (lane & 7) for lane in lanes))
    wave.logic(choice, upper, high, 0xCA, low)
    wave.emit("BIT_FIELD_U", d=choice, a=choice, b=shift, c=wave.constant(4))
    wave.emit("ADD3", d=choice, a=choice, b=base)
    d = wave.result(wave.operand(0))
    wave.emit("PERMUTE_LANES", d=d, a=wave.source(1).row, c=choice, m=wave.exec, x=1)


def _swap_halves(wave: Any) -> None:
    """v_permlane64_b32: the two halves of 64 lanes change places."""
    table = wave.out.lane_table(tuple((lane ^ 32) % wave.lanes for lane in range(wave.lanes)))
    d = wave.result(wave.operand(0))
    wave.emit("PERMUTE_LANES", d=d, a=wave.source(1).row, c=table, m=wave.exec, x=1)


def _lower_lanes(wave: Any) -> None:
    """v_mbcnt: how many lower lanes a mask has among its lanes 0 to 31, or 32 to 63, plus a number."""
    first = 32 if "_hi_" in wave.parsed.opcode else 0
    lower = tuple(((1 << lane) - 1) >> first & 0xFFFFFFFF for lane in range(wave.lanes))
    found, table = wave.temporary(), wave.out.lane_table(lower)
    mask, added = wave.source(1).row, wave.source(2).row
    d = wave.result(wave.operand(0))
    wave.logic(found, mask, table, _AND)
    wave.emit("COUNT_ONES", d=found, a=found)
    wave.emit("ADD3", d=d, a=found, b=added)


LANES: dict[str, Callable[[Any], None]] = {
    "ds_bpermute_b32": _permute,
    "ds_permute_b32": _permute,
    "ds_swizzle_b32": _swizzle,
    "v_permlane16_b32": _permute_row,
    "v_permlanex16_b32": _permute_row,
    "v_permlane64_b32": _swap_halves,
    "v_mbcnt_lo_u32_b32": _lower_lanes,
    "v_mbcnt_hi_u32_b32": _lower_lanes,
}
