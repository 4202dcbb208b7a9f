"""Tables of measurements: they are of kernels and machines that are there, agree in themselves, and are quoted as they are."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import experiments
from experiments.data_files import rows, source
from experiments.hardware.babelstream import READ, STREAM, WRITTEN, babelstream
from experiments.hardware.babelstream import TABLE as BABELSTREAM
from experiments.hardware.comparison import errors
from experiments.hardware.derivatives import TABLE as DERIVATIVES
from experiments.hardware.derivatives import measured_ms, name_of
from experiments.hardware.h100_stencil import SECTOR_BYTES, UPDATES, measured
from experiments.hardware.h100_stencil import TABLE as H100
from experiments.hardware.matmul_steps import TABLES
from experiments.hardware.tensor_steps import TABLES as ON_TENSOR_CORES
from experiments.hardware.tuned_kernels import DEDISPERSION
from experiments.kernels import matmul_steps, tensor_memory_steps, tensor_steps, warp_group_steps
from experiments.kernels.dedispersion import delays_in_samples
from memsim.machine import load_machine


def test_steps_of_products_are_kernels_that_are_there() -> None:
    """All of them but for the RX 7900 XTX, of whose ladder two kernels have such tiles."""
    steps = {name: [row["step"] for row in rows(table)] for name, table in TABLES.items()}
    assert steps.pop("rx7900xtx") == ["tiled", "blocks"]
    assert list(steps.values()) == [list(matmul_steps.STEPS)] * 2
    listed, in_tensor_memory, by_warp_groups = (rows(table) for table in ON_TENSOR_CORES)
    assert {row["step"] for row in listed} <= set(tensor_steps.STEPS)
    assert {row["machine"] for row in listed} == {"rtxpro6000", "h100"}
    assert [row["step"] for row in in_tensor_memory] == list(tensor_memory_steps.STEPS)
    assert {row["step"] for row in by_warp_groups} == set(warp_group_steps.STEPS)


def test_derivatives_are_launches_that_there_are() -> None:
    """At 980 GB/s, 2 x 512^3 values and a halo of 8 planes take 1.104 ms."""
    listed = rows(DERIVATIVES)
    by_name = {name_of(row): measured_ms(row) for row in listed}
    assert len(by_name) == len(listed)
    expected = (2 * 512**3 + 8 * 512**2) * 4 / 980e6
    assert by_name["x radius 4 lanes 1 aligned wide groups"] == pytest.approx(expected)


def test_the_dedispersion_is_the_measured_problem() -> None:
    """2048 dispersion measures shift the lowest of 1536 channels by less than the 650 samples of its rows."""
    delays = delays_in_samples(1536)
    assert 640 < 2048 * 0.02 * delays[0] < 650
    assert delays[-1] == 0
    assert (delays[1:] < delays[:-1]).all()
    configurations = rows(DEDISPERSION.table)
    assert len(configurations) == 100
    for row in configurations:
        assert 32 <= int(row["block_size_x"]) * int(row["block_size_y"]) <= 1024
        for axis in "xy":
            assert row[f"tile_size_{axis}"] != "1" or row[f"tile_stride_{axis}"] == "0"


def test_counters_of_the_h100_agree_with_each_other() -> None:
    assert len(measured()) == 59
    assert "Nsight Compute" in source(H100)
    for row in rows(H100):
        loads, hits = int(row["l1_load_sectors"]), int(row["l1_load_hit_sectors"])
        # A load that misses L1 is a read of L2, or is merged with another core's (at most 9 % are).
        assert math.isclose(loads - hits, int(row["l2_read_sectors"]), rel_tol=0.09)
        assert int(row["l2_read_hit_sectors"]) <= int(row["l2_read_sectors"])
        # Every point is stored once, with whole sectors or more.
        stored_bytes = int(row["l1_store_sectors"]) * SECTOR_BYTES
        assert stored_bytes >= 8 * UPDATES
        assert int(row["dram_read_bytes"]) >= 8 * UPDATES


def test_the_readme_quotes_the_errors_of_the_calibrated_models() -> None:
    readme = (Path(experiments.__file__).parent / "README.md").read_text("utf-8")
    table = {(row["figure"], row["case"]): row for row in rows("h100_perflex_ours.csv")}
    for figure, application in (
        ("figure-7", "matrix product"),
        ("figure-8", "DG differentiation"),
        ("figure-9", "finite differences"),
    ):
        linear, overlap = (float(table[figure, case]["ours"]) for case in ("linear", "overlap"))
        assert f"| {application} | {linear:.1f} | {overlap:.1f} | " in readme


@pytest.mark.parametrize("row", rows(BABELSTREAM), ids=lambda row: row["machine"])
def test_what_a_machine_took_of_babelstream_is_what_it_says(row: dict[str, str]) -> None:
    machine = load_machine(row["machine"])
    for kernel in row["chose"].split():
        written = WRITTEN[kernel]
        ours = machine.dram.bandwidth_at(math.nan, written=written) * machine.clock_hz
        assert ours == pytest.approx(1e9 * float(row[kernel]), rel=1e-3)


def test_the_other_rates_of_babelstream_are_near(tmp_path: Path) -> None:
    """Of reads the dot product is farther off: on an A100 it is slower than streams that write."""
    cases = babelstream(tmp_path, quick=True).cases
    streams, reads = errors(cases, STREAM), errors(cases, READ)
    assert (streams.n, reads.n) == (27, 3)
    assert streams.geometric_mean < 0.03
    assert abs(streams.worst) < 0.1
    assert reads.geometric_mean < 0.15
