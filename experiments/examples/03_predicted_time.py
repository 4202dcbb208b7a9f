"""How long a sum over each row takes on two machines, and which resource limits it."""

import numpy as np

import calib
import tracegen

TEXT = """
__global__ void row_sums(const float *x, float *sums, int width)
{
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < width; ++k)
    sum += x[row * width + k];
  sums[row] = sum;
}
"""
rows, width = 1 << 14, 64
workload = tracegen.CudaWorkload(
    source=TEXT,
    kernel="row_sums",
    arguments=[np.ones(rows * width, np.float32), np.zeros(rows, np.float32), width],
    grid=rows // 128,
    block=128,
)
for name in ("v100", "a100"):
    prediction = calib.predict(workload, name)
    faster = prediction.what_if(dram="2x").seconds.mean
    print(
        f"{name}: {prediction.seconds.mean * 1e6:.1f} us, limited by {prediction.limited_by};",
        end=" ",
    )
    print(f"with DRAM twice as fast {faster * 1e6:.1f} us")
