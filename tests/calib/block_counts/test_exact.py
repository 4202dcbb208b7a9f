"""Closed forms of block counts, against runs, against sums by hand, and the reasons for refusing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calib.block_counts.closed_form import BlockForm, block_forms
from calib.block_counts.costs import block_work, busy_cycles, requests
from calib.counting.feature_counts import count
from calib.counting.kernel_arguments import sizes_of
from experiments.kernels import graphs
from experiments.kernels.polybench import factorisations, moments, products
from experiments.kernels.rodinia import elimination, paths
from memsim import load_machine
from memsim.errors import KernelError
from tracegen import trace_launches
from tracegen.blocks.counter import BlockCounter

CASES: list[Any] = [
    (products.gemm, {"ni": 20, "nj": 37, "nk": 17}, {"ni": 9, "nj": 64, "nk": 1}),
    pytest.param(moments.covariance, {"m": 30, "n": 40}, {"m": 300, "n": 3}, marks=pytest.mark.slow),
    (factorisations.lu, {"n": 21}, {"n": 34}),
    pytest.param(factorisations.gramschmidt, {"n": 14}, {"n": 33}, marks=pytest.mark.slow),
    pytest.param(elimination.gaussian, {"n": 18}, {"n": 33}, marks=pytest.mark.slow),
    (elimination.lud, {"n": 48}, {"n": 32}),
    pytest.param(paths.nw, {"n": 32}, {"n": 80}, marks=pytest.mark.slow),
    (paths.pathfinder, {"rows": 30, "cols": 500, "height": 8}, {"rows": 11, "cols": 97, "height": 8}),
]  # fmt: skip


@pytest.mark.parametrize(("make", "small", "other"), CASES)
def test_closed_forms_are_what_runs_count(
    make: Callable[..., Any], small: dict[str, Any], other: dict[str, Any]
) -> None:
    """By work-items and by sub-groups, at the size of the counter's workload and at another one."""
    workloads = [make(**small), make(**other)]
    counter = BlockCounter(workloads[0])
    forms = block_forms(counter)
    for workload in workloads:
        counts, _ = counter.count(workload, 32)
        sizes = sizes_of(workload)
        for form, items, groups in zip(forms, counts.by_items, counts.by_subgroups, strict=True):
            assert form.by_items is not None, form.reason
            assert form.by_subgroups is not None
            assert form.by_items.symbolic
            assert form.by_items.at(sizes) == items, form.block.name
            assert form.by_subgroups.at(sizes) == groups, form.block.name
            many = form.by_items.at_many({name: np.array([v, v]) for name, v in sizes.items()})
            assert np.broadcast_to(many, 2).tolist() == [items, items]


def body(forms: tuple[BlockForm, ...], launch: str, kind: str = "then") -> BlockForm:
    return next(f for f in forms if (f.block.launch, f.block.kind) == (launch, kind))


def test_sizes_that_never_ran() -> None:
    """LU's update at n = 10^6 is a sum of squares, which the closed form yields immediately."""
    forms = block_forms(BlockCounter(factorisations.lu(20)))
    n = 10**6
    updated = body(forms, "lu_0").by_items
    assert updated is not None
    assert updated.at({"n": n}) == (n - 1) * n * (2 * n - 1) // 6


@pytest.mark.parametrize("width", [8, 64])
def test_other_widths(width: int) -> None:
    workload = moments.covariance(20, 30)
    counter = BlockCounter(workload)
    counts, _ = counter.count(subgroup_size=width)
    sizes = sizes_of(workload)
    for form, groups in zip(block_forms(counter, width), counts.by_subgroups, strict=True):
        assert form.by_subgroups is not None
        assert form.by_subgroups.at(sizes) == groups


def test_reasons_for_learning() -> None:
    reasons = {
        form.block.kind: form.reason
        for form in block_forms(BlockCounter(graphs.bfs_level(300)))
        if not form.is_exact
    }
    assert "own = distance[256 * gid(0) + lid(0)]" in reasons["then"]
    assert "it reads memory" in reasons["then"]
    (refused,) = [f for f in block_forms(BlockCounter(moments.correlation(9, 9))) if not f.is_exact]
    assert "sqrt(square / n)" in refused.reason
    merge = block_forms(BlockCounter(graphs.merge_pass(1000)))
    assert all(not form.is_exact and "OpenCL C" in form.reason for form in merge)


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (products.syrk, {"n": 20, "m": 9}),
        pytest.param(factorisations.gramschmidt, {"n": 12}, marks=pytest.mark.slow),
        (elimination.lud, {"n": 48}),
        (paths.pathfinder, {"rows": 20, "cols": 300, "height": 8}),
    ],
)
def test_costs_are_those_of_full_traces_and_of_the_counting_module(
    make: Callable[..., Any], settings: dict[str, Any]
) -> None:
    workload = make(**settings)
    counter = BlockCounter(workload)
    sizes = sizes_of(workload)
    counts = [
        form.by_subgroups.at(sizes) if form.by_subgroups is not None else 0
        for form in block_forms(counter)
    ]
    work = block_work(counter)
    result = requests(work, counts)
    traced: dict[tuple[str, str, str], float] = {}
    for trace in trace_launches(workload, subgroup_size=32, reduced=False):
        numbers = np.bincount(trace.site[trace.site >= 0], minlength=len(trace.sites))
        for site, number in zip(trace.sites, numbers.tolist(), strict=True):
            key = ("global", site.direction, site.array)
            traced[key] = traced.get(key, 0) + number
    own = {key: number for key, number in result.items() if key[0] == "global" and number}
    assert own == {key: number for key, number in traced.items() if number}
    local = sum(number for key, number in result.items() if key[0] == "local")
    dtype = "int32" if make is paths.pathfinder else "float32"
    expected = sum(
        count(workload.kernel, f"f_mem_access_local_{dtype}_{direction}").value(sizes)
        for direction in ("load", "store")
    )
    assert local == expected
    operations: Counter[str] = Counter()
    for block, runs in zip(work, counts, strict=True):
        operations.update({name: int(runs) * times for name, times in block.operations.items()})
    for name, feature in (("fma", "madd"), ("mul", "mul"), ("add", "add"), ("div", "div")):
        counted = count(workload.kernel, f"f_op_float32_{feature}").value(sizes)
        assert operations[f"fp32_{name}"] == counted


def test_busy_cycles_by_hand() -> None:
    """A V100's core issues 64 fp32 and 32 memory lanes a cycle: a row of gemm's inner loop."""
    counter = BlockCounter(products.gemm(8, 32, 10))
    machine = load_machine("v100")
    work = block_work(counter)
    inner = [10.0 if block.kind == "body" else 0.0 for block in counter.blocks]
    cycles = busy_cycles(work, inner, machine)
    lanes = machine.subgroup_size
    assert cycles["FMA"] == pytest.approx(10 * lanes / machine.throughputs["fp32_fma"])
    load = machine.throughputs["load_store_lanes"]
    assert cycles["load and store"] == pytest.approx(10 * 2 * lanes / load)


def test_opencl_c_has_no_costs() -> None:
    with pytest.raises(KernelError, match="this kernel is OpenCL C"):
        block_work(BlockCounter(graphs.merge_pass(1000)))
