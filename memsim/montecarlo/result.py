"""The result of a replay: one xarray Dataset, from which every report is derived.

The unit at each level is one of that level's sectors, requested by one sub-group instruction after
its lanes were coalesced. For every trial, level and site

    accesses = hits + pending + misses,    misses = accesses - hits - pending

and a load's hit ratio is (hits + pending + likely / 2) / accesses.

Dimensions: trial, level (`L1`, `L2`, ...: the machine's caches from the core outward), site (the
trace's static accesses), sample (DRAM requests whose latency was sampled).

Per trial:
    accesses, hits, pending      (trial, level, site) int64: sectors
    read_bytes, write_bytes      (trial, level, site) int64: moved between this level and the next
                                 one down on behalf of this site (fills; stores passed on, and the
                                 write-backs of lines that this site was the last to write)
    far_hits                     (trial, level, site) int64, only where a level has partitions: of hits
                                 and pending, those that another partition served
    open                         (trial, level, site) int64, only where there are any: of the misses,
                                 those that are hits if groups before the snapshot left their sectors
                                 in the cache (memsim.bounds)
    likely                       (trial, level, site) int64, with `open`: those of the open misses whose
                                 sectors such a group is known to have touched
    doubtful                     (trial, level, site) int64, only where there are any: of hits and pending,
                                 those that may miss, because only open misses of the level above have asked
                                 for their sectors before
    dirtied_bytes                (trial, level, site) int64, with caches: what stores make dirty, or pass
                                 on; all of it is written to the next level but for
    dirty_bytes                  (trial, level, site) int64: what is dirty at the end, of the levels that
                                 cores share, by the site that was the last to write
    open_dirtied_bytes, likely_dirtied_bytes   (trial, level, site) int64, only where there are any: as
                                 `open` and `likely`, of what is dirty already if such groups left it so
    unfilled_bytes               (trial, level) int64: of shared levels, lines that may still hold what
                                 groups before the snapshot left
    missed_translations          (trial, site) int64, only where the machine models address translation:
                                 requests whose page was not in the core's buffer
    dram_latency_cycles          (trial, sample) float32, padded with NaN
    dram_mean_cycles             (trial,) float64: mean over all sampled requests
    dram_dominant_cycles         (trial,) float64: the mode if one latency dominates, else NaN
    dram_read_bytes, dram_write_bytes   (trial,) int64
    dram_row_hit_ratio           (trial,) float64
    dram_bytes_per_row           (trial,) float64: transferred for every row that is opened if the channels serve
                                 what they have queued row by row; NaN where no level merges the cores' requests
Per level and site, from one replay with the same ordering (trial 0):
    cold_misses, capacity_misses, conflict_misses   (level, site) int64
Per site, from the trace:
    site_accesses   sub-group accesses;        site_lanes     lane accesses
    site_sectors    requested 32-byte sectors; site_useful_bytes   distinct requested bytes
    site_ideal_sectors   fewest sectors that could carry those bytes, access by access (float64)
    site_lookups    sectors of the first level that all traced groups ask for; a trial counts a part of them
Coordinates of site: site (name), array, direction, source_line (generated, -1 unknown), user_file,
    user_line (-1 unknown), itemsize_bytes
Attributes:
    schema (int)            version of this layout
    kernel                  its name
    machine (Machine)       every parameter with its source
    seed (int), options     the replay's options
    interrupted (int)       1 if not all requested trials were completed
    traced_groups, of_groups (int)       of the launch
    granules, traced_subgroups (int)     of the snapshot
    arrays                  array -> its size in bytes
    first_reads             array -> bytes that the launch reads from DRAM beyond the scaled snapshot, because
                            groups before it read them first (memsim.montecarlo.past)
    group_requests          array -> how often a group loads each 32-byte sector that it loads of it
    occupancy               groups per core and what limits them
    pages                   level -> the part of the variance of its load hit ratio over trials that is due to
                            where pages lie; without a level whose is not significant
    orders                  order -> level -> load hit ratio in one ordering with another sampler, or of groups
                            that begin together (`groups in step`); empty where none was replayed
    generated_source        the OpenCL C that was traced
    user_source             the user's own file, if it is known
    model_error             level -> the machine's validated error in points of hit ratio, or null
    provenance              versions, platform, host of the trace and of the replay
    time                    what a model of kernel time predicts (memsim.report.launch_time), where one does
Mappings are dicts. In a file each is a JSON text whose name ends in `_json`; `machine` is a name there, and `machine_json`
all parameters.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xarray as xr

from memsim import latency
from memsim.bounds import is_open, widened, with_open_hits
from memsim.latency import LatencyMode

if TYPE_CHECKING:
    from rich.table import Table

    from memsim.report.launch_totals import LaunchTotals
    from memsim.report.numbers import SiteNumbers
    from memsim.report.plots import Plots
    from memsim.report.semantics import Semantics

MISS_KINDS = ("cold_misses", "capacity_misses", "conflict_misses")


@dataclass(frozen=True)
class Replay:
    """A Dataset in the layout of this module, with methods that present it."""

    dataset: xr.Dataset

    def __repr__(self) -> str:
        kernel, machine = self.attrs.get("kernel", ""), self.attrs.get("machine")
        sizes = f"{self.n_trials} trials of {len(self.site_names)} accesses"
        return f"<Replay of {kernel} on {getattr(machine, 'name', '?')}: {sizes}>"

    def __str__(self) -> str:
        """The table that `memsim profile` prints."""
        from rich.console import Console

        text = io.StringIO()
        Console(file=text).print(self.table())
        return text.getvalue().rstrip()

    @property
    def n_trials(self) -> int:
        return int(self.dataset.sizes["trial"])

    @property
    def _middle(self) -> xr.Dataset:
        return with_open_hits(self.dataset)

    def middle(self) -> Replay:
        """The replay with what is likely of earlier groups, and without bounds."""
        return Replay(self._middle)

    @property
    def attrs(self) -> dict[str, Any]:
        return dict(self.dataset.attrs)

    @property
    def level_names(self) -> tuple[str, ...]:
        """The caches, from the core outward."""
        return tuple(str(name) for name in self.dataset["level"].values)

    @property
    def site_names(self) -> tuple[str, ...]:
        """The static accesses, in the trace's order."""
        return tuple(str(name) for name in self.dataset["site"].values)

    def hit_ratio(self, site: str, level: str) -> xr.DataArray:
        """The hit ratio of one access at one level, (trial,); NaN where undefined.

        Raises ResultError where the replay has no such site or level.
        """
        return latency.site_hit_ratio(self._middle, site, level)

    def load_hit_ratio(self, level: str) -> xr.DataArray:
        """The hit ratio of all loads together at one level, (trial,)."""
        return latency.load_hit_ratio(self._middle, level)

    def latency_cycles(self, mode: LatencyMode = "hit") -> xr.DataArray:
        """Expected latency of each access in each trial, (trial, site); see memsim.latency."""
        return latency.expected_latency_cycles(self._middle, mode)

    def latency_share(self, mode: LatencyMode = "hit") -> xr.DataArray:
        """Each access's share of the kernel's load latency, (trial, site)."""
        return latency.latency_shares(self._middle, mode)

    @property
    def launch(self) -> LaunchTotals:
        """What the whole launch requests and moves, scaled from what was traced."""
        from memsim.report.launch_totals import launch_totals

        if not is_open(self.dataset):
            return launch_totals(self.dataset).ranked()
        ends = [with_open_hits(self.dataset, hits) for hits in ("likely", "none", "every")]
        return widened(*(launch_totals(one) for one in ends)).ranked()

    @property
    def sites(self) -> Mapping[str, SiteNumbers]:
        """Name -> the numbers of the access that reports show, with the same intervals; in the trace's order."""
        from memsim.report.summary import summarise

        found = {site.name: site for site in summarise(self.dataset).sites}
        return {name: found[name] for name in self.site_names}

    def table(self) -> Table:
        """The accesses as a rich table for any console, largest share first."""
        from memsim.report.summary import summarise
        from memsim.report.table import AccessTable

        return AccessTable(summarise(self.dataset))

    @property
    def plot(self) -> Plots:
        """Figures: `.histogram()`, `.latency()`, `.convergence()`, `.dram_latency()`."""
        from memsim.report.plots import Plots

        return Plots(self._middle)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as one self-contained page. Raises ResultError where it cannot."""
        from memsim.files import write_text
        from memsim.report.html import replay_page

        return write_text(path, replay_page(self.dataset))

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The JSON of memsim.report.json_contract, written to `path` where one is given."""
        from memsim.files import write_text
        from memsim.report.json_contract import to_text
        from memsim.report.summary import summarise

        content = to_text(summarise(self.dataset))
        if path is not None:
            write_text(path, content + "\n")
        return content

    def recount(self, counters: Semantics) -> Replay:
        """The replay counted as `nsight` or `rocprof` count; see memsim.report.semantics."""
        from memsim.report.semantics import recount

        return Replay(recount(self.dataset, counters))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the Dataset as netCDF. Raises ResultError where it cannot."""
        from memsim.report import netcdf

        return netcdf.save(self.dataset, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Replay:
        """Read a file of `save`. Raises ResultError for any other file."""
        from memsim.report import netcdf

        return cls(netcdf.load(path))

    def _repr_html_(self) -> str:
        from memsim.report.html import fragment

        return fragment(self.dataset)
