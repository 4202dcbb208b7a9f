"""In which order a shared level serves the queues of the cores, against probabilities by hand.

The readable twin draws them; tests/memsim/hierarchy/test_twin.py requires the same of the fast trial.
"""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from scipy.stats import chisquare

from memsim.hierarchy.rng import Stream
from tests.twins.replay.cache import Request
from tests.twins.replay.trial import Queues, merged

N_DRAWS = 6_000


def probabilities(waiting: tuple[int, ...], capacity: int) -> dict[tuple[int, ...], float]:
    """The probability of each order, if a queue is drawn with a weight of min(waiting, capacity)."""
    orders = {}
    for order in set(itertools.permutations(q for q, n in enumerate(waiting) for _ in range(n))):
        left, p = list(waiting), 1.0
        for q in order:
            weights = [min(n, capacity) for n in left]
            p *= weights[q] / sum(weights)
            left[q] -= 1
        orders[order] = p
    return orders


def drawn_orders(waiting: tuple[int, ...], capacity: int) -> Counter[tuple[int, ...]]:
    queues = Queues(
        [[Request((i,), "load", q, True, {}) for i in range(n)] for q, n in enumerate(waiting)],
        [0] * len(waiting),
    )
    stream = Stream(1)
    orders: Counter[tuple[int, ...]] = Counter()
    for _ in range(N_DRAWS):
        served = list(merged(queues, capacity, stream, [list(waiting)]))
        for q in range(len(waiting)):  # each queue is first in, first out
            assert [r.granules[0] for of, r in served if of == q] == list(range(waiting[q]))
        orders[tuple(q for q, _ in served)] += 1
    return orders


def p_value(orders: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> float:
    assert set(orders) <= set(expected)
    return float(
        chisquare([orders[o] for o in expected], [N_DRAWS * p for p in expected.values()]).pvalue
    )


@pytest.mark.parametrize(
    ("waiting", "capacity"),
    [((4, 2), 1), ((4, 2), 3), ((0, 4, 1), 2), ((3, 1, 2), 1), ((3, 1, 2), 2), ((3, 1, 2), 100)],
)
def test_queues_are_drawn_with_a_weight_of_what_waits(
    waiting: tuple[int, ...], capacity: int
) -> None:
    """Also where the last of them are shuffled, which takes fewer draws."""
    assert p_value(drawn_orders(waiting, capacity), probabilities(waiting, capacity)) > 1e-4


def test_another_capacity_is_told_apart() -> None:
    assert p_value(drawn_orders((4, 2), 1), probabilities((4, 2), 2)) < 1e-9
