"""Positions in the user's text, from the `.file` and `.loc` directives of an assembly text."""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping

from tracegen.compiled.model import Location

FILE = re.compile(r'^[ \t]*\.file[ \t]+(\d+)[ \t]+"([^"]*)"(?:[ \t]+"([^"]*)")?', re.MULTILINE)
_POSITION = re.compile(r"(\d+)\s+(\d+)\s+(\d+)")


def user_files(text: str, before: Mapping[str, int] | None) -> dict[str, int]:
    """Number of each of the user's files -> number of the line before its first one.

    before : the same by path, see `CudaProgram.lines_before`; by default, the main file is the user's: number 0 in DWARF 5,
        number 1 before
    """
    names = {
        number: os.path.normpath(os.path.join(path, name))
        for number, path, name in FILE.findall(text)
    }
    if before is None:
        before = {os.path.basename(names.get("0") or names.get("1") or ""): 0}
    found = {}
    for number, name in names.items():
        line = before.get(name, before.get(os.path.basename(name)))
        if line is not None:
            found[number] = line
    return found or {"1": 0}


def user_location(position: str, files: Mapping[str, int]) -> Location | None:
    """The innermost position of a `.loc` and of what it is inlined at that lies in the user's text.

    files : see `user_files`
    None if there is none, or if the compiler gives line 0: the instruction belongs to no line.
    """
    for part in position.split("inlined_at"):
        match = _POSITION.search(part)
        if match and match[1] in files:
            line = int(match[2])
            return Location(files[match[1]] + line, int(match[3])) if line else None
    return None
