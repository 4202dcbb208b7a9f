"""Every number of a report is derived here, once, from the Dataset of a replay."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import xarray as xr

from memsim import latency
from memsim.bounds import is_open, mapping_of, places_of, widened, with_open_hits
from memsim.report.compiled import read_compiled, without_code
from memsim.report.launch_time import launch_time
from memsim.report.launch_totals import launch_totals, model_error
from memsim.report.numbers import (
    DramNumbers,
    LevelNumbers,
    SiteNumbers,
    Summary,
    divide,
    ratios_by_level,
    zero_if_unknown,
)
from memsim.report.semantics import semantics_of
from memsim.statistics import ONE_PLACE, Estimate, Places, describe

MISS_KINDS = ("cold", "capacity", "conflict")
OCCUPANCY = "occupancy"
"""The part of an interval that is due to unknown registers."""


def summarise(dataset: xr.Dataset, *, by_site: bool = True) -> Summary:
    """Every number of a report, from the Dataset of a replay.

    by_site : whether `sites` is derived, which takes half of the time; else it is empty

    Intervals cover orderings, places of the launch and what earlier groups may have left in the caches;
    those of all loads together, also the feasible occupancies.
    """
    summary = _summary(with_open_hits(dataset), by_site)
    if is_open(dataset):
        none, every = (
            _summary(with_open_hits(dataset, hits), by_site) for hits in ("none", "every")
        )
        summary = widened(summary, none, every)
    sites = sorted(
        summary.sites,
        key=lambda site: (-zero_if_unknown(site.share.mean), -site.sectors, site.name),
    )
    totals = _over_occupancies(summary)
    return replace(summary, sites=tuple(sites), totals=totals, launch=summary.launch.ranked())


def _over_occupancies(summary: Summary) -> dict[tuple[str, str], LevelNumbers]:
    """The totals, with the hit ratios of loads at other feasible occupancies in their intervals."""
    totals = dict(summary.totals)
    for (name, kind), numbers in summary.totals.items():
        others = [ratios.get(name, math.nan) for ratios in summary.feasible_hit_ratios.values()]
        off = [abs(ratio - numbers.hit_ratio.mean) for ratio in others if math.isfinite(ratio)]
        if kind in ("load", "read") and off and numbers.hit_ratio.is_defined:
            ratio = numbers.hit_ratio.with_part(OCCUPANCY, max(off))
            totals[name, kind] = replace(numbers, hit_ratio=ratio)
    return totals


def _summary(dataset: xr.Dataset, by_site: bool) -> Summary:
    """The numbers of one dataset; sites in the order of the trace."""
    attrs = {str(name): value for name, value in dataset.attrs.items()}
    level_names = tuple(str(name) for name in dataset["level"].values)
    errors = {name: model_error(dataset, name) for name in level_names}
    parts = latency.latency_parts(dataset)
    total = latency.load_latency_of(parts, dataset)
    waits = np.isfinite(parts.values).all(axis=1)
    n_waiting = (waits * dataset["site_accesses"].values).sum(axis=1)
    total_cycles = total.sum("site").values
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_latency = np.where(n_waiting > 0, total_cycles / np.maximum(n_waiting, 1), np.nan)
    provenance, places = mapping_of(dataset, "provenance"), places_of(dataset)
    machine, launch = latency.machine_of(dataset), launch_totals(dataset)
    return Summary(
        kernel=str(attrs.get("kernel", "")),
        machine=machine,
        level_names=level_names,
        n_trials=int(dataset.sizes["trial"]),
        seed=int(attrs.get("seed", 0)),
        interrupted=bool(attrs.get("interrupted", 0)),
        counters=semantics_of(dataset),
        traced_groups=int(attrs.get("traced_groups", 0)),
        traced_subgroups=int(attrs.get("traced_subgroups", 0)),
        of_groups=int(attrs.get("of_groups", 0)),
        granules=int(attrs.get("granules", 0)),
        sites=_sites(dataset, level_names, errors, parts, latency.shares_of(total).values)
        if by_site
        else (),
        totals=_totals(dataset, level_names, errors),
        dram=DramNumbers(
            read_bytes=describe(dataset["dram_read_bytes"].values, places).between(0.0),
            write_bytes=describe(dataset["dram_write_bytes"].values, places).between(0.0),
            latency_cycles=describe(latency.dram_latency_cycles(dataset).values, places),
            row_hit_ratio=_ratio(dataset["dram_row_hit_ratio"].values, places),
        ),
        launch=launch,
        time=launch_time(mapping_of(dataset, "time"), launch, machine),
        load_latency_cycles=describe(mean_latency, places),
        total_load_cycles=describe(total_cycles, places),
        model_error=errors,
        occupancy=mapping_of(dataset, "occupancy"),
        orders={
            order: ratios_by_level(row)
            for order, row in mapping_of(dataset, "orders").items()
            if isinstance(row, dict)
        },
        options=mapping_of(dataset, "options"),
        provenance=without_code(provenance),
        compiled=read_compiled(provenance, tuple(str(name) for name in dataset["site"].values)),
        generated_source=str(attrs.get("generated_source", "")),
        user_source=str(attrs.get("user_source", "")),
    )


def _sites(
    dataset: xr.Dataset,
    level_names: tuple[str, ...],
    model_error: Mapping[str, float | None],
    parts: xr.DataArray,
    shares: npt.NDArray[np.float64],
) -> tuple[SiteNumbers, ...]:
    """parts : of the latency; shares : (trial, site)"""
    places, counted = places_of(dataset), _counted(dataset)
    of_levels = [places_of(dataset, name) for name in level_names]
    cycles = parts.sum("part", skipna=False)
    pending_cycles = latency.expected_latency_cycles(dataset, "pending")
    leads = (shares >= shares.max(axis=1, keepdims=True)) & (shares > 0) if shares.size else shares
    plain = dataset.reset_coords()
    numbers = []
    for i, name in enumerate(dataset["site"].values):
        one = plain.isel(site=i)
        levels = _levels(one, level_names, model_error, of_levels, counted)
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
                latency_cycles=describe(cycles.isel(site=i).values, places),
                latency_pending_cycles=describe(pending_cycles.isel(site=i).values, places),
                latency_parts=part_means,
                latency_model_error_cycles=_latency_model_error(dataset, levels),
                share=describe(shares[:, i], places),
                first_in=float(np.mean(leads[:, i])) if len(shares) else math.nan,
                missed_translations_per_access=_missed_translations(one),
            )
        )
    return tuple(numbers)


def _counted(dataset: xr.Dataset) -> npt.NDArray[np.float64]:
    """(n_trial,) sectors of the first level that each trial counted."""
    if not dataset.sizes["level"]:
        return np.ones(dataset.sizes["trial"])
    counted = dataset["accesses"].isel(level=0).sum("site").values.astype(np.float64)
    return np.where(counted > 0, counted, 1.0)


def _missed_translations(one: xr.Dataset) -> float | None:
    """Mean over trials; the number of counted accesses follows from the first level's sectors."""
    if "missed_translations" not in one:
        return None
    per_access = float(one["site_sectors"]) / max(float(one["site_accesses"]), 1.0)
    counted = float(one["site_accesses"])
    if one.sizes.get("level", 0) and per_access:
        counted = float(one["accesses"].isel(level=0).mean()) / per_access
    return float(one["missed_translations"].mean()) / counted if counted else 0.0


