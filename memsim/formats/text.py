"""Text of any length, plain or packed, through one buffer: a block of whole lines at a time."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from memsim.errors import TraceError, one_line

BUFFER_BYTES = 1 << 22
MAX_LINE_BYTES = 1 << 20
_XZ_MEMORY_BYTES = 1 << 28
_ZSTD_WINDOW_BYTES = 1 << 27
_BOMB_BYTES, _BOMB_RATIO = 1 << 28, 2000
"""Traces are packed to a part in 20 to 200. A file that unpacks further than this, to more than
256 MB, is refused."""
_CHUNK_BYTES = 1 << 18
_ZSTD_FEED_BYTES = 1 << 9


class _ByteStream(Protocol):
    def readinto(self, view: memoryview, /) -> int | None: ...


class Text:
    """The lines of a file; gzip, xz and zstd are known by their first bytes.

    `buffer[begin:end]` holds whole lines; the last ends with a newline even if the file does not. A
    reader advances `begin`, counts lines in `number`, and calls `more` to continue.
    """

    def __init__(self, path: Path, *, buffer_bytes: int = BUFFER_BYTES) -> None:
        self.path = path
        self.number = 0
        self.begin = self.end = 0
        self._filled = 0
        self._ended = False
        self._unpacked = 0
        self._bytes = bytearray(buffer_bytes)
        self.buffer: npt.NDArray[np.uint8] = np.frombuffer(self._bytes, np.uint8)
        self._longest = min(buffer_bytes // 2, MAX_LINE_BYTES)
        try:
            self._file = open(path, "rb")  # noqa: SIM115 - closed by __exit__
        except OSError as error:
            raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None
        try:
            self._source = self._opened()
            self._packed = self._source is not self._file
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Text:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Names the file and the line in errors that do not."""
        self._file.close()
        line = max(self.number, 1)
        if isinstance(error, csv.Error):
            raise self.fail(f"not CSV: {error}", line) from None
        if isinstance(error, TraceError) and not str(error).startswith(str(self.path)):
            raise self.fail(str(error), line) from None

    def fail(self, message: str, number: int | None = None) -> TraceError:
        """The error to raise for a line, the present one by default."""
        return TraceError(f"{self.path}, line {number or self.number}: {message}")

    def more(self) -> bool:
        """Brings the next whole lines to [begin, end); False at the end of the file."""
        rest = self._filled - self.end
        assert self.begin == self.end
        self.buffer[:rest] = self.buffer[self.end : self._filled]
        self.begin, self._filled = 0, rest
        while True:
            # One byte stays free for the newline that a last line may lack.
            room = len(self.buffer) - 1 - self._filled
            got = 0 if self._ended else self._read(self._filled, room)
            if got == 0 and not self._ended:
                self._ended = True
            if self._ended:
                if self._filled and not self._bytes.endswith(b"\n", 0, self._filled):
                    self.buffer[self._filled] = ord("\n")
                    self._filled += 1
                self.end = self._filled
                return self.end > 0
            self._filled += got
            last = self._bytes.rfind(b"\n", self._filled - got, self._filled)
            if last >= 0:
                self.end = last + 1
                return True
            if self._filled > self._longest:
                raise self.fail(f"must be at most {self._longest} bytes long", self.number + 1)

    def line(self) -> bytes | None:
        """The next line without its end; None after the last."""
        if self.begin == self.end and not self.more():
            return None
        begin, end = self.begin, self._bytes.index(b"\n", self.begin)
        self.begin = end + 1
        self.number += 1
        return bytes(self._bytes[begin:end]).rstrip(b"\r")

    def back(self) -> None:
        """Before the last line, which is then read again."""
        self.begin = self._bytes.rfind(b"\n", 0, self.begin - 1) + 1
        self.number -= 1

    def decoded(self, skipped: bytes | None = None) -> Iterator[str]:
        """The lines as text, without those that begin so; raises TraceError for what is none."""
        while (line := self.line()) is not None:
            if skipped is not None and line.startswith(skipped):
                continue
            if b"\0" in line:
                raise TraceError("must not contain zero bytes")
            try:
                text = line.decode("utf-8-sig" if self.number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise TraceError("must be UTF-8") from None
            yield text

    def _read(self, at: int, length: int) -> int:
        view = self.buffer.data[at : at + min(length, 8 * _CHUNK_BYTES)]
        try:
            got = self._source.readinto(view) or 0
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise self._damaged(error) from None
        except Exception as error:
            if type(error).__name__ != "ZstdError":
                raise
            raise self._damaged(error) from None
        self._unpacked += got
        if self._packed and self._unpacked > _BOMB_BYTES:
            taken = max(os.lseek(self._file.fileno(), 0, os.SEEK_CUR), 1)
            if self._unpacked > _BOMB_RATIO * taken:
                raise self.fail(
                    f"unpacks to more than {_BOMB_RATIO} times its size: not a trace",
                    self.number + 1,
                )
        return got

    def _damaged(self, error: Exception) -> TraceError:
        place = f"{self.path}, line {self.number + 1}"
        return TraceError(f"{place}: damaged or cut short: {one_line(error)}")

    def _opened(self) -> _ByteStream:
        try:
            magic = self._file.read(6)
            self._file.seek(0)
        except OSError as error:
            raise TraceError(f"{self.path}: cannot be read: {error.strerror or error}") from None
        if magic[:2] == b"\x1f\x8b":
            return gzip.GzipFile(fileobj=self._file)
        if magic == b"\xfd7zXZ\0":
            return _Xz(self._file)
        if magic[:4] == b"\x28\xb5\x2f\xfd":
            return self._zstd()
        return self._file

    def _zstd(self) -> _ByteStream:
        zstandard: Any = None
        with contextlib.suppress(ImportError):
            import zstandard
        if zstandard is None:
            raise TraceError(
                f"{self.path}: packed with zstd: install the package zstandard"
                " (pip install 'memsim[zstd]'), or unpack it"
            )
        return _Zstd(self._file, zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES))


