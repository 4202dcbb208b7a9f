"""Traces written for Accel-Sim come back as they were: addresses, masks, lanes, sites by PC."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsim.errors import TraceError
from memsim.formats import read_any
from memsim.formats.accel_sim.writing import write
from memsim.trace.coalescing import coalesce
from memsim.trace.launches import Copy, Fill, Launches
from memsim.trace.model import AccessSite, ArrayExtent, Direction, Launch, Trace
from tests.support.command_line import RunMemsim
from tests.support.traces import make_trace

DIRECTIONS: tuple[Direction, ...] = ("load", "store", "atomic")
COLUMNS = ("workgroup", "subgroup_offset", "lanes", "granule_offset", "granule", "byte_mask")


def site_of_pc(trace: Trace) -> np.ndarray[Any, Any]:
    """The number of the site that was written, by the PC in the name of the one that was read."""
    known = np.array([int(site.name.split()[0], 16) // 0x100 - 1 for site in trace.sites] + [-1])
    return known[trace.site]


def assert_round_trip(trace: Trace, folder: Path, *, starts: bool = True) -> Trace:
    write(Launches(launches=(trace,)), folder)
    found = read_any(folder).launches[0]
    for name in (*COLUMNS, "lane_groups", *(("starts_sequence",) if starts else ())):
        np.testing.assert_array_equal(getattr(found, name), getattr(trace, name), err_msg=name)
    np.testing.assert_array_equal(site_of_pc(found), trace.site)
    return found


Lanes = list[tuple[int, int]]
"""(lane, address) of an access."""


def from_lanes(
    rows: list[tuple[int, Lanes]], sizes: list[int], directions: list[Direction]
) -> Trace:
    """One sub-group's accesses, as (site, lanes), coalesced."""
    granule, mask, groups, hits = (
        np.empty(64 * len(rows), kind) for kind in (np.int64, np.uint32, np.uint8, np.uint8)
    )
    ends, n = [0], 0
    for site, lanes in rows:
        numbers = np.zeros((1, 64), np.int64)
        address = np.zeros(64, np.int64)
        numbers[0, : len(lanes)] = [lane for lane, _ in lanes]
        address[: len(lanes)] = [at for _, at in lanes]
        requested = np.zeros(256, np.int64)
        n = coalesce(
            *(
                address,
                numbers,
                0,
                len(lanes),
                sizes[site],
                requested,
                n,
                granule,
                mask,
                groups,
                hits,
            )
        )
        ends.append(n)
    return Trace(
        sites=tuple(
            AccessSite(name=f"s{k}", array="a", direction=direction, itemsize_bytes=size)
            for k, (size, direction) in enumerate(zip(sizes, directions, strict=True))
        ),
        arrays=(ArrayExtent(name="a", base_bytes=0, size_bytes=1 << 30),),
        launch=Launch(kernel="k", n_groups=1, group_items=32),
        subgroup_size=32,
        workgroup=np.zeros(1, np.int32),
        subgroup_offset=np.array([0, len(rows)]),
        site=np.array([site for site, _ in rows], np.int32),
        starts_sequence=np.ones(len(rows), np.bool_),
        waits=np.full(len(rows), -1, np.int32),
        lanes=np.array([len(lanes) for _, lanes in rows], np.uint8),
        granule_offset=np.array(ends),
        granule=granule[:n],
        byte_mask=mask[:n],
        lane_groups=groups[:n],
        lane_hits=hits[:n] if "atomic" in directions else None,
        whole=True,
    )


@st.composite
def lane_traces(draw: st.DrawFn) -> Trace:
    sizes = draw(st.lists(st.sampled_from([1, 2, 4, 8, 16]), min_size=1, max_size=3))
    directions = [draw(st.sampled_from(DIRECTIONS)) for _ in sizes]
    rows: list[tuple[int, Lanes]] = []
    for _ in range(draw(st.integers(1, 6))):
        site = draw(st.integers(0, len(sizes) - 1))
        active = sorted(draw(st.sets(st.integers(0, 31), min_size=1)))
        spread = draw(st.sampled_from([1, 4, 12, 40, 1000]))
        elements = draw(
            st.lists(st.integers(0, spread), min_size=len(active), max_size=len(active))
        )
        rows.append(
            (site, [(a, 4096 + sizes[site] * e) for a, e in zip(active, elements, strict=True)])
        )
    return from_lanes(rows, sizes, directions)


_folders = itertools.count()


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trace=lane_traces())
def test_any_lanes_come_back(tmp_path: Path, trace: Trace) -> None:
    found = assert_round_trip(trace, tmp_path / str(next(_folders)))
    if trace.lane_hits is not None and found.lane_hits is not None:
        np.testing.assert_array_equal(found.lane_hits, trace.lane_hits)


