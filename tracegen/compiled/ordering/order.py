"""The accesses of each sub-group in the order of its machine code.

A sub-group's accesses in the order of the source are walked along the stations of the machine code.
From a station, the sub-group goes to the one whose accesses are the next ones of the source: of the
stations that an arrow leads to, the one whose block leaves the fewest behind, and of those the one with
most accesses (the body of an unrolled loop rather than its remainder). What no station takes keeps
its place in the order of the source, and is counted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import hot, inner
from tracegen.compiled.ordering.stations import (
    ACCESS,
    BARRIER,
    COUNT,
    PRIVATE,
    SCALAR,
    USE,
    Stations,
)

NONE = -1
MOST_SUMS = 1 << 15
"""Distinct numbers of instructions between two accesses; beyond, an equal hash is enough."""
MISSING_COST = 64
"""A station that lacks one of its accesses is as unlikely as one that leaves so many behind."""
JUMP_COST = 32
"""The same, of a station that no arrow leads to."""
FARTHEST = 4096
"""An access that so many others have overtaken takes its place in the source's order."""


class Stream(NamedTuple):
    """The accesses of all sub-groups in the order of the source.

    position : (n_access,) of each access, n_position for a barrier
    starts : (n_access,) whether the source begins a bulk sequence here
    first_byte, lanes : (n_access,) the address of its first byte, and how many lanes are active
    left_out : (n_access,) accesses that the compiler dropped
    kept : (n_position + 1,) positions that no station has
    barrier_line : (n_access,) the line of the text of a barrier, 0 of others and where it is unknown
    """

    offset: npt.NDArray[np.int64]
    position: npt.NDArray[np.int32]
    starts: npt.NDArray[np.bool_]
    first_byte: npt.NDArray[np.int64]
    lanes: npt.NDArray[np.uint8]
    left_out: npt.NDArray[np.bool_]
    kept: npt.NDArray[np.bool_]
    barrier_line: npt.NDArray[np.int32]


class Ordered(NamedTuple):
    """Accesses in machine order, with room for more.

    end : (n_subgroup,) where each sub-group's accesses end
    part_end : (n_out,) where the parts of each access end
    part : accesses of the stream that are performed at once; -1 - k for private access k
    starts, waits : as in a Trace
    work : (n_out,) row of the table of work that is made beside them
    scalar : (n_out,) performed by the scalar unit
    """

    end: npt.NDArray[np.int64]
    part_end: npt.NDArray[np.int64]
    part: npt.NDArray[np.int64]
    starts: npt.NDArray[np.bool_]
    waits: npt.NDArray[np.int32]
    work: npt.NDArray[np.int32]
    scalar: npt.NDArray[np.bool_]


class _Scratch(NamedTuple):
    """Reused for every sub-group.

    entry : kept accesses of the sub-group;  at : the position of each
    following : the next entry of the same position;  consumed : by a station
    first : (n_position + 1,) the first entry of a position that is not consumed
    recent : (n_position + 1,) the latest entry of a position that is
    changed_at, changed : positions whose `first` a trial changed, and what it was
    issued_at : the access of each issue, in order
    outstanding : (n_global,) the access of an instruction's latest issue, NONE once awaited
    anchor : (n_family,) the first entry that a trial gives to each family of accesses, NONE without any
    state : (N_STATE,) where the walk stands
    pending : (n_kind,) instructions since the latest access;  key : (1,) the sum of their rows' keys
    row_key : (n_row,) a random number for each row of the stations' work
    table : (n_table, n_kind) distinct sums of rows so far;  table_key : (n_table,) their keys
    slot : (n_slot,) hash table of the numbers of `table`, NONE where it is free
    """

    entry: npt.NDArray[np.int64]
    at: npt.NDArray[np.int32]
    following: npt.NDArray[np.int64]
    consumed: npt.NDArray[np.bool_]
    first: npt.NDArray[np.int64]
    recent: npt.NDArray[np.int64]
    changed_at: npt.NDArray[np.int64]
    changed: npt.NDArray[np.int64]
    issued_at: npt.NDArray[np.int64]
    outstanding: npt.NDArray[np.int64]
    anchor: npt.NDArray[np.int64]
    state: npt.NDArray[np.int64]
    pending: npt.NDArray[np.float64]
    key: npt.NDArray[np.int64]
    row_key: npt.NDArray[np.int64]
    table: npt.NDArray[np.float64]
    table_key: npt.NDArray[np.int64]
    slot: npt.NDArray[np.int64]


