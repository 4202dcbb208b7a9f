"""Kernels in Fortran, through Loopy's own front end, with the lines of the user's file.

A `.floopy` file has subroutines and, between `!$loopy begin` and `!$loopy end`, Python code that turns
them into kernels. That code runs, so the file must come from someone trusted.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memsim.errors import KernelError
from tracegen.workloads.checks import read_text

SUFFIX = ".floopy"
LINE_ID = "fortran_line_"
"""Prefix of the ids of instructions whose line is known; `instrumented.sites.user_line` reads it."""


def load_fortran(path: Path, name: str) -> Any:
    """The loopy.TranslationUnit that has the subroutine as its entry point.

    Raises KernelError in one line where the file or the name is wrong.
    """
    text = read_text(path)
    lines: dict[tuple[str, str], int] = {}
    with _quiet(path), _recording_lines(lines, text):
        units = _parsed(text, str(path))
    subroutines: dict[str, Any] = {}
    for unit in units:
        for entry in unit.callables_table:
            if isinstance(entry, str):
                subroutines.setdefault(entry, unit)
    if name not in subroutines:
        raise KernelError(
            f"{path} has no subroutine {name}; it has {', '.join(subroutines) or 'none'}"
        )
    return _with_lines(subroutines[name].with_entrypoints(name), lines)


def _parsed(text: str, name: str) -> list[Any]:
    import loopy as lp

    if "!$loopy begin" not in text:
        return [lp.parse_fortran(text, name)]
    result = lp.parse_transformed_fortran(text, filename=name)
    units = list(result) if isinstance(result, (list, tuple)) else [result]
    for unit in units:
        if not isinstance(unit, lp.TranslationUnit):
            raise KernelError(
                f"{name}: RESULT must be a loopy.TranslationUnit or a list of them, got"
                f" {type(unit).__name__}"
            )
    return units


@contextlib.contextmanager
def _quiet(path: Path) -> Iterator[None]:
    """Silences the parser, and turns its exceptions into KernelError."""
    log = logging.getLogger("fparser")
    handlers, printed = list(log.handlers), io.StringIO()
    ours = logging.StreamHandler(printed)
    log.addHandler(ours)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
            warnings.simplefilter("ignore")
            yield
    except KernelError:
        raise
    except Exception as error:
        words = " ".join(f"{error} {printed.getvalue()}".split())
        raise KernelError(f"{path}: {type(error).__name__}: {words[:300]}") from error
    finally:
        log.handlers[:] = handlers


@contextlib.contextmanager
def _recording_lines(lines: dict[tuple[str, str], int], text: str) -> Iterator[None]:
    """Records the line of every assignment that is parsed: (subroutine, instruction) -> line."""
    from loopy.frontend.fortran import translator

    plain = translator.F2LoopyTranslator
    numbers = _lines_outside(text)
    own = text.split("\n")

    class Recording(plain):  # type: ignore[misc,valid-type]
        def map_Assignment(self, node: Any) -> Any:
            result = super().map_Assignment(node)
            scope = self.scope_stack[-1]
            first = node.item.span[0]
            line = numbers[first - 1] if 0 < first <= len(numbers) else 0
            # Code that changes the text before it is parsed may change its lines.
            wanted = "".join(str(node.variable).split()).lower()
            if line and wanted in "".join(own[line - 1].split()).lower():
                lines[scope.subprogram_name, scope.instructions[-1].id] = line
            return result

    translator.F2LoopyTranslator = Recording
    try:
        yield
    finally:
        translator.F2LoopyTranslator = plain


def _lines_outside(text: str) -> list[int]:
    """The 1-based lines outside `!$loopy` blocks, which Loopy removes."""
    kept, inside = [], False
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        comment = stripped[1:].strip() if stripped.startswith("!") else None
        if comment == "$loopy begin":
            inside = True
        elif comment == "$loopy end":
            inside = False
        elif not inside:
            kept.append(number)
    return kept


def _with_lines(unit: Any, lines: dict[tuple[str, str], int]) -> Any:
    """The unit with instruction ids that name their lines."""
    for name in list(unit.callables_table):
        kernel = getattr(unit.callables_table[name], "subkernel", None)
        if kernel is None:
            continue
        new: dict[str, str] = {}
        for instruction in kernel.instructions:
            line = lines.get((str(name), instruction.id))
            if line is not None:
                label = f"{LINE_ID}{line}"
                n_same = sum(
                    value.startswith(f"{label}_") or value == label for value in new.values()
                )
                new[instruction.id] = f"{label}_{n_same}" if n_same else label
        instructions = [
            instruction.copy(
                id=new.get(instruction.id, instruction.id),
                depends_on=frozenset(new.get(i, i) for i in instruction.depends_on),
                no_sync_with=frozenset((new.get(i, i), s) for i, s in instruction.no_sync_with),
            )
            for instruction in kernel.instructions
        ]
        unit = unit.with_kernel(kernel.copy(instructions=instructions))
    return unit
