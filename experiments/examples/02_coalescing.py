"""A matrix transposed the plain way: its store touches a sector for each lane."""

import numpy as np

import tracegen

TEXT = """
__global__ void transpose(const float *in, float *out, int n)
{
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  out[x * n + y] = in[y * n + x];
}
"""
n = 512
matrix = np.arange(n * n, dtype=np.float32).reshape(n, n)
workload = tracegen.CudaWorkload(
    source=TEXT,
    kernel="transpose",
    arguments={"in": matrix, "out": np.zeros_like(matrix), "n": n},
    grid=(n // 32, n // 32),
    block=(32, 32),
)
trace = tracegen.trace(workload, "a100", groups=4)
sectors = np.diff(trace.granule_offset)
for number, site in enumerate(trace.sites):
    print(f"{site.name}: {sectors[trace.site == number].mean():.0f} sectors an access")
