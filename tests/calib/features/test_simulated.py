"""Simulated features against closed forms: cold bytes, reuse, scaling from a snapshot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import memsim
import tracegen
from calib import EvaluationContext, FeatureError
from calib.features import evaluate
from calib.features.simulated import simulation
from calib.kernels import ALL_GENERATORS, KernelCollection
from experiments.kernels import matmul, stream
from tests.support import loopy_kernels as kernels


def value(feature: str, workload: Any, context: Any, **options: Any) -> float:
    on = EvaluationContext(machine="v100", replay_trials=4, cl_context=context, **options)
    return evaluate(feature, workload, {}, context=on)


def test_every_byte_of_a_copy_is_read_once(context: Any) -> None:
    n = 1 << 14
    copy = stream.copy(n=n)
    assert value("f_sim_dram_read_bytes", copy, context) == 4 * n
    assert value("f_sim_l1_sectors_load", copy, context) == 4 * n / 32
    assert value("f_sim_l1_miss_sectors_load", copy, context) == 4 * n / 32
    assert value("f_sim_dram_read_bytes_store", copy, context) == 0


def test_simulated_features_of_a_kernel_without_global_accesses_are_0(context: Any) -> None:
    """Their features are 0, so that tables may contain kernels that measure a launch."""
    (empty,) = KernelCollection(ALL_GENERATORS).generate_kernels(["empty_kernel", "n_groups:4"])
    on = EvaluationContext(machine="v100", replay_trials=2, cl_context=context)
    for quantity in ("dram_bytes", "l1_sectors", "l2_miss_sectors", "latency"):
        assert evaluate(f"f_sim_{quantity}", empty, empty.env, context=on) == 0


def test_reuse_stays_in_the_caches(context: Any) -> None:
    """n^3 accesses to arrays of n^2 elements that fit into the L2: DRAM transfers each element
    once."""
    n = 64
    naive = matmul.naive(n)
    for array_bytes in ("lstrides:{0:0}", "lstrides:{0:1}"):
        feature = f"f_sim_dram_read_bytes_global_float32_load_{array_bytes}"
        assert value(feature, naive, context) == 4 * n * n
    # Without a device, too, compiled code may load what a loop needs in a wider or an earlier access;
    # the feature names that of the source.
    assert value("f_sim_l1_sectors_load", matmul.naive(32), None) == 32**3 / 32 * 4
    result = value("f_sim_l1_sectors_load", naive, context)
    missed = value("f_sim_l1_miss_sectors_load", naive, context)
    # Sub-groups cover two rows of 16 lanes: 2 sectors of a (one element of each row) and 2 of b.
    assert result == n**3 / 32 * 4
    # First accesses of a group, which miss or are pending: 128 of a, 128 of b.
    assert 0 < missed <= 16 * 256


def test_a_snapshot_is_scaled_to_its_launch(context: Any) -> None:
    """Half of a snapshot's accesses warm the caches and are not counted."""
    n = 1 << 22
    copy = stream.copy(n=n)
    trace = tracegen.trace(copy, memsim.load_machine("v100"), context=context)
    assert not trace.whole
    assert value("f_sim_l1_sectors_load", copy, context) == pytest.approx(4 * n / 32, rel=1e-12)
    assert value("f_sim_dram_read_bytes", copy, context) == pytest.approx(4 * n, rel=1e-12)


def test_latency_of_accesses_that_always_miss(context: Any) -> None:
    """Every access of a copy goes to DRAM, so its latency is that machine's, times the accesses."""
    n = 1 << 14
    copy = stream.copy(n=n)
    cycles = value("f_sim_latency_cycles", copy, context)
    trace = tracegen.trace(copy, memsim.load_machine("v100"), context=context)
    replay = memsim.replay(trace, "v100", trials=4, seed=0)
    tm = float(np.mean(memsim.latency.dram_latency_cycles(replay.dataset)))
    assert cycles == pytest.approx(n / 32 * tm, rel=1e-6)
    clock = memsim.load_machine("v100").clock_hz
    assert value("f_sim_latency", copy, context) == pytest.approx(cycles / clock, rel=1e-12)


def test_sites_add_up_to_the_replay(context: Any) -> None:
    naive = matmul.naive(48, 8)
    parts = [
        value(f"f_sim_l2_miss_sectors_{direction}", naive, context)
        for direction in ("load", "store")
    ]
    assert sum(parts) == value("f_sim_l2_miss_sectors", naive, context)
    both = [value(f"f_sim_dram_{way}_bytes", naive, context) for way in ("read", "write")]
    assert sum(both) == value("f_sim_dram_bytes", naive, context)
    trace = tracegen.trace(naive, memsim.load_machine("v100"), context=context)
    replay = memsim.replay(trace, "v100", trials=4, seed=0)
    assert both[0] == pytest.approx(float(replay.dataset["dram_read_bytes"].mean()))


def test_launches_are_added_up(context: Any) -> None:
    twice = kernels.two_launches(256)
    loads = value("f_sim_l1_sectors_load", twice, context)
    assert loads == 2 * 256 * 4 / 32


def test_one_replay_serves_all_features(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = stream.copy(n=1024)
    on = EvaluationContext(machine="v100", replay_trials=2, cl_context=context)
    first = simulation(copy, {}, on)

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("traced again")

    monkeypatch.setattr(tracegen, "trace_launches", never)
    assert simulation(copy, {}, on) is first
    with pytest.raises(AssertionError, match="traced again"):
        simulation(copy, {}, EvaluationContext(machine="v100", seed=1, cl_context=context))


def test_a_machine_without_caches(context: Any) -> None:
    on = EvaluationContext(machine="c1060", cl_context=context, replay_trials=1)
    with pytest.raises(FeatureError, match=r"machine c1060 has no caches"):
        evaluate("f_sim_l2_sectors", stream.copy(n=1024), {}, context=on)


def test_unknown_tags_are_refused(context: Any) -> None:
    with pytest.raises(FeatureError, match="has no access tagged aLD"):
        value("f_sim_dram_bytes_tag:aLD", stream.copy(n=1024), context)
