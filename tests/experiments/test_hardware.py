"""Comparisons with measured hardware: bounds on the errors, and tests of the traces and models
behind them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from experiments.cases import Done
from experiments.data_files import hit_ratio_error_points, rows
from experiments.hardware import FIGURES, profiled_stencil
from experiments.hardware.comparison import errors
from experiments.hardware.l1_sweep import miss_ratios
from experiments.hardware.pointer_chase import chase_latency
from experiments.hardware.star_stencil import compiled_star, points_workload
from experiments.hardware.stencil_volumes import (
    QUANTITIES,
    group_shape,
    measured_volumes,
    volumes_of,
)
from experiments.hardware.volumes import Snapshot, Triple, Volumes, hit_ratio_errors, volumes
from experiments.reproduction import Case
from memsim.machine.file import load_machine
from memsim.machine.parts import Level
from memsim.montecarlo.occupancy import resident_groups


def test_errors_are_those_of_a_hand_count() -> None:
    """Loads of 100 bytes miss L1 with 30 of them, instead of 20; L2 with 6 of 30, instead of 5 of 20."""
    cases = [
        Case(name, "q", "B", reference=measured, ours=ours)
        for name, measured, ours in (("a", 1.0, 2.0), ("b", 4.0, 2.0), ("c", 8.0, 8.0))
    ]
    found = errors(cases, "q")
    assert found.geometric_mean == pytest.approx(4 ** (1 / 3) - 1)
    assert (found.worst, found.worst_case) == (1.0, "a")
    stored = {"l2_store": 8.0, "dram_store": 8.0, "partly_stored": 0.0}
    hit_ratio = {"L1": 0.7, "L2": 0.8}
    replayed = Volumes(l2_load=30.0, dram_load=6.0, load_hit_ratio=hit_ratio, **stored)
    points = hit_ratio_errors([replayed], l2_load=20.0, dram_load=5.0)
    assert points == pytest.approx({"L1": 10.0, "L2": 5.0})
    assert hit_ratio_errors([replayed], l2_load=30.0, dram_load=6.0) == {"L1": 0.0, "L2": 0.0}


@pytest.mark.weekly(3)
@pytest.mark.parametrize(
    ("shape", "made"),
    [
        ((16, 2, 32), volumes_of),
        ((128, 1, 8), volumes_of),
        ((4, 8, 32), profiled_stencil.totals_of),
    ],
)
def test_v100_stencil_on_a_shape(shape: Triple, made: Callable[[Triple], Done]) -> None:
    """With default options, too: of 16 layers of groups, the ninth begins in the middle of the launch. A
    snapshot there read 8 % too much."""
    cases = made(shape).cases
    profiled = made is profiled_stencil.totals_of
    quantities = profiled_stencil.QUANTITIES if profiled else QUANTITIES
    assert [case.quantity for case in cases] == list(quantities)
    for case in cases:
        assert profiled or case.case == "x".join(map(str, shape))
        # 16x2x32 loads 5.3 % too little from memory, the rest is nearer.
        most = 0.06 if case.quantity == "dram_load" and not profiled else 0.05
        assert case.ours == pytest.approx(case.reference, rel=most)
        if profiled:
            assert case.ci95
            assert case.quantity != "dram_load" or abs(case.ours - case.reference) < case.ci95


def test_a_fixed_deal_is_what_the_hardware_does_not_do() -> None:
    """Groups above each other on one core would reuse rows in L1; the measured L2 volume shows no
    such reuse."""
    machine = load_machine("v100")
    kernel, snapshot = compiled_star((16, 1, 64), machine), Snapshot(waves=3, warmup=1)
    measured = measured_volumes()[16, 1, 64]["l2_load"]
    (free,) = volumes(kernel, machine, snapshot)
    assert free.l2_load == pytest.approx(measured, rel=0.05)
    (fixed,) = volumes(kernel, machine, snapshot, dispatch="round_robin")
    assert fixed.l2_load < 0.75 * measured


def test_v100_l1_curve() -> None:
    """Sub-groups that drift apart find more of a buffer that exceeds L1 than in fixed turns: over all buffers
    from 96 kB on the curve is 8 points off, and 12 with fixed turns."""
    machine = load_machine("v100")
    table = [row for row in rows("v100_l1_miss_ratio.csv") if float(row["buffer_kb"]) >= 96]
    assert np.mean(miss_ratios(machine, 96, 8)) < 0.001
    assert np.mean(miss_ratios(machine, 524, 4)) > 0.9998 - 0.01

    def error(turns: str) -> float:
        on = machine.replace(scheduler_turns=turns)
        ours = [np.mean(miss_ratios(on, float(row["buffer_kb"]), 4)) for row in table]
        measured = [float(row["miss_ratio"]) for row in table]
        return float(np.mean(np.abs(np.subtract(ours, measured))))

    assert error("free") < 0.1 < 0.11 < error("fixed")


@pytest.mark.parametrize("name", ["v100", "h100", "mi210"])
def test_plateaus_of_a_chase_are_the_latencies_of_the_levels(name: str) -> None:
    machine = load_machine(name)
    first, second = machine.levels[:2]
    assert chase_latency(machine, first.size_bytes / 2048) == pytest.approx(first.latency_cycles)
    size_kb = max(4 * first.size_bytes, second.size_bytes / 8) / 1024
    assert chase_latency(machine, size_kb) == pytest.approx(second.latency_cycles, rel=0.01)
    if (
        name == "v100"
    ):  # With 4 ways sets overflow one after another: half of the misses are at 1.1 times the size.
        assert chase_latency(machine, 128 * 1.125) == pytest.approx(136.9, rel=0.2)
        assert chase_latency(machine, 128 * 1.26) == pytest.approx(212.1, rel=0.01)


def test_v100_stencil_on_all_shapes_as_recorded() -> None:
    """Bounds for every quantity, over all shapes and over those without sectors that two groups fill: a model
    without partial write-backs has there an error of at least 2.9 of 11 bytes."""
    truth = measured_volumes()
    cases = [
        Case(
            "x".join(map(str, group_shape(row))),
            quantity,
            "B/update",
            reference=truth[group_shape(row)][quantity],
            ours=float(row[quantity]),
        )
        for row in rows("v100_star25_ours.csv")
        for quantity in QUANTITIES
    ]
    assert len(cases) == 43 * len(QUANTITIES)
    wide = [case for case in cases if not case.case.startswith("2x")]
    assert len(wide) == 37 * len(QUANTITIES)
    bounds = {"l2_load": 0.034, "dram_load": 0.022, "l2_store": 0.01, "dram_store": 0.01}
    assert bounds.keys() == set(QUANTITIES)
    for quantity, bound in bounds.items():
        found = errors(cases, quantity)
        assert found.geometric_mean < bound
        # 2x4x128 loads 20 % too much from L2, all others are nearer.
        assert abs(found.worst) < (0.21 if quantity == "l2_load" else 0.094)
        assert abs(errors(wide, quantity).worst) < 0.094
    assert errors(cases, "l2_load").spearman >= 0.95
    assert errors(cases, "dram_load").spearman >= 0.95
    for case in cases:
        if case not in wide and case.quantity == "dram_store":
            assert case.ours == pytest.approx(case.reference, rel=0.05)
            assert abs(8.0 / (case.reference or 1) - 1) > 0.26


def test_v100_profile_as_recorded() -> None:
    """Errors at DRAM above 6 % have only groups that are 64 or 128 high. Only 2x4x128 is above 9 % at L2."""
    truth = measured_volumes()
    recorded = {group_shape(row): row for row in rows("v100_star25_profile_ours.csv")}
    assert len(recorded) == len(truth) == 43
    for quantity, mean, worst, beyond in (
        ("l2_load", 0.034, 0.09, {(2, 4, 128)}),
        ("dram_load", 0.018, 0.06, {(2, 128, 4), (4, 128, 2), (4, 4, 64), (8, 2, 64)}),
        ("dram_store", 0.004, 0.03, set()),
    ):
        off = {s: float(row[quantity]) / truth[s][quantity] for s, row in recorded.items()}
        assert np.expm1(np.abs(np.log(list(off.values()))).mean()) < mean
        assert {shape for shape, one in off.items() if abs(one - 1) >= worst} == beyond
        assert max(abs(one - 1) for one in off.values()) < (0.21 if quantity == "l2_load" else 0.1)


def test_mi250x_laplacian_as_recorded() -> None:
    """All 20 variants are within 10 %. Of 86 pairs that differ by more than 10 %, two are not in the measured order: kernels
    of one row fetch more than one of eight, whose loads are waited for twice instead of once."""
    measured = np.array([float(row["fetch"]) for row in rows("mi250x_laplacian_fetch.csv")])
    recorded = rows("mi250x_laplacian_ours.csv")
    ours = np.array([float(row["fetch"]) for row in recorded])
    n = [int(row["n"]) for row in recorded]
    assert np.exp(np.abs(np.log(ours / measured)).mean()) - 1 < 0.035
    assert np.abs(ours / measured - 1).max() < 0.1
    pairs = [
        (i, j)
        for i, j in itertools.permutations(range(20), 2)
        if n[i] == n[j] and measured[i] > 1.1 * measured[j]
    ]
    assert len(pairs) == 86
    assert {pair for pair in pairs if ours[pair[0]] <= ours[pair[1]]} == {(0, 4), (1, 4)}
    swapped = [(recorded[k]["kernel"], recorded[k]["rows"]) for k in (0, 1, 4)]
    assert swapped == [("1", "1"), ("2", "1"), ("2", "8")]
    large = [k for k in range(20) if n[k] == 1024]
    assert sorted(large, key=lambda k: ours[k]) == sorted(large, key=lambda k: measured[k])


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("v100", "v100_star25_ours.csv"),
        ("h100", "h100_star25_ours.csv"),
        ("mi250x", "mi250x_laplacian_ours.csv"),
    ],
)
def test_a_machine_says_how_far_off_it_was(name: str, table: str) -> None:
    """model_error_points are the errors of the hit ratio that 95 % of the kernels do not exceed."""
    machine = load_machine(name)
    assert dict(machine.model_error_points) == hit_ratio_error_points(table)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_records_are_what_comes_out(tmp_path: Path) -> None:
    """Both full comparisons give the recorded results again."""
    FIGURES["v100-stencil"](tmp_path, False)
    FIGURES["mi250x-laplacian"](tmp_path, False)
    for name in ("v100_star25_ours.csv", "mi250x_laplacian_ours.csv"):
        kept = resources.files("experiments").joinpath("data", name).read_text("utf-8")
        assert (tmp_path / name).read_text() == kept


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_plateaus_of_all_machines(tmp_path: Path) -> None:
    cases = FIGURES["latency"](tmp_path, False).cases
    assert abs(errors(cases, "plateau").worst) < 0.05


def test_a_level_whose_lines_are_shorter_is_asked_for_several() -> None:
    """MI300X: a line of its L2 is two lines of its L3, and the second round hits in both."""
    machine = load_machine("mi300x")
    *inner, outer = machine.levels
    small = dataclasses.replace(outer, size_bytes=16 << 20)
    machine = machine.replace(levels=(*inner, small))
    assert chase_latency(machine, 8 << 10) == pytest.approx(outer.latency_cycles)


def test_no_group_is_deeper_than_cuda_allows() -> None:
    """The grids of three labels in the measurement's notebook: groups are 64 deep in z."""
    machine = load_machine("v100")
    for label, grid in (
        ((2, 4, 128), (316, 126, 8)),
        ((8, 1, 128), (79, 504, 8)),
        ((2, 16, 32), (316, 32, 16)),
    ):
        launch = compiled_star(label, machine)(np.zeros(1, np.int64)).launch
        assert launch.grid == grid
        assert launch.group_shape[2] <= 64
        groups = resident_groups(machine, launch).groups_per_core
        assert groups == 65536 // (32 * launch.group_items)


