"""Machine code as stations: what a sub-group issues, and waits for, between two branches.

A station is a basic block, or a part of one that begins with a barrier, which accesses memory. Its
events are what matters for the order of accesses. An arrow leads to each station that may come
next, with what happens in the blocks in between.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracegen.compiled.counting.idle import IdleSubgroups
from tracegen.compiled.counting.quiet_code import (
    Executions,
    between,
    lines_of,
    shortest,
    with_new_lines,
)
from tracegen.compiled.counting.work import WorkTable
from tracegen.compiled.loops import flow
from tracegen.compiled.model import Instruction, MachineCode
from tracegen.compiled.ordering.matching import Match, address, places, traced_instructions
from tracegen.compiled.waits import awaited

ACCESS, PRIVATE, BARRIER, USE, COUNT, SCALAR = range(6)
"""Kinds of events: an access to global memory or to private memory, a barrier, the first use of
loaded values, a wait until at most so many accesses are outstanding, and a load that these counts
leave out."""
_SCALAR_WAIT = re.compile(r"lgkmcnt\(0\)|s_wait_kmcnt 0x0")
MOST_IN_FAMILY = 64
_SLOT = re.compile(r"\[[^\]]*?\+?(-?0x[0-9a-fA-F]+)\]|offset:(\d+)")


class Event(NamedTuple):
    """One event.

    number : of an access: index of its instruction among those of global memory (`Match.covers`), or
        among those of private memory; of a count: how many accesses may be outstanding; of a barrier: its line in
        the text, 0 if unknown
    loads : of a use: the accesses, by number, whose values are awaited
    optional : whether a predicate may switch the access off
    is_load : of an access; loads may be issued before barriers that they follow in the source
    ahead : of an access; how many barriers come behind it in its block
    end : index in its piece of the instruction before which it happens; that of an access or a barrier
        is behind it
    """

    kind: int
    number: int = 0
    loads: tuple[int, ...] = ()
    optional: bool = False
    is_load: bool = False
    ahead: int = 0
    end: int = 0


class PrivateAccess(NamedTuple):
    """A load or store of private memory; offset_bytes : of its bytes in a work-item's memory."""

    direction: str
    offset_bytes: int
    size_bytes: int
    spill: bool


@dataclass
class _Station:
    block: int
    last: bool = False
    events: list[Event] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)

    @property
    def stands(self) -> bool:
        return any(event.kind in (ACCESS, SCALAR, BARRIER) for event in self.events)


class Stations(NamedTuple):
    """The stations as arrays for the compiled loop. Ragged lists are a flat array and offsets.

    Station s has the events first_event[s] to last_event[s], its block ends at event block_end[s], and it
    has the arrows arrow_offset[s] to arrow_offset[s + 1]. The last station is the entry, which has arrows
    only. Arrow a leads to station target[a] and passes the events first_prelude[a] to last_prelude[a].

    kind, number, optional, is_load, ahead : (n_event,)
    use_offset, use : the loads of each event
    cover_offset, cover : the positions of each access to global memory;  again : see Match
    family : (n_access,) of each access to global memory, the accesses of one position by one value of a base
        register, as an unrolled loop's are; -1 for one that is alone
    apart_offset, apart : of each family, how many bytes its accesses may be apart, ascending

    work : (n_row, n_kind) instructions by kind (tracegen.compiled.counting.work.KINDS, then IdleSubgroups)
    before : (n_event,) row of work: the instructions since the previous event of the station
    behind : (n_station + 1,) row: those behind the last event;  to_end : from there to the kernel's end
    on_way : (n_arrow,) row: those between the two stations
    """

    first_event: npt.NDArray[np.int64]
    last_event: npt.NDArray[np.int64]
    block_end: npt.NDArray[np.int64]
    arrow_offset: npt.NDArray[np.int64]
    target: npt.NDArray[np.int64]
    first_prelude: npt.NDArray[np.int64]
    last_prelude: npt.NDArray[np.int64]
    kind: npt.NDArray[np.int32]
    number: npt.NDArray[np.int32]
    optional: npt.NDArray[np.bool_]
    is_load: npt.NDArray[np.bool_]
    ahead: npt.NDArray[np.int32]
    use_offset: npt.NDArray[np.int64]
    use: npt.NDArray[np.int32]
    cover_offset: npt.NDArray[np.int64]
    cover: npt.NDArray[np.int32]
    again: npt.NDArray[np.bool_]
    family: npt.NDArray[np.int32]
    apart_offset: npt.NDArray[np.int64]
    apart: npt.NDArray[np.int64]
    work: npt.NDArray[np.float64]
    before: npt.NDArray[np.int32]
    behind: npt.NDArray[np.int32]
    to_end: npt.NDArray[np.int32]
    on_way: npt.NDArray[np.int32]


