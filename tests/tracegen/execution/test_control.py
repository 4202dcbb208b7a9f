"""Control flow, barriers, waits and faults: short programs whose outcome is known, for the interpreter and its twin."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from memsim.errors import KernelError
from tests.twins.comparison import differences, interpreted
from tests.twins.execution import Group, Launch, Memory, run_group
from tests.twins.programs import BASE, NOT_STRAIGHT, STRAIGHT
from tracegen.execution import operations as o
from tracegen.execution.code import Assembler, Code
from tracegen.execution.run import Fault

WORD = 4 << o.BYTES


class Text:
    """An assembler with rows and masks by name: `lane` and `subgroup` are the driver's, numbers constants, `r+` the row behind r, `!p` a mask negated."""

    def __init__(self, lanes: int = 32) -> None:
        self.made, self.number = Assembler(lanes=lanes), 0
        self.made.block(["start"])
        if lanes == 64:
            self.made.mask("exec", "exec")

    def row(self, name: str | int) -> int:
        if isinstance(name, int):
            return self.made.constant(name, 0)
        if name in ("lane", "subgroup"):
            return self.made.special(name)  # type: ignore[arg-type]
        return self.made.rows(name.strip("+"), 2) + name.endswith("+")

    def mask(self, name: str) -> int:
        return 2 * self.made.mask(name.strip("!")) + name.startswith("!")

    def do(self, name: str, block: bool = False, **fields: str | int) -> None:
        """One operation, an instruction of its own. `block`: the next one begins a block."""
        self.made.instruction(self.number, 16 * self.number)
        self.number += 1
        kind, given = o.OPERATIONS[name], {}
        for field, value in fields.items():
            if field in ("label", "slot", "x") or (field == "y" and isinstance(value, int)):
                given[field] = value
            elif field in kind.masks_written:
                given[field] = self.mask(str(value)) >> 1
            elif field in ("m", "n", "guard"):
                given[field] = self.mask(str(value))
            else:
                given[field] = self.row(value)
        self.made.emit(name, **given)  # type: ignore[arg-type]
        if block or name in ("BRANCH", "BRANCH_TABLE", "RETURN"):
            self.made.block()

    def label(self, name: str) -> None:
        self.made.block([name])

    def below(self, mask: str, limit: int) -> None:
        """A mask of the lanes below a number."""
        self.do("COMPARE_U", d=mask, a="lane", b=limit, x=o.LESS)

    def code(self) -> Code:
        self.do("EXIT")
        return self.made.finish()


def memory() -> Memory:
    return Memory(
        arrays=[("words", BASE, np.arange(1024, dtype=np.uint32).view(np.uint8))],
        local_bytes=256, private_bytes=64,
    )  # fmt: skip


def run(text: Text, items: int = 32) -> tuple[Group, Code]:
    """The twin's group, after the interpreter has done the same."""
    code = text.code()
    assert differences(code, (items, 1, 1), memory()) == []
    return run_group(code, Launch((items, 1, 1)), (0, 0, 0), memory()), code


def values(group: Group, text: Text, name: str, warp: int = 0) -> list[int]:
    return group.warps[warp].rows[text.row(name)].tolist()


def test_tables_of_branches() -> None:
    """Even lanes go to one place, odd ones to another, and all return to an address in a row."""
    text = Text()
    text.do("LOGIC3", d="odd", a="lane", b=1, y=0xC0)
    text.do("MULTIPLY_ADD", d="to", a="odd", b=32)
    text.do("BRANCH_TABLE", a="to", y=4 * 16)
    text.do("TRAP")
    text.do("MOVE", d="r", a=10)
    text.do("RETURN", a=8 * 16)
    text.do("MOVE", d="r", a=11)
    text.do("RETURN", a=8 * 16)
    text.do("ADD3", d="r", a="r", b=100)
    assert values(run(text)[0], text, "r") == [110, 111] * 16


