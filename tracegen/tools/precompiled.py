"""Runs clang with a header before the program, which is compiled once and kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from memsim.errors import KernelError
from tracegen.tools import cache
from tracegen.tools.process import Finished, run
from tracegen.tools.toolchain import Tool, major

_UNDEFINED = ("-Xclang", "-no-enable-noundef-analysis")
"""Lanes may pass variables without a value to a shuffle. clang 14 allows it without being told, and does not know the option."""


def run_with_header(
    clang: Tool, header: Path, language: Sequence[str], rest: Sequence[str], folder: Path
) -> Finished:
    """Runs clang in a folder with `language` and `rest`, the header before the program.

    language : arguments that decide what the header means
    Where clang refuses the compiled header, because a file that it includes or a definition is another
    one, or refuses the program, the program is compiled with the header's text.
    """
    language = [*language, *(_UNDEFINED if major(clang) > 14 else ())]
    command = [str(clang.path), *language]
    compiled = _compiled(clang, header, language, folder)
    if compiled is not None:
        checked = ["-Xclang", "-fmodules-validate-system-headers"]
        finished = run([*command, *checked, "-include-pch", str(compiled), *rest], folder)
        if finished.status == 0:
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
