"""How often each basic block of a kernel's machine code runs; nothing is multiplied or added."""

import numpy as np

import tracegen

TEXT = """
__global__ void matmul(const float *a, const float *b, float *c, int n)
{
  int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; ++k)
    sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}
"""
n = 128
matrix = np.ones(n * n, np.float32)
workload = tracegen.CudaWorkload(
    source=TEXT,
    kernel="matmul",
    arguments=[matrix, matrix, np.zeros_like(matrix), n],
    grid=(n // 16, n // 16),
    block=(16, 16),
    check=lambda out: np.testing.assert_allclose(out["c"], n),
)
counts = tracegen.count_blocks(workload, "a100")
for block in counts.blocks:
    n_run = counts.by_subgroups[block.number]
    print(f"block {block.number}: {len(block.instructions)} instructions, run {n_run} times")