def test_lanes_that_leave_a_join() -> None:
    """Lanes 0 to 3 leave the join; the others do not wait for them, and lanes of another join meet by themselves."""
    text = Text()
    text.below("few", 4)
    text.below("half", 16)
    text.do("BRANCH", m="!half", label="second")
    text.do("JOIN_SET", d="join")
    text.do("JOIN_LEAVE", d="join", guard="few")
    text.do("BRANCH", m="few", label="away")
    text.do("BRANCH", label="meet")
    text.label("second")
    text.do("JOIN_SET", d="join")
    text.label("meet")
    text.do("JOIN_WAIT", a="join", block=True)
    text.do("VOTE", d="together", m="!half", y=o.VOTE_ALL)
    text.do("BRANCH", label="end")
    text.label("away")
    text.do("MASK_TO_ROWS", d="gone", m="few", x=3)
    text.label("end")
    group, _ = run(text)
    assert values(group, text, "join")[:5] == [0xFFF0] * 5
    assert values(group, text, "join")[16:] == [0xFFFF0000] * 16
    assert values(group, text, "gone")[:5] == [15, 15, 15, 15, 0]


def test_lanes_of_two_joins_meet_at_one_place() -> None:
    """Lane 31 comes by a detour; lanes below 16 do not wait for it, those of its own join do."""
    text = Text()
    for mask, limit in (("half", 16), ("early", 31), ("all", 32)):
        text.below(mask, limit)
    text.do("MOVE", d="join", a=0xFFFF)
    text.do("MOVE", d="join", a=0xFFFF0000, guard="!half")
    text.do("BRANCH", m="!early", label="detour")
    text.label("meet")
    text.do("SYNC_LANES", a="join", block=True)
    text.do("MASK_TO_ROWS", d="here", m="all", x=3)
    text.do("BRANCH", label="end")
    text.label("detour")
    text.do("BRANCH", label="meet")
    text.label("end")
    group, _ = run(text)
    assert values(group, text, "here") == [0xFFFF] * 16 + [0xFFFF0000] * 16


def test_results_over_their_sources() -> None:
    """Lanes read each other's values: none may be written before."""
    text = Text()
    text.do("MULTIPLY_ADD", d="to", a="lane", b=5)
    text.do("SCATTER_LANES", d="to", a="lane", c="to")
    text.do("LOGIC3", d="pair+", a="lane", b=1, y=0xC0)
    text.do("MATCH_ANY", d="pair+", a="pair", x=1)
    group, _ = run(text)
    assert [values(group, text, "to")[5 * lane % 32] for lane in range(32)] == list(range(32))
    assert values(group, text, "pair+") == [0x55555555, 0xAAAAAAAA] * 16


def test_named_barriers() -> None:
    """Of four sub-groups, the first two meet at barrier 3; the third waits at barrier 5, at which the last one only arrives. All meet at
    barrier 7, which alone is recorded as one of the group."""
    text = Text()
    text.do("MOVE", d="group", a="subgroup")
    for mask, limit in (("first", 1), ("pair", 2), ("three", 3)):
        text.do("COMPARE_U", d=mask, a="group", b=limit, x=o.LESS)
    text.do("BARRIER", a=64, b=3, y=1, guard="pair", d="votes", m="first", x=1 << 1)
    text.do("BRANCH", m="pair", label="end")
    text.do("BRANCH", m="!three", label="arrive")
    text.do("BARRIER", a=64, b=5, y=1)
    text.do("BRANCH", label="end")
    text.label("arrive")
    text.do("BARRIER", a=64, b=5, y=1, x=1)
    text.label("end")
    text.do("BARRIER", a=128, b=7, y=1)
    group, _ = run(text, 128)
    assert [values(group, text, "votes", warp)[0] for warp in range(4)] == [32, 32, 0, 0]
    kinds = [event.kind for warp in group.warps for event in warp.events]
    assert kinds == [*["barrier"] * 3, "arrive", "barrier"]


def test_reductions_at_a_barrier() -> None:
    text = Text()
    text.below("low", 3)
    text.do("BARRIER", d="count", m="low", x=1 << 1)
    text.do("BARRIER", e="all", m="low", x=2 << 1)
    text.do("BARRIER", e="any", m="low", x=3 << 1)
    group, _ = run(text, 50)
    assert values(group, text, "count", 1)[:18] == [6] * 18
    masks = [group.warps[1].masks[text.mask(name) >> 1][:18] for name in ("all", "any")]
    assert (masks[0].any(), masks[1].all()) == (False, True)


