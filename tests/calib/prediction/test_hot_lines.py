"""Atomic operations on one line, counted by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from calib.prediction.hot_lines import hot_line_cycles
from experiments.data_files import rows
from memsim.machine import Machine, load_machine, machine_names
from memsim.trace import Trace
from tests.support.traces import make_trace

H200 = load_machine("h200")
FLOATS, INTEGERS = 3.524, 1.494


MEASURED_MS = {"v100": 2.73152, "a100": 2.600448, "titan_v": 2.775552, "titan_x": 3.583408}
"""Of 1,048,576 floating-point additions to one word, by ptheywood/atomicAddBench."""


def test_gpus_with_an_l2_have_rates_of_contended_atomics_as_measured() -> None:
    for name in {*machine_names()} - {"c1060", "cpu-pocl"}:
        machine = load_machine(name)
        level = next(one for one in machine.levels if one.write_policy == "write_back")
        assert level.cores_per_instance > 1, name
        assert 0 < level.line_atomic_cycles <= level.line_float_atomic_cycles, name
        ms = 1e3 * (1 << 20) * level.line_float_atomic_cycles / machine.clock_hz
        assert ms == pytest.approx(MEASURED_MS.get(name, ms), rel=0.001)


def atomics(
    groups: list[list[list[tuple[int, list[int]]]]], hits: int, *, floating: bool = True
) -> Trace:
    """Every granule is accessed by as many lanes, all at its first word."""
    words = [
        [[(site, granules, True, [0xF] * len(granules)) for site, granules in one] for one in group]
        for group in groups
    ]
    made = make_trace(words, ("atomic", "atomic"))
    sites = tuple(dataclasses.replace(site, floating=floating) for site in made.sites)
    return made.replace(sites=sites, lane_hits=np.full(made.n_granule, hits, np.uint8))


def cycles(trace: Trace, machine: Machine = H200) -> list[float]:
    return hot_line_cycles(trace, machine, trace.n_access).tolist()


ONE_WORD: Any = [[[(0, [5])]]] * 8


@pytest.mark.parametrize("hits", [1, 32])
def test_all_on_one_word_wait_for_one_another(hits: int) -> None:
    assert cycles(atomics(ONE_WORD, hits)) == pytest.approx([hits * FLOATS, 0])
    integers = atomics(ONE_WORD, hits, floating=False)
    assert cycles(integers) == pytest.approx([hits * INTEGERS, 0])


def test_words_of_a_line_are_served_together() -> None:
    """Four granules of one line in each access; in two lines, each has half of them, and one is waited for."""
    assert cycles(atomics([[[(0, [4, 5, 6, 7])]]] * 8, 1)) == pytest.approx([1.435 * FLOATS, 0])
    assert cycles(atomics([[[(0, [2, 3, 4, 5])]]] * 8, 1)) == pytest.approx([1.145 * FLOATS, 0])


def test_sites_share_the_line() -> None:
    """The second site is on it in every other execution."""
    groups = [[[(0, [5]), (1, [6]), (1, [50 + 4 * g])]] for g in range(8)]
    assert cycles(atomics(groups, 1)) == pytest.approx([FLOATS, FLOATS / 2])


def test_lines_of_their_own_are_no_hot_line() -> None:
    """The negative control: the line that half of the groups use most is not used by the others."""
    assert cycles(atomics([[[(0, [4 * g])]] for g in range(8)], 1)) == [0, 0]


def test_lines_that_groups_take_in_turn() -> None:
    """256 groups, each on one of 2 lines: the busiest has about its share, wherever its groups lie."""
    groups = [[[(0, [4 * (g % 2)])]] for g in range(256)]
    assert cycles(atomics(groups, 1))[0] == pytest.approx(FLOATS / 2, rel=0.25)


EMPTY_US, WARPS = 3.36, 8448 * 16
"""What 1,056 groups take that do nothing, and how many warps add, of h200_rates.csv."""


@pytest.mark.parametrize(
    ("name", "parameters", "lines", "sectors", "off"),
    [
        ("add_float", "places=1 words_apart=0", 1, 1, 0.02),
        ("add_float", "places=8 words_apart=32", 8, 1, 0.02),
        ("add_float", "places=64 words_apart=32", 64, 1, 0.02),
        ("add_int", "places=8 words_apart=32", 8, 1, 0.3),
        ("add_int", "places=64 words_apart=32", 64, 1, 0.02),
        ("warp_add_float", "lanes_apart=1 places=1", 1, 4, 0.02),
        ("warp_add_float", "lanes_apart=1 places=64", 64, 4, 0.07),
    ],
)
def test_measured_times_of_many_lines(
    name: str, parameters: str, lines: int, sectors: int, off: float
) -> None:
    """Every warp takes one of so many lines in turn, which all groups use: as long as an H200 did, in all."""
    group = [(0, [4 * line + k for k in range(sectors)]) for line in range(lines)]
    trace = atomics([[group]] * 8, 1, floating="float" in name)
    measured = {(row["name"], row["parameters"]): row["time_us"] for row in rows("h200_rates.csv")}
    us = float(measured[name, parameters])
    ours = 1e6 * WARPS * cycles(trace)[0] / H200.clock_hz + EMPTY_US
    assert ours == pytest.approx(us, rel=off)


def test_nothing_is_known_without_rates_or_without_atomics() -> None:
    assert cycles(atomics(ONE_WORD, 1), load_machine("cpu-pocl")) == [0, 0]
    assert cycles(make_trace([[[(0, [5])]]] * 8)) == [0]
    assert cycles(atomics([[[(0, [5])]]], 1)) == [0, 0]  # of one group, nothing else shows the line