@pytest.mark.parametrize(
    ("gpu", "name", "sizes_kb"),
    [
        ("a100_80", "a100", (14857.2, 29077.6, 56905.1)),  # near, far, memory
        ("gh200", "h200", (15071.9, 46144.4)),
        ("mi210", "mi210", (1673.6, 5792.4, 7419.4)),  # sets that fill unevenly
    ],
)
def test_chases_beyond_the_near_l2(gpu: str, name: str, sizes_kb: tuple[float, ...]) -> None:
    measured = {
        float(row["buffer_kb"]): float(row["cycles"])
        for row in rows("pointer_chases.csv")
        if row["gpu"] == gpu
    }
    machine = load_machine(name)
    for size_kb in sizes_kb:
        assert chase_latency(machine, size_kb) == pytest.approx(measured[size_kb], rel=0.08)
    if name == "mi210":
        # With evenly filled sets, almost nothing of 7.4 MB would miss an L2 of 8 MB.
        even = dataclasses.replace(machine.levels[1], set_index="xor")
        machine = machine.replace(levels=(machine.levels[0], even))
        assert chase_latency(machine, 7419.4) < 0.75 * 395.2


def test_points_of_a_work_item_follow_one_another_without_merged_loads() -> None:
    """Two points take 25 loads and a store each, and the second begins after the first one's store; Loopy's
    arrays cannot alias, so that the values of neighbouring points would be loaded once."""
    trace = compiled_star((32, 2, 2), load_machine("h100"), points_workload((2, 1)))(
        np.zeros(1, np.int64)
    )
    accesses = slice(*trace.subgroup_offset[:2])
    stores = np.array([site.direction == "store" for site in trace.sites])[trace.site[accesses]]
    np.testing.assert_array_equal(np.flatnonzero(stores), [25, 51])


