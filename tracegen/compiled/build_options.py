"""Build options, as clBuildProgram takes them, for clang."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from memsim.errors import KernelError
from tracegen.cuda.options import DEFINITIONS, definition

DEFAULT_STANDARD = "-cl-std=CL1.2"
_KNOWN = frozenset(
    {
        "-cl-denorms-are-zero",
        "-cl-fast-relaxed-math",
        "-cl-finite-math-only",
        "-cl-fp32-correctly-rounded-divide-sqrt",
        "-cl-mad-enable",
        "-cl-no-signed-zeros",
        "-cl-opt-disable",
        "-cl-single-precision-constant",
        "-cl-strict-aliasing",
        "-cl-uniform-work-group-size",
        "-cl-unsafe-math-optimizations",
    }
)
_WITHOUT_EFFECT = ("-w", "-Werror", "-g", "-cl-kernel-arg-info", "-cl-nv-verbose", "-cl-nv-cstd")
_REGISTERS = "-cl-nv-maxrregcount"


@dataclass(frozen=True)
class BuildOptions:
    """The options of a build, sorted by what they affect.

    arguments : for clang
    registers_limit : of -cl-nv-maxrregcount, None if it is not given
    ignored : options that no compiler here knows
    """

    arguments: tuple[str, ...]
    registers_limit: int | None = None
    ignored: tuple[str, ...] = ()

    def __contains__(self, option: str) -> bool:
        return option in self.arguments

    @property
    def is_relaxed(self) -> bool:
        """Whether mathematical functions may be approximated."""
        return "-cl-fast-relaxed-math" in self

    @property
    def divides_exactly(self) -> bool:
        """Whether single-precision divisions and roots are rounded correctly; OpenCL requires 2.5 ulp."""
        return "-cl-fp32-correctly-rounded-divide-sqrt" in self


def read_options(options: str | Sequence[str]) -> BuildOptions:
    """Sorts the options: only those that describe the program reach the compiler.

    Raises KernelError where an option lacks its value.
    """
    words = iter(shlex.split(options) if isinstance(options, str) else list(options))
    arguments, ignored = [DEFAULT_STANDARD], []
    registers: int | None = None
    for word in words:
        if word.startswith(DEFINITIONS):
            arguments.append(definition(word, words))
        elif word.startswith("-cl-std="):
            arguments[0] = word
        elif word in _KNOWN:
            arguments.append(word)
        elif word.startswith(_REGISTERS):
            value = word.partition("=")[2] or next(words, "")
            if not value.isdecimal():
                raise KernelError(f"build option {_REGISTERS} needs a number, got {value!r}")
            registers = int(value)
        elif not word.startswith(_WITHOUT_EFFECT):
            ignored.append(word)
    return BuildOptions(tuple(arguments), registers, tuple(ignored))


def with_folder(reason: str) -> str:
    """A compiler's error, and of a header that is not found how its folder is named."""
    is_absent = "' file not found" in reason or reason.startswith("cannot open source file")
    return f"{reason}; build_options='-I FOLDER' says where it is" if is_absent else reason
