"""The dedispersion of the tuning runs: its problem and its configurations."""

from __future__ import annotations

from experiments.data_files import rows
from experiments.hardware.tuned_kernels import DEDISPERSION
from experiments.kernels.dedispersion import delays_in_samples


def test_the_delays_are_those_of_the_measured_problem() -> None:
    """2048 dispersion measures shift the lowest of 1536 channels by less than the 650 samples of its rows."""
    delays = delays_in_samples(1536)
    assert 640 < 2048 * 0.02 * delays[0] < 650
    assert delays[-1] == 0
    assert (delays[1:] < delays[:-1]).all()


def test_the_configurations_are_a_sample_of_the_measured_space() -> None:
    configurations = rows(DEDISPERSION.table)
    assert len(configurations) == 100
    for row in configurations:
        items = int(row["block_size_x"]) * int(row["block_size_y"])
        assert 32 <= items <= 1024
        for axis in "xy":
            assert row[f"tile_size_{axis}"] != "1" or row[f"tile_stride_{axis}"] == "0"
