"""The headers that a program includes: what is kept of a compilation holds only while they are the same; clang with one that
is compiled once and kept."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from memsim.errors import KernelError
from tracegen.tools import cache
from tracegen.tools.process import Finished, run
from tracegen.tools.toolchain import Tool, major

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
    return missing | {path: cache.identity(path, latest) for path in paths}


def _sooner(paths: Sequence[str], searched: Sequence[str]) -> Iterator[str]:
    """The files that would be found before those of `paths`, each in a searched folder or beside another."""
    around = [*dict.fromkeys(os.path.dirname(path) for path in paths), *searched]
    for path in paths:
        for place in searched:
            if path.startswith(f"{place}{os.sep}"):
                yield from (os.path.join(other, os.path.relpath(path, place)) for other in around)


_UNDEFINED = ("-Xclang", "-no-enable-noundef-analysis")
"""Lanes may pass variables without a value to a shuffle. clang 14 allows it without being told, and does not know the option."""


_OF_COMPILED = re.compile(r"precompiled|PCH|AST file|module file")
"""In what clang says of a compiled header, not of the program behind it."""


def run_with_header(
    clang: Tool, header: Path, language: Sequence[str], rest: Sequence[str], folder: Path
) -> Finished:
    """Runs clang in a folder with `language` and `rest`, the header before the program.

    language : arguments that decide what the header means
    Where clang refuses the compiled header, because a file that it includes or a definition is another
    one, the program is compiled with the header's text.
    """
    language = [*language, *(_UNDEFINED if major(clang) > 14 else ())]
    command = [str(clang.path), *language]
    compiled = _compiled(clang, header, language, folder)
    if compiled is not None:
        checked = ["-Xclang", "-fmodules-validate-system-headers"]
        finished = run([*command, *checked, "-include-pch", str(compiled), *rest], folder)
        if finished.status == 0 or not _OF_COMPILED.search(finished.errors):
            return finished
    finished = run([*command, "-include", str(header), *rest], folder)
    if compiled is not None and finished.status == 0:
        compiled.unlink(missing_ok=True)  # it is out of date
    return finished


def _compiled(clang: Tool, header: Path, language: Sequence[str], folder: Path) -> Path | None:
    """The header compiled; None where nothing can be kept, or clang does not compile it."""
    key = cache.key("header", clang.identity, str(header), *language)

    def make(path: Path) -> None:
        command = [str(clang.path), *language, "-S", "-Xclang", "-emit-pch"]
        if run([*command, str(header), "-o", str(path)], folder).status:
            raise KernelError(f"{clang} does not compile {header.name}")

    try:
        return cache.kept_file(f"{key}.pch", make)
    except KernelError:
        return None