def gather(n: int, seed: int = 0) -> Trace:
    """index[i], x[index[i]], again and again; the second waits for the first."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[int, Lanes]] = []
    for k in range(n):
        elements = rng.integers(0, 1 << 16, 32).tolist()
        rows.append((0, [(lane, 4 * (32 * k + lane)) for lane in range(32)]))
        rows.append((1, [(lane, (1 << 20) + 8 * at) for lane, at in enumerate(elements)]))
    index = np.arange(2 * n)
    waits = np.where(index % 2 == 1, index - 1, -1).astype(np.int32)
    return from_lanes(rows, [4, 8], ["load", "load"]).replace(waits=waits)


def test_a_gather_comes_back_with_its_waits_and_sequences(tmp_path: Path) -> None:
    trace = gather(100)
    found = assert_round_trip(trace, tmp_path / "a")
    np.testing.assert_array_equal(found.waits, np.maximum.accumulate(trace.waits))


def test_a_load_joins_the_sequence_that_it_was_in(tmp_path: Path) -> None:
    """Ascending sites, no wait: one sequence; where it was cut without a reason, it stays so."""
    rows = [(k % 3, [(0, 64 * k)]) for k in range(9)]
    trace = from_lanes(rows, [4, 4, 4], ["load", "load", "store"])
    for cuts in ([True, False, False] * 3, [True, True, False] * 3):
        starts = np.array(cuts)
        assert_round_trip(trace.replace(starts_sequence=starts), tmp_path / str(next(_folders)))


def test_barriers_groups_and_idle_subgroups(tmp_path: Path) -> None:
    barrier = (-1, [])
    group = [[(0, [5, 9]), barrier, (1, [7])], [(0, [3]), barrier], []]
    trace = make_trace([group, group[::-1]], ("load", "store"))
    assert_round_trip(trace.replace(lanes=np.where(trace.site < 0, 0, 32)), tmp_path / "a")


def test_elements_that_no_instruction_moves_are_several(tmp_path: Path) -> None:
    """32 lanes, each of a struct of 12 bytes: the same bytes, by three instructions."""
    rows = [(0, [(lane, 8192 + 12 * lane) for lane in range(32)])]
    trace = from_lanes(rows, [12], ["load"])
    write(Launches(launches=(trace,)), tmp_path / "a")
    found = read_any(tmp_path / "a").launches[0]
    assert found.n_access == 3
    requested: dict[int, int] = {}
    for granule, mask in zip(found.granule.tolist(), found.byte_mask.tolist(), strict=True):
        requested[granule] = requested.get(granule, 0) | mask
    assert requested == dict(zip(trace.granule.tolist(), trace.byte_mask.tolist(), strict=True))


def test_a_snapshot_is_a_launch_of_its_own(tmp_path: Path) -> None:
    trace = make_trace([[[(0, [1])]], [[(0, [2])]]], whole=False)
    launch = Launch(kernel="k\nk", n_groups=100, group_items=32, grid=(10, 10), group_shape=(8, 4))
    trace = trace.replace(workgroup=np.array([40, 41], np.int32), launch=launch)
    write(Launches(launches=(trace,)), tmp_path / "a")
    found = read_any(tmp_path / "a").launches[0]
    assert found.workgroup.tolist() == [0, 1]
    assert (found.launch.grid, found.launch.group_shape) == ((2, 1, 1), (8, 4, 1))
    assert found.launch.kernel == r"k\nk"
    assert found.whole


def test_copies_and_fills_lie_between(tmp_path: Path) -> None:
    trace = make_trace([[[(0, [1, 2])]]]).replace(
        arrays=(ArrayExtent(name="a", base_bytes=0, size_bytes=96),)
    )
    events = (Fill(array="a", size_bytes=96), Copy(array="a", size_bytes=64, source="a"))
    files = write(Launches(launches=(trace, trace), between=(events,)), tmp_path / "a")
    assert files[0].read_text().splitlines() == [
        "kernel-1.traceg",
        "MemcpyHtoD,0x0000000000000000,96",
        "MemcpyHtoD,0x0000000000000000,64",
        "kernel-2.traceg",
    ]
    assert len(read_any(tmp_path / "a").between[0]) == 2


def test_what_cannot_be_written(tmp_path: Path) -> None:
    launches = Launches(launches=(make_trace([[[(0, [1])]]]),))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    with pytest.raises(TraceError, match="must be a new or an empty folder"):
        write(launches, tmp_path / "full")
    with pytest.raises(TraceError, match="cannot be written: No such file"):
        write(launches, tmp_path / "no" / "a")
    wide = Launches(launches=(make_trace([[[(0, [1])]]], subgroup_size=64),))
    with pytest.raises(TraceError, match="warps have 32 lanes, the trace's sub-groups 64"):
        write(wide, tmp_path / "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full"]


def test_a_long_subgroup_is_written_in_pieces(tmp_path: Path, monkeypatch: Any) -> None:
    """The number of its instructions is filled in behind it, in the file itself."""
    monkeypatch.setattr("memsim.formats.accel_sim.writing._TEXT_BYTES", (1 << 21) + 5000)
    trace = gather(3000)
    assert_round_trip(trace, tmp_path / "a")


def test_the_command(run_memsim: RunMemsim, tmp_path: Path) -> None:
    from memsim.trace.file import write_trace

    source = str(tmp_path / "k.trace")
    write_trace(gather(8), source)
    out = tmp_path / "out"
    ended = run_memsim("export", source, "--format", "accel-sim", "-o", str(out))
    assert ended.code == 0, ended.err
    assert (out / "kernelslist.g").read_text() == "kernel-1.traceg\n"
    options = ("-m", "v100", "--trials", "2", "--jobs", "1")
    assert run_memsim("replay", str(out), *options).code == 0
    ended = run_memsim("export", source, "-o", str(out))
    assert (ended.code, ended.err.count("\n")) == (2, 1)
