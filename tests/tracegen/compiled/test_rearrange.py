"""Traces in the order of machine code: hand-written code, and what must come out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.machine_code import compiled, machine_code, probe, rearranged, rows

TEXT = "c[0] = a[0] + b[0];\n"
THREE = [probe("load", TEXT, "a[0]"), probe("load", TEXT, "b[0]"), probe("store", TEXT, "c[0]")]


def test_loads_come_in_the_order_of_the_instructions_and_wait_at_their_first_use() -> None:
    code = machine_code(
        [(["load R1 b 1:15", "use R1", "load R2 a 1:8", "use R2", "store c 1:6 R2"], ())]
    )
    result = rearranged(compiled(code, TEXT, THREE), [[(0, 10), (1, 20), (2, 30)]])
    assert rows(result) == [
        [("b[0]", (20,), True), ("a[0]", (10,), True), ("store c[0]", (30,), True)]
    ]
    assert list(result.columns["waits"]) == [-1, 0, 1]
    assert result.unmatched == 0


def test_loads_that_nothing_waits_for_are_one_sequence() -> None:
    code = machine_code([(["load R1 a 1:8", "load R2 b 1:15", "use R1 R2", "store c 1:6"], ())])
    result = rearranged(compiled(code, TEXT, THREE), [[(0, 10), (1, 20), (2, 30)]])
    assert [begins for *_, begins in rows(result)[0]] == [True, False, True]


def test_counted_waits_of_amd_end_a_sequence() -> None:
    code = machine_code(
        [(["load - a 1:8", "load - b 1:15", "wait 1", "wait 1", "store c 1:6", "wait 0"], ())]
    )
    result = rearranged(compiled(code, TEXT, THREE), [[(0, 10), (1, 20), (2, 30)]])
    assert [begins for *_, begins in rows(result)[0]] == [True, False, True]
    assert list(result.columns["waits"]) == [-1, -1, 0]


WINDOW = "x = a[0] + a[1] + a[2] + a[3] + a[4];\n"
FIVE = [probe("load", WINDOW, f"a[{k}]") for k in range(5)]
AT = [f"a 1:{WINDOW.index(f'a[{k}]') + 1}" for k in range(5)]


@pytest.mark.parametrize(
    "code",
    [
        "load R1 {0}; load R2 {1}; use R1; load R3 {2}; use R2; load R4 {3}; use R3; load R5 {4}; use R4 R5",
        "load - {0}; load - {1}; wait 1; load - {2}; wait 1; load - {3}; wait 1; load - {4}; wait 0",
    ],
)
def test_a_window_of_two_loads_has_sequences_of_two(code: str) -> None:
    """The second load arrives with the first one: only a wait for what was issued since then ends a sequence."""
    entries = [[(k, 10 * k) for k in range(5)]]
    block = (code.format(*AT).split("; "), ())
    result = rearranged(compiled(machine_code([block]), WINDOW, FIVE), entries)
    assert [begins for *_, begins in rows(result)[0]] == [True, False, True, False, True]
    assert list(result.columns["waits"]) == [-1, -1, 0, 1, 2]


COPIES = "for (i) {\n x += a[i];\n}\nc[0] = x;\n"
LOOP = "for (i) {\n x += a[i] * b[i];\n}\nc[0] = x;\n"
LOOP_PROBES = [
    probe("load", LOOP, "a[i]"),
    probe("load", LOOP, "b[i]"),
    probe("edge", LOOP, "", first=0, last=1),
    probe("store", LOOP, "c[0]"),
]


def test_an_unrolled_loop_takes_its_main_body_before_its_remainder() -> None:
    code = machine_code(
        [
            (["use R9"], (1, 2)),
            (["load R1 a 2:7", "load R2 a 2:7", "load R3 b 2:14", "load R4 b 2:14", "use R1 R2 R3 R4"], (1, 2)),
            (["use R9"], (3, 4)),
            (["load R1 a 2:7", "load R3 b 2:14", "use R1 R3"], (3, 4)),
            (["store c 4:6"], ()),
        ]
    )  # fmt: skip
    stream = [entry for i in range(5) for entry in ((0, i), (1, 10 + i))] + [(3, 99)]
    names = [f"{name[0]}{granule[0]}" for name, granule, _ in rows(
        rearranged(compiled(code, LOOP, LOOP_PROBES), [stream])
    )[0]]  # fmt: skip
    assert names == ["a0", "a1", "b10", "b11", "a2", "a3", "b12", "b13", "a4", "b14", "s99"]


@pytest.mark.parametrize(
    ("row", "optional", "n_sequences"),
    [
        *((1, "", 3), (2, "", 6), (4, "", 3), (5, "", 6), (7, "", 12), (1, "?", 3), (4, "?", 3)),
        # At the end, a predicate may have switched off what the main body lacks.
        *((2, "?", 5), (7, "?", 10)),
    ],
)
def test_rows_that_are_shorter_than_an_unrolled_loop_take_its_remainder(
    row: int, optional: str, n_sequences: int
) -> None:
    """Three rows of a few elements, 32 bytes apart: the main body has four, by one base register, and no four
    that follow each other lie in two rows."""
    offsets = (0, 0x40, 0x20, 0x60)
    main = [f"{optional}load R{k} a 2:7 [R9+{at:#x}]" for k, at in enumerate(offsets)]
    code = machine_code(
        [
            (["use R8"], (1, 2)),
            ([*main, "use R0 R1 R2 R3"], (1, 2, 0)),
            (["use R8"], (3, 4)),
            (["load R1 a 2:7 [R9]", "use R1"], (3, 0, 4)),
            (["store c 4:6"], ()),
        ]
    )
    granules = [100 * line + x for line in range(3) for x in range(row)]
    probes = [
        probe("load", COPIES, "a[i]"),
        probe("edge", COPIES, ""),
        probe("store", COPIES, "c[0]"),
    ]
    stream = [*((0, granule) for granule in granules), (2, 999)]
    result = rearranged(compiled(code, COPIES, probes), [stream])
    assert sorted(one[0] for _, one, _ in rows(result)[0]) == [*granules, 999]
    assert sum(begins for *_, begins in rows(result)[0]) == n_sequences + 1


def test_an_access_that_was_moved_out_of_its_loop_is_performed_once() -> None:
    code = machine_code(
        [
            (["load R1 a 2:7"], (1,)),
            (["load R2 b 2:14", "use R2"], (1, 2)),
            (["store c 4:6"], ()),
        ]
    )
    stream = [entry for i in range(3) for entry in ((0, 7), (1, 10 + i))] + [(3, 99)]
    result = rearranged(compiled(code, LOOP, LOOP_PROBES), [stream])
    assert [granules[0] for _, granules, _ in rows(result)[0]] == [7, 10, 11, 12, 99]


def test_a_load_without_an_instruction_was_dropped() -> None:
    code = machine_code([(["load R1 a 1:8", "use R1", "store c 1:6"], ())])
    result = rearranged(compiled(code, TEXT, THREE), [[(0, 10), (1, 20), (2, 30)]])
    assert [name for name, *_ in rows(result)[0]] == ["a[0]", "store c[0]"]


USED = [*THREE[:2], probe("store", TEXT, "c[0]", feeds=[0, 1])]


def test_a_load_whose_value_is_needed_and_not_known_was_not_dropped() -> None:
    code = machine_code([(["load R1 a 1:8", "use R1", "store c 1:6"], ())])
    launch = compiled(code, TEXT, USED)
    result = rearranged(launch, [[(0, 10), (1, 20), (2, 30)]])
    assert sorted(name for name, *_ in rows(result)[0]) == ["a[0]", "b[0]", "store c[0]"]
    assert result.unmatched == pytest.approx(1 / 3)
    [note] = launch.provenance(result)["notes"]
    assert "no instruction for b[0]:" in note


def test_a_load_whose_value_is_known_was_dropped() -> None:
    code = machine_code([(["load R1 a 1:8", "use R1", "store c 1:6"], ())])
    launch = compiled(code, TEXT, USED)
    result = rearranged(launch, [[(0, 10), (1, 10), (2, 30)]])
    assert [name for name, *_ in rows(result)[0]] == ["a[0]", "store c[0]"]
    assert launch.provenance(result)["notes"] == []


@pytest.mark.parametrize(
    ("last", "stored"), [(30, ["store d[0]"]), (31, ["store c[0]", "store d[0]"])]
)
def test_a_store_was_dropped_where_another_overwrites_it(last: int, stored: list[str]) -> None:
    text = "c[0] = 0; d[0] = 1;\n"
    probes = [probe("store", text, "c[0]"), probe("store", text, "d[0]")]
    code = machine_code([(["store d 1:11"], ())])
    result = rearranged(compiled(code, text, probes), [[(0, 30), (1, last)]])
    assert sorted(name for name, *_ in rows(result)[0]) == stored


@pytest.mark.parametrize(("n_copies", "n_unrolled"), [(4, 1), (4, 2), (8, 3), (2, 4), (3, 1)])
def test_copies_of_a_text_are_performed_by_the_instructions_that_there_are(
    n_copies: int, n_unrolled: int
) -> None:
    """The traced code has n_copies of the loop's body, the machine's code n_unrolled of them."""
    probes = [probe("load", COPIES, "a[i]") for _ in range(n_copies)]
    probes += [
        probe("edge", COPIES, "", first=0, last=n_copies - 1),
        probe("store", COPIES, "c[0]", feeds=range(n_copies)),
    ]
    loads = [f"load R{k} a 2:7" for k in range(n_unrolled)]
    registers = " ".join(f"R{k}" for k in range(n_unrolled))
    code = machine_code(
        [
            (["use R9"], (1,)),
            ([*loads, f"use {registers}"], (1, 2)),
            (["store c 4:6"], ()),
        ]
    )
    n = 24
    stream = [(k % n_copies, k) for k in range(n)] + [(n_copies + 1, 99)]
    result = rearranged(compiled(code, COPIES, probes), [stream])
    assert sorted(granules[0] for _, granules, _ in rows(result)[0]) == [*range(n), 99]
    assert result.unmatched == 0
    assert sum(begins for *_, begins in rows(result)[0]) == n // n_unrolled + 1


@pytest.mark.parametrize("remainder", [2, 1])
def test_two_calls_in_an_unrolled_loop(remainder: int) -> None:
    """Main body: two turns, two calls each. Remainder: one turn, where the compiler may have merged the loads."""
    text = "x = f(a[i]);\nc[0] = x;\n"
    probes = [*([probe("load", text, "a[i]")] * 2), probe("edge", text, "", first=0, last=1)]
    probes.append(probe("store", text, "c[0]", feeds=range(2)))
    main, rest = ([f"load R{k} a 1:7" for k in range(n)] for n in (4, remainder))
    code = machine_code(
        [
            (["use R9"], (1, 2)),
            ([*main, "use R0 R1 R2 R3"], (1, 2)),
            (["use R9"], (3, 4)),
            ([*rest, "use R0 R1"], (3, 4)),
            (["store c 2:1"], ()),
        ]
    )
    n_turns = 13
    stream = [(call, 2 * turn + call) for turn in range(n_turns) for call in range(2)]
    result = rearranged(compiled(code, text, probes), [[*stream, (3, 99)]])
    assert sorted(granules[0] for _, granules, _ in rows(result)[0]) == [*range(2 * n_turns), 99]
    assert result.unmatched == 0
    assert sum(begins for *_, begins in rows(result)[0]) == n_turns // 2 + 2 // remainder + 1


def test_copies_of_one_address_are_performed_once() -> None:
    """Three calls of a function, of which the compiler merged the two that load the same."""
    text = "a[i];\nc[0] = x;\n"
    probes = [*([probe("load", text, "a[i]")] * 3), probe("store", text, "c[0]", feeds=range(3))]
    code = machine_code([(["load R1 a 1:1", "load R2 a 1:1", "use R1 R2", "store c 2:1"], ())])
    result = rearranged(compiled(code, text, probes), [[(0, 10), (1, 20), (2, 10), (3, 99)]])
    assert [granules[0] for _, granules, _ in rows(result)[0]] == [10, 20, 99]


def test_a_wide_load_without_a_location_takes_neighbours_too() -> None:
    text = "c[0] = a[0] + a[1] + b[0];\n"
    probes = [
        probe("load", text, "a[0]"),
        probe("load", text, "a[1]"),
        probe("load", text, "b[0]"),
        probe("store", text, "c[0]", feeds=range(3)),
    ]
    code = machine_code([(["load64 R1 a -", "load32 R2 b -", "use R1 R2", "store32 c 1:6"], ())])
    launch = compiled(code, text, probes, dict.fromkeys(range(4), 32))
    result = rearranged(launch, [[(0, 10), (1, 11), (2, 20), (3, 30)]])
    assert [granules for _, granules, _ in rows(result)[0]] == [(10, 11), (20,), (30,)]


def test_a_wide_load_takes_neighbouring_accesses_together() -> None:
    text = "c[0] = a[0] + a[1];\n"
    probes = [
        probe("load", text, "a[0]"),
        probe("load", text, "a[1]"),
        probe("store", text, "c[0]"),
    ]
    code = machine_code([(["load64 R1 a 1:8", "use R1", "store32 c 1:6"], ())])
    launch = compiled(code, text, probes, dict.fromkeys(range(3), 32))
    result = rearranged(launch, [[(0, 10), (1, 11), (2, 30)]])
    assert rows(result)[0][0] == ("a[0]", (10, 11), True)
    assert result.sites[0].itemsize_bytes == 64


@pytest.mark.parametrize(("stride", "n_accesses"), [(1, 3), (2, 6)])
def test_a_loop_for_neighbours_in_memory_is_not_run_where_there_are_none(
    stride: int, n_accesses: int
) -> None:
    """Compilers have a loop of its own for a stride of one element, if the stride is an argument."""
    text = "for (i) {\n x += a[i * stride];\n}\nc[0] = x;\n"
    probes = [
        probe("load", text, "a[i * stride]"),
        probe("edge", text, "", first=0, last=0),
        probe("store", text, "c[0]", feeds=[0]),
    ]
    code = machine_code(
        [
            (["use R9"], (1, 2)),
            (["load64 R1 a 2:7", "use R1 R2"], (1, 3)),
            (["load32 R1 a 2:7", "use R1"], (2, 3)),
            (["store32 c 4:6"], ()),
        ]
    )
    launch = compiled(code, text, probes, dict.fromkeys(range(3), 32))
    stream = [(0, stride * k) for k in range(6)] + [(2, 99)]
    mine = rows(rearranged(launch, [stream]))[0]
    assert [name for name, *_ in mine] == ["a[i * stride]"] * n_accesses + ["store c[0]"]
    assert [g for _, granules, _ in mine for g in granules] == [g for _, g in stream]


def test_a_load_of_the_scalar_unit_does_not_occupy_the_lanes_pipe() -> None:
    code = machine_code([(["scalar R1 a 1:8", "load R2 b 1:15", "use R1 R2", "store c 1:6"], ())])
    result = rearranged(compiled(code, TEXT, THREE), [[(0, 10), (1, 20), (2, 30)]])
    assert [(site.name, site.scalar) for site in result.sites[:3]] == [
        ("a[0]", True), ("b[0]", False), ("store c[0]", False),
    ]  # fmt: skip


def test_scalar_loads_of_a_site_that_lanes_load_too_have_a_site_of_their_own() -> None:
    """A compiler reads an array that nothing was stored to by the scalar unit, and later by the lanes."""
    text = "c[0] = a[0];\n"
    probes = [probe("load", text, "a[0]"), probe("store", text, "c[0]")]
    code = machine_code(
        [
            (["scalar R1 a 1:8", "use R1", "store c 1:1", "load R2 a 1:8", "use R2", "store c 1:1"], ()),
        ]
    )  # fmt: skip
    result = rearranged(compiled(code, text, probes), [[(0, 10), (1, 30), (0, 10), (1, 30)]])
    assert [name for name, *_ in rows(result)[0]] == [
        "a[0], scalar",
        "store c[0]",
        "a[0]",
        "store c[0]",
    ]
    assert [number for number in result.code["site"] if number >= 0] == [2, 1, 0, 1]
    scalar = {site.name: site.scalar for site in result.sites}
    assert scalar == {"a[0]": False, "store c[0]": False, "a[0], scalar": True}


def test_parts_of_a_wide_access_are_accesses_of_their_own() -> None:
    block = ["load R1 a 1:8 [R9]", "load R2 a 1:8 [R9+0x4]", "use R1", "load R3 b 1:15"]
    code = machine_code([(block, ())])
    launch = compiled(code, TEXT, THREE[:2], {0: 8})
    assert [name for name, *_ in rows(rearranged(launch, [[(0, 10), (1, 20)]]))[0]] == [
        "a[0]", "a[0]", "b[0]",
    ]  # fmt: skip


@pytest.mark.parametrize("n_parts", [1, 2])
@pytest.mark.parametrize("n_unrolled", [1, 2, 3])
def test_parts_of_a_wide_access_in_copies_of_a_loops_body(n_parts: int, n_unrolled: int) -> None:
    """Of each 16 bytes, only the first and the last four are needed."""
    text = "for (i) {\n x += a[i];\n}\n"
    probes = [probe("load", text, "a[i]"), probe("edge", text, "", first=0, last=0)]
    loads = [
        f"load R{2 * k + part} a 2:7 [R9+{64 * k + 12 * part:#x}]"
        for k in range(n_unrolled)
        for part in range(n_parts)
    ]
    code = machine_code([(["use R9"], (1,)), (loads, (1, 2)), (["use R1"], ())])
    launch = compiled(code, text, probes, {0: 16})
    result = rearranged(launch, [[(0, k) for k in range(12)]])
    performed = [granules[0] for _, granules, _ in rows(result)[0]]
    assert performed == [k for k in range(12) for _ in range(n_parts)]


def test_parts_lie_by_one_value_of_the_base_register() -> None:
    text = "x = a[0];\n"
    block = ["load R1 a 1:5 [R9]", "load R9 a 1:5 [R9+0x10]", "load R2 a 1:5 [R9+0x4]"]
    code = machine_code([(block, ())])
    launch = compiled(code, text, [probe("load", text, "a[0]")], {0: 8})
    assert launch.matched(()).again == (False, False, False)


def test_a_part_that_would_be_performed_too_often_keeps_its_place() -> None:
    """Its instruction in the loop was taken for another part of the one before."""
    text = "for (i) {\n x += b[i];\n}\ny = a[0];\n"
    probes = [
        probe("load", text, "a[0]"),
        probe("load", text, "b[i]"),
        probe("edge", text, "", first=1, last=1),
    ]
    code = machine_code(
        [
            (["load R1 a 4:5 [R9]"], (1,)),
            (["load R2 a 4:5 [R9+0x4]", "load R3 b 2:7", "use R3"], (1, 2)),
            (["use R1 R2"], ()),
        ]
    )
    launch = compiled(code, text, probes, {0: 8})
    result = rearranged(launch, [[(0, 50), *((1, k) for k in range(9))]])
    performed = sorted(granules[0] for _, granules, _ in rows(result)[0])
    assert performed == [*range(9), 50]
    [note] = launch.provenance(result)["notes"]
    assert "no instruction for a[0]:" in note


def test_instructions_without_a_location_are_matched_by_array_and_order() -> None:
    code = machine_code([(["load R1 b -", "load R2 a -", "use R1 R2", "store c -"], ())])
    launch = compiled(code, TEXT, THREE)
    assert launch.matched(()).covers == ((1,), (0,), (2,))
    assert not launch.matched(()).dropped
    assert not launch.matched(()).kept


def test_an_access_without_its_instruction_keeps_its_place_and_is_counted() -> None:
    code = machine_code([(["load R1 a 1:8", "load R2 b 1:15", "use R1 R2"], ())])
    launch = compiled(code, TEXT, THREE)
    assert launch.matched(()).kept == {2}
    result = rearranged(launch, [[(0, 10), (1, 20), (2, 30)]])
    assert [name for name, *_ in rows(result)[0]] == ["a[0]", "b[0]", "store c[0]"]


def test_accesses_stay_on_their_side_of_a_barrier() -> None:
    text = "c[0] = a[0]; barrier(); d[0] = b[0];\n"
    probes = [
        probe("load", text, "a[0]"),
        probe("store", text, "c[0]"),
        probe("barrier", text, ""),
        probe("load", text, "b[0]"),
        probe("store", text, "d[0]"),
    ]
    code = machine_code(
        [(["load R1 a 1:8", "store c 1:6 R1", "barrier", "load R1 b 1:32", "store d 1:30 R1"], ())]
    )
    stream = [(0, 1), (1, 2), -1, (3, 3), (4, 4)]
    result = rearranged(compiled(code, text, probes), [stream, stream])
    expected = [
        ("a[0]", (1,), True), ("store c[0]", (2,), True), ("barrier", (), True),
        ("b[0]", (3,), True), ("store d[0]", (4,), True),
    ]  # fmt: skip
    assert rows(result) == [expected, expected]


def test_a_load_may_be_issued_before_a_barrier_that_it_follows_in_the_source() -> None:
    text = "c[0] = a[0]; barrier(); d[0] = b[0];\n"
    probes = [
        probe("load", text, "a[0]"),
        probe("store", text, "c[0]"),
        probe("barrier", text, ""),
        probe("load", text, "b[0]"),
        probe("store", text, "d[0]"),
    ]
    early = ["load R1 a 1:8", "load R2 b 1:32", "store c 1:6 R1", "barrier", "store d 1:30 R2"]
    launch = compiled(machine_code([(early, ())]), text, probes)
    result = rearranged(launch, [[(0, 1), (1, 2), -1, (3, 3), (4, 4)]])
    assert [name for name, *_ in rows(result)[0]] == [
        "a[0]", "b[0]", "store c[0]", "barrier", "store d[0]",
    ]  # fmt: skip
    assert result.unmatched == 0


def test_spilled_registers_are_accesses_to_private_memory() -> None:
    code = machine_code(
        [(["spill 8", "load R1 a 1:8", "fill R2 8", "load R3 b 1:15", "store c 1:6"], ())],
        private_bytes=16,
    )
    streams = [[(0, 10), (1, 20), (2, 30)]] * 2
    result = rearranged(compiled(code, TEXT, THREE), streams)
    memory = result.arrays[-1]
    assert memory.name == "private memory"
    assert memory.size_bytes == 2 * 16 * 32
    first, second = rows(result)
    # Word 2 of the lanes of the first sub-group: 128 bytes, four granules.
    begin = (memory.base_bytes + 2 * 4 * 32) // 32
    assert first[0] == ("store spilled registers", (begin, begin + 1, begin + 2, begin + 3), True)
    assert second[0][1][0] == begin + 16 * 32 // 32
    assert [name for name, *_ in first] == [
        "store spilled registers", "a[0]", "spilled registers", "b[0]", "store c[0]",
    ]  # fmt: skip


@pytest.mark.parametrize("predicate", ["", "?"])
def test_a_branch_that_a_subgroup_skips(predicate: str) -> None:
    code = machine_code(
        [
            (["load R1 a 1:8"], (1, 2)),
            ([f"{predicate}load R2 b 1:15"], (2,)),
            (["store c 1:6"], ()),
        ]
    )
    launch = compiled(code, TEXT, THREE)
    streams = [[(0, 1), (1, 2), (2, 3)], [(0, 4), (2, 5)]]
    names = [[name for name, *_ in mine] for mine in rows(rearranged(launch, streams))]
    assert names == [["a[0]", "b[0]", "store c[0]"], ["a[0]", "store c[0]"]]


@settings(max_examples=60)
@given(data=st.data())
def test_every_access_is_performed_exactly_once(data: st.DataObject) -> None:
    """Whatever code a stream meets, nothing is lost or made up as long as nothing was dropped."""
    n_position = data.draw(st.integers(1, 5))
    kind = data.draw(st.sampled_from(["load", "store"]))
    text = "".join(f"a{k}[0];\n" for k in range(n_position))
    probes = [probe(kind, text, f"a{k}[0]") for k in range(n_position)]
    covered = data.draw(st.permutations(range(n_position)))
    extra = data.draw(st.lists(st.integers(0, n_position - 1), max_size=4))
    register = " R0" if kind == "load" else ""
    loads = [f"{kind}{register} a{k} {k + 1}:1" for k in (*covered, *extra)]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(loads)), max_size=3)) | {0, len(loads)})
    pieces = [loads[a:b] for a, b in itertools.pairwise(cuts)]
    code = machine_code([(piece, range(len(pieces))) for piece in pieces])
    stream = data.draw(
        st.lists(st.one_of(st.just(-1), st.integers(0, n_position - 1)), max_size=30)
    )
    entries = [at if at < 0 else (at, k) for k, at in enumerate(stream)]
    result = rearranged(compiled(code, text, probes), [entries, entries])
    for mine in rows(result):
        performed = sorted(granules[0] for _, granules, _ in mine if granules)
        assert performed == [k for k, at in enumerate(stream) if at >= 0]
        between = np.cumsum([name == "barrier" for name, *_ in mine])
        expected = np.cumsum([at < 0 for at in stream])
        for (_, granules, _), side in zip(mine, between, strict=True):
            if granules and kind == "load":
                assert side in (expected[granules[0]], expected[granules[0]] - 1)
            elif granules:
                assert side == expected[granules[0]]
