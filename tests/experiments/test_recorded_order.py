"""The recorded order of an H200's loads, and its replay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.data_files import rows
from experiments.hardware.affine import Triple
from experiments.hardware.l1_carveouts import beside
from experiments.hardware.recorded_order import (
    COUNTERS,
    LOADS,
    Recorded,
    missed_share,
    order_trace,
    recorded,
    recorded_order,
)
from experiments.hardware.stencil_volumes import group_shape
from memsim.machine import load_machine

COUNTED = {
    (group_shape(row), int(row["shared_kb"])): row
    for row in rows(COUNTERS)
    if row["recording"] == "yes"
}
WARPS = 632 * 504 * 504 // 32


@pytest.mark.parametrize(("shape", "shared_kb"), COUNTED)
def test_each_sub_group_performs_its_accesses_in_order(shape: Triple, shared_kb: int) -> None:
    order = recorded(shape, shared_kb)
    sub_group = order.group * 32 + order.sub_group
    for one in np.unique(sub_group):
        assert list(order.access[sub_group == one]) == [*range(len(LOADS) + 1)]
    assert 0.4 < order.counted.mean() < 1


@pytest.mark.parametrize(("shape", "shared_kb"), COUNTED)
def test_loads_ask_for_as_many_sectors_as_the_gpu_counted(shape: Triple, shared_kb: int) -> None:
    order = recorded(shape, shared_kb)
    trace = order_trace(order, shape)
    is_load = order.access < len(LOADS)
    asked = np.diff(trace.granule_offset)[is_load].sum() / is_load.sum()
    updates = int(trace.lanes[0]) * WARPS / (632 * 504 * 504)
    assert updates == 1
    counted = int(COUNTED[shape, shared_kb]["load_sectors"]) / (WARPS * len(LOADS))
    assert asked == pytest.approx(counted, rel=0.002)


def test_addresses_of_one_load() -> None:
    """Work-item 37 of group 400, of 2 x 4 x 64: x = 1, y = 2, z = 4 within the group, whose number is 84 along x
    and 1 along y; the load is one row above."""
    one = Recorded(*(np.array([value]) for value in (400, 1, LOADS.index((0, -1, 0)), True)))
    trace = order_trace(one, (2, 4, 64))
    x, y, z = 2 * 84 + 1, 4 * 1 + 2, 4
    first = 1313312  # of the interior, in elements: 4 planes, rows and elements from the start, aligned to 256 bytes
    address = (1 << 21) + 8 * (first + x + 640 * (y - 1) + 640 * 512 * z)
    at = list(trace.granule).index(address // 32)
    assert trace.byte_mask[at] >> (address % 32) & 0xFF == 0xFF
    assert sum(bin(mask).count("1") for mask in trace.byte_mask) == 32 * 8


def test_a_cache_for_everything_misses_each_sector_once() -> None:
    """An L1 that nothing is taken from, and one group after the other: misses are cold."""
    shape = (2, 4, 64)
    order = recorded(shape, 16)
    group = order.group == order.group[0]
    alone = Recorded(*(column[group] for column in order))._replace(
        counted=np.ones(group.sum(), np.bool_)
    )
    trace = order_trace(alone, shape)
    is_load = np.repeat(alone.access < len(LOADS), np.diff(trace.granule_offset))
    cold = len(np.unique(trace.granule[is_load])) / is_load.sum()
    missed = missed_share(alone, shape, load_machine("h200"))
    assert cold <= missed <= 1.02 * cold  # few lines share a set of four ways


def test_the_figure(tmp_path: Path) -> None:
    figure = recorded_order(tmp_path, quick=True)
    assert len(figure.cases) == 2
    for case in figure.cases:
        assert case.ours is not None
        assert case.reference is not None
        assert 0 < abs(case.ours - case.reference) < 5
    far_smaller = missed_share(
        recorded((2, 4, 64), 16), (2, 4, 64), beside(load_machine("h200"), 228)
    )
    assert 100 * far_smaller > (figure.cases[0].reference or 0) + 20  # the size matters
