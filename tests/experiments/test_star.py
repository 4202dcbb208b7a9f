"""The measured star stencils in CUDA: what they compute, and the order in which they load."""

from __future__ import annotations

import re

import numpy as np
import pytest

from experiments.kernels.star import star, star25_points
from memsim.errors import KernelError
from tests.support.compilers import needs_nvidia
from tests.support.cuda_kernels import is_right_and_a_wrong_one_is_seen, needs_clang
from tracegen import CudaWorkload
from tracegen.machine_code.binding import bind

WORKLOADS = (
    star(),
    star(radius=2, points=2, nx=20, ny=6, nz=6),
    star(radius=2, points=4, nx=33, ny=5, nz=8, pitch=40, block_x=8),
    star25_points(nx=32, ny=8, nz=9),
    star25_points(nx=32, ny=8, nz=9, points_y=3, points_z=2),
)


@needs_clang
@pytest.mark.parametrize("workload", WORKLOADS, ids=["25", "13x2", "13x4", "one", "several"])
def test_each_computes_a_quarter_of_the_sum(workload: CudaWorkload) -> None:
    is_right_and_a_wrong_one_is_seen(workload)


def test_points_that_do_not_divide_the_depth_are_refused() -> None:
    with pytest.raises(KernelError, match="points must divide nz"):
        star(points=3)


@needs_nvidia
def test_loads_follow_one_another_as_measured() -> None:
    """Along x, then z, then y; as ptxas compiles the generated text for the V100, too."""
    code = next(bind(star(nx=632, ny=504, nz=504, pitch=640, filled=False), "sm_70")).code
    loads = [line for line in code.listing.splitlines() if "LDG" in line]
    axes = [_axis(int(re.search(r"\+(-?0x[0-9a-f]+)\]|$", load)[1] or "0", 16)) for load in loads]
    assert axes[:9] == ["x"] * 9
    assert sorted(axes) == ["x"] * 9 + ["y"] * 8 + ["z"] * 8
    middle = {axis: np.median(np.flatnonzero(np.array(axes) == axis)) for axis in "xyz"}
    assert middle["x"] < middle["z"] < middle["y"]
    assert code.registers_per_item == 32


def _axis(offset_bytes: int) -> str:
    """Of a load at this distance from a thread's point."""
    distance = abs(offset_bytes)
    return "x" if distance <= 4 * 8 else "y" if distance <= 4 * 640 * 8 else "z"
