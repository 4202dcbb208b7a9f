"""What the interpreter works on: arrays, made once for a launch."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba.core import types

from memsim.compile import inner
from tracegen.execution.listed import Listed, opening

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
U32 = npt.NDArray[np.uint32]
U8 = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
I64Rows = npt.NDArray[np.int64]
I32Rows = npt.NDArray[np.int32]
U32Rows = npt.NDArray[np.uint32]
"""Names tell compiled code how many axes an array has."""


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
    """Granules of the stage; those of remembered accesses stay there when the group has ended."""
    GROUP_GRANULES = 13
    """That the accesses of the group that runs have."""
    PC = 14
    """The next micro-operation of the sub-groups that run, and the lowest at which others of the batch, or other lanes, wait."""
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
    REFERENCES = 25
    """Groups that may be copied for others; the latest that was; and 1 + the number of the one that runs, 0 where that is none."""
    LATEST = 26
    REFERENCE = 27
    IS_LOCAL = 28
    """Whether all lanes of the latest access by a generic address accessed local memory."""
    MISSED = 29
    """Whether a load read a part of local memory where a store had left out its value."""


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
    ALL_WAIT = 17
    """Whether all its lanes wait at a barrier."""
    PROGRESS = 18
    """Accesses, or barriers (Size.BY_BARRIERS), so far; known where there are windows."""
    RECORDS = 19
    """Whether it is recorded."""
    EDGE = 20
    """The progress at which that changes, -1 where it has passed the end of its window."""
    IN_STEP = 21
    """What had been waited for, as SETTLED, at the latest barrier."""
    BRINGS = 22
    """Whether it has started a copy of a tile to local memory."""
    RANK = 23
    """The number of its group in the cluster."""
    ARRIVALS = 24
    """At the cluster's barrier."""


N_WARP = 32
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
    """Places in a row of State.facts: an access that an instruction made, whose lanes' addresses are those of State.pattern plus
    the address of the first active one; see repeats. Each instruction has SLOTS rows, the first of which has MISSES, NEXT, TRIED and
    USED for all."""

    ACTIVE = 0
    """The active lanes, 0 where nothing is remembered."""
    PHASE = 1
    """The first address modulo 32, or a smaller power of two."""
    LOW = 2
    """Bounds of all bytes, from the first address on."""
    HIGH = 3
    REGION = 4
    FORM = 5
    """1 for neighbouring elements, 2 for the same one."""
    MISSES = 6
    PATH = 7
    """The hash of the path before, and its row of work."""
    ROW = 8
    CONFLICTS = 9
    """Passes that conflicts add, and wide ones."""
    WIDE = 13
    FIRST = 10
    """The first address, and the places of its granules in the stage, BEGIN -1 where they are not there."""
    BEGIN = 11
    END = 12
    NEXT = 14
    """The row to which the next access is written, and the one that is tried first."""
    TRIED = 15
    USED = 16
    """Rows that something was written to."""


class Staged(IntEnum):
    """Columns of Stage.rows: an access. Its granules are those of the stage from BEGIN to END, plus SHIFT; WHOSE sub-group of the group
    it is."""

    ACCESS = 0
    WAITS = 1
    LANES = 2
    WORK = 3
    WHOSE = 4
    BEGIN = 5
    END = 6
    SHIFT = 7


class Reference(IntEnum):
    """Columns of State.references, a group that may be copied: which, where it is in the recording, what it counted, how often it
    was copied, and its place in the list of groups. Behind them are the least and greatest distance of all checks, and of all accesses, by which it may be moved."""

    GROUP = 0
    ACCESS = 1
    ACCESS_END = 2
    GRANULE = 3
    GRANULE_END = 4
    SUBGROUP = 5
    INSTRUCTIONS = 6
    LANE_ACCESSES = 7
    STEPS = 8
    TIMES = 9
    POSITION = 10


N_FACTS, N_STAGED = len(Fact), len(Staged)
SLOTS, GLOBAL_SLOTS = 8, 4
"""Accesses of an instruction that are remembered, and to global memory: sub-groups whose parts of a tile have their pieces exchanged have
up to four on NVIDIA's GPUs, eight on AMD's. Conflicts take longest to count; others take longer to look for than to do."""
MOST_STAGED = 1 << 13
"""Granules that a group leaves in the stage for the next ones."""
MOST_LOADS = 64
"""Loads that AMD's counters can tell apart."""
N_BARRIERS = 16
LOCAL_PART = 16
"""Bytes of local memory of which it is noted together whether they are read; see State.left_out."""

