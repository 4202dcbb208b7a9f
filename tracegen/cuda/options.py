"""Options of a build, as nvcc and hipcc take them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from memsim.errors import KernelError

STANDARD = "-std=c++17"
_FAST = ("-use_fast_math", "--use_fast_math", "-ffast-math")


@dataclass(frozen=True)
class BuildOptions:
    """The options of a build, sorted by what they affect.

    standard : of the language
    given : definitions and folders of headers
    is_fast : whether mathematics may be approximated
    ignored : the rest
    """

    standard: str
    given: tuple[str, ...]
    is_fast: bool
    ignored: tuple[str, ...]

    @property
    def language(self) -> tuple[str, ...]:
        """What decides what the program means."""
        return (self.standard, *self.given)

    @property
    def folders(self) -> list[str]:
        """The folders of headers, in the order of the search."""
        return [word[2:] for word in self.given if word.startswith("-I")]


def read_options(options: str | Sequence[str]) -> BuildOptions:
    """Sorts options. Folders are made absolute. Raises KernelError where one lacks its value."""
    words = iter(shlex.split(options) if isinstance(options, str) else list(options))
    given, standard, ignored, is_fast = [], STANDARD, [], False
    for word in words:
        if word[:2] in ("-D", "-U", "-I"):
            value = word[2:] or next(words, "")
            if not value:
                raise KernelError(f"build option {word} needs a value")
            given.append(word[:2] + (os.path.abspath(value) if word[:2] == "-I" else value))
        elif word.lstrip("-").startswith("std="):
            standard = f"-{word.lstrip('-')}"
        elif word in _FAST:
            is_fast = True
        else:
            ignored.append(word)
    return BuildOptions(standard, tuple(given), is_fast, tuple(ignored))