class _Zstd:
    """One or several zstd frames, fed so little at a time that even zeros unpack to megabytes only.

    The package's own stream reader takes a file that ends within a frame for a whole one.
    """

    def __init__(self, file: io.BufferedReader, unpacker: Any) -> None:
        self._file, self._unpacker = file, unpacker
        self._frame: Any = unpacker.decompressobj()
        self._data = memoryview(b"")
        self._inside = False

    def readinto(self, view: memoryview) -> int:
        while not self._data:
            packed = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame, self._inside = self._unpacker.decompressobj(), False
            packed = packed or self._file.read(_ZSTD_FEED_BYTES)
            if not packed and self._inside:
                raise EOFError("the file ends within a zstd frame")
            if not packed:
                return 0
            self._data = memoryview(self._frame.decompress(packed))
            self._inside = True
        n = min(len(view), len(self._data))
        view[:n] = self._data[:n]
        self._data = self._data[n:]
        return n


class _Xz:
    """One or several xz streams; a dictionary beyond 256 MB is refused, not allocated."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self._stream = self._fresh()
        self._input = b""

    @staticmethod
    def _fresh() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)

    def readinto(self, view: memoryview) -> int:
        while True:
            if self._stream.eof:
                # Several streams may follow one another, with zeros between and after them.
                self._input = self._stream.unused_data.lstrip(b"\0")
                while not self._input:
                    self._input = self._file.read(_CHUNK_BYTES)
                    if not self._input:
                        return 0
                    self._input = self._input.lstrip(b"\0")
                self._stream = self._fresh()
            if self._stream.needs_input and not self._input:
                self._input = self._file.read(_CHUNK_BYTES)
                if not self._input:
                    raise EOFError("the file ends within an xz stream")
            data = self._stream.decompress(self._input, len(view))
            self._input = b""
            if data:
                view[: len(data)] = data
                return len(data)


def check_launch(launch: int, n_launches: int, path: Path) -> None:
    """Raises TraceError where a file has no launch of this number."""
    if not 0 <= launch < n_launches:
        raise TraceError(f"--launch must be below {n_launches}, got {launch} ({path})")
