"""What a whole launch moves: the counted part of a snapshot, scaled to all groups of the launch.

The counts of a trial are multiplied by what the launch requests over what was traced of it, and those of each
access divided by the share of it that the trial counted (memsim.report.launch_counts). Intervals are over trials,
hence over orderings and, where several snapshots were replayed, over their places in the launch. They
contain how well the launch's requests are known, and with a single snapshot how far its groups are from
the launch's mean group. What the groups before a snapshot were the first to read from DRAM is added
(memsim.montecarlo.past).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from memsim.bounds import mapping_of, places_of, work_of
from memsim.latency import DRAM
from memsim.report.launch_counts import Counts, Floats
from memsim.statistics import GROUPS, Estimate, Places, describe


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Bytes of a launch, by what they are read from or written to: levels below the first, and DRAM."""

    read_bytes: Mapping[str, Estimate]
    write_bytes: Mapping[str, Estimate]


@dataclass(frozen=True, kw_only=True)
class ArrayTotals:
    """One array of a launch.

    size_bytes : of the whole array; None where the replay does not say
    group_requests : how often a group loads each sector that it loads of it; NaN where that is unknown
    """

    name: str
    size_bytes: int | None
    moved: Moved
    group_requests: float = math.nan

    @property
    def dram_bytes(self) -> float:
        """Read from and written to DRAM."""
        return self.moved.read_bytes[DRAM].mean + self.moved.write_bytes[DRAM].mean

    @property
    def times_read(self) -> float:
        """How many times its size is read from DRAM; NaN where the size is unknown."""
        return self.moved.read_bytes[DRAM].mean / self.size_bytes if self.size_bytes else math.nan


@dataclass(frozen=True, kw_only=True)
class LaunchTotals:
    """A whole launch.

    factor : by what the counts of a trial were multiplied
    requested_bytes : 32-byte sectors that the first level is asked for; without caches, none
    arrays : in the order of the trace; see `ranked`
    model_error_bytes : level below the first, or DRAM -> of what is read from it, what the validated error of
        the hit ratio above leaves open; no part of the intervals. Levels that were not validated are left out
    """

    factor: Estimate
    requested_bytes: Estimate
    moved: Moved
    arrays: tuple[ArrayTotals, ...]
    model_error_bytes: Mapping[str, float] = field(default_factory=dict)

    def read_bytes(self, level: str) -> Estimate:
        """Read from a level below the first, or from `DRAM`."""
        return self.moved.read_bytes[level]

    def write_bytes(self, level: str) -> Estimate:
        """Written to such a level."""
        return self.moved.write_bytes[level]

    @property
    def is_scaled(self) -> bool:
        return self.factor.mean > 1.0005

    def ranked(self) -> LaunchTotals:
        """With the array of most bytes from and to DRAM first; to be called of totals that are widened, not before."""
        return replace(self, arrays=tuple(sorted(self.arrays, key=lambda one: -one.dram_bytes)))


def launch_totals(dataset: xr.Dataset) -> LaunchTotals:
    """The totals of the launch that a replay belongs to."""
    counts = Counts(dataset, max(int(dataset.attrs["of_groups"]), 1))
    places, work = places_of(dataset), work_of(dataset)
    open_part = work.half_width if places.n_samples == 1 else work.error or 0.0

    def of_launch(values: npt.ArrayLike, over: Places = places) -> Estimate:
        found = describe(values, over).between(0.0)
        if open_part and found.is_defined:
            return found.with_part(GROUPS, open_part * found.mean)
        return found

    factor = counts.group_factor / counts.share
    names = [*(str(name) for name in dataset["level"].values), DRAM]
    of_level = [places_of(dataset, name) for name in names[:-1]]
    moved = _scaled(dataset, counts, places)
    first = first_reads(dataset)

    def of_sites(chosen: np.ndarray[Any, Any], first_bytes: float) -> Moved:
        return Moved(
            **{
                f"{direction}_bytes": {
                    name: of_launch(
                        np.maximum(values[:, k, chosen].sum(axis=1), 0.0), of_level[k]
                    ).shifted(first_bytes if (direction, name) == ("read", DRAM) else 0.0)
                    for k, name in enumerate(names[1:])
                }
                for direction, values in moved.items()
            }
        )

    everything = of_sites(np.full(dataset.sizes["site"], True), sum(first.values()))
    if len(names) == 1:  # without caches nothing is counted by access
        everything = Moved(
            read_bytes={DRAM: of_launch(counts.dram("dram_read_bytes"))},
            write_bytes={DRAM: of_launch(counts.dram("dram_write_bytes"))},
        )
    sizes, requests = _sizes(dataset), _positive(dataset, "group_requests")
    array = dataset["array"].values.astype(str)
    arrays = [
        ArrayTotals(
            name=name,
            size_bytes=sizes.get(name),
            moved=of_sites(array == name, first.get(name, 0.0)),
            group_requests=requests.get(name, math.nan),
        )
        for name in (dict.fromkeys(array.tolist()) if len(names) > 1 else ())
    ]
    sectors = float(dataset["site_sectors"].values.sum()) * counts.group_factor
    return LaunchTotals(
        factor=of_launch(factor),
        requested_bytes=of_launch(np.full(dataset.sizes["trial"], 32 * sectors)),
        moved=everything,
        arrays=tuple(arrays),
        model_error_bytes=_model_error_bytes(dataset, counts, names),
    )


