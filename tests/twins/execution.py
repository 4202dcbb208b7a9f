"""The interpreter of micro-operations written to be read: what `tracegen.execution.interpreter` must do, lane by lane."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError
from tests.twins import bulk, operations, reals, tile_products  # noqa: F401
from tests.twins.operations import DO, Lanes, Step, as_bits, operation, signed
from tracegen.execution import operations as o
from tracegen.execution.code import INSTRUCTION_BITS, NO_SLOT, Code

Bytes = npt.NDArray[np.uint8]
NAMES = list(o.OPERATIONS)
WINDOW_BYTES = 1 << 24
COPIES = 6
"""The slot of copies from global to local memory."""


@dataclass
class Launch:
    """What specials are made of: the sizes of groups in work-items, and two addresses of AMD's."""

    group_size: tuple[int, int, int]
    arguments: int = 0
    dispatch: int = 0


@dataclass
class Memory:
    """What a launch works on.

    arrays : (name, address of the first byte, bytes); banks : number -> bytes
    local_bytes : of a group;  private_bytes : of a work-item;  local_start : as the interpreter's launch has it
    """

    arrays: list[tuple[str, int, Bytes]] = field(default_factory=list)
    banks: dict[int, Bytes] = field(default_factory=dict)
    local_bytes: int = 0
    private_bytes: int = 0
    local_start: tuple[tuple[int, int, int], ...] = ()


@dataclass
class Event:
    """A recorded access, or a barrier that all lanes of a sub-group have reached.

    waits : index among the sub-group's events of the latest access known to have arrived, or -1
    """

    warp: int
    instruction: int
    kind: str
    space: int
    addresses: dict[int, int]
    bytes: int
    waits: int


