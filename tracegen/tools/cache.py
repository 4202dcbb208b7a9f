"""What the compilers wrote, kept on disk: values that were read from it, and files that other runs of the compilers read.

Everything that is kept decides what is executed on this computer or reported, so files of other users
are not used.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from memsim import disk_cache
from memsim.files import whole_file

T = TypeVar("T")

KIND = "compiled"
MOST_BYTES = 256 << 20
_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
_ROOMS = tuple(Path(__file__).parents[1] / name for name in ("compiled", "cuda", "tools"))
"""The code that runs the compilers and reads what they write."""


def key(*parts: str) -> str:
    """The fingerprint of everything that an output depends on; clang's variables and our code are added."""
    variables = (f"{name}={os.environ.get(name)}" for name in _VARIABLES)
    return disk_cache.fingerprint([_our_code(_ROOMS), *variables, *parts])


@functools.cache
def _our_code(rooms: tuple[Path, ...]) -> str:
    """A fingerprint of the modules in these folders, so that what other versions kept is not used."""
    files = sorted(path for room in rooms for path in room.rglob("*.py"))
    return disk_cache.fingerprint(path.read_text(encoding="utf-8") for path in files)


@dataclass(frozen=True)
class _Kept(Generic[T]):
    """headers : path -> identity of the files that were included, see tracegen.tools.headers"""

    content: T
    headers: Mapping[str, str]


def kept(key: str, kind: type[T], make: Callable[[], tuple[T, Mapping[str, str]]]) -> T:
    """The value under a key, or else that which `make` returns with its headers; it is saved then."""
    content = load(key, kind)
    if content is None:
        content, headers = make()
        save(key, content, headers)
    return content


def load(key: str, kind: type[T]) -> T | None:
    """The value of a kind that was saved under a key; None if there is none, it is damaged, or an included file has changed."""
    saved = disk_cache.load_bytes(KIND, key)
    if saved is None:
        return None
    try:
        found: _Kept[T] = msgspec.json.decode(saved, type=_Kept[kind])  # type: ignore[valid-type]
    except (msgspec.DecodeError, RecursionError):
        return None
    unchanged = all(identity(path) == before for path, before in found.headers.items())
    return found.content if unchanged else None


def save(key: str, content: object, headers: Mapping[str, str]) -> None:
    """Saves a value, and deletes the files that were not used for longest beyond 256 MB. headers : see `_Kept`"""
    disk_cache.save_bytes(KIND, key, msgspec.json.encode(_Kept(content, headers)), MOST_BYTES)


def identity(path: str, latest_ns: int | None = None) -> str:
    """Changes whenever a file does; "" if there is none.

    latest_ns : a time after which the file must not have changed
    """
    try:
        status = os.stat(path)
    except OSError:
        return ""
    if latest_ns is not None and status.st_ctime_ns > latest_ns:
        return "changing"
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def kept_file(name: str, make: Callable[[Path], None]) -> Path | None:
    """A file of the cache, which `make` writes if it is not there; None where nothing can be kept."""
    where = disk_cache.folder(KIND)
    if where is None:
        return None
    path = where / name
    with contextlib.suppress(OSError):
        path.touch(exist_ok=True) if disk_cache.is_own(path) else _write(path, make)
        return path
    return None


def file(name: str, make: Callable[[Path], None], otherwise: Path) -> Path:
    """As `kept_file`, but where nothing can be kept, the file lies in the folder `otherwise`."""
    kept = kept_file(name, make)
    if kept is not None:
        return kept
    path = otherwise / name
    make(path)
    return path


def _write(path: Path, make: Callable[[Path], None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary:
        make(temporary)
