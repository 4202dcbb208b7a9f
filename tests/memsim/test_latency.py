"""memsim.latency against hand calculations with the equation of Baghsorkhi et al. 2012, section 6.1."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import xarray as xr

from memsim.errors import ResultError
from memsim.latency import (
    dram_latency_cycles,
    expected_latency_cycles,
    hit_ratios,
    latency_parts,
    latency_shares,
)
from memsim.machine.file import load_machine
from memsim.machine.model import Machine
from tests.support.fake_replay import fake_dataset


def machine_with(*latencies: float) -> Machine:
    """A machine whose levels L1, L2, ... have these latencies."""
    machine = load_machine("v100")
    kinds = (machine.levels[0], *[machine.levels[1]] * (len(latencies) - 1))
    levels = tuple(
        dataclasses.replace(level, name=f"L{k}", latency_cycles=cycles)
        for k, (level, cycles) in enumerate(zip(kinds, latencies, strict=False), start=1)
    )
    return machine.replace(levels=levels, model_error_points={})


def dataset(
    machine: Machine,
    counts: list[list[tuple[int, int, int]]],
    *,
    direction: list[str] | None = None,
    site_accesses: list[int] | None = None,
    mean: list[float] | None = None,
    dominant: list[float] | None = None,
) -> xr.Dataset:
    """counts[level][site] = (accesses, hits, pending), the same in every trial."""
    values: npt.NDArray[Any] = np.array(counts, dtype=np.int64).reshape(len(counts), -1, 3)
    mean = mean or [500.0]
    n_trial, n_site = len(mean), values.shape[1]
    tiled = np.moveaxis(np.tile(values, (n_trial, 1, 1, 1)), -1, 0)
    dims, names = ("trial", "level", "site"), ("accesses", "hits", "pending")
    return xr.Dataset(
        {
            **{name: (dims, counts) for name, counts in zip(names, tiled, strict=True)},
            "dram_mean_cycles": ("trial", mean),
            "dram_dominant_cycles": ("trial", dominant or [math.nan] * n_trial),
            "site_accesses": ("site", site_accesses or [1] * n_site),
        },
        coords={
            "level": [level.name for level in machine.levels],
            "site": [f"s{i}" for i in range(n_site)],
            "direction": ("site", direction or ["load"] * n_site),
        },
        attrs={"machine": machine},
    )


def test_the_equation() -> None:
    data = dataset(machine_with(30.0, 200.0), [[(100, 40, 10)], [(50, 20, 0)]])
    h1, h2 = 0.5, 0.4
    expected = h1 * 30 + (1 - h1) * (h2 * 200 + (1 - h2) * 500)
    assert expected_latency_cycles(data).values == pytest.approx(np.array([[expected]]))
    parts = latency_parts(data).isel(trial=0, site=0)
    assert parts["part"].values.tolist() == ["L1", "L2", "DRAM"]
    assert parts.values == pytest.approx([15.0, 40.0, 150.0])


def test_three_levels() -> None:
    machine = machine_with(10.0, 100.0, 300.0)
    data = dataset(machine, [[(8, 4, 0)], [(4, 1, 0)], [(3, 2, 0)]], mean=[900.0])
    expected = 0.5 * 10 + 0.5 * (0.25 * 100 + 0.75 * (2 / 3 * 300 + 1 / 3 * 900))
    assert float(expected_latency_cycles(data)[0, 0]) == pytest.approx(expected)


def test_a_level_that_is_never_reached_has_no_weight() -> None:
    machine = machine_with(30.0, 200.0)
    counts = [[(10, 10, 0), (0, 0, 0)], [(0, 0, 0), (10, 5, 0)]]
    unknown = {"mean": [math.nan], "dominant": [math.nan]}
    data = dataset(machine, counts, direction=["load", "atomic"], **unknown)
    cycles = expected_latency_cycles(data).values[0]
    assert cycles[0] == 30.0  # all hits: an unknown DRAM latency does not matter
    assert math.isnan(cycles[1])  # half of its sectors take an unknown time
    data["dram_mean_cycles"][:] = 600.0
    assert expected_latency_cycles(data).values[0].tolist() == [30.0, 0.5 * 200 + 0.5 * 600]
    assert np.isnan(hit_ratios(data).values[0, 1, 0])


def test_stores_and_sites_without_accesses_have_no_latency_and_no_share() -> None:
    counts = [[(10, 0, 0), (10, 10, 0), (0, 0, 0)], [(10, 10, 0), (0, 0, 0), (0, 0, 0)]]
    data = dataset(machine_with(30.0, 200.0), counts, direction=["store", "load", "load"])
    assert np.isnan(expected_latency_cycles(data).values[0]).tolist() == [True, False, True]
    assert latency_shares(data).values[0].tolist() == [0.0, 1.0, 0.0]


def test_the_dominant_main_memory_latency_takes_precedence_over_the_mean() -> None:
    cycles = {"mean": [500.0, 500.0], "dominant": [math.nan, 420.0]}
    data = dataset(machine_with(30.0, 200.0), [[(1, 0, 0)], [(1, 0, 0)]], **cycles)
    assert dram_latency_cycles(data).values.tolist() == [500.0, 420.0]
    assert expected_latency_cycles(data).values[:, 0].tolist() == [500.0, 420.0]


def test_shares_weigh_latency_by_subgroup_accesses() -> None:
    counts = [[(10, 10, 0), (10, 0, 0)], [(0, 0, 0), (10, 10, 0)]]
    data = dataset(machine_with(30.0, 200.0), counts, site_accesses=[20, 1])
    assert latency_shares(data).values[0] == pytest.approx([600 / 800, 200 / 800])


def test_without_any_latency_shares_are_zero() -> None:
    data = dataset(machine_with(30.0), [[(10, 0, 0)]], direction=["store"])
    assert latency_shares(data).values.tolist() == [[0.0]]


def test_pending_sectors_wait_for_half_of_what_is_below() -> None:
    machine = machine_with(30.0, 200.0)
    data = dataset(machine, [[(100, 40, 20)], [(40, 10, 0)]])
    below = 0.25 * 200 + 0.75 * 500
    expected = 0.4 * 30 + 0.2 * below / 2 + 0.4 * below
    assert float(expected_latency_cycles(data, "pending")[0, 0]) == pytest.approx(expected)
    assert float(expected_latency_cycles(data)[0, 0]) == pytest.approx(0.6 * 30 + 0.4 * below)


def test_a_pending_sector_never_costs_less_than_a_hit() -> None:
    data = dataset(machine_with(300.0, 310.0), [[(10, 5, 5)], [(0, 0, 0)]], mean=[400.0])
    assert float(expected_latency_cycles(data, "pending")[0, 0]) == 300.0


def test_an_access_whose_neighbours_fetch_waits_as_they_do() -> None:
    """A site with only pending sectors has the latency of the misses of all loads together."""
    data = dataset(machine_with(30.0, 200.0), [[(10, 0, 0), (10, 0, 10)], [(10, 5, 0), (0, 0, 0)]])
    below = 0.5 * 200 + 0.5 * 500
    cycles = expected_latency_cycles(data, "pending").values[0]
    assert cycles == pytest.approx([below, below / 2])


def test_a_machine_without_caches() -> None:
    machine = load_machine("v100").replace(levels=(), model_error_points={})
    data = dataset(machine_with(30.0), [[(4, 0, 0), (4, 0, 0)]], direction=["load", "store"])
    data.attrs["machine"] = machine
    for levels in (data, data.isel(level=slice(0, 0))):
        cycles = expected_latency_cycles(levels).values[0]
        assert cycles[0] == 500.0
        assert math.isnan(cycles[1])


def test_unknown_modes_and_levels_are_refused() -> None:
    data = fake_dataset(n_trials=2)
    with pytest.raises(ResultError, match="hit or pending, got wait"):
        expected_latency_cycles(data, "wait")  # type: ignore[arg-type]
    with pytest.raises(ResultError, match="one of the machine's, got L9"):
        expected_latency_cycles(data.assign_coords(level=["L1", "L9"]))
