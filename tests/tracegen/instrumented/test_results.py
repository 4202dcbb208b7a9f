"""Tracing changes nothing: same results, same code, one trace a launch, same trace every time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.errors import KernelError
from memsim.trace.model import COLUMN_DTYPES, Trace
from tests.support import loopy_kernels as kernels
from tracegen.instrumented import host
from tracegen.instrumented.target import ProbeTarget


def test_arguments_are_left_alone(context: Any) -> None:
    workload = kernels.accumulate(64)
    tracegen.trace(workload, context=context)
    assert np.all(workload.arguments["y"] == 10)


def equal(first: Trace, second: Trace) -> bool:
    return all(
        np.array_equal(getattr(first, name), getattr(second, name))
        for name in COLUMN_DTYPES
        if getattr(first, name) is not None
    )


@pytest.mark.parametrize("name", ["tiled_matmul", "histogram"])
def test_small_batches_and_disk_give_the_same_trace(context: Any, name: str) -> None:
    whole = tracegen.trace(kernels.WORKLOADS[name](), context=context)
    pieces = tracegen.trace(kernels.WORKLOADS[name](), memory_bytes=64, context=context)
    assert isinstance(pieces.granule.base, np.memmap)
    assert equal(whole, pieces)
    assert equal(whole, tracegen.trace(kernels.WORKLOADS[name](), context=context))


def test_snapshot_is_a_part_of_the_whole(context: Any) -> None:
    whole = tracegen.trace(kernels.WORKLOADS["ragged"](), context=context)
    part = tracegen.trace(kernels.WORKLOADS["ragged"](), groups=[2, 1], context=context)
    assert part.workgroup.tolist() == [1, 1, 2, 2]
    assert not part.whole
    begin, end = whole.subgroup_offset[[2, 6]]
    assert np.array_equal(part.site, whole.site[begin:end])
    granules = slice(*whole.granule_offset[[begin, end]])
    assert np.array_equal(part.granule, whole.granule[granules])


def test_several_launches(context: Any) -> None:
    traces = tracegen.trace_launches(kernels.two_launches(70), context=context)
    assert [[site.array for site in trace.sites] for trace in traces] == [
        ["a", "middle"],
        ["middle", "b"],
    ]
    assert traces[0].arrays == traces[1].arrays
    assert [extent.name for extent in traces[0].arrays] == ["a", "b", "middle"]
    second = tracegen.trace(kernels.two_launches(70), launch=1, context=context)
    assert equal(second, traces[1])
    with pytest.raises(KernelError, match=r"has several launches: 0 \(.*\), 1 \("):
        tracegen.trace(kernels.two_launches(70), context=context)
    with pytest.raises(KernelError, match="has no launch 2; it has 0"):
        tracegen.trace(kernels.two_launches(70), launch=2, context=context)


def test_provenance(context: Any) -> None:
    first, second = (
        tracegen.trace(kernels.copy(64, group=group), context=context).provenance
        for group in (32, 64)
    )
    assert {"loopy", "pyopencl", "numba", "python", "platform", "device"} <= first.keys()
    assert first["kernel_sha256"] != second["kernel_sha256"]


class Code:
    """A result of Loopy's code generation."""

    def device_code(self) -> str:
        return "other code"


@pytest.mark.parametrize("times", [1, 2])
def test_code_that_marks_changed_is_refused(
    context: Any, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """Only where Loopy generates it again: what it kept may have been generated otherwise."""
    real, others = host.lp.generate_code_v2, iter([Code()] * times)

    def generate(t_unit: Any) -> Any:
        marked = isinstance(t_unit.target, ProbeTarget)
        return real(t_unit) if marked else next(others, None) or real(t_unit)

    monkeypatch.setattr(host.lp, "generate_code_v2", generate)
    if times == 1:
        assert tracegen.trace(kernels.copy(64), context=context).n_groups > 0
    else:
        with pytest.raises(AssertionError, match="marks changed the code"):
            tracegen.trace(kernels.copy(64), context=context)
