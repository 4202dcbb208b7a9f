"""What compiled loops index with is checked where a trace is made, whatever it comes from."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memsim.errors import TraceError
from memsim.trace.file import _columns, _description, read_launches
from memsim.trace.model import BARRIER_SITE, AccessSite, ArrayExtent, Launch, SourceLocation
from tests.support.forged_traces import forge, write_forged
from tests.support.traces import make_trace

GOOD = make_trace([[[(0, [1, 2]), (BARRIER_SITE, []), (0, [3])]], [[(0, [5])]]])
BROKEN: list[tuple[str, int, int, str]] = [
    ("site", 0, 1, "site must index the 1 sites or be -1, got 1 (access 0, in sub-group 0)"),
    ("site", 3, -2, "site must index the 1 sites or be -1, got -2 (access 3, in sub-group 1)"),
    ("site", 0, BARRIER_SITE, "a barrier must have no lanes and no granules (access 0"),
    ("waits", 2, 2, "waits must be -1 or an earlier access of its sub-group, got 2"),
    ("waits", 3, 0, "waits must be -1 or an earlier access of its sub-group, got 0"),
    ("waits", 0, -2, "waits must be -1 or an earlier access of its sub-group, got -2"),
    ("lanes", 0, 33, "lanes must be at most the sub-group's 32, got 33"),
    ("lanes", 1, 1, "a barrier must have no lanes and no granules"),
    ("granule", 1, 1, "granules of an access must ascend from 0, without repetition, got [1, 1]"),
    ("granule", 1, 0, "granules of an access must ascend from 0, without repetition, got [1, 0]"),
    ("granule", 0, -1, "granules of an access must ascend from 0"),
    ("granule", 3, 6, "granules must lie in the arrays of the trace, got [6]"),
    ("granule", 3, 1 << 58, "granules must lie in the arrays of the trace"),
    ("byte_mask", 2, 0, "byte_mask of a granule must not be 0 (access 2"),
    ("lane_groups", 0, 0, "lane_groups of a granule must be 1 to 15"),
    ("lane_groups", 0, 16, "lane_groups of a granule must be 1 to 15"),
    ("workgroup", 1, 2, "workgroup must be below the 2 groups of the launch, got 2"),
    ("workgroup", 0, -1, "workgroup must ascend from 0"),
    ("workgroup", 0, 2, "workgroup must ascend from 0"),
    ("granule_offset", 1, 9, "granule_offset must ascend from 0 to 4"),
    ("granule_offset", 0, -1, "granule_offset must ascend from 0 to 4"),
    ("subgroup_offset", 1, 5, "subgroup_offset must ascend from 0 to 4"),
]


def changed(name: str, position: int, value: int) -> dict[str, Any]:
    column = np.array(getattr(GOOD, name))
    column[position] = value
    return {name: column}


@pytest.mark.parametrize(("name", "position", "value", "message"), BROKEN)
def test_columns(tmp_path: Path, name: str, position: int, value: int, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        GOOD.replace(**changed(name, position, value))
    assert message in str(caught.value)
    path = tmp_path / "k.trace"
    forge(path, GOOD, **changed(name, position, value))
    with pytest.raises(TraceError) as caught:
        read_launches(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_both_sides_of_a_bound() -> None:
    """An access may wait for the one just before it, and touch the last granule of an array."""
    assert GOOD.replace(**changed("waits", 2, 1)).n_access == 4
    end = GOOD.arrays[0].size_bytes // 32
    assert GOOD.replace(**changed("granule", 3, end - 1)).n_granule == 4
    with pytest.raises(TraceError, match="must lie in the arrays"):
        GOOD.replace(**changed("granule", 3, end))
    two = (
        ArrayExtent(name="a", base_bytes=0, size_bytes=128),
        ArrayExtent(name="b", base_bytes=160, size_bytes=1),
    )
    assert GOOD.replace(arrays=two).n_granule == 4
    with pytest.raises(TraceError, match=r"must lie in the arrays of the trace, got \[4\]"):
        GOOD.replace(arrays=two, **changed("granule", 3, 4))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arrays": (ArrayExtent(name="a", base_bytes=-32, size_bytes=999),)}, "between 0 and 2^57"),
        ({"arrays": (ArrayExtent(name="a", base_bytes=0, size_bytes=(1 << 57) + 1),)}, "array a must lie between 0 and 2^57"),
        ({"arrays": ()}, "granules must lie in the arrays"),
        ({"launch": dataclasses.replace(GOOD.launch, n_groups=0)}, "n_groups of a launch must be 1"),
        ({"launch": dataclasses.replace(GOOD.launch, group_items=1 << 40)}, "group_items of a launch must be 1 to"),
        ({"launch": dataclasses.replace(GOOD.launch, local_memory_bytes=-1)}, "local_memory_bytes of a launch must be 0 to"),
        ({"sites": (dataclasses.replace(GOOD.sites[0], depends_on=("gone",)),)}, "depends_on of site site0 must name sites of the trace, got gone"),
        ({"sites": (dataclasses.replace(GOOD.sites[0], itemsize_bytes=-4),)}, "itemsize_bytes of site site0 must be 0 to"),
    ],
)  # fmt: skip
def test_what_surrounds_the_columns(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceError) as caught:
        GOOD.replace(**changes)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["launch_work", "launch_work_error"])
def test_a_number_that_is_none(tmp_path: Path, name: str) -> None:
    stored = _columns(GOOD)
    described = {**_description(GOOD, stored), name: "x"}
    document = {"format": "memsim-trace", "version": 1, "launches": [described], "between": []}
    path = tmp_path / "k.trace"
    write_forged(path, {f"0.{column}": values for column, values in stored.items()}, document)
    with pytest.raises(TraceError, match=r"Expected .*float"):
        read_launches(path)


def test_names_are_text_and_nothing_else() -> None:
    name = "x\x1b[31m\u202e\ud800\0\n=1"
    shown = r"x\x1b[31m\u202e\ud800\x00\n=1"
    site = AccessSite(
        name=name,
        array=name,
        direction="load",
        itemsize_bytes=4,
        depends_on=(name,),
        source=SourceLocation(user_file=name),
    )
    assert (site.name, site.array, site.depends_on) == (shown, shown, (shown,))
    assert site.source.user_file == shown
    assert ArrayExtent(name=name, base_bytes=0, size_bytes=1).name == shown
    assert Launch(kernel=name, n_groups=1, group_items=1).kernel == shown
    plain = "x[i] é 变量 שלום <b>&'\""
    assert ArrayExtent(name=plain, base_bytes=0, size_bytes=1).name == plain


def test_what_is_not_a_column_of_its_length() -> None:
    with pytest.raises(TraceError, match="lanes must have n_access = 4 rows, got 3"):
        GOOD.replace(lanes=GOOD.lanes[:3])
