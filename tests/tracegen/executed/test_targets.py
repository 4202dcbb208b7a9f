"""Machines whose code cannot be read: another target's instructions, in sub-groups of the machine's width."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import tracegen
from experiments.kernels import stencil, transpose
from memsim.errors import KernelError
from memsim.machine import load_machine
from tests.support.compilers import needs_amd, needs_nvidia
from tracegen.executed.launches import checked
from tracegen.options import TraceOptions

REVERSE = """
__global__ void reverse(const int *x, int *y, int n)
{
  __shared__ int held[96];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  held[threadIdx.x] = x[i] + n;
  __syncthreads();
  if (threadIdx.x % 3) y[i] = held[blockDim.x - 1 - threadIdx.x];
}
"""
SHUFFLE = """
__global__ void first(const int *x, int *y)
{
  y[threadIdx.x] = __shfl_sync(0xffffffff, x[threadIdx.x], 0);
}
"""


def reverse(block: int) -> tracegen.CudaWorkload:
    x = np.arange(4 * block, dtype=np.int32)
    expected = np.where(
        np.arange(4 * block) % block % 3 != 0, (x + 5).reshape(4, -1)[:, ::-1].ravel(), 0
    )

    def check(outputs: Mapping[str, Any]) -> None:
        np.testing.assert_array_equal(outputs["y"], expected)

    arguments = {"x": x, "y": np.zeros_like(x), "n": 5}
    return tracegen.CudaWorkload(
        source=REVERSE, arguments=arguments, grid=4, block=block, check=check
    )


@needs_nvidia
@pytest.mark.parametrize(("width", "block"), [(8, 83), (16, 96), (32, 83), (64, 83), (64, 96)])
def test_sub_groups_of_any_width_compute_the_same(width: int, block: int) -> None:
    options = TraceOptions(subgroup_size=width)
    assert checked(reverse(block), load_machine("a100"), options) == "the workload's own check"
    trace = tracegen.trace(reverse(block), "a100", subgroup_size=width)
    n_subgroup = -(-block // width)
    assert trace.n_subgroup == 4 * n_subgroup
    loads = trace.site == next(k for k, one in enumerate(trace.sites) if one.direction == "load")
    assert loads.sum() == 4 * n_subgroup
    assert trace.lanes[loads].sum() == 4 * block
    last = trace.lanes[loads].reshape(4, n_subgroup)[:, -1]
    assert (last == block - (n_subgroup - 1) * width).all()


@needs_nvidia
def test_instructions_of_a_whole_warp_need_its_width() -> None:
    arguments = {"x": np.zeros(32, np.int32), "y": np.zeros(32, np.int32)}
    workload = tracegen.CudaWorkload(source=SHUFFLE, arguments=arguments, grid=1, block=32)
    assert tracegen.trace(workload, "a100").n_subgroup == 1
    with pytest.raises(KernelError, match=r"SHFL.*works on the 32 lanes of a warp, but .* have 16"):
        tracegen.trace(workload, "arc_b580")


@needs_nvidia
@pytest.mark.parametrize(
    ("machine", "width", "why"),
    [("cpu-pocl", 8, "there is no compiler for it"), ("c1060", 32, "do not know sm_13")],
)
def test_what_stands_in_is_named(machine: str, width: int, why: str) -> None:
    trace = tracegen.trace(reverse(96), machine)
    (note,) = trace.provenance["compiler"]["stand_ins"]
    assert note.startswith(f"The instructions are those of sm_75, in sub-groups of {width} lanes")
    assert why in note


@needs_amd
def test_a_target_that_clang_does_not_know_has_its_predecessor() -> None:
    trace = tracegen.trace(reverse(96), "mi355x")
    assert trace.subgroup_size == 64
    assert "gfx942" in trace.provenance["compiler"]["stand_ins"][0]
    with pytest.raises(KernelError, match="in sub-groups of 64 lanes, not of 32"):
        tracegen.trace(reverse(96), "mi355x", subgroup_size=32)


@needs_nvidia
@pytest.mark.parametrize("make", [stencil.stencil7, transpose.tiled])
def test_affine_kernels_access_the_same_in_narrow_sub_groups(make: Callable[[], Any]) -> None:
    """Loads by granule and sub-group are those that the polyhedral tracer derives for 16 lanes."""
    found = []
    for how in ({}, {"tracer": "polyhedral"}):
        trace = tracegen.trace(make(), "arc_b580", groups=4, **how)
        assert trace.subgroup_size == 16
        lengths = np.diff(trace.granule_offset).tolist()
        accesses = [
            (trace.sites[site].direction, trace.sites[site].array, length)
            for site, length in zip(trace.site.tolist(), lengths, strict=True)
            if site >= 0
        ]
        found.append(sorted(accesses))
    assert found[0] == found[1]
