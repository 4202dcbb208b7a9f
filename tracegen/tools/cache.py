"""What the compilers wrote, kept on disk: texts, and the library of built-in functions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from memsim import disk_cache
from memsim.files import whole_file

KIND = "compiled"
MOST_BYTES = 256 << 20
FORMAT = "3"
"""To be increased whenever the commands, or what is kept of their output, change."""


def key(*parts: str) -> str:
    """The fingerprint of everything that an output depends on."""
    return disk_cache.fingerprint([FORMAT, *parts])


def load(key: str) -> Any:
    """The content saved under a key; None if there is none, or it is damaged."""
    return disk_cache.load(KIND, key)


def save(key: str, content: Mapping[str, Any]) -> None:
    """Saves JSON content, and deletes the files that were not used for longest beyond 256 MB."""
    disk_cache.save(KIND, key, dict(content), MOST_BYTES)


def file(name: str, make: Callable[[Path], None], otherwise: Path) -> Path:
    """A file of the cache, which `make` writes if it is not there.

    otherwise : a folder for the file, where the cache cannot be written
    """
    where = disk_cache.folder(KIND)
    if where is not None:
        path = where / name
        with contextlib.suppress(OSError):
            path.touch(exist_ok=True) if path.is_file() else _write(path, make)
            return path
    path = otherwise / name
    make(path)
    return path


def _write(path: Path, make: Callable[[Path], None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary:
        make(temporary)
