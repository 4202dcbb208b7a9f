"""Blocks of known kernels against counts by hand; folded programs against their plain lists."""

from __future__ import annotations

from collections import Counter
from typing import Any

import loopy as lp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import tracegen
from calib.prediction.basic_blocks import Block, BlockError, Program, Repeat, make_program
from calib.prediction.basic_blocks_kernel import blocks_from_kernel
from calib.prediction.basic_blocks_trace import blocks_from_trace, fold
from calib.prediction.options import PredictOptions
from calib.prediction.prediction import program_of, trips_from_trace
from experiments.kernels import matmul, spmv, stencil, transpose
from experiments.kernels.matmul_volkov import volkov
from memsim.machine.file import load_machine
from memsim.machine.model import Machine
from memsim.trace import BARRIER_SITE
from tests.support.traces import make_trace
from tracegen.instrumented.host import prepare
from tracegen.workloads.workload import Workload


def program(workload: Workload, machine: str = "v100", **options: Any) -> Program:
    return blocks_from_kernel(
        prepare(workload, None).kernel, machine=load_machine(machine), **options
    )


def band() -> Workload:
    """SpMV of 64 rows of 5 entries, 3 or 4 at the corners."""
    n = 64
    diagonals = scipy.sparse.diags_array([np.ones(n)] * 5, offsets=(-2, -1, 0, 1, 2), shape=(n, n))
    matrix = scipy.sparse.csr_array(diagonals)
    matrix.indptr, matrix.indices = (a.astype(np.int32) for a in (matrix.indptr, matrix.indices))
    return spmv.spmv_of(matrix, 32)


def listed(steps: Any) -> list[int]:
    """The blocks of a program without unknown counts, one by one."""
    result: list[int] = []
    for step in steps:
        if isinstance(step, Repeat):
            result += listed(step.steps) * round(float(step.count))
        else:
            result.append(step)
    return result


def test_naive_matmul() -> None:
    """Two loads per iteration; the fma waits for them, and issues with the next iteration's loads."""
    blocks = program(matmul.naive(n=64))
    assert str(blocks.n_blocks) == "n + 1"
    head, turn, last = (blocks.blocks[k] for k in listed(blocks.at(n=2).steps))
    loads = ("a[i, k]", "b[k, j]")
    assert (head.operations, head.accesses, head.waits_for) == ({}, loads, loads)
    assert (turn.operations, turn.accesses, turn.waits_for) == ({"fp32_fma": 1}, loads, loads)
    assert (last.operations, last.accesses) == ({"fp32_fma": 1}, ("store c[i, j]",))
    assert not last.waits_for
    assert [block.barrier for block in (head, turn, last)] == [False, False, True]
    assert [block.bytes_per_item for block in (head, turn, last)] == [8, 8, 4]


@pytest.mark.parametrize(
    ("machine", "operations"),
    [
        # Compute capability 1.3 multiplies with an operand in local memory: one load a term less.
        ("c1060", {"fp32_fma_local": 8, "local_load": 8, "barrier": 1}),
        ("v100", {"fp32_fma": 8, "local_load": 16, "barrier": 1}),
    ],
)
def test_tiled_matmul(machine: str, operations: dict[str, float]) -> None:
    """A tile of 8: loads, then local stores to a barrier, then 8 terms to a barrier; table 3's NBB."""
    blocks = program(matmul.tiled(n=64, tile=8), machine)
    assert str(blocks.n_blocks) == "3*n/8 + 1"
    order = [blocks.blocks[k] for k in listed(blocks.at(n=16).steps)]
    assert [block.barrier for block in order] == [True, False, True, True, False, True, True]
    fetch, store, work = order[1:4]
    assert len(fetch.waits_for) == 2
    assert store.operations == {"local_store": 2, "barrier": 1}
    assert work.operations == operations
    assert order[-1].accesses == ("store c[i, j]",)


