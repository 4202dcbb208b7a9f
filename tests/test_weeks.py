"""Cases that are alike take turns, and none is forgotten."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.weeks import of_other_weeks


def item(nodeid: str, n: int = 0) -> Any:
    mark = pytest.mark.weekly(n).mark if n else None
    return SimpleNamespace(nodeid=nodeid, get_closest_marker=lambda _: mark)


def test_every_case_runs_in_one_of_n_weeks() -> None:
    cases = [item(f"f.py::test_{name}[{k}]", 3) for name in "ab" for k in range(5)]
    alone = [item("f.py::test_c", 3), item("f.py::test_d[0]")]
    left = [of_other_weeks([*cases, *alone], week) for week in (51, 52, 53)]
    assert all(5 < len(others) < 9 for others in left)
    for case in cases:
        assert sum(case in others for others in left) == 2
    assert not any(one in others for one in alone for others in left)
