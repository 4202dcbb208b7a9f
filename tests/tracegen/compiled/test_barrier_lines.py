"""Barriers of the text and those of the machine code know each other by their line."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from memsim.trace import BARRIER_SITE
from tests.support.machine_code import compiled, machine_code, probe, rearranged
from tracegen.compiled.counting.work import KINDS
from tracegen.compiled.model import Instruction, Location, MachineCode
from tracegen.probes.program import Probe

TEXT = "for (;;)\n barrier;\nfor (;;)\n barrier;\nc[0] = 0;\n"
PROBES = [Probe("barrier", line=2), Probe("barrier", line=4), probe("store", TEXT, "c[0]")]
FIRST, SECOND = (BARRIER_SITE - 1 - position for position in (0, 1))


def two_loops(first: int, second: int) -> MachineCode:
    """Two loops with a barrier each, whose lines are given; the second one has ten instructions more in a turn."""
    code = machine_code(
        [
            (["barrier"], (0, 1)),
            (["barrier", *["use R9"] * 10], (1, 2)),
            (["store c 5:1"], ()),
        ]
    )
    lines = iter((first, second))

    def placed(one: Instruction) -> Instruction:
        return (
            structs.replace(one, location=Location(next(lines))) if one.pipe == "barrier" else one
        )

    blocks = tuple(
        replace(block, instructions=tuple(map(placed, block.instructions))) for block in code.blocks
    )
    return replace(code, blocks=blocks)


def arithmetic(code: MachineCode, barriers: list[int]) -> float:
    result = rearranged(compiled(code, TEXT, PROBES), [[*barriers, (2, 7)]])
    columns = result.columns
    assert columns["site"].tolist() == [BARRIER_SITE] * len(barriers) + [0]
    return float(columns["work_table"][columns["work"], KINDS.index("alu")].sum())


@pytest.mark.parametrize("turns", [(1, 1), (3, 1), (1, 3), (4, 5)])
def test_each_loop_has_the_turns_of_its_barrier(turns: tuple[int, int]) -> None:
    """With the jump at the end of each block."""
    first, second = turns
    barriers = [FIRST] * first + [SECOND] * second
    assert arithmetic(two_loops(2, 4), barriers) == first + 11 * second + 1


def test_without_their_lines_barriers_are_alike() -> None:
    """The first loop takes all that it can: where they are not recorded, or the code has others."""
    assert arithmetic(two_loops(2, 4), [BARRIER_SITE] * 8) == 8 + 1
    assert arithmetic(two_loops(2, 9), [FIRST] * 3 + [SECOND] * 5) == 8 + 1