def _model_error_bytes(
    dataset: xr.Dataset, counts: Counts, names: Sequence[str]
) -> dict[str, float]:
    """See LaunchTotals. A sector that hits or not is as many bytes as a miss fetches.

    names : of the levels, and DRAM
    """
    fill_bytes = {level.name: level.fill_bytes for level in counts.machine.levels}
    found = {}
    for k, (name, below) in enumerate(itertools.pairwise(names)):
        error = model_error(dataset, name)
        if error is not None and name in fill_bytes:
            asked, served, read = (
                float(count(k, "load").sum())
                for count in (counts.accesses, counts.served, counts.read_bytes)
            )
            missed_bytes = read / (asked - served) if asked > served else fill_bytes[name]
            found[below] = error * missed_bytes * asked / dataset.sizes["trial"]
    return found


def model_error(dataset: xr.Dataset, level: str) -> float | None:
    """The validated error of a level's hit ratio, as a fraction; the attribute has points."""
    value = mapping_of(dataset, "model_error").get(level)
    return value / 100 if isinstance(value, int | float) and math.isfinite(value) else None


def _scaled(dataset: xr.Dataset, counts: Counts, places: Places) -> dict[str, Floats]:
    """`read` and `write` -> (n_trial, n_level, n_site) bytes of the launch.

    All that stores make dirty is written to the next level, but for what is dirty at the end. A snapshot
    writes back less where the caches were clean when it began, and a part of a launch more than all of it. With warm caches
    a launch also writes back what the one before has left dirty: a whole one what was counted, another all that it makes dirty.
    """
    dims = ("trial", "level", "site")
    scale = (counts.group_factor / counts.site_share)[:, None, :]
    moved = {
        direction: dataset[f"{direction}_bytes"].transpose(*dims).values * scale
        for direction in ("read", "write")
    }
    options = mapping_of(dataset, "options")
    if options.get("warm") and dataset.attrs["traced_groups"] == dataset.attrs["of_groups"]:
        return moved
    if "dirtied_bytes" in dataset:
        dirtied = dataset["dirtied_bytes"].transpose(*dims).values * scale
        dirty = dataset["dirty_bytes"].transpose(*dims).values.astype(np.float64)
        if places.has_start:  # the launch does not end there
            at_start = np.arange(len(dirty)) % places.n == places.n - 1
            dirty[at_start] = dirty[~at_start].mean(axis=0)
        moved["write"] = dirtied if options.get("warm") else dirtied - dirty
    return moved


def _sizes(dataset: xr.Dataset) -> dict[str, int]:
    """Array -> bytes."""
    sizes = _positive(dataset, "arrays")
    return {name: size for name, size in sizes.items() if isinstance(size, int)}


def first_reads(dataset: xr.Dataset) -> dict[str, float]:
    """Array -> bytes that a launch reads from DRAM beyond its scaled snapshot."""
    return _positive(dataset, "first_reads")


def _positive(dataset: xr.Dataset, attribute: str) -> dict[str, Any]:
    """The positive numbers of an attribute by their names; files say anything."""
    return {
        str(name): value
        for name, value in mapping_of(dataset, attribute).items()
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
    }
