"""What our headers declare, and kernels, are compiled for GPUs."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import memsim
import tracegen
from memsim.errors import KernelError
from tests.support.compilers import needs_nvidia
from tests.support.cuda_kernels import needs_clang, workload
from tracegen.machine_code.binding import bind

pytestmark = needs_clang

KERNEL = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;
__global__ void k(const float *x, float *y, __half *h, __nv_bfloat16 *b) {
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<32>(block);
  int i = block.thread_rank();
  float sum = cg::reduce(tile, x[i], cg::plus<float>());
  h[i] = __float2half(sum);
  b[i] = __float2bfloat16(__half2float(h[i]));
  block.sync();
  y[i] = tile.ballot(x[i] > 0) + __bfloat162float(b[i]);
}
"""


def check_groups_and_short_floats(machine: str) -> None:
    target = memsim.load_machine(machine)
    floats, halves = np.ones((2, 64), np.float32), np.zeros((2, 64), np.uint16)
    trace = tracegen.trace(workload(KERNEL, *floats, *halves, block=64), target)
    assert trace.provenance["compiler"]["target"] == target.compiler_target
    assert trace.launch.registers_per_item


@needs_nvidia
@pytest.mark.parametrize("machine", ["v100", "h100"])
def test_groups_and_short_floats_compile_for_a_target(machine: str) -> None:
    check_groups_and_short_floats(machine)


@pytest.mark.parametrize("clang", ["clang-14", "clang-15"])
def test_the_oldest_clangs_compile_our_headers(clang: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which(clang) is None:
        pytest.skip(f"{clang} is not installed")
    monkeypatch.setenv("MEMSIM_CLANG", clang)
    check_groups_and_short_floats("mi250x")


def test_a_definition_is_part_of_what_is_kept_of_a_compilation_for_amd() -> None:
    """Variants of a kernel that differ in `-D` alone have machine code of their own; see test_kept.py for NVIDIA's."""
    source = "__global__ void k(float *y) {\n  for (int i = 0; i < N; ++i) y[i * 32 + threadIdx.x] = i;\n}"
    stores = []
    for n in (1, 3):
        made = workload(source, np.zeros(128, np.float32), build_options=f"-DN={n}")
        code = next(bind(made, memsim.load_machine("mi250x").compiler_target)).code
        accesses = (one.memory for block in code.blocks for one in block.instructions)
        stores.append(sum(1 for one in accesses if one and one.direction == "store"))
    assert stores == [1, 3]


@needs_nvidia
def test_long_functions_are_inlined_as_nvidias_compilers_do() -> None:
    """In a function of its own, accesses to shared memory would be taken for accesses to global memory."""
    steps = "".join(
        f"  s[(t * {i + 3}) % 256] += s[(t + {i * i}) % 256] * {i}.5f;\n" for i in range(150)
    )
    source = f"""__device__ void long_function(float *s, int t) {{
{steps}}}
__global__ void k(float *y) {{
  __shared__ float s[256];
  s[threadIdx.x] = y[threadIdx.x];
  __syncthreads();
  for (int i = 0; i < 3; ++i) {{ long_function(s, threadIdx.x + i); __syncthreads(); }}
  long_function(s, threadIdx.x);
  y[threadIdx.x] = s[threadIdx.x];
}}
"""
    made = workload(source, np.zeros(256, np.float32), block=256)
    code = next(bind(made, memsim.load_machine("v100").compiler_target)).code
    instructions = [one for block in code.blocks for one in block.instructions]
    assert sum(one.memory is not None and one.memory.space == "global" for one in instructions) == 2


@pytest.mark.parametrize(
    ("machine", "most"), [pytest.param("v100", 49152, marks=needs_nvidia), ("mi250x", 65536)]
)
def test_a_kernel_that_no_core_of_the_target_can_hold_is_refused(machine: str, most: int) -> None:
    """It would be ranked by `tune` otherwise, as if its registers alone were unknown."""
    source = """__global__ void k(float *y) {
  __shared__ float s[20000];
  s[threadIdx.x] = y[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[255 - threadIdx.x];
}
"""
    made = workload(source, np.zeros(256, np.float32), block=256)
    on = memsim.load_machine(machine)
    with pytest.raises(
        KernelError, match=f"declares 80000 bytes of local memory, of at most {most}"
    ):
        tracegen.trace(made, on)
