"""Kernels that only compute: they have a time, too."""

from __future__ import annotations

from pathlib import Path

import pytest

import calib
import memsim
import tracegen
from memsim.errors import ReplayError
from tests.support.command_line import RunMemsim
from tests.support.compilers import needs_amd, needs_nvidia
from tests.support.traces import make_trace
from tracegen import CudaWorkload

SOURCE = """\
__global__ void steps(float a, int n, float *out)
{
  float x = threadIdx.x;
  for (int k = 0; k < n; ++k)
    x = a * x + a;
  if (x == -1)
    out[0] = x;
}
"""


def chain(n: int) -> CudaWorkload:
    """Multiply-adds that wait for each other, in as many blocks as an A100 holds."""
    return CudaWorkload(source=SOURCE, arguments=[0.5, n, None], grid=108 * 2, block=1024)


@needs_nvidia
def test_the_time_is_that_of_the_instructions() -> None:
    """A core of an A100 has 64 lanes for multiply-adds: 4,096 more of them, of 64 warps, take it 131,072 cycles."""
    one, two = (calib.predict(chain(n), "a100") for n in (4096, 8192))
    assert one.limited_by == "issue"
    assert 1.0 <= (two.seconds.mean - one.seconds.mean) / (4096 * 64 / 2 / 1.41e9) < 1.05


@needs_nvidia
def test_the_report_names_no_access(run_memsim: RunMemsim, tmp_path: Path) -> None:
    (tmp_path / "steps.cu").write_text(SOURCE)
    (tmp_path / "args.py").write_text(
        "import tracegen\n"
        "def make(): return tracegen.CudaWorkload(arguments=[0.5, 64, None], grid=216, block=1024)\n"
    )
    ended = run_memsim("profile", f"{tmp_path}/steps.cu:steps", "--args", f"{tmp_path}/args.py:make", "-m", "a100")  # fmt: skip
    assert "at least, by resource: arithmetic" in " ".join(ended.out.split())


def test_a_trace_of_nothing_is_refused() -> None:
    with pytest.raises(ReplayError, match="accesses no global memory: there is nothing to replay"):
        memsim.replay(make_trace([[[]]], ()), "a100")


@needs_amd
def test_a_kernel_without_registers_is_refused_for_what_it_lacks() -> None:
    """AMD's compiler reports no vector registers of an empty kernel, which occupies the least there are."""
    empty = CudaWorkload(source="__global__ void k(int n) {}", arguments=[4], grid=1, block=64)
    with pytest.raises(ReplayError, match="accesses no global memory: there is nothing to replay"):
        tracegen.profile(empty, "mi300a")