def private_accesses(code: MachineCode) -> list[PrivateAccess]:
    """The accesses to private memory, in the order of the code."""
    return [
        PrivateAccess(memory.direction, _slot(text), memory.bytes_per_item, memory.spill)
        for memory, text in (
            (instruction.memory, instruction.text)
            for block in code.blocks
            for instruction in block.instructions
        )
        if memory is not None and memory.space == "private"
    ]


def _slot(text: str) -> int:
    place = _SLOT.search(text)
    if place is None:
        return 0
    return abs(int(place.group(1), 16)) if place.group(1) else int(place.group(2))


def stations(
    code: MachineCode,
    match: Match,
    executions: Executions | None = None,
    idle: IdleSubgroups | None = None,
) -> Stations:
    """The stations of matched machine code.

    executions : how often blocks between stations run; by default once
    idle : which accesses to local memory have a column of their own in the rows of work
    """
    pieces = _cut(code)
    first_of = {piece.block: k for k, piece in reversed(list(enumerate(pieces)))}
    standing = [k for k, piece in enumerate(pieces) if piece.stands]
    index = {k: number for number, k in enumerate(standing)}

    def following(k: int) -> list[int]:
        if not pieces[k].last:
            return [k + 1]
        return [first_of[successor] for successor in code.blocks[pieces[k].block].successors]

    def arrows(starts: list[int]) -> dict[int, list[Event]]:
        """Stations that are reached through blocks without accesses, and the events on the way."""
        reached: dict[int, list[Event]] = {}
        seen = set(starts)
        queue: deque[tuple[int, list[Event]]] = deque((start, []) for start in starts)
        while queue:
            piece, passed = queue.popleft()
            if piece in index:
                reached[index[piece]] = passed
                continue
            for after in following(piece):
                if after not in seen:
                    seen.add(after)
                    queue.append((after, passed + pieces[piece].events))
        return reached

    leads = [arrows(following(k)) for k in standing] + [arrows([0])]
    times = executions or Executions([1.0] * len(code.blocks))
    work = _Work(code, pieces, standing, times, idle or IdleSubgroups(code))
    return _arrays([pieces[k].events for k in standing], leads, match, work, _families(code, match))


def _cut(code: MachineCode) -> list[_Station]:
    """The blocks, cut before each barrier."""
    everything = [instruction for block in code.blocks for instruction in block.instructions]
    # Where the code waits by count, it does so before each use.
    counts_waits = any(instruction.outstanding is not None for instruction in everything)
    waits = None if counts_waits else awaited(code)
    number_of: dict[int, int] = {}
    n_traced = n_private = 0
    scalar = []
    for k, instruction in enumerate(everything):
        if instruction.is_traced:
            if instruction.pipe == "scalar":
                scalar.append(n_traced)
            number_of[k] = n_traced
            n_traced += 1
        elif instruction.memory is not None and instruction.memory.space == "private":
            number_of[k] = n_private
            n_private += 1
    pieces: list[_Station] = []
    k = 0
    for number, block in enumerate(code.blocks):
        ahead = sum(instruction.pipe == "barrier" for instruction in block.instructions)
        pieces.append(_Station(number))
        for at, instruction in enumerate(block.instructions):
            waited = waits[number][at] if waits is not None else ()
            loads = tuple(number_of[load] for load in waited if everything[load].is_traced)
            if _SCALAR_WAIT.search(instruction.text):
                loads = tuple(scalar)
            if instruction.pipe == "barrier":
                pieces.append(_Station(number))
                ahead -= 1
            piece = pieces[-1]
            at_piece = len(piece.instructions)
            events = _events(instruction, loads, number_of.get(k, -1), at_piece)
            piece.events += (event._replace(ahead=ahead) for event in events)
            piece.instructions.append(instruction)
            k += 1
        pieces[-1].last = True
    return pieces


