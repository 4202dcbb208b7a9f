"""Trace files: Arrow IPC files, which many tools can open. They are read through a memory map.

Layout, version 1. One row; column `i.name` (a large list) is the array `name` of launch i, flat.
The schema's metadata holds `memsim`, a JSON object, and `memsim.crc32`, its checksum:

    {"format": "memsim-trace", "version": 1,
     "launches": [{"sites": [...], "arrays": [...], "launch": {...}, "subgroup_size": 32,
                   "whole": true, "generated_source": "", "user_source": "", "provenance": {},
                   "granule_bytes": 32,
                   "columns": [{"name": "workgroup", "shape": [64], "crc32": 123}, ...]}, ...],
     "between": [[{"kind": "copy", "array": "x", "size_bytes": 64, "source": null}, ...], ...]}

starts_sequence is stored as uint8; the other columns have the element types of `memsim.trace.model`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from memsim.errors import ResultError, TraceError
from memsim.files import write_whole
from memsim.machine.rules import field_types
from memsim.trace.arrow import Bytes, as_column, read_columns, write_columns
from memsim.trace.launches import Copy, Event, Fill, Launches
from memsim.trace.model import COLUMN_DTYPES, Trace
from memsim.visible import shown

FORMAT = "memsim-trace"
VERSION = 1
_KEY, _CRC_KEY = "memsim", "memsim.crc32"
_MAX_HEADER_BYTES = 1 << 26
_CHUNK_BYTES = 1 << 24
_AXES = {"work_table": 2, "earlier": 2}
"""Column -> number of axes, where it is not 1."""
_ADDED = (
    "work_kinds", "earlier_groups", "launch_work", "launch_work_error", "occurrences", "traced_part", "own_share",
)  # fmt: skip
"""Fields that older files lack."""


class _Column(msgspec.Struct):
    name: str
    shape: tuple[int, ...]
    crc32: int


class _Event(msgspec.Struct):
    kind: Literal["copy", "fill"]
    array: str
    size_bytes: int
    source: str | None = None


_FIELDS = {name: kind for name, kind in field_types(Trace).items() if name not in COLUMN_DTYPES}
_DEFAULTS = {field.name: field.default for field in dataclasses.fields(Trace)}
_Launch: Any = msgspec.defstruct(
    "_Launch",
    [
        *(
            (name, kind, *([_DEFAULTS[name]] if name in _ADDED else []))
            for name, kind in _FIELDS.items()
        ),
        ("columns", list[_Column]),
    ],
    kw_only=True,
)


def write_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace; see `write_launches`."""
    write_launches(Launches(launches=(trace,)), path)


def read_trace(path: str | os.PathLike[str], *, verify: bool = True) -> Trace:
    """The trace of a file with a single launch; see `read_launches`.

    Raises TraceError for several launches.
    """
    launches = read_launches(path, verify=verify).launches
    if len(launches) > 1:
        raise TraceError(
            f"{os.fspath(path)}: contains {len(launches)} launches where one is expected:"
            " read it with read_launches"
        )
    return launches[0]


def write_launches(launches: Launches, path: str | os.PathLike[str]) -> None:
    """Write launches to a file, completely or not at all.

    Columns are written without copying them, so they may be maps of files larger than the memory.
    Raises TraceError if the file cannot be written, or provenance is not JSON.
    """
    target = Path(path)
    columns: dict[str, npt.NDArray[Any]] = {}
    described = []
    for i, trace in enumerate(launches.launches):
        own = _columns(trace)
        columns |= {f"{i}.{name}": column for name, column in own.items()}
        described.append(_description(trace, own))
    events = [[_event_json(event) for event in events] for events in launches.between]
    document = {"format": FORMAT, "version": VERSION, "launches": described, "between": events}
    try:
        header = json.dumps(document)
    except (TypeError, ValueError, RecursionError) as error:
        raise TraceError(f"{target}: provenance of a trace must be JSON: {error}") from None
    if len(header) > _MAX_HEADER_BYTES:
        raise TraceError(
            f"{target}: all but the columns must be at most {_MAX_HEADER_BYTES} bytes of JSON,"
            f" got {len(header)}"
        )
    metadata = {_KEY: header, _CRC_KEY: str(zlib.crc32(header.encode()))}
    try:
        write_whole(path, lambda place: write_columns(place, columns, metadata))
    except ResultError as error:
        raise TraceError(str(error)) from None


