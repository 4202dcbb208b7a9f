"""What the interpreter works on: arrays, made once for a launch."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import inner
from tracegen.execution.words import i32, i32_rows, i64, i64_rows, u8, u32, u32_rows

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]


class Counter(IntEnum):
    """Places in State.counters: what the run as a whole counts, where it is, and why it stopped."""

    POSITION = 0
    """Of the group that runs, in the list of groups."""
    RUNNING = 1
    """Whether a group has begun and not ended."""
    SUBGROUP = 2
    N_ACCESS = 3
    """Accesses of groups that have ended."""
    N_GRANULE = 4
    N_ROW = 5
    """Rows of work."""
    N_ROW_ENTRY = 6
    STAGED = 7
    """Accesses of the group that runs."""
    STEPS_LEFT = 9
    """Until the run pauses."""
    INSTRUCTIONS = 10
    """Micro-operations."""
    LANE_ACCESSES = 11
    STAGED_GRANULES = 12
    RUNNING_SUBGROUPS = 13
    """Of the batch, those that execute the same micro-operation."""
    PC = 14
    """The next one of these, and the lowest at which others of the batch, or other lanes of these, wait."""
    LIMIT = 20
    FAULT = 15
    FAULT_INSTRUCTION = 16
    FAULT_LANE = 17
    FAULT_ADDRESS = 18
    FAULT_SUBGROUP = 19
    N_SUBGROUP = 21
    """Sub-groups whose groups have ended."""
    FAULT_ARRAY = 8
    """1 + the region that the address derives from, 0 where that is not known."""
    CLOCK = 23
    UNRECORDED = 22
    """Accesses, where nothing is recorded."""
    GO_ON = 24
    """Whether sub-groups that have passed their window go on, for others wait for them at a barrier."""


N_COUNTERS = 32


class Warp(IntEnum):
    """Places in a row of State.subgroups."""

    PC = 0
    ACTIVE = 1
    LIVE = 2
    BLOCKED = 3
    """Lanes that wait in JOIN_WAIT or SYNC_LANES."""
    LIMIT = 4
    """The lowest micro-operation at which lanes wait that are not active; a block there is theirs too."""
    N_ACCESS = 5
    SETTLED = 6
    """The latest access that has been waited for, -1 for none."""
    AT_BARRIER = 7
    """Lanes that have arrived at a barrier."""
    BARRIER = 8
    """1 + the number of the barrier that the sub-group waits at, 0 where it runs."""
    N_LOADS = 9
    N_SCALAR = 10
    """The latest scalar load, 1 + its number."""
    RESULT = 11
    """The micro-operation of the barrier, whose results are written when it opens."""
    ENDED = 12
    N_COPIES = 13
    PATH_LENGTH = 14
    PATH_HASH = 15
    N_TOUCHED = 16
    N_GRANULE = 17
    ALL_WAIT = 18
    """Whether all its lanes wait at a barrier."""
    PROGRESS = 19
    """Accesses, or barriers (Size.BY_BARRIERS), so far; known where there are windows."""
    RECORDS = 20
    """Whether it is recorded."""
    EDGE = 21
    """The progress at which that changes, -1 where it has passed the end of its window."""


N_WARP = 24
MOST_CHUNKS = 16
"""Of 32 lanes, that run together."""


class Chunk(IntEnum):
    """Rows of State.chunks: of each 32 lanes that run, the address of their part of row 0, and masks of 32 bits."""

    PLACE = 0
    ACTIVE = 1
    HERE = 2
    M = 3
    N = 4
    FIRST = 5
    SECOND = 6


class Fact(IntEnum):
    """Places in a row of State.facts: the access that an instruction made last, if its lanes' addresses were those of State.pattern
    plus the address of the first active one; see memory."""

    ACTIVE = 0
    PHASE = 1
    """The first address modulo 32."""
    LOW = 2
    """Bounds of all bytes, from the first address on."""
    HIGH = 3
    GRANULES = 4
    FORM = 5
    """1 for neighbouring elements, 2 for the same one."""
    MISSES = 6
    PATH = 7
    """The hash of the path before, and its row of work."""
    ROW = 8
    CONFLICTS = 9


N_FACTS = 10
MOST_PATTERN = 64
"""Granules of a pattern that is remembered."""
MOST_LOADS = 64
"""Loads that AMD's counters can tell apart."""
N_BARRIERS = 16