@pytest.mark.parametrize(("gpu", "name"), [("a100_80", "a100"), ("gh200", "h200")])
def test_l1_of_a_chase_overflows_one_small_set_after_another(gpu: str, name: str) -> None:
    """Between none and all, misses rise over 1.4 times the size that 32 groups' reserved memory leaves.
    Four large sets would overflow within a few percent of it."""
    machine = load_machine(name)
    first, second = machine.levels[:2]
    storage = first.storage_bytes - first.local_carveouts_bytes[0]
    four_sets = dataclasses.replace(
        first,
        size_bytes=storage,
        tagged_bytes=0,
        ways=storage // first.line_bytes // 4,
        set_index="xor",
        carveout_takes="ways",
    )
    edge = [
        (float(row["buffer_kb"]), float(row["cycles"]))
        for row in rows("pointer_chases.csv")
        if row["gpu"] == gpu and float(row["buffer_kb"]) < 400
    ][::2]

    def points_off(level: Level) -> float:
        modelled = machine.replace(levels=(level, *machine.levels[1:]))
        cycles = [chase_latency(modelled, size_kb) - measured for size_kb, measured in edge]
        return 100 * float(np.abs(cycles).mean()) / (second.latency_cycles - first.latency_cycles)

    assert len(edge) > 7
    assert points_off(first) < 10
    assert points_off(four_sets) > 15
