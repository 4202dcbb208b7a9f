"""Keeps counts on disk between runs, one JSON file per kernel, named by the kernel's fingerprint.

`$MEMSIM_CACHE_DIR`, else `memsim` under `$XDG_CACHE_HOME`, else `~/.cache/memsim`. A damaged
file is ignored and replaced; with MEMSIM_CACHE_DIR="" nothing is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

FORMAT = 1
"""To be increased whenever counts, or the form of the files, change."""


def folder() -> Path | None:
    """The folder of the files; None if nothing is kept."""
    given = os.environ.get("MEMSIM_CACHE_DIR")
    if given is not None:
        return Path(given) / "counts" if given else None
    base = os.environ.get("XDG_CACHE_HOME")
    home = Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"
    return home / "memsim" / "counts"


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
    path = _path(key)
    if path is None:
        return None
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["fingerprint"] == key and data["sha256"] == _checksum(data["content"]):
            return data["content"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def save(key: str, content: Any) -> None:
    """Saves JSON content; a folder that cannot be written is not an error."""
    path = _path(key)
    if path is None:
        return
    text = json.dumps({"fingerprint": key, "sha256": _checksum(content), "content": content})
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(name, path)  # atomic, even if several processes write
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(name)


def _path(key: str) -> Path | None:
    where = folder()
    return None if where is None else where / f"{key}.json"


def _checksum(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
