"""Sub-groups' accesses as Accel-Sim's text, into a buffer of bytes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import hot, inner
from memsim.formats.accel_sim.lanes import element_bytes, hand_out, share_out, take_some

I64 = npt.NDArray[np.int64]

LOAD, STORE, ATOMIC = range(3)
PC_OF_SITE = 0x100
"""Sixteen instructions: an access that no single one can make is written as several."""
_PARTS = 16
MOST_GRANULES = 512
ACCESS_BYTES = 1 << 21
"""The longest text of one access: 2048 lines, which its bytes one by one in one group would take."""
_LOADS, _FIRST_REGISTER = 60, 8

# Words of `state`.
BYTES, INSTRUCTIONS, FRESH, USED, SEQUENCE, PREVIOUS_PC, N_LOAD, STATE_WORDS = range(8)


class AccessColumns(NamedTuple):
    """Columns of a Trace; for each site its kind, its size and the text of its opcode.

    opcode : (n_site, 5, 24) uint8, by log2 of the width;  opcode_bytes : (n_site, 5)
    """

    site: npt.NDArray[np.int32]
    starts: npt.NDArray[np.bool_]
    waits: npt.NDArray[np.int32]
    lanes: npt.NDArray[np.uint8]
    granule_offset: I64
    granule: I64
    byte_mask: npt.NDArray[np.uint32]
    lane_groups: npt.NDArray[np.uint8]
    lane_hits: npt.NDArray[np.uint8]
    kind: npt.NDArray[np.uint8]
    size: I64
    opcode: npt.NDArray[np.uint8]
    opcode_bytes: I64


class Scratch(NamedTuple):
    share: I64
    room: I64
    next_lane: I64
    address: I64
    left: I64
    pairs: I64
    loads: I64


def new_scratch(most_granules: int) -> Scratch:
    return Scratch(
        np.zeros((max(most_granules, 1), 4), np.int64),
        np.zeros((3, 4), np.int64),
        np.zeros(4, np.int64),
        np.zeros(32, np.int64),
        np.zeros(max(most_granules, 1), np.int64),
        np.zeros(max(most_granules, 1), np.int64),
        np.full(_LOADS, -1, np.int64),
    )


@inner
def _letters(text, at, letters, n):
    for k in range(n):
        text[at + k] = letters[k]
    return at + n


@inner
def _hexadecimal(text, at, value, least):
    n = np.int64(1)
    while n < 16 and value >> (4 * n):
        n += 1
    n = max(n, least)
    for k in range(n):
        digit = (value >> (4 * (n - 1 - k))) & 15
        text[at + k] = 48 + digit if digit < 10 else 87 + digit
    text[at + n] = 32
    return at + n + 1


@inner
def _decimal(text, at, value):
    if value < 0:
        text[at] = 45
        at += 1
        value = -value
    n, power = np.int64(1), np.int64(10)
    while value >= power:
        n += 1
        power *= 10
    for k in range(n):
        text[at + n - 1 - k] = 48 + value % 10
        value //= 10
    text[at + n] = 32
    return at + n + 1


@inner
def _register(text, at, number):
    text[at] = 82
    return _decimal(text, at + 1, number)


@inner
def _plain(text, at, pc, letters):
    """An instruction without registers and addresses."""
    at = _hexadecimal(text, at, pc, 4)
    at = _hexadecimal(text, at, np.int64(0xFFFFFFFF), 8)
    at = _decimal(text, at, 0)
    at = _letters(text, at, letters, len(letters))
    for _ in range(3):
        at = _decimal(text, at, 0)
    text[at - 1] = 10
    return at


@inner
def _line(text, at, pc, active, source, site, width_power, loads_to, awaited, address):
    kind = np.int64(source.kind[site])
    at = _hexadecimal(text, at, pc, 4)
    at = _hexadecimal(text, at, active, 8)
    if loads_to >= 0:
        at = _register(text, _decimal(text, at, 1), loads_to)
    else:
        at = _decimal(text, at, 0)
    at = _letters(
        text, at, source.opcode[site, width_power], source.opcode_bytes[site, width_power]
    )
    if kind == LOAD:
        at = _register(text, _decimal(text, at, 1), awaited if awaited >= 0 else 2)
    else:
        at = _register(text, _decimal(text, at, 2), 2)
        at = _register(text, at, awaited if awaited >= 0 else 4)
    at = _decimal(text, at, np.int64(1) << width_power)
    first, last, n = np.int64(-1), np.int64(-1), np.int64(0)
    stride = np.int64(0)
    regular = True
    for lane in range(32):
        if not (active >> lane) & 1:
            continue
        if first < 0:
            first = lane
        elif n == 1:
            stride = address[lane] - address[last]
            regular = lane == last + 1 and -(1 << 31) < stride < (1 << 31)
        else:
            regular = regular and lane == last + 1 and address[lane] - address[last] == stride
        last = lane
        n += 1
    regular = regular and n > 1
    at = _decimal(text, at, 1 if regular else 0)
    for lane in range(first, last + 1):
        if not (active >> lane) & 1:
            continue
        text[at], text[at + 1] = 48, 120
        at = _hexadecimal(text, at + 2, address[lane], 1)
        if regular:
            break
    if regular:
        at = _decimal(text, at, stride)
    at = _decimal(text, at, 0)
    text[at - 1] = 10
    return at


@inner
def _awaited(state, scratch, wait):
    """The register that the access `wait` loaded, -1 where it has been used again since."""
    for k in range(_LOADS):
        if scratch.loads[k] == wait:
            return np.int64(_FIRST_REGISTER + 4 * k)
    return np.int64(-1)


@inner
def _access(text, at, state, source, scratch, i, index, nop, has_hits):
    site = np.int64(source.site[i])
    kind = np.int64(source.kind[site])
    pc = PC_OF_SITE * (site + 1)
    wait = np.int64(source.waits[i])
    awaited = _awaited(state, scratch, wait) if wait >= 0 else np.int64(-1)
    used = max(state[USED], wait) if awaited >= 0 else state[USED]
    begins = (
        state[FRESH] != 0 or pc <= state[PREVIOUS_PC] or (kind == LOAD and used >= state[SEQUENCE])
    )
    if source.starts[i] and not begins:
        # A fall of the PC is a back-edge, which begins a sequence.
        at = _plain(text, at, np.int64(0), nop)
        state[INSTRUCTIONS] += 1
        begins = True
    state[USED], state[FRESH] = used, 0
    if begins:
        state[SEQUENCE] = index
    loads_to = np.int64(-1)
    if kind == LOAD:
        k = state[N_LOAD] % _LOADS
        scratch.loads[k] = index
        loads_to = np.int64(_FIRST_REGISTER + 4 * k)
        state[N_LOAD] += 1
    first, last = source.granule_offset[i], source.granule_offset[i + 1]
    n = last - first
    granules, masks = source.granule[first:last], source.byte_mask[first:last]
    groups = source.lane_groups[first:last]
    hits = source.lane_hits[first:last] if has_hits else groups
    size = source.size[site]
    width = element_bytes(source.byte_mask, first, last, size)
    power = np.int64(0)
    while (1 << power) < width:
        power += 1
    n_lane = np.int64(source.lanes[i])
    whole = width == size and share_out(
        masks, groups, hits, has_hits, n, n_lane, width, scratch.share, scratch.room
    )
    if whole:
        active = hand_out(
            granules, masks, n, width, scratch.share, scratch.next_lane, scratch.address
        )
        at = _line(
            text, at, pc, active, source, site, power, loads_to, awaited, scratch.address
        )  # fmt: skip
        state[INSTRUCTIONS] += 1
        state[PREVIOUS_PC] = pc
        return at
    for g in range(n):
        scratch.left[g] = np.int64(masks[g])
        scratch.pairs[g] = np.int64(groups[g])
    part = np.int64(0)
    while True:
        active = take_some(
            granules, masks, groups, n, width, scratch.left, scratch.pairs,
            scratch.next_lane, scratch.address,
        )  # fmt: skip
        if active == 0:
            break
        at = _line(
            text, at, pc + 16 * min(part, _PARTS - 1), active, source, site, power, loads_to,
            awaited, scratch.address,
        )  # fmt: skip
        state[INSTRUCTIONS] += 1
        state[PREVIOUS_PC] = pc + 16 * min(part, _PARTS - 1)
        part += 1
    return at


@hot
def write_accesses(text, state, source, scratch, first, begin, end, bar, nop, has_hits):
    """Writes accesses [begin, end) of the sub-group that starts at `first`, until the text is full.

    bar, nop : the words of these opcodes. Returns the access to go on with.
    """
    at = state[BYTES]
    i = begin
    if begin == first:
        state[FRESH], state[USED], state[SEQUENCE] = 1, -1, 0
        state[PREVIOUS_PC], state[N_LOAD], state[INSTRUCTIONS] = -1, 0, 0
        for k in range(_LOADS):
            scratch.loads[k] = -1
    while i < end and at + ACCESS_BYTES < len(text):
        if source.site[i] < 0:
            state[PREVIOUS_PC] = max(state[PREVIOUS_PC], 0) + 16
            at = _plain(text, at, state[PREVIOUS_PC], bar)
            state[INSTRUCTIONS] += 1
            state[SEQUENCE] = i - first
            state[FRESH] = 1
        elif source.lanes[i] > 0 and source.granule_offset[i + 1] > source.granule_offset[i]:
            at = _access(text, at, state, source, scratch, i, i - first, nop, has_hits)
        i += 1
    state[BYTES] = at
    return i
