"""Instructions of SASS that ptxas writes rarely, as text: run by the interpreter's twin, against NumPy."""

from __future__ import annotations

import dataclasses

import numpy as np
from msgspec import structs

from tests.support.sass_runs import code_of, run_text
from tests.twins import execution
from tracegen.machine_code.sass_lower import lower

WORDS = np.random.default_rng(3).integers(0, 1 << 32, (4, 32), dtype=np.uint32)


def test_a_comparison_of_two_words_whose_lower_ones_are_known_to_differ() -> None:
    """`ISETP.EX` without its last operand, which is PT then: they differ whatever the upper words are."""
    lines = ["ISETP.NE.AND.EX P0, PT, R0, RZ, PT", "SEL R2, RZ, 0x1, !P0"]
    (found,) = run_text(lines, {"R0": WORDS[0] & 1}, ["R2"])
    assert np.all(found == 1)


def test_what_is_not_a_number_keeps_its_bits() -> None:
    """An immediate `-QNAN` may be the upper half of a double: the encoding has its bits."""
    line = "FSEL R2, R0, -QNAN , P0 ;   /* 0xfff8000000027808 */"
    (found,) = run_text(["ISETP.NE.AND P0, PT, R0, R0, PT", line], {"R0": WORDS[0]}, ["R2"])
    assert np.all(found == 0xFFF80000)


def test_a_product_that_is_scaled() -> None:
    a, b = WORDS[:2].astype(np.float32)
    lines = ["FMUL.D2 R2, R0, -R1", "FMUL.M4 R3, R0, 0.10000000149011611938"]
    halved, larger = run_text(lines, {"R0": a, "R1": b}, ["R2", "R3"])
    assert np.array_equal(halved.view(np.float32), a * -b / 2)
    assert np.array_equal(larger.view(np.float32), a * np.float32(0.1) * 4)


def test_the_upper_halves_of_windows() -> None:
    """Local memory and private memory are told apart by the upper halves of generic addresses."""
    lines = ["MOV R2, 0x10", "S2R R3, SR_SWINHI", "MOV R4, 0x10", "S2R R5, SR_LWINHI"]
    lines += ["STS [0x10], R0", "STL [0x10], R1", "LD.E R6, [R2.64]", "LD.E R7, [R4.64]"]
    shared, own = run_text(lines, {"R0": WORDS[0], "R1": WORDS[1]}, ["R6", "R7"], local_bytes=64)
    assert np.all(shared == shared[0])
    assert shared[0] in WORDS[0]
    assert np.array_equal(own, WORDS[1])


def test_constants_of_all_banks() -> None:
    """`LDC.IL` counts through the banks, which lie behind each other in bank 0."""
    bank = np.arange(64, dtype=np.uint32).view(np.uint8)
    lines = ["LOP3.LUT R1, R0, 0xfc, RZ, 0xc0, !PT", "LDC.IL R2, c[0x0][R1]"]
    (found,) = run_text(lines, {"R0": WORDS[0] & 0xFC}, ["R2"], banks={0: bank})
    assert np.array_equal(found, (WORDS[0] & 0xFC) // 4)


def test_all_but_the_latest_accesses_are_waited_for() -> None:
    """`DEPBAR.LE SB0, 0x1` leaves the latest load of scoreboard 0 outstanding, and a wait for it none."""
    loads = [f"LDG.E R{k}, [R200.64+{4 * k:#x}]" for k in range(3)]
    stores = [f"STG.E [R200.64], R{k}" for k in range(2)]
    plain = code_of([*loads, "DEPBAR.LE SB0, 0x1", *stores, "EXIT"])
    (block,) = plain.blocks
    ones = list(block.instructions)
    ones[:3] = [structs.replace(one, slot=0) for one in ones[:3]]
    ones[5] = structs.replace(ones[5], waits=1)
    blocks = (dataclasses.replace(block, instructions=tuple(ones)),)
    lowered = lower(dataclasses.replace(plain, blocks=blocks))
    data = np.zeros(64, np.uint8)
    held = execution.Memory(arrays=[("data", 0, data)])
    group = execution.run_group(lowered, execution.Launch((1, 1, 1)), (0, 0, 0), held, 1000)
    (events,) = [warp.events for warp in group.warps]
    assert [event.waits for event in events] == [-1, -1, -1, 1, 2]


def test_the_larger_half_where_one_is_not_a_number() -> None:
    a, b = np.full(32, 0x3C007E00, np.uint32), np.full(32, 0x40003C00, np.uint32)
    lines = ["HMNMX2.NAN R2, R0, R1, !PT", "HMNMX2 R3, R0, -R1, !PT"]
    spread, dropped = run_text(lines, {"R0": a, "R1": b}, ["R2", "R3"])
    assert (int(spread[0]), int(dropped[0])) == (0x40007FFF, 0x3C00BC00)
