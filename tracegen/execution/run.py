"""Runs groups of a launch, and returns what they accessed."""

from __future__ import annotations

import ctypes
import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.trace import ArrayExtent
from tracegen.execution import operations as o
from tracegen.execution import state as s
from tracegen.execution import tile_products
from tracegen.execution.affine import Movement, movement
from tracegen.execution.bases import bases
from tracegen.execution.bulk import MOST_GRANULES
from tracegen.execution.clusters import clusters_of, of_groups, places_of
from tracegen.execution.code import Code
from tracegen.execution.columns import grown, recording, staging
from tracegen.execution.interpreter import prepared_number, run_groups
from tracegen.execution.operations import OPERATIONS, MicroOperation
from tracegen.execution.paths import MOST_PATH
from tracegen.execution.recorded import Recorded, misses_values, recorded_of
from tracegen.execution.slicing import PRODUCTS
from tracegen.execution.state import Chunk, Counter, Reference, Size, State, listed

BATCH = 8
"""Sub-groups that run together, so that an operation is decoded once for them; the rows of more do not stay in the first cache."""
MEMORY_BYTES = 1 << 30
GRANULES_AN_ACCESS = 64 * 5
"""More than any access of lanes has: 64 lanes of 16 bytes, or words of private memory."""
FEW_GROUPS, MOST_REFERENCES = 8, 64
"""Groups that are executed before it is asked whether others may be copied, and most that others are copied from: kernels do
something else at the edges of their grid, and where rows of an array do not begin with a granule."""
GROUPS_OF_SAMPLE = 256
"""Of the grid, for what is the same all over it."""
ANALYSIS_SECONDS = 1e-4
"""A micro-operation: what it takes to find out how groups move, which runs that take less go without."""
STEPS_BETWEEN = 1 << 24
"""Blocks until the interpreter returns: a second or less, so that a run can be interrupted and tell how far it is."""
EVERYTHING = 1 << 62
"""An end of a window that no sub-group comes to."""
MOST_STEPS = 1 << 32
"""Blocks of one group, after which it is taken to be endless."""
_BYTE_FIELDS = ("d", "e", "a", "b", "c")
_ACCESSES = o.numbers(*o.ACCESSES)


