"""Keeps results on disk between runs: one JSON file for each, in a folder for each kind of result.

The folders lie in `$MEMSIM_CACHE_DIR`, else in `memsim` under `$XDG_CACHE_HOME`, else in
`~/.cache/memsim`. A damaged file is ignored and replaced. With MEMSIM_CACHE_DIR="" nothing is kept.
Loopy and OpenCL drivers keep caches beside these folders, and end where they cannot be written.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import stat
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from memsim.files import environment, temporary_folder, whole_file

_VARIABLE = "XDG_CACHE_HOME"
_ROOM_BYTES = 4 << 20
"""What the caches of one kernel may need: Loopy's are databases, PoCL's are compiled code."""


@contextlib.contextmanager
def writable_caches() -> Iterator[None]:
    """Caches of all libraries lie in a temporary folder meanwhile, if theirs cannot be written; warns."""
    refusal = _refusal(_base())
    with contextlib.ExitStack() as stack:
        folder = _temporary(stack) if refusal else None
        if folder is not None:
            _warn(f"{refusal}: caches are temporary; {_VARIABLE} names another folder")
            stack.enter_context(environment(_VARIABLE, str(folder)))
        yield


@contextlib.contextmanager
def writable_temporary_files() -> Iterator[None]:
    """Temporary files of all libraries lie beside the caches meanwhile, or in memory, if there is no folder
    for them."""
    with contextlib.ExitStack() as stack:
        try:
            tempfile.gettempdir()
        except FileNotFoundError:
            folder = _beside_caches(stack)
            if folder is not None:
                stack.enter_context(environment("TMPDIR", str(folder)))
                stack.callback(setattr, tempfile, "tempdir", None)
                tempfile.tempdir = str(folder)
        yield


def _beside_caches(stack: contextlib.ExitStack) -> Path | None:
    """A folder that is deleted with the stack; None if there is no place for it."""
    for place in (_base(), Path("/dev/shm")):
        with contextlib.suppress(OSError):
            if place is not None:
                place.mkdir(parents=True, exist_ok=True)
                return stack.enter_context(temporary_folder(place))
    return None


def _temporary(stack: contextlib.ExitStack) -> Path | None:
    """A temporary folder with room for caches, on a disk or else in memory; None if there is none."""
    for place in (None, Path("/dev/shm")):
        with contextlib.suppress(OSError):
            folder = stack.enter_context(temporary_folder(place))
            if not _refusal(folder):
                return folder
    return None


@functools.cache
def _warn(message: str) -> None:
    """Warns once in a process."""
    warnings.warn(message, stacklevel=3)


def _refusal(where: Path | None) -> str:
    """Why a folder has no room for caches, "" if it has."""
    try:
        if where is not None:
            where.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=where) as file:
                file.write(bytes(_ROOM_BYTES))
    except OSError as error:
        return f"{where} cannot be written ({error.strerror or error})"
    return ""


def _base() -> Path | None:
    """The folder of the caches of all programs; None if this user has no home."""
    base = os.environ.get(_VARIABLE)
    if base and Path(base).is_absolute():
        return Path(base)
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        return None


MOST_FILE_BYTES = 64 << 20
"""Larger files are no results of ours."""


def folder(kind: str) -> Path | None:
    """The folder of the results of a kind; None if nothing is kept."""
    given = os.environ.get("MEMSIM_CACHE_DIR")
    if given is not None:
        return Path(given) / kind if given else None
    base = _base()
    return None if base is None else base / "memsim" / kind


def fingerprint(parts: Iterable[str]) -> str:
    """A hash of a sequence of texts; sequences that differ have different ones."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", errors="replace")
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()


def load(kind: str, key: str) -> Any:
    """The content saved under a fingerprint; None if there is no usable file."""
    content = load_bytes(kind, key)
    try:
        return None if content is None else json.loads(content)
    except (ValueError, RecursionError):
        return None


def load_bytes(kind: str, key: str) -> bytes | None:
    """As `load`, but the content is not read from JSON."""
    where = folder(kind)
    if where is None:
        return None
    path = where / f"{key}.json"
    try:
        if path.stat().st_size > MOST_FILE_BYTES:
            return None
        data = path.read_bytes()
    except OSError:
        return None
    content = data[len(_whole(key, b"")) - 1 : -1]
    if data != _whole(key, content):
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # so that the oldest file is the one that was not used for longest
    return content


def is_own(path: Path) -> bool:
    """Whether a file is this user's, and not everybody may write it or its folder."""
    try:
        file, around = path.lstat(), path.parent.stat()
    except OSError:
        return False
    mine = stat.S_ISREG(file.st_mode) and file.st_uid == os.geteuid()
    return mine and not (file.st_mode | around.st_mode) & stat.S_IWOTH


def save(kind: str, key: str, content: Any, most_bytes: int | None = None) -> None:
    """Saves JSON content; warns once if the folder cannot be written.

    most_bytes : size of the folder above which the files are deleted that were not used for longest
    """
    save_bytes(kind, key, json.dumps(content).encode(), most_bytes)


def save_bytes(kind: str, key: str, content: bytes, most_bytes: int | None = None) -> None:
    """As `save`, for content that is JSON already."""
    where = folder(kind)
    if where is None:
        return
    try:
        where.mkdir(parents=True, exist_ok=True)
        with whole_file(where / f"{key}.json") as temporary:
            temporary.write_bytes(_whole(key, content))
        if most_bytes is not None:
            shrink(where, most_bytes)
    except OSError as error:
        _warn(f"{where} cannot be written ({error.strerror or error}): results are not kept")


def shrink(where: Path, most_bytes: int) -> None:
    """Deletes the files of a folder that were not used for longest, until the others fit."""
    files = []
    for entry in os.scandir(where):
        with contextlib.suppress(OSError):  # another process may delete it
            status = entry.stat()
            files.append((status.st_mtime_ns, status.st_size, entry.path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= most_bytes:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size


def _whole(key: str, content: bytes) -> bytes:
    """A file: JSON, whose content is followed by nothing but a bracket, so that its checksum is that of its bytes."""
    checksum = hashlib.sha256(content).hexdigest()
    head = f'{{"fingerprint": {json.dumps(key)}, "sha256": "{checksum}", "content": '
    return head.encode() + content + b"}"
