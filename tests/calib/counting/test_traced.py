"""Counts equal traces: every access of every kernel here, by lanes and by sub-groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import calib
from calib.counting.trace_check import CountingError
from calib.kernels.collection import MeasurementKernel
from experiments.kernels import histogram, matmul, spmv, stencil, stream, transpose
from memsim.errors import KernelError
from tests.support import counted_kernels
from tests.support import loopy_kernels as kernels
from tests.support.small_kernels import REMOVED, SMALL, small
from tracegen.workloads.workload import Workload

pytestmark = pytest.mark.filterwarnings("ignore::loopy.diagnostic.LoopyWarning")

CASES: dict[str, Callable[[], Workload]] = {
    "copy": lambda: kernels.copy(37, 64),
    "ragged": lambda: kernels.ragged([3, 0, 5, 1] * 20),
    "nested": lambda: kernels.nested(64),
    "two launches": lambda: kernels.two_launches(70),
    "loop of launches": kernels.loop_of_launches,
    "in place": lambda: kernels.accumulate(40),
    "atomics": lambda: kernels.histogram(100),
    "gather": lambda: kernels.gather(32, [0] * 32, columns=3),
    "vectors": lambda: kernels.vectors(40),
    "read twice": lambda: kernels.read_twice(40),
    "unrolled": lambda: kernels.unrolled(40),
    "called": lambda: kernels.called(32),
    "either": lambda: kernels.either(70),
    "no grid": lambda: kernels.total(40),
    "complex": lambda: kernels.complex_product(40),
    "triangle": lambda: kernels.with_sizes(counted_kernels.triangle(tags=True), n=45),
    "rising": lambda: kernels.with_sizes(counted_kernels.rising(24), n=61),
    "branches": lambda: kernels.with_sizes(counted_kernels.branches(), n=100, m=30),
    "guarded": lambda: kernels.with_sizes(counted_kernels.guarded(), n=100, m=30),
    "operations": lambda: kernels.with_sizes(counted_kernels.ops(), n=50),
    "flat": lambda: kernels.with_sizes(counted_kernels.flat(), n=20),
    "halved": lambda: kernels.with_sizes(counted_kernels.halved(), n=50),
    "spmv": lambda: spmv.spmv(matrix="fem", n=300),
    "spmv vector": lambda: spmv.spmv_vector(matrix="U", n=130, subgroup_size=64),
    "matmul naive": lambda: matmul.naive(50, 8),
    "matmul tiled": lambda: matmul.tiled(50, 8, "float64"),
    "stencil7": lambda: stencil.stencil7(33, 7, 5, block_z=2),
    "transpose": lambda: transpose.tiled(50, 8),
    "histogram": lambda: histogram.histogram(n=1000, bins=13),
    "triad": lambda: stream.triad(n=1000, stride=3, block_size=64),
}


NARROW = ("ragged", "either", "rising", "branches", "matmul naive", "stencil7")


@pytest.mark.weekly(3)
@pytest.mark.parametrize(
    ("name", "subgroup_size"), [*((name, 32) for name in CASES), *((name, 8) for name in NARROW)]
)
def test_counted_equals_traced(name: str, subgroup_size: int, context: Any) -> None:
    result = calib.counting_check(CASES[name](), subgroup_size=subgroup_size, context=context)
    assert len(result) >= 4
    assert all(each.equal for each in result)


def test_wrong_trip_counts_are_a_difference(context: Any) -> None:
    ragged = kernels.ragged([3, 0, 5, 1] * 20)
    with pytest.raises(CountingError, match=r"\d counts differ from the trace: .*counted 160 by"):
        calib.counting_check(ragged, trip_counts={"j": 2}, context=context)


def test_measured_control_flow_counts_operations_too(context: Any) -> None:
    lengths = [3, 0, 5, 1] * 16
    workload = kernels.ragged(lengths)
    options = calib.measure_control_flow(workload, context=context)
    trips = options["trip_counts"]["j"]
    assert float(trips.by_items) == sum(lengths) / len(lengths)
    assert trips.by_subgroups == 5  # the longest row of each sub-group
    madds = calib.count(workload, "f_op_float32_madd", **options)
    assert madds.at(n=64) == 5 * 2
    by_items = calib.count(workload, "f_op_float32_madd", granularity="work-item", **options)
    assert by_items.at(n=64) == sum(lengths)


def test_control_flow_without_accesses_is_refused(context: Any) -> None:
    kernel = kernels.make(
        ["{[i]: 0 <= i < n}", "[rows] -> {[j]: 0 <= j < rows}"],
        """
        for i
            <> rows = r[i]
            y[i] = sum(j, 1.0f * j)
        end
        """,
        "r: i4[n]; y: f4[n] out; n: i4",
        name="silent",
    )
    kernel = kernels.groups_of(kernel, 32)
    with pytest.raises(KernelError, match="no separate global access shows how often j runs"):
        calib.measure_control_flow(kernels.with_sizes(kernel, n=32), context=context)


def distinct(name: str) -> list[MeasurementKernel]:
    """One size of each kernel of a generator."""
    return list({id(kernel.kernel): kernel for kernel in small(name)}.values())


GENERATORS = (
    *("barriers", "dg_diff", "flops_madd_pattern", "gather", "matmul_sq", "matmul_sq_pattern"),
    *("reduction", "spmv"),
)
"""One of each kind; the slow test below takes all."""


@pytest.mark.weekly(3)
@pytest.mark.parametrize("name", GENERATORS)
def test_a_kernel_of_a_generator(name: str, context: Any) -> None:
    kernel = distinct(name)[0]
    assert calib.counting_check(kernel, kernel.env, context=context)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({**SMALL, **REMOVED}))
def test_every_variant_of_every_generator(name: str, context: Any) -> None:
    for kernel in distinct(name):
        assert calib.counting_check(kernel, kernel.env, context=context)