HEAD, ENTRIES, FAR, OUT, PART, BEGIN, FRESH, SEQUENCE, WAIT, ISSUED, ARRIVED, UNMATCHED, SUMS = (
    range(13)
)
"""Where the walk stands, as elements of one array:

HEAD : the first entry that is not consumed;  ENTRIES : of the sub-group
FAR : the farthest entry that is consumed
OUT, PART : accesses and parts written so far;  BEGIN : OUT at the sub-group's beginning
FRESH : 1 if the next access begins a bulk sequence
SEQUENCE : the first access of the current bulk sequence. What was issued together arrives together, so
    only a wait for an access of the current sequence ends it: a code that has a window of ten loads
    under way has sequences of ten
WAIT : the latest access whose value was awaited
ISSUED, ARRIVED : counts of accesses
UNMATCHED : accesses without a station so far, of all sub-groups
SUMS : rows in the table of work
"""
N_STATE = SUMS + 1
State = npt.NDArray[np.int64]


class _Fit(NamedTuple):
    """How well a station fits: entries that it takes, accesses that it lacks, entries left behind."""

    taken: int
    missing: int
    behind: int


def in_machine_order(
    stream: Stream, stations: Stations, n_position: int
) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.float64], int]:
    """The accesses in machine order, by the names of `Ordered`, the table of their work, and how many
    accesses had no station."""
    n_subgroup = len(stream.offset) - 1
    longest = int(np.diff(stream.offset).max(initial=0))
    n_event = len(stations.kind)
    room = 2 * max(longest, 1) + n_event + 1
    n_global = len(stations.again)
    pieces: list[dict[str, npt.NDArray[Any]]] = []
    done = unmatched = n_out = n_part = sums = 0
    n_row, n_kind = stations.work.shape
    drawn = np.random.default_rng(0).integers(1, 1 << 62, n_row - 1)
    row_key = np.concatenate([[0], drawn]).astype(np.int64)
    table = np.zeros((MOST_SUMS, n_kind))
    table_key = np.zeros(MOST_SUMS, np.int64)
    slot = np.full(2 * MOST_SUMS, NONE, np.int64)
    size = max(len(stream.position) + len(stream.position) // 8, 8 * room)
    while done < n_subgroup:
        scratch = _Scratch(
            entry=np.empty(longest + 1, np.int64),
            at=np.empty(longest + 1, np.int32),
            following=np.empty(longest + 1, np.int64),
            consumed=np.zeros(longest + 1, np.bool_),
            first=np.full(n_position + 1, longest + 1, np.int64),
            recent=np.full(n_position + 1, NONE, np.int64),
            changed_at=np.empty(n_event + len(stations.cover) + 1, np.int64),
            changed=np.empty(n_event + len(stations.cover) + 1, np.int64),
            issued_at=np.empty(size + 1, np.int64),
            outstanding=np.empty(n_global + 1, np.int64),
            anchor=np.full(len(stations.apart_offset), NONE, np.int64),
            state=np.zeros(N_STATE, np.int64),
            pending=np.zeros(n_kind),
            key=np.zeros(1, np.int64),
            row_key=row_key,
            table=table,
            table_key=table_key,
            slot=slot,
        )
        scratch.state[SUMS] = sums
        out = Ordered(
            end=np.empty(n_subgroup, np.int64),
            part_end=np.empty(size, np.int64),
            part=np.empty(2 * size, np.int64),
            starts=np.empty(size, np.bool_),
            waits=np.empty(size, np.int32),
            work=np.empty(size, np.int32),
            scalar=np.zeros(size, np.bool_),
        )
        last, outs, parts, alone = _walk(stream, stations, done, n_position, scratch, out)
        sums = int(scratch.state[SUMS])
        if last == done:
            size *= 2
            continue
        pieces.append(
            {
                "end": out.end[done:last] + n_out,
                "part_end": out.part_end[:outs] + n_part,
                "part": out.part[:parts],
                "starts": out.starts[:outs],
                "waits": out.waits[:outs],
                "work": out.work[:outs],
                "scalar": out.scalar[:outs],
            }
        )
        done, n_out, n_part, unmatched = last, n_out + outs, n_part + parts, unmatched + alone
    if not pieces:
        empty = np.empty(0, np.int64)
        return dict.fromkeys(Ordered._fields, empty), table[:0], 0
    return (
        {
            name: pieces[0][name] if len(pieces) == 1 else np.concatenate([p[name] for p in pieces])
            for name in Ordered._fields
        },
        table[:sums].copy(),
        unmatched,
    )


@hot
def _walk(
    stream: Stream,
    stations: Stations,
    begin: int,
    n_position: int,
    scratch: _Scratch,
    out: Ordered,
) -> tuple[int, int, int, int]:
    """Orders sub-groups from `begin` on, as many as there is room for.

    Returns where it stopped, how many accesses and parts there are, and how many without a station.
    """
    state = scratch.state
    state[:SUMS] = 0
    for subgroup in range(begin, len(stream.offset) - 1):
        n = _entries(stream, subgroup, scratch)
        scratch.outstanding[:] = NONE
        written, parts, unmatched = state[OUT], state[PART], state[UNMATCHED]
        state[HEAD], state[ENTRIES], state[FAR], state[BEGIN] = 0, n, -1, written
        state[FRESH], state[SEQUENCE], state[WAIT], state[ISSUED], state[ARRIVED] = 1, 0, NONE, 0, 0
        scratch.pending[:] = 0.0
        scratch.key[0] = 0
        complete = _subgroup(stream, stations, n_position, scratch, out, state)
        for k in range(n):
            scratch.first[scratch.at[k]] = len(scratch.entry)
            scratch.recent[scratch.at[k]] = NONE
        if not complete:
            return subgroup, written, parts, unmatched
        out.end[subgroup] = state[OUT]
    return len(stream.offset) - 1, state[OUT], state[PART], state[UNMATCHED]


@inner
def _entries(stream: Stream, subgroup: int, scratch: _Scratch) -> int:
    """Lists the accesses of a sub-group that are not left out; returns their number."""
    n = 0
    for access in range(stream.offset[subgroup], stream.offset[subgroup + 1]):
        if not stream.left_out[access]:
            scratch.entry[n] = access
            scratch.at[n] = stream.position[access]
            scratch.consumed[n] = False
            n += 1
    for k in range(n - 1, -1, -1):
        scratch.following[k] = scratch.first[scratch.at[k]]
        scratch.first[scratch.at[k]] = k
    return n


@inner
def _subgroup(
    stream: Stream,
    stations: Stations,
    n_position: int,
    scratch: _Scratch,
    out: Ordered,
    state: State,
) -> bool:
    """Walks one sub-group; returns False where there is no room."""
    now = len(stations.first_event)
    most = len(stations.kind)
    n = state[ENTRIES]
    while state[HEAD] < n:
        if state[OUT] + n + most >= len(out.starts) or state[PART] + n + most + len(
            stations.cover
        ) >= len(out.part):
            return False
        at = scratch.at[state[HEAD]]
        if stream.kept[at] or state[FAR] - state[HEAD] > FARTHEST:
            _alone(stream, n_position, scratch, out, state)
            continue
        arrow, station, taken = _best(stream, stations, now, n_position, scratch, state)
        if taken == 0:
            _alone(stream, n_position, scratch, out, state)
            continue
        _issue_work(stations, stations.behind[now], scratch)
        if arrow >= 0:
            _issue_work(stations, stations.on_way[arrow], scratch)
            for event in range(stations.first_prelude[arrow], stations.last_prelude[arrow]):
                _pass(stream, stations, event, n_position, scratch, out, state)
        for event in range(stations.first_event[station], stations.last_event[station]):
            _pass(stream, stations, event, n_position, scratch, out, state)
        now = station
    _finish(stations, now, scratch, out, state)
    return True


@inner
def _issue_work(stations: Stations, row: int, scratch: _Scratch) -> None:
    """Adds a row to the instructions since the latest access."""
    if row != 0:
        scratch.key[0] += scratch.row_key[row]
        for kind in range(stations.work.shape[1]):
            scratch.pending[kind] += stations.work[row, kind]


@inner
def _finish(stations: Stations, now: int, scratch: _Scratch, out: Ordered, state: State) -> None:
    """Counts what follows the last access of a sub-group with that access."""
    _issue_work(stations, stations.behind[now], scratch)
    _issue_work(stations, stations.to_end[now], scratch)
    last = state[OUT] - 1
    if last >= state[BEGIN]:
        row = out.work[last]
        scratch.key[0] += scratch.table_key[row]
        for kind in range(stations.work.shape[1]):
            scratch.pending[kind] += scratch.table[row, kind]
        out.work[last] = _sum(scratch, state)


@inner
def _sum(scratch: _Scratch, state: State) -> Any:
    """The number of the pending instructions in the table of work; nothing is pending afterwards."""
    key = scratch.key[0]
    n_slot = len(scratch.slot)
    at = key % n_slot
    while scratch.slot[at] >= 0 and scratch.table_key[scratch.slot[at]] != key:
        if state[SUMS] == len(scratch.table):
            break
        at = (at + 1) % n_slot
    if scratch.slot[at] < 0 and state[SUMS] < len(scratch.table):
        scratch.slot[at] = state[SUMS]
        scratch.table_key[state[SUMS]] = key
        for kind in range(len(scratch.pending)):
            scratch.table[state[SUMS], kind] = scratch.pending[kind]
        state[SUMS] += 1
    scratch.pending[:] = 0.0
    scratch.key[0] = 0
    return max(scratch.slot[at], 0)


@inner
def _best(
    stream: Stream,
    stations: Stations,
    now: int,
    n_position: int,
    scratch: _Scratch,
    state: State,
) -> tuple[int, int, int]:
    """The arrow (or -1) to the station that fits best, the station, and how many it takes."""
    best_arrow = -1
    best_station = -1
    most = 0
    least = 1 << 40
    first, last = stations.arrow_offset[now], stations.arrow_offset[now + 1]
    for arrow in range(first, last):
        target = stations.target[arrow]
        # Whoever enters a block runs all of it, barriers included.
        end = stations.block_end[target] if last - first > 1 else stations.last_event[target]
        fit = _fit(stream, stations, target, end, n_position, scratch, state)
        cost = fit.missing * MISSING_COST + fit.behind
        if fit.taken > 0 and (cost < least or (cost == least and fit.taken > most)):
            best_arrow, best_station = arrow, stations.target[arrow]
            most, least = fit.taken, cost
    if least >= MISSING_COST:
        for station in range(len(stations.first_event)):
            end = stations.last_event[station]
            fit = _fit(stream, stations, station, end, n_position, scratch, state)
            cost = fit.missing * MISSING_COST + fit.behind + JUMP_COST
            if fit.taken > 0 and (cost < least or (cost == least and fit.taken > most)):
                best_arrow, best_station, most, least = -1, station, fit.taken, cost
    return best_arrow, best_station, most


@inner
def _fit(
    stream: Stream,
    stations: Stations,
    station: int,
    end: int,
    n_position: int,
    scratch: _Scratch,
    state: State,
) -> _Fit:
    """Tries a station, and what follows it up to an event: what they would take of the entries.

    An entry that lies elsewhere than the constant offsets of a family say is not what the station accesses.
    """
    n = state[ENTRIES]
    n_changed = 0
    taken = 0
    missing = 0
    far = state[HEAD] - 1
    low = -1  # the barrier before the station's accesses
    high = min(scratch.first[n_position], n)  # the barrier behind them
    for event in range(stations.first_event[station], end):
        kind = stations.kind[event]
        if kind == BARRIER:
            if high == n:
                missing += 1
                continue
            line = stream.barrier_line[scratch.entry[high]]
            missing += line > 0 and line != stations.number[event]
            low = high
            high = _after(high, scratch, n)
            far = max(far, low)
            taken += 1
        elif (kind in (ACCESS, SCALAR)) and not stations.again[stations.number[event]]:
            number = stations.number[event]
            for k in range(stations.cover_offset[number], stations.cover_offset[number + 1]):
                position = stations.cover[k]
                was = scratch.first[position]
                entry = was
                while entry < low:
                    entry = scratch.following[entry]
                if entry < high or entry < _latest(stations, event, high, scratch, n):
                    scratch.changed_at[n_changed] = position
                    scratch.changed[n_changed] = was
                    n_changed += 1
                    scratch.first[position] = scratch.following[entry]
                    far = max(far, entry)
                    taken += 1
                    missing += _lies_elsewhere(stream, stations, number, entry, scratch)
                elif not stations.optional[event]:
                    missing += 1
    for event in range(stations.first_event[station], end):
        if (
            stations.kind[event] in (ACCESS, SCALAR)
            and stations.family[stations.number[event]] >= 0
        ):
            scratch.anchor[stations.family[stations.number[event]]] = NONE
    while n_changed > 0:
        n_changed -= 1
        scratch.first[scratch.changed_at[n_changed]] = scratch.changed[n_changed]
    behind = -taken
    for entry in range(state[HEAD], far + 1):
        behind += not scratch.consumed[entry] and not stream.kept[scratch.at[entry]]
    return _Fit(taken, missing, max(behind, 0))


@inner
def _lies_elsewhere(
    stream: Stream, stations: Stations, number: int, entry: int, scratch: _Scratch
) -> bool:
    """Whether an entry is not as far from the first one of its family as any two of its instructions are.

    Entries of other lanes say nothing.
    """
    family = stations.family[number]
    if family < 0:
        return False
    if scratch.anchor[family] == NONE:
        scratch.anchor[family] = entry
        return False
    one, other = scratch.entry[scratch.anchor[family]], scratch.entry[entry]
    if stream.lanes[one] != stream.lanes[other]:
        return False
    distance = stream.first_byte[other] - stream.first_byte[one]
    first, last = stations.apart_offset[family], stations.apart_offset[family + 1]
    at = first + np.searchsorted(stations.apart[first:last], distance)
    return bool(at == last or stations.apart[at] != distance)


@inner
def _latest(stations: Stations, event: int, barrier: int, scratch: _Scratch, n: int) -> Any:
    """The barrier before which an access must come in the source, given the next one.

    Loads may be issued before a barrier that they follow in the source. Where a loop was unrolled, these
    may be as many as the block has behind the load.
    """
    if stations.is_load[event]:
        for _ in range(max(stations.ahead[event], 1)):
            barrier = _after(barrier, scratch, n)
            if barrier >= n:
                break
    return barrier


@inner
def _after(barrier: int, scratch: _Scratch, n: int) -> Any:
    """The barrier behind a barrier, n if there is none."""
    return n if barrier >= n else min(scratch.following[barrier], n)


@inner
def _pass(
    stream: Stream,
    stations: Stations,
    event: int,
    n_position: int,
    scratch: _Scratch,
    out: Ordered,
    state: State,
) -> None:
    """A sub-group passes one event."""
    _issue_work(stations, stations.before[event], scratch)
    kind = stations.kind[event]
    number = stations.number[event]
    if kind == USE:
        _use(stations, event, scratch, state)
    elif kind == COUNT:
        _count(number, scratch, state)
    elif kind == BARRIER:
        _barrier(stream, n_position, scratch, out, state)
    elif kind == PRIVATE:
        out.part[state[PART]] = -1 - number
        _issue(scratch, out, state, 1, NONE)
    else:
        _access(stations, event, n_position, scratch, out, state)


@inner
def _access(
    stations: Stations, event: int, n_position: int, scratch: _Scratch, out: Ordered, state: State
) -> None:
    """Performs the next accesses of the positions that an instruction covers."""
    n_taken = 0
    number = stations.number[event]
    barrier = min(scratch.first[n_position], state[ENTRIES])
    latest = _latest(stations, event, barrier, scratch, state[ENTRIES])
    for k in range(stations.cover_offset[number], stations.cover_offset[number + 1]):
        position = stations.cover[k]
        if stations.again[number]:
            entry = scratch.recent[position]
        else:
            entry = _take(position, latest, scratch, state)
        if entry >= 0:
            out.part[state[PART] + n_taken] = scratch.entry[entry]
            n_taken += 1
    if n_taken > 0:
        _issue(scratch, out, state, n_taken, number)
        if stations.kind[event] == SCALAR:
            out.scalar[state[OUT] - 1] = True
            state[ISSUED] -= 1
        _advance(scratch, state)


@inner
def _take(position: int, barrier: int, scratch: _Scratch, state: State) -> Any:
    """Consumes the next entry of a position, if it comes before a barrier."""
    entry = scratch.first[position]
    if entry >= barrier:
        return NONE
    _consume(entry, scratch, state)
    return entry


@inner
def _consume(entry: int, scratch: _Scratch, state: State) -> None:
    at = scratch.at[entry]
    scratch.first[at] = scratch.following[entry]
    scratch.recent[at] = entry
    scratch.consumed[entry] = True
    state[FAR] = max(state[FAR], entry)


@inner
def _advance(scratch: _Scratch, state: State) -> None:
    """Moves the head to the first entry that is not consumed."""
    while state[HEAD] < state[ENTRIES] and scratch.consumed[state[HEAD]]:
        state[HEAD] += 1


@inner
def _issue(scratch: _Scratch, out: Ordered, state: State, n_taken: int, number: int) -> None:
    """Writes an access of the n_taken parts that stand behind the last one."""
    state[PART] += n_taken
    out.part_end[state[OUT]] = state[PART]
    out.starts[state[OUT]] = state[FRESH] != 0
    out.waits[state[OUT]] = state[WAIT]
    out.work[state[OUT]] = _sum(scratch, state)
    this_access = state[OUT] - state[BEGIN]
    if state[FRESH] != 0:
        state[SEQUENCE] = this_access
    scratch.issued_at[state[ISSUED]] = this_access
    if number >= 0:
        scratch.outstanding[number] = this_access
    state[OUT] += 1
    state[FRESH] = 0
    state[ISSUED] += 1


@inner
def _use(stations: Stations, event: int, scratch: _Scratch, state: State) -> None:
    """Loaded values are used: the sub-group waits for those that have not been awaited."""
    for k in range(stations.use_offset[event], stations.use_offset[event + 1]):
        load = stations.use[k]
        if scratch.outstanding[load] >= 0:
            _wait(scratch.outstanding[load], state)
            scratch.outstanding[load] = NONE


@inner
def _count(most: int, scratch: _Scratch, state: State) -> None:
    """The sub-group waits until at most so many accesses are outstanding."""
    arrived = state[ISSUED] - most
    if arrived > state[ARRIVED]:
        state[ARRIVED] = arrived
        _wait(scratch.issued_at[arrived - 1], state)


@inner
def _wait(access: int, state: State) -> None:
    """The sub-group waits for an access."""
    state[WAIT] = max(state[WAIT], access)
    if access >= state[SEQUENCE]:
        state[FRESH] = 1


@inner
def _barrier(
    stream: Stream, n_position: int, scratch: _Scratch, out: Ordered, state: State
) -> None:
    """Passes the next barrier; accesses before it that no station took come first."""
    barrier = scratch.first[n_position]
    if barrier < state[ENTRIES]:
        while state[HEAD] <= barrier:
            _alone(stream, n_position, scratch, out, state)


@inner
def _alone(stream: Stream, n_position: int, scratch: _Scratch, out: Ordered, state: State) -> None:
    """The head takes its place in the order of the source."""
    entry = state[HEAD]
    access = scratch.entry[entry]
    at = scratch.at[entry]
    is_barrier = at == n_position
    _consume(entry, scratch, state)
    out.part[state[PART]] = access
    if is_barrier or stream.starts[access]:
        state[FRESH] = 1
    if not is_barrier:
        state[UNMATCHED] += 1
    _issue(scratch, out, state, 1, NONE)
    if is_barrier:
        state[FRESH] = 1
    _advance(scratch, state)
