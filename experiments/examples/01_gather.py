"""Profile a Loopy kernel: where each load is served, and what it costs."""

import loopy as lp
import numpy as np

import tracegen

n = 1 << 16
kernel = lp.make_kernel("{[i]: 0 <= i < n}", "out[i] = 2 * table[index[i]]", lang_version=(2018, 2))
kernel = lp.split_iname(kernel, "i", 128, outer_tag="g.0", inner_tag="l.0")
index = np.random.default_rng(0).integers(0, 1 << 14, n, dtype=np.int32)
workload = tracegen.Workload(kernel, {"table": np.ones(1 << 14, np.float32), "index": index})

replay = tracegen.profile(workload, "v100", trials=8, seed=1)
replay.to_html("gather.html")
hits = replay.sites["table[index[i]]"].hit_ratio("L1")
print(f"table hits L1 in {hits.mean:.1%} ± {hits.half_width:.1%} of its sectors; see gather.html")