(
    DONE, FULL, PAUSED, FAULT, GO_ON,
) = range(5)  # fmt: skip
"""Why the interpreter returned: all groups have ended; a buffer must grow; STEPS_LEFT have passed; see Counter.FAULT."""
(
    OUT_OF_BOUNDS, MISALIGNED, OUT_OF_LOCAL, OUT_OF_PRIVATE, TRAPPED, ASSERTED, UNKNOWN, NO_PLACE, STUCK_LANES, STUCK_BARRIER,
    ENDLESS, OUT_OF_TENSOR, WRONG_MAP,
) = range(1, 14)  # fmt: skip
"""Kinds of faults. NO_PLACE: a jump to an address with no instruction; OUT_OF_TENSOR: beyond tensor memory;
WRONG_MAP: a tensor map that does not fit the copy."""


class Stage(NamedTuple):
    """Growing columns of what the group that runs accessed, in the order in which it did, see Staged, and of granules.

    order : room for the accesses' numbers, one sub-group after another
    """

    rows: I64
    order: I32
    granule: I64
    byte_mask: U32
    lane_groups: U8
    lane_hits: U8


class Recording(NamedTuple):
    """Growing columns of what is recorded; see Recorded in run.py. windows : (n_group, 2) of progress, see Execution.run

    like : (n_group,) see Recorded"""

    access: I32
    waits: I32
    lanes: U8
    granule_end: I64
    work: I32
    granule: I64
    byte_mask: U32
    lane_groups: U8
    lane_hits: U8
    row_end: I64
    row_segment: I32
    row_count: I32
    subgroup_accesses: I64
    tail: I32
    progress: I64
    runs: I64
    windows: I64Rows
    like: I64


class State(NamedTuple):
    """table : (n, 12) int32, micro-operations whose rows are offsets in bytes
    rows : address of the first row of each sub-group, then row_bytes a row, where its batch lies;  masks : (n_subgroup, n_mask)
    lane_pc, lane_waits : (n_subgroup, 64) where lanes that are not active go on, and the row or mask that they wait for
    slots : (n_subgroup, 8) the latest access of each scoreboard;  loads : (n_subgroup, MOST_LOADS) the latest loads
    copies, marks : (n_subgroup, MOST_LOADS) the last access of each group of copies, and its barrier in memory
    places : address of an instruction / 16 -> micro-operation, -1 for none
    region_base, region_end : arrays in the address map, ascending;  region_host : address here minus address there
    hidden : of each region, whether its accesses are not recorded
    region_use : 1 where a load took a value from it, plus 2 where a store left out its value
    left_out : of parts of local memory, whether the group has left out what it stores there; empty where no load asks
    hints : by access of the code, the region it met last;  stays : whether it must not meet another
    local : bytes of the groups of a cluster, see operations.GROUP_BITS;  local_start : (n, 3) see run.Launch;  private_at : address of each sub-group's private memory, [word][lane]
    groups : id of the first group of each cluster;  group_slots : of each group the place of its first sub-group's private memory
    grid, cluster : clusters, and groups of a cluster, along each axis
    tensor : see tile_products, of each group of a cluster
    segment_count : executions of each segment;  local_counts : (n_instruction, 4), see Recorded
    path, touched, pending : (n_subgroup, ...) the latest segments since a sub-group's last access, and the counts of those before
    who : sub-groups that run together;  chunks : (see Chunk, MOST_CHUNKS)
    facts, pattern : (n_place * SLOTS, ...), see Fact
    steps, check_steps, check_kinds, first_check : see affine.Movement;  shifts : (n_place,) granules
    along : (n_group, n_axis) numbers of groups;  away : (n_axis,) by which one differs from another
    references : see Reference;  reference_counts : executions of segments, local_counts and runs of each
    """

    counters: I64
    table: I32Rows
    rows: I64
    masks: I64Rows
    subgroups: I64Rows
    lane_pc: I32Rows
    lane_waits: I64Rows
    slots: I32Rows
    loads: I32Rows
    copies: I32Rows
    marks: I32Rows
    places: I32
    region_base: I64
    region_end: I64
    region_host: I64
    hidden: Flags
    region_use: U8
    left_out: U8
    hints: I32
    stays: Flags
    banks: I64
    bank_bytes: I64
    local: U8
    local_start: I64Rows
    tensor: U8
    private_at: I64
    groups: I64
    group_slots: I64
    grid: I64
    cluster: I64
    group_rows: I64
    initial: I64
    barrier_arrived: I64
    barrier_needed: I64
    barrier_votes: I64Rows
    segment_count: I64
    local_counts: I64Rows
    path: I32Rows
    touched: I32Rows
    pending: I64Rows
    who: I64
    chunks: I64Rows
    facts: I64Rows
    pattern: I32Rows
    row_keys: I64
    row_values: I32
    scratch: I64
    requested: I64
    lane_lists: I64Rows
    listed_addresses: I64
    noted: U32Rows
    word: I64
    in_bank: I64
    keys: I32
    spread: I64
    along: I64Rows
    away: I64
    steps: I64Rows
    check_steps: I64Rows
    check_kinds: I32
    first_check: I32
    shifts: I64
    references: I64Rows
    reference_counts: I64Rows
    sizes: I64
    stage: Any
    out: Any


