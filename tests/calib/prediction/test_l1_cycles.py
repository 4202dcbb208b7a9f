"""Cycles of L1's pipe by hand: look-ups, banks, coalescing; measured ones are in tests/experiments."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from calib.prediction.costs import access_costs
from calib.prediction.l1_cycles import pipe_cycles
from experiments.hardware.l1_strides import touched_by
from memsim.machine import load_machine
from memsim.montecarlo import replay
from tests.support.traces import make_trace

V100, MI210, RX7900 = (load_machine(name) for name in ("v100", "mi210", "rx7900xtx"))


def cycles(machine: object, items: Sequence[int] | np.ndarray, itemsize_bytes: int) -> float:
    """Of one access; items : the number of each lane's item."""
    touched = touched_by(np.array(items)[None] * itemsize_bytes, itemsize_bytes)
    return float(pipe_cycles(machine, touched, np.array([itemsize_bytes]))[0])  # type: ignore[arg-type]


LANES, WAVE = np.arange(32), np.arange(64)


@pytest.mark.parametrize(
    ("items", "itemsize_bytes", "expected"),
    [
        (LANES, 4, 1),
        (0 * LANES, 4, 1),
        (LANES + 3, 4, 1),  # two lines, one look-up of four
        (2 * LANES, 4, 2),  # 16 of 32 banks, each twice
        (32 * LANES, 4, 32),  # one bank
        (33 * LANES, 4, 9),  # all banks, but 32 lines: 32 / 4 + 1 look-ups
        (LANES, 8, 2),  # half a warp of doubles at a time
        (0 * LANES, 8, 2),
        (LANES + 2, 8, 2),  # a granule that both halves touch
        (LANES, 16, 4),  # a quarter of a warp at a time
        # Rows of four doubles, 32 bytes further in their line each: two halves with two rows a bank.
        (LANES % 4 + LANES // 4 * 4098, 8, 4),
    ],
)
def test_a_warp(items: np.ndarray, itemsize_bytes: int, expected: float) -> None:
    assert cycles(V100, items, itemsize_bytes) == expected


@pytest.mark.parametrize(
    ("items", "itemsize_bytes", "expected"),
    [
        (WAVE, 4, 4),  # 16 neighbouring lanes a cycle
        (0 * WAVE, 4, 4),
        (WAVE, 1, 4),
        (WAVE % 8 + WAVE // 8 * 4096, 4, 8),  # pieces of eight lanes
        (2 * WAVE, 1, 16),  # no piece: four lanes a cycle
        (3 * WAVE, 4, 16),
        (2 * WAVE, 4, 32),  # two of four columns
        (4 * WAVE, 4, 64),  # one column
        (WAVE, 8, 16),  # wide items: four lanes a cycle, also where they are neighbours
        (0 * WAVE, 8, 16),
        (0 * WAVE, 16, 16),
        (4 * WAVE, 8, 32),  # two of eight banks
        (8 * WAVE, 8, 64),  # one bank
        (17 * WAVE, 8, 32),  # every other bank of tags
    ],
)
def test_a_wavefront_of_cdna(items: np.ndarray, itemsize_bytes: int, expected: float) -> None:
    assert cycles(MI210, items, itemsize_bytes) == expected


def test_rdna_has_banks_as_nvidia_has() -> None:
    for stride in (1, 2, 4, 8, 16, 32):
        assert cycles(RX7900, stride * LANES, 4) == stride


def test_a_scalar_load_does_not_occupy_the_pipe() -> None:
    trace = make_trace([[[(0, [0], True, [0xF])]]] * 200, subgroup_size=64)
    machine = load_machine("mi250x")
    by_lanes = access_costs(trace, replay(trace, machine, trials=2), machine)
    site = dataclasses.replace(trace.sites[0], scalar=True)
    scalar = dataclasses.replace(trace, sites=(site,))
    costs = access_costs(scalar, replay(scalar, machine, trials=2), machine)
    assert (by_lanes.pipe_cycles[0], costs.pipe_cycles[0]) == (4, 0)
    np.testing.assert_array_equal(costs.channel_bytes, by_lanes.channel_bytes)
