"""Blocks of traced kernels against counts by hand; folded programs against their plain lists."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import tracegen
from calib.prediction.basic_blocks import Block, Program, Repeat, make_program
from calib.prediction.basic_blocks_trace import blocks_from_trace, blocks_from_windows, fold
from calib.prediction.machine_pipes import PREFIX
from calib.prediction.prediction import program_of
from experiments.kernels import matmul, spmv, stencil
from experiments.kernels.matmul_volkov import volkov
from memsim.machine.file import load_machine
from memsim.trace import BARRIER_SITE
from tests.support.compilers import needs_nvidia
from tests.support.traces import make_trace
from tracegen.workloads.workload import Workload

V100 = load_machine("v100")


def in_source_order(workload: Workload, **options: Any) -> Program:
    return blocks_from_trace(tracegen.trace(workload, V100, tracer="polyhedral"), **options)


def band() -> Workload:
    """SpMV of 64 rows of 5 entries, 3 or 4 at the corners."""
    n = 64
    diagonals = scipy.sparse.diags_array([np.ones(n)] * 5, offsets=(-2, -1, 0, 1, 2), shape=(n, n))
    matrix = scipy.sparse.csr_array(diagonals)
    matrix.indptr, matrix.indices = (a.astype(np.int32) for a in (matrix.indptr, matrix.indices))
    return spmv.spmv_of(matrix, 32)


def listed(steps: Any) -> list[int]:
    """The blocks of a program, one by one."""
    result: list[int] = []
    for step in steps:
        if isinstance(step, Repeat):
            result += listed(step.steps) * round(step.count)
        else:
            result.append(step)
    return result


def in_order(program: Program) -> list[Block]:
    return [program.blocks[number] for number in listed(program.steps)]


def test_naive_matmul() -> None:
    """Two loads per iteration; the fma waits for them, and issues with the next iteration's loads."""
    program = in_source_order(matmul.naive(n=64), per_load=lambda _: [{"fp32_fma": 1 / 2}])
    assert program.n_blocks == 64 + 1
    head, turn, *_, last = in_order(program)
    loads, fma = ("a[i, k]", "b[k, j]"), {"fp32_fma": 1}
    assert head == Block(accesses=loads, waits_for=loads, bytes_per_item=8)
    assert turn == Block(operations=fma, accesses=loads, waits_for=loads, bytes_per_item=8)
    store = ("store c[i, j]",)
    assert last == Block(operations=fma, accesses=store, barrier=True, bytes_per_item=4)


def test_tiled_matmul() -> None:
    """A tile of 8: loads, then local stores to a barrier, then 8 terms to a barrier; NBB is 3 n / 8 + 1, as in table 3
    of the paper."""
    terms = {"fp32_fma": 4.0, "local_load": 8.0}
    program = in_source_order(
        matmul.tiled(n=16, tile=8), per_load=lambda _: [{"local_store": 1}, terms]
    )
    order = in_order(program)
    assert [block.barrier for block in order] == [True, False, True, True, False, True, True]
    fetch, store, work = order[1:4]
    assert len(fetch.waits_for) == 2
    assert store.operations == {"local_store": 2, "barrier": 1}
    assert work.operations == {"fp32_fma": 8, "local_load": 16, "barrier": 1}
    assert (order[-1].operations, order[-1].accesses) == (
        {"fp32_fma": 8, "local_load": 16},
        ("store c[i, j]",),
    )


def test_volkovs_matmul() -> None:
    """An iteration of ko: four loads of B, their local stores, and 16 iterations that load A."""
    program = in_source_order(volkov(n=64))
    assert program.n_blocks == 19 * 64 / 16 + 1
    accesses = Counter(name for block in in_order(program) for name in block.accesses)
    assert accesses == {
        "b[16*bj + y + 4*f, 16*ko + x]": 64 // 4,
        "a[16*ko + ki, 64*bi + 16*y + x]": 64,
        "store c[16*bj + j2, 64*bi + 16*y + x]": 16,
    }


def test_a_stencil_waits_once() -> None:
    seven = in_source_order(stencil.stencil7(nx=32, ny=8, nz=4))
    assert [len(block.waits_for) for block in seven.blocks] == [7, 0]


