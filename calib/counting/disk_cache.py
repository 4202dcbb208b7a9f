"""Keeps counts on disk between runs, one JSON file per kernel, named by the kernel's fingerprint."""

from __future__ import annotations

import hashlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from memsim import disk_cache

FORMAT = 1
"""To be increased whenever counts, or the form of the files, change."""
KIND = "counts"


def folder() -> Path | None:
    """The folder of the files; None if nothing is kept."""
    return disk_cache.folder(KIND)


def fingerprint(t_unit: Any) -> str:
    """A hash of a loopy.TranslationUnit and of everything that its counts depend on."""
    from loopy.tools import LoopyKeyBuilder

    parts = [str(FORMAT), LoopyKeyBuilder()(t_unit)]
    for package in ("memsim", "loopy", "islpy", "pymbolic"):
        try:
            parts.append(version(package))
        except PackageNotFoundError:
            parts.append("?")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def load(key: str) -> Any:
    """The content saved under a fingerprint; None if there is no usable file."""
    return disk_cache.load(KIND, key)


def save(key: str, content: Any) -> None:
    """Saves JSON content; warns once if the folder cannot be written."""
    disk_cache.save(KIND, key, content)
