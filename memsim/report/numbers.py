"""The numbers that every report shows, for an access, a level and the whole kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memsim import latency
from memsim.errors import ResultError
from memsim.machine.model import Machine
from memsim.machine.parts import Level
from memsim.report.compiled import Compiled
from memsim.report.launch_time import LaunchTime
from memsim.report.launch_totals import LaunchTotals
from memsim.report.text import percent_estimate, plus_minus
from memsim.statistics import Estimate
from memsim.trace.model import GRANULE_BYTES

ORDER_SENSITIVE_SIGMA = 0.02
"""An access is order-sensitive where sigma of a hit ratio over orderings exceeds 2 points ..."""
MIN_REACH = 0.01
"""... in a level that at least this part of its sectors reaches; otherwise the ratio is noise."""


@dataclass(frozen=True, kw_only=True)
class LevelNumbers:
    """An access (or a kind of access) at one level.

    accesses : mean over trials, in sectors of this level
    reach : the same as a part of the sectors that the access requests of the first level it reaches
    read_bytes, write_bytes : mean over trials, moved between this level and the next one down
    misses : kind -> number, from the first trial's ordering; empty for totals
    model_error : validated error of the hit ratio on this machine; None where it was not validated
    """

    name: str
    accesses: float
    reach: float
    hit_ratio: Estimate
    pending_ratio: Estimate
    read_bytes: float
    write_bytes: float
    misses: Mapping[str, int]
    model_error: float | None

    @property
    def n_misses(self) -> int:
        return sum(self.misses.values())

    @property
    def is_order_sensitive(self) -> bool:
        return self.reach >= MIN_REACH and self.hit_ratio.sigma > ORDER_SENSITIVE_SIGMA


@dataclass(frozen=True, kw_only=True)
class SiteNumbers:
    """One static access. Lines are None where unknown; latency is undefined (NaN) for stores.

    accesses, lanes, sectors, useful_bytes, ideal_sectors : counted in the whole snapshot
    latency_parts : level, or DRAM -> mean cycles that it contributes to the expected latency
    latency_model_error_cycles : the largest change of the latency that the validated errors of the
        hit ratios allow; None where not every level that the access reaches was validated
    first_in : part of the trials in which no other access has a larger share
    missed_translations_per_access : mean; None where the machine models no translation
    """

    name: str
    array: str
    direction: str
    source_line: int | None
    user_file: str
    user_line: int | None
    itemsize_bytes: int
    accesses: int
    lanes: int
    sectors: int
    useful_bytes: int
    ideal_sectors: float
    levels: tuple[LevelNumbers, ...]
    latency_cycles: Estimate
    latency_pending_cycles: Estimate
    latency_parts: Mapping[str, float]
    latency_model_error_cycles: float | None
    share: Estimate
    first_in: float
    missed_translations_per_access: float | None = None

    def hit_ratio(self, level: str) -> Estimate:
        """Hit ratio of the sectors that it requests from `L1` or another level; undefined where it requests none.

        Raises ResultError for any other name.
        """
        found = {one.name: one.hit_ratio for one in self.levels}
        if level not in found:
            raise ResultError(f"level must be one of {', '.join(found)}, got {level}")
        return found[level]

    def __repr__(self) -> str:
        hits = [f"{one.name} {percent_estimate(one.hit_ratio)}" for one in self.levels]
        latency = f"latency {plus_minus(self.latency_cycles, 0)} cycles"
        return f"<{self.direction} {self.name}: hits {', '.join(hits)}; {latency}>"

    @property
    def sectors_per_access(self) -> float:
        return divide(self.sectors, self.accesses)

    @property
    def ideal_sectors_per_access(self) -> float:
        return divide(self.ideal_sectors, self.accesses)

    @property
    def useful_byte_ratio(self) -> float:
        return divide(self.useful_bytes, self.sectors * GRANULE_BYTES)

    @property
    def saved_sectors(self) -> float:
        """Sectors that full coalescing would not request."""
        return max(self.sectors - self.ideal_sectors, 0.0)

    @property
    def saved_ratio(self) -> float:
        return divide(self.saved_sectors, self.sectors)

    @property
    def saved_bytes(self) -> float:
        return self.saved_sectors * GRANULE_BYTES

    @property
    def saves_by_coalescing(self) -> bool:
        """Whether full coalescing would spare at least half a per cent of the sectors."""
        return self.saved_ratio >= 0.005

    @property
    def is_order_sensitive(self) -> bool:
        return any(level.is_order_sensitive for level in self.levels)

    @property
    def direction_label(self) -> str:
        """`load`, `store` or `atomic`; empty where its name begins so."""
        return "" if self.name.startswith(f"{self.direction} ") else self.direction

    @property
    def served(self) -> dict[str, float]:
        """Level, or DRAM -> part of its sectors that are served there, from the mean hit ratios."""
        left, served = 1.0, {}
        for level in self.levels:
            ratio = zero_if_unknown(level.hit_ratio.mean)
            served[level.name] = left * ratio
            left *= 1 - ratio
        served[latency.DRAM] = left
        return served

    def level(self, name: str) -> LevelNumbers | None:
        return next((level for level in self.levels if level.name == name), None)


@dataclass(frozen=True, kw_only=True)
class DramNumbers:
    read_bytes: Estimate
    write_bytes: Estimate
    latency_cycles: Estimate
    row_hit_ratio: Estimate


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A whole replay. sites are ordered by share of the load latency, then by sectors.

    counters : how hits are counted, see memsim.report.semantics
    totals : (level, `load` / `read` / `write` / `atomic`) -> all accesses of that kind together. The
        first level has loads only; the levels below have reads (loads), writes (stores) and atomics.
        Where hits are counted as a profiler counts them, there is also `all`
    launch, time : of the whole launch; all other numbers are of what was counted of the snapshot
    orders : order -> level -> load hit ratio in one ordering under another order, see other_orders
    load_latency_cycles : mean expected latency of a load, weighted by its sub-group accesses
    total_load_cycles : sum of sub-group accesses x expected latency
    traced_subgroups : 0 where the result does not contain it
    """

    kernel: str
    machine: Machine
    level_names: tuple[str, ...]
    n_trials: int
    seed: int
    interrupted: bool
    traced_groups: int
    of_groups: int
    granules: int
    sites: tuple[SiteNumbers, ...]
    totals: Mapping[tuple[str, str], LevelNumbers]
    dram: DramNumbers
    launch: LaunchTotals
    time: LaunchTime
    load_latency_cycles: Estimate
    total_load_cycles: Estimate
    model_error: Mapping[str, float | None]
    occupancy: Mapping[str, Any]
    orders: Mapping[str, Mapping[str, float]]
    options: Mapping[str, Any]
    provenance: Mapping[str, Any]
    generated_source: str
    user_source: str
    traced_subgroups: int = 0
    counters: str = "sector"
    compiled: Compiled = field(default_factory=Compiled)

    @property
    def repeats_loads(self) -> bool:
        """Whether sub-groups execute some load more than once, as in a loop; true where this is unknown."""
        return not self.traced_subgroups or any(
            site.accesses > self.traced_subgroups for site in self.loads
        )

    @property
    def feasible_hit_ratios(self) -> dict[int, dict[str, float]]:
        """Groups per core -> level -> load hit ratio; empty where the occupancy is known."""
        return _by_groups(self.occupancy.get("over_feasible"))

    @property
    def hit_ratios_by_groups(self) -> dict[int, dict[str, float]]:
        """The same, also at numbers of groups that the kernel does not have; empty if not replayed."""
        return self.feasible_hit_ratios or _by_groups(self.occupancy.get("over_groups"))

    @property
    def registers_per_item(self) -> int | None:
        """32-bit registers of a work-item, None if they are unknown."""
        registers = self.occupancy.get("registers_per_item")
        return registers if isinstance(registers, int) else None

    @property
    def loads(self) -> tuple[SiteNumbers, ...]:
        """The accesses with a latency, largest share first."""
        return tuple(site for site in self.sites if site.latency_cycles.is_defined)

    def loads_at(self, level: str) -> LevelNumbers | None:
        """The loads of all accesses at a level."""
        return self.totals.get((level, "load")) or self.totals.get((level, "read"))

    def level(self, name: str) -> Level | None:
        """A level of the machine."""
        return next((level for level in self.machine.levels if level.name == name), None)

    def latency_of(self, part: str) -> float | None:
        """Latency in cycles of a hit in a level, or of main memory (`DRAM`; mean over trials)."""
        if part == latency.DRAM:
            return self.dram.latency_cycles.mean
        level = self.level(part)
        return None if level is None else level.latency_cycles


def _by_groups(rows: Any) -> dict[int, dict[str, float]]:
    return {
        row["groups_per_core"]: ratios_by_level(row["load_hit_ratio"])
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict)  # files say anything
        and isinstance(row.get("groups_per_core"), int)
        and isinstance(row.get("load_hit_ratio"), dict)
    }


def ratios_by_level(row: Mapping[Any, Any]) -> dict[str, float]:
    """Level -> hit ratio, NaN for what is none."""
    return {
        str(name): float(ratio) if isinstance(ratio, int | float) and 0 <= ratio <= 1 else math.nan
        for name, ratio in row.items()
    }


def divide(a: float, b: float) -> float:
    """a / b, NaN for b = 0."""
    return a / b if b else math.nan


def zero_if_unknown(value: float) -> float:
    """The value, 0 where it is NaN."""
    return value if math.isfinite(value) else 0.0
