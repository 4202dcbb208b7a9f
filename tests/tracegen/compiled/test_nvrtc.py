"""CUDA C++ that NVIDIA's own compiler library translates."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.errors import KernelError
from tests.support.cuda_kernels import compiler_of, floats, needs_both, traced, workload
from tests.support.cuda_twins import twin
from tracegen import CudaWorkload
from tracegen.compiled.request import PRINTF
from tracegen.cuda.host_code import on_device
from tracegen.machine_code.binding import bind
from tracegen.options import TraceOptions
from tracegen.workloads.load import load_kernel

KERNELS = Path(__file__).parents[3] / "experiments" / "kernels"
STENCIL = """
template <int N> __global__ void k(float *y, const float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x + 1;
  if (i < n) y[i] = N * x[i] + x[i - 1]
                  + x[i + 1];
}
"""


def stencil(source: str = STENCIL, **changes: Any) -> CudaWorkload:
    given = {"kernel": "k<3>", "grid": 4, "block": 64} | changes
    arguments = {"y": np.zeros(300, np.float32), "x": floats(300), "n": 257}
    return CudaWorkload(source=source, arguments=arguments, **given)


class TestOnItsOwn:
    pytestmark = needs_both

    @pytest.mark.weekly(3)
    @pytest.mark.parametrize("name", ["transpose_tiled", "bfs_level", "laplacian"])
    def test_the_same_is_accessed_as_with_clang(self, name: str) -> None:
        nvrtc, clang = (traced(twin(name), compiler) for compiler in ("nvrtc", "clang"))
        assert np.array_equal(np.unique(nvrtc.granule), np.unique(clang.granule))
        assert "nvrtc" in compiler_of(nvrtc)
        assert "clang" in compiler_of(clang)

    def test_accesses_of_one_statement_share_its_line(self) -> None:
        """NVRTC tells the line of a statement alone: three loads of x, in each of four sub-groups, and a store."""
        trace = traced(stencil(), "nvrtc")
        accesses = Counter(trace.sites[site].array for site in trace.site)
        assert accesses == {"x": 3 * 4, "y": 4}
        assert {one.source.user_line for one in trace.sites if one.source} <= {4, 5}

    def test_clang_compiles_what_it_refuses(self) -> None:
        source = "typedef float F4 __attribute__((ext_vector_type(4)));\n" + STENCIL.replace(
            "N * x[i]", "F4(x[i]).x"
        )
        found = compiler_of(traced(stencil(source), "auto"))
        assert "clang" in found
        first = "clang compiled it, for NVRTC refuses it: kernel.cu:"
        assert re.match(rf"{re.escape(first)}\d: \S", found["stand_ins"][0])
        with pytest.raises(KernelError, match=r"^kernel.cu:\d: \S") as refused:
            traced(stencil(source), "nvrtc")
        assert "\n" not in str(refused.value)

    @pytest.mark.parametrize("before", ['extern "C" ', "namespace inner { "])
    def test_names(self, before: str) -> None:
        body = "__global__ void k(float *y, const float *x, int n) { y[threadIdx.x] = x[threadIdx.x]; }"
        source = before + body + " }" * before.endswith("{ ")
        name = "inner::k" if "inner" in before else "k"
        assert traced(stencil(source, kernel=name), "nvrtc").n_access == 8

    def test_it_is_the_default_and_leaves_printf_out(self) -> None:
        assert "nvrtc" in next(bind(stencil(), "sm_90")).code.tools
        source = STENCIL.replace("if (i < n)", 'if (i == 7) printf("%d", n);\n  if (i < n)')
        trace = traced(stencil(source), "auto")
        assert "nvrtc" in compiler_of(trace)
        assert {site.array for site in trace.sites} == {"x", "y"}
        assert "printf is left out." in compiler_of(trace)["notes"]

    def test_printf_of_main_is_not_the_kernels(self) -> None:
        inside = 'int main(int argc, char **argv) { if (argc) { printf("{%d", argc); } return 0; }'
        assert not on_device(f"{STENCIL}\n{inside}\n{STENCIL}", PRINTF)
        assert on_device(f'{inside}\n__device__ void f() {{ printf("x"); }}', PRINTF)

    def test_what_it_cannot_compile_is_refused(self) -> None:
        with pytest.raises(KernelError, match=r"^NVRTC compiles CUDA C\+\+ .*, not for gfx90a$"):
            traced(stencil(), "nvrtc", "mi250x")
        hip = workload("#include <hip/hip_runtime.h>\n__global__ void k(float *y) { y[0] = 1; }", np.zeros(64, np.float32), grid=1, block=64)  # fmt: skip
        with pytest.raises(KernelError, match=r"not HIP$"):
            traced(hip, "nvrtc")
        loopy = load_kernel(f"{KERNELS / 'stream.py'}:copy", {"n": "4096"})
        with pytest.raises(KernelError, match=r"not this kernel's language$"):
            tracegen.trace(loopy, "a100", groups=2, options=TraceOptions(compiler="nvrtc"))
