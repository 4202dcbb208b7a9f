"""Arrays that a level keeps: what each level moves and how long a load waits, in closed form."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from calib.advice.bounds import resident, upper_bounds
from calib.advice.trial import Changed, predicted, try_change
from calib.prediction import PredictOptions
from calib.prediction.costs import AccessCosts, access_costs
from experiments.kernels import matmul, stream
from memsim import load_machine
from memsim.latency import expected_latency_cycles, hit_ratios

FEW = PredictOptions(trials=2, jobs=1)
N = 1 << 18
"""Numbers of 4 bytes in each array of the triad a = b + q c, each of which is accessed once."""


def moved(costs: AccessCosts, site: str) -> dict[str, float]:
    """Channel -> bytes that an execution moves on it."""
    rows = costs.channel_bytes[:, :, costs.index(site)].mean(0)
    return dict(zip(costs.channels, rows.tolist(), strict=True))


@pytest.mark.weekly(2)
@pytest.mark.parametrize("name", ["v100", "a100", "mi250x", "mi300x"])
def test_a_resident_array_leaves_the_levels_below(name: str) -> None:
    """b is read once: 4 bytes for each lane from every level, unless one keeps it. Nothing else changes."""
    machine = load_machine(name)
    prediction, traces = predicted(stream.triad(N), machine, FEW)
    replay = prediction.replay
    before = access_costs(traces, replay, machine)
    requested = 4.0 * machine.subgroup_size
    assert moved(before, "b[i]")["DRAM"] == requested
    levels = replay.level_names[1:]
    for k, level in enumerate(levels):
        altered = resident(replay, "b", level)
        after = access_costs(traces, altered, machine)
        for site in ("c[i]", "store a[i]"):
            assert moved(after, site) == moved(before, site)
        for channel, value in moved(after, "b[i]").items():
            reaches = channel in levels[: k + 1]
            assert value == (requested if reaches else 0.0), (level, channel)
        saved = replay.dataset["dram_read_bytes"] - altered.dataset["dram_read_bytes"]
        fetched = replay.dataset["read_bytes"].sel(level="L1", site="b[i]")
        assert saved.values.tolist() == fetched.values.tolist()
        # A line of which the lanes ask for each half on its own is on its way for the second.
        near = hit_ratios(replay.dataset).sel(site="b[i]", level="L1").values
        assert set(near) == {0.5 if name == "mi300x" else 0.0}
        first, here = machine.levels[0].latency_cycles, machine.levels[k + 1].latency_cycles
        waited = expected_latency_cycles(altered.dataset).sel(site="b[i]").values
        np.testing.assert_allclose(waited, near * first + (1 - near) * here, rtol=1e-12)


def test_hits_above_a_level_that_keeps_an_array_stay_hits() -> None:
    """X = h1 t1 + (1 - h1) t2, with the ratio of hits in L1 as it was."""
    machine = load_machine("v100")
    replay = predicted(matmul.naive(64), machine, FEW)[0].replay
    altered = resident(replay, "a", "L2").dataset
    first, second = machine.levels
    ratio = hit_ratios(replay.dataset).sel(site="a[i, k]", level="L1").values
    assert np.all(ratio < 1)
    expected = ratio * first.latency_cycles + (1 - ratio) * second.latency_cycles
    waited = expected_latency_cycles(altered).sel(site="a[i, k]").values
    np.testing.assert_allclose(waited, expected, rtol=1e-12)
    np.testing.assert_array_equal(
        expected_latency_cycles(altered).sel(site="b[k, j]"),
        expected_latency_cycles(replay.dataset).sel(site="b[k, j]"),
    )


def test_bounds_name_each_level_that_could_keep_an_array() -> None:
    """Without a second trip to DRAM a triad gains; the nearer the level, the more. Stores are not kept."""
    machine = load_machine("mi300x").replace(launch_us=0.0)  # most of so short a time
    prediction, traces = predicted(stream.triad(1 << 20), machine, FEW)
    bounds = {one.what: one for one in upper_bounds(prediction, traces)}
    named = {what for what in bounds if "resident" in what}
    assert named == {f"{array} resident in L{k}" for array in "bc" for k in (1, 2, 3)}
    start = Changed(traces=traces, options=FEW)
    times = [
        try_change(prediction, bounds[f"b resident in L{k}"].alter, start).seconds.mean()
        for k in (1, 2, 3)
    ]
    # Groups end in another order with other latencies, which changes a time by less than 1 %.
    assert all(further > 0.99 * nearer for nearer, further in itertools.pairwise(times))
    # L3 is then what both arrays that are loaded take longest to pass.
    assert times[2] == pytest.approx(prediction.timing.floor_means_s["L3"], rel=0.05)
    # Its bus, which stores take, too, is what the launch takes longest for anyhow; nearer levels relieve it.
    assert times[1] < 0.8 * prediction.timing.seconds.mean()


def test_an_array_that_a_level_keeps_already_is_not_named() -> None:
    """Where nothing is fetched from below L2, an array cannot be kept there better."""
    machine = load_machine("v100")
    prediction, traces = predicted(matmul.naive(64), machine, FEW)
    replay = prediction.replay
    assert replay is not None
    for array in "ab":
        replay = resident(replay, array, "L2")
    kept = dataclasses.replace(prediction, replay=replay)
    named = [one.what for one in upper_bounds(kept, traces) if "resident" in one.what]
    assert sorted(named) == ["a resident in L1", "b resident in L1"]
