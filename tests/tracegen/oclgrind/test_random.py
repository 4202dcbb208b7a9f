"""Full traces of random kernels against Oclgrind's, access for access and in order.

Reduced traces are not compared here: on branching code like this, compilers differ in what they
keep of a load that is redundant on some paths only.
"""

from __future__ import annotations

import pytest

from tests.support.instrumented_runs import lane_accesses
from tests.support.oclgrind.harness import Oclgrind
from tests.support.oclgrind.random_kernels import random_workload

pytestmark = [
    pytest.mark.filterwarnings("ignore:Aff.is_equal with implicit:DeprecationWarning"),
    # PoCL's compiler finds such expressions odd.
    pytest.mark.filterwarnings("ignore:Non-empty compiler output"),
]


SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(100, 200))]


@pytest.mark.weekly(4)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_kernel(seed: int, oclgrind: Oclgrind) -> None:
    workload = random_workload(seed)
    expected = oclgrind.run(workload, optimised=False).accesses
    traced = lane_accesses(workload, reduced=False)
    assert {item: own for item, own in traced.items() if own} == expected, f"seed {seed}"
