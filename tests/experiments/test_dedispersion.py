"""The dedispersion of the tuning runs: what it computes."""

from __future__ import annotations

import pytest

from experiments.data_files import rows
from experiments.hardware.tuned_kernels import DEDISPERSION
from experiments.kernels.dedispersion import dedispersion, delays_in_samples
from tests.support.cuda_kernels import is_right_and_a_wrong_one_is_seen, needs_clang


@needs_clang
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"block_size_x": 8, "tile_size_x": 3, "samples": 100},
        {"block_size_y": 8, "tile_size_x": 2, "tile_size_y": 3, "tile_stride_x": 1, "measures": 50},
        {"block_size_x": 1, "tile_size_y": 2, "tile_stride_y": 1, "channels": 9},
    ],
)
def test_it_computes_the_shifted_sums(parameters: dict[str, int]) -> None:
    is_right_and_a_wrong_one_is_seen(dedispersion(**parameters))


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
