"""BabelStream's rates: what machine files took of them, and how near they are to the others."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from experiments.data_files import rows
from experiments.hardware.babelstream import READ, STREAM, TABLE, WRITTEN, babelstream
from experiments.hardware.comparison import errors
from memsim.machine import load_machine


@pytest.mark.parametrize("row", rows(TABLE), ids=lambda row: row["machine"])
def test_what_a_file_took_is_what_it_says(row: dict[str, str]) -> None:
    dram, clock_hz = load_machine(row["machine"]).dram, load_machine(row["machine"]).clock_hz
    for kernel in row["chose"].split():
        ours = dram.bandwidth_at(math.nan, written=WRITTEN[kernel]) * clock_hz
        assert ours == pytest.approx(1e9 * float(row[kernel]), rel=1e-3)


def test_the_other_rates_are_near(tmp_path: Path) -> None:
    """Of reads the dot product is farther off: on an A100 it is slower than streams that write."""
    cases = babelstream(tmp_path, quick=True).cases
    streams, reads = errors(cases, STREAM), errors(cases, READ)
    assert (streams.n, reads.n) == (27, 3)
    assert streams.geometric_mean < 0.03
    assert abs(streams.worst) < 0.1
    assert reads.geometric_mean < 0.15
