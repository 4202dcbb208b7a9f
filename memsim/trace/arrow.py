"""Columns in an Arrow IPC file: one row, every column one large list, all else in the metadata.

pyarrow writes the file, and pyarrow, pandas or polars can read it. This module reads it without
pyarrow: the columns are views of a memory map, a damaged or hostile file can neither crash the process
nor make it allocate (Arrow would decompress a bomb), and workers do not import pyarrow.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_MAGIC = b"ARROW1"
_CONTINUATION = 0xFFFFFFFF
_RECORD_BATCH = 3  # MessageHeader of Arrow's Message.fbs
_MAX_METADATA = 8
_BUFFERS_PER_COLUMN = 4  # validity and offsets of the list, validity and data of its items

Bytes = npt.NDArray[np.uint8]


def write_columns(
    path: str | os.PathLike[str],
    columns: Mapping[str, npt.NDArray[Any]],
    metadata: Mapping[str, str],
) -> None:
    """Write C-contiguous columns, flattened, without copying them; raises OSError."""
    import pyarrow as pa

    arrays = []
    for column in columns.values():
        flat = column.reshape(-1)
        values = pa.Array.from_buffers(
            pa.from_numpy_dtype(flat.dtype), len(flat), [None, pa.py_buffer(flat)]
        )
        offsets = pa.array([0, len(flat)], pa.int64())
        arrays.append(pa.LargeListArray.from_arrays(offsets, values))
    fields = [pa.field(name, array.type) for name, array in zip(columns, arrays, strict=True)]
    schema = pa.schema(fields, metadata=dict(metadata))
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    try:
        with pa.OSFile(os.fspath(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            writer.write_batch(batch)
    except OSError as error:
        # Arrow's own words name the call that failed before the reason.
        raise OSError(error.errno, os.strerror(error.errno)) if error.errno else error from None


def read_columns(path: str | os.PathLike[str]) -> tuple[dict[str, str], list[Bytes]]:
    """The metadata, and the bytes of every column in order: read-only views of a memory map.

    Raises ValueError if the file has another layout than `write_columns` produces, and OSError.
    """
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size < 2 * len(_MAGIC) + 4:
            raise ValueError("too short")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    content = np.frombuffer(mapped, np.uint8)
    buffer = memoryview(mapped)
    if bytes(buffer[: len(_MAGIC)]) != _MAGIC or bytes(buffer[-len(_MAGIC) :]) != _MAGIC:
        raise ValueError("not an Arrow file, or cut short")
    end = len(buffer) - len(_MAGIC) - 4
    footer_bytes = _unpack("<i", buffer, end)
    if not 0 < footer_bytes <= end:
        raise ValueError("its footer's length is impossible")
    footer = _Table.root(buffer[end - footer_bytes : end])
    schema = footer.table(1)
    entries = schema.tables(2)
    if len(entries) > _MAX_METADATA:  # all of them may refer to one long text
        raise ValueError(f"it must have at most {_MAX_METADATA} metadata entries")
    metadata = {entry.string(0): entry.string(1) for entry in entries}
    blocks = footer.structs(3, "<qi4xq")
    if len(blocks) != 1:
        raise ValueError("it must contain one record batch")
    columns = [
        content[start : start + length]
        for start, length in _column_extents(buffer[:end], blocks[0])
    ]
    return metadata, columns


def _column_extents(buffer: memoryview, block: tuple[int, ...]) -> list[tuple[int, int]]:
    """(start, length) of every column's data in the file."""
    offset, head_bytes, body_bytes = block
    body = offset + head_bytes
    if offset < 0 or head_bytes < 8 or body_bytes < 0 or body + body_bytes > len(buffer):
        raise ValueError("its record batch reaches beyond the file")
    if _unpack("<I", buffer, offset) != _CONTINUATION:
        raise ValueError("its record batch has no header")
    message = _Table.root(buffer[offset + 8 : body])
    if message.scalar(1, "<B") != _RECORD_BATCH:
        raise ValueError("it must contain a record batch")
    batch = message.table(2)
    if batch.position_of(3) is not None:
        raise ValueError("its columns must not be compressed")
    if batch.scalar(0, "<q") != 1:
        raise ValueError("it must have one row")
    buffers = batch.structs(2, "<qq")
    if len(buffers) % _BUFFERS_PER_COLUMN:
        raise ValueError("its columns must be large lists")
    extents = []
    for start, length in buffers[_BUFFERS_PER_COLUMN - 1 :: _BUFFERS_PER_COLUMN]:
        if start < 0 or length < 0 or start + length > body_bytes:
            raise ValueError("a column reaches beyond the file")
        extents.append((body + start, length))
    return extents


def _unpack(code: str, data: memoryview, position: int) -> Any:
    if position < 0 or position + struct.calcsize(code) > len(data):
        raise ValueError("a reference points outside it")
    return struct.unpack_from(code, data, position)[0]


@dataclass(frozen=True)
class _Table:
    """A FlatBuffers table: optional fields, by number."""

    data: memoryview
    position: int

    @staticmethod
    def root(data: memoryview) -> _Table:
        return _Table(data, _unpack("<I", data, 0))

    def position_of(self, field: int) -> int | None:
        vtable = self.position - _unpack("<i", self.data, self.position)
        slot = 4 + 2 * field
        if slot >= _unpack("<H", self.data, vtable):
            return None
        offset = _unpack("<H", self.data, vtable + slot)
        return self.position + offset if offset else None

    def scalar(self, field: int, code: str) -> Any:
        position = self.position_of(field)
        return 0 if position is None else _unpack(code, self.data, position)

    def _target(self, field: int) -> int:
        position = self.position_of(field)
        if position is None:
            raise ValueError("a part of it is missing")
        return int(position + _unpack("<I", self.data, position))

    def table(self, field: int) -> _Table:
        return _Table(self.data, self._target(field))

    def string(self, field: int) -> str:
        start, length = self._vector(field, 1)
        return str(self.data[start : start + length], "utf-8")

    def tables(self, field: int) -> list[_Table]:
        """A vector of tables; an absent one is empty."""
        start, length = self._vector(field, 4)
        positions = range(start, start + 4 * length, 4)
        return [_Table(self.data, at + _unpack("<I", self.data, at)) for at in positions]

    def structs(self, field: int, code: str) -> list[tuple[int, ...]]:
        """A vector of structs; an absent one is empty."""
        size = struct.calcsize(code)
        start, length = self._vector(field, size)
        return list(struct.iter_unpack(code, self.data[start : start + size * length]))

    def _vector(self, field: int, item_bytes: int) -> tuple[int, int]:
        """(position of the first item, number of items)."""
        if self.position_of(field) is None:
            return 0, 0
        target = self._target(field)
        length = _unpack("<I", self.data, target)
        if target + 4 + length * item_bytes > len(self.data):
            raise ValueError("a list in it reaches beyond its end")
        return target + 4, length


def as_column(data: Bytes, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """The bytes of a column as an array; raises ValueError if their number does not match the shape."""
    kind = np.dtype(dtype)
    if math.prod(shape) * kind.itemsize != len(data):
        raise ValueError(f"must have {math.prod(shape) * kind.itemsize} bytes, got {len(data)}")
    if data.ctypes.data % kind.itemsize:
        raise ValueError(f"must begin at a multiple of {kind.itemsize} bytes")
    return data.view(kind).reshape(shape)
