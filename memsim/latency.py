"""The expected latency of a static load, for any number of cache levels.

    X = H1*t1 + (1 - H1)*(H2*t2 + (1 - H2)*Tm)

(Baghsorkhi et al. 2012, section 6.1). t_k is the load-to-use latency of a hit in level k, measured
from the core. Tm is the trial's main-memory latency, also measured from the core: the dominant one
if one latency dominates, else the mean. Every trial has its own H and Tm, so X is a random variable.

Modes:
    hit      the equation as printed. H counts pending sectors as hits (memsim.statistics.hit_ratio),
             so a pending sector costs t_k
    pending  a pending sector waits for the request that is already in flight. It arrives at a
             uniformly distributed time during that request, so on average half of the latency of the
             levels below remains, and it costs max(t_k, Y/2). Y is the expected latency of a miss of
             level k at the same site; if the site has no misses (its neighbours fetch for it), at all
             load sites together.

Loads have a latency, and so have atomics, which are performed at the first level that keeps stores.
Stores have none (NaN): nothing waits for them.

In a level with partitions, a hit in another partition costs far_latency_cycles; a miss costs Tm, the
mean over partitions.

The share of a site is site_accesses * X, divided by the sum of that over all sites: its part of the
load latency of the kernel's sub-groups, before any of it is hidden.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import xarray as xr

from memsim.errors import ResultError
from memsim.machine.model import Machine
from memsim.statistics import hit_ratio

LatencyMode = Literal["hit", "pending"]
DRAM = "DRAM"

_Floats = npt.NDArray[np.float64]


def machine_of(dataset: xr.Dataset) -> Machine:
    """The machine that a result was replayed on."""
    machine: Machine = dataset.attrs["machine"]
    return machine


def level_latencies_cycles(dataset: xr.Dataset) -> _Floats:
    """(n_level,) latency of a hit in each of the result's levels, from the core outward.

    A machine without caches has one level that passes everything on, with latency 0.
    """
    levels = {level.name: level.latency_cycles for level in machine_of(dataset).levels}
    names = [str(name) for name in dataset["level"].values]
    unknown = [name for name in names if levels and name not in levels]
    if unknown:
        raise ResultError(f"level of the result must be one of the machine's, got {unknown[0]}")
    return np.array([levels.get(name, 0.0) for name in names], dtype=np.float64)


def dram_latency_cycles(dataset: xr.Dataset) -> xr.DataArray:
    """Tm, (trial,): the dominant latency if there is one, else the mean; NaN without requests."""
    dominant = dataset["dram_dominant_cycles"]
    mean = dataset["dram_mean_cycles"]
    return dominant.where(np.isfinite(dominant), mean).rename("tm_cycles")


def hit_ratios(dataset: xr.Dataset) -> xr.DataArray:
    """Hit ratios H, with the dimensions of the dataset's counts; NaN without accesses."""
    counts = (dataset[name] for name in ("accesses", "hits", "pending"))
    ratios: xr.DataArray = xr.apply_ufunc(hit_ratio, *counts)
    return ratios.rename("hit_ratio")


def site_hit_ratio(dataset: xr.Dataset, site: str, level: str) -> xr.DataArray:
    """H of one access at one level, (trial,); raises ResultError for an unknown site or level."""
    check_name(dataset, "site", site)
    check_name(dataset, "level", level)
    return hit_ratios(dataset).sel(site=site, level=level)


def load_hit_ratio(dataset: xr.Dataset, level: str) -> xr.DataArray:
    """H of all loads together at one level, (trial,); raises ResultError for an unknown level."""
    check_name(dataset, "level", level)
    loads = dataset["direction"].values.astype(str) == "load"
    sums = dataset[["accesses", "hits", "pending"]].isel(site=loads).sum("site")
    return hit_ratios(sums).sel(level=level)


def check_name(dataset: xr.Dataset, dimension: str, name: str) -> None:
    """Raises ResultError if the result has no `site` or `level` of this name."""
    names = [str(value) for value in dataset[dimension].values]
    if name not in names:
        raise ResultError(f"{dimension} must be one of {', '.join(names)}, got {name}")


