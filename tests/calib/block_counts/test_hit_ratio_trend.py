"""Extrapolated hit ratios: the line, its interval, and the parts of a cost at a larger size."""

from __future__ import annotations

import numpy as np
import pytest

from calib.block_counts.hit_ratio_trend import Observed, extrapolate, trend
from calib.block_counts.sampling import SampleError
from memsim import load_machine


def test_a_line_in_the_logarithm_is_extrapolated_exactly() -> None:
    sizes = np.array([64.0, 128.0, 256.0, 512.0])
    line = trend(sizes, 0.1 * np.log2(sizes), 4096.0)
    assert line.mean == pytest.approx(1.2)
    assert line.low == pytest.approx(line.high)
    clipped = trend(sizes, 0.1 * np.log2(sizes), 4096.0, most=1.0)
    assert clipped.mean == 1.0


def test_costs_by_hand() -> None:
    machine = load_machine("v100")
    observed = [
        Observed(size, {"L1": 0.5, "L2": 0.75}, 64.0, 400.0) for size in (64.0, 128.0, 256.0, 512.0)
    ]
    cycles = {"ALU": 8.0e9, "FMA": 1.0e9}
    result = extrapolate(observed, 300.0, 1e6, cycles, machine)
    l1, l2 = (level.latency_cycles for level in machine.levels)
    assert result.latency_cycles == pytest.approx(0.5 * l1 + 0.5 * (0.75 * l2 + 0.25 * 400))
    assert result.dram_bytes.mean == pytest.approx(64e6)
    assert result.issue_s == pytest.approx(8.0e9 / machine.n_cores / machine.clock_hz)
    assert result.least_s.mean == result.issue_s
    assert result.warning == ""
    assert "64..512 to 1024" in extrapolate(observed, 1024.0, 1.0, {}, machine).warning
    with pytest.raises(SampleError, match="at least 4 sizes, got 3"):
        extrapolate(observed[:3], 300.0, 1e6, cycles, machine)
