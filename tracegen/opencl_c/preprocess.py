"""Expands macros, conditions and includes, so that probes can be put into the text that is compiled.

Each line of the result knows the file and line that it came from.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pcpp

from memsim.errors import KernelError

LONGEST_TEXT = 8_000_000
MOST_FILES = 500
_LANGUAGE = (
    "__OPENCL_VERSION__ 120",
    "__OPENCL_C_VERSION__ 120",
    "CL_VERSION_1_0 100",
    "CL_VERSION_1_1 110",
    "CL_VERSION_1_2 120",
    "__ENDIAN_LITTLE__ 1",
    "__kernel_exec(X, typen) __kernel __attribute__((work_group_size_hint(X, 1, 1)))"
    " __attribute__((vec_type_hint(typen)))",
)


@dataclass(frozen=True)
class SourceLine:
    """A 1-based line of a file that the user wrote."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Text:
    """Preprocessed OpenCL C.

    file : in which it begins
    places : the place of each line of `text`
    options : build options other than those of the preprocessor
    """

    file: str
    text: str
    places: tuple[SourceLine, ...]
    options: tuple[str, ...]

    def place(self, line: int) -> SourceLine:
        """The place of a 1-based line of the text."""
        return self.places[min(line, len(self.places)) - 1]


def preprocess(
    source: str, name: str, options: str | Sequence[str], extensions: Iterable[str] = ()
) -> Text:
    """The program without directives, pragmas excepted.

    name : the file's path, where includes in quotes are searched; extensions : the device's,
    defined as macros
    Raises KernelError, with file and line, at an error of the preprocessor.
    """
    defines, undefined, folders, rest = _split(options)
    reader = _Preprocessor(folders)
    reader.line_directive = None
    for macro in (*_LANGUAGE, *(f"{extension} 1" for extension in extensions), *defines):
        reader.define(macro)
    if "-cl-fast-relaxed-math" in rest:
        reader.define("__FAST_RELAXED_MATH__ 1")
    for macro in undefined:
        reader.undef(macro)
    try:
        reader.parse(source, name)
        text, places = _written(reader)
    except RecursionError:
        raise KernelError(f"{name} includes itself, or expands a macro, without end") from None
    return Text(name, text, places, rest)


def _split(options: str | Sequence[str]) -> tuple[list[str], list[str], list[str], tuple[str, ...]]:
    """Macros to define and to undefine, include folders, and the remaining options."""
    words = shlex.split(options) if isinstance(options, str) else list(options)
    values: dict[str, list[str]] = {"-D": [], "-U": [], "-I": []}
    rest = []
    position = 0
    while position < len(words):
        word = words[position]
        flag = word[:2]
        if flag in values:
            if len(word) == 2:
                position += 1
                if position == len(words):
                    raise KernelError(f"build option {flag} needs a value")
                word = flag + words[position]
            values[flag].append(word[2:])
        elif word.startswith("-cl-std="):
            if word not in ("-cl-std=CL1.0", "-cl-std=CL1.1", "-cl-std=CL1.2"):
                raise KernelError(
                    f"build option {word} is not supported: kernels are traced as OpenCL C 1.2"
                )
            rest.append(word)
        else:
            rest.append(word)
        position += 1
    defines = [
        " ".join(text.split("=", 1)) if "=" in text else f"{text} 1" for text in values["-D"]
    ]
    return defines, values["-U"], values["-I"], tuple(rest)


class _Preprocessor(pcpp.Preprocessor):  # type: ignore[misc]
    def __init__(self, folders: Sequence[str]) -> None:
        super().__init__()
        self.n_files = 0
        self.directive = ("", 0)
        for folder in folders:
            self.add_path(folder)

    def on_error(self, file: Any, line: int, message: str) -> None:
        raise KernelError(f"{file}:{line}: {' '.join(str(message).split())}")

    def on_include_not_found(
        self, is_malformed: bool, is_system_include: bool, curdir: str, includepath: str
    ) -> Any:
        self.on_error(*self.directive, f"no such include file: {includepath}")

    def on_directive_handle(
        self, directive: Any, toks: Any, ifpassthru: bool, precedingtoks: Any
    ) -> Any:
        # Called for branches that are left out, too: they may hold what would be an error.
        self.directive = (directive.source, directive.lineno)
        return super().on_directive_handle(directive, toks, ifpassthru, precedingtoks)

    def on_directive_unknown(
        self, directive: Any, toks: Any, ifpassthru: bool, precedingtoks: Any
    ) -> Any:
        if directive.value == "error":
            self.on_error(*self.directive, "".join(token.value for token in toks) or "#error")
        if directive.value == "warning":
            return True
        return super().on_directive_unknown(directive, toks, ifpassthru, precedingtoks)

    def on_file_open(self, is_system_include: bool, includepath: str) -> Any:
        self.n_files += 1
        if self.n_files > MOST_FILES:
            raise KernelError(f"{includepath}: more than {MOST_FILES} files are included")
        path = Path(includepath)
        if path.is_file() and path.stat().st_size > LONGEST_TEXT:
            raise KernelError(f"{includepath} is larger than {LONGEST_TEXT} bytes")
        return super().on_file_open(is_system_include, includepath)


def _written(reader: Any) -> tuple[str, tuple[SourceLine, ...]]:
    """The tokens as text, and the place of each of its lines."""
    pieces: list[str] = []
    places: list[SourceLine] = []
    here: SourceLine | None = None
    length = 0
    while (token := reader.token()) is not None:
        value = token.value
        if not value:
            continue
        at = SourceLine(str(token.source), int(token.lineno))
        if here is not None and value.strip() and at != here:
            # A macro's arguments may stand on several lines, which its expansion joins.
            pieces.append("\n")
            places.append(here)
            here = None
        if here is None and (value.strip() or value.count("\n") == 0):
            here = at
        for _ in range(value.count("\n")):
            places.append(here or at)
            here = None
        pieces.append(value)
        length += len(value)
        if length > LONGEST_TEXT:
            raise KernelError(f"{at}: preprocessing gives more than {LONGEST_TEXT} characters")
    pieces.append("\n")
    places.append(here or (places[-1] if places else SourceLine("", 1)))
    return "".join(pieces), tuple(places)