@dataclass(frozen=True, kw_only=True)
class Region:
    """An array of the address map, and where its bytes are on this computer.

    content : uint8, writable where the code may write it
    hidden : whether accesses to it are not recorded, as those of AMD's arguments
    """

    extent: ArrayExtent
    content: npt.NDArray[np.uint8]
    hidden: bool = False


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One launch of a kernel, with its memory.

    grid, group_shape : groups, and work-items of a group, along three axes
    cluster : groups along each axis that run together and reach each other's local memory; they divide the grid
    regions : in ascending order of their addresses
    banks : constant banks by number;  specials : values of AMD's arguments_low and the like, by name
    pointers : (constant bank, or ARGUMENTS for AMD's arguments, offset in bytes) -> the address that lies there
    local_bytes : of a group;  private_bytes : of a work-item
    local_start : offsets in local memory, and the words of 64 bits that are there at the start, in groups with even and with odd numbers in
        their clusters

    Groups are numbered in the order in which hardware begins them: cluster by cluster along the grid, and along the axes of each.
    """

    grid: Sequence[int]
    group_shape: Sequence[int]
    regions: Sequence[Region]
    cluster: Sequence[int] = (1, 1, 1)
    local_start: Sequence[tuple[int, int, int]] = ()
    banks: Mapping[int, npt.NDArray[np.uint8]] = field(default_factory=dict)
    specials: Mapping[str, int] = field(default_factory=dict)
    pointers: Mapping[tuple[int, int], int] = field(default_factory=dict)
    local_bytes: int = 0
    private_bytes: int = 0


class Fault(Exception):
    """The code did what it must not do.

    kind : see tracegen.execution.state;  instruction : its number;  group : id;  item : work-item in its group, if known
    address : of the access;  array : that its address derives from, by its number among the regions, -1 if that is not known
    waiting : (sub-group, instruction) of those that wait, where all do
    """

    def __init__(
        self,
        kind: int,
        instruction: int,
        group: int,
        item: int,
        address: int,
        array: int,
        waiting: list[tuple[int, int]],
    ) -> None:
        super().__init__(
            f"fault {kind} at instruction {instruction}, address {address:#x}, item {item}"
        )
        self.kind, self.instruction, self.group = kind, instruction, group
        self.item, self.address, self.array, self.waiting = item, address, array, waiting


class Execution:
    """The code of a launch, ready to run. Memory keeps what runs leave in it.

    places : instruction number of each access that may be recorded
    writes : whether the code writes arrays; those of a launch that it does not write may be read-only
    leaves_values : whether some stores to arrays are recorded alone
    """

    def __init__(self, code: Code, launch: Launch) -> None:
        self.code, self.launch = code, launch
        op, z = code.columns("op", "z")
        is_access = np.isin(op, _ACCESSES)
        self.places = (z[is_access] & 0xFFFFF).tolist()
        self.n_items = int(np.prod(np.array(launch.group_shape, np.int64)))
        self.n_subgroup = -(-self.n_items // code.width)
        self.in_cluster = math.prod(launch.cluster)
        self.at_once = self.in_cluster * self.n_subgroup
        self.writes, self.leaves_values = writes_arrays(code), writes_arrays(code, skipped=True)
        self.together = 1 if _is_ordered(code) else min(BATCH, self.at_once)
        self.kept: list[Any] = []
        self.state = self._state(is_access)

    def run(
        self,
        groups: npt.NDArray[np.int64],
        *,
        record: bool = True,
        slots: npt.NDArray[np.int64] | None = None,
        private_base: int = 0,
        memory_bytes: int = MEMORY_BYTES,
        progress: Callable[[int], None] | None = None,
        steps: int = STEPS_BETWEEN,
        windows: npt.NDArray[np.int64] | None = None,
        by_barriers: bool = False,
        only_notes: bool = False,
    ) -> Recorded:
        """Runs groups in the given order, which are ascending where there are clusters: those of a cluster run together. Of clusters of
        which groups are not given, these run, too, and their part of what is counted is left out.

        slots : (n_group,) for each the number of the place of its first sub-group among the machine's, for the addresses of
            private memory, which begins at private_base
        memory_bytes : of columns of what is recorded; larger ones lie in unnamed files
        progress : called with the number of groups that have ended, every so many `steps`, which are blocks
        windows : (n_group, 2) of each group, what is recorded, from the first number of accesses of a sub-group, or of barriers
            of the group (`by_barriers`), to the second, at which it ends. What lies outside is executed as far as
            addresses, branches and stores depend on it: other loads are not even checked
        only_notes : of groups that do what another does, moved, it is noted which one (Recorded.like), and nothing is recorded

        Raises Fault.
        """
        if self.writes and not all(one.content.flags.writeable for one in self.launch.regions):
            raise ValueError("code that writes arrays needs arrays that may be written")
        clusters, first, given = clusters_of(groups, self.in_cluster)
        n_cluster = len(clusters)
        if slots is None:
            slots = np.zeros(len(groups), np.int64)
        everything = np.tile(np.array([0, EVERYTHING], np.int64), (n_cluster, 1))
        out = recording(n_cluster * self.at_once, record, memory_bytes)._replace(
            runs=np.zeros(max(len(self.places), 1), np.int64),
            windows=everything
            if windows is None
            else np.ascontiguousarray(windows[first], np.int64),
            like=np.arange(n_cluster, dtype=np.int64),
        )
        group_slots = np.zeros(n_cluster * self.in_cluster, np.int64)
        group_slots[given] = slots
        sizes = self.state.sizes.copy()
        sizes[Size.RECORD], sizes[Size.PRIVATE_BASE] = record, private_base
        sizes[Size.WINDOWED] = windows is not None
        sizes[Size.BY_BARRIERS] = windows is not None and by_barriers
        sizes[Size.ONLY_NOTES] = only_notes
        state = self.state._replace(
            groups=clusters,
            group_slots=group_slots,
            sizes=sizes,
            out=out,
            row_keys=np.zeros(2 * len(out.row_end), np.int64),
            row_values=np.zeros(2 * len(out.row_end), np.int32),
        )
        every = state.groups
        if record:
            is_known = "movement" in vars(self) or windows is not None  # then groups are long
            state = (
                self._with_references(state, every)
                if is_known
                else state._replace(groups=every[:FEW_GROUPS])
            )
        used = (
            state.counters,
            state.segment_count,
            state.local_counts,
            state.pending,
            state.region_use,
            state.facts,
        )
        for array in used:
            array[:] = 0
        begin, at, since = time.perf_counter(), -1, 0
        state.counters[Counter.STEPS_LEFT] = steps
        while True:
            status = run_groups(listed(state))
            position = int(state.counters[Counter.POSITION])
            if status == s.DONE and position < len(every) and not self.needs_values:
                seconds = (time.perf_counter() - begin) * (len(every) / max(position, 1) - 1)
                if seconds > ANALYSIS_SECONDS * len(self.code.table):
                    state = self._with_references(state, every)
                state = state._replace(groups=every)
                continue
            if status == s.DONE:
                break
            if status == s.FAULT:
                raise self._fault(state)
            if status == s.FULL:
                state = grown(state, memory_bytes)
                self.state = self.state._replace(stage=state.stage)
                continue
            state.counters[Counter.STEPS_LEFT] = steps
            since = since + steps if position == at else 0
            at = position
            # It may wait for a value that no store writes.
            if self.needs_values or since > MOST_STEPS:
                state.counters[Counter.FAULT] = s.ENDLESS
                raise self._fault(state)
            if progress is not None:
                progress(position * self.in_cluster)
        recorded = recorded_of(state, time.perf_counter() - begin)
        return of_groups(recorded, given, self.in_cluster, self.n_subgroup)

    def with_clusters(self, groups: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Groups, and the others of their clusters."""
        first, _, _ = clusters_of(groups, self.in_cluster)
        return (first[:, None] + np.arange(self.in_cluster)).reshape(-1)

    @property
    def private_granules(self) -> int:
        """Of private memory that a sub-group has."""
        return int(self.state.sizes[Size.PRIVATE_WORDS] * self.state.sizes[Size.LANES] >> 3)

    @functools.cached_property
    def movement(self) -> Movement | None:
        """How groups move; None where that is not known."""
        n = int(np.prod(np.array(self.launch.grid, np.int64)))
        sample = self._places(np.unique(np.linspace(0, n - 1, GROUPS_OF_SAMPLE).astype(np.int64)))
        return movement(self.code, self._constants(), computed, sample, self._arguments)

    def _places(self, groups: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """(n_group, 3) where groups are in the grid."""
        return places_of(groups, self.launch.grid, self.launch.cluster)

    def along(self, groups: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """(n_group, n_axis) the numbers on which it depends how far groups are moved."""
        assert self.movement is not None
        return self.movement.along(self._places(groups))

    def _with_references(self, state: State, groups: npt.NDArray[np.int64]) -> State:
        """The state in which groups that do what others did are copied, if it is known how they move, and all of a cluster by the same."""
        moves = self.movement
        if moves is None or (self.in_cluster > 1 and self.launch.private_bytes):
            return state
        along = self.along(groups)
        if self.in_cluster > 1:
            each = self.along(self.with_clusters(groups)).reshape(len(groups), self.in_cluster, -1)
            if np.any(np.ptp(each - along[:, None], axis=0)):
                return state
        sizes = state.sizes.copy()
        sizes[Size.MOVES] = 1
        n = len(Reference) + 2 * (len(moves.check_steps) + len(moves.steps))
        counts = len(state.segment_count) + state.local_counts.size + len(state.out.runs)
        return state._replace(
            along=along,
            away=np.zeros(moves.steps.shape[1], np.int64),
            steps=moves.steps,
            check_steps=moves.check_steps,
            check_kinds=moves.check_kinds,
            first_check=moves.first_check,
            shifts=np.zeros(len(moves.steps), np.int64),
            references=np.zeros((MOST_REFERENCES, n), np.int64),
            reference_counts=np.zeros((MOST_REFERENCES, counts), np.int64),
            sizes=sizes,
        )

    def rows(self, first: int, n: int) -> npt.NDArray[np.uint32]:
        """(n_subgroup, n, lanes) what n rows hold after a run; those of the last group that a sub-group's place had."""
        lanes = self.code.lanes
        between = 4 * lanes * self.together
        held = []
        for address in self.state.rows.tolist():
            at = (ctypes.c_uint8 * (between * n)).from_address(address + between * first)
            held.append(np.ndarray((n, lanes), np.uint32, memoryview(at), strides=(between, 4)))
        return np.array(held)

    @property
    def needs_values(self) -> bool:
        """Whether a load of the last run read what a store did not write, in an array or in local memory; see slicing."""
        return misses_values(self.state)

    @property
    def misses_global(self) -> bool:
        return bool(np.any(self.state.region_use == 3))

    @property
    def misses_local(self) -> bool:
        return bool(self.state.counters[Counter.MISSED])

    def _fault(self, state: State) -> Fault:
        counters = state.counters
        subgroup = int(counters[Counter.FAULT_SUBGROUP])
        waiting = []
        for k in range(self.at_once):
            at = int(state.subgroups[k, 0])
            z = int(self.code.table[min(max(at - 1, 0), len(self.code.table) - 1), 11])
            if not state.subgroups[k, 12]:
                waiting.append((k, z & 0xFFFFF))
        rank, own = divmod(subgroup, self.n_subgroup)
        return Fault(
            int(counters[Counter.FAULT]),
            int(counters[Counter.FAULT_INSTRUCTION]),
            self._linear(int(state.groups[counters[Counter.POSITION]]) + rank),
            own * self.code.width + int(counters[Counter.FAULT_LANE]),
            int(counters[Counter.FAULT_ADDRESS]),
            int(counters[Counter.FAULT_ARRAY]) - 1,
            waiting,
        )

    def _linear(self, group: int) -> int:
        """The number of a group along the axes of the grid."""
        extents = (*self.launch.grid, 1, 1)[:3]
        place = self._places(np.array([group]))[0]
        return int(np.ravel_multi_index(tuple(place), extents, order="F"))

    def _state(self, is_access: npt.NDArray[np.bool_]) -> State:
        code, launch, n = self.code, self.launch, self.at_once
        local_bytes = (self.in_cluster - 1 << o.GROUP_BITS) + launch.local_bytes
        arrays = [one.extent.base_bytes for one in launch.regions]
        own = bases(code, arrays, launch.pointers, launch.specials)
        lanes, row_bytes = code.lanes, 4 * code.lanes * self.together
        n_batch = -(-n // self.together)
        memory = self._aligned(n_batch * (code.n_rows + 4) * row_bytes)
        rows = memory.view(np.uint32).reshape(n_batch, -1, self.together, lanes).swapaxes(1, 2)
        self._fill(rows)
        places = rows.ctypes.data + np.add.outer(
            np.arange(n_batch) * rows.strides[0], np.arange(self.together) * rows.strides[1]
        )
        private_words = -(-launch.private_bytes // 4)
        private = self._aligned(max(n * private_words * lanes * 4, 64))
        banks = [
            launch.banks.get(k, np.zeros(0, np.uint8))
            for k in range(1 + max(launch.banks, default=0))
        ]
        padded = [np.concatenate([bank, np.zeros(64, np.uint8)]) for bank in banks]
        self.kept += padded
        regions = launch.regions
        each, ends = GRANULES_AN_ACCESS, self.together + 2
        accesses = 2 * ends
        if np.any(code.table[is_access, 9] & 7 == o.BULK):
            each, ends = MOST_GRANULES, ends + 2 * self.together * n
            accesses = ends + self.together * MOST_GRANULES
        sizes = np.zeros(len(Size), np.int64)
        for name, value in {
            Size.LANES: lanes,
            Size.ROW_BYTES: row_bytes,
            Size.N_SUBGROUP: n,
            Size.PRIVATE_WORDS: private_words,
            Size.N_REGION: len(regions),
            Size.ITEMS: self.n_items,
            Size.WIDTH: code.width,
            Size.BATCH: self.together,
            Size.LAST_LANES: self.n_items - (self.n_subgroup - 1) * code.width,
            Size.IN_GROUP: self.n_subgroup,
            Size.LOCAL_BYTES: launch.local_bytes,
            Size.IN_CLUSTER: self.in_cluster,
            Size.UNIFORM: bool(code.masks),
            Size.ENDS: ends,
            Size.ROOM: (self.together + 2) * each,
            Size.ACCESSES: accesses,
        }.items():
            sizes[name] = value
        targets = np.full(max(code.places, default=0) // 16 + 1, -1, np.int32)
        for address, at in code.places.items():
            targets[address // 16] = at
        group_rows = np.full(3, -1, np.int64)
        for row, special in code.specials.items():
            if special.startswith("group_"):
                group_rows["xyz".index(special[-1])] = row * row_bytes
        n_segment, n_place = max(len(code.segments), 1), max(len(self.places), 1)
        n_instruction = int((code.table[:, 11] & 0xFFFFF).max(initial=0)) + 1
        cluster = np.array((*launch.cluster, 1, 1)[:3], np.int64)
        grid = np.array((*launch.grid, 1, 1)[:3], np.int64) // cluster
        return State(
            counters=np.zeros(s.N_COUNTERS, np.int64),
            table=self._table(is_access, row_bytes),
            rows=places.reshape(-1).astype(np.int64),
            masks=np.zeros((n, max(code.n_masks, 3)), np.int64),
            subgroups=np.zeros((n, s.N_WARP), np.int64),
            lane_pc=np.zeros((n, 64), np.int32),
            lane_waits=np.zeros((n, 64), np.int64),
            slots=np.zeros((n, 8), np.int32),
            loads=np.zeros((n, s.MOST_LOADS), np.int32),
            copies=np.zeros((n, s.MOST_LOADS), np.int32),
            marks=np.zeros((n, s.MOST_LOADS), np.int32),
            places=targets,
            region_base=np.array([one.extent.base_bytes for one in regions] or [0], np.int64),
            region_end=np.array(
                [one.extent.base_bytes + one.extent.size_bytes for one in regions] or [0], np.int64
            ),
            region_host=np.array(
                [one.content.ctypes.data - one.extent.base_bytes for one in regions] or [0],
                np.int64,
            ),
            hidden=np.array([one.hidden for one in regions] or [False], np.bool_),
            region_use=np.zeros(max(len(regions), 1), np.uint8),
            left_out=np.zeros(
                local_bytes // s.LOCAL_PART + 1 if _leaves_local(code) else 0, np.uint8
            ),
            hints=np.maximum(np.array(own or [0], np.int32), 0),
            stays=np.array(own or [0], np.int32) >= 0,
            banks=np.array([bank.ctypes.data for bank in padded] or [0], np.int64),
            bank_bytes=np.array([len(bank) for bank in banks] or [0], np.int64),
            local=np.zeros(local_bytes, np.uint8),
            local_start=np.array(launch.local_start, np.int64).reshape(-1, 3),
            tensor=np.zeros(
                self.in_cluster * tile_products.N_BYTES if _has_tile_products(code) else 0, np.uint8
            ),
            private_at=np.array(
                [private.ctypes.data + k * private_words * lanes * 4 for k in range(n)], np.int64
            ),
            groups=np.zeros(0, np.int64),
            group_slots=np.zeros(0, np.int64),
            grid=grid,
            cluster=cluster,
            group_rows=group_rows,
            initial=np.array(
                [mask for mask, name in code.masks.items() if name == "exec"], np.int64
            ),
            barrier_arrived=np.zeros(self.in_cluster * s.N_BARRIERS, np.int64),
            barrier_needed=np.zeros(self.in_cluster * s.N_BARRIERS, np.int64),
            barrier_votes=np.zeros((2, self.in_cluster * s.N_BARRIERS), np.int64),
            segment_count=np.zeros(n_segment, np.int64),
            local_counts=np.zeros((n_instruction, 4), np.int64),
            path=np.zeros((n, MOST_PATH), np.int32),
            touched=np.zeros((n, n_segment), np.int32),
            pending=np.zeros((n, n_segment), np.int64),
            who=np.zeros(s.MOST_CHUNKS, np.int64),
            chunks=np.zeros((len(Chunk), s.MOST_CHUNKS), np.int64),
            facts=np.zeros((n_place * s.SLOTS, s.N_FACTS), np.int64),
            pattern=np.zeros((n_place * s.SLOTS, 64), np.int32),
            row_keys=np.zeros(1, np.int64),
            row_values=np.zeros(1, np.int32),
            scratch=np.zeros(64, np.int64),
            requested=np.zeros(64 * 3, np.int64),
            lane_lists=np.zeros((1, 64), np.int64),
            listed_addresses=np.zeros(64, np.int64),
            noted=np.zeros((1, 64), np.uint32),
            word=np.zeros(32, np.int64),
            in_bank=np.zeros(32, np.int64),
            keys=np.zeros(64, np.int32),
            spread=np.zeros(3, np.int64),
            along=np.zeros((1, 1), np.int64),
            away=np.zeros(1, np.int64),
            steps=np.zeros((1, 3), np.int64),
            check_steps=np.zeros((1, 3), np.int64),
            check_kinds=np.zeros(1, np.int32),
            first_check=np.zeros(1, np.int32),
            shifts=np.zeros(1, np.int64),
            references=np.zeros((1, 1), np.int64),
            reference_counts=np.zeros((1, 1), np.int64),
            sizes=sizes,
            stage=staging(),
            out=None,
        )

    def _aligned(self, n_bytes: int) -> npt.NDArray[np.uint8]:
        """Zeros that begin at a multiple of 64 bytes."""
        memory = np.zeros(n_bytes + 64, np.uint8)
        self.kept.append(memory)
        begin = -memory.ctypes.data % 64
        return memory[begin : begin + n_bytes]

    def _arguments(self, address: int, size: int) -> bytes | None:
        """What memory that is not the kernel's contains, as AMD's arguments, which nobody writes."""
        for one in self.launch.regions:
            at = address - one.extent.base_bytes
            if one.hidden and at >= 0 and at + size <= one.extent.size_bytes:
                return one.content[at : at + size].tobytes()
        return None

    def _constants(self) -> dict[int, int]:
        """Row -> what all its lanes contain, of the launch."""
        known = {row: number & 0xFFFFFFFF for row, number in self.code.constants.items()}
        extents = zip("xyz", (*self.launch.grid, 1, 1), strict=False)
        one_group = {f"group_{axis}" for axis, extent in extents if extent == 1}
        for row, special in self.code.specials.items():
            if isinstance(number := self.launch.specials.get(special), int):
                known[row] = number & 0xFFFFFFFF
            elif special in one_group:
                known[row] = 0
        for row, (bank, offset) in self.code.banks.items():
            content = self.launch.banks.get(bank, np.zeros(0, np.uint8))[offset : offset + 4]
            known[row] = int.from_bytes(content.tobytes().ljust(4, b"\0"), "little")
        return known

    def _fill(self, rows: npt.NDArray[np.uint32]) -> None:
        """Rows that the code only reads. rows : (n_batch, sub-groups of a batch, n_row, lanes)"""
        code, launch = self.code, self.launch
        for row, number in self._constants().items():
            rows[:, :, row] = number
        for row, lanes in code.tables.items():
            rows[:, :, row] = np.array(lanes, np.uint32)
        lane = np.arange(code.lanes, dtype=np.uint32)
        subgroup = np.arange(rows.shape[0] * rows.shape[1], dtype=np.uint32)[:, None]
        rank, subgroup = np.divmod(subgroup, np.uint32(self.n_subgroup))
        item = subgroup * np.uint32(code.width) + lane
        x, y = (int(n) for n in (*launch.group_shape, 1, 1)[:2])
        at = {"x": item % x, "y": item // x % y, "z": item // (x * y)}
        bit = np.uint64(1) << lane.astype(np.uint64)
        values: dict[str, Any] = {
            "lane": lane,
            **{f"item_{axis}": at[axis] for axis in "xyz"},
            "packed_items": at["x"] | at["y"] << np.uint32(10) | at["z"] << np.uint32(20),
            "subgroup": subgroup,
            "first_item": item[:, :1],
            "rank": rank,
            "this_lane": bit,
            "lanes_below": bit - np.uint64(1),
            "lanes_up_to": (bit << np.uint64(1)) - np.uint64(1),
            "lanes_above": ~((bit << np.uint64(1)) - np.uint64(1)),
            "lanes_from": ~(bit - np.uint64(1)),
            **launch.specials,
        }
        for row, special in code.specials.items():
            if not special.startswith("group_"):
                value = np.asarray(values[special]).astype(np.uint64) & np.uint64(0xFFFFFFFF)
                whole = np.broadcast_to(value.astype(np.uint32), item.shape)
                rows[:, :, row] = whole.reshape(*rows.shape[:2], -1)

    def _table(self, is_access: npt.NDArray[np.bool_], row_bytes: int) -> npt.NDArray[np.int32]:
        """The micro-operations as the interpreter reads them: its own numbers, and rows as offsets in bytes."""
        table = self.code.table.copy()
        for row, source in zip(table, self.code.table.tolist(), strict=True):
            operation = o.BY_NUMBER[source[0]]
            row[0] = prepared_number(MicroOperation(*source), operation)
            used = {*operation.rows_read, *operation.rows_written} | _address_rows(operation.name)
            if operation.number in _ACCESSES and row[o.COLUMNS["x"]] & 7 == o.BULK:
                used = set(_BYTE_FIELDS)
            for name in _BYTE_FIELDS:
                if name in used:
                    row[o.COLUMNS[name]] *= row_bytes
            for name in ("d", "e", "y"):
                if name in operation.masks_written and row[o.COLUMNS[name]] == o.TRUE_MASK:
                    row[o.COLUMNS[name]] = o.TRASH_MASK
            if operation.name in ("MULTIPLY_WIDE_U", "MULTIPLY_WIDE_S", "BORROW"):
                row[o.COLUMNS["y"]] = o.TRASH_MASK
            if operation.name in ("CLASS_F32", "CLASS_F64", "DIVISION_CHECK"):
                row[o.COLUMNS["e"]] = o.TRASH_MASK
        table[is_access, o.COLUMNS["m"]] = np.arange(int(is_access.sum()))
        return np.ascontiguousarray(table, np.int32)


MOST_COMPUTED = 1 << 12
"""Groups whose numbers are computed at once."""


def computed(
    code: Code, first: int, n: int, given: Mapping[str, npt.NDArray[np.int64]]
) -> npt.NDArray[np.int64]:
    """(n_group, n) what code leaves in n rows whose lanes are groups; see place_numbers. given : special -> (n_group,)"""
    parts, whole = [], BATCH * code.lanes
    n_group = max(map(len, given.values()), default=1)
    for begin in range(0, n_group, MOST_COMPUTED):
        count = min(n_group - begin, MOST_COMPUTED)
        padded = -(-count // whole) * whole
        specials = {
            name: np.resize(one[begin : begin + count], padded).reshape(-1, code.lanes)
            for name, one in given.items()
        }
        launch = Launch(grid=(1,), group_shape=(padded,), regions=(), specials=specials)  # type: ignore[arg-type]
        execution = Execution(code, launch)
        execution.run(np.zeros(1, np.int64), record=False)
        rows = execution.rows(first, n).astype(np.int64).swapaxes(0, 1).reshape(n, -1)
        parts.append(rows[:, :count].T)
    return np.concatenate(parts)


def writes_arrays(code: Code, *, skipped: bool = False) -> bool:
    """Whether code writes global memory, or would do so if that were not skipped; generic addresses may be those of it."""
    op, x = code.columns("op", "x")
    writes = (
        np.isin(op, _ACCESSES)
        & (op != OPERATIONS["LOAD"].number)
        & ((x & o.SKIPPED != 0) == skipped)
    )
    return bool((writes & ~np.isin(x & 7, (o.LOCAL, o.PRIVATE))).any())


def _leaves_local(code: Code) -> bool:
    """Whether some stores to local memory are skipped, but not all that may take values from there."""
    op, x = code.columns("op", "x")
    accesses, skipped = np.isin(op, _ACCESSES), x & o.SKIPPED != 0
    left_out = accesses & skipped & (op == OPERATIONS["STORE"].number) & (x & 7 == o.LOCAL)
    taken = accesses & ~skipped & np.isin(x & 7, (o.LOCAL, o.GENERIC, o.BULK))
    return bool(left_out.any() and taken.any())


def _has_tile_products(code: Code) -> bool:
    """Whether there are any, or other uses of tensor memory, or would be if these were not skipped."""
    return bool(np.isin(code.table[:, 0], o.numbers(*PRODUCTS)).any())


def _address_rows(name: str) -> set[str]:
    """Rows that the signature does not name: the compared value of an atomic operation."""
    return {"e"} if name == "ATOMIC" else set()


def _is_ordered(code: Code) -> bool:
    """Whether results depend on the order of sub-groups: what atomic operations return, and sums of rounded numbers."""
    op, x = code.columns("op", "x")
    flags = x[op == OPERATIONS["ATOMIC"].number]
    return bool(np.any((flags & o.NO_RESULT == 0) | (flags & o.FLOATING != 0)))
