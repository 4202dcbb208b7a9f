"""A replay's counts, scaled to the launch that a profiler measured.

A replay counts a part of a snapshot: what groups access while caches warm up, and when no group is left to
begin, is not counted. Static counts (accesses, requested sectors) cover the whole snapshot and are multiplied by

    groups measured / groups traced * requests of the launch's mean group / those of the mean traced one

Counts of a trial are also divided by the share of the snapshot that the trial counted, access by access:

    share = first-level sectors counted / sectors that all traced groups ask the first level for
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import xarray as xr

from memsim.bounds import work_of
from memsim.latency import machine_of
from memsim.machine.model import Machine

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Counts:
    """Counts of a dataset per trial, scaled to a launch of `n_groups` groups; of accesses of some directions, or of all."""

    dataset: xr.Dataset
    n_groups: int

    @cached_property
    def machine(self) -> Machine:
        return machine_of(self.dataset)

    @property
    def n_levels(self) -> int:
        return int(self.dataset.sizes["level"])

    @cached_property
    def group_factor(self) -> float:
        """Requests of the measured groups per request of the traced ones."""
        traced = max(int(self.dataset.attrs["traced_groups"]), 1)
        if self.n_groups == traced:
            return 1.0
        return self.n_groups / traced * work_of(self.dataset).of_traced

    @cached_property
    def lookups(self) -> Floats:
        """(site,) what all traced groups ask the first level for; what is counted of it, where that is not known."""
        if "site_lookups" in self.dataset:
            return np.asarray(self.dataset["site_lookups"].values, np.float64)
        return np.asarray(self._values("accesses")[:, 0].mean(axis=0))

    @cached_property
    def share(self) -> Floats:
        """(trial,) the part of the snapshot that each trial counted."""
        if not self.n_levels:
            return np.ones(self.dataset.sizes["trial"])
        counted = self._values("accesses")[:, 0].sum(axis=1)
        requested = self.lookups.sum()
        share = counted / requested if requested else np.ones(len(counted))
        return np.where(share > 0, share, 1.0)

    @cached_property
    def site_share(self) -> Floats:
        """(trial, site) likewise of each access: a trial may count more of the loads with which a group
        begins than of the stores with which it ends. Where it counts none, the part of all."""
        if not self.n_levels:
            return np.ones((self.dataset.sizes["trial"], self.dataset.sizes["site"]))
        counted = self._values("accesses")[:, 0]
        known = (counted > 0) & (self.lookups > 0)
        return np.where(known, counted / np.where(known, self.lookups, 1.0), self.share[:, None])

    def sites(self, *kinds: str) -> npt.NDArray[np.bool_]:
        """(site,) whether a site has one of these directions, or any where none is given."""
        direction = self.dataset["direction"].values.astype(str)
        return np.isin(direction, kinds) if kinds else np.full(direction.shape, True)

    def accesses(self, level: int, *kinds: str) -> Floats:
        """(trial,) requested sectors of a level."""
        return self._scaled("accesses", level, kinds)

    def served(self, level: int, *kinds: str) -> Floats:
        """(trial,) hits and pending sectors."""
        return self._scaled("hits", level, kinds) + self._scaled("pending", level, kinds)

    def read_bytes(self, level: int, *kinds: str) -> Floats:
        """(trial,) bytes that a level fetched from the next one down."""
        return self._scaled("read_bytes", level, kinds)

    def write_bytes(self, level: int, *kinds: str) -> Floats:
        """(trial,) bytes that a level sent to the next one down."""
        return self._scaled("write_bytes", level, kinds)

    def dram(self, name: str) -> Floats:
        """(trial,) `dram_read_bytes` or `dram_write_bytes`."""
        return np.asarray(
            self.dataset[name].values * self.group_factor / self.share, dtype=np.float64
        )

    def static(self, name: str, sites: npt.NDArray[np.bool_]) -> Floats:
        """(trial,) a count of the trace, the same in every trial."""
        total = float(self.dataset[name].values[sites].sum()) * self.group_factor
        return np.full(self.dataset.sizes["trial"], total)

    def _scaled(self, name: str, level: int, kinds: tuple[str, ...]) -> Floats:
        sites = self.sites(*kinds)
        values = self._values(name)[:, level, sites] / self.site_share[:, sites]
        return np.asarray(values.sum(axis=1) * self.group_factor, dtype=np.float64)

    def _values(self, name: str) -> npt.NDArray[np.int64]:
        return np.asarray(self.dataset[name].transpose("trial", "level", "site").values)


def ratio(part: Floats, whole: Floats) -> Floats:
    """(trial,) per cent; NaN without requests."""
    return np.where(whole > 0, 100 * part / np.where(whole > 0, whole, 1), np.nan)
