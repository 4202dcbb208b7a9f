"""The headers that a program includes: what is kept of a compilation holds only while they are the same."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

DEPENDENCIES = "kernel.d"
"""The file in which clang lists them, in the form of a rule for make."""


def included(folder: Path, source: str) -> dict[str, str]:
    """Path -> identity of every file but the source that clang read in a folder."""
    file = folder / DEPENDENCIES
    if not file.is_file():
        return {}
    rule = file.read_text(encoding="utf-8", errors="replace").replace("\\\n", " ")
    paths = shlex.split(rule.partition(":")[2])
    return {path: _identity(path) for path in paths if path != source}


def unchanged(headers: Mapping[str, str]) -> bool:
    """Whether the files are still what they were."""
    return all(_identity(path) == identity for path, identity in headers.items())


def _identity(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{status.st_size} {status.st_mtime_ns}"
