"""The derivatives along one axis: the table has launches that there are."""

from __future__ import annotations

import pytest

from experiments.data_files import rows
from experiments.hardware.derivatives import TABLE, measured_ms, name_of


def test_the_table_has_launches_that_there_are() -> None:
    """At 980 GB/s, 2 x 512^3 values and a halo of 8 planes take 1.104 ms."""
    listed = rows(TABLE)
    assert len({name_of(row) for row in listed}) == len(listed)
    by_name = {name_of(row): measured_ms(row) for row in listed}
    expected = (2 * 512**3 + 8 * 512**2) * 4 / 980e6
    assert by_name["x radius 4 lanes 1 aligned wide groups"] == pytest.approx(expected)
