"""Writing a report's file whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from memsim.errors import ResultError
from memsim.files import whole_file


def write_whole(path: str | os.PathLike[str], write: Callable[[Path], object]) -> Path:
    """Have write(temporary path) make a file beside `path`, then put it in its place.

    A reader sees the old file or the new one, never a part. What stands there and is no regular
    file (a pipe, /dev/stdout) is written to in place. Raises ResultError where that fails.
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    try:
        if target.is_dir():
            raise IsADirectoryError("it is a folder")
        if not target.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {target.parent}")
        if target.exists() and not target.is_file():
            write(target)
        else:
            with whole_file(target) as temporary:
                write(temporary)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ResultError(f"cannot write {os.fspath(path)}: {reason}") from error
    return Path(path)


def write_text(path: str | os.PathLike[str], content: str) -> Path:
    """Write UTF-8 text whole or not at all."""
    data = content.encode("utf-8", errors="replace")  # a lone surrogate from outside must not fail
    return write_whole(path, lambda target: target.write_bytes(data))
