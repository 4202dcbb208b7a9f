"""Parses a preprocessed OpenCL C program with libclang: its functions, or its errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import clang.cindex as ci

from memsim.errors import KernelError
from tracegen.opencl_c.header import header
from tracegen.opencl_c.preprocess import Text

# Absolute, or libclang looks for them on the disk.
_FILE, _HEADER = "/program.cl", "/opencl_c.h"
_FLAGS: tuple[str, ...] = ("-x", "cl", "-cl-std=CL1.2", "-target", "spir64", "-cl-no-stdinc", "-w")
_FLAGS += ("-Xclang", "-fdeclare-opencl-builtins", "-include", _HEADER)
MOST_SHOWN = 5


@dataclass(frozen=True)
class Program:
    """A parsed program.

    unit : libclang's translation unit, which the cursors need
    kernels : name -> cursor of its definition
    functions : USR -> cursor of the definition, kernels included
    declarations : every function cursor with its USR, prototypes included
    """

    text: Text
    unit: Any
    kernels: dict[str, Any]
    functions: dict[str, Any]
    declarations: tuple[tuple[str, Any], ...]

    def named(self, name: str | None) -> Any:
        """The kernel of that name, or the only one; the KernelError lists all kernels."""
        listed = ", ".join(self.kernels) or "no kernel at all"
        where = self.text.file
        if name is None:
            if not self.kernels:
                raise KernelError(f"{where} has no kernel")
            if len(self.kernels) > 1:
                raise KernelError(f"{where} has several kernels; name one of them: {listed}")
            return next(iter(self.kernels.values()))
        if name not in self.kernels:
            raise KernelError(f"{where} has no kernel {name}; it has {listed}")
        return self.kernels[name]


def parse(text: Text) -> Program:
    """Parses a program; raises KernelError with the diagnostics, at the user's lines."""
    try:
        unit = ci.Index.create().parse(
            _FILE,
            args=list(_FLAGS),
            unsaved_files=[(_FILE, text.text), (_HEADER, header(text.text))],
        )
    except ci.TranslationUnitLoadError as error:
        raise KernelError(f"libclang cannot read the program: {error}") from error
    _refuse_errors(unit, text)
    kernels: dict[str, Any] = {}
    functions: dict[str, Any] = {}
    declarations = []
    for cursor in unit.cursor.get_children():
        place = cursor.location.file
        if cursor.kind != ci.CursorKind.FUNCTION_DECL or place is None or place.name != _FILE:
            continue
        declarations.append((cursor.get_usr(), cursor))
        if not cursor.is_definition():
            continue
        functions[cursor.get_usr()] = cursor
        if _is_kernel(cursor, text.text):
            kernels[cursor.spelling] = cursor
    return Program(text, unit, kernels, functions, tuple(declarations))


def _is_kernel(cursor: Any, text: str) -> bool:
    for child in cursor.get_children():
        if child.kind == ci.CursorKind.UNEXPOSED_ATTR:
            start, end = child.extent.start.offset, child.extent.end.offset
            if text[start:end] in ("__kernel", "kernel"):
                return True
    return False


def _refuse_errors(unit: Any, text: Text) -> None:
    messages = list(_errors(unit, text))
    if not messages:
        return
    more = f" (and {len(messages) - MOST_SHOWN} more)" if len(messages) > MOST_SHOWN else ""
    raise KernelError(f"{'; '.join(messages[:MOST_SHOWN])}{more}")


def _errors(unit: Any, text: Text) -> Iterator[str]:
    for diagnostic in unit.diagnostics:
        if diagnostic.severity < ci.Diagnostic.Error:
            continue
        place = diagnostic.location.file
        known = place is not None and place.name == _FILE
        where = str(text.place(diagnostic.location.line)) if known else "OpenCL C"
        yield f"{where}: {' '.join(diagnostic.spelling.split())}"
