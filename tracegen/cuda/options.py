"""Options of a build, as nvcc and hipcc take them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from memsim.errors import KernelError

STANDARD = "-std=c++17"
DEFINITIONS = ("-D", "-U", "-I")
_FAST = ("use_fast_math", "ffast-math")
_REGISTERS = "maxrregcount"
_MATH = {
    "ftz": "flushes",
    "prec-div": "divides_exactly",
    "prec-sqrt": "roots_exactly",
    "fmad": "fuses",
}
"""nvcc's options of arithmetic, and their fields below."""
_VALUES = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class BuildOptions:
    """The options of a build, sorted by what they affect.

    standard : of the language
    given : definitions and folders of headers
    is_fast : whether mathematics may be approximated
    flushes : whether numbers too small to be normal are taken for 0 in single precision
    divides_exactly, roots_exactly : whether divisions and roots in single precision are rounded correctly
    fuses : whether products and sums become one instruction
    registers_limit : of a thread, None if it is not given
    ignored : the rest
    """

    standard: str = STANDARD
    given: tuple[str, ...] = ()
    is_fast: bool = False
    flushes: bool = False
    divides_exactly: bool = True
    roots_exactly: bool = True
    fuses: bool = True
    registers_limit: int | None = None
    ignored: tuple[str, ...] = ()

    @property
    def language(self) -> tuple[str, ...]:
        """What decides what the program means."""
        return (self.standard, *self.given)

    @property
    def folders(self) -> list[str]:
        """The folders of headers, in the order of the search."""
        return [word[2:] for word in self.given if word.startswith("-I")]

    @property
    def arithmetic(self) -> list[str]:
        """The options of arithmetic, as nvcc takes them."""
        named = {name: getattr(self, field) for name, field in _MATH.items()}
        fast = ["-use_fast_math"] if self.is_fast else []
        return [*fast, *(f"-{name}={str(value).lower()}" for name, value in named.items())]


def read_options(options: str | Sequence[str]) -> BuildOptions:
    """Sorts options; the last of two that contradict each other counts. Folders are made absolute.

    Raises KernelError where one lacks its value, or has one that it does not take.
    """
    words = iter(shlex.split(options) if isinstance(options, str) else list(options))
    given: list[str] = []
    ignored: list[str] = []
    known: dict[str, Any] = {}
    for word in words:
        name, _, value = word.lstrip("-").partition("=")
        if word.startswith(DEFINITIONS):
            given.append(definition(word, words))
        elif name == "std":
            known["standard"] = f"-std={value or _next(word, words)}"
        elif name in _FAST:
            known |= {"is_fast": True, "flushes": True, "divides_exactly": False}
            known |= {"roots_exactly": False, "fuses": True}
        elif name in _MATH:
            value = value or _next(word, words)
            if value not in _VALUES:
                raise KernelError(f"build option -{name} must be true or false, got {value!r}")
            known[_MATH[name]] = _VALUES[value]
        elif name == _REGISTERS:
            value = value or _next(word, words)
            if not value.isdecimal() or int(value) < 1:
                raise KernelError(
                    f"build option -{name} needs a number of registers, got {value!r}"
                )
            known["registers_limit"] = int(value)
        else:
            ignored.append(word)
    return BuildOptions(given=tuple(given), ignored=tuple(ignored), **known)


def definition(option: str, words: Iterator[str]) -> str:
    """One of DEFINITIONS with its value; a folder is made absolute, because compilers run in folders of their own."""
    kind, value = option[:2], option[2:] or _next(option, words)
    return kind + (os.path.abspath(value) if kind == "-I" else value)


def _next(option: str, words: Iterator[str]) -> str:
    """The value of an option that stands behind it."""
    value = next(words, "")
    if not value:
        raise KernelError(f"build option {option} needs a value")
    return value
