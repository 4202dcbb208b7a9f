"""Files are written whole or not at all: a reader never sees a part of one."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from memsim.errors import ResultError


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` to write to; the file is renamed to `path` at the end.

    After an error or an interrupt the temporary file is removed and `path` is unchanged.
    """
    # The suffix stays because some writers choose the format by it.
    temporary = path.with_name(f".{path.stem}-{os.getpid()}-{secrets.token_hex(4)}{path.suffix}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: str | os.PathLike[str], write: Callable[[Path], object]) -> Path:
    """Call write(temporary path), then rename the temporary file to `path`; returns `path`.

    An existing `path` that is not a regular file (a pipe, /dev/stdout) is written in place. Raises
    ResultError where the file cannot be written.
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
    """Write UTF-8 text whole or not at all. Raises ResultError where it cannot be written."""
    data = content.encode("utf-8", errors="replace")  # a lone surrogate from outside must not fail
    return write_whole(path, lambda target: target.write_bytes(data))
