"""Files are written whole or not at all: a reader never sees a part of one.

What is being written has a random name of its own, is made exclusively (a link that somebody planted is
never followed), and is locked. A file or folder that a killed run left is therefore known by its missing
lock, and the next run that writes to the same place removes it.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from memsim.errors import ResultError

try:
    import fcntl
except ImportError:  # not on Windows: nothing is locked there, and nothing removed
    fcntl = None  # type: ignore[assignment]

_PREFIX = "memsim-"
_LOCK = ".memsim-lock"
_YOUNG_SECONDS = 2.0
"""A file younger than this may belong to a process that is about to lock it."""


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` to write to; the file is renamed to `path` at the end.

    After an error or an interrupt the temporary file is removed and `path` is unchanged.
    """
    # The suffix stays because some writers choose the format by it.
    stem, suffix = path.stem[:40], path.suffix[:20]
    _remove_leftovers(
        path.parent, re.compile(rf"\.{re.escape(stem)}-[0-9a-f]{{16}}{re.escape(suffix)}")
    )
    temporary = path.with_name(f".{stem}-{secrets.token_hex(8)}{suffix}")
    descriptor = _new_locked(temporary)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        os.close(descriptor)
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def temporary_folder(inside: Path | None = None) -> Iterator[Path]:
    """A new folder, which is removed at the end, or by the next run if this one is killed.

    inside : where it is made; by default the folder for temporary files. Raises OSError.
    """
    place = Path(tempfile.gettempdir()) if inside is None else inside
    _remove_left_folders(place)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    try:
        descriptor = _new_locked(folder / _LOCK)
        try:
            os.write(descriptor, platform.node().encode())
            yield folder
        finally:
            os.close(descriptor)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A temporary folder beside `path`; its files are moved to `path`, a new or an empty folder, at the end.

    After an error or an interrupt it is removed. Raises ResultError where files lie in `path`, or where it cannot be written.
    """
    try:
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            raise ResultError(f"{path}: must be a new or an empty folder")
        with temporary_folder(path.parent) as temporary:
            inside = temporary / path.name
            inside.mkdir()
            yield inside
            inside.replace(path)
    except OSError as error:
        raise ResultError(f"{path}: cannot be written: {error.strerror or error}") from None


@contextlib.contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    """The environment with a variable of this value."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        os.environ.update({} if before is None else {name: before})


def write_whole(path: str | os.PathLike[str], write: Callable[[Path], object]) -> Path:
    """Call write(temporary path), then rename the temporary file to `path`; returns `path`.

    What is written is copied to an existing `path` that is not a regular file (a pipe, /dev/stdout). Raises
    ResultError where the file cannot be written.
    """
    try:
        target = Path(os.path.realpath(path))  # a link stays a link
        if target.is_dir():
            raise IsADirectoryError("it is a folder")
        if not target.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {target.parent}")
        if target.exists() and not target.is_file():
            with temporary_folder() as folder:
                write(folder / target.name)
                with (folder / target.name).open("rb") as file, target.open("wb") as sink:
                    shutil.copyfileobj(file, sink)
        else:
            with whole_file(target) as temporary:
                write(temporary)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ResultError(f"cannot write {os.fspath(path)}: {reason}") from error
    except ValueError as error:  # a zero byte, or a surrogate that no file name can hold
        raise ResultError(f"cannot write {os.fspath(path)!r}: {error}") from error
    return Path(path)


def write_bytes(path: str | os.PathLike[str], data: bytes | memoryview) -> Path:
    """Write bytes whole or not at all. Raises ResultError where they cannot be written."""
    return write_whole(path, lambda target: target.write_bytes(data))


def write_text(path: str | os.PathLike[str], content: str) -> Path:
    """Write UTF-8 text whole or not at all. Raises ResultError where it cannot be written."""
    return write_bytes(path, content.encode("utf-8", errors="replace"))  # lone surrogates


def write_picture(path: str | os.PathLike[str], figure: Any, dpi: int) -> Path:
    """Write a matplotlib figure whole or not at all. Raises ResultError where it cannot be written."""
    return write_whole(path, lambda target: figure.savefig(target, dpi=dpi))


def _new_locked(path: Path) -> int:
    """A descriptor of a file that did not exist before, locked as long as it is open."""
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o666)
    if fcntl is not None:
        with contextlib.suppress(OSError):  # some network file systems lock nothing
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def _is_abandoned(path: Path) -> bool:
    """Whether a file was locked by a process that has ended, and is not too young to tell."""
    if fcntl is None:
        return False
    try:
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        if time.time() - os.fstat(descriptor).st_mtime < _YOUNG_SECONDS:
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # a process holds it
        return False
    finally:
        os.close(descriptor)
    return True


def _remove_leftovers(folder: Path, name: re.Pattern[str]) -> None:
    """Removes the files of a name in a folder that killed runs left there."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if name.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                path = Path(entry.path)
                if _is_abandoned(path):
                    path.unlink(missing_ok=True)


def _remove_left_folders(place: Path) -> None:
    """Removes the folders of this user and this computer that killed runs left in a place."""
    if not hasattr(os, "getuid"):
        return
    here = platform.node().encode()
    with contextlib.suppress(OSError):
        for entry in os.scandir(place):
            if not entry.name.startswith(_PREFIX) or not entry.is_dir(follow_symlinks=False):
                continue
            lock = Path(entry.path) / _LOCK
            with contextlib.suppress(OSError):
                mine = entry.stat(follow_symlinks=False).st_uid == os.getuid()
                if mine and lock.read_bytes() == here and _is_abandoned(lock):
                    shutil.rmtree(entry.path, ignore_errors=True)