(
    DONE, FULL, PAUSED, FAULT,
) = range(4)  # fmt: skip
"""Why the interpreter returned: all groups have ended; a buffer must grow; STEPS_LEFT have passed; see Counter.FAULT."""
(
    OUT_OF_BOUNDS, MISALIGNED, OUT_OF_LOCAL, OUT_OF_PRIVATE, TRAPPED, ASSERTED, UNKNOWN, NO_PLACE, STUCK_LANES, STUCK_BARRIER,
    ENDLESS, NOT_HERE,
) = range(1, 13)  # fmt: skip
"""Kinds of faults. NO_PLACE: a jump to an address with no instruction; NOT_HERE: a place that memory does not have."""


class Stage(NamedTuple):
    """Growing columns of what the group that runs accessed, in the order in which it did. whose : sub-group of the group"""

    access: I32
    waits: I32
    lanes: npt.NDArray[np.uint8]
    granule_end: I64
    work: I32
    whose: I32
    granule: I64
    byte_mask: npt.NDArray[np.uint32]
    lane_groups: npt.NDArray[np.uint8]
    lane_hits: npt.NDArray[np.uint8]


class Recording(NamedTuple):
    """Growing columns of what is recorded; see Recorded in run.py. windows : (n_group, 2) of progress, see Execution.run"""

    access: I32
    waits: I32
    lanes: npt.NDArray[np.uint8]
    granule_end: I64
    work: I32
    granule: I64
    byte_mask: npt.NDArray[np.uint32]
    lane_groups: npt.NDArray[np.uint8]
    lane_hits: npt.NDArray[np.uint8]
    row_end: I64
    row_segment: I32
    row_count: I32
    subgroup_accesses: I64
    tail: I32
    progress: I64
    runs: I64
    windows: I64


class State(NamedTuple):
    """table : (n, 12) int32, micro-operations whose rows are offsets in bytes
    rows : address of the first row of each sub-group, then row_bytes a row, where its batch lies;  masks : (n_subgroup, n_mask)
    lane_pc, lane_waits : (n_subgroup, 64) where lanes that are not active go on, and the row or mask that they wait for
    slots : (n_subgroup, 8) the latest access of each scoreboard;  loads : (n_subgroup, MOST_LOADS) the latest loads
    places : address of an instruction / 16 -> micro-operation, -1 for none
    region_base, region_end : arrays in the address map, ascending;  region_host : address here minus address there
    hidden : of each region, whether its accesses are not recorded
    region_use : 1 where a load took a value from it, plus 2 where a store left out its value
    hints : by access of the code, the region it met last;  stays : whether it must not meet another
    local : bytes of the group;  private_at : address of each sub-group's private memory, [word][lane]
    groups : ids;  group_slots : of each group the place of its first sub-group's private memory
    segment_count : executions of each segment;  local_counts : (n_instruction, 3)
    path, touched, pending : (n_subgroup, ...) the latest segments since a sub-group's last access, and the counts of those before
    who : sub-groups that run together;  chunks : (see Chunk, MOST_CHUNKS)
    facts, pattern : (n_place, ...), see Fact;  pattern_granule and so on : (n_place * MOST_PATTERN,)
    """

    counters: I64
    table: I32
    rows: I64
    masks: I64
    subgroups: I64
    lane_pc: I32
    lane_waits: I64
    slots: I32
    loads: I32
    copies: I32
    places: I32
    region_base: I64
    region_end: I64
    region_host: I64
    hidden: npt.NDArray[np.bool_]
    region_use: npt.NDArray[np.uint8]
    hints: I32
    stays: npt.NDArray[np.bool_]
    banks: I64
    bank_bytes: I64
    local: npt.NDArray[np.uint8]
    private_at: I64
    groups: I64
    group_slots: I64
    grid: I64
    group_rows: I64
    initial: I64
    barrier_arrived: I64
    barrier_needed: I64
    barrier_votes: I64
    segment_count: I64
    local_counts: I64
    path: I32
    touched: I32
    pending: I64
    who: I64
    chunks: I64
    facts: I64
    pattern: I64
    pattern_granule: I64
    pattern_mask: npt.NDArray[np.uint32]
    pattern_groups: npt.NDArray[np.uint8]
    pattern_hits: npt.NDArray[np.uint8]
    row_keys: I64
    row_values: I32
    scratch: I64
    requested: I64
    lane_lists: I64
    listed_addresses: I64
    noted: npt.NDArray[np.uint32]
    word: I64
    in_bank: I64
    keys: I32
    ranks: I32
    sizes: I64
    stage: Any
    out: Any


