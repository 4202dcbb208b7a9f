"""Keeps results on disk between runs: one JSON file for each, in a folder for each kind of result.

The folders lie in `$MEMSIM_CACHE_DIR`, else in `memsim` under `$XDG_CACHE_HOME`, else in
`~/.cache/memsim`. A damaged file is ignored and replaced. With MEMSIM_CACHE_DIR="" nothing is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from memsim.files import whole_file


def folder(kind: str) -> Path | None:
    """The folder of the results of a kind; None if nothing is kept."""
    given = os.environ.get("MEMSIM_CACHE_DIR")
    if given is not None:
        return Path(given) / kind if given else None
    base = os.environ.get("XDG_CACHE_HOME")
    if base and Path(base).is_absolute():
        return Path(base) / "memsim" / kind
    try:
        return Path.home() / ".cache" / "memsim" / kind
    except RuntimeError:  # this user has no home
        return None


def fingerprint(parts: Iterable[str]) -> str:
    """A hash of a sequence of texts; sequences that differ have different ones."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", errors="replace")
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()


def load(kind: str, key: str) -> Any:
    """The content saved under a fingerprint; None if there is no usable file."""
    where = folder(kind)
    if where is None:
        return None
    try:
        path = where / f"{key}.json"
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["fingerprint"] == key and data["sha256"] == _checksum(data["content"]):
            with contextlib.suppress(OSError):
                os.utime(path)  # so that the oldest file is the one that was not used for longest
            return data["content"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def save(kind: str, key: str, content: Any, most_bytes: int | None = None) -> None:
    """Saves JSON content; a folder that cannot be written is not an error.

    most_bytes : size of the folder above which the files are deleted that were not used for longest
    """
    where = folder(kind)
    if where is None:
        return
    text = json.dumps({"fingerprint": key, "sha256": _checksum(content), "content": content})
    with contextlib.suppress(OSError):
        where.mkdir(parents=True, exist_ok=True)
        with whole_file(where / f"{key}.json") as temporary:
            temporary.write_text(text, encoding="utf-8")
        if most_bytes is not None:
            shrink(where, most_bytes)


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


def _checksum(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
