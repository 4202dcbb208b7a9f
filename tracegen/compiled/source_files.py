"""Positions in the user's text, from the `.file` and `.loc` directives of an assembly text."""

from __future__ import annotations

import re
from pathlib import PurePath

from tracegen.compiled.model import Location

_FILE = re.compile(r'^[ \t]*\.file[ \t]+(\d+)[ \t]+"([^"]*)"(?:[ \t]+"([^"]*)")?', re.MULTILINE)
_POSITION = re.compile(r"(\d+)\s+(\d+)\s+(\d+)")


def user_files(text: str, source: str | None) -> frozenset[str]:
    """The numbers of the user's file, which may have several.

    source : its name; by default, it is the main file: number 0 in DWARF 5, number 1 before
    """
    names = {number: PurePath(name or path).name for number, path, name in _FILE.findall(text)}
    main = names.get("0") or names.get("1")
    wanted = main if source is None else PurePath(source).name
    return frozenset(number for number, name in names.items() if name == wanted) or frozenset("1")


def user_location(position: str, files: frozenset[str]) -> Location | None:
    """The innermost position of a `.loc` and of what it is inlined at that lies in the user's text.

    None if there is none, or if the compiler gives line 0: the instruction belongs to no line.
    """
    for part in position.split("inlined_at"):
        match = _POSITION.search(part)
        if match and match[1] in files:
            return Location(int(match[2]), int(match[3])) if match[2] != "0" else None
    return None
