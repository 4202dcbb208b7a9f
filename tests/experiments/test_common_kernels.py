"""Ordinary kernels that an H200 ran: the tables of what was measured, and the figures."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from experiments import cases
from experiments.data_files import rows
from experiments.hardware.common_kernels import (
    COUNTERS,
    LEAST_BYTES,
    TABLE,
    common_times,
    common_traffic,
    predicted,
    profiled,
    time_finding,
    traffic_cases,
    traffic_finding,
)
from experiments.hardware.comparison import errors
from experiments.kernels.common_kernels import KERNELS, hashed
from experiments.reproduction import Case
from memsim.machine import load_machine
from tests.support.cuda_kernels import needs_clang


def test_the_hash_is_the_devices() -> None:
    """The words that the H200 computed, of which these were read back."""
    assert zlib.crc32(hashed(4096, 5).tobytes()) == 0xE009032


def test_the_tables_have_all_kernels_in_order() -> None:
    for name in (TABLE, "h200_common_kernels_ours.csv", "h200_common_traffic_ours.csv"):
        assert [row["kernel"] for row in rows(name)] == list(KERNELS)


def test_counters_agree_with_what_kernels_must_move() -> None:
    """A vector sum reads two arrays and writes one; some of what it wrote is still in L2 at its end."""
    counted = {row["kernel"]: row for row in rows(TABLE)}
    array_bytes = 4 * 32 << 20
    for name in ("vadd1", "vadd4"):
        assert COUNTERS["l2_read"](counted[name]) == 2 * array_bytes
        assert COUNTERS["dram_read"](counted[name]) == pytest.approx(2 * array_bytes, rel=1e-4)
        assert 0.8 * array_bytes < COUNTERS["dram_write"](counted[name]) < array_bytes


def test_rates_are_work_over_time() -> None:
    rate = {(row["name"], row["parameters"]): row for row in rows("h200_rates.csv")}
    for (name, parameters), row in rate.items():
        given = dict(word.split("=") for word in parameters.split())
        work = {
            "groups/ns": int(given.get("groups", 0)),
            "bytes/ns": int(given.get("MiB", 0)) << 20,
            "loads/ns": 32 * 270_336 if name == "random_load" else 4096 * 8192,
        }.get(row["unit"])
        if work is not None:
            found = work / float(row["time_us"]) / 1000
            assert float(row["rate"]) == pytest.approx(found, rel=1e-3), (name, parameters)


def test_times_as_recorded() -> None:
    ours = {row["kernel"]: float(row["time_us"]) for row in rows("h200_common_kernels_ours.csv")}
    cases = [
        Case(name, "time", "us", reference=float(row["time_cold_us"]), ours=ours[name])
        for row in rows(TABLE)
        for name in [row["kernel"]]
    ]
    everything = errors(cases, "time")
    assert everything.geometric_mean == pytest.approx(0.088, abs=0.001)
    assert everything.spearman == pytest.approx(0.982, abs=0.001)
    assert everything.worst_case == "bitonic_step"
    assert time_finding(cases) == f"time: {everything}; 29 within 20 %"


def test_traffic_as_recorded() -> None:
    cases = traffic_cases(rows(TABLE), rows("h200_common_traffic_ours.csv"))
    for quantity, n, within, error in (
        ("l2_read", 30, 27, 0.030),
        ("dram_read", 30, 28, 0.024),
        ("dram_write", 22, 19, 0.087),
    ):
        chosen = [case for case in cases if case.quantity == quantity]
        assert len(chosen) == n
        assert all(case.reference and case.reference >= LEAST_BYTES / 1e6 for case in chosen)
        assert all(case.ours for case in chosen), "no prediction is zero"
        assert errors(cases, quantity).geometric_mean == pytest.approx(error, abs=0.001)
        assert traffic_finding(cases, quantity).endswith(f"; {within} within 10 %")


@needs_clang
def test_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one small kernel, which gives what is recorded or nearly what was counted."""
    monkeypatch.setattr(cases, "sample", lambda figure, names: ["bmm8"])
    figure = common_times(tmp_path, quick=True)
    ours = {row["kernel"]: float(row["time_us"]) for row in rows("h200_common_kernels_ours.csv")}
    assert [case.case for case in figure.cases] == ["bmm8"]
    for case in figure.cases:
        assert case.ours == pytest.approx(ours[case.case], rel=0.02)
    traffic = common_traffic(tmp_path, quick=True)
    assert [case.quantity for case in traffic.cases] == list(COUNTERS)
    for case in traffic.cases:
        assert case.ours == pytest.approx(case.reference, rel=0.1)
    assert all((tmp_path / name).exists() for one in (figure, traffic) for name in one.pictures)


@pytest.mark.slow
@needs_clang
def test_a_kernel_is_what_the_records_say() -> None:
    """With default options; all of them would take an hour."""
    machine = load_machine("h200")
    (time,) = (row for row in rows("h200_common_kernels_ours.csv") if row["kernel"] == "bmm8")
    timing = predicted(KERNELS["bmm8"](), machine).timing
    assert 1e6 * timing.estimate.mean == pytest.approx(float(time["time_us"]), rel=1e-3)
    (bytes_,) = (row for row in rows("h200_common_traffic_ours.csv") if row["kernel"] == "bmm8")
    moved = profiled(KERNELS["bmm8"](), machine)
    for quantity in COUNTERS:
        assert moved[quantity] == pytest.approx(float(bytes_[quantity]), rel=0.01)
