"""Bounds of a snapshot: its misses of which earlier groups may have made hits, and their share.

A snapshot's first access to a sector may find what a group before the snapshot has left in the cache.
The replay counts such misses as `open` where a cache may still hold the sector (memsim.montecarlo.past).
With none of them a hit, hit ratios are lower bounds and bytes read are upper bounds; with all of them,
the other way round. Reports take half of those as hits whose sectors an earlier group is known to have
touched, and none of the others; both bounds are within every interval.

An open miss sends a request to the next level that a hit would not have sent. Later hits there on the sectors that
it fetched are `doubtful`: had every core kept a table in its own cache, the next level would not have been asked
for it again, and might have evicted it. Reports take them as hits; in the lower bound they are misses.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import xarray as xr

from memsim.latency import load_hit_ratio, machine_of
from memsim.statistics import PAST, PLACE, Estimate, Places, describe
from memsim.trace.launches import LaunchWork

Hits = Literal["none", "likely", "every"]
"""Which open misses are taken as hits: none, half of those that are likely, or all."""

T = TypeVar("T")


def is_open(dataset: xr.Dataset) -> bool:
    """Whether some misses may be hits."""
    return any(
        name in dataset and bool(dataset[name].any())
        for name in ("open", "doubtful", "open_dirtied_bytes", "unfilled_bytes")
    )


def with_open_hits(dataset: xr.Dataset, hits: Hits = "likely") -> xr.Dataset:
    """A result in which some of the open misses are hits; its counts are then no integers.

    What an access asks of the next level, and finds there, decreases with its misses: by the same part of
    its hits, of its pending sectors and of its open misses. With none of them, doubtful hits are misses of
    this level and of all below it.
    """
    if not is_open(dataset):
        return dataset
    # Arrays, not DataArrays: these align their coordinates in each operation, which took ten times as long.
    counts = {
        name: np.array(dataset.variables[name].transpose(*dims).values, np.float64)
        for name, dims in _COUNTS.items()
        if name in dataset
    }
    changed: set[str] = set()
    if "dirtied_bytes" in counts:
        changed |= _add_dirty_past(counts, dataset, hits)
    if hits == "none" and "doubtful" in counts:
        changed |= _remove_doubtful_hits(counts, dataset)
    if "open" in counts:
        changed |= _fill_open(counts, hits)
    kept = dataset.drop_vars(["doubtful", *_DIRTY_PAST], errors="ignore")
    return kept.assign(
        {name: (_DIMS[: counts[name].ndim], counts[name]) for name in sorted(changed)}
    )


_DIRTY_PAST = ("open_dirtied_bytes", "likely_dirtied_bytes")
_DIMS = ("trial", "level", "site")
_COUNTS = {
    **dict.fromkeys(("accesses", "hits", "pending", "open", "likely", "doubtful"), _DIMS),
    **dict.fromkeys(("read_bytes", "dirtied_bytes", "dirty_bytes", *_DIRTY_PAST), _DIMS),
    "unfilled_bytes": _DIMS[:2],
    "dram_read_bytes": _DIMS[:1],
}
_Counts = dict[str, npt.NDArray[np.float64]]
"""Variable -> values over the dimensions of _COUNTS."""


def _fill_open(counts: _Counts, hits: Hits) -> set[str]:
    """Makes some of the open misses hits; returns what changes."""
    names = ("accesses", "hits", "pending", "open", "read_bytes")
    found = counts["open"] * (hits == "every")
    if hits == "likely" and "likely" in counts:
        found = counts["likely"] / 2
    before = counts["read_bytes"][:, -1].sum(axis=1)
    n_trial, n_level, n_site = found.shape
    left = np.ones((n_trial, n_site))
    for k in range(n_level):
        accesses, served, pending, unsure, read_bytes = (counts[name][:, k] for name in names)
        misses = accesses - served - pending
        kept = 1 - found[:, k] / np.where(misses > 0, misses, 1)
        served += found[:, k]
        unsure[:] = 0
        read_bytes *= kept
        for column in (accesses, served, pending, read_bytes):
            column *= left
        left = left * kept
    after = counts["read_bytes"][:, -1].sum(axis=1)
    counts["dram_read_bytes"] *= np.where(before > 0, after / np.maximum(before, 1), 1.0)
    return {*names, "dram_read_bytes"}


def _remove_doubtful_hits(counts: _Counts, dataset: xr.Dataset) -> set[str]:
    """Makes doubtful hits misses, in their level and in all below it; returns what changes."""
    levels = {level.name: level for level in machine_of(dataset).levels}
    missed_bytes = np.zeros_like(counts["doubtful"][:, 0])
    for k, name in enumerate(str(name) for name in dataset["level"].values):
        level, doubtful = levels[name], counts["doubtful"][:, k]
        asked = missed_bytes / level.sector_bytes
        counts["accesses"][:, k] += asked
        of_pending = np.minimum(doubtful, counts["pending"][:, k])
        counts["pending"][:, k] -= of_pending
        counts["hits"][:, k] -= doubtful - of_pending
        missed_bytes = (asked + doubtful) * level.fill_bytes
        counts["read_bytes"][:, k] += missed_bytes
    counts["dram_read_bytes"] += missed_bytes.sum(axis=1)
    return {"accesses", "hits", "pending", "read_bytes", "dram_read_bytes"}


def _add_dirty_past(counts: _Counts, dataset: xr.Dataset, hits: Hits) -> set[str]:
    """Has earlier groups leave as much dirty as fits to those hits, and changes what stores make dirty anew, and what
    is dirty at the end; returns what changes.

    Slots that were not filled hold something else at the end of the launch. It is as dirty as what the
    others hold; the bounds are that nothing of it is dirty, or everything. Windows do not say what the last groups leave: all of what
    they leave dirty may have been written by the end of the launch.
    """
    if "open_dirtied_bytes" in counts:
        part = {"none": 0.0, "likely": 0.5, "every": 1.0}[hits]
        name = "open_dirtied_bytes" if hits == "every" else "likely_dirtied_bytes"
        counts["dirtied_bytes"] -= part * counts[name]
    unfilled, total = counts["unfilled_bytes"], counts["dirty_bytes"].sum(axis=2)
    filled = np.maximum(_capacities(dataset) - unfilled, 1.0)
    more = {"none": 0.0 * unfilled, "likely": total * unfilled / filled, "every": unfilled}[hits]
    counts["dirty_bytes"] *= (1 + more / np.where(total > 0, total, 1.0))[..., None]
    if hits == "none" and mapping_of(dataset, "options").get("in_windows") is True:
        counts["dirty_bytes"][:] = 0.0
    counts["unfilled_bytes"] = np.zeros(unfilled.shape)
    return {"dirtied_bytes", "dirty_bytes", "unfilled_bytes"}


def _capacities(dataset: xr.Dataset) -> npt.NDArray[np.float64]:
    """(level,) bytes of all instances of each level."""
    machine = machine_of(dataset)
    sizes = [level.size_bytes * level.n_instances(machine.n_cores) for level in machine.levels]
    return np.array(sizes, np.float64)


def pages_of(dataset: xr.Dataset) -> dict[str, float]:
    """Level -> the share of the pages in its variance; see memsim.montecarlo.pages."""
    shares = mapping_of(dataset, "pages")
    return {
        str(name): share
        for name, share in shares.items()
        if isinstance(share, float) and 0 < share <= 1
    }


def places_of(dataset: xr.Dataset, level: str | None = None) -> Places:
    """The places in the launch that the trials of a result alternate between, and how much pages matter: for a
    level, or for whatever depends on all of them."""
    options = mapping_of(dataset, "options")
    n, own = options.get("snapshots", 1), options.get("own_weights", [])
    # Fewer trials than places say nothing of places, and files say any number.
    n = n if isinstance(n, int) and 0 < n <= dataset.sizes["trial"] else 1
    is_sound = (
        isinstance(own, list)
        and len(own) < n
        and all(isinstance(one, float) and one > 0 for one in own)
        and sum(own) < 1
    )
    own_weights = tuple(own) if is_sound else ()
    has_start = options.get("has_start") is True and own_weights != ()
    of_groups = int(dataset.attrs.get("of_groups", 0))
    traced = int(dataset.attrs.get("traced_groups", 0)) / of_groups if of_groups > 0 else 1.0
    part = options.get("traced_part", 1.0)
    traced *= part if isinstance(part, float) and 0 < part <= 1 else 1.0
    phases = options.get("phases") is True and n == 2
    shares = pages_of(dataset)
    pages = max(shares.values(), default=0.0) if level is None else shares.get(level, 0.0)
    return Places(n, min(max(traced, 0.0), 1.0), own_weights, has_start, phases, pages)


def work_of(dataset: xr.Dataset) -> LaunchWork:
    """How much the launch of a result requests beside its snapshots."""
    options = mapping_of(dataset, "options")
    work, error = options.get("launch_work"), options.get("launch_work_error")
    if not isinstance(work, float) or not 0 < work < math.inf:
        return LaunchWork(1.0, None)
    is_known = isinstance(error, float) and 0 <= error < math.inf
    return LaunchWork(work, error if is_known else None)


def mapping_of(dataset: xr.Dataset, attribute: str) -> dict[str, Any]:
    """An attribute of a result, empty where it is absent or no mapping. Files say anything of what is in it."""
    found = dataset.attrs.get(attribute)
    return found if isinstance(found, dict) else {}


def widened(middle: T, low: Any, high: Any) -> T:
    """`middle` with every Estimate in it widened to those in `low` and `high`.

    All three have the same structure: dataclasses, tuples and mappings of Estimates and other values.
    """
    if isinstance(middle, Estimate):
        off = [abs(end.mean - middle.mean) for end in (low, high)]
        half = max((one for one in off if math.isfinite(one)), default=0.0)
        return middle.with_part(PAST, half) if half > 0 else middle  # type: ignore[return-value]
    if dataclasses.is_dataclass(middle) and not isinstance(middle, type):
        changes = {
            field.name: widened(*(getattr(one, field.name) for one in (middle, low, high)))
            for field in dataclasses.fields(middle)
        }
        return dataclasses.replace(middle, **changes)
    if isinstance(middle, Mapping):
        return {key: widened(value, low[key], high[key]) for key, value in middle.items()}  # type: ignore[return-value]
    if isinstance(middle, tuple):
        return tuple(widened(*ones) for ones in zip(middle, low, high, strict=True))  # type: ignore[return-value]
    return middle


AGREE_RATIO, AGREE_BYTES = 0.01, 0.03
"""Half-widths within which snapshots agree: a point of a hit ratio, or this part of the bytes read."""


def disagreement(dataset: xr.Dataset) -> dict[str, float]:
    """How far snapshots are from saying the same, by the part of the interval that is due to it.

    Of each level, the half-width of the hit ratio of all loads, in units of AGREE_RATIO, or that of the
    bytes read from the next level, in units of AGREE_BYTES, whichever is less; of all levels the largest.
    Up to 1, snapshots agree.
    """
    none, middle, every = (with_open_hits(dataset, hits) for hits in ("none", "likely", "every"))
    places, worst = places_of(dataset), {PAST: 0.0, PLACE: 0.0}
    for level in (str(name) for name in dataset["level"].values):
        ratio, read = (
            widened(*(describe(quantity(one, level), places) for one in (middle, none, every)))
            for quantity in (_ratio, _read_bytes)
        )
        for part in worst:
            off = ratio.parts.get(part, 0.0) / AGREE_RATIO
            off_bytes = read.parts.get(part, 0.0) / (AGREE_BYTES * read.mean) if read.mean else 0.0
            worst[part] = max(worst[part], min(off, off_bytes))
    return worst


def _ratio(dataset: xr.Dataset, level: str) -> Any:
    return load_hit_ratio(dataset, level).values


def _read_bytes(dataset: xr.Dataset, level: str) -> Any:
    return dataset["read_bytes"].sel(level=level).sum("site").values
