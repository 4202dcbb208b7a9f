"""Rounds through neighbouring lines, beside local memory of nine sizes."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.data_files import rows
from experiments.hardware.l1_carveouts import TABLE, beside, missed_share, misses_of, points_off
from memsim.hierarchy.set_index import hopper
from memsim.machine import load_machine

MEASURED = {
    (int(row["shared_kb"]), int(row["lines"])): float(row["missed_lines"]) for row in rows(TABLE)
}
SIZES = sorted({size for size, _ in MEASURED})
STORAGE_LINES = 2048


def test_nine_sizes_were_measured() -> None:
    assert len(SIZES) == 9


@pytest.mark.parametrize("size", SIZES)
def test_four_to_eight_kilobytes_more_than_local_memory_are_missing(size: int) -> None:
    left = STORAGE_LINES - 8 * size
    assert MEASURED[size, left - 64] < 0.005 * left  # five lines are those of one set
    assert MEASURED[size, left - 32] > 0.05 * left


@pytest.mark.parametrize("size", [16, 132, 228])
def test_lines_are_missed_from_eight_kilobytes_before_the_rest_on(size: int) -> None:
    machine = beside(load_machine("h200"), size)
    left = machine.levels[0].capacity_lines
    assert left == STORAGE_LINES - 8 * size - 64
    assert machine.levels[0].n_sets == 512
    assert missed_share(machine, left) == 0
    assert 0 < missed_share(machine, left + 16) < 1
    assert missed_share(machine, 2 * left) == 1


def test_the_measured_function_puts_dependent_lines_into_one_set() -> None:
    """They come from another measurement, of random loads among 4,000 lines."""
    number = {int(row["line_bit"]): int(row["number"]) for row in rows("h200_l1_sets.csv")}
    assert sorted(number) == list(range(9, 28))
    bits = np.array([1 << bit for bit in number], np.int64)
    assert list(hopper(bits, 512)) == list(number.values())
    dependent = np.array([625, 1051, 1642, 2422, 2823, 3437, 3868], np.int64)
    assert not hopper(dependent, 512).any()


@pytest.mark.parametrize("size", [16, 132])
def test_missed_lines_are_about_the_measured_ones(size: int) -> None:
    some = [row for row in rows(TABLE) if row["shared_kb"] == str(size)][::3]
    cases = [case for row in some for case in misses_of(row).cases]
    assert 1 < points_off(cases, f"beside {size} KB") < 15
