"""The numbers that every report shows, access by access: derived once, from the Dataset alone."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from memsim import latency
from memsim.machine import Level, Machine
from memsim.statistics import Estimate, describe
from memsim.trace import GRANULE_BYTES

if TYPE_CHECKING:
    from memsim.result import Replay

ORDER_SENSITIVE_SIGMA = 0.02
"""An access is order-sensitive where a hit ratio's sigma over orderings exceeds 2 points ..."""
MIN_REACH = 0.01
"""... in a level that at least this part of its sectors reaches: below, a ratio is mere noise."""

MISS_KINDS = ("cold", "capacity", "conflict")


@dataclass(frozen=True, kw_only=True)
class LevelNumbers:
    """An access (or a kind of access) at one level.

    accesses : mean over trials, in that level's sectors; reach : as part of the sectors that the
    access asks for in the first level that sees it
    read_bytes, write_bytes : mean over trials, moved between this level and the next one down
    misses : kind -> number, from one replay; empty for totals
    model_error : of the hit ratio, validated on this machine; None where nobody validated it
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
    latency_parts : who serves it -> mean cycles of X (the levels, then DRAM)
    latency_model_error : what the validated errors of the hit ratios can move X by, None where not
        every level that the access reaches was validated
    first_in : part of the trials in which no other access has a larger share
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

    @property
    def sectors_per_access(self) -> float:
        return _divide(self.sectors, self.accesses)

    @property
    def ideal_sectors_per_access(self) -> float:
        return _divide(self.ideal_sectors, self.accesses)

    @property
    def useful_byte_ratio(self) -> float:
        return _divide(self.useful_bytes, self.sectors * GRANULE_BYTES)

    @property
    def saved_sectors(self) -> float:
        """Sectors that full coalescing would not ask for."""
        return max(self.sectors - self.ideal_sectors, 0.0)

    @property
    def saved_ratio(self) -> float:
        return _divide(self.saved_sectors, self.sectors)

    @property
    def saved_bytes(self) -> float:
        return self.saved_sectors * GRANULE_BYTES

    @property
    def is_order_sensitive(self) -> bool:
        return any(level.is_order_sensitive for level in self.levels)

    @property
    def served(self) -> dict[str, float]:
        """Who serves its sectors: level (and DRAM) -> part of them; from the mean hit ratios."""
        left, served = 1.0, {}
        for level in self.levels:
            ratio = _number(level.hit_ratio.mean)
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

    totals : (level, `load` / `read` / `write` / `atomic`) -> all accesses of that kind together; in
        the first level loads only, below it reads (loads), writes (stores) and atomics
    load_latency_cycles : mean expected latency of a load, weighted by its sub-group accesses
    total_load_cycles : sum of sub-group accesses x expected latency
    """

    kernel: str
    machine_name: str
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
    load_latency_cycles: Estimate
    total_load_cycles: Estimate
    model_error: Mapping[str, float | None]
    occupancy: Mapping[str, Any]
    options: Mapping[str, Any]
    provenance: Mapping[str, Any]
    generated_source: str
    user_source: str

    @property
    def feasible_hit_ratios(self) -> dict[int, dict[str, float]]:
        """Groups per core -> level -> load hit ratio, where the occupancy is open; else empty."""
        found: dict[int, dict[str, float]] = {}
        rows = self.occupancy.get("over_feasible")
        for row in rows if isinstance(rows, list) else []:
            if not isinstance(row, dict) or not isinstance(row.get("load_hit_ratio"), dict):
                continue
            found[int(row.get("groups_per_core", 0))] = {
                str(name): float(ratio) if isinstance(ratio, int | float) else math.nan
                for name, ratio in row["load_hit_ratio"].items()
            }
        return found

    @property
    def machine_title(self) -> str:
        return self.machine.title

    @property
    def loads(self) -> tuple[SiteNumbers, ...]:
        """The accesses that something waits for, slowest share first."""
        return tuple(site for site in self.sites if site.latency_cycles.is_defined)

    def level(self, name: str) -> Level | None:
        """A level of the machine."""
        return next((level for level in self.machine.levels if level.name == name), None)

    def latency_of(self, part: str) -> float | None:
        """Cycles of a hit in a level; of main memory for `DRAM` (mean over trials)."""
        if part == latency.DRAM:
            return self.dram.latency_cycles.mean
        level = self.level(part)
        return None if level is None else level.latency_cycles


