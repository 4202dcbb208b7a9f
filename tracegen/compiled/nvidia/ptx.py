"""Numbers the instructions of a PTX text, so that machine code can be matched to them.

ptxas takes the line of each machine instruction from the `.loc` in force. A text in which the N-th
instruction lies on "line N" therefore makes ptxas report which PTX instruction it compiled.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tracegen.compiled.model import Location
from tracegen.compiled.source_files import user_files, user_location

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_FILE = re.compile(r"^[ \t]*\.file[^\n]*$", re.MULTILINE)
_SECTION = re.compile(r"^[ \t]*\.section[^{\n]*\s*\{.*?\}", re.MULTILINE | re.DOTALL)
_DEBUG = re.compile(r"^([ \t]*\.target[^\n]*?),[ \t]*debug\b", re.MULTILINE)
_FUNCTION = re.compile(
    r"^[ \t]*(?:\.(?:visible|weak|extern|common)\s+)*"
    r"\.(?:entry|func\b\s*(?:\([^)]*\))?)\s*(?P<name>[\w$]+)[^;{]*(?P<end>[;{])",
    re.MULTILINE,
)
# clang 20 and later write positions and a debugger's labels even inside calls.
_INSIDE = re.compile(r"(?<=\S)\s*\n\s*(?:\.loc\b[^\n]*|\$?L\w+:[ \t]*)(?=\n)")
_STATEMENT = re.compile(
    r"""\s*(?:
    (?P<brace>[{}])
    | \.loc\s+(?P<position>[^\n]*)
    | (?P<label>[A-Za-z_$%][\w$]*\s*:(?!:))
    | (?P<directive>\.[^;]*;)
    | (?P<instruction>[^;{}][^;]*;)
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Origin:
    """A PTX instruction.

    text : the instruction, with single spaces
    location : position in the user's text, None if the compiler gives none
    """

    text: str
    location: Location | None


def number_instructions(
    ptx: str, before: Mapping[str, int] | None = None
) -> tuple[str, list[Origin]]:
    """The text with `.loc 1 N 1` before its N-th instruction, and the N-th origin at index N - 1.

    before : of the user's files, see `user_files`
    """
    reader = _reader(ptx, tuple(before.items()) if before is not None else None)
    return "\n".join(reader.lines) + "\n", reader.origins


@functools.lru_cache(maxsize=1)
def _reader(ptx: str, before: tuple[tuple[str, int], ...] | None) -> _PtxReader:
    text = _DEBUG.sub(r"\1", _SECTION.sub("", _FILE.sub("", _COMMENT.sub("", ptx))))
    reader = _PtxReader(user_files(ptx, dict(before) if before is not None else None))
    position = 0
    while header := _FUNCTION.search(text, position):
        reader.lines.append(text[position : header.end()])
        position = header.end()
        if header["end"] == "{":
            position = reader.read_body(text, position, header["name"])
    reader.lines += [text[position:].strip("\n"), '.file 1 "ptx"']
    return reader


class _PtxReader:
    """Collects lines and instructions, from the first to the last."""

    def __init__(self, files: Mapping[str, int]) -> None:
        self.files = files
        self.lines: list[str] = []
        self.origins: list[Origin] = []

    def read_body(self, text: str, position: int, function: str) -> int:
        """Reads from after the function's opening brace; returns the position after the closing one."""
        location: Location | None = None
        depth = 1
        while depth:
            match = _STATEMENT.match(text, position)
            if match is None:
                raise ValueError(f"PTX function {function!r} has no end")
            position = match.end()
            if match["position"]:
                location = user_location(match["position"], self.files)
                continue
            words = " ".join(_INSIDE.sub("", match[0]).split())
            depth += {"{": 1, "}": -1}.get(words, 0)
            if match["instruction"]:
                self.origins.append(Origin(words, location))
                self.lines.append(f".loc 1 {len(self.origins)} 1")
            self.lines.append(words)
        return position
