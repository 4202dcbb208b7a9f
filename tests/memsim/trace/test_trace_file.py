"""Trace files: round trips, damage, hostile input, memory."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsim.errors import TraceError
from memsim.trace.arrow import read_columns, write_columns
from memsim.trace.file import read_launches, read_trace, write_launches, write_trace
from memsim.trace.launches import Copy, Fill, Launches
from memsim.trace.model import COLUMN_DTYPES, ArrayExtent, SourceLocation, Trace
from tests.support import random_cases
from tests.support.traces import make_trace


def assert_same(a: Trace, b: Trace) -> None:
    for name in Trace.__dataclass_fields__:
        one, other = getattr(a, name), getattr(b, name)
        if name in COLUMN_DTYPES and one is not None:
            assert one.dtype == other.dtype, name
            np.testing.assert_array_equal(one, other, err_msg=name)
        else:
            assert one == other, name


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """A random trace, with any names, sources and provenance."""
    trace = draw(random_cases.traces(32))
    n = len(trace.sites)
    names = draw(st.lists(st.text(max_size=8), min_size=n, max_size=n, unique=True))
    sites = tuple(
        dataclasses.replace(
            site,
            name=name,
            source=SourceLocation(generated_line=draw(st.none() | st.integers(1, 99))),
            depends_on=tuple(names[:1]),
        )
        for site, name in zip(trace.sites, names, strict=True)
    )
    shape = {"grid": (trace.launch.n_groups,), "group_shape": (trace.launch.group_items, 1)}
    hits = np.arange(trace.n_granule, dtype=np.uint8) % 33
    return trace.replace(
        sites=sites,
        launch=dataclasses.replace(trace.launch, **shape),
        lane_hits=hits if draw(st.booleans()) else None,
        generated_source=draw(st.text(max_size=20)),
        provenance={"text": draw(st.text(max_size=5)), "list": [1, None, 2.5]},
    )


def small_trace(**changes: Any) -> Trace:
    trace = make_trace([[[(0, range(4))]], [[(0, range(4, 8))]]], whole=False)
    arrays = (ArrayExtent(name="a", base_bytes=0, size_bytes=4096),)
    return trace.replace(**{"arrays": arrays, "provenance": {"seed": 1}, **changes})


@given(trace=traces())
@settings(max_examples=12)
def test_round_trip(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "round.trace"
    write_trace(trace, path)
    assert_same(read_trace(path), trace)
    assert_same(read_trace(path, verify=False), trace)


def test_other_tools_read_the_columns(tmp_path: Path) -> None:
    trace = small_trace()
    write_trace(trace, tmp_path / "a.trace")
    with pa.memory_map(str(tmp_path / "a.trace")) as source:
        table = pa.ipc.open_file(source).read_all()
    for name, dtype in COLUMN_DTYPES.items():
        if getattr(trace, name) is None:
            continue
        stored = table[f"0.{name}"][0].values.to_numpy()
        assert stored.dtype == (np.uint8 if dtype is np.bool_ else dtype)
        np.testing.assert_array_equal(stored, getattr(trace, name))
    assert json.loads(table.schema.metadata[b"memsim"])["version"] == 1


def test_columns_are_read_only_views_of_the_map(tmp_path: Path) -> None:
    write_trace(small_trace(), tmp_path / "a.trace")
    trace = read_trace(tmp_path / "a.trace")
    for name in COLUMN_DTYPES:
        column = getattr(trace, name)
        if column is not None:
            assert not column.flags.writeable
            assert not column.flags.owndata
            assert column.flags.aligned


@given(data=st.data())
@settings(max_examples=120)
def test_damage_is_found_or_harmless(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.trace"
    trace = small_trace()
    write_trace(trace, path)
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans(), "truncate"):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    for _ in range(data.draw(st.integers(0 if len(content) < 10 else 1, 3))):
        position = data.draw(st.integers(0, max(0, len(content) - 1)))
        if content:
            content[position] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    message = None
    try:
        assert_same(read_trace(path), trace)
    except TraceError as error:
        message = str(error)
    assert message is None or (message.startswith(f"{path}: ") and "\n" not in message)


def test_every_flipped_bit_of_the_columns_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    trace = small_trace()
    write_trace(trace, path)
    content = path.read_bytes()
    granules = content.index(np.arange(8, dtype=np.int64).tobytes())
    for position in range(granules, granules + 64):
        damaged = bytearray(content)
        damaged[position] ^= 8
        path.write_bytes(damaged)
        with pytest.raises(TraceError, match="checksum of column granule"):
            read_trace(path)
    # Unverified, what keeps the rules of a trace is taken as it stands.
    path.write_bytes(content[: granules + 56] + bytes([8]) + content[granules + 57 :])
    assert int(read_trace(path, verify=False).granule[-1]) == 8


def header_of(trace: Trace, path: Path) -> dict[str, Any]:
    write_trace(trace, path)
    with pa.memory_map(str(path)) as source:
        header: dict[str, Any] = json.loads(pa.ipc.open_file(source).schema.metadata[b"memsim"])
    return header


def forge(path: Path, header: object, columns: dict[str, Any] | None = None) -> None:
    """A file with any header and a correct checksum, as a hostile writer can make it."""
    trace = small_trace()
    if columns is None:
        columns = {
            name: getattr(trace, name).view(np.uint8 if name == "starts_sequence" else dtype)
            for name, dtype in COLUMN_DTYPES.items()
            if getattr(trace, name) is not None
        }
    text = header if isinstance(header, str) else json.dumps(header)
    write_columns(path, columns, {"memsim": text, "memsim.crc32": str(zlib.crc32(text.encode()))})


def change(header: dict[str, Any], keys: list[Any], value: object) -> None:
    inner: Any = header
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (["version"], 2, "version of a trace file must be 1, got 2"),
        (["format"], "other", "format of its header must be 'memsim-trace'"),
        (["launches"], {}, "describe launches: Expected `array`, got `object`"),
        (["launches"], [], "it must contain only the columns that its header names"),
        (["launches", 0], 3, "Expected `object`, got `int`"),
        (["launches", 0, "sites"], 7, r"Expected `array`, got `int` - at `\$\[0\]\.sites`"),
        (
            ["launches", 0, "sites", 0, "name"],
            None,
            r"Expected `str`, got `null` - at .*sites\[0\]\.name",
        ),
        (["launches", 0, "sites", 0], {}, "missing required field `name`"),
        (["launches", 0, "sites", 0, "direction"], "sideways", "Invalid enum value 'sideways'"),
        (["launches", 0, "sites", 0, "itemsize_bytes"], True, "Expected `int`, got `bool`"),
        (["launches", 0, "launch", "n_groups"], 10**40, "n_groups of a launch must be 1 to"),
        (["launches", 0, "launch", "grid"], [10**40], "sizes of a launch must be 0 to"),
        (
            ["launches", 0, "sites", 0, "source", "user_line"],
            10**40,
            "lines of site .* must be below",
        ),
        (["launches", 0, "launch", "grid"], ["x"], "Expected `int`, got `str`"),
        (["launches", 0, "subgroup_size"], 7, "subgroup_size must be 8, 16, 32 or 64, got 7"),
        (["launches", 0, "whole"], 1, "Expected `bool`, got `int`"),
        (["launches", 0, "granule_bytes"], 64, "granule_bytes must be 32, got 64"),
        (["launches", 0, "columns"], None, "Expected `array`, got `null`"),
        (["launches", 0, "columns", 0], [], "Expected `object`, got `array`"),
        (["launches", 0, "columns", 0, "name"], "__class__", "must be an array of a trace"),
        (["launches", 0, "columns", 0, "name"], "site", "column site must occur once"),
        (["launches", 0, "columns", 0, "shape"], [-2], "shape of column workgroup must be 1 sizes"),
        (["launches", 0, "columns", 0, "shape"], [2**61], "must have .* bytes, got 8"),
        (["launches", 0, "columns", 0, "shape"], [1], "must have 4 bytes, got 8"),
        (["launches", 0, "columns", 0, "shape"], "2", "Expected `array`, got `str`"),
        (["launches", 0, "columns", 0, "crc32"], 1, "checksum of column workgroup does not match"),
        (["launches", 0, "columns", 0, "crc32"], 1.0, "Expected `int`, got `float`"),
        (["between"], None, "Expected `array`, got `null`"),
        (["between"], [[]], "between must have one entry fewer"),
    ],
)
def test_hostile_headers(tmp_path: Path, keys: list[Any], value: object, message: str) -> None:
    path = tmp_path / "a.trace"
    header = header_of(small_trace(), path)
    change(header, keys, value)
    forge(path, header)
    with pytest.raises(TraceError, match=message) as caught:
        read_trace(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "its header must be JSON"),
        ("[1", "its header must be JSON"),
        ("[]", "not a trace file"),
        ("9" * 10_000, "its header must be JSON"),
    ],
)
def test_hostile_json(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.trace"
    forge(path, text)
    with pytest.raises(TraceError, match=message):
        read_trace(path)


def test_columns_missing_and_left_over(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    header = header_of(small_trace(), path)
    forge(path, header)
    assert_same(read_trace(path), small_trace())  # the forgery itself is sound
    columns = header["launches"][0]["columns"]
    gone = columns.pop()
    forge(path, header)
    with pytest.raises(TraceError, match=f"column {gone['name']} of launch 0 is missing"):
        read_trace(path)
    columns += [gone, {"name": "lane_hits", "shape": [8], "crc32": 0}]
    forge(path, header)
    with pytest.raises(TraceError, match="column lane_hits of launch 0 is missing"):
        read_trace(path)
    columns.pop()
    trace = small_trace()
    stored = {c["name"]: np.asarray(getattr(trace, c["name"])) for c in columns}
    stored["starts_sequence"] = stored["starts_sequence"].view(np.uint8)
    forge(path, header, {**stored, "more": np.zeros(3)})
    with pytest.raises(TraceError, match="only the columns that its header names"):
        read_trace(path)
    bad = np.array([1, 2], np.uint8)
    for column in columns:
        if column["name"] == "starts_sequence":
            column["crc32"] = zlib.crc32(bad.tobytes())
    forge(path, header, {**stored, "starts_sequence": bad})
    with pytest.raises(TraceError, match="starts_sequence of launch 0: must contain 0 and 1 only"):
        read_trace(path)


def test_a_compressed_bomb_is_refused(tmp_path: Path) -> None:
    values = pa.array(np.zeros(1 << 16, np.int64))
    column = pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)
    batch = pa.RecordBatch.from_arrays([column], ["0.granule"])
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    path = tmp_path / "bomb.trace"
    with pa.ipc.new_file(str(path), batch.schema, options=options) as writer:
        writer.write_batch(batch)
    with pytest.raises(TraceError, match="must not be compressed"):
        read_trace(path)


@pytest.mark.parametrize(
    "content", [b"", b"x", b"ARROW1", b"ARROW1\0\0" + b"\xff" * 40 + b"ARROW1", b"\x89HDF" * 100]
)
def test_foreign_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(TraceError, match="foreign: not a trace file: "):
        read_trace(path)


def test_unreadable_and_unwritable(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="gone: cannot be read: No such file"):
        read_trace(tmp_path / "gone")
    with pytest.raises(TraceError, match="cannot be read: Is a directory"):
        read_trace(tmp_path)
    with pytest.raises(TraceError, match=r"cannot write .*: it is a folder"):
        write_trace(small_trace(), tmp_path)
    with pytest.raises(TraceError, match=r"cannot write .*no/a\.trace: there is no") as caught:
        write_trace(small_trace(), tmp_path / "no" / "a.trace")
    assert "\n" not in str(caught.value)
    with pytest.raises(TraceError, match="provenance of a trace must be JSON"):
        write_trace(small_trace(provenance={"x": object()}), tmp_path / "a.trace")
    assert list(tmp_path.iterdir()) == []


def test_links_and_devices_are_written_to_and_not_replaced(tmp_path: Path) -> None:
    """As root, `-o /dev/null` had made a file of the device."""
    for target in (tmp_path / "real", Path(os.devnull)):
        link = tmp_path / f"to {target.name}"
        link.symlink_to(target)
        write_trace(small_trace(), link)
        assert link.is_symlink()
    assert_same(read_trace(tmp_path / "real"), small_trace())


def test_numbers_of_numpy_are_written(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    write_trace(small_trace(launch_work=np.float64(1.5), occurrences=np.int64(2)), path)
    assert (read_trace(path).launch_work, read_trace(path).occurrences) == (1.5, 2)


def test_a_file_may_be_written_over_the_one_its_trace_is_mapped_from(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    write_trace(small_trace(), path)
    write_trace(read_trace(path).replace(whole=True), path)
    assert_same(read_trace(path), small_trace(whole=True))


def test_launches_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "a.launches"
    first, second = small_trace(), small_trace(whole=True, granule=np.arange(8) + 5)
    events = (Fill(array="a", size_bytes=64), Copy(array="a", size_bytes=32, source="a"))
    launches = Launches(launches=(first, second), between=(events,))
    write_launches(launches, path)
    found = read_launches(path)
    assert found.between == (events,)
    for one, other in zip(found.launches, launches.launches, strict=True):
        assert_same(one, other)
    with pytest.raises(TraceError, match="contains 2 launches where one is expected"):
        read_trace(path)
    write_trace(first, path)
    assert read_launches(path).between == ()


def test_launches_rules() -> None:
    trace = small_trace()
    with pytest.raises(TraceError, match="launches must not be empty"):
        Launches(launches=())
    moved = small_trace(arrays=(ArrayExtent(name="a", base_bytes=0, size_bytes=8192),))
    with pytest.raises(TraceError, match="array a must lie in one place in all launches"):
        Launches(launches=(trace, moved))
    with pytest.raises(TraceError, match="subgroup_size must be the same"):
        Launches(launches=(trace, small_trace(subgroup_size=64)))
    with pytest.raises(TraceError, match="must name an array of the launches, got b"):
        Launches(launches=(trace, trace), between=((Fill(array="b", size_bytes=1),),))
    with pytest.raises(TraceError, match="between 0 and the 4096 of array a, got 4097"):
        Launches(launches=(trace, trace), between=((Copy(array="a", size_bytes=4097),),))
    assert Launches(launches=(trace, trace)).between == ((),)


MEMORY = """
import resource, sys
import numpy as np
from memsim.trace.model import AccessSite, ArrayExtent, Launch, Trace
from memsim.trace.file import read_trace, write_trace