class Warp:
    """One sub-group: its rows, masks, and where each lane is."""

    def __init__(self, group: Group, number: int) -> None:
        code, self.group, self.number = group.code, group, number
        items = int(np.prod(group.launch.group_size))
        lane = np.arange(code.lanes)
        self.exists = (number * code.width + lane < items) & (lane < code.width)
        self.rows = np.zeros((code.n_rows, code.lanes), np.uint32)
        self.masks = np.zeros((code.n_masks, code.lanes), bool)
        self.masks[o.TRUE_MASK] = True
        for mask in code.masks:
            self.masks[mask] = self.exists
        for row, value in code.constants.items():
            self.rows[row] = value & 0xFFFFFFFF
        for row, table in code.tables.items():
            self.rows[row] = table
        for row, (bank, offset) in code.banks.items():
            self.rows[row] = group.constant(bank, offset, 4).view(np.uint32)[0]
        for row, name in code.specials.items():
            self.rows[row] = (special(name, self) & 0xFFFFFFFF).astype(np.uint32)
        self.pc = np.zeros(code.lanes, int)
        # Where masks say who works, as on AMD's GPUs, control flow is that of the sub-group.
        self.live = np.ones(code.lanes, bool) if code.masks else self.exists.copy()
        self.waiting: dict[tuple[str, int], Any] = {}
        self.at_barrier: list[tuple[Step, Any]] = []
        self.barrier_recorded = False
        self.events: list[Event] = []
        self.last = [-1] * 8
        self.loads: list[int] = []
        self.copies: list[int] = []
        self.marks: list[int] = []
        self.scalar_load = self.settled = self.in_step = -1
        self.arrivals = 0
        self.brings = False

    def mask(self, source: int) -> Any:
        """A source mask: 2 * number, plus 1 where it is negated."""
        return ~self.masks[source // 2] if source % 2 else self.masks[source // 2]

    def wait(self, key: tuple[str, int], lanes: Any) -> None:
        self.waiting[key] = self.waiting.get(key, np.zeros_like(lanes)) | lanes

    @property
    def barrier(self) -> int:
        """The number of the barrier that it waits at, or -1."""
        return barrier_number(self.at_barrier[0][0]) if self.at_barrier else -1

    def settle(self, event: int) -> None:
        self.settled = max(self.settled, event)

    def blocked(self) -> Any:
        return np.any([np.zeros_like(self.live), *self.waiting.values()], axis=0)

    def instructions(self) -> list[int]:
        """Where living lanes are: each lane waits behind the micro-operation that it did last."""
        table, z = self.group.code.table, o.MicroOperation._fields.index("z")
        numbers = {int(table[pc - 1, z]) & (1 << INSTRUCTION_BITS) - 1 for pc in self.pc[self.live]}
        return sorted(numbers)


def special(name: str, warp: Warp) -> Any:
    """(lanes,) object array: what the driver fills a row with."""
    launch, lane = warp.group.launch, np.arange(len(warp.exists), dtype=object)
    first = warp.number * warp.group.code.width
    item = first + lane
    size = launch.group_size
    x, y, z = item % size[0], item // size[0] % size[1], item // (size[0] * size[1])
    below = (1 << lane) - 1
    values = {
        "lane": lane, "item_x": x, "item_y": y, "item_z": z, "packed_items": x | y << 10 | z << 20,
        "subgroup": lane * 0 + warp.number, "first_item": lane * 0 + first,
        "lanes_below": below, "lanes_up_to": below | 1 << lane, "lanes_above": ~(below | 1 << lane),
        "lanes_from": ~below, "this_lane": 1 << lane, "rank": lane * 0 + warp.group.rank,
        **{f"group_{axis}": lane * 0 + place for axis, place in zip("xyz", warp.group.place, strict=True)},
    }  # fmt: skip
    for part, address in (("arguments", launch.arguments), ("dispatch", launch.dispatch)):
        values |= {f"{part}_low": lane * 0 + address, f"{part}_high": lane * 0 + (address >> 32)}
    return values[name]


class Group:
    """A group while it runs. Raises KernelError where the program breaks a rule."""

    def __init__(
        self,
        code: Code,
        launch: Launch,
        place: tuple[int, int, int],
        memory: Memory,
        rank: int = 0,
        cluster: list[Group] | None = None,
    ) -> None:
        """rank, cluster : its number in the cluster, and the groups of it so far"""
        self.code, self.launch, self.place, self.memory = code, launch, place, memory
        items = int(np.prod(launch.group_size))
        self.local = np.zeros(memory.local_bytes, np.uint8)
        for at, *words in memory.local_start:
            self.local[at : at + 8].view(np.uint64)[0] = words[rank % 2]
        self.tensor = np.zeros((128, 512), np.uint32)
        n_warp = -(-items // code.width)
        self.private = np.zeros((n_warp * code.lanes, memory.private_bytes), np.uint8)
        self.executed = 0
        self.segments = np.zeros(len(code.segments), int)
        self.arrived: dict[int, list[Warp]] = {}
        self.rank, self.cluster = rank, cluster if cluster is not None else []
        self.cluster.append(self)
        self.warps = [Warp(self, number) for number in range(n_warp)]

    def constant(self, bank: int, offset: int, size: int) -> Bytes:
        """Bytes of a constant bank, which is zero beyond its end."""
        held = self.memory.banks.get(bank, np.zeros(0, np.uint8))[offset : offset + size]
        return np.concatenate([held, np.zeros(size - len(held), np.uint8)])

    def run(self, limit: int) -> None:
        """Sub-groups of the cluster in turn, each as far as it gets; then those go on whose barrier is complete."""
        warps = [warp for group in self.cluster for warp in group.warps]
        while any(warp.live.any() for warp in warps):
            for warp in warps:
                warp.group.run_warp(warp, limit)
            opened = [group.open_barriers() for group in self.cluster]
            if any([*opened, open_cluster(warps)]):
                continue
            rested = [warp.waiting.pop(("rest", 0), None) is not None for warp in warps]
            if not any(rested) and any(warp.live.any() for warp in warps):
                left = [warp for warp in warps if warp.live.any()]
                stuck = ", ".join(
                    f"{one.number} at instructions {one.instructions()}" for one in left
                )
                raise KernelError(f"a barrier that is never complete: sub-groups {stuck}")

    def run_warp(self, warp: Warp, limit: int) -> None:
        """Until all its lanes have ended or wait at a barrier."""
        while True:
            release_joins(warp)
            ready = warp.live & ~warp.blocked()
            if not ready.any():
                break
            self.executed += 1
            if self.executed > limit:
                raise KernelError(f"more than {limit} micro-operations")
            pc = warp.pc[ready].min()
            active = ready & (warp.pc == pc)
            warp.pc[active] = pc + 1
            step = Step(warp, o.MicroOperation(*self.code.table[pc].tolist()), active)
            DO[NAMES[step.fields.op]](step)
        if not warp.live.any() or ("rest", 0) in warp.waiting:
            return
        waiting = [key for key, lanes in warp.waiting.items() if lanes.any()]
        if waiting != [("barrier", warp.barrier)]:
            raise KernelError(
                f"lanes of sub-group {warp.number} wait for each other at instructions {warp.instructions()}"
            )
        step = warp.at_barrier[0][0]
        needed = int(step.u("a")[operations.first(step)]) if step.y else 0
        of_some = 0 < needed < np.prod(self.launch.group_size)
        if not warp.barrier_recorded and not of_some:
            warp.barrier_recorded = True
            record(warp.at_barrier[0][0], "barrier", o.LOCAL, {}, 0)

    def open_barriers(self) -> bool:
        """Lets those go on whose barrier is complete; whether there are any."""
        opened = False
        alive = [warp for warp in self.warps if warp.live.any()]
        for number in sorted({warp.barrier for warp in alive} - {-1, OF_CLUSTER}):
            warps = [warp for warp in alive if warp.barrier == number]
            step = warps[0].at_barrier[0][0]
            arrived = self.arrived.get(number, [])
            needed = int(step.u("a")[operations.first(step)]) if step.y else 0
            come = (len(warps) + len(arrived)) * self.code.lanes
            complete = (
                come >= needed if needed else len({*warps, *arrived} & {*alive}) == len(alive)
            )
            if complete:
                self.arrived[number] = []
                go_on(warps)
                opened = True
        return opened


OF_CLUSTER = 1 << 20


def open_cluster(warps: list[Warp]) -> bool:
    """Lets those go on that wait at the cluster's barrier, where all that live have arrived as often; whether there are any."""
    alive = [warp for warp in warps if warp.live.any()]
    least = min((warp.arrivals for warp in alive), default=0)
    waiting = [warp for warp in alive if warp.barrier == OF_CLUSTER and warp.arrivals <= least]
    for warp in waiting:
        go_on([warp])
    return bool(waiting)


def barrier_number(step: Step) -> int:
    """0 is the group's own; of others, in row b."""
    if step.x & 16:
        return OF_CLUSTER
    return int(step.u("b")[operations.first(step)]) if step.y else 0


def go_on(warps: list[Warp]) -> None:
    """Warps leave a barrier, with what it has counted."""
    said = np.concatenate([m[step.who] for warp in warps for step, m in warp.at_barrier])
    for warp in warps:
        for step, _ in warp.at_barrier:
            reduction = step.x >> 1 & 3
            if reduction == 1:
                step.put(int(said.sum()))
            elif reduction:
                step.put_mask(said.all() if reduction == 2 else said.any(), "e")
        del warp.waiting["barrier", warp.barrier]
        warp.at_barrier, warp.barrier_recorded = [], False


def release_joins(warp: Warp) -> None:
    """Lanes go on where all living lanes that they name wait with them."""
    for key, lanes in warp.waiting.items():
        kind, row = key
        if kind not in ("barrier", "rest"):
            here, alive = as_bits(lanes & warp.live), as_bits(warp.live)
            missing = warp.rows[row].astype(object) & alive & ~here
            warp.waiting[key] = lanes & warp.live & (missing != 0).astype(bool)


def run_group(
    code: Code, launch: Launch, place: tuple[int, int, int], memory: Memory, limit: int = 1_000_000
) -> Group:
    """Runs one group; `memory` is changed. The events of its sub-groups are in `group.warps`."""
    return run_cluster(code, launch, [place], memory, limit)[0]


def run_cluster(
    code: Code,
    launch: Launch,
    places: list[tuple[int, int, int]],
    memory: Memory,
    limit: int = 1_000_000,
) -> list[Group]:
    """Runs the groups of one cluster, which are at these places."""
    cluster: list[Group] = []
    for rank, place in enumerate(places):
        Group(code, launch, place, memory, rank, cluster)
    cluster[0].run(limit)
    return cluster


# --- control flow -----------------------------------------------------------------------------------
@operation("BLOCK")
def block(s: Step) -> None:
    s.warp.group.segments[s.y] += 1


@operation("BRANCH")
def branch(s: Step) -> None:
    s.warp.pc[s.who & s.m()] = s.y


@operation("BRANCH_TABLE", "RETURN")
def branch_table(s: Step) -> None:
    places = s.warp.group.code.places
    for lane in np.flatnonzero(s.who):
        address = int(s.u("a")[lane] + s.y) & 0xFFFFFFFF
        if address not in places:
            raise KernelError(f"no instruction is at {address:#x}, where lane {lane} goes")
        s.warp.pc[lane] = places[address]


@operation("EXIT")
def leave(s: Step) -> None:
    s.warp.live = s.warp.live & ~s.who


@operation("JOIN_SET")
def join_set(s: Step) -> None:
    s.put(as_bits(s.active))


@operation("JOIN_LEAVE")
def join_leave(s: Step) -> None:
    s.put(s.u("d") & ~as_bits(s.who), who=s.everyone)


@operation("JOIN_WAIT", "SYNC_LANES")
def join_wait(s: Step) -> None:
    """Lanes wait for those that wait with the same row, wherever they are."""
    s.warp.wait(("row", s.fields.a), s.who)


@operation("BARRIER")
def barrier(s: Step) -> None:
    number = barrier_number(s)
    if s.x & 8:
        if s.who.any() and s.u("a")[operations.first(s)] == np.prod(s.warp.group.launch.group_size):
            record(s, "barrier", o.LOCAL, {}, 0)
    elif s.who.any() and s.x & 17 == 17:
        s.warp.arrivals += 1
    elif s.who.any() and s.x & 1:
        s.warp.group.arrived.setdefault(number, []).append(s.warp)
        record(s, "arrive", o.LOCAL, {}, 0)
    elif s.who.any():
        s.warp.wait(("barrier", number), s.who)
        s.warp.at_barrier.append((s, s.m().copy()))


@operation("TRAP", "UNKNOWN")
def trap(s: Step) -> None:
    if s.who.any():
        which = 2 if operations.name_of(s) == "UNKNOWN" else s.y
        what = ("a trap", "an assertion that failed", "an instruction that is not known")[which]
        raise KernelError(f"instruction {instruction(s)} is {what}, in sub-group {s.warp.number}")


@operation("CLOCK")
def clock(s: Step) -> None:
    s.put(s.warp.group.executed, 2)


# --- memory -----------------------------------------------------------------------------------------
def instruction(s: Step) -> int:
    return s.fields.z & (1 << INSTRUCTION_BITS) - 1


def record(s: Step, kind: str, space: int, addresses: dict[int, int], size: int) -> None:
    """Notes an access, and what it was issued after; loads are what WAIT_COUNT counts, and stores with COUNTED."""
    warp = s.warp
    number = len(warp.events)
    warp.events.append(
        Event(warp.number, instruction(s), kind, space, addresses, size, warp.settled)
    )
    if kind == "barrier":
        warp.in_step = warp.settled
    slot = s.fields.z >> INSTRUCTION_BITS & 7
    if slot != NO_SLOT and addresses:
        warp.last[slot] = number
    if kind == "load" and s.x & o.ONE_LANE:
        warp.scalar_load = number
    elif kind == "load" or (kind == "atomic" and not s.x & o.NO_RESULT) or s.x & o.COUNTED:
        warp.loads.append(number)


@operation("WAIT_SLOTS")
def wait_slots(s: Step) -> None:
    for slot in range(6):
        if s.y >> slot & 1:
            s.warp.settle(s.warp.last[slot])


@operation("WAIT_COUNT")
def wait_count(s: Step) -> None:
    """Loads arrive in order, scalar loads in any order: of these only a count of 0 says something."""
    loads = s.warp.loads
    if s.x == 0 and len(loads) > s.y:
        s.warp.settle(loads[-1 - s.y])
    if s.x == 1 and s.y == 0:
        s.warp.settle(s.warp.scalar_load)


@operation("COPIES_END")
def copies_end(s: Step) -> None:
    """Accesses of slot 6 up to here are a group of copies, and of all groups before."""
    s.warp.copies.append(s.warp.last[COPIES])
    s.warp.marks.append(mark(s))


def mark(s: Step) -> int:
    """The barrier in memory that a group of copies comes to, -1 for none."""
    return int(s.u("a")[np.argmax(s.active)]) if s.x else -1


@operation("WAIT_COPIES")
def wait_copies(s: Step) -> None:
    for warp in s.warp.group.warps if s.x & 2 else [s.warp]:
        pairs = zip(warp.copies, warp.marks, strict=True)
        of_it = [copies for copies, its in pairs if not s.x or its == mark(s)]
        if len(of_it) > s.y:
            warp.settle(of_it[-1 - s.y])


@operation("REST")
def rest(s: Step) -> None:
    if s.who.any() and not (s.x and s.warp.brings):
        s.warp.wait(("rest", 0), s.who)


def addresses_of(s: Step) -> Lanes:
    """The address of each lane, modulo 2^64, or 2^32 in memories of that size."""
    space, factor = s.x & 7, (1, 4, 8, 16)[s.x >> o.SCALE & 3]
    if space not in (o.GLOBAL, o.GENERIC):
        found = (s.u("a") * factor + s.u("b") + s.y) & 0xFFFFFFFF
        if space == o.LOCAL and not s.x & o.ANY_GROUP and len(s.warp.group.cluster) > 1:
            found = found % WINDOW_BYTES + s.warp.group.rank * WINDOW_BYTES
        return found
    if s.x & o.ADDRESS_32:
        offset = (s.i("a") if s.x & o.SIGNED_32 else s.u("a")) * factor
    else:
        offset = s.u64("a")
    return (offset + s.u64("b") + s.y) & (1 << 64) - 1


def resolved(s: Step, address: int) -> tuple[int, int]:
    """A generic address as a space, and the address in it."""
    space, groups = s.x & 7, len(s.warp.group.cluster)
    if space == o.GENERIC:
        if o.LOCAL_WINDOW <= address < o.LOCAL_WINDOW + groups * WINDOW_BYTES:
            return o.LOCAL, address - o.LOCAL_WINDOW
        if o.PRIVATE_WINDOW <= address < o.PRIVATE_WINDOW + WINDOW_BYTES:
            return o.PRIVATE, address - o.PRIVATE_WINDOW
        return o.GLOBAL, address
    return space, address


def held(s: Step, space: int, lane: int, address: int, size: int) -> Bytes:
    """The bytes that a lane accesses. Raises KernelError where they are misaligned, or not in one array."""
    group = s.warp.group
    words = size == 12 or space != o.GLOBAL or group.code.masks  # AMD's accesses are of words
    aligned = min(size, 4 if words else 16)
    culprit = f"instruction {instruction(s)}, lane {lane} of sub-group {s.warp.number}"
    if address % aligned:
        raise KernelError(
            f"{culprit}: {size} bytes at {address:#x}, which is no multiple of {aligned}"
        )
    memories = [("", base, data) for _, base, data in group.memory.arrays]
    if space == o.LOCAL:
        memories = [("", WINDOW_BYTES * one.rank, one.local) for one in group.cluster]
    elif space == o.PRIVATE:
        memories = [("", 0, group.private[s.warp.number * s.lanes + lane])]
    for _, base, data in memories:
        if base <= address and address + size <= base + len(data):
            return data[address - base : address - base + size]
    raise KernelError(f"{culprit}: {size} bytes at {address:#x} are out of bounds")


def accessed(s: Step, kind: str) -> Iterator[tuple[int, Bytes]]:
    """(lane, bytes) of the lanes that take part, in order; recorded first. Global lanes come before private ones."""
    size = s.x >> o.BYTES & 63
    lanes = [0] if s.x & o.ONE_LANE else np.flatnonzero(s.who)
    addresses = addresses_of(s)
    found = {int(lane): resolved(s, int(addresses[lane])) for lane in lanes}
    data = {lane: held(s, *[place[0], lane, place[1]], size) for lane, place in found.items()}
    for recorded in (o.GLOBAL, o.PRIVATE):
        here = {lane: address for lane, (inside, address) in found.items() if inside == recorded}
        if here:
            record(s, kind, recorded, here, size)
    yield from () if s.x & o.SKIPPED else data.items()


@operation("LOAD")
def load(s: Step) -> None:
    if s.x & 7 == o.BULK:
        return bulk.copy(s, "load")
    for lane, data in list(accessed(s, "load")):
        who = s.everyone if s.x & o.ONE_LANE else np.arange(s.lanes) == lane
        put_loaded(s, data, who)


def put_loaded(s: Step, data: Bytes, who: Lanes) -> None:
    """Bytes as rows; of one or two bytes the rest of the row is the sign, zero, or what was there."""
    value, size = int.from_bytes(data.tobytes(), "little"), len(data)
    if size >= 4:
        s.put(value, size // 4, who=who)
        return
    if s.x & o.SIGN_EXTEND:
        value = int(signed(value, 8 * size)) & 0xFFFFFFFF
    if s.x & (o.HIGH_HALF | o.KEEP_HALF):
        high = bool(s.x & o.HIGH_HALF)
        s.put(s.u("d") & (0xFFFF if high else 0xFFFF0000) | (value & 0xFFFF) << 16 * high, who=who)
    else:
        s.put(value, who=who)


@operation("LOAD_CONSTANT")
def load_constant(s: Step) -> None:
    for lane in np.flatnonzero(s.who):
        offset = int(s.u("a")[lane] + s.y) & 0xFFFFFFFF
        data = s.warp.group.constant(s.fields.n >> 1, offset, s.x >> o.BYTES & 63)
        put_loaded(s, data, np.arange(s.lanes) == lane)


@operation("STORE")
def store(s: Step) -> None:
    if s.x & 7 == o.BULK:
        return bulk.copy(s, "store")
    for lane, data in accessed(s, "store"):
        rows = max(1, len(data) // 4)
        value = s.warp.rows[s.fields.c : s.fields.c + rows, lane].tobytes()
        at = 2 if s.x & o.HIGH_HALF and len(data) < 4 else 0
        data[:] = np.frombuffer(value[at : at + len(data)], np.uint8)


@operation("ATOMIC")
def atomic(s: Step) -> None:
    """Lanes in turn, the lowest first."""
    if s.x & 7 == o.BULK:
        return bulk.copy(s, "atomic")
    kind = s.x >> o.ATOMIC_OPERATION & 15
    olds = {}
    for lane, data in accessed(s, "atomic"):
        size = len(data)
        rows = max(1, size // 4)
        groups = int(s.warp.rows[s.fields.e, lane])
        arrives = kind in (o.ATOMIC_ARRIVE_HOPPER, o.ATOMIC_DROP_HOPPER) and size == 8
        if arrives and s.x & 7 == o.LOCAL and groups:
            come_to_groups(s, lane, groups, kind)
            continue
        old = int.from_bytes(data.tobytes(), "little")
        given, compared = (
            int.from_bytes(s.warp.rows[row : row + rows, lane].tobytes()[:size], "little")
            for row in (s.fields.c, s.fields.e)
        )
        if kind == o.ATOMIC_COMPARE:
            new = given if old == compared else old
        elif s.x & o.FLOATING and kind != o.ATOMIC_EXCHANGE:
            new = changed_floats(kind, old, given, size, s.x)
        else:
            new = changed(kind, old, given, 8 * size)
        data[:] = np.frombuffer(new.to_bytes(size, "little"), np.uint8)
        olds[lane] = old, rows
    for lane, (old, rows) in olds.items():
        if not s.x & o.NO_RESULT:
            s.put(old, rows, who=np.arange(s.lanes) == lane)


def come_to_groups(s: Step, lane: int, groups: int, kind: int) -> None:
    """Some come to the barriers at this place in the memory of each of these groups, a bit each."""
    place = int(addresses_of(s)[lane]) % WINDOW_BYTES
    given = int.from_bytes(s.warp.rows[s.fields.c : s.fields.c + 2, lane].tobytes(), "little")
    for group in s.warp.group.cluster:
        if groups >> group.rank & 1:
            word = group.local[place : place + 8].view(np.uint64)
            word[0] = changed(kind, int(word[0]), given, 64)


def changed(kind: int, old: int, given: int, bits: int) -> int:
    """What an atomic operation on integers leaves in memory."""
    a, b = int(signed(old, bits)), int(signed(given, bits))
    new = {
        o.ATOMIC_ADD: old + given, o.ATOMIC_SUBTRACT: old - given, o.ATOMIC_MIN_S: min(a, b), o.ATOMIC_MAX_S: max(a, b),
        o.ATOMIC_MIN_U: min(old, given), o.ATOMIC_MAX_U: max(old, given), o.ATOMIC_AND: old & given,
        o.ATOMIC_OR: old | given, o.ATOMIC_XOR: old ^ given, o.ATOMIC_EXCHANGE: given,
        o.ATOMIC_INCREMENT: 0 if old >= given else old + 1,
        o.ATOMIC_DECREMENT: given if old == 0 or old > given else old - 1,
        o.ATOMIC_ARRIVE: ampere(old), o.ATOMIC_ARRIVE_HOPPER: hopper(old, given, 0),
        o.ATOMIC_DROP_HOPPER: hopper(old, given, given & 0xFFFFFFFF),
    }  # fmt: skip
    return new[kind] & (1 << bits) - 1


def ampere(old: int) -> int:
    """A barrier in memory to which one has come, on an A100."""
    threads, phase = (1 << 30) - (old & 0xFFFFFFFF), old >> 63
    missing = (1 << 31) - (old >> 32 & 0x7FFFFFFF) - 1
    if missing == 0:
        missing, phase = threads, 1 - phase
    return (phase << 63) + ((1 << 31) - missing << 32) + (old & 0xFFFFFFFF)


def hopper(old: int, given: int, leaving: int) -> int:
    """The same from an H100 on. leaving : how many come to no later phase"""
    threads = ((1 << 20) - (old >> 1 & 0xFFFFF) - leaving) % (1 << 20)
    missing = ((1 << 20) - (old >> 43 & 0xFFFFF) - (given & 0xFFFFFFFF)) % (1 << 20)
    awaited, phase = ((old >> 21) + (given >> 32)) % (1 << 22), old >> 63
    if missing == awaited == 0:
        missing, phase = threads, 1 - phase
    left, leaves = (-number % (1 << 20) for number in (missing, threads))
    return phase << 63 | left << 43 | awaited << 21 | leaves << 1 | old & 1


def changed_floats(kind: int, old: int, given: int, size: int, x: int) -> int:
    """The same of floats, doubles, or the halves of a pair."""
    form = reals.F64 if size == 8 else reals.F32
    if size == 2 or x & (o.PACKED | o.BF16):
        form = operations.half_format(x)
    functions: dict[int, Callable[..., reals.Real]] = {
        o.ATOMIC_ADD: reals.plus, o.ATOMIC_MIN_S: reals.smaller, o.ATOMIC_MAX_S: reals.larger,
        o.ATOMIC_MIN_U: reals.smaller, o.ATOMIC_MAX_U: reals.larger,
    }  # fmt: skip
    new = 0
    for at in range(0, 8 * size, form.bits):
        a, b = (reals.decoded(one >> at & (1 << form.bits) - 1, form) for one in (old, given))
        new |= reals.encoded(functions[kind](a, b), form) << at
    return new