def _events(instruction: Instruction, loads: tuple[int, ...], number: int, at: int) -> list[Event]:
    events = []
    if loads:
        events.append(Event(USE, loads=loads, end=at))
    if instruction.outstanding is not None:
        events.append(Event(COUNT, instruction.outstanding, end=at))
    if instruction.pipe == "barrier":
        events.append(Event(BARRIER, _line(instruction), end=at + 1))
    memory = instruction.memory
    if memory is not None and number >= 0:
        kind = PRIVATE if memory.space == "private" else ACCESS
        kind = SCALAR if instruction.pipe == "scalar" else kind
        is_load = memory.direction == "load"
        optional = instruction.predicated
        events.append(Event(kind, number, optional=optional, is_load=is_load, end=at + 1))
    return events


def barrier_lines(code: MachineCode) -> list[int]:
    """The line of each barrier, 0 if unknown."""
    instructions = (one for block in code.blocks for one in block.instructions)
    return [_line(one) for one in instructions if one.pipe == "barrier"]


def _line(instruction: Instruction) -> int:
    return instruction.location.line if instruction.location is not None else 0


class _Work:
    """Rows of instructions by kind, for the parts of a sub-group's way.

    pieces : of the code;  standing : those that are stations
    """

    def __init__(
        self,
        code: MachineCode,
        pieces: Sequence[_Station],
        standing: Sequence[int],
        executions: Executions,
        idle: IdleSubgroups,
    ) -> None:
        self.pieces, self.standing, self.idle = pieces, standing, idle
        self.table = WorkTable(idle.n_kind)
        first_of = {piece.block: k for k, piece in reversed(list(enumerate(pieces)))}
        self.graph = [
            [first_of[block] for block in flow(code.blocks, piece.block)] if piece.last else [k + 1]
            for k, piece in enumerate(pieces)
        ]
        self.quiet = frozenset(range(len(pieces))) - frozenset(standing)
        self.looped = frozenset(k for k in self.quiet if pieces[k].block in executions.looped)
        self.lines = [lines_of(piece.instructions) for piece in pieces]
        self.times = [executions.times[piece.block] for piece in pieces]
        self.ends = frozenset(k for k, after in enumerate(self.graph) if not after)

    def before(self, station: int) -> list[int]:
        """A row for each event of a station."""
        piece = self.pieces[self.standing[station]]
        ends = [event.end for event in piece.events]
        return [
            self.table.add(self.idle.counted(piece.block, piece.instructions[begin:end]))
            for begin, end in zip([0, *ends], ends, strict=False)
        ]

    def behind(self, station: int) -> int:
        """The row of what follows the last event of a station."""
        piece = self.pieces[self.standing[station]]
        behind = piece.instructions[piece.events[-1].end :]
        return self.table.add(self.idle.counted(piece.block, behind))

    def on_way(self, station: int, target: int) -> int:
        """The row of what lies between two stations; from the last one, the entry."""
        end = self.standing[target]
        if station == len(self.standing):
            starts, seen = [0], self.lines[end]
        else:
            begin = self.standing[station]
            starts, seen = self.graph[begin], self.lines[begin] | self.lines[end]
        return self._row(starts, frozenset([end]), seen)

    def to_end(self, station: int) -> int:
        """The row of what lies between a station and the end of the kernel."""
        begin = self.standing[station]
        return self._row(self.graph[begin], self.ends & self.quiet, self.lines[begin])

    def _row(self, starts: Sequence[int], ends: frozenset[int], seen: frozenset[int]) -> int:
        inside = between(self.graph, starts, self.quiet, ends)
        way: frozenset[int] = frozenset()
        if ends.isdisjoint(starts):
            first = [start for start in starts if start in inside]
            way = shortest(self.graph, first, inside, ends) | (ends & inside)
        elif ends & self.quiet:
            way = ends & frozenset(starts)
        loops = self.looped & inside
        passed = loops | with_new_lines(self.lines, way | loops, inside - loops, seen)
        total = np.zeros(self.idle.n_kind)
        for k in passed:
            piece = self.pieces[k]
            total += self.times[k] * self.idle.counted(piece.block, piece.instructions)
        return self.table.add(total)


