"""The stochastic reproduction: hit ratios, sigmas, coverage, gains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.drawing import bars
from experiments.kernels import matrices, stream
from experiments.kernels.spmv import spmv_of
from experiments.kernels.spmv_vectorised import spmv_vectorised_of
from experiments.reproduction import page
from experiments.stochastic import hit_ratios
from experiments.stochastic.applications import Application
from experiments.stochastic.case_study import (
    Gain,
    _array_of,
    _bars,
    _order,
    _replayed,
    draw_latencies,
    gain,
)
from experiments.stochastic.convergence import (
    _stop,
    coverage,
    draw_convergence,
    draw_coverage,
    exact_coverage,
    repetition,
    running_sigma,
    small_replay,
)
from experiments.stochastic.dram_latency import draw_densities
from experiments.stochastic.replays import QUANTITIES, ratios, replays_of, traces_of
from memsim.machine.file import load_machine
from memsim.montecarlo.trial import Workspace
from memsim.montecarlo.workers import hit_ratio
from memsim.statistics import describe
from tests.support.traces import make_trace
from tests.support.trials import run_trials


def test_the_machine_is_that_of_section_2_1() -> None:
    machine = load_machine("c2050")
    l1, l2 = machine.levels
    assert machine.n_cores == 14
    assert (l1.size_bytes, l1.line_bytes, l1.ways) == (16 << 10, 128, 64)
    assert (l2.size_bytes, l2.line_bytes, l2.ways) == (768 << 10, 32, 64)
    assert (l2.write_policy, l2.write_allocate) == ("write_back", "update_memory_and_fetch")
    assert l2.store_hits_only_written


def test_ratios_count_launches_together() -> None:
    """Four loads of one line, then four of four lines: three hits of eight in L1."""
    same = make_trace([[[(0, [0]), (0, [0]), (0, [0]), (0, [0]), (1, [40])]]], ("load", "store"))
    others = make_trace([[[(0, [4 * k]) for k in range(4)]]], ("load", "store"))
    machine = load_machine("c2050")
    replays = replays_of([same, others], machine, 3)
    np.testing.assert_allclose(ratios(replays, "L1", "load"), 3 / 8)
    np.testing.assert_allclose(ratios(replays, "L2", "store"), 0)
    assert np.isnan(ratios(replays[1:], "L2", "store")).all()


def written(tmp_path: Path, name: str) -> None:
    picture = (tmp_path / name).read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000


def test_running_sigma_is_that_of_each_beginning(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(40, 0.01, 50)
    expected = [values[:n].std(ddof=1) for n in range(2, 51)]
    result = running_sigma(values)
    assert np.isnan(result[0])
    np.testing.assert_allclose(result[1:], expected, rtol=1e-6)
    written(tmp_path, draw_convergence(tmp_path / "sigma.png", result))


def test_exact_coverage_of_a_mean_with_an_error() -> None:
    """Compared with drawn normal values, within five standard errors."""
    assert exact_coverage(16, 10**9) == pytest.approx(0.95, abs=1e-6)
    rng = np.random.default_rng(5)
    n, truth_trials, draws = 64, 128, 1500
    values = rng.normal(size=(draws, n))
    truth = rng.normal(size=(draws, truth_trials)).mean(axis=1)
    inside = [
        abs(describe(v).mean - t) <= describe(v).half_width
        for v, t in zip(values, truth, strict=True)
    ]
    expected = exact_coverage(n, truth_trials)
    assert expected < 0.92
    assert abs(np.mean(inside) - expected) < 5 * (expected * (1 - expected) / draws) ** 0.5


def test_coverage_of_a_few_repetitions_which_stop_as_a_replay_does(tmp_path: Path) -> None:
    """Within five standard errors of 95 %; intervals a quarter as wide fail the same test."""
    plan, sites = small_replay()
    work = Workspace(plan)
    # The trials of a repetition, and their number, are those of `memsim replay --ci`.
    counts = repetition(plan, work, 3, 80)
    results, _ = run_trials([plan], seed=3, trials=80, ci=0.024)
    assert 32 < len(results) < 80
    assert _stop(counts, 0.024) == len(results)
    for ours, theirs in zip(counts, results, strict=False):
        np.testing.assert_array_equal(ours, theirs.counts)

    repetitions = 25
    covered = coverage(plan, sites, most=16, repetitions=repetitions, truth_trials=128)
    share = covered.shares["16 trials"]["L2 x[indices[j]]"]
    five_errors = 5 * (0.95 * 0.05 / repetitions) ** 0.5
    assert share >= 0.95 - five_errors
    assert "L1 store y[i]" not in covered.shares["16 trials"]  # it never varies
    assert (covered.stopped_at == 16).all()
    written(tmp_path, draw_coverage(tmp_path / "coverage.png", covered.shares))
    column = len(sites) + sites.index("x[indices[j]]")
    truth = hit_ratio(repetition(plan, work, 99, 64)).reshape(64, -1)[:, column].mean()
    narrow = 0
    for seed in range(12):
        values = hit_ratio(repetition(plan, work, seed, 16)).reshape(16, -1)[:, column]
        estimates = describe(values)
        narrow += abs(estimates.mean - truth) <= estimates.half_width / 4
    assert narrow / 12 < 0.95 - five_errors


def test_a_gain_has_the_interval_of_a_ratio() -> None:
    """The interval is correct to first order: compared with many drawn ratios of means."""
    rng = np.random.default_rng(1)
    n, draws = 16, 1500
    scalar, vectorised = (rng.normal(mean, 2.0, (draws, n)) for mean in (90, 30))
    result = [gain(describe(a), describe(b)) for a, b in zip(scalar, vectorised, strict=True)]
    inside = np.mean([abs(g.value - 3) <= g.half_width for g in result])
    assert 0.94 < inside < 0.985  # Student's factor of each side is larger than that of both


def test_an_order_says_whether_it_is_the_papers_and_loads_are_of_their_arrays() -> None:
    paper = {"u": {"x": Gain(value=1.0)}, "U": {"x": Gain(value=2.0)}}
    paper |= {"b": {"x": Gain(value=3.0)}, "B": {"x": Gain(value=4.0, half_width=0.1)}}
    assert _order(paper, "x").endswith("B 4.00 ± 0.10, b 3.00, U 2.00, u 1.00: the paper's order.")
    swapped = paper | {"u": {"x": Gain(value=9.0)}}
    assert "the paper's order is B > b > U > u" in _order(swapped, "x")
    for load, array in (
        ("x[indices[j]]", "x"),
        ("indices[j] #2", "indices"),
        ("((__global const float4 *)values)[j / 4]", "values"),
    ):
        assert _array_of(load) == array


@pytest.fixture(scope="module")
def block_diagonal() -> dict[str, Any]:
    """Both kernels with full rows of 32: no prologue, no epilogue."""
    matrix = matrices.csr("b", 4096)
    machine = load_machine("c2050")
    workloads = {"scalar": spmv_of(matrix, 256), "vectorised": spmv_vectorised_of(matrix, 256)}
    return {name: _replayed(workload, machine, 2) for name, workload in workloads.items()}


def test_latency_of_a_row_is_that_of_its_loads(block_diagonal: dict[str, Any]) -> None:
    """An execution serves 32 rows; the scalar kernel reads single entries, the other one four at a
    time. Values and indices of 32 entries once are 256 bytes; four-entry loads miss less often."""
    for name, per_row in (("scalar", 32), ("vectorised", 8)):
        kernel = block_diagonal[name]
        assert sum(load.per_row for load in kernel.loads) == pytest.approx(
            kernel.latency_per_row.mean
        )
        (values,) = [load for load in kernel.loads if load.array == "values"]
        assert values.per_row == pytest.approx(per_row / 32 * values.latency.mean, rel=1e-6)
        assert not values.is_edge
        # Rows of one length stream from memory: 3 of 4 bytes that a C2050 has go by.
        moved_s = kernel.dram_per_row.mean * 4096 / 144e9
        assert (1 - 1e-5) * moved_s < kernel.predicted_s.mean < 2 * moved_s  # the bound, rounded
        assert kernel.limit in ("DRAM", "latency")
    scalar, vectorised = (block_diagonal[name].dram_per_row.mean for name in block_diagonal)
    assert scalar > vectorised > 256


def test_pictures_of_the_case_study(tmp_path: Path, block_diagonal: dict[str, Any]) -> None:
    """The scalar kernel's row is 1 by definition, the vectorised one's the inverse of its gain."""
    drawn = _bars({"b": block_diagonal})
    scalar, vectorised = (sum(s.per_row for s in segments) for segments in drawn.values())
    result = gain(
        block_diagonal["scalar"].latency_per_row, block_diagonal["vectorised"].latency_per_row
    )
    assert scalar == pytest.approx(1)
    assert vectorised == pytest.approx(1 / result.value)
    assert max(s.once for s in next(iter(drawn.values()))) == pytest.approx(1)
    written(tmp_path, draw_latencies(tmp_path / "bars.png", drawn))
    ours = (result.value, result.half_width)
    gains = {"b": {"paper": (3.63, float("nan")), "load latency": ours}}
    written(tmp_path, bars(tmp_path / "gains.png", gains, "gains", "gain", floor=0.5))
    samples = {"m": {"SpMV": np.random.default_rng(0).gamma(4, 100, 500)}}
    written(tmp_path, draw_densities(tmp_path / "latency.png", samples))


def test_figures_5_and_6_of_two_small_applications(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers are those of a separate replay; hit ratios that do not vary count in the
    average."""
    copy = Application(name="copy", size="small", build=lambda: [stream.copy(n=1 << 15)])
    small = matrices.csr("u", 4000)
    spmv = Application(name="SpMV", size="small", build=lambda: [spmv_of(small, 256)])
    monkeypatch.setattr(hit_ratios, "APPLICATIONS", (copy, spmv))
    figure = hit_ratios.figures_5_and_6(tmp_path, True)
    values = {(c.case, c.quantity): c for c in figure.cases}
    machine = load_machine("c2050")
    replays = replays_of(traces_of(spmv.build(), machine), machine, hit_ratios.TRIALS_QUICK)
    mean = describe(100 * ratios(replays, "L2", "load"))
    assert values["SpMV", "L2 load"].ours == pytest.approx(mean.mean)
    assert values["SpMV", "L2 load"].ci95 == pytest.approx(mean.half_width)
    vary = [c.ours for c in figure.cases if c.quantity in {f"{q} sigma" for q in QUANTITIES}]
    assert 0 < len(vary) <= 3  # of the copy, nothing does
    sigmas = [*vary, *[0.0] * (6 - len(vary))]
    stricter = values["c2050", "average sigma, where not 0"]
    assert stricter.ours == pytest.approx(np.mean(vary))
    average = values["c2050", "average sigma"]
    assert average.reference == 1
    assert average.ours == pytest.approx(np.mean(sigmas))
    errors = [c for c in figure.cases if c.quantity.endswith("error")]
    assert [c.reference for c in errors] == [3.4, 1.9, 0.8]
    assert all(c.ours is None for c in errors)
    assert (tmp_path / "figures-5-6.png").read_bytes().startswith(b"\x89PNG")
    assert "1,000" not in page("t", {"f": figure})
