"""What executed sub-groups issue between accesses, from records made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from tracegen.compiled.model import BasicBlock, Instruction, MachineCode, MemoryOperation
from tracegen.executed.work import instruction_counts, kinds_of, work_of


def counted(
    measured: list[list[int]], *instructions: Instruction, executions: int = 8
) -> list[dict[str, float]]:
    """What each instruction counts, without what it does not."""
    block = BasicBlock(label="", instructions=instructions)
    code = MachineCode(kernel="k", target="sm_80", blocks=(block,), registers_per_item=8)
    ran = np.full(len(instructions), executions)
    rows = instruction_counts(code, np.array(measured, np.int64), ran)
    kinds = kinds_of(code)
    return [{kind: n for kind, n in zip(kinds, row, strict=True) if n} for row in rows.tolist()]


def local(size: int) -> Instruction:
    memory = MemoryOperation(space="local", direction="load", bytes_per_item=size)
    return Instruction(opcode="LDS", text="LDS", pipe="load_store", memory=memory)


FMA = Instruction(opcode="FFMA", text="FFMA", pipe="fma", stall_cycles=4)


def test_passes_of_conflicts_are_means_of_what_ran() -> None:
    """An access that 8 sub-groups executed, 6 with an active lane, and to which conflicts added 9 passes. The others issue it,
    too: a predicate that is off in all lanes saves nothing but the conflicts."""
    rows = counted([[8, 6, 9, 4], [0, 0, 0, 0], [0, 0, 0, 0]], local(4), local(16), FMA)
    first = {"local_32": 1, "conflict": 9 / 8, "wide": 4 / 8}
    assert rows == [first, {"local_128": 1}, {"fma": 1, "stalled": 4}]


def test_generic_accesses_are_of_local_memory_where_they_went_there() -> None:
    """Two of eight executions, which conflicts made longer by three passes each; a copy to local memory stays a global access."""
    memory = MemoryOperation(space="global", direction="load", bytes_per_item=4)
    load = Instruction(opcode="LD.E", text="LD.E", pipe="load_store", memory=memory)
    copy = Instruction(opcode="LDGSTS.E", text="LDGSTS.E", pipe="load_store", memory=memory)
    shared = {"access": 3 / 4, "local_32": 1 / 4, "conflict": 6 / 8}
    assert counted([[2, 2, 6, 0], [0] * 4], load, load) == [shared, {"access": 1}]
    assert counted([[8, 8, 8, 0]], load) == [{"local_32": 1, "conflict": 1}]
    assert counted([[8, 8, 0, 0]], copy) == [{"access": 1, "copies": 1}]


def test_passes_that_are_saved_pair_lanes() -> None:
    """Lanes of 16 bytes need four passes; where they are paired, two are saved. An access that no lane makes is issued."""
    assert counted([[4, 4, -8, 0]], local(16)) == [{"paired_128": 1}]
    assert counted([[4, 2, -4, 0]], local(16)) == [{"local_128": 1 / 2, "paired_128": 1 / 2}]
    assert counted([[8, 0, 0, 0]], local(4)) == [{"local_32": 1}]


def test_matrices_are_read_one_by_one() -> None:
    """LDSM of four matrices is four accesses here: each adds 7 passes where the rows of a matrix lie in the same banks."""
    memory = MemoryOperation(space="local", direction="load", bytes_per_item=16)
    read = Instruction(opcode="LDSM.16.M88.4", text="LDSM", pipe="load_store", memory=memory)
    assert counted([[4, 4, 4 * 7, 4]], read) == [{"local_128": 1, "conflict": 4 * 7, "wide": 4}]


def test_copies_and_products_count_in_kinds_of_their_own() -> None:
    memory = MemoryOperation(space="global", direction="load", bytes_per_item=16)
    copy = Instruction(opcode="LDGSTS.E.128", text="LDGSTS", pipe="load_store", memory=memory)
    product = Instruction(opcode="HMMA.16816.F32", text="HMMA.16816.F32", pipe="tensor")
    integers = Instruction(opcode="IMAD.WIDE", text="IMAD.WIDE", pipe="fma")
    wanted = [{"access": 1, "copies": 1, "conflict": 3}, {"tensor": 1, "tensor_f16_f32": 64}]
    wanted += [{"fma": 1, "integer_fma": 1}, {"scalar": 1, "scalar_loads": 1}]
    wanted += [{"wait": 1, "idle_turns": 3}]
    scalar = Instruction(opcode="s_load_dword", text="s_load_dword s0", pipe="scalar")
    idle = Instruction(opcode="s_nop", text="s_nop 2", pipe="wait")
    counts = [[1, 1, 3, 0], *[[0, 0, 0, 0]] * 4]
    found = counted(counts, copy, product, integers, scalar, idle)
    assert found == wanted


def test_work_is_what_ran_since_the_last_access() -> None:
    """Two segments, of 2 and 3 instructions; the second sub-group accesses nothing, and the last row ends the first."""
    segments = [SimpleNamespace(first=0, end=2), SimpleNamespace(first=2, end=5)]
    counts = np.array([[1, 0], [1, 0], [0, 1], [0, 1], [1, 0]], np.float64)
    recorded: Any = SimpleNamespace(
        work=np.array([0, 1], np.int32),
        tail=np.array([2, 0], np.int32),
        row_end=np.array([1, 3, 4]),
        row_segment=np.array([0, 0, 1, 1]),
        row_count=np.array([1, 2, 5, 1]),
    )
    code: Any = SimpleNamespace(segments=segments)
    work, table = work_of(code, counts, recorded, np.array([0, 2, 2]))
    np.testing.assert_array_equal(table[work[0]], [2, 0])
    np.testing.assert_array_equal(table[work[1]], [2 * 2 + 5 + 1, 5 * 2 + 2])
