"""Host code that does not compile here, because a library or a part of the host's interface is not there.

It is left out: a kernel does not need it. The lines of the rest stay what they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LEFT_OUT = "memsim_left_out"
"""What the body of a function becomes: a call that reaches the compiled program only from device code."""
_MASKED = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*",
    re.DOTALL | re.MULTILINE,
)
_UNLESS_DIRECTIVE = re.compile(r"(^[ \t]*#(?:[^\n\\]|\\.|\\\n)*|\n)|.", re.MULTILINE)
_ATTRIBUTES = re.compile(r"\b(?:__align__|alignas|__attribute__)\s*\((?:[^()]|\([^()]*\))*\)")
_DEVICE = re.compile(r"\b__(?:device|global|constant|shared|managed)__\b")
_KERNEL = re.compile(r"\b__global__\b")
_INSTANCE = re.compile(
    r"^[ \t]*template\s+(?:__launch_bounds__\s*\([^;{}]*?\)\s*)?__global__[^;{}]*;", re.MULTILINE
)
_CLASS = re.compile(r"(?:^|(?<=[;{}]))[^;{}()]*\b(?:class|struct)\s[^;{}()]*\{")
_MISSING = re.compile(
    r"undeclared|undefined|unknown type|\bno (?:\w+ )?(?:named|member)|not a class|must be a class or namespace"
)
"""What errors say of names that are declared nowhere."""
_UNDEFINED = re.compile(
    r"(?:identifier|unknown type name|use of undeclared identifier) [\"']([A-Za-z_]\w*)[\"'](?: is undefined)?"
)


class _Found(NamedTuple):
    """What a line belongs to: a function, or a statement outside of all functions. Offsets: of its begin, of the braces of
    its body (of a statement without: of its end)."""

    start: int
    opening: int
    closing: int
    is_function: bool
    is_in_class: bool


def without(
    text: str, line: int, reason: str = "", *, in_functions: bool = True, kernel: str = ""
) -> str | None:
    """The text without what an error on a line is about; None where that is not host code.

    in_functions : whether a function is left out, or else a declaration that is no member of a class
    reason : the error
    kernel : if given, code for the device is left out, too, other than that kernel: the bodies of functions, and their
        declarations where the error is about a name that is declared nowhere, or others would take their calls
    """
    found = next(
        (one for one in _found(text, line, kernel) if one.is_function == in_functions), None
    )
    if found is None or (found.is_in_class and not in_functions):
        return None
    opening, closing = found.opening, found.closing
    end = _offset(text, line + 1)
    is_empty = text[opening + 1 : closing].strip() in ("", f"{LEFT_OUT}();")
    if is_empty and _offset(text, line) > opening:
        return None  # this error is of what has been left out already
    head = _masked(text)[found.start : opening]
    if not found.is_function or end <= opening or is_empty:  # its declaration does not compile
        is_called = _DEVICE.search(head) and not _KERNEL.search(head)
        if is_called and not _MISSING.search(reason):
            return None
        return _blank(text, found.start, closing + 1)
    call = "" if _KERNEL.search(head) else f"{LEFT_OUT}();"
    body = call + "\n" * text.count("\n", opening, closing)
    return text[: opening + 1] + body + text[closing:]


def without_class(text: str, line: int, reason: str = "") -> str | None:
    """The text without the class that a line belongs to, the outermost one; None where it has code for the device."""
    plain = _masked(text)
    start, end = _offset(text, line), _offset(text, line + 1)
    for match in _CLASS.finditer(plain):
        closing = _closing(plain, match.end() - 1)
        if (
            match.end() < end
            and start <= closing
            and not _DEVICE.search(plain, match.end(), closing)
        ):
            begin = match.end() - len(match[0].lstrip())
            return _blank(text, begin, plain.find(";", closing) + 1 or closing + 1)
    return None


def without_launches(text: str) -> str:
    """The text without the host's functions that launch kernels, and without instances of kernels: all would be compiled."""
    text = _INSTANCE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    at = -1
    while (at := _masked(text).find("<<<", at + 1)) >= 0:
        leaner = without(text, text.count("\n", 0, at) + 1)
        text, at = (text, at) if leaner is None else (leaner, -1)
    return text


def on_device(text: str, pattern: re.Pattern[str]) -> bool:
    """Whether a pattern is found outside of host functions, comments, literals and directives."""
    while match := pattern.search(_masked(text)):
        leaner = without(text, text.count("\n", 0, match.start()) + 1)
        if leaner is None:
            return True
        text = leaner
    return False


def unknown_type(text: str, line: int, reason: str) -> str:
    """The name that an error on a line says is declared nowhere, where it is that of a type outside of functions' bodies."""
    name = _UNDEFINED.match(reason)
    found = next(_found(text, line), None) if name else None
    if name is None or found is None or (found.is_function and _offset(text, line) > found.opening):
        return ""
    return name[1]


def _found(text: str, line: int, kernel: str = "") -> Iterator[_Found]:
    """The host code that a line belongs to, or with `kernel` other code than that kernel."""
    if 1 <= line <= text.count("\n") + 1:
        yield from _around(_masked(text), _offset(text, line), _offset(text, line + 1), kernel)


def _offset(text: str, line: int) -> int:
    at = 0
    for _ in range(line - 1):
        at = text.find("\n", at) + 1
        if not at:
            return len(text)
    return at


def _blank(text: str, start: int, end: int) -> str:
    """The text with blanks in a part, in which directives stay: the part may begin between `#if` and `#endif`."""
    blank = _UNLESS_DIRECTIVE.sub(lambda match: match[1] or " ", text[start:end])
    return text[:start] + blank + text[end:]


def _masked(text: str) -> str:
    """The text with blanks for comments, literals and directives."""
    return _MASKED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def _around(plain: str, start: int, end: int, kernel: str) -> Iterator[_Found]:
    """The host code that a line from `start` to `end` belongs to, or with `kernel` other code than that kernel."""
    name = kernel.partition("<")[0].rpartition("::")[2].strip()
    own = re.compile(rf"\b{re.escape(name)}\s*\(" if name else "")
    at = begin = 0
    classes: list[int] = []  # the ends of those around
    while match := re.compile(r"[{};]").search(plain, at):
        at = match.end()
        place = begin + len(plain[begin:]) - len(plain[begin:].lstrip())
        if place >= end:
            return
        while classes and classes[-1] < match.start():
            classes.pop()
        head = _ATTRIBUTES.sub(" ", plain[begin : match.start()]).strip()
        is_value = head.endswith("=") or head.count("(") > head.count(")")
        if match[0] == "{" and is_value:  # of a variable, or a default argument
            at = max(_closing(plain, match.start()), match.start()) + 1
            continue
        qualifier = _KERNEL if name else _DEVICE
        is_host = not (qualifier.search(head) and own.search(head))
        is_here = start < at
        if match[0] != "{":
            if match[0] == ";" and is_here and head and is_host:
                yield _Found(place, at, match.start(), False, bool(classes))
            begin = at
            continue
        is_function = "(" in head
        if not is_function and re.search(r"\b(?:namespace|extern|class|struct|union)\b", head):
            if "namespace" not in head and "extern" not in head:
                classes.append(_closing(plain, match.start()))
            begin = at
            continue
        closing = _closing(plain, match.start())
        if closing < 0:
            return
        if is_function and is_host and start <= closing:
            yield _Found(place, match.start(), closing, True, bool(classes))
        at = begin = closing + 1


def _closing(plain: str, opening: int) -> int:
    depth = 0
    for match in re.compile(r"[{}]").finditer(plain, opening):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.start()
    return -1