def test_a_barrier_that_lanes_reach_one_after_another() -> None:
    text = Text()
    text.below("few", 5)
    text.do("BRANCH", m="few", label="meet")
    text.do("ADD3", d="r", a="lane", b=1)
    text.label("meet")
    text.do("BARRIER", d="count", m="few", x=1 << 1)
    group, _ = run(text, 40)
    assert values(group, text, "count") == [10] * 32
    assert [len(warp.events) for warp in group.warps] == [1, 1]


@pytest.mark.parametrize(
    ("kind", "begin", "end"),
    [
        (o.ATOMIC_ARRIVE, ((1 << 30) - 96, (1 << 31) - 96), (1 << 32) - 96),
        (o.ATOMIC_ARRIVE_HOPPER, ((1 << 20) - 96 << 1, (1 << 20) - 96 << 11), 1 << 31 | (1 << 20) - 96 << 11),
    ],
)  # fmt: skip
def test_a_barrier_in_memory(kind: int, begin: tuple[int, int], end: int) -> None:
    """Of 96 threads each comes once; then the phase, bit 63, is the next one, to which none has come."""
    text = Text()
    local = o.LOCAL | o.ADDRESS_32 | 8 << o.BYTES
    text.do("MOVE", d="state", a=begin[0])
    text.do("MOVE", d="state+", a=begin[1])
    text.do("STORE", c="state", x=local)
    text.do("BARRIER")
    text.do("MOVE", d="one", a=1)
    text.do("ATOMIC", d="old", c="one", x=local | kind << o.ATOMIC_OPERATION, block=True)
    text.label("again")
    text.do("LOAD", d="state", x=local)
    text.do("COMPARE_S", d="done", a="state+", x=o.LESS)
    text.do("REST", guard="!done")
    text.do("BRANCH", m="!done", label="again")
    text.do("BARRIER", a=96, x=8)
    text.do("BARRIER", a=64, x=8)  # one of fewer threads is not of the group
    group, _ = run(text, 96)
    for warp in range(3):
        assert set(values(group, text, "state", warp)) == {begin[0]}
        assert set(values(group, text, "state+", warp)) == {end}
        assert [event.kind for event in group.warps[warp].events] == ["barrier"] * 2


def test_what_is_waited_for() -> None:
    """Slots settle by themselves, counts of loads in order, scalar loads all at once, copies by groups."""
    text = Text(64)
    load = o.GLOBAL | WORD

    def access(slot: int = 7, x: int = load, name: str = "LOAD") -> None:
        text.do(name, a=BASE, slot=slot, x=x)

    access(slot=1)  # 0
    access(slot=2)  # 1
    access(slot=1)  # 2
    text.do("WAIT_SLOTS", y=1 << 2)
    access(name="STORE")  # 3, after 1
    text.do("WAIT_COUNT", y=1)
    access()  # 4, after 1: of loads 0, 1 and 2 the last may be outstanding
    text.do("WAIT_SLOTS", y=1 << 1)
    access(x=load | o.ONE_LANE)  # 5, after 2
    text.do("WAIT_COUNT", y=1, x=1)
    access(slot=6)  # 6, after 2
    text.do("COPIES_END")
    access(slot=6)  # 7, after 2
    text.do("COPIES_END")
    text.do("WAIT_COPIES", y=1)
    access()  # 8, after 6
    text.do("WAIT_COPIES", y=0)
    access()  # 9, after 7
    text.do("WAIT_COUNT", y=0)
    access()  # 10, after 9
    for barrier in (8, 16):
        access(slot=6)  # 11 and 12, after 9
        text.do("COPIES_END", a=barrier, x=1)
    text.do("WAIT_COPIES", a=8, x=1)
    access()  # 13, after 11
    text.do("WAIT_COPIES", a=24, x=1)
    access()  # 14: no copies come to that barrier
    group, _ = run(text, 64)
    waits = [event.waits for event in group.warps[0].events]
    assert waits == [-1, -1, -1, 1, 1, 2, 2, 2, 6, 7, 9, 9, 9, 11, 11]