class Size(IntEnum):
    """Places in State.sizes: numbers that do not change during a run."""

    LANES = 0
    ROW_BYTES = 1
    N_SUBGROUP = 2
    """Of all groups of a cluster, which run together."""
    PRIVATE_WORDS = 3
    PRIVATE_BASE = 4
    N_REGION = 5
    RECORD = 6
    ITEMS = 7
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
    MOVES = 15
    """Whether groups may be copied."""
    ENDS = 16
    """Rows of work for which there must be room before an access of a batch; granules; and accesses, of which a copy of a tile has as many as
    it has granules at most: where its rows go back to lower addresses, an access ends."""
    ROOM = 17
    ACCESSES = 18
    IN_GROUP = 19
    """Sub-groups of a group."""
    LOCAL_BYTES = 20
    """Of a group."""
    IN_CLUSTER = 21
    """Groups of a cluster."""
    ONLY_NOTES = 8
    """Whether it is noted of those groups which others they are like, instead of what they access."""


_KINDS = {
    "I64": types.Array(types.int64, 1, "C"),
    "I64Rows": types.Array(types.int64, 2, "C"),
    "I32": types.Array(types.int32, 1, "C"),
    "I32Rows": types.Array(types.int32, 2, "C"),
    "U32": types.Array(types.uint32, 1, "C"),
    "U32Rows": types.Array(types.uint32, 2, "C"),
    "U8": types.Array(types.uint8, 1, "C"),
    "Flags": types.Array(types.uint8, 1, "C"),
}


def _attributes(arrays: type, first: int) -> dict[str, tuple[int, Any]]:
    kinds = {name: kind.__forward_arg__ for name, kind in arrays.__annotations__.items()}
    kept = ((name, kind) for name, kind in kinds.items() if kind != "Any")
    return {name: (first + k, _KINDS[kind]) for k, (name, kind) in enumerate(kept)}


_ARRAYS = _attributes(State, 0)
_STAGE = len(_ARRAYS)
_OUT = _STAGE + len(Stage._fields)
opened = opening(
    Listed(
        "State",
        {
            **_ARRAYS,
            "stage": (_STAGE, Listed("Stage", _attributes(Stage, 0))),
            "out": (_OUT, Listed("Recording", _attributes(Recording, 0))),
        },
    )
)
"""In compiled code the State whose arrays a table lists."""


def listed(state: State) -> I64:
    """The table of a state's arrays: address, length and columns of each, in the order of the fields."""
    arrays = [*state[:-2], *state.stage, *state.out]
    return np.array([(one.ctypes.data, *one.shape, 1)[:3] for one in arrays], np.int64).reshape(-1)


@inner
def of_group(state, subgroup):  # type: ignore[no-untyped-def]
    """The first sub-group of a sub-group's group, and the one behind its last."""
    first = state.subgroups[subgroup, Warp.RANK] * state.sizes[Size.IN_GROUP]
    return first, first + state.sizes[Size.IN_GROUP]


@inner
def source_mask(masks, number):  # type: ignore[no-untyped-def]
    """A source mask: its number twice, plus 1 where it is negated."""
    value = masks[number >> 1]
    return ~value if number & 1 else value


@inner
def put_mask(masks, number, active, value):  # type: ignore[no-untyped-def]
    masks[number] = masks[number] & ~active | value & active


@inner
def granules_at(columns, n):  # type: ignore[no-untyped-def]
    """The addresses of columns of granules, from the n-th on."""
    return (
        np.int64(columns.granule.ctypes.data) + 8 * n,
        np.int64(columns.byte_mask.ctypes.data) + 4 * n,
        np.int64(columns.lane_groups.ctypes.data) + n,
        np.int64(columns.lane_hits.ctypes.data) + n,
    )
