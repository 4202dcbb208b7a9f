"""The files whose text decides what a kernel does: its own, and those beside it that they include or import."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"\n]+)"', re.MULTILINE)
_OWN = frozenset(("memsim", "tracegen", "calib"))
"""Packages that the version of memsim stands for."""


def digests(specs: Sequence[str]) -> list[str]:
    """SHA-256 of the files of kernels and functions `FILE:NAME` or `PACKAGE.MODULE:NAME`, and of files that they
    include or import, directly or through others. Libraries that are installed elsewhere do not count."""
    waiting = [path for spec in specs for path in _named(spec)]
    reached: dict[Path, str] = {}
    while waiting:
        path = waiting.pop().resolve()
        if path in reached or not path.is_file():
            continue
        content = path.read_bytes()
        reached[path] = hashlib.sha256(content).hexdigest()
        text = content.decode(errors="replace")
        waiting += _imported(path, text) if path.suffix == ".py" else _included(path, text)
    return [reached[path] for path in sorted(reached)]


def _named(spec: str) -> Iterator[Path]:
    """A name may contain `::`, and the path of a file a colon."""
    place, _, _ = spec.rpartition(":")
    parts = spec.split(":")
    yield from (Path(":".join(parts[:n])) for n in range(1, len(parts) + 1))
    yield from _modules(Path.cwd(), place)


def _included(path: Path, text: str) -> list[Path]:
    return [path.parent / name for name in _INCLUDE.findall(text)]


def _imported(path: Path, text: str) -> Iterator[Path]:
    root = path.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from _modules(root, alias.name)
            elif isinstance(node, ast.ImportFrom):
                above = (
                    path.parents[node.level - 1] if 0 < node.level <= len(path.parents) else root
                )
                for name in ("", *(alias.name for alias in node.names)):
                    yield from _modules(above, ".".join(filter(None, (node.module, name))))


def _modules(root: Path, name: str) -> Iterator[Path]:
    """The files of a module and of the packages around it."""
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts) or parts[0] in _OWN:
        return
    for n in range(1, len(parts) + 1):
        place = root.joinpath(*parts[:n])
        yield from (place.with_name(f"{place.name}.py"), place / "__init__.py")
