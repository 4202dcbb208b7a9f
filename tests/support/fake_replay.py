"""Invented but plausible results in the layout of memsim.montecarlo.result: a scalar CSR SpMV on a V100."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from memsim.machine.file import load_machine
from memsim.machine.model import Machine
from memsim.montecarlo.result import Replay

GENERATED_SOURCE = """\
#define lid(N) ((int) get_local_id(N))
#define gid(N) ((int) get_group_id(N))
#if __OPENCL_C_VERSION__ < 120
#pragma OPENCL EXTENSION cl_khr_fp64: enable
#endif

__kernel void __attribute__ ((reqd_work_group_size(128, 1, 1))) spmv(__global int const *__restrict__ rowptr, __global int const *__restrict__ ind, __global double const *__restrict__ val, __global double const *__restrict__ x, __global double *__restrict__ y, int const n)
{
  double acc_jj;
  int lo;
  int hi;

  /* one row a work-item */
  if (-1 + -128 * gid(0) + -1 * lid(0) + n >= 0)
  {
    lo = rowptr[128 * gid(0) + lid(0)];
    hi = rowptr[1 + 128 * gid(0) + lid(0)];
    acc_jj = 0.0;
    for (int jj = lo; jj <= -1 + hi; ++jj)
      acc_jj = acc_jj + val[jj] * x[ind[jj]];
    y[128 * gid(0) + lid(0)] = acc_jj;
  }
}
"""

USER_SOURCE = '''\
"""Sparse matrix times vector, one row a work-item."""

import loopy as lp


def spmv(n: int = 65536):
    kernel = lp.make_kernel(
        ["{[i]: 0 <= i < n}", "{[jj]: lo <= jj < hi}"],
        """
        for i
            <> lo = rowptr[i]
            <> hi = rowptr[i + 1]
            y[i] = sum(jj, val[jj] * x[ind[jj]])
        end
        """,
    )
    return lp.split_iname(kernel, "i", 128, outer_tag="g.0", inner_tag="l.0")
'''

HOSTILE = (
    "</td></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&lt;{{7*7}}[red]$x$"
)
"""Text that would run a script or break a table if a report did not escape it."""

# name, array, direction, line, user line, bytes, L1 hit, L1 pending, L2 hit, sectors, ideal
SITES: tuple[tuple[Any, ...], ...] = (
    ("rowptr[i]", "rowptr", "load", 16, 11, 4, 0.00, 0.02, 0.32, 4.0, 4.0),
    ("rowptr[i+1]", "rowptr", "load", 17, 12, 4, 0.81, 0.10, 0.30, 5.0, 4.0),
    ("val[jj]", "val", "load", 20, 13, 8, 0.52, 0.04, 0.11, 27.4, 7.6),
    ("ind[jj]", "ind", "load", 20, 13, 4, 0.70, 0.06, 0.14, 25.9, 3.8),
    ("x[ind[jj]]", "x", "load", 20, 13, 8, 0.66, 0.07, 0.93, 18.3, 7.6),
    ("y[i]", "y", "store", 21, 13, 8, 0.00, 0.00, 0.64, 8.0, 8.0),
)


def fake_dataset(
    *,
    n_trials: int = 64,
    seed: int = 1,
    sites: tuple[tuple[Any, ...], ...] = SITES,
    spread: float = 0.004,
    l1_shift: float = 0.0,
    machine: Machine | None = None,
    **attributes: Any,
) -> xr.Dataset:
    """A result of n_trials.

    spread : standard deviation of a hit ratio over trials;  l1_shift : added to L1 hit ratios
    """
    rng = np.random.default_rng(seed)
    machine = load_machine("v100") if machine is None else machine
    n_site, n_level, n_sample = len(sites), 2, 200
    column = {
        name: [site[i] for site in sites]
        for i, name in enumerate(
            ["site", "array", "direction", "line", "user_line", "bytes", "h1", "p1", "h2"]
        )
    }
    per_access = np.array([site[9] for site in sites])
    ideal = np.array([site[10] for site in sites])
    n_access = np.array([2560 * (27 if line == 20 else 1) for line in column["line"]])
    is_store = np.array(column["direction"]) == "store"
    is_atomic = np.array(column["direction"]) == "atomic"

    sectors = np.round(n_access * per_access).astype(np.int64)
    accesses = np.zeros((n_trials, n_level, n_site), dtype=np.int64)
    hits, pending = np.zeros_like(accesses), np.zeros_like(accesses)
    accesses[:, 0] = np.where(is_atomic | is_store, 0, sectors)
    noise = rng.normal(0, spread, (n_trials, n_level, n_site))
    h1 = np.clip(np.array(column["h1"]) + l1_shift + noise[:, 0], 0, 1)
    hits[:, 0] = np.round(accesses[:, 0] * h1)
    pending[:, 0] = np.minimum(
        np.round(accesses[:, 0] * np.array(column["p1"])), accesses[:, 0] - hits[:, 0]
    )
    accesses[:, 1] = np.where(
        is_store | is_atomic, sectors, accesses[:, 0] - hits[:, 0] - pending[:, 0]
    )
    h2 = np.clip(np.array(column["h2"]) + 3 * noise[:, 1], 0, 1)
    hits[:, 1] = np.round(accesses[:, 1] * h2)
    misses = accesses - hits - pending

    read_bytes, write_bytes = 32 * misses, np.zeros_like(misses)
    read_bytes[:, 1] *= 2
    read_bytes[:, :, is_store] = 0
    write_bytes[:, 0] = 32 * np.where(is_store, sectors, 0)
    write_bytes[:, 1] = 32 * np.where(is_store, misses[:, 1], 0)

    samples = rng.gamma(9.0, 22.0, (n_trials, n_sample)) + 330
    samples[:, -10:] = np.nan
    cold = np.round(misses[0] * np.array([[0.18], [0.93]])).astype(np.int64)
    conflict = np.round(misses[0] * np.array([[0.07], [0.01]])).astype(np.int64)
    attrs = {
        "schema": 1,
        "kernel": "spmv",
        "machine": machine,
        "seed": seed,
        "options": {"trials": n_trials, "sampler": "weighted", "l2": "warmed"},
        "interrupted": 0,
        "traced_groups": 640,
        "of_groups": 8192,
        "granules": int(sectors.sum()),
        "occupancy": {"groups_per_core": 16, "limited_by": "items"},
        "generated_source": GENERATED_SOURCE,
        "user_source": USER_SOURCE,
        "model_error": {"L1": 2.1, "L2": None},
        "provenance": {
            "trace": {"opencl": "Portable Computing Language", "loopy": "2025.2"},
            "replay": {"memsim": "0.1.0", "python": "3.11.7"},
        },
        **attributes,
    }
    site_dim = ("site",)
    per_trial = ("trial", "level", "site")
    return xr.Dataset(
        {
            "accesses": (per_trial, accesses),
            "hits": (per_trial, hits),
            "pending": (per_trial, pending),
            "read_bytes": (per_trial, read_bytes),
            "write_bytes": (per_trial, write_bytes),
            "dram_latency_cycles": (("trial", "sample"), samples.astype(np.float32)),
            "dram_mean_cycles": ("trial", np.nanmean(samples, axis=1)),
            "dram_dominant_cycles": ("trial", np.full(n_trials, np.nan)),
            "dram_read_bytes": ("trial", read_bytes[:, 1].sum(axis=1)),
            "dram_write_bytes": ("trial", write_bytes[:, 1].sum(axis=1)),
            "dram_row_hit_ratio": ("trial", rng.normal(0.55, 0.01, n_trials)),
            "cold_misses": (("level", "site"), cold),
            "capacity_misses": (("level", "site"), misses[0] - cold - conflict),
            "conflict_misses": (("level", "site"), conflict),
            "site_accesses": (site_dim, n_access),
            "site_lanes": (site_dim, n_access * 30),
            "site_sectors": (site_dim, sectors),
            "site_useful_bytes": (site_dim, np.round(n_access * ideal * 31.5).astype(np.int64)),
            "site_ideal_sectors": (site_dim, n_access * ideal),
        },
        coords={
            "level": ["L1", "L2"],
            "site": column["site"],
            "array": (site_dim, column["array"]),
            "direction": (site_dim, column["direction"]),
            "source_line": (site_dim, column["line"]),
            "user_file": (site_dim, ["spmv.py"] * n_site),
            "user_line": (site_dim, column["user_line"]),
            "itemsize_bytes": (site_dim, column["bytes"]),
        },
        attrs=attrs,
    )


def hostile_replay() -> Replay:
    """A result in which every text that comes from a trace or a machine is hostile markup."""
    data = fake_dataset(
        n_trials=3,
        kernel=HOSTILE,
        machine=load_machine("v100").replace(
            name=HOSTILE, title=HOSTILE, vendor=HOSTILE, sources={"n_cores": HOSTILE}
        ),
        generated_source=GENERATED_SOURCE.replace("acc_jj", f"/*{HOSTILE}*/"),
        user_source=f"{HOSTILE}\n'''{HOSTILE}\n" * 9,
        provenance={HOSTILE: {"x": [HOSTILE, {"y": HOSTILE}]}},
        options={HOSTILE: HOSTILE},
        occupancy={HOSTILE: None},
        orders={HOSTILE: {"L1": 0.01, HOSTILE: 1}},
    )
    n_site = data.sizes["site"]
    return Replay(
        data.assign_coords(
            site=[f"{i}{HOSTILE}" for i in range(n_site)],
            array=("site", [HOSTILE] * n_site),
            user_file=("site", [f"javascript:{HOSTILE}"] * n_site),
        )
    )
