"""What the compilers wrote, kept on disk: texts, and files that other runs of the compilers read.

Everything that is kept decides what is executed on this computer or reported, so files of other users
are not used.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from memsim import disk_cache
from memsim.files import whole_file

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


def load(key: str, *names: str) -> Any:
    """The content saved under a key; None if there is none, it is damaged, or lacks a text of these names."""
    content = disk_cache.load(KIND, key)
    if not isinstance(content, dict):
        return None
    return content if all(isinstance(content.get(name), str) for name in names) else None


def save(key: str, content: Mapping[str, Any]) -> None:
    """Saves JSON content, and deletes the files that were not used for longest beyond 256 MB."""
    disk_cache.save(KIND, key, dict(content), MOST_BYTES)


def load_bytes(key: str) -> bytes | None:
    """As `load`, but the content is not read from JSON."""
    return disk_cache.load_bytes(KIND, key)


def save_bytes(key: str, content: bytes) -> None:
    """As `save`, for content that is JSON already."""
    disk_cache.save_bytes(KIND, key, content, MOST_BYTES)


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