def read_launches(path: str | os.PathLike[str], *, verify: bool = True) -> Launches:
    """The launches of a file; their arrays are read-only views of its memory map.

    verify : compare every column with its checksum (one pass over the file)

    Raises TraceError if the file cannot be read, is not a trace file, has another version, or is
    damaged.
    """
    name = os.fspath(path)
    try:
        metadata, columns = read_columns(path)
    except OSError as error:
        raise TraceError(f"{name}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise TraceError(f"{name}: not a trace file: {error}") from None
    try:
        return _launches(_header(metadata), columns, verify)
    except TraceError as error:
        raise TraceError(f"{name}: {error}") from None


def _columns(trace: Trace) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a trace that are not None, as they are stored."""
    stored = {}
    for name in COLUMN_DTYPES:
        column = getattr(trace, name)
        if column is not None:
            stored[name] = column.view(np.uint8) if column.dtype == np.bool_ else column
    return stored


def _description(trace: Trace, columns: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    described = {
        name: dict(value)
        if isinstance(value, Mapping)
        else msgspec.to_builtins(value, enc_hook=_plain)
        for name, value in ((name, getattr(trace, name)) for name in _FIELDS)
    }
    described["columns"] = [
        {"name": name, "shape": list(column.shape), "crc32": _crc32(column.reshape(-1).view("u1"))}
        for name, column in columns.items()
    ]
    return described


def _plain(number: Any) -> Any:
    """A number of NumPy's as one of Python's."""
    return number.item()


def _event_json(event: Event) -> dict[str, Any]:
    return {"kind": type(event).__name__.lower(), **dataclasses.asdict(event)}


def _crc32(data: Bytes) -> int:
    crc = 0
    for start in range(0, len(data), _CHUNK_BYTES):
        crc = zlib.crc32(data[start : start + _CHUNK_BYTES].data, crc)
    return crc


def _header(metadata: Mapping[str, str]) -> dict[str, Any]:
    text = metadata.get(_KEY)
    if text is None:
        raise TraceError("not a trace file: its metadata has no 'memsim'")
    if len(text) > _MAX_HEADER_BYTES:
        raise TraceError(f"its header must be at most {_MAX_HEADER_BYTES} bytes, got {len(text)}")
    if metadata.get(_CRC_KEY) != str(zlib.crc32(text.encode())):
        raise TraceError("damaged: the checksum of its header does not match")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"its header must be JSON: {error}") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise TraceError(f"not a trace file: the format of its header must be '{FORMAT}'")
    if header.get("version") != VERSION:
        raise TraceError(
            f"version of a trace file must be {VERSION}, got {shown(header.get('version'))}"
        )
    return header


def _launches(header: Mapping[str, Any], columns: list[Bytes], verify: bool) -> Launches:
    try:
        described = msgspec.convert(header.get("launches"), list[_Launch])
        between = msgspec.convert(header.get("between"), list[list[_Event]])
    except msgspec.ValidationError as error:
        raise TraceError(f"its header does not describe launches: {error}") from None
    remaining = iter(columns)
    traces = [_trace(i, entry, remaining, verify) for i, entry in enumerate(described)]
    if next(remaining, None) is not None:
        raise TraceError("it must contain only the columns that its header names")
    return Launches(
        launches=tuple(traces),
        between=tuple(tuple(_event(entry) for entry in events) for events in between),
    )


def _event(entry: _Event) -> Event:
    if entry.kind == "fill":
        return Fill(array=entry.array, size_bytes=entry.size_bytes)
    return Copy(array=entry.array, size_bytes=entry.size_bytes, source=entry.source)


def _trace(launch: int, entry: Any, remaining: Iterator[Bytes], verify: bool) -> Trace:
    values = {name: getattr(entry, name) for name in _FIELDS}
    for column in entry.columns:
        name = column.name
        if name not in COLUMN_DTYPES:
            raise TraceError(f"name of a column must be an array of a trace, got {shown(name)}")
        if name in values:
            raise TraceError(f"column {name} must occur once")
        n_axes = _AXES.get(name, 1)
        if len(column.shape) != n_axes or min(column.shape) < 0:
            got = shown(column.shape)
            raise TraceError(f"shape of column {name} must be {n_axes} sizes, got {got}")
        data = next(remaining, None)
        if data is None:
            raise TraceError(f"column {name} of launch {launch} is missing")
        if verify and _crc32(data) != column.crc32:
            raise TraceError(f"damaged: the checksum of column {name} does not match")
        try:
            if COLUMN_DTYPES[name] is np.bool_:
                _check_booleans(data)
            values[name] = as_column(data, COLUMN_DTYPES[name], column.shape)
        except (ValueError, OverflowError) as error:
            raise TraceError(f"column {name} of launch {launch}: {error}") from None
    for name in COLUMN_DTYPES:
        if name not in values and _DEFAULTS[name] is not None:
            raise TraceError(f"column {name} of launch {launch} is missing")
    return Trace(**values)


def _check_booleans(data: Bytes) -> None:
    for start in range(0, len(data), _CHUNK_BYTES):
        if int(data[start : start + _CHUNK_BYTES].max()) > 1:
            raise ValueError("must contain 0 and 1 only")
