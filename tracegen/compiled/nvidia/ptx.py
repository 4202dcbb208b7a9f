"""Numbers the instructions of a PTX text, so that machine code can be matched to them.

ptxas takes the line of each machine instruction from the `.loc` in force. A text in which the N-th
instruction lies on "line N" therefore makes ptxas report which PTX instruction it compiled.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tracegen.compiled.model import Location
from tracegen.compiled.nvidia.ptx_arrays import Function, Statement, arrays
from tracegen.compiled.source_files import user_files, user_location

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_FILE = re.compile(r"^[ \t]*\.file[^\n]*$", re.MULTILINE)
_SECTION = re.compile(r"^[ \t]*\.section[^{\n]*\s*\{.*?\}", re.MULTILINE | re.DOTALL)
_DEBUG = re.compile(r"^([ \t]*\.target[^\n]*?),[ \t]*debug\b", re.MULTILINE)
_FUNCTION = re.compile(
    r"^[ \t]*(?:\.(?:visible|weak|extern|common)\s+)*"
    r"\.(?:entry|func\b\s*(?:\((?P<result>[^)]*)\))?)\s*(?P<name>[\w$]+)(?P<header>[^;{]*)(?P<end>[;{])",
    re.MULTILINE,
)
_PARAMETER = re.compile(r"([\w$]+)\s*(?:\[\d*\]\s*)?(?:,|$)")
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
    array : kernel parameter that the accessed address derives from, None if it is none or several
    function : the kernel or the device function that contains it
    """

    text: str
    location: Location | None
    array: str | None
    function: str


def number_instructions(
    ptx: str,
    parameter_names: Mapping[str, Sequence[str]] | None = None,
    source: str | None = None,
) -> tuple[str, list[Origin]]:
    """The text with `.loc 1 N 1` before its N-th instruction, and the N-th origin at index N - 1.

    parameter_names : kernel -> its parameters in order, "" for one that is no pointer; arrays of
        kernels that it does not list stay unknown. By default all kernels have names as in PTX,
        `star_param_0`.
    source : name of the user's file, see `user_files`.
    """
    reader = _reader(ptx, source)
    accessed = arrays(reader.functions, parameter_names)
    return numbered(ptx, source), list(reader.origins(accessed))


def numbered(ptx: str, source: str | None = None) -> str:
    """The text of `number_instructions` alone."""
    return "\n".join(_reader(ptx, source).lines) + "\n"


@functools.lru_cache(maxsize=1)
def _reader(ptx: str, source: str | None) -> _PtxReader:
    text = _DEBUG.sub(r"\1", _SECTION.sub("", _FILE.sub("", _COMMENT.sub("", ptx))))
    reader = _PtxReader(user_files(ptx, source))
    position = 0
    while header := _FUNCTION.search(text, position):
        reader.lines.append(text[position : header.end()])
        position = header.end()
        if header["end"] == "{":
            position = reader.read_body(text, position, _function(header))
    reader.lines += [text[position:].strip("\n"), '.file 1 "ptx"']
    return reader


def _function(header: re.Match[str]) -> Function:
    """The function that a header declares, without statements."""
    listed = header["header"].partition("(")[2].rpartition(")")[0]
    names = tuple(_PARAMETER.findall(listed.replace("\n", " ").strip()))
    results = tuple(_PARAMETER.findall((header["result"] or "").strip()))
    return Function(header["name"], names, results, [])


class _PtxReader:
    """Collects lines, and the functions with their instructions, from the first to the last."""

    def __init__(self, files: frozenset[str]) -> None:
        self.files = files
        self.lines: list[str] = []
        self.functions: list[Function] = []
        self.locations: list[Location | None] = []

    def read_body(self, text: str, position: int, function: Function) -> int:
        """Reads from after the function's opening brace; returns the position after the closing one."""
        self.functions.append(function)
        location: Location | None = None
        scopes, n_scopes = [0], 1
        while scopes:
            match = _STATEMENT.match(text, position)
            if match is None:
                raise ValueError(f"PTX function {function.name!r} has no end")
            position = match.end()
            if match["position"]:
                location = user_location(match["position"], self.files)
                continue
            words = " ".join(_INSIDE.sub("", match[0]).split())
            if words == "{":
                scopes.append(n_scopes)
                n_scopes += 1
            elif words == "}":
                scopes.pop()
            elif match["instruction"]:
                function.statements.append(Statement(words, scopes[-1]))
                self.locations.append(location)
                self.lines.append(f".loc 1 {len(self.locations)} 1")
            self.lines.append(words)
        return position

    def origins(self, accessed: Sequence[str | None]) -> Iterator[Origin]:
        """One origin for each instruction; `accessed` has its array."""
        statements = [
            (function, statement)
            for function in self.functions
            for statement in function.statements
        ]
        for (function, statement), location, array in zip(
            statements, self.locations, accessed, strict=True
        ):
            yield Origin(statement.text, location, array, function.name)
