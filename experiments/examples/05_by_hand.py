"""A trace written by hand, without a kernel: sixteen groups read the same 4 KiB."""

from pathlib import Path

import memsim
from memsim.formats import read_any

rows = [
    "# kernel = shared",
    "# group_items = 32",
    "group,subgroup,site,direction,bytes,mask,addresses",
]
for group in range(16):
    rows += [f"{group},0,x[i],load,4,ffffffff,{128 * line}+4" for line in range(32)]
Path("shared.csv").write_text("\n".join(rows) + "\n")

trace = read_any("shared.csv").launches[0]
replay = memsim.replay(trace, "v100", trials=8, seed=1)
print(f"{trace.n_access} accesses, {trace.n_granule} sectors requested")
print(f"L2 serves {replay.sites['x[i]'].hit_ratio('L2').mean:.0%} of what L1s miss")
