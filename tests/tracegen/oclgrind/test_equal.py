"""The tracer's traces against Oclgrind's, access for access and in order.

Full traces equal Oclgrind's build with `-cl-opt-disable`; reduced ones, without the accesses that a
compiler drops, equal its default build. Needs g++ (the plugin is built here).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.instrumented_runs import lane_accesses, prepared_of
from tests.support.oclgrind import compared_kernels, harness
from tests.support.oclgrind.harness import Access, Run, WorkItem
from tracegen.instrumented.host import PreparedLoopy

# islpy's own deprecation, raised inside Loopy where a loop's last tile is not full.
pytestmark = pytest.mark.filterwarnings("ignore:Aff.is_equal with implicit:DeprecationWarning")

Seen = Callable[[str, bool], Run]


def busy(accesses: Any) -> dict[WorkItem, list[Access]]:
    """Without the work-items that access nothing, atomics as one access each."""
    return {item: harness.project_atomics(list(own)) for item, own in accesses.items() if own}


COMPARISONS = [
    (case, reduced)
    for case in compared_kernels.CASES
    for reduced in (False, True)
    if not reduced or case not in compared_kernels.REDUCED_DIFFERS
]


def compared(comparison: tuple[str, bool]) -> str:
    case, reduced = comparison
    return f"{case}-{'reduced' if reduced else 'full'}"


@functools.lru_cache(maxsize=1)  # COMPARISONS of one case follow one another
def prepared_case(case: str) -> PreparedLoopy:
    return prepared_of(compared_kernels.CASES[case]())


@pytest.mark.weekly(3)
@pytest.mark.parametrize("comparison", COMPARISONS, ids=compared)
def test_trace_equals_oclgrind(comparison: tuple[str, bool], seen: Seen) -> None:
    """What the kernel computes, and what it accesses."""
    case, reduced = comparison
    run, prepared, outputs = seen(case, reduced), prepared_case(case), dict[str, Any]()
    expected = busy(run.accesses)
    traced = busy(lane_accesses(prepared, reduced=reduced, outputs=outputs))
    assert outputs.keys() == run.outputs.keys()
    for name, values in run.outputs.items():
        numbers = values.view(np.float32) if values.dtype.kind == "V" else values
        own = np.asarray(outputs[name]).view(numbers.dtype)
        rtol = 1e-5 if numbers.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(own, numbers, rtol=rtol, err_msg=name)
    assert traced.keys() == expected.keys()
    for item, accesses in expected.items():
        assert traced[item] == accesses, f"launch, group, item = {item}"


def test_projection_of_atomics() -> None:
    """A compare-and-swap that fails once, then an atomic built-in, then a plain load."""
    place, other = ("counts", 8, 4), ("counts", 4, 4)
    plain, tried, done = ("load", *place), ("atomic load", *place), ("atomic store", *place)
    seen = [plain, ("load", *other), tried, plain, tried, done, tried, done, plain]
    assert harness.project_atomics(seen) == [
        ("load", *other),
        ("atomic", *place),
        ("atomic", *place),
        plain,
    ]
