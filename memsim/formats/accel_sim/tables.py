"""What the scanner of Accel-Sim's text keeps between calls: its state, opcodes, sites, registers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import hot, inner

I64 = npt.NDArray[np.int64]

# What an opcode does.
OTHER, BARRIER, LOAD, STORE, ATOMIC, SHARED, LOCAL, CONSTANT, ELSEWHERE = range(9)
KINDS = ("other", "barrier", "load", "store", "atomic", "shared", "local", "constant", "elsewhere")

# Words of `state`.
(
    AT, LINE, IN_BLOCK, GROUP, WARP, LEFT, ACCESSES, SEQUENCE, FRESH, USED, PREVIOUS_PC, IDLE,
    N_OPCODE, N_SITE, N_SUBGROUP, N_ACCESS, N_GRANULE, TEXT, TEXT_END, HAS_LINES,
    GRID_X, GRID_Y, GRID_Z, N_WARP, SHARED_BASE, LOCAL_BASE, STATE_WORDS,
) = range(27)  # fmt: skip

DONE, FULL, NEW_OPCODE = range(3)
MESSAGES = {
    3: "#BEGIN_TB inside a thread block",
    4: "#END_TB outside a thread block",
    5: "'thread block = x,y,z' must follow #BEGIN_TB",
    6: "a thread block must lie in the grid",
    7: "'warp = k' must be inside a thread block",
    8: "a warp must lie in its thread block",
    9: "'insts = m' must follow 'warp = k'",
    10: "the warp has fewer instructions than its 'insts'",
    11: "the warp has more instructions than its 'insts'",
    12: "an instruction must begin with a PC and a mask of 32 bits, in hexadecimal",
    13: "an instruction may have at most 16 registers of a kind",
    14: "an instruction must have an opcode of at most 63 letters",
    15: "the width must be a number",
    16: "the address mode must be 0, 1 or 2",
    17: "an address must be hexadecimal, one for each active lane",
    18: "a stride or delta must be a decimal number, one for each further active lane",
    19: "an address must be between 0 and 2^57",
    20: "neither a header, a thread block, a warp nor an instruction",
    21: "too many lines without content",
    22: "a trace may have at most 32766 instructions that access global memory",
}
ERROR_BEGIN, ERROR_END = 3, 4
ERROR_BLOCK, ERROR_GRID, ERROR_WARP, ERROR_WARP_RANGE, ERROR_INSTS = 5, 6, 7, 8, 9
ERROR_FEWER, ERROR_MORE, ERROR_PC, ERROR_REGISTERS, ERROR_OPCODE = 10, 11, 12, 13, 14
ERROR_WIDTH, ERROR_MODE, ERROR_ADDRESS, ERROR_DELTA, ERROR_RANGE = 15, 16, 17, 18, 19
ERROR_LINE, ERROR_IDLE, ERROR_SITES = 20, 21, 22

MAX_OPCODES, OPCODE_BYTES, MAX_SITES = 4096, 64, 32766
GRANULES_OF_ACCESS = 64
"""The most of 32 lanes of at most 32 bytes each."""
WINDOW_BYTES = 1 << 24
MOST_IDLE = 1 << 20
MOST_ADDRESS = 1 << 57
_SLOTS = 1 << 16


class Tables(NamedTuple):
    """What the scanner has learnt so far, and scratch space.

    opcode_slot, site_slot : hash tables of numbers, -1 where empty
    opcode_text, opcode_bytes : as written;  kind : see KINDS;  generic : bool, its address
        determines the memory space;  size : bytes of a lane
    site_pc, site_opcode, site_line, site_feed : of each site; the line, or -1 if unknown; the
        site whose value feeds its address, or -1
    site_low, site_high : granules that each site accessed, inclusive
    skipped : accesses of each kind that are not global memory's
    pending, feeding : of each register, the access that loads it and that access' site, or -1
    """

    opcode_slot: npt.NDArray[np.int32]
    opcode_text: npt.NDArray[np.uint8]
    opcode_bytes: I64
    kind: npt.NDArray[np.uint8]
    generic: npt.NDArray[np.uint8]
    size: I64
    site_slot: npt.NDArray[np.int32]
    site_pc: I64
    site_opcode: npt.NDArray[np.int32]
    site_line: I64
    site_feed: npt.NDArray[np.int32]
    site_low: I64
    site_high: I64
    skipped: I64
    pending: I64
    feeding: npt.NDArray[np.int32]
    registers: I64
    address: I64
    lanes: npt.NDArray[np.int64]
    requested: I64


def new_tables() -> Tables:
    """Empty tables of the largest size: 2 MB."""
    return Tables(
        np.full(_SLOTS, -1, np.int32),
        np.zeros((MAX_OPCODES, OPCODE_BYTES), np.uint8),
        np.zeros(MAX_OPCODES, np.int64),
        np.zeros(MAX_OPCODES, np.uint8),
        np.zeros(MAX_OPCODES, np.uint8),
        np.zeros(MAX_OPCODES, np.int64),
        np.full(_SLOTS, -1, np.int32),
        np.zeros(MAX_SITES, np.int64),
        np.zeros(MAX_SITES, np.int32),
        np.zeros(MAX_SITES, np.int64),
        np.full(MAX_SITES, -1, np.int32),
        np.full(MAX_SITES, 1 << 62, np.int64),
        np.full(MAX_SITES, -1, np.int64),
        np.zeros(len(KINDS), np.int64),
        np.full(256, -1, np.int64),
        np.full(256, -1, np.int32),
        np.zeros(32, np.int64),
        np.zeros(32, np.int64),
        np.zeros((1, 64), np.int64),
        np.zeros(64 * 2, np.int64),
    )


@inner
def find_opcode(buffer, begin, end, slots, texts, lengths):
    """(the opcode's number or -1, its slot)."""
    code = np.uint64(14695981039346656037)
    for k in range(begin, end):
        code = (code ^ np.uint64(buffer[k])) * np.uint64(1099511628211)
    slot = np.int64((code ^ (code >> np.uint64(29))) & np.uint64(0xFFFF))
    while slots[slot] >= 0:
        number = np.int64(slots[slot])
        same = lengths[number] == end - begin
        if same:
            for k in range(end - begin):
                same = same and texts[number, k] == buffer[begin + k]
        if same:
            return number, slot
        slot = (slot + 1) & 0xFFFF
    return np.int64(-1), slot


@hot
def learn_opcode(buffer, state, tables, kind, generic, size):
    """Enters the opcode at [TEXT, TEXT_END) of the buffer."""
    begin, end = state[TEXT], state[TEXT_END]
    _, slot = find_opcode(
        buffer, begin, end, tables.opcode_slot, tables.opcode_text, tables.opcode_bytes
    )
    number = state[N_OPCODE]
    for k in range(end - begin):
        tables.opcode_text[number, k] = buffer[begin + k]
    tables.opcode_bytes[number] = end - begin
    tables.kind[number] = kind
    tables.generic[number] = generic
    tables.size[number] = size
    tables.opcode_slot[slot] = number
    state[N_OPCODE] = number + 1


@inner
def find_site(state, tables, pc, opcode, line):
    """The number of a site, which is added if it is new; -1 if there are too many."""
    code = (np.uint64(pc) * np.uint64(0x9E3779B97F4A7C15)) ^ (
        np.uint64(opcode) * np.uint64(0xC2B2AE3D27D4EB4F)
    )
    slot = np.int64((code >> np.uint64(40)) & np.uint64(0xFFFF))
    while tables.site_slot[slot] >= 0:
        number = np.int64(tables.site_slot[slot])
        if tables.site_pc[number] == pc and tables.site_opcode[number] == opcode:
            return number
        slot = (slot + 1) & 0xFFFF
    number = state[N_SITE]
    if number >= MAX_SITES:
        return np.int64(-1)
    tables.site_slot[slot] = number
    tables.site_pc[number] = pc
    tables.site_opcode[number] = opcode
    tables.site_line[number] = line
    state[N_SITE] = number + 1
    return number