def test_what_an_index_loads_is_waited_for_before_what_it_indexes(context: Any) -> None:
    """A sub-group iterates as often as its longest row has entries: 5 times."""
    program = blocks_from_trace(tracegen.trace(band(), V100, context=context))
    row, pair, vector, *others, last = in_order(program)
    assert row.waits_for == ("row_start[i]", "row_start[i + 1]")
    assert pair.waits_for == ("values[j]", "indices[j]")
    assert vector.waits_for == ("x[indices[j]]",)
    assert others == 4 * [pair, vector]
    assert last.accesses == ("store y[i]",)


@needs_nvidia
def test_blocks_of_machine_code_have_all_of_its_instructions() -> None:
    """All sub-groups of a tiled product run alike, so a sub-group's blocks count the mean of all."""
    trace = tracegen.trace(matmul.tiled(n=64), V100)
    counted: Counter[str] = Counter()
    program, _ = program_of([trace], V100)
    for number, times in program.occurrences().items():
        for name, count in program.blocks[number].operations.items():
            counted[name.removeprefix(PREFIX)] += times * count  # type: ignore[assignment]
    means = trace.work_table[trace.work].sum(axis=0) / trace.n_subgroup
    expected = dict(zip(trace.work_kinds, means.tolist(), strict=True))
    assert counted == pytest.approx({kind: mean for kind, mean in expected.items() if mean})
    assert counted["barrier"] == 2 * 64 / 16


@needs_nvidia
def test_machine_code_of_a_star_adds_its_points() -> None:
    """In double precision 6 additions, one of them with the product, on units of their own."""
    workload = stencil.stencil7(nx=64, ny=16, nz=4, dtype="float64")
    program, _ = program_of([tracegen.trace(workload, V100)], V100)
    operations = sum((Counter(block.operations) for block in in_order(program)), Counter[str]())
    assert operations[PREFIX + "fp64"] == 6
    assert sum(len(block.waits_for) for block in in_order(program)) == 7


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


def test_the_program_is_that_of_the_sub_groups_with_accesses() -> None:
    """One group of four sub-groups, of which only the last has work-items within the array."""
    found = blocks_from_trace(make_trace([[[], [], [], [(0, [0]), (0, [4])]]]))
    assert [found.blocks[step].accesses for step in found.paths[0]] == [()]
    assert [found.blocks[step].accesses for step in found.paths[3]] == [("site0",), ("site0",), ()]
    times = {found.blocks[k].accesses: n for k, n in found.occurrences().items()}
    assert times == {("site0",): 2 / 4, (): 1}


def test_instructions_between_the_same_accesses_are_means() -> None:
    """Of three sub-groups with one store each, one computes for long: as much as each does in the mean."""
    trace = make_trace([[[(0, [k])]] for k in range(3)], ("store",))
    table = np.array([[10.0], [400.0]])
    found = blocks_from_trace(
        trace.replace(work=np.array([0, 1, 0], np.int32), work_table=table, work_kinds=("fma",))
    )
    (block,) = in_order(found)
    assert block.operations == pytest.approx({PREFIX + "fma": 140})


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


