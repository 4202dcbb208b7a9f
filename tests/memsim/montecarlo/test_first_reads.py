"""What a launch reads before the counted groups of a snapshot: a table that all groups share, and a stream."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import memsim
from memsim.errors import SnapshotWarning
from memsim.montecarlo import totals
from memsim.montecarlo.past import FirstLoads, first_loads, first_reads
from memsim.montecarlo.totals import requests_of_group
from memsim.trace.model import BARRIER_SITE, AccessSite, ArrayExtent, Trace
from tests.support.traces import make_trace

TABLE, GROUPS = 8, 64


def table_and_stream(first: int, n: int, **fields: object) -> Trace:
    """Groups first .. first + n of 64: each loads a table of 8 sectors, and a sector of its own."""
    groups = [
        [[(0, [k]) for k in range(TABLE)] + [(1, [100 + g])]] for g in range(first, first + n)
    ]
    trace = make_trace(groups, ("load", "load"), whole=n == GROUPS)
    return trace.replace(
        sites=tuple(
            AccessSite(name=name, array=name, direction="load", itemsize_bytes=4)
            for name in ("table", "stream")
        ),
        arrays=(
            ArrayExtent(name="table", base_bytes=0, size_bytes=32 * TABLE),
            ArrayExtent(name="stream", base_bytes=3200, size_bytes=32 * GROUPS),
        ),
        launch=dataclasses.replace(trace.launch, n_groups=GROUPS),
        workgroup=trace.workgroup + first,
        **fields,
    )


HITS = {"table": 0.0, "stream": 0.0}
"""Bytes read from DRAM, where every later load of a granule is found in a cache."""


def beyond(trace: Trace, uncounted: int, read: dict[str, float] = HITS) -> dict[str, int]:
    return first_reads(first_loads(trace, uncounted, trace.n_groups - uncounted), read)


EARLIER = {"earlier": np.array([[0, TABLE], [100, 116]]), "earlier_groups": 16}
HALF = {"earlier": np.array([[0, TABLE // 2], [100, 116]]), "earlier_groups": 16}


@pytest.mark.parametrize(
    ("trace", "uncounted", "expected"),
    [
        (table_and_stream(16, 8, **EARLIER), 0, {"table": 32 * TABLE}),  # and not the stream
        (table_and_stream(16, 8, **EARLIER), 4, {"table": 32 * TABLE}),
        (
            table_and_stream(0, 8),
            4,
            {"table": 32 * TABLE},
        ),  # those that warm the caches are earlier
        (table_and_stream(0, 8), 0, {}),  # the counted groups have read it
        # 4 sectors by 16 earlier groups, 4 by 8 counted ones: 8 - 4 / 8 * 24 is not more than their own.
        (table_and_stream(16, 8, **HALF), 0, {}),
    ],
)
def test_what_all_groups_share_is_read_before_the_snapshot(
    trace: Trace, uncounted: int, expected: dict[str, int]
) -> None:
    assert beyond(trace, uncounted) == expected


def test_the_last_groups_may_not_be_counted_either() -> None:
    first = first_loads(table_and_stream(0, 8), 4, 3)
    assert first == {"table": FirstLoads(32 * TABLE, 0, 3 * 32 * TABLE)}


def test_what_is_read_again_is_in_the_scaled_counts_already() -> None:
    """Four counted groups load the table: 4 x 256 bytes, of which DRAM delivers none, half, or all."""
    trace = table_and_stream(0, 8)
    for part, left in ((0, 256), (0.5, 128), (1, 0)):
        found = beyond(trace, 4, HITS | {"table": part * 4 * 256})
        assert found == ({"table": left} if left else {})


def test_groups_that_request_more_count_more() -> None:
    """The first four groups load sectors 0 to 7 and eight of their own; the others 0 to 3 and four of their own, as many of the
    launch's first loads as they are of its requests: 8 + 4 x 12 - 16 x 3 = 8 sectors are omitted, not 8 + 4 x 12 - 4 x 8."""
    groups = [
        [[(0, [k]) for k in range(n)] + [(0, [16 + 8 * g + k]) for k in range(n)]]
        for g, n in enumerate([8] * 4 + [4] * 4)
    ]
    trace = make_trace(groups, ("load",), whole=False)
    array = ArrayExtent(name="table", base_bytes=0, size_bytes=32 * 128)
    site = AccessSite(name="table", array="table", direction="load", itemsize_bytes=4)
    found = first_loads(trace.replace(sites=(site,), arrays=(array,)), 4, 4)
    assert found == {"table": FirstLoads(32 * (8 + 32 + 16 - 16 * 3), 32 * 16, 32 * 32)}


def test_what_is_written_too_is_left_out() -> None:
    trace = table_and_stream(0, 8)
    sites = (dataclasses.replace(trace.sites[0], direction="store"), trace.sites[1])
    assert beyond(trace.replace(sites=sites), 4) == {}


@pytest.mark.parametrize("warm", [False, True])
def test_the_totals_of_a_launch_contain_what_it_must_read(warm: bool) -> None:
    """Of a launch of 64 groups the first 16: all 64 sectors of the stream, and the table once; or, where the
    L2 is warm, no table."""
    trace = table_and_stream(0, 16)
    with pytest.warns(SnapshotWarning):
        replay = memsim.replay(
            trace, "v100", trials=4, warmup_waves=0, groups_per_core=1, warm=warm
        )
    arrays = {one.name: one for one in replay.launch.arrays}
    table = arrays["table"].moved.read_bytes["DRAM"]
    if warm:
        assert table.mean == 0
        return
    assert table.mean >= 32 * TABLE
    read = replay.launch.read_bytes("DRAM").mean
    assert read == pytest.approx(sum(one.moved.read_bytes["DRAM"].mean for one in arrays.values()))


# How often a group requests an array


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


def test_groups_of_too_many_requests_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = make_trace([[[(0, [1, 2])]], [[(0, [1, 2]), (0, [1, 2]), (0, [1, 2])]]])
    assert requests_of_group(trace) == {"a": 2.0}
    monkeypatch.setattr(totals, "MOST_GRANULES", 7)
    assert requests_of_group(trace) == {"a": 1.0}
    monkeypatch.setattr(totals, "MOST_GRANULES", 1)
    assert requests_of_group(trace) == {}
