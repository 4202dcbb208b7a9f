"""memsim reproduce lhf: table 3, closed forms of the compared quantities, and bounds on the
errors."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracegen
from experiments.hardware.star_stencil import compiled_star
from experiments.hardware.volumes import Snapshot, Triple
from experiments.lhf import tesla_c1060
from experiments.lhf.occupancy_bandwidth import bandwidth_gbs, knee, stream_kernel, table
from experiments.lhf.opencl_device import ordered_pairs
from experiments.lhf.replay_costs import replay_costs
from experiments.lhf.tesla_c1060 import PRODUCTS, analysed, gflops, sizes, table_3
from experiments.lhf.v100_stencil import baselines, errors_of, measured_times
from experiments.reproduction import Case
from memsim.machine.file import load_machine
from memsim.machine.parts import Translation


def test_table_3_is_derived_from_the_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the larger tiles. All entries agree, except the naive kernels' NBB, whose last block the paper counts
    separately, and Volkov's occupation, which is printed as 2 although every resource allows 8."""
    products = [PRODUCTS[k] for k in (1, 3, 4)]
    monkeypatch.setattr(tesla_c1060, "PRODUCTS", products)
    result = {(case.case, case.quantity): case for case in table_3(tmp_path, True).cases}
    for product in products:
        threads = result[product.name, "threads"]
        assert threads.ours == threads.reference
        local = result[product.name, "shared memory"]
        assert local.ours is not None
        assert local.reference is not None
        # The CUDA kernels have one to six arguments of 4 bytes more than ours.
        assert local.reference - local.ours in (4, 24)
        groups, blocks = result[product.name, "occupation"], result[product.name, "NBB"]
        if product.name.startswith("naive"):
            assert blocks.ours == (blocks.reference or 0) - 1
        elif blocks.reference is not None:
            assert blocks.ours == blocks.reference
        assert groups.ours == (8 if product.name.startswith("Volkov") else groups.reference)


@pytest.mark.slow
def test_figures_14_to_16_keep_their_order() -> None:
    """At 2080 to 2112 the order is naive, tiled, register-blocked, all below the 622 GFlop/s of 240
    fma units."""
    speed = {}
    for product in PRODUCTS:
        n = next(n for n in sizes(product, False) if n > 2000)
        speed[product.name] = gflops(analysed(product.name), n)
    for mode in ("paper", "simulated"):
        naive, tiled, blocked = (
            speed[name][mode] for name in ("naive 16x16", "CUBLAS 1.1 16x16", "Volkov 16x4")
        )
        assert naive < tiled < blocked < 30 * 8 * 2 * 1.296


def test_baselines_from_measured_volumes() -> None:
    """The errors of the two baselines from measured volumes, over 43 shapes."""
    measured = measured_times()
    assert len(measured) == 43
    found = baselines(load_machine("v100"))
    flat = {s: t for s, t in found["max(L1 + DRAM, L2)"].items() if s[2] < 64}
    for seconds, errors, ranks in (
        (found["max(DRAM, L2)"], (0.3, 0.4), (0.55, 0.65)),
        (found["max(L1 + DRAM, L2)"], (0.1, 0.14), (0.82, 0.87)),
        (flat, (0.07, 0.085), (0.97, 1.0)),
    ):
        error, rank = errors_of(seconds, measured)
        assert errors[0] < error < errors[1]
        assert ranks[0] < rank < ranks[1]
    ours, truth = {(1, 1, 1): 2.0, (2, 1, 1): 3.0}, {(1, 1, 1): 1.0, (2, 1, 1): 4.0}
    assert errors_of(ours, truth) == pytest.approx(((1 + 0.25) / 2, 1))  # by hand


def test_deep_groups_miss_translations_and_flat_ones_hardly_any() -> None:
    """16 entries of 2 MB: a group that is 64 planes of 2.6 MB deep accesses 136 pages, a flat one 9
    planes."""

    def missed(shape: Triple, entries: int = 16) -> float:
        v100 = load_machine("v100")
        buffer = Translation(entries=entries, page_bytes=1 << 21, miss_cycles=1.0)
        few = v100.replace(
            n_cores=2, levels=v100.levels[:1], model_error_points={}, translation=buffer
        )
        snapshot = Snapshot(waves=6, warmup=4)
        costs = replay_costs(compiled_star(shape, few), few, [0.5], 1, snapshot).costs
        return float((costs.missed_translations.mean(axis=0) * costs.per_subgroup).sum())

    assert missed((32, 32, 1)) < 0.1
    assert missed((8, 1, 64)) > 8
    assert missed((8, 1, 64), entries=160) == 0


def test_a_lone_group_is_latency_and_its_start() -> None:
    """With one sub-group on a core at a time, every core moves 128 bytes in a group's start and
    latency."""
    machine = load_machine("v100")
    start = machine.group_start_cycles
    wait = machine.dram.latency_cycles
    result = bandwidth_gbs("read", machine, 16, 1)
    most = 16 * 8 * machine.n_cores * machine.clock_hz / (start + wait) / 1e9
    assert 0.85 * most < result < most


def test_the_stream_kernel_has_its_number_of_loads_and_stores() -> None:
    trace = tracegen.trace(
        stream_kernel("triad", 256), "v100", groups=[5], tracer="polyhedral", earlier=False
    )
    assert [site.direction for site in trace.sites] == ["load"] * 3 + ["store"]
    assert [array.name for array in trace.arrays] == ["b", "c", "d", "a"]
    assert trace.launch.n_groups * 256 * 8 == trace.arrays[0].size_bytes
    # The store of a sub-group waits for its loads, which do not wait for one another.
    assert trace.waits[:4].tolist() == [-1, -1, -1, 2]
    for gpu in ("v100", "a100_80", "mi210"):
        assert len(table(gpu)) == 39


def test_pairs_in_order_and_a_knee_by_hand() -> None:
    assert knee([10, 89, 90, 100]) == 2
    assert knee([100, 89, 90, 100]) == 0

    def case(measured: float, ours: float) -> Case:
        return Case("c", "time", "ms", reference=measured, ours=ours)

    cases = [case(1.0, 1.0), case(1.05, 0.5), case(2.0, 3.0), case(4.0, 2.0)]
    # The first two are a tie. Of the five others, 2 before 4 is wrong.
    assert ordered_pairs(cases) == (4, 5)
