"""What a larger L2 would do for a table that does not fit into it."""

import dataclasses

import numpy as np

import memsim
import tracegen

TEXT = """
__kernel void gather(__global const float *table, __global const int *index, __global float *out)
{
  int i = get_global_id(0);
  out[i] = table[index[i]];
}
"""
n, entries = 1 << 16, 3 << 20
workload = tracegen.OpenCLWorkload(
    source=TEXT,
    arguments=[
        np.ones(entries, np.float32),
        np.random.default_rng(0).integers(0, entries, n, dtype=np.int32),
        np.zeros(n, np.float32),
    ],
    global_size=n,
    local_size=128,
)
machine = memsim.load_machine("v100")
trace = tracegen.trace(workload, machine)
l1, l2 = machine.levels
for factor in (1, 4):
    level = dataclasses.replace(l2, size_bytes=l2.size_bytes * factor)
    replay = memsim.replay(trace, machine.replace(levels=(l1, level)), trials=4, warm=True)
    hits = replay.sites["table[index[i]]"].hit_ratio("L2")
    print(f"L2 of {level.size_bytes >> 20} MiB: {hits.mean:.0%} of the gather's requests hit")
