"""How often a group requests an array, on traces whose counts follow by hand."""

from __future__ import annotations

from memsim.montecarlo import totals
from memsim.montecarlo.totals import requests_of_group
from tests.support.traces import BARRIER_SITE, make_trace


def test_each_group_is_counted_alone() -> None:
    """Two groups that load the same two sectors: once each, and three times in a group of two sub-groups."""
    once = make_trace([[[(0, [1, 2])]], [[(0, [1, 2])]]])
    assert requests_of_group(once) == {"a": 1.0}
    again = make_trace([[[(0, [1, 2]), (BARRIER_SITE, [])], [(0, [1, 2]), (0, [1, 2])]]])
    assert requests_of_group(again) == {"a": 3.0}


def test_stores_and_traces_without_loads_do_not_count() -> None:
    both = make_trace([[[(0, [1]), (1, [1]), (1, [1])]]], ("load", "store"))
    assert requests_of_group(both) == {"a": 1.0}
    assert requests_of_group(make_trace([[[(0, [1])]]], ("store",))) == {}
    assert requests_of_group(make_trace([])) == {}


def test_groups_of_too_many_requests_are_not_counted(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    trace = make_trace([[[(0, [1, 2])]], [[(0, [1, 2]), (0, [1, 2]), (0, [1, 2])]]])
    assert requests_of_group(trace) == {"a": 2.0}
    monkeypatch.setattr(totals, "MOST_GRANULES", 7)
    assert requests_of_group(trace) == {"a": 1.0}
    monkeypatch.setattr(totals, "MOST_GRANULES", 1)
    assert requests_of_group(trace) == {}