def _arrays(
    events: Sequence[Sequence[Event]],
    leads: Sequence[dict[int, list[Event]]],
    match: Match,
    work: _Work,
    families: tuple[list[int], list[list[int]]],
) -> Stations:
    flat: list[Event] = []

    def stored(some: Sequence[Event]) -> tuple[int, int]:
        flat.extend(some)
        return len(flat) - len(some), len(flat)

    ranges = [stored(some) for some in events]
    blocks = [work.pieces[k].block for k in work.standing]
    end_of = {block: last for block, (_, last) in zip(blocks, ranges, strict=True)}
    arrows = [(target, stored(passed)) for lead in leads for target, passed in lead.items()]
    before = [row for station in range(len(events)) for row in work.before(station)]
    behind = [*map(work.behind, range(len(events))), 0]
    to_end = [*map(work.to_end, range(len(events))), 0]
    on_way = [work.on_way(station, to) for station, lead in enumerate(leads) for to in lead]
    use_offset, use = _ragged([event.loads for event in flat])
    cover_offset, cover = _ragged(match.covers)
    apart_offset, apart = _ragged(families[1])
    return Stations(
        first_event=np.array([first for first, _ in ranges], np.int64),
        last_event=np.array([last for _, last in ranges], np.int64),
        block_end=np.array([end_of[block] for block in blocks], np.int64),
        arrow_offset=np.cumsum([0, *(len(lead) for lead in leads)], dtype=np.int64),
        target=np.array([target for target, _ in arrows], np.int64),
        first_prelude=np.array([first for _, (first, _) in arrows], np.int64),
        last_prelude=np.array([last for _, (_, last) in arrows], np.int64),
        kind=np.array([event.kind for event in flat], np.int32),
        number=np.array([event.number for event in flat], np.int32),
        optional=np.array([event.optional for event in flat], np.bool_),
        is_load=np.array([event.is_load for event in flat], np.bool_),
        ahead=np.array([event.ahead for event in flat], np.int32),
        use_offset=use_offset,
        use=use,
        cover_offset=cover_offset,
        cover=cover,
        again=np.array(match.again, np.bool_),
        family=np.array(families[0], np.int32),
        apart_offset=apart_offset,
        apart=apart.astype(np.int64),
        work=np.array(work.table.rows),
        # The events on a way have no row of their own.
        before=np.array(before + [0] * (len(flat) - len(before)), np.int32),
        behind=np.array(behind, np.int32),
        to_end=np.array(to_end, np.int32),
        on_way=np.array(on_way, np.int32),
    )


def _families(code: MachineCode, match: Match) -> tuple[list[int], list[list[int]]]:
    """See `family` and `apart` of Stations."""
    block_of, written = places(code)
    members: dict[tuple[int, int, str, tuple[int, ...]], list[tuple[int, int]]] = defaultdict(list)
    for number, instruction in enumerate(traced_instructions(code)):
        cover = match.covers[number]
        if len(cover) == 1 and not match.again[number]:
            register, offset = address(instruction)
            members[block_of[number], written[number], register, cover].append((number, offset))
    family = [-1] * len(match.covers)
    apart: list[list[int]] = []
    for several in members.values():
        offsets = {offset for _, offset in several}
        if 1 < len(several) == len(offsets) <= MOST_IN_FAMILY:
            for number, _ in several:
                family[number] = len(apart)
            apart.append(sorted({one - other for one in offsets for other in offsets}))
    return family, apart


def _ragged(
    rows: Sequence[Sequence[int]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    offset = np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)
    return offset, np.array([value for row in rows for value in row], np.int32)