def test_a_counter_of_loads_and_stores() -> None:
    """At most one of a load and the store behind it may be outstanding: the load has arrived. None may: the store has."""
    waits = []
    for counted in (0, o.COUNTED):
        text = Text(64)
        text.do("LOAD", a=BASE, x=o.GLOBAL | WORD)
        text.do("STORE", a=BASE, x=o.GLOBAL | WORD | counted)
        text.do("WAIT_COUNT", y=1)
        text.do("STORE", a=BASE, x=o.GLOBAL | WORD | counted)
        text.do("WAIT_COUNT")
        text.do("LOAD", a=BASE, x=o.GLOBAL | WORD)
        group, _ = run(text, 64)
        waits.append([event.waits for event in group.warps[0].events])
    assert waits == [[-1, -1, -1, 0], [-1, -1, 0, 2]]


def test_scalar_loads_go_to_all_lanes() -> None:
    text = Text(64)
    text.do("LOAD", d="r", a=BASE + 8, guard="nobody", x=o.GLOBAL | 8 << o.BYTES | o.ONE_LANE)
    group, _ = run(text, 40)
    assert group.warps[0].rows[text.row("r") : text.row("r") + 2].tolist() == [[2] * 64, [3] * 64]
    assert group.warps[0].events[0].addresses == {0: BASE + 8}


def test_clock() -> None:
    text = Text()
    text.do("CLOCK", d="first")
    text.do("CLOCK", d="second")
    code = text.code()
    execution, _ = interpreted(code, Launch((32, 1, 1)), memory())
    assert execution is not None
    group = run_group(code, Launch((32, 1, 1)), (0, 0, 0), memory())
    assert 0 < values(group, text, "first")[0] < values(group, text, "second")[0]


def one(name: str, **fields: int) -> Callable[[Text], None]:
    return lambda text: text.do(name, **fields)


def out_of_bounds(text: Text) -> None:
    for place in (BASE + 4093, BASE + 4096):
        text.do("LOAD", a=place, x=o.GLOBAL | 1 << o.BYTES)


def stuck_lanes(text: Text) -> None:
    """Half of the lanes wait for the others at a join, these for all at a barrier."""
    text.below("few", 5)
    text.do("JOIN_SET", d="join")
    text.do("BRANCH", m="few", label="join")
    text.do("BARRIER")
    text.label("join")
    text.do("JOIN_WAIT", a="join")


FAULTS: list[tuple[Callable[[Text], None], str, int]] = [
    (out_of_bounds, "out of bounds", 1),
    (one("STORE", a=BASE + 4, x=o.GLOBAL | 8 << o.BYTES), "no multiple of 8", 0),
    (one("LOAD", a=256, x=o.LOCAL | WORD), "out of bounds", 0),
    (one("LOAD", a=64, x=o.PRIVATE | WORD), "out of bounds", 0),
    (one("BRANCH_TABLE", a=4096), "no instruction is at 0x1000", 0),
    (stuck_lanes, r"instructions \[3, 4\]", -1),
    # More sub-groups are needed than there are.
    (one("BARRIER", a=96, b=1, y=1), r"sub-groups 0 at instructions \[0\], 1 at", -1),
    (one("TRAP", y=1), "an assertion that failed", 0),
    (one("UNKNOWN"), "an instruction that is not known", 0),
]


@pytest.mark.parametrize(("program", "said", "at"), FAULTS)
def test_faults(program: Callable[[Text], None], said: str, at: int) -> None:
    text = Text()
    program(text)
    code = text.code()
    with pytest.raises(KernelError, match=said):
        run_group(code, Launch((64, 1, 1)), (0, 0, 0), memory())
    with pytest.raises(Fault) as found:
        interpreted(code, Launch((64, 1, 1)), memory())
    if at >= 0:
        assert found.value.instruction == at


def test_every_operation_is_in_a_test() -> None:
    """Random programs draw from STRAIGHT; the rest are in test_branches or here."""
    assert {*STRAIGHT, *NOT_STRAIGHT} == set(o.OPERATIONS)
