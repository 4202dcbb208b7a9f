"""The measured star stencils in CUDA: the order in which they load."""

from __future__ import annotations

import re

import numpy as np

from experiments.kernels.star import star
from tests.support.compilers import needs_nvidia
from tracegen.machine_code.binding import bind


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