def latency_parts(dataset: xr.Dataset, mode: LatencyMode = "hit") -> xr.DataArray:
    """X split by what serves it: (trial, part, site) cycles, part = the levels, then DRAM.

    The parts of a load or atomic sum to its expected latency. Those of a store, and of a site that a
    trial does not access, are NaN. In mode `pending`, a wait belongs to the level of the pending hit.
    """
    if mode not in get_args(LatencyMode):
        raise ResultError(f"latency mode must be hit or pending, got {mode}")
    accesses, hits, pending = (
        dataset[name].transpose("trial", "level", "site").values.astype(np.float64)
        for name in ("accesses", "hits", "pending")
    )
    latency = level_latencies_cycles(dataset)
    tm = dram_latency_cycles(dataset).values.astype(np.float64)
    waits = dataset["direction"].values.astype(str) != "store"

    n_trial, n_level, n_site = accesses.shape
    served = np.nan_to_num(hit_ratio(accesses, hits, pending))  # 0 where never reached
    cost = np.broadcast_to(latency[:, None], (n_trial, n_level, n_site)) + _far_cycles(dataset)
    if mode == "pending":
        below = _latency_below(accesses, hits + pending, served, latency, tm, waits)
        delayed = np.maximum(latency[:, None], below / 2)
        fraction = pending / np.where(hits + pending > 0, hits + pending, 1)
        delayed = np.where(np.isfinite(delayed), delayed, cost)
        cost = (1 - fraction) * cost + fraction * delayed

    parts = np.empty((n_trial, n_level + 1, n_site))
    reach = np.ones((n_trial, n_site))
    for k in range(n_level):
        parts[:, k] = reach * served[:, k] * cost[:, k]
        reach = reach * (1 - served[:, k])
    parts[:, -1] = np.where(reach > 0, reach * tm[:, None], 0.0)
    met = (accesses > 0).any(axis=1) & waits if n_level else np.tile(waits, (n_trial, 1))
    parts = np.where(met[:, None, :], parts, np.nan)
    return xr.DataArray(
        parts,
        dims=("trial", "part", "site"),
        coords={
            "part": [*(str(name) for name in dataset["level"].values), DRAM],
            "site": dataset["site"].values,
        },
        name="latency_parts_cycles",
    )


def expected_latency_cycles(dataset: xr.Dataset, mode: LatencyMode = "hit") -> xr.DataArray:
    """X, (trial, site): NaN for stores and for sites that a trial does not access."""
    parts = latency_parts(dataset, mode)
    return parts.sum("part", skipna=False).rename("latency_cycles")


def latency_shares(dataset: xr.Dataset, mode: LatencyMode = "hit") -> xr.DataArray:
    """Share of the kernel's load latency, (trial, site): sums to 1 in each trial; stores have 0."""
    return shares_of(load_latency_cycles(dataset, mode))


def shares_of(total: xr.DataArray) -> xr.DataArray:
    """Shares, of what load_latency_cycles returns."""
    whole = total.sum("site")
    return (total / whole.where(whole > 0, 1)).rename("share")


def load_latency_cycles(dataset: xr.Dataset, mode: LatencyMode = "hit") -> xr.DataArray:
    """site_accesses * X, (trial, site): the total latency of a site, none of it hidden."""
    return load_latency_of(latency_parts(dataset, mode), dataset)


def load_latency_of(parts: xr.DataArray, dataset: xr.Dataset) -> xr.DataArray:
    """The same, of what latency_parts returns."""
    latency = parts.sum("part", skipna=False).fillna(0.0)
    return (latency * dataset["site_accesses"]).transpose("trial", "site").rename("total_cycles")


def _far_cycles(dataset: xr.Dataset) -> _Floats:
    """(trial, level, site): mean additional latency of a hit, due to those in another partition."""
    hits = (dataset["hits"] + dataset["pending"]).transpose("trial", "level", "site").values
    if "far_hits" not in dataset:
        return np.zeros(hits.shape)
    far = dataset["far_hits"].transpose("trial", "level", "site").values
    longer = [
        max(0.0, level.far_latency_cycles - level.latency_cycles)
        for level in machine_of(dataset).levels
    ]
    return np.asarray(far / np.maximum(hits, 1) * np.array(longer)[:, None])


def _latency_below(
    accesses: _Floats,
    served_sectors: _Floats,
    served: _Floats,
    latency: _Floats,
    tm: _Floats,
    waits: npt.NDArray[np.bool_],
) -> _Floats:
    """Y, (trial, level, site): expected latency of a miss of a level, computed in mode `hit`."""
    n_trial, n_level, n_site = accesses.shape
    below = np.empty((n_trial, n_level, n_site))
    pooled = np.broadcast_to(tm[:, None], (n_trial, 1))
    own = np.broadcast_to(tm[:, None], (n_trial, n_site))
    for k in range(n_level - 1, -1, -1):
        below[:, k] = np.where(accesses[:, k] > served_sectors[:, k], own, pooled)
        ratio = served[:, k]
        own = ratio * latency[k] + np.where(ratio < 1, (1 - ratio) * own, 0.0)
        all_accesses = (accesses[:, k] * waits).sum(axis=1, keepdims=True)
        all_served = (served_sectors[:, k] * waits).sum(axis=1, keepdims=True)
        ratio = np.nan_to_num(hit_ratio(all_accesses, all_served, 0.0))
        pooled = ratio * latency[k] + np.where(ratio < 1, (1 - ratio) * pooled, 0.0)
    return below
