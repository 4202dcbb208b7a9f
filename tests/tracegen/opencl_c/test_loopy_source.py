"""Loopy's OpenCL C, traced as OpenCL C: the same trace as that of the Loopy kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegen
from experiments.kernels import histogram, matmul, spmv, stencil, transpose
from memsim.trace.model import COLUMN_DTYPES, Trace
from tests.support import loopy_kernels as kernels
from tracegen import OpenCLWorkload, Workload
from tracegen.instrumented.host import PreparedLoopy, prepare
from tracegen.instrumented.launch import LoopyLaunch
from tracegen.opencl_c import run
from tracegen.options import TraceOptions
from tracegen.record import trace_one
from tracegen.recording.device_run import DeviceRun

# islpy's own deprecation, raised inside Loopy where a loop's last tile is not full.
pytestmark = pytest.mark.filterwarnings("ignore:Aff.is_equal with implicit:DeprecationWarning")


def as_opencl_c(prepared: PreparedLoopy) -> OpenCLWorkload:
    """The code that Loopy writes for a workload of one launch, and what it launches it with."""
    result: list[OpenCLWorkload] = []

    def observer(launch: LoopyLaunch) -> None:
        values = dict(launch.bound)
        arguments = {}
        for name in launch.proxy.info.passed_names:
            value = values[name]
            arguments[name] = value if np.isscalar(value) else value.get()
        items = tuple(a * b for a, b in zip(launch.grid, launch.group_shape, strict=True))
        result.append(
            OpenCLWorkload(
                source=prepared.instrumented.plain,
                kernel=launch.name,
                arguments=arguments,
                global_size=items,
                local_size=launch.group_shape,
            )
        )

    prepared.run(observer)
    (only,) = result
    return only


CASES: dict[str, Callable[[], Workload]] = {
    "spmv": lambda: spmv.spmv("fem-tri-p1", 20, block_size=64),
    "matmul_naive": lambda: matmul.naive(40),
    "matmul_tiled": lambda: matmul.tiled(40),
    "stencil7": lambda: stencil.stencil7(20),
    "transpose": lambda: transpose.naive(40),
    "ragged": lambda: kernels.ragged(np.random.default_rng(5).integers(0, 9, 90), group=40),
    "nested": lambda: kernels.nested(70),
    "gather": lambda: kernels.gather(40, np.arange(40)[::-1]),
    "vectors": lambda: kernels.vectors(40),
    "read_twice": lambda: kernels.read_twice(40),
    "unrolled": lambda: kernels.unrolled(40),
    "accumulate": lambda: kernels.accumulate(64),
}


@pytest.mark.parametrize("case", CASES)
def test_same_trace_as_from_loopy(context: Any, case: str) -> None:
    prepared = prepare(CASES[case](), context)
    as_text = run.prepare(as_opencl_c(prepared), context)
    for reduced in (True, False):
        options = TraceOptions(reduced=reduced)
        for traced, expected in zip(
            trace_one(as_text, options, DeviceRun),
            trace_one(prepared, options, DeviceRun),
            strict=True,
        ):
            assert_same(traced, expected)


def assert_same(traced: Trace, expected: Trace) -> None:
    """Whether two traces have equal arrays, and sites that correspond one to one."""
    assert traced.arrays == expected.arrays
    assert (traced.launch.n_groups, traced.launch.group_items) == (
        expected.launch.n_groups,
        expected.launch.group_items,
    )
    assert traced.launch.local_memory_bytes == expected.launch.local_memory_bytes
    for name in COLUMN_DTYPES:
        if name != "site" and getattr(expected, name) is not None:
            np.testing.assert_array_equal(getattr(traced, name), getattr(expected, name), name)
    pairs = {(int(a), int(b)) for a, b in zip(traced.site, expected.site, strict=True)}
    # Copies of one access in an unrolled loop share a site with Loopy.
    assert len(pairs) == len({a for a, _ in pairs})
    for a, b in pairs:
        if a >= 0:
            one, other = traced.sites[a], expected.sites[b]
            assert (one.array, one.direction, one.itemsize_bytes) == (
                other.array,
                other.direction,
                other.itemsize_bytes,
            )


def test_histogram_but_for_its_tries(context: Any) -> None:
    """Loopy's atomic update is a loop that reads and swaps: the tracer of Loopy counts it as one.

    One group, so that no swap fails.
    """
    workload = histogram.histogram(200, bins=16)
    expected = tracegen.trace(workload, context=context)
    traced = tracegen.trace(as_opencl_c(prepare(workload, context)), context=context)
    assert [(site.direction, site.array) for site in traced.sites] == [
        ("load", "samples"),
        ("load", "counts"),
        ("atomic", "counts"),
    ]
    assert traced.lane_hits is not None
    assert expected.lane_hits is not None
    kept = np.flatnonzero(traced.site != 1)
    assert len(kept) == expected.n_access < traced.n_access
    for ours, theirs in enumerate(kept):
        one = slice(*expected.granule_offset[ours : ours + 2])
        other = slice(*traced.granule_offset[theirs : theirs + 2])
        for name in ("granule", "byte_mask", "lane_groups", "lane_hits"):
            np.testing.assert_array_equal(
                getattr(traced, name)[other], getattr(expected, name)[one]
            )


def test_what_a_condition_chooses_waits_for_it(context: Any) -> None:
    """In `c ? x : y` no load is issued before c is known; Loopy's tracer takes it as straight code."""
    workload = kernels.either(40)
    expected = tracegen.trace(workload, context=context)
    traced = tracegen.trace(as_opencl_c(prepare(workload, context)), context=context)
    for name in COLUMN_DTYPES:
        if name not in ("site", "starts_sequence", "waits") and getattr(expected, name) is not None:
            np.testing.assert_array_equal(getattr(traced, name), getattr(expected, name), name)
    assert traced.waits.tolist()[:3] == [-1, 0, 1]
    assert expected.waits.tolist()[:3] == [-1, -1, 1]