def test_a_software_pipeline_waits_for_all_but_the_last_copies() -> None:
    """Two copies ahead; each turn waits for the older one at its barrier, and copies again. What follows the last turn waits for
    all. Without a kind of work for copies or matrices, a barrier waits for what is under way."""
    turns = 5
    accesses: list[Any] = [(0, [0]), (0, [1])]
    waits = [-1, -1]
    latest = [0, 1]
    for turn in range(turns):
        accesses += [STOP[0], (0, [turn + 2])]
        waits += [latest[-2]] * 2
        latest.append(len(accesses) - 1)
    accesses += [STOP[0], (1, [0])]
    waits += [latest[-1]] * 2
    columns = {
        "waits": np.array(waits, np.int32),
        "work": np.zeros(len(accesses), np.int32),
        "work_table": np.array([[1.0]]),
    }
    trace = make_trace([[accesses]], ("load", "store")).replace(work_kinds=("copies",), **columns)
    order = in_order(blocks_from_trace(trace))
    steady = order[3:-2]
    assert [(one.barrier, one.lag, len(one.accesses)) for one in steady] == [
        (True, 3, 0), (False, -1, 1)
    ] * (len(steady) // 2)  # fmt: skip
    assert [(one.barrier, one.lag) for one in order[-2:]] == [(True, 1), (True, 0)]
    assert [len(one.waits_for) for one in order if one.barrier and one.lag] == [1] * turns + [2]
    others = blocks_from_trace(trace.replace(work_kinds=("access",)))
    assert not any(one.lag for one in others.blocks)
    assert all(one.waits_for for one in others.blocks if one.accesses and not one.barrier)


LOAD, STORE, SCALAR = range(3)


@pytest.mark.parametrize(
    ("accesses", "waits", "stores"),
    [
        ([STORE, LOAD], 1, 1),
        ([STORE, STORE, LOAD, STORE], 2, 2),  # the last one is counted behind the load
        ([STORE, STORE], 0, 1),
        ([LOAD, STORE], 0, 0),
        ([STORE, SCALAR], 1, 0),  # another counter
        ([LOAD, STORE, SCALAR], 2, 0),
        ([STORE, LOAD, SCALAR], 2, 1),
    ],
)
def test_one_counter_of_loads_and_stores(accesses: list[int], waits: int, stores: int) -> None:
    """What is waited for before a last store, where the counter of loads counts stores, too."""
    order: list[Any] = [(site, [0], k == 0) for k, site in enumerate([*accesses, STORE])]
    trace = make_trace([[order]], ("load", "store", "load"))
    sites = (*trace.sites[:2], dataclasses.replace(trace.sites[2], scalar=True))
    latest = np.array([-1] * len(accesses) + [waits], np.int32)
    trace = trace.replace(sites=sites, waits=latest)
    store, found = sites[STORE].name, {}
    for one_counter in (False, True):
        first = in_order(blocks_from_trace(trace, one_counter=one_counter))[0]
        found[one_counter] = first.waits_for.count(store)
    assert found == {False: 0, True: stores}


@pytest.mark.parametrize("seen", [4, 25, 40])
def test_windows_stand_for_the_run_where_they_overlap_too(seen: int) -> None:
    """The start of a run and two windows of it have `seen` of its 50 loads each; the start stands for 10, a window for 20."""
    window = make_trace([[[(0, [k]) for k in range(seen)]]]).replace(traced_part=seen / 50)
    start = window.replace(own_share=0.2)
    program = blocks_from_windows([window, window, start])
    loads = [
        (number, times)
        for number, times in program.occurrences().items()
        if program.blocks[number].accesses
    ]
    assert sum(times for _, times in loads) == pytest.approx(50)


def stays(turns: Sequence[int]) -> Any:
    """Groups that do so many turns, in which the first sub-group has one access and the second one two; a work kind of warp groups."""
    groups = [
        [[(0, [k]), (BARRIER_SITE, [])] * n, [(0, [k]), (0, [k + 1]), (BARRIER_SITE, [])] * n]
        for k, n in enumerate(turns)
    ]
    n_access = 5 * sum(turns)
    return make_trace(
        groups,
        work=np.zeros(n_access, np.int32),
        work_table=np.ones((1, 1)),
        work_kinds=("wgmma_f16_f32",),
    )


def test_of_groups_that_stay_the_longest_counts_where_all_begin_at_once() -> None:
    """Six groups do three turns and two four: 26 turns of 8 groups are 3.25 of the four."""
    trace = stays([3] * 5 + [4] + [3] + [4])
    together = blocks_from_trace(trace, at_once=True)
    one_by_one = blocks_from_trace(trace)
    lengths = [[len(path) for path in one.paths] for one in (together, one_by_one)]
    ends = len(lengths[0])  # each sub-group ends with a block
    assert sum(lengths[0]) - ends == pytest.approx((sum(lengths[1]) - ends) * 4 / 3)
    assert one_by_one.share == 1
    turns = (sum(lengths[0]) - ends) / 4
    assert together.share == pytest.approx((3.25 * turns + ends) / sum(lengths[0]))


def test_who_ends_before_the_last_barrier_of_a_group_is_not_waited_for() -> None:
    """The first sub-group has 4 barriers and ends, the second one has 5."""
    turns = [(0, [1]), (BARRIER_SITE, [])] * 4
    trace = make_trace(
        [[turns, [*turns, (0, [2]), (BARRIER_SITE, [])]]] * 8,
        work=np.zeros(8 * 18, np.int32),
        work_table=np.ones((1, 1)),
        work_kinds=("wgmma_f16_f32",),
    )
    program = blocks_from_trace(trace)
    barriers = [sum(program.blocks[step].barrier for step in path) for path in program.paths]
    assert len(barriers) == 2
    assert barriers[0] == barriers[1]


def test_of_a_cluster_the_first_group_counts() -> None:
    trace = stays([4, 1] * 4)
    launch = dataclasses.replace(trace.launch, cluster_groups=2)
    program = blocks_from_trace(trace.replace(launch=launch))
    assert program.paths == blocks_from_trace(stays([4] * 8)).paths
