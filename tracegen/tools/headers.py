"""The headers that a program includes: what is kept of a compilation holds only while they are the same."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

DEPENDENCIES = "kernel.d"
"""The file in which clang lists them, in the form of a rule for make."""


def included(folder: Path, source: str, searched: Sequence[str] = ()) -> dict[str, str]:
    """Path -> identity of every file outside of a folder that clang read in it.

    searched : folders of headers in the order of the search. Files that do not exist, but would be read
        instead, have an empty identity. A file that changed after the source was written has none that it
        will ever have again.
    """
    file = folder / DEPENDENCIES
    if not file.is_file():
        return {}
    rule = file.read_text(encoding="utf-8", errors="replace").replace("\\\n", " ")
    listed = shlex.split(rule.partition(":")[2])
    paths = [path for path in listed if path != source and not path.startswith(f"{folder}{os.sep}")]
    latest = (folder / source).stat().st_ctime_ns
    missing = {path: "" for path in _sooner(paths, searched) if not os.path.exists(path)}
    return missing | {path: _identity(path, latest) for path in paths}


def unchanged(headers: object) -> bool:
    """Whether these are files, as `included` returns them, and still what they were."""
    return isinstance(headers, Mapping) and all(
        _identity(path) == identity for path, identity in headers.items()
    )


def _sooner(paths: Sequence[str], searched: Sequence[str]) -> Iterator[str]:
    """The files that would be found before those of `paths`, each in a searched folder or beside another."""
    around = [*dict.fromkeys(os.path.dirname(path) for path in paths), *searched]
    for path in paths:
        for place in searched:
            if path.startswith(f"{place}{os.sep}"):
                yield from (os.path.join(other, os.path.relpath(path, place)) for other in around)


def _identity(path: str, latest_ns: int | None = None) -> str:
    """Changes whenever the file does. latest_ns : a time after which the file must not have changed"""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    if latest_ns is not None and status.st_ctime_ns > latest_ns:
        return "changing"
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"