def summarise(replay: Replay) -> Summary:
    """Every number of a report."""
    dataset = replay.dataset
    attrs = replay.attrs
    level_names = tuple(str(name) for name in dataset["level"].values)
    model_error = _model_error(attrs, level_names)
    total = latency.load_latency_cycles(dataset)
    waits = np.isfinite(latency.expected_latency_cycles(dataset).values)
    n_waiting = (waits * dataset["site_accesses"].values).sum(axis=1)
    total_cycles = total.sum("site").values
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_latency = np.where(n_waiting > 0, total_cycles / np.maximum(n_waiting, 1), np.nan)
    return Summary(
        kernel=str(attrs.get("kernel", "")),
        machine_name=str(attrs.get("machine", "")),
        machine=latency.machine_of(dataset),
        level_names=level_names,
        n_trials=replay.n_trials,
        seed=int(attrs.get("seed", 0)),
        interrupted=bool(attrs.get("interrupted", 0)),
        traced_groups=int(attrs.get("traced_groups", 0)),
        of_groups=int(attrs.get("of_groups", 0)),
        granules=int(attrs.get("granules", 0)),
        sites=_sites(dataset, level_names, model_error),
        totals=_totals(dataset, level_names, model_error),
        dram=DramNumbers(
            read_bytes=describe(dataset["dram_read_bytes"].values),
            write_bytes=describe(dataset["dram_write_bytes"].values),
            latency_cycles=describe(latency.dram_latency_cycles(dataset).values),
            row_hit_ratio=describe(dataset["dram_row_hit_ratio"].values),
        ),
        load_latency_cycles=describe(mean_latency),
        total_load_cycles=describe(total_cycles),
        model_error=model_error,
        occupancy=_json_object(attrs, "occupancy_json"),
        options=_json_object(attrs, "options_json"),
        provenance=_json_object(attrs, "provenance_json"),
        generated_source=str(attrs.get("generated_source", "")),
        user_source=str(attrs.get("user_source", "")),
    )


def _sites(
    dataset: xr.Dataset, level_names: tuple[str, ...], model_error: Mapping[str, float | None]
) -> tuple[SiteNumbers, ...]:
    cycles = latency.expected_latency_cycles(dataset)
    pending_cycles = latency.expected_latency_cycles(dataset, "pending")
    parts = latency.latency_parts(dataset)
    shares = latency.latency_shares(dataset).values
    leads = (shares >= shares.max(axis=1, keepdims=True)) & (shares > 0) if shares.size else shares
    plain = dataset.reset_coords()
    numbers = []
    for i, name in enumerate(dataset["site"].values):
        one = plain.isel(site=i)
        levels = _levels(one, level_names, model_error)
        part_means = {
            str(part): describe(parts.isel(site=i).sel(part=part).values).mean
            for part in parts["part"].values
        }
        numbers.append(
            SiteNumbers(
                name=str(name),
                array=str(one["array"].values),
                direction=str(one["direction"].values),
                source_line=_line(one["source_line"]),
                user_file=str(one["user_file"].values),
                user_line=_line(one["user_line"]),
                itemsize_bytes=int(one["itemsize_bytes"]),
                accesses=int(one["site_accesses"]),
                lanes=int(one["site_lanes"]),
                sectors=int(one["site_sectors"]),
                useful_bytes=int(one["site_useful_bytes"]),
                ideal_sectors=float(one["site_ideal_sectors"]),
                levels=levels,
                latency_cycles=describe(cycles.isel(site=i).values),
                latency_pending_cycles=describe(pending_cycles.isel(site=i).values),
                latency_parts=part_means,
                latency_model_error_cycles=_latency_model_error(dataset, levels),
                share=describe(shares[:, i]),
                first_in=float(np.mean(leads[:, i])) if len(shares) else math.nan,
            )
        )
    return tuple(
        sorted(numbers, key=lambda site: (-_number(site.share.mean), -site.sectors, site.name))
    )