def test_volkovs_matmul() -> None:
    """An iteration of ko: four loads of B, their local stores, and 16 iterations that load A."""
    blocks = program(volkov(n=64), "c1060")
    assert str(blocks.n_blocks) == "19*n/16 + 1"
    counted: Counter[str] = Counter()
    accesses: Counter[str] = Counter()
    for number, times in blocks.at(n=64).occurrences().items():
        block = blocks.blocks[number]
        for name, count in block.operations.items():
            counted[name] += round(times * count)
        accesses.update({name: round(times) for name in block.accesses})
        if len(block.accesses) == 16:
            assert set(block.accesses) == {"store c[16*bj + j2, 64*bi + 16*y + x]"}
    assert counted == {"fp32_fma_local": 64 * 16, "local_store": 64 // 4, "barrier": 2 * 4}
    assert accesses["a[16*ko + ki, 64*bi + 16*y + x]"] == 64


def test_a_stencil_waits_once() -> None:
    seven = program(stencil.stencil7(nx=32, ny=8, nz=4))
    assert [len(block.waits_for) for block in seven.blocks] == [7, 0]
    # -6 u + u + u + u + u + u + u: one product that an addition takes along, five more additions.
    assert seven.blocks[1].operations == {"fp32_fma": 1, "fp32_add": 5}
    star = program(stencil.star25(nx=64, ny=16, nz=4))
    assert [len(block.waits_for) for block in star.blocks] == [25, 0]
    assert sum(block.operations.get("fp64_add", 0) for block in star.blocks) == 24
    assert sum(block.operations.get("fp64_mul", 0) for block in star.blocks) == 1


def test_functions_run_on_the_special_function_unit() -> None:
    """exp and sqrt do; fmax is a comparison."""
    kernel = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "y[i] = exp(fmax(x[i], y[i])) + sqrt(x[i]) / 2 - x[i] ** 3",
        [lp.GlobalArg("x,y", np.float32, shape=lp.auto), "..."],
        target=lp.PyOpenCLTarget(),
        lang_version=(2018, 2),
    )
    kernel = lp.split_iname(kernel, "i", 32, outer_tag="g.0", inner_tag="l.0")
    x = np.zeros(64, np.float32)
    prepared = prepare(Workload(kernel, {"x": x, "y": x.copy(), "n": 64}), None)
    result = blocks_from_kernel(prepared.kernel, prepared.executor.scheduled.callables_table)
    counted: Counter[str] = Counter()
    for block in result.blocks:
        counted.update(block.operations)
    # The division by a constant is one multiplication, the cube two.
    assert counted == {
        "fp32_special": 2,
        "fp32_compare": 1,
        "fp32_mul": 3,
        "fp32_add": 2,
    }


def test_transpose_waits_for_its_load_then_for_its_group() -> None:
    blocks = program(transpose.tiled(n=64))
    assert [len(block.waits_for) for block in blocks.blocks] == [1, 0, 0]
    assert [block.barrier for block in blocks.blocks] == [False, True, True]
    assert blocks.blocks[2].operations == {"local_load": 1}


def test_what_an_index_loads_is_waited_for_before_what_it_indexes() -> None:
    blocks = program(band())
    row, pair, vector, again, last = blocks.blocks
    assert row.waits_for == ("row_start[i]", "row_start[i + 1]")
    assert pair.waits_for == ("values[j]", "indices[j]")
    assert vector.waits_for == ("x[indices[j]]",)
    assert (again.operations, again.waits_for) == ({"fp32_fma": 1}, pair.waits_for)
    assert last.accesses == ("store y[i]",)


def test_a_loop_bounded_by_memory_is_refused_with_its_name() -> None:
    blocks = program(band())
    with pytest.raises(BlockError, match="how often a loop runs depends on j: give it a value"):
        blocks.at()
    assert blocks.at(j=5).n_blocks == 2 * 5 + 2


def test_iterations_of_such_a_loop_come_from_the_trace(context: Any) -> None:
    """A sub-group iterates as often as its longest row has entries."""
    workload = band()
    trace = tracegen.trace(workload, load_machine("v100"), context=context, compiler="none")
    assert trips_from_trace(program(workload), trace, {}) == {"j": 5}
    result, notes = program_of(workload, [trace], load_machine("v100"), PredictOptions())
    assert result.n_blocks == 12
    assert notes == ["loop j runs 5 iterations, as in the trace"]
    given, notes = program_of(
        workload, [trace], load_machine("v100"), PredictOptions(trips={"j": 7})
    )
    assert (given.n_blocks, notes) == (16, [])


def steps_of(depth: int) -> st.SearchStrategy[list[Any]]:
    """Lists of block numbers and repeats, to a depth."""
    number = st.integers(0, 3)
    if not depth:
        return st.lists(number, min_size=1, max_size=4)
    inner = steps_of(depth - 1).map(tuple)
    repeat = st.builds(Repeat, inner, st.integers(0, 12))
    return st.lists(st.one_of(number, repeat), min_size=1, max_size=4)


BLOCKS = tuple(Block(operations={"fp32_fma": k + 1.0}) for k in range(4))


@given(steps=steps_of(2))
def test_pairs_are_those_of_the_list(steps: list[Any]) -> None:
    result = Program(blocks=BLOCKS, steps=tuple(steps))
    order = listed(steps)
    expected = Counter(zip(order, [*order[1:], *order[:1]], strict=True))
    assert result.pairs() == dict(expected)
    assert result.n_blocks == len(order)
    assert result.occurrences() == dict(Counter(order))