def _levels(
    one: xr.Dataset,
    level_names: tuple[str, ...],
    model_error: Mapping[str, float | None],
    places: Sequence[Places],
    counted: npt.NDArray[np.float64],
) -> tuple[LevelNumbers, ...]:
    """The numbers of each level for one site, or for a sum of sites, which has no kinds of misses.

    places : of each level
    counted : (n_trial,) sectors of the first level that each trial counted
    """
    accesses, hits, pending = (
        one[name].transpose("trial", "level").values for name in ("accesses", "hits", "pending")
    )
    means = accesses.mean(axis=0) if len(accesses) else np.zeros(len(level_names))
    entry = next((mean for mean in means if mean > 0), 0.0)
    levels = []
    for k, name in enumerate(level_names):
        requested = np.where(accesses[:, k] > 0, accesses[:, k], np.nan)
        of_ratio = places[k].of_ratio(accesses[:, k] / counted)
        misses = {}
        if "cold_misses" in one:
            misses = {kind: int(one[f"{kind}_misses"].isel(level=k)) for kind in MISS_KINDS}
        levels.append(
            LevelNumbers(
                name=name,
                accesses=float(means[k]),
                reach=min(divide(float(means[k]), float(entry)), 1.0) if entry else 0.0,
                hit_ratio=_ratio((hits[:, k] + pending[:, k]) / requested, of_ratio),
                pending_ratio=_ratio(pending[:, k] / requested, of_ratio),
                read_bytes=describe(one["read_bytes"].isel(level=k).values).mean,
                write_bytes=describe(one["write_bytes"].isel(level=k).values).mean,
                misses=misses,
                model_error=model_error.get(name),
            )
        )
    return tuple(levels)


def _ratio(values: npt.ArrayLike, places: Places = ONE_PLACE) -> Estimate:
    return describe(values, places).between(0.0, 1.0)


def _totals(
    dataset: xr.Dataset, level_names: tuple[str, ...], model_error: Mapping[str, float | None]
) -> dict[tuple[str, str], LevelNumbers]:
    direction = dataset["direction"].values.astype(str)
    places, counted = [places_of(dataset, name) for name in level_names], _counted(dataset)
    per_site = dataset.reset_coords()[
        ["accesses", "hits", "pending", "read_bytes", "write_bytes"]
    ].drop_vars("site")
    totals = {}
    for kind, label in (("load", "read"), ("store", "write"), ("atomic", "atomic")):
        chosen = per_site.isel(site=np.flatnonzero(direction == kind)).sum("site")
        if kind == "atomic" and not (direction == kind).any():
            continue
        for k, level in enumerate(_levels(chosen, level_names, model_error, places, counted)):
            if k == 0 and kind == "load":
                totals[level.name, "load"] = level
            elif k > 0:
                totals[level.name, label] = level
    if semantics_of(dataset) != "sector":
        for level in _levels(per_site.sum("site"), level_names, model_error, places, counted):
            totals[level.name, "all"] = level
    return totals


def _latency_model_error(dataset: xr.Dataset, levels: tuple[LevelNumbers, ...]) -> float | None:
    """First-order worst case: sum over levels of reach * |t_k - Y_(k+1)| * error of H_k.

    Y_(k+1) is the expected latency of what misses level k.
    """
    cycles = latency.level_latencies_cycles(dataset)
    below = zero_if_unknown(describe(latency.dram_latency_cycles(dataset).values).mean)
    error = 0.0
    for level, hit_cycles in zip(reversed(levels), reversed(cycles), strict=True):
        if level.accesses == 0:
            continue
        if level.model_error is None:
            return None
        error += level.reach * abs(hit_cycles - below) * level.model_error
        ratio = zero_if_unknown(level.hit_ratio.mean)
        below = ratio * hit_cycles + (1 - ratio) * below
    return float(error)


def _line(value: xr.DataArray) -> int | None:
    line = int(value)
    return line if line > 0 else None