def anonymous_kib():
    for line in open('/proc/self/status'):
        if line.startswith('RssAnon'):
            return int(line.split()[1])

def column(name, dtype, n, fill):
    made = np.lib.format.open_memmap(f'{sys.argv[1]}/{name}.npy', 'w+', dtype, (n,))
    for start in range(0, n, 1 << 20):
        made[start:start + (1 << 20)] = fill(start, min(n, start + (1 << 20)))
    made.flush()
    return np.load(f'{sys.argv[1]}/{name}.npy', mmap_mode='r')

n = 6_000_000
granule = column('granule', np.int64, n, np.arange)
mask = column('mask', np.uint32, n, lambda a, b: 7)
groups = column('groups', np.uint8, n, lambda a, b: 1)
trace = Trace(
    sites=(AccessSite(name='a', array='a', direction='load', itemsize_bytes=4),),
    arrays=(ArrayExtent(name='a', base_bytes=0, size_bytes=32 * n),),
    launch=Launch(kernel='k', n_groups=1, group_items=32), subgroup_size=32,
    workgroup=[0], subgroup_offset=[0, 1], site=[0], starts_sequence=[True], waits=[-1], lanes=[32],
    granule_offset=[0, n], granule=granule, byte_mask=mask, lane_groups=groups)
path = f'{sys.argv[1]}/big.trace'
write_trace(trace, path.replace('big', 'warm-up'))  # imports, pools
before = anonymous_kib()
write_trace(trace, path)
written = anonymous_kib()
found = read_trace(path)
print(written - before, anonymous_kib() - written, int(found.granule[-1]))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="Linux tells RssAnon")
def test_neither_writing_nor_reading_takes_the_file_into_memory(tmp_path: Path) -> None:
    """78 MB of columns, mapped from files; anonymous memory grows by less than a fifth."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path)], capture_output=True, text=True, check=True
    )
    write_kib, read_kib, last = map(int, done.stdout.split())
    assert write_kib < 15_000
    assert read_kib < 15_000
    assert last == 6_000_000 - 1


def test_work_between_accesses_is_kept(tmp_path: Path) -> None:
    trace = small_trace()
    rows = np.arange(trace.n_access, dtype=np.int32) % 2
    table = np.array([[1.0, 0.0, 2.5], [0.0, 3.0, 0.0]])
    trace = trace.replace(work=rows, work_table=table, work_kinds=("fma", "alu", "access"))
    write_trace(trace, tmp_path / "work.trace")
    found = read_trace(tmp_path / "work.trace")
    assert_same(found, trace)
    assert found.work_table.shape == (2, 3)


def test_files_from_before_work_was_recorded_are_read(tmp_path: Path) -> None:
    trace = small_trace()
    header = header_of(trace, tmp_path / "new.trace")
    _, data = read_columns(tmp_path / "new.trace")
    entry = header["launches"][0]
    names = [described["name"] for described in entry["columns"]]
    del entry["work_kinds"]
    forge(tmp_path / "old.trace", header, dict(zip(names, data, strict=True)))
    assert_same(read_trace(tmp_path / "old.trace"), trace)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"work_table": None}, "work and work_table must be given together"),
        ({"work_kinds": ("fma",)}, "work_table must have a column for each of 1 kinds"),
        ({"work_table": np.zeros((1, 2))}, "work must index the 1 rows of work_table, got 0..1"),
        ({"work_table": np.full((2, 2), -1.0)}, "work_table must not be negative"),
    ],
)
def test_work_that_contradicts_itself_is_refused(changes: dict[str, Any], rule: str) -> None:
    trace = small_trace()
    rows = np.arange(trace.n_access, dtype=np.int32) % 2
    whole = {"work": rows, "work_table": np.ones((2, 2)), "work_kinds": ("fma", "alu")}
    with pytest.raises(TraceError, match=re.escape(rule)):
        trace.replace(**{**whole, **changes})