@given(steps=steps_of(2))
def test_folding_keeps_the_order(steps: list[Any]) -> None:
    assert listed(make_program(list(BLOCKS), steps).steps) == listed(steps)


@given(steps=steps_of(2))
def test_folding_a_list_preserves_the_count_of_each_block(steps: list[Any]) -> None:
    """Iterations that differ in the count of an inner loop become one with the mean count."""
    order = listed(steps)
    result = Program(blocks=BLOCKS, steps=tuple(fold(order))).occurrences()
    assert result == pytest.approx(dict(Counter(order)))


def test_loops_in_a_list_are_recognised() -> None:
    assert fold([0, 1, 2, 1, 2, 1, 2, 3]) == [0, Repeat((1, 2), 3), 3]
    assert fold([0, 0, 0, 1, 0, 0, 1]) == [Repeat((Repeat((0,), 2.5), 1), 2)]


@given(steps=steps_of(2), most=st.integers(1, 5))
def test_what_unrolling_cuts_is_what_is_missing(steps: list[Any], most: int) -> None:
    order, cut = Program(blocks=BLOCKS, steps=tuple(steps)).unrolled(most)
    total: Counter[int] = Counter(order)
    for turn, missing in cut:
        for number in turn:
            total[number] += missing  # type: ignore[assignment]
    assert {k: v for k, v in total.items() if v} == dict(Counter(listed(steps)))


def test_a_negative_count_is_refused() -> None:
    blocks = program(matmul.naive(n=64))
    with pytest.raises(BlockError, match="these sizes are too small"):
        blocks.at(n=0)


@pytest.mark.parametrize(
    "workload",
    [
        *(matmul.naive(n=64, tile=8), matmul.tiled(n=64, tile=16)),
        stencil.stencil7(nx=64, ny=8, nz=4),
    ],
    ids=["naive", "tiled", "stencil"],
)
def test_blocks_from_the_trace_have_the_same_accesses(workload: Workload, context: Any) -> None:
    """Each program's loads, in groups that are waited for together, are those of the kernel."""
    machine: Machine = load_machine("v100")
    trace = tracegen.trace(workload, machine, context=context, compiler="none")
    alone = blocks_from_trace(trace)
    known, _ = program_of(workload, [trace], machine, PredictOptions())

    def waits(cut: Program) -> list[tuple[str, ...]]:
        order = [cut.blocks[k].waits_for for k in listed(cut.steps)]
        return [tuple(sorted(names)) for names in order if names]

    assert waits(alone) == waits(known)


def test_the_program_is_that_of_the_sub_groups_with_accesses() -> None:
    """One group of four sub-groups, of which only the last has work-items within the array."""
    trace = make_trace([[[], [], [], [(0, [0]), (0, [4])]]])
    found = blocks_from_trace(trace)
    assert [found.blocks[step].accesses for step in found.paths[0]] == [()]
    assert [found.blocks[step].accesses for step in found.paths[3]] == [("site0",), ("site0",), ()]
    times = {found.blocks[k].accesses: n for k, n in found.occurrences().items()}
    assert times == {("site0",): 2 / 4, (): 1}


ONCE, TWICE = [(0, [0])], [(0, [0]), (0, [4])]
STOP = [(BARRIER_SITE, [])]


def test_sub_groups_of_a_group_have_paths_of_their_own_if_most_groups_do() -> None:
    """Of two sub-groups the second loads twice before the barrier; a third group, at the edge, has no such one."""
    usual, edge = [[*ONCE, *STOP], [*TWICE, *STOP]], [[*ONCE, *STOP], [*ONCE, *STOP]]
    found = blocks_from_trace(make_trace([usual, usual, edge]))
    loads = [[len(found.blocks[step].accesses) for step in path] for path in found.paths]
    # Loads, the barrier, the end of the group.
    assert loads == [[1, 0, 0], [1, 1, 0, 0]]
    assert found.n_blocks == 3.5
    times = {len(found.blocks[k].accesses): n for k, n in found.occurrences().items()}
    assert times[1] == 1.5
    assert blocks_from_trace(make_trace([usual, edge, edge])).paths == ()
    assert blocks_from_trace(make_trace([edge] * 3)).paths == ()


def test_sub_groups_that_pass_different_barriers_share_a_path() -> None:
    """One that ends before the barrier would keep the others waiting in a simulation."""
    assert blocks_from_trace(make_trace([[ONCE, [*TWICE, *STOP]]])).paths == ()
