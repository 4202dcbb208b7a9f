"""Accesses to local memory that some sub-groups do not make, against counts by hand."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs

from tests.support.machine_code import instruction
from tracegen.compiled.counting.idle import IdleSubgroups
from tracegen.compiled.counting.work import KINDS
from tracegen.compiled.model import (
    BasicBlock,
    Instruction,
    Location,
    MachineCode,
    MemoryOperation,
)

ARITHMETIC = structs.replace(instruction("use R9"), location=Location(4, 1))
BARRIER = Instruction(opcode="BAR", text="BAR", pipe="barrier")


def local(share: float, passes: float = 3.0, *, predicated: bool = False) -> Instruction:
    memory = MemoryOperation(
        space="local",
        direction="load",
        bytes_per_item=4,
        conflict_passes=passes,
        active_share=share,
    )
    return Instruction(
        opcode="LDS",
        text="LDS",
        pipe="load_store",
        predicated=predicated,
        memory=memory,
        location=Location(3, 1),
    )


def settled(
    instructions: list[Instruction], times: list[float], target: str = "sm_90"
) -> dict[str, float]:
    """Kind -> counts of a group's sub-groups, of which each runs a block so often."""
    block = BasicBlock(label="", instructions=tuple(instructions))
    idle = IdleSubgroups(
        MachineCode(kernel="k", target=target, blocks=(block,), registers_per_item=1)
    )
    table = np.outer(times, idle.counted(0, instructions))
    work = np.arange(len(times), dtype=np.int32)
    end = work.astype(np.int64) + 1
    sums = idle.settled(table, work, end, len(times)).sum(axis=0)
    assert len(sums) == len(KINDS)
    return {kind: float(n) for kind, n in zip(KINDS, sums, strict=True) if n}


def test_an_instruction_that_a_predicate_switches_off_is_issued_without_conflicts() -> None:
    block = [ARITHMETIC, local(0.25, predicated=True)]
    assert settled(block, [1, 1, 1, 1]) == {"alu": 4, "local_32": 4, "conflict": 3}


def test_a_block_behind_a_branch_is_not_issued() -> None:
    block = [ARITHMETIC, local(0.25)]
    assert settled(block, [2, 2, 2, 2]) == {"alu": 2, "local_32": 2, "conflict": 6}


def test_a_mask_switches_lanes_off_without_a_branch() -> None:
    block = [ARITHMETIC, local(0.25)]
    assert settled(block, [1, 1, 1, 1], "gfx90a") == {"alu": 4, "local_32": 4, "conflict": 3}


def test_a_block_with_a_barrier_is_issued_by_all() -> None:
    found = settled([BARRIER, local(0.25)], [1, 1, 1, 1])
    assert found == {"barrier": 4, "local_32": 4, "conflict": 3}


@pytest.mark.parametrize("predicated", [False, True])
def test_what_the_walk_does_not_count_for_idle_subgroups_stays(predicated: bool) -> None:
    """Only one of four sub-groups passes the block, and it is the one with active lanes."""
    block = [ARITHMETIC, local(0.25, predicated=predicated)]
    assert settled(block, [5, 0, 0, 0]) == {"alu": 5, "local_32": 5, "conflict": 15}


def test_accesses_of_all_subgroups_have_no_columns() -> None:
    block = [ARITHMETIC, local(1.0)]
    assert settled(block, [1, 1, 1, 1]) == {"alu": 4, "local_32": 4, "conflict": 12}


def test_a_block_of_which_all_run_a_part_counts_whole() -> None:
    other = structs.replace(local(1.0, 0.0), location=Location(5, 1))
    found = settled([other, local(0.5)], [1, 1])
    assert found == {"local_32": 4, "conflict": 3}
