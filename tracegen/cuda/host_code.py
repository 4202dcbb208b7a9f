"""Host code that does not compile here, because a library or a part of the host's interface is not there.

It is left out: a kernel does not need it. The lines of the rest stay what they are.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import NamedTuple

LEFT_OUT = "memsim_left_out"
"""What the body of a function becomes: a call that reaches the compiled program only from device code."""
_MASKED = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*",
    re.DOTALL | re.MULTILINE,
)
_LIBRARIES = re.compile(
    r"(?:thrust|cub|hipcub|rocprim|rocthrust|boost|opencv\d*|nccl|rccl|mpi|omp|cublas|cublasLt|cusparse|cusolver\w*"
    r"|cufft\w*|curand|cudnn|hipblas\w*|rocblas\w*|hipsparse\w*|hipfft\w*|hiprand|nvToolsExt|nvtx3|GL|GLFW|GLES\d?"
    r"|SDL\d?|cuda_gl_interop|cuda_profiler_api|cutil\w*|hdf5|png|zlib|tbb)(?:_v2)?(?:/.*|\.h(?:pp)?)$"
)
_ATTRIBUTES = re.compile(r"\b(?:__align__|alignas|__attribute__)\s*\((?:[^()]|\([^()]*\))*\)")
_NVRTC_ERROR = re.compile(
    r"^(?P<file>[^\n]*)\((?P<line>\d+)\): (?:catastrophic )?error: (?P<reason>[^\n]*)", re.MULTILINE
)
_BUILT_IN = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*[<\"](?:cuda_runtime(?:_api)?|device_launch_parameters|vector_types)\.h[>\"][^\n]*",
    re.MULTILINE,
)
_DEVICE = re.compile(r"\b__(?:device|global)__\b")


class _Function(NamedTuple):
    """Offsets: of its declaration, of the braces of its body."""

    start: int
    opening: int
    closing: int


def without(text: str, line: int, reason: str) -> str | None:
    """The text without what an error on a line is about; None where that is not host code.

    reason : the compiler's
    """
    lines = text.splitlines(keepends=True)
    if not 1 <= line <= len(lines):
        return None
    start = sum(map(len, lines[: line - 1]))
    header = re.fullmatch(r"'([^']+)' file not found.*", reason)
    if header is not None:
        is_library = _LIBRARIES.match(header[1]) is not None
        return _blank(text, start, start + len(lines[line - 1])) if is_library else None
    function = _around(_masked(text), start, start + len(lines[line - 1]))
    if function is None:
        return None
    opening, closing = function.opening, function.closing
    if start + len(lines[line - 1]) <= opening or LEFT_OUT in text[opening:closing]:
        return _blank(text, function.start, closing + 1)  # its declaration does not compile
    body = f"{LEFT_OUT}();" + "\n" * text.count("\n", opening, closing)
    return text[: opening + 1] + body + text[closing:]


def without_built_in(text: str) -> str:
    """The text without the headers whose contents NVRTC knows of itself, and which it therefore does not find."""
    return _BUILT_IN.sub("", text)


def device_code(text: str, file: str, log: str) -> str:
    """The text without the headers that NVRTC does not find, and the host code that it refuses; the same text
    where it refuses something else.

    log : NVRTC's
    """
    found = {
        (int(match["line"]), match["reason"])
        for match in _NVRTC_ERROR.finditer(log)
        if PurePath(match["file"]).name == PurePath(file).name
    }
    for line, reason in sorted(found, reverse=True):
        if line > text.count("\n") + 1:
            continue
        if reason.startswith("cannot open source file"):
            lines = text.splitlines(keepends=True)
            lines[line - 1] = "\n" * lines[line - 1].endswith("\n")
            text = "".join(lines)
        else:
            text = without(text, line, reason) or text
    return text


def _blank(text: str, start: int, end: int) -> str:
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


def _masked(text: str) -> str:
    """The text with blanks for comments, literals and directives."""
    return _MASKED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def _around(plain: str, start: int, end: int) -> _Function | None:
    """The host function that a line from `start` to `end` belongs to."""
    at = begin = 0
    while match := re.compile(r"[{};]").search(plain, at):
        at = match.end()
        if match[0] != "{":
            begin = at
            continue
        head = _ATTRIBUTES.sub(" ", plain[begin : match.start()]).strip()
        is_function = "(" in head
        if not is_function and re.search(r"\b(?:namespace|extern|class|struct|union)\b", head):
            begin = at
            continue
        closing = _closing(plain, match.start())
        if closing < 0:
            return None
        own = begin + len(plain[begin:]) - len(plain[begin:].lstrip())
        if is_function and own < end and start <= closing:
            return None if _DEVICE.search(head) else _Function(own, match.start(), closing)
        if closing >= end:
            return None
        at = begin = closing + 1
    return None


def _closing(plain: str, opening: int) -> int:
    depth = 0
    for match in re.compile(r"[{}]").finditer(plain, opening):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.start()
    return -1
