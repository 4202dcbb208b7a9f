"""What is to be compiled, and the errors of compilers in one line."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from memsim.errors import KernelError
from tracegen.compiled.build_options import BuildOptions
from tracegen.tools.headers import DEPENDENCIES
from tracegen.tools.process import Finished
from tracegen.tools.toolchain import Tool

FrontEnd = Literal["clang", "nvrtc", "nvvm", "ptx"]
"""What writes PTX for NVIDIA's targets: clang, or NVIDIA's libraries for CUDA C++ and for OpenCL C; `ptx` where the text is PTX."""
PRINTF = re.compile(r"\bprintf(?=\s*\()")
"""What is replaced by `_print`, a macro of equal length."""
_ERROR = re.compile(
    r"^(?:kernel\.cl:(?P<line>\d+):\d+: (?:fatal )?error: |fatal error: |clang[^:\n]*: error: "
    r"|ptxas [^:\n]*(?:error|fatal)\s*: )(?P<reason>.*)$",
    re.MULTILINE,
)

_TOO_MUCH = re.compile(
    r"too much shared data \((?P<needed>\w+) bytes, (?P<most>\w+) max\)"
    r"|local memory \((?P<needed_amd>\d+)\) exceeds limit \((?P<most_amd>\d+)\)"
)


_LONGEST, _END = 400, 100
"""Characters of what a compiler says, which may show types of thousands, and those of its end."""


def shortened(reason: str) -> str:
    """What a compiler says, in one line that can be read."""
    if len(reason) <= _LONGEST:
        return reason
    return f"{reason[: _LONGEST - _END]} [...] {reason[-_END:]}"


class CompileError(KernelError):
    """A compiler refused a kernel.

    line : 1-based line of the compiled text, None if the compiler gives none
    reason : the message without a position
    """

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason if line is None else f"line {line}: {reason}")
        self.reason, self.line = reason, line


@contextlib.contextmanager
def with_places(place: Callable[[int], str]) -> Iterator[None]:
    """Turns errors on lines of the compiled text into ones that name the user's. place : 1-based line -> where it is"""
    try:
        yield
    except CompileError as error:
        if error.line is None:
            raise
        raise KernelError(f"{place(error.line)}: {error.reason}") from None


class LocalMemoryError(CompileError):
    """A group declares more local memory than the target allows: the kernel cannot run there."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A kernel of a program in OpenCL C, and how it is to be compiled.

    group_shape : work-items along the three axes of a group; None if the compiler must allow any
    registers_limit : most vector registers of a work-item, None for the target's own limit
    by : what translates the text for NVIDIA's targets; clang does for all others
    """

    text: str
    kernel: str
    target: str
    options: BuildOptions
    group_shape: tuple[int, int, int] | None
    registers_limit: int | None
    by: FrontEnd = "clang"

    @property
    def file(self) -> str:
        """The name of the text while it is compiled."""
        return "kernel.cl"

    @property
    def lines_before(self) -> Mapping[str, int]:
        """Of the user's files by path, see `source_files.user_files`."""
        return {self.file: 0}

    @property
    def notes(self) -> list[str]:
        """What the compiled program leaves out, in sentences."""
        notes = [f"Build option {option} is ignored." for option in self.options.ignored]
        if PRINTF.search(self.text):
            notes.append("printf is left out.")
        return notes

    @property
    def source(self) -> str:
        """The text as it is compiled: where it prints, it calls a macro with a name of equal length."""
        return PRINTF.sub("_print", self.text)

    @property
    def default_registers_limit(self) -> int | None:
        """Of the build, for kernels that name no shape of their groups themselves."""
        return None

    @property
    def dependencies(self) -> list[str]:
        """What decides the machine code, besides the versions of the compilers and the included files."""
        shape = f"{self.group_shape} {self.registers_limit}"
        names = [self.kernel, self.file]
        return [self.source, *names, self.target, *self.options.arguments, shape, self.by]

    @property
    def searched(self) -> list[str]:
        """The folders of headers, in the order of the search."""
        return [word[2:] for word in self.options.arguments if word.startswith("-I")]

    def clang_arguments(self, output: str) -> list[str]:
        """The arguments that all targets share: the language, the options, source and output."""
        return [
            *("-x", "cl", *self.options.arguments, *self.backend_arguments),
            *("-fno-gnu-inline-asm", "-fdebug-compilation-dir=.", "-D_print(...)=0"),
            *(["-MMD", "-MF", DEPENDENCIES] if "#include" in self.text else []),
            *(self.file, "-o", output),
        ]

    @property
    def backend_arguments(self) -> list[str]:
        """Of those, the arguments that are not about the language."""
        contract = "on" if "FP_CONTRACT" in self.text else "fast"
        return [
            *("-O0" if "-cl-opt-disable" in self.options else "-O3", "-S"),
            *(f"-ffp-contract={contract}", "-nogpulib", "-fno-crash-diagnostics", "-w"),
        ]


def linked(libraries: list[Path]) -> list[str]:
    """clang's arguments to link bitcode; of each library only what is used, in this order."""
    return [
        word
        for path in libraries
        for word in ("-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(path))
    ]


def plain_reason(finished: Finished) -> str:
    """What clang says without a position: its first error, else its status."""
    errors = (line.partition("error: ")[2] for line in finished.errors.splitlines())
    return next(filter(None, errors), f"status {finished.status}").strip()


def check(finished: Finished, tool: Tool, request: Request) -> Finished:
    """The process if it succeeded; raises CompileError with its first error."""
    if finished.status == 0:
        return finished
    match = _ERROR.search(finished.errors)
    if match is None:
        lines = [line.strip() for line in finished.errors.splitlines() if line.strip()]
        lines = [line for line in lines if "error: " in line] + lines
        reason = lines[0] if lines else f"it ended with status {finished.status}"
    else:
        reason = match["reason"].strip()
    line = int(match["line"]) if match and match["line"] else None
    where = "" if line else f"kernel {request.kernel}: "
    by = f"({tool} for {request.target})"
    if too_much := _TOO_MUCH.search(reason):
        needed, most = (int(size, 0) for size in too_much.groups() if size)
        raise LocalMemoryError(
            f"{where}a group declares {needed} bytes of local memory, of at most {most} {by}", line
        )
    raise CompileError(f"{where}{reason} {by}", line)
