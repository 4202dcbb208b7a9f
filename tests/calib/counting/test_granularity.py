"""Sub-groups with an active lane, against enumeration of all work-items."""

from __future__ import annotations

from collections.abc import Callable

import islpy as isl
import numpy as np
import pytest

from calib.counting.granularity import points
from calib.polynomials.isl_forms import fix
from memsim.errors import KernelError

Bound = Callable[[int, int], int]


def walked(n: int, group: int, width: int, low: Bound, high: Bound) -> tuple[int, int]:
    """Numbers of distinct (group, sub-group, trip) and (group, trip) if item i runs trips low..high
    - 1."""
    subgroups, groups = set(), set()
    for item in range(n):
        for trip in range(max(high(item, n) - low(item, n), 0)):
            subgroups.add((item // group, item % group // width, trip))
            groups.add((item // group, trip))
    return len(subgroups), len(groups)


LOOPS = [
    ("0 <= j <= i", lambda i, n: 0, lambda i, n: i + 1),
    ("i <= j < n", lambda i, n: i, lambda i, n: n),
    ("2*i <= j < n + 5", lambda i, n: 2 * i, lambda i, n: n + 5),
    ("0 <= j < 3", lambda i, n: 0, lambda i, n: 3),
    ("n - i <= j < n", lambda i, n: n - i, lambda i, n: n),
]


@pytest.mark.parametrize(("group", "width"), [(16, 8), (16, 32), (24, 16), (32, 32), (40, 32)])
@pytest.mark.parametrize(("loop", "low", "high"), LOOPS, ids=[loop for loop, _, _ in LOOPS])
def test_lanes_run_through_a_loop_together(
    group: int, width: int, loop: str, low: Bound, high: Bound
) -> None:
    bounds = loop.replace("i", f"({group}g + l)")
    domain = isl.Set(
        f"[n] -> {{ [g, l, j] : 0 <= l < {group} and 0 <= g and {group}g + l < n and {bounds} }}"
    )
    subgroups = points(domain, 1, (group,), "sub-group", width)
    groups = points(domain, 1, (group,), "work-group", width)
    for n in (0, 1, 7, 16, 33, 61):
        result = tuple(
            int(fix(each, {"n": n}).count_val().to_python()) for each in (subgroups, groups)
        )
        assert result == walked(n, group, width, low, high), n


@pytest.mark.parametrize(
    ("shape", "width"),
    [((16, 16), 32), ((8, 8), 32), ((10, 10), 32), ((4, 4, 4), 8), ((64, 3), 32)],
)
def test_lanes_follow_the_linear_local_id(shape: tuple[int, ...], width: int) -> None:
    """The lanes of a sub-group are neighbours in lid(0), then lid(1), then lid(2)."""
    names = [f"l{axis}" for axis in range(len(shape))]
    bounds = " and ".join(f"0 <= {name} < {size}" for name, size in zip(names, shape, strict=True))
    domain = isl.Set(f"[m] -> {{ [{', '.join(names)}] : {bounds} and l0 + l1 < m }}")
    result = points(domain, 0, shape, "sub-group", width)
    lid = np.unravel_index(np.arange(np.prod(shape)), shape, order="F")
    for m in (0, 1, 5, 12, 40, 200):
        expected = np.unique(np.flatnonzero(lid[0] + lid[1] < m) // width)
        assert int(fix(result, {"m": m}).count_val().to_python()) == len(expected), m


def test_subgroups_need_a_numeric_group_size() -> None:
    domain = isl.Set("[w] -> { [g, l] : 0 <= g < 4 and 0 <= l < w }")
    with pytest.raises(KernelError, match="depend on a parameter"):
        points(domain, 1, (None,), "sub-group", 32)