class Size(IntEnum):
    """Places in State.sizes: numbers that do not change during a run."""

    LANES = 0
    ROW_BYTES = 1
    N_SUBGROUP = 2
    PRIVATE_WORDS = 3
    PRIVATE_BASE = 4
    N_REGION = 5
    RECORD = 6
    ITEMS = 7
    MOST_STEPS = 8
    LAST_LANES = 9
    """Lanes of a group's last sub-group."""
    UNIFORM = 10
    """Whether control flow is explicit: all lanes always run, as AMD's code has it."""
    WIDTH = 11
    """Lanes of a sub-group; rows may have more."""
    BATCH = 12
    """Sub-groups that run together."""
    WINDOWED = 13
    """Whether sub-groups are recorded in windows of their progress, and end behind them."""
    BY_BARRIERS = 14
    """Whether progress is barriers."""


@inner
def opened(table):  # type: ignore[no-untyped-def]
    """The State whose arrays a table lists. What a function does not use of it costs nothing, and functions that
    take the table alone are called in a nanosecond: to hand over sixty arrays took a hundred."""
    stage = Stage(
        i32(table, 55),  # access
        i32(table, 56),  # waits
        u8(table, 57),  # lanes
        i64(table, 58),  # granule_end
        i32(table, 59),  # work
        i32(table, 60),  # whose
        i64(table, 61),  # granule
        u32(table, 62),  # byte_mask
        u8(table, 63),  # lane_groups
        u8(table, 64),  # lane_hits
    )
    out = Recording(
        i32(table, 65),  # access
        i32(table, 66),  # waits
        u8(table, 67),  # lanes
        i64(table, 68),  # granule_end
        i32(table, 69),  # work
        i64(table, 70),  # granule
        u32(table, 71),  # byte_mask
        u8(table, 72),  # lane_groups
        u8(table, 73),  # lane_hits
        i64(table, 74),  # row_end
        i32(table, 75),  # row_segment
        i32(table, 76),  # row_count
        i64(table, 77),  # subgroup_accesses
        i32(table, 78),  # tail
        i64(table, 79),  # progress
        i64(table, 80),  # runs
        i64_rows(table, 81),  # windows
    )
    return State(
        i64(table, 0),  # counters
        i32_rows(table, 1),  # table
        i64(table, 2),  # rows
        i64_rows(table, 3),  # masks
        i64_rows(table, 4),  # subgroups
        i32_rows(table, 5),  # lane_pc
        i64_rows(table, 6),  # lane_waits
        i32_rows(table, 7),  # slots
        i32_rows(table, 8),  # loads
        i32_rows(table, 9),  # copies
        i32(table, 10),  # places
        i64(table, 11),  # region_base
        i64(table, 12),  # region_end
        i64(table, 13),  # region_host
        u8(table, 14),  # hidden
        u8(table, 15),  # region_use
        i32(table, 16),  # hints
        u8(table, 17),  # stays
        i64(table, 18),  # banks
        i64(table, 19),  # bank_bytes
        u8(table, 20),  # local
        i64(table, 21),  # private_at
        i64(table, 22),  # groups
        i64(table, 23),  # group_slots
        i64(table, 24),  # grid
        i64(table, 25),  # group_rows
        i64(table, 26),  # initial
        i64(table, 27),  # barrier_arrived
        i64(table, 28),  # barrier_needed
        i64_rows(table, 29),  # barrier_votes
        i64(table, 30),  # segment_count
        i64_rows(table, 31),  # local_counts
        i32_rows(table, 32),  # path
        i32_rows(table, 33),  # touched
        i64_rows(table, 34),  # pending
        i64(table, 35),  # who
        i64_rows(table, 36),  # chunks
        i64_rows(table, 37),  # facts
        i64_rows(table, 38),  # pattern
        i64(table, 39),  # pattern_granule
        u32(table, 40),  # pattern_mask
        u8(table, 41),  # pattern_groups
        u8(table, 42),  # pattern_hits
        i64(table, 43),  # row_keys
        i32(table, 44),  # row_values
        i64(table, 45),  # scratch
        i64(table, 46),  # requested
        i64_rows(table, 47),  # lane_lists
        i64(table, 48),  # listed_addresses
        u32_rows(table, 49),  # noted
        i64(table, 50),  # word
        i64(table, 51),  # in_bank
        i32(table, 52),  # keys
        i32(table, 53),  # ranks
        i64(table, 54),  # sizes
        stage,
        out,
    )


def listed(state: State) -> I64:
    """The table of a state's arrays: address, length and columns of each, in the order of the fields."""
    arrays = [*state[:-2], *state.stage, *state.out]
    return np.array([(one.ctypes.data, *one.shape, 1)[:3] for one in arrays], np.int64).reshape(-1)
