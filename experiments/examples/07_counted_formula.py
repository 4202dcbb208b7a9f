"""What a Loopy kernel does, as formulas in its sizes: no run, no machine."""

import calib
from experiments.kernels import matmul

tiled = matmul.tiled(64)
for feature in ("f_op_float32_madd", "f_sync_barrier_local"):
    print(f"{feature}: {calib.count(tiled, feature)}")
