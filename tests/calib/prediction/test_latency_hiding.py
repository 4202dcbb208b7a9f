"""The latency hidden factor against the paper's four cases, hand counts and an event simulation."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calib.prediction.latency_hiding import (
    Blocks,
    LatencyHidingError,
    denominator,
    hidden_factor,
    hiding,
    idle_cycles,
    round_cycles,
)
from tests.support.cyclic_programs import cyclic, simulate

CYCLES = st.floats(0, 1000, allow_nan=False).map(lambda value: round(value, 3))
WIDTHS = st.integers(1, 8)


def one_case(
    ilp: Fraction, following: Fraction, la: Fraction, bw: Fraction, n: int, j: int
) -> Fraction:
    """LatencyHiddenCon of sub-group j of n, by which of the four cases of section 2.3 applies."""
    before, after = j - 1, n - j
    if ilp >= bw and following >= bw:  # 2.3.1
        covered = ilp * after + before * (following - max(Fraction(0), following - ilp))
        whole = la + bw
    elif following < bw <= ilp:  # 2.3.2
        covered = ilp * after + before * following
        whole = la + bw
    elif ilp < bw and following < bw:  # 2.3.3
        covered = ilp * after + before * following
        whole = la + bw + before * (bw - ilp)
    else:  # 2.3.4
        covered = ilp * after + before * (following - (following - bw))
        whole = la + bw + before * (bw - ilp)
    return max(Fraction(0), 1 - covered / whole) if whole else Fraction(0)


def pair(ilp: float, following: float, la: float, bw: float, barrier: bool = False) -> Blocks:
    """One block and the issue time of the one behind it."""
    return Blocks(
        count=np.ones(1),
        issue_cycles=np.array([ilp]),
        next_issue_cycles=np.array([following]),
        latency_cycles=np.array([la]),
        bandwidth_cycles=np.array([bw]),
        barrier=np.array([barrier]),
    )


@given(ilp=CYCLES, following=CYCLES, la=CYCLES, bw=CYCLES, tlp=WIDTHS, blp=WIDTHS)
def test_the_four_cases_are_the_merged_form(
    ilp: float, following: float, la: float, bw: float, tlp: int, blp: int
) -> None:
    result = hidden_factor(pair(ilp, following, la, bw), tlp, blp)[0]
    n = tlp * blp
    exact = [
        Fraction(one) for one in (ilp, following, la, bw)
    ]  # the four cases cancel large numbers
    expected = [float(one_case(*exact, n, j)) for j in range(1, n + 1)]
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


def test_a_barrier_rounds_the_numerator_down_and_the_denominator_up() -> None:
    """TLP 2, BLP 2: j - 1 = 0, 1, 2, 3 is 0, 2, 2, 4 in the denominator and 0, 0, 2, 2 above."""
    blocks = pair(10, 20, 100, 25, barrier=True)
    np.testing.assert_array_equal(denominator(blocks, 2, 2)[0], [125, 155, 155, 185])
    np.testing.assert_array_equal(hiding(blocks, 2, 2)[0], [30, 20, 10 + 40, 40])


@given(ilp=CYCLES, following=CYCLES, la=CYCLES, bw=CYCLES, tlp=WIDTHS, blp=WIDTHS)
def test_a_barrier_hides_nothing_more(
    ilp: float, following: float, la: float, bw: float, tlp: int, blp: int
) -> None:
    """Nor does it stop the sub-groups of groups that have only one."""
    free, at_barrier = (pair(ilp, following, la, bw, barrier=one) for one in (False, True))
    assert idle_cycles(at_barrier, tlp, blp)[0] >= idle_cycles(free, tlp, blp)[0]
    one, other = (hidden_factor(blocks, 1, blp) for blocks in (free, at_barrier))
    np.testing.assert_array_equal(one, other)


def test_one_sub_group_hides_nothing() -> None:
    blocks = cyclic([4, 6, 8], [100, 0, 50], [10, 0, 5])
    assert round_cycles(blocks, 1, 1) == 4 + 110 + 6 + 8 + 55
    assert round_cycles(blocks, 1, 1, "paper") == 4 + 110 + 6 + 8 + 55


def test_both_sides_of_complete_hiding() -> None:
    """Of 11 sub-groups, the other ten hide the latency of the first: 100 cycles, 10 each."""
    assert idle_cycles(cyclic([10], [100], [0]), 11, 1)[0] == 0
    assert idle_cycles(cyclic([10], [101], [0]), 11, 1)[0] == 1
    assert round_cycles(cyclic([10], [100], [0]), 11, 1) == 110
    assert round_cycles(cyclic([10], [101], [0]), 11, 1) == 111


def test_bandwidth_is_a_floor() -> None:
    """Without issue cycles and latency, the transfers of four sub-groups follow each other."""
    assert round_cycles(cyclic([0, 0], [0, 0], [30, 10]), 2, 2) == 4 * 40


def test_the_equation_as_printed_counts_idle_time_once_for_each_sub_group() -> None:
    """Each of 8 sub-groups waits for 1000 cycles, of which the other 7 hide 70."""
    blocks = cyclic([10], [1000], [0])
    assert round_cycles(blocks, 4, 2) == 80 + 930
    assert round_cycles(blocks, 4, 2, "paper") == 80 + 8 * 930
    assert simulate(blocks, 4, 2, rounds=64) == pytest.approx(80 + 930, rel=0.01)


def test_trials_are_the_leading_axis() -> None:
    rng = np.random.default_rng(3)
    issue, latency, transfer = (rng.uniform(0, most, (3, 7)) for most in (50, 900, 60))
    barrier = rng.random(7) < 0.5
    together = round_cycles(cyclic(issue, latency, transfer, barrier), 4, 3)
    apart = [
        round_cycles(cyclic(issue[t], latency[t], transfer[t], barrier), 4, 3) for t in range(3)
    ]
    np.testing.assert_allclose(together, apart, rtol=1e-13)


def test_a_block_that_is_counted_several_times_is_as_many_blocks() -> None:
    listed = cyclic([8] * 50, [700] * 50, [9] * 50)
    folded = Blocks(**{**vars(pair(8, 8, 700, 9)), "count": np.array([50.0])})
    assert round_cycles(folded, 8, 4) == pytest.approx(float(round_cycles(listed, 8, 4)), rel=1e-12)


def random_kernel(
    rng: np.random.Generator, regime: str, barriers: float
) -> tuple[Blocks, int, int]:
    """A program that is limited by latency, issue or bandwidth, with its TLP and BLP."""
    n, tlp, blp = int(rng.integers(1, 9)), int(rng.integers(1, 9)), int(rng.integers(1, 5))
    issue = rng.uniform(4, 40, n)
    if regime == "latency":  # more than all others together can cover
        latency = rng.uniform(2, 6, n) * 40 * tlp * blp
        transfer = issue * rng.uniform(0, 0.9, n)
    elif regime == "issue":
        latency = issue.min() * rng.uniform(0, 0.8, n) * (tlp * blp - 1)
        transfer = issue * rng.uniform(0, 0.5, n)
    else:
        latency = rng.uniform(0, 400, n)
        transfer = issue * rng.uniform(1.5, 6, n)
    return cyclic(issue, latency, transfer, rng.random(n) < barriers), tlp, blp


@pytest.mark.parametrize(
    ("regime", "barriers", "typical", "lowest", "highest"),
    [
        ("latency", 0.0, 0.021, -0.05, 0.11),
        ("latency", 1.0, 0.008, -0.05, 0.11),
        ("issue", 0.3, -0.005, -0.1, 0.04),
        ("bandwidth", 0.0, 0.080, -0.07, 0.5),
        ("bandwidth", 1.0, 0.101, -0.07, 0.5),
    ],
)
def test_against_sub_groups_in_turn(
    regime: str, barriers: float, typical: float, lowest: float, highest: float
) -> None:
    """How far the corrected form is from the events over 200 random kernels: the median, as was found, and bounds.

    It is too long where bandwidth binds: it takes blocks one after the other, so the transfers of one
    do not cover the latency of the next.
    """
    rng = np.random.default_rng(11)
    off = []
    for _ in range(200):
        blocks, tlp, blp = random_kernel(rng, regime, barriers)
        off.append(float(round_cycles(blocks, tlp, blp)) / simulate(blocks, tlp, blp, rounds=8) - 1)
    assert float(np.median(off)) == pytest.approx(typical, abs=0.005)
    assert lowest < min(off)
    assert max(off) < highest


def test_what_cannot_be() -> None:
    blocks = cyclic([1.0], [1.0], [0.0])
    for make, words in (
        (lambda: cyclic([1.0], [-1.0], [0.0]), "latency_cycles must be finite"),
        (lambda: cyclic([1.0], [1.0], [math.inf]), "bandwidth_cycles must be finite"),
        (lambda: round_cycles(blocks, 0, 2), "at least 1, got 0 and 2"),
        (lambda: round_cycles(blocks, 1, 2, "printed"), "one of corrected, paper, got printed"),  # type: ignore[arg-type]
    ):
        with pytest.raises(LatencyHidingError, match=words):
            make()
