"""How long a sum over each row takes on two machines, and which resource limits it."""

import numpy as np

import calib
import memsim
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
    machine = memsim.load_machine(name)
    traces = tracegen.trace_snapshots(workload, machine, snapshots=2)
    prediction = calib.predict(traces, machine)
    print(f"{name}: {prediction.timing.mean(prediction.timing.seconds) * 1e6:.1f} us")
