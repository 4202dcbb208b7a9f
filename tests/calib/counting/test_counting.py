"""Counts against formulas derived by hand."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import calib
from calib.counting.feature_counts import kernel_counts
from calib.counting.options import CountOptions, Share, Trips
from experiments.kernels import matmul, stencil
from memsim.errors import KernelError
from tests.support import counted_kernels
from tests.support import loopy_kernels as kernels
from tests.support.command_line import RunMemsim

LOAD = "f_mem_access_global_float32_load"


@pytest.fixture(scope="module")
def paper() -> Any:
    return counted_kernels.paper_matmul()


@pytest.mark.parametrize(
    ("feature", "formula", "unit"),
    [
        ("f_op_float32_madd", "n^3/32", "sub-group"),
        ("f_op_float32_mul", "0", "sub-group"),
        ("f_mem_access_tag:aLD", "n^3/16", "work-item"),
        ("f_mem_access_tag:bLD", "n^3/16", "work-item"),
        (LOAD, "n^3/8", "work-item"),
        ("f_mem_access_global_float32_store", "n^2", "work-item"),
        # 2 local loads per multiplication, 2 local stores per tile and work-item
        ("f_mem_access_local_float32", "17*n^3/256", "sub-group"),
        ("f_sync_barrier_local", "n/8", "work-item"),
        ("f_thread_groups", "n^2/256", ""),
        ("f_sync_kernel_launch", "1", ""),
    ],
)
def test_tiled_matmul_of_the_paper(paper: Any, feature: str, formula: str, unit: str) -> None:
    count = calib.count(paper, feature)
    assert str(count) == f"{formula}\n   (n mod 16 = 0 and n >= 1)"
    if formula != "0":
        assert count.unit == unit
    assert count.symbolic


def test_strides_and_access_to_footprint_ratios_of_the_papers_table_1(paper: Any) -> None:
    counts = kernel_counts(paper)
    strides = {"aLD": (["1", "n"], ["0", "16*n"]), "bLD": (["1", "n"], ["16", "0"])}
    tagged = {access.tag: access for access in counts.inventory.accesses if access.tag}
    assert tagged.keys() == strides.keys()
    for tag, access in tagged.items():
        both = (access.local_strides, access.group_strides)
        assert tuple([str(stride) for stride in axes] for axes in both) == strides[tag]
        accesses, footprint = counts.access_footprint(access, CountOptions())
        for n in (16, 64, 4096):
            assert accesses.at({"n": n}) / footprint.at({"n": n}) == n // 16


@pytest.mark.parametrize(
    ("constraints", "counted_at_64"),
    [
        ("lstrides:{0:1;1:>15}_gstrides:{0:16}_afr:>1", 64**3 // 16),
        ("lstrides:{0:1;1:>15}_gstrides:{0:0}_afr:>1", 64**3 // 16),
        ("lstrides:{0:1;1:n}_gstrides:{1:16*n}", 64**3 // 16),
        ("lstrides:{1:>64}", 0),
        ("lstrides:{1:>=64}", 64**3 // 8),
        ("lstrides:{0:2}", 0),
        ("gstrides:{2:0}", 64**3 // 8),
        ("afr:4", 64**3 // 8),
        ("afr:>4", 0),
        ("afr:!=1", 64**3 // 8),
    ],
)
def test_constraints(paper: Any, constraints: str, counted_at_64: int) -> None:
    assert calib.count(paper, f"{LOAD}_{constraints}").at(n=64) == counted_at_64


def test_a_constraint_on_a_size_is_evaluated_at_each_size(paper: Any) -> None:
    small = calib.count(paper, f"{LOAD}_lstrides:{{1:<100}}")
    assert small.at(n=96) == 96**3 // 8
    assert small.at(n=112) == 0
    assert small.recounted_with == ("n",)
    assert calib.count(paper, f"{LOAD}_afr:>1").recounted_with == ("n",)
    assert calib.count(paper, f"{LOAD}_lstrides:{{0:1}}").recounted_with == ()
    assert small.at_many(n=np.array([16, 96, 112])).tolist() == [512, 96**3 / 8, 0]


def test_uniform_loads_are_counted_once_a_subgroup() -> None:
    """a[i, k]: all 16 columns of a row use one element; a sub-group of 32 covers two rows."""
    naive = matmul.naive(64)
    uniform = calib.count(naive, f"{LOAD}_lstrides:{{0:0}}")
    other = calib.count(naive, f"{LOAD}_lstrides:{{0:1}}")
    assert (uniform.unit, other.unit) == ("sub-group", "work-item")
    assert (uniform.at(n=64), other.at(n=64)) == (64**3 // 32, 64**3)
    assert calib.count(naive, LOAD).at(n=64) == 64**3 // 32 + 64**3


GRANULARITIES = {"work-item": "n^3", "sub-group": "n^3/32", "work-group": "n^3/256", "kernel": "n"}


def test_granularities(paper: Any) -> None:
    for granularity, formula in GRANULARITIES.items():
        count = calib.count(paper, "f_op_float32_madd", granularity=granularity)
        assert str(count).splitlines()[0] == formula


def test_branches_count_where_they_are_taken() -> None:
    kernel = counted_kernels.branches()
    load = calib.count(kernel, LOAD)
    for n, m in ((100, 30), (100, 0), (64, 64), (10, 99)):
        first = min(n, m)
        assert load.at(n=n, m=m) == first + 2 * (n - first)
        adds = calib.count(kernel, "f_op_float32_add", granularity="work-item")
        assert adds.at(n=n, m=m) == n - first
    # Sub-group 0 has lanes on both sides, so it runs both branches.
    both = calib.count(kernel, f"{LOAD}", granularity="sub-group")
    assert both.at(n=64, m=16) == 1 + 2 * 2


def test_conditions_on_values_must_be_specified() -> None:
    either = kernels.either(64)
    words = r"condition x\[i\] > 0.5 of \w+ depends on values from memory"
    with pytest.raises(KernelError, match=words):
        calib.count(either, LOAD)
    share = calib.count(either, LOAD, taken={"x[i] > 0.5": 0.25})
    assert share.at(n=64) == 64 + 16 + 48
    assert calib.count(either, LOAD, taken="both").at(n=64) == 3 * 64
    shares = {"x[i] > 0.5": Share(0.25, 1, 1)}
    by_subgroup = calib.count(either, LOAD, taken=shares, granularity="sub-group")
    assert by_subgroup.at(n=64) == 2 + 2 + 2


def test_trips_of_loops_over_data_must_be_specified() -> None:
    ragged = kernels.ragged([3, 1, 2, 2] * 8)
    with pytest.raises(KernelError, match="j of loopy_kernel is bounded by values from memory"):
        calib.count(ragged, "f_op_float32_madd")
    for trips, counted in ((2, 2), (Trips(2, 3), 3)):
        count = calib.count(ragged, "f_op_float32_madd", trip_counts={"j": trips})
        assert count.at(n=32) == counted
    third = calib.count(ragged, f"{LOAD}", trip_counts={"j": Fraction(1, 3)})
    with pytest.raises(KernelError, match="not a whole number"):
        third.at(n=32)
    assert third.value({"n": 32}) == Fraction(64, 3)


def test_subgroups_across_a_call() -> None:
    """Loopy's own counting treats a callee's grid as a single work-item."""
    kernel = counted_kernels.called(256)
    assert calib.count(kernel, "f_op_float32_madd").at() == 4 * 256 // 32
    assert calib.count(kernel, "f_op_float32_madd", granularity="work-group").at() == 4 * 4
    assert calib.count(kernel, LOAD).at() == 4 * 256


def test_combinations_of_products_and_sums() -> None:
    """a*b + c*d is one multiply-add and one product; a sign costs nothing; a product of sums is not
    fused."""
    kernel = counted_kernels.ops()

    def at_32(operation: str) -> int:
        return calib.count(kernel, f"f_op_float32_{operation}").at(n=32)

    assert at_32("madd") == 1 + 1 + 1
    assert at_32("mul") == 1 + 1 + 0 + 1
    assert at_32("add") == 0 + 0 + 0 + 2
    assert at_32("div") == 1
    assert at_32("exp") == 1
    of_vectors = calib.count(kernels.vectors(64), "f_op_float32_mul", granularity="work-item")
    assert of_vectors.at(n=64) == 4 * 64


def test_index_arithmetic_is_optional() -> None:
    kernel = counted_kernels.flat()
    assert calib.count(kernel, "f_op_int32_mul").at(n=32) == 0
    assert calib.count(kernel, "f_op_int32_mul", index_arithmetic=True).at(n=32) > 0


def test_a_flat_index_has_polynomial_strides_and_no_footprint() -> None:
    kernel = counted_kernels.flat()
    (load,) = [a for a in kernel_counts(kernel).inventory.accesses if a.direction == "load"]
    assert [str(s) for s in load.local_strides] == ["n", "1"]
    assert [str(s) for s in load.group_strides] == ["8*n", "4"]
    with pytest.raises(KernelError, match=r"footprint of x\[n\*j \+ i\] in flat is unknown"):
        calib.count(kernel, f"{LOAD}_afr:>1")


def test_an_index_that_is_not_affine_has_no_stride_but_a_footprint() -> None:
    kernel = counted_kernels.halved()
    half = kernel_counts(kernel).inventory.accesses[0]
    assert half.local_strides == (None,)
    assert half.granularity == "work-item"
    assert calib.count(kernel, f"{LOAD}_lstrides:{{0:1}}").at(n=64) == 0
    counts = kernel_counts(kernel)
    both, footprint = counts.access_footprint(half, CountOptions())
    # x[i // 2] and x[i % 4] belong to one pattern: 2 n accesses to n / 2 elements
    assert (both.at({"n": 64}), footprint.at({"n": 64})) == (128, 32)


def test_launches_in_loops_of_the_host() -> None:
    twice, loop = kernels.two_launches(64), kernels.loop_of_launches()
    assert calib.count(twice, "f_sync_kernel_launch").at() == 2
    assert calib.count(twice, "f_thread_groups").at(n=70) == 6
    assert calib.count(loop, "f_sync_kernel_launch").at() == 6


@pytest.mark.parametrize(
    ("subgroup_size", "per_plane"), [(16, (2 + 1) * 7), (32, 2 * 7), (64, 2 * 4)]
)
def test_stencil_in_three_dimensions(subgroup_size: int, per_plane: int) -> None:
    """Five additions in each of 5 planes of 7 rows of 33 points, which are a group's 32 and another's one."""
    seven = stencil.stencil7(33, 7, 5, block_z=2)
    count = calib.count(seven, "f_op_float32_add", subgroup_size=subgroup_size)
    assert count.at(nx=33, ny=7, nz=5) == 5 * per_plane * 5


def test_sizes_that_violate_assumptions_are_refused(paper: Any) -> None:
    count = calib.count(paper, "f_op_float32_madd")
    several: Any = np.array([16, 17])
    for call, sizes, words in (
        (count.at, {"n": 17}, r"paper_matmul assumes n mod 16 = 0 and n >= 1, got n = 17"),
        (count.at_many, {"n": several}, "n = 17"),
        (count.at, {"m": 17}, "f_op_float32_madd of paper_matmul needs n"),
        (count.at, {"n": 16.5}, "n must be an integer"),
    ):
        with pytest.raises(KernelError, match=words):
            call(**sizes)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"granularity": "warp"}, "granularity must be one of"),
        ({"subgroup_size": 0}, "subgroup_size must be at least 1"),
        ({"taken": {"x": 2}}, r"taken\['x'\] must lie in 0..1"),
        ({"trip_counts": {"j": -1}}, r"trip_counts\['j'\] must not be negative"),
    ],
)
def test_options_that_cannot_be_are_refused(paper: Any, options: Any, words: str) -> None:
    with pytest.raises(KernelError, match=words):
        calib.count(paper, LOAD, **options)


def test_the_command_counts_with_its_options(run_memsim: RunMemsim) -> None:
    kernel = ("experiments.kernels.spmv:spmv", "f_op_float32_madd", "--set", "n=200")
    options = ("--trips", "j=2.5", "--granularity", "work-item", "--subgroup-size", "64")
    ended = run_memsim("count", *kernel, *options, "--json", "-")
    (row,) = json.loads(ended.out)["counts"]
    assert (row["unit"], row["value"]) == ("work-item", 125 * 2.5)


def test_loops_with_different_starts_are_compared_trip_by_trip() -> None:
    """x[j] with j starting at i: neighbours use adjacent elements in each trip; starting at 0, the
    same."""
    apart, together = counted_kernels.rising(), counted_kernels.triangle(tags=True)
    assert calib.count(apart, f"{LOAD}_lstrides:{{0:1}}").at(n=64) == 64 * 65 // 2
    uniform = calib.count(together, f"{LOAD}_lstrides:{{0:0}}")
    assert uniform.unit == "sub-group"
    # a sub-group continues until its longest lane is done: 32 trips, then 64
    assert uniform.at(n=64) == 96


def test_rows_with_starts_from_memory_are_not_uniform() -> None:
    """a[j] with j from memory: Loopy's own counting takes the missing lid(0) for a stride of 0."""
    ragged = kernels.ragged([2] * 32)
    (a,) = [x for x in kernel_counts(ragged).inventory.accesses if x.array == "a"]
    assert a.local_strides == (None,)
    assert a.granularity == "work-item"
