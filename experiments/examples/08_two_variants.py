"""The transpose with and without local memory, side by side; the replays are saved for `memsim compare`."""

import tracegen
from experiments.kernels import transpose

for variant in (transpose.naive, transpose.tiled):
    replay = tracegen.profile(variant(512), "v100", trials=4, seed=1)
    replay.save(f"{variant.__name__}.nc")
    store = next(name for name in replay.dataset.site.values.tolist() if name.startswith("store"))
    row = replay.dataset.sel(site=store)
    print(f"{variant.__name__}: {float(row.site_sectors / row.site_accesses):.1f} sectors a store")