def _levels(
    one: xr.Dataset, level_names: tuple[str, ...], model_error: Mapping[str, float | None]
) -> tuple[LevelNumbers, ...]:
    """The levels as one site (or a sum of sites, then without miss kinds) sees them."""
    accesses = one["accesses"].transpose("trial", "level").values
    hits = one["hits"].transpose("trial", "level").values
    pending = one["pending"].transpose("trial", "level").values
    means = accesses.mean(axis=0) if len(accesses) else np.zeros(len(level_names))
    entry = next((mean for mean in means if mean > 0), 0.0)
    levels = []
    for k, name in enumerate(level_names):
        asked = np.where(accesses[:, k] > 0, accesses[:, k], np.nan)
        misses = {}
        if "cold_misses" in one:
            misses = {kind: int(one[f"{kind}_misses"].isel(level=k)) for kind in MISS_KINDS}
        levels.append(
            LevelNumbers(
                name=name,
                accesses=float(means[k]),
                reach=min(_divide(float(means[k]), float(entry)), 1.0) if entry else 0.0,
                hit_ratio=describe((hits[:, k] + pending[:, k]) / asked),
                pending_ratio=describe(pending[:, k] / asked),
                read_bytes=describe(one["read_bytes"].isel(level=k).values).mean,
                write_bytes=describe(one["write_bytes"].isel(level=k).values).mean,
                misses=misses,
                model_error=model_error.get(name),
            )
        )
    return tuple(levels)


def _totals(
    dataset: xr.Dataset, level_names: tuple[str, ...], model_error: Mapping[str, float | None]
) -> dict[tuple[str, str], LevelNumbers]:
    direction = dataset["direction"].values.astype(str)
    per_site = dataset.reset_coords()[
        ["accesses", "hits", "pending", "read_bytes", "write_bytes"]
    ].drop_vars("site")
    totals = {}
    for kind, label in (("load", "read"), ("store", "write"), ("atomic", "atomic")):
        chosen = per_site.isel(site=np.flatnonzero(direction == kind)).sum("site")
        if kind == "atomic" and not (direction == kind).any():
            continue
        for k, level in enumerate(_levels(chosen, level_names, model_error)):
            if k == 0 and kind == "load":
                totals[level.name, "load"] = level
            elif k > 0:
                totals[level.name, label] = level
    return totals


def _latency_model_error(dataset: xr.Dataset, levels: tuple[LevelNumbers, ...]) -> float | None:
    """Sum over levels of reach * |t_k - Y_(k+1)| * error of H_k: the first-order worst case."""
    cycles = latency.level_latencies_cycles(dataset)
    below = _number(describe(latency.dram_latency_cycles(dataset).values).mean)
    error = 0.0
    for level, hit_cycles in zip(reversed(levels), reversed(cycles), strict=True):
        if level.accesses == 0:
            continue
        if level.model_error is None:
            return None
        error += level.reach * abs(hit_cycles - below) * level.model_error
        ratio = _number(level.hit_ratio.mean)
        below = ratio * hit_cycles + (1 - ratio) * below
    return float(error)


def _model_error(attrs: Mapping[str, Any], level_names: tuple[str, ...]) -> dict[str, float | None]:
    """Level -> error of a hit ratio as a fraction; the attribute has points."""
    points = _json_object(attrs, "model_error_json")
    errors: dict[str, float | None] = {}
    for name in level_names:
        value = points.get(name)
        if isinstance(value, int | float) and math.isfinite(value):
            errors[name] = float(value) / 100
        else:
            errors[name] = None
    return errors


def _json_object(attrs: Mapping[str, Any], name: str) -> dict[str, Any]:
    try:
        value = json.loads(attrs.get(name) or "{}")
    except (TypeError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _line(value: xr.DataArray) -> int | None:
    line = int(value)
    return line if line > 0 else None


def _divide(a: float, b: float) -> float:
    return a / b if b else math.nan


def _number(value: float) -> float:
    return value if math.isfinite(value) else 0.0
