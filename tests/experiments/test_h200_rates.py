"""Rates in the machine file of the H200, and of the H100 after it, are those that were measured."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.data_files import rows
from memsim.machine import load_machine

H200 = load_machine("h200")
L2, DRAM = H200.levels[1], H200.dram
PER_NS = H200.clock_hz / 1e9


def measured(name: str, parameters: str = "") -> float:
    """Median rate of the rows with such parameters, in its unit a nanosecond."""
    found = [
        float(row["rate"])
        for row in rows("h200_rates.csv")
        if row["name"] == name and parameters in row["parameters"]
    ]
    assert found
    return float(np.median(found))


@pytest.mark.parametrize(
    ("per_cycle", "name", "parameters"),
    [
        (H200.group_starts_per_cycle, "empty", "groups=262144 threads=256"),
        (L2.tags_per_cycle, "random_load", "MiB=8"),
        (L2.tags_per_cycle / L2.store_look_ups, "random_sector_store", "MiB=16"),
        (L2.tags_per_cycle / L2.atomic_look_ups, "random_add_float", "MiB=4"),
        (L2.tags_per_cycle / L2.atomic_look_ups, "random_add_int", "MiB=16"),
        (1 / L2.line_float_atomic_cycles, "add_float", "places=1 words_apart=0"),
        (1 / L2.line_atomic_cycles, "add_int", "places=1 words_apart=0"),
        (DRAM.row_activations_per_cycle, "random_block", "MiB=8192 bytes=64"),
        (DRAM.sustained_bandwidth_bytes_per_cycle, "triad", "threads=256"),
    ],
)
def test_rates_are_those_of_small_kernels(per_cycle: float, name: str, parameters: str) -> None:
    assert per_cycle * PER_NS == pytest.approx(measured(name, parameters), rel=0.015)


def test_streams_come_at_the_bandwidth_although_they_miss_more_rows_than_the_triad() -> None:
    """Nothing but bytes limits them: from 1 GiB on, reads, and reads with half as many writes, within 12 %."""
    streams = [
        (float(row["rate"]), int(row["parameters"].split()[0].removeprefix("MiB=")))
        for row in rows("h200_rates.csv")
        if row["name"] == "streams"
    ]
    large = [rate for rate, mib in streams if mib >= 1024]
    assert len(large) >= 7
    ours = DRAM.bandwidth_at(0.2, bytes_per_row=200.0) * PER_NS
    assert max(abs(np.log(np.array(large) / ours))) < 0.12


def test_random_blocks_are_limited_by_rows_where_they_are_small() -> None:
    """Those of two bursts and more come 3 to 10 % slower than streams; without the limit, single ones are 72 % off."""
    for n_bytes, rel in ((64, 0.02), (128, 0.1), (256, 0.07), (1024, 0.07), (4096, 0.07)):
        ours = DRAM.bandwidth_at(0.0, bytes_per_row=float(n_bytes)) * PER_NS
        assert measured("random_block", f"MiB=8192 bytes={n_bytes}") * n_bytes == pytest.approx(
            ours, rel=rel
        )


def test_loads_queue_as_a_chase_beside_streams_does() -> None:
    """Below 90 % of the bandwidth the latency is within 6 % of the measured one; without the queue, it is 32 % off."""
    table = rows("h100_loaded_latency.csv")
    bandwidth, latency = (
        np.array([float(row[name]) for row in table]) for name in ("read_gb_s", "latency_ns")
    )
    part = bandwidth / bandwidth.max()
    below = part < 0.9
    assert below.sum() == 5
    for name in ("h100", "h200"):
        machine = load_machine(name)
        queue_ns = 1e9 * machine.dram.queue_cycles / machine.clock_hz
        ours = latency[0] + queue_ns * part / (2 * (1 - np.minimum(part, 0.97)))
        np.testing.assert_allclose(ours[below], latency[below], rtol=0.06)
        assert latency[below][-1] / latency[0] > 1.3
