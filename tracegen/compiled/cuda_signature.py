"""The parameters and variables of a kernel in CUDA C++ or HIP, by name, as clang compiles it for the target.

Machine code has neither names nor types. clang translates the program to LLVM IR, without optimising it, with a table
that describes the parameters: see `headers/memsim/signature.h`. NVIDIA's compiler gets the same text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from memsim.errors import KernelError
from memsim.files import temporary_folder
from tracegen.compiled.amd.back_end import is_wide
from tracegen.compiled.build_options import read_options
from tracegen.compiled.cuda_request import CudaRequest
from tracegen.compiled.nvidia.nvidia_ptx import known_target
from tracegen.cuda.arguments import Parameter
from tracegen.cuda.host_code import LEFT_OUT, without
from tracegen.cuda.program import COMPILED, FIRST, HEADERS, LAUNCH, CudaProgram, candidates
from tracegen.tools import cache
from tracegen.tools.headers import DEPENDENCIES, included, unchanged
from tracegen.tools.precompiled import run_with_header
from tracegen.tools.process import Finished
from tracegen.tools.toolchain import INSTALL_CLANG, Tool, find_clang, major

MOST_TRIES = 20
"""How often host code is left out: the compiler reports a few errors at a time."""
OLDEST = 15
"""The first version of clang whose text has pointers without types."""
_IR = ("-emit-llvm", "-Xclang", "-disable-llvm-passes", "-fno-discard-value-names")
_TABLE = "-DMEMSIM_DESCRIBED"
_ERROR = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):\d+: (?:fatal )?error: (?P<reason>.*)$", re.MULTILINE
)
_ROW = re.compile(r"\{ i64 (\d+), i8 (\d+), i8 (\d+), i8 (\d+), i64 (\d+) \}")
_VARIABLE = re.compile(
    r'^@"?([\w.$]+)"? = (?!extern)[^\n]*?addrspace\([14]\)[^\n]*? (?:global|constant) (\S+)',
    re.MULTILINE,
)
_INNER = re.compile(r'"[^"]*"|\([^()]*\)|\{[^{}]*\}|\[[^][]*\]|<[^<>]*>')
_NUMBERS = {"float": "f4", "double": "f8", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8"}
_OF_COMPILERS = ("llvm.", "memsim_", "__hip_", "__clang", "__oclc_")


class DeviceVariable(NamedTuple):
    """A `__constant__` or `__device__` variable.

    name : in the source, without namespaces
    number : of a single number, f or i and its bytes; p for a pointer; else empty
    """

    name: str
    number: str


@dataclass(frozen=True)
class Described:
    """A kernel as its program declares it.

    program : without host code that does not compile here
    symbol : of the kernel in compiled code
    variables : symbol in compiled code -> variable
    """

    program: CudaProgram
    symbol: str
    parameters: tuple[Parameter, ...]
    variables: Mapping[str, DeviceVariable]


def described(program: CudaProgram, target: str) -> Described:
    """Raises KernelError with the user's line where code for the device does not compile."""
    clang = find_clang("nvptx64" if target.startswith("sm_") else "amdgcn")
    if clang is None or major(clang) < OLDEST:
        raise KernelError(
            f"CUDA C++ and HIP need clang, version {OLDEST} or later ({INSTALL_CLANG})"
        )
    language = [*_language(program, target, clang), *_IR, _TABLE]
    text = program.compiled_text(_table(program))
    key = cache.key("described", clang.identity, text, *language, *program.given)
    kept = cache.load(key, "symbol")
    if kept is None or not unchanged(kept.get("headers")):
        with temporary_folder() as folder:
            kept = _made(program, clang, language, folder)
        cache.save(key, kept)
    return Described(
        program=replace(program, compilable=kept["compilable"]),
        symbol=kept["symbol"],
        parameters=tuple(Parameter(*row) for row in kept["parameters"]),
        variables={name: DeviceVariable(*row) for name, row in kept["variables"].items()},
    )


def _table(program: CudaProgram) -> str:
    return f"MEMSIM_SIGNATURE({program.kernel})"


def _language(program: CudaProgram, target: str, clang: Tool) -> list[str]:
    request = CudaRequest(
        text=program.text,
        kernel=program.kernel,
        target=target,
        options=read_options(()),
        required_shape=None,
        group_shape=None,
        registers_limit=None,
        program=program,
    )
    if target.startswith("sm_"):
        return request.nvidia_language(known_target(target, clang))
    return [*request.amd_language(64 if is_wide(target) else 32), "-g"]


def _made(program: CudaProgram, clang: Tool, language: list[str], folder: Path) -> dict[str, Any]:
    """What is kept of a program; host code that does not compile is left out."""
    rest = [*program.given, "-MMD", "-MF", DEPENDENCIES, COMPILED, "-o", "kernel.ll"]

    def compiled(program: CudaProgram) -> Finished:
        text = program.compiled_text(_table(program))
        (folder / COMPILED).write_text(text, encoding="utf-8")
        return run_with_header(clang, FIRST, language, rest, folder)

    finished = compiled(program)
    errors: dict[int, str] = {}
    for _ in range(MOST_TRIES):
        found = _errors_in(program, finished)
        leaner = _without_host_code(program, found)
        if not leaner:
            break
        errors |= found
        program = replace(program, compilable=leaner)
        finished = compiled(program)
    _check(finished, program)
    ir = (folder / "kernel.ll").read_text(encoding="utf-8", errors="replace")
    _check_left_out(ir, errors, program)
    symbol = _line(ir, "@memsim_kernel =").partition("ptr ")[2]
    symbol = symbol[symbol.index("@") + 1 :].split(",")[0].split(" to ")[0].strip('"')
    return {
        "symbol": symbol,
        "parameters": list(_parameters(ir, symbol, program)),
        "variables": dict(_variables(ir)),
        "headers": included(folder, COMPILED, program.searched),
        "compilable": program.compilable,
    }


def _line(ir: str, start: str) -> str:
    at = ir.index(f"\n{start}") + 1
    return ir[at : ir.index("\n", at)]


def _parameters(ir: str, symbol: str, program: CudaProgram) -> Iterator[list[Any]]:
    """The fields of each Parameter."""
    rows = _ROW.findall(_line(ir, "@memsim_parameters ="))
    header = re.search(rf'^define [^\n]*@"?{re.escape(symbol)}"?\((.*)$', ir, re.MULTILINE)
    if header is None:
        raise KernelError(
            f"{program.file} declares kernel {program.kernel}, but does not define it"
        )
    names = _declared(ir, header[1]) or _names(header[1])
    for position, (size, kind, element, constant, element_bytes) in enumerate(rows):
        name = names[position] if position < len(names) else ""
        name = "" if name.isdigit() else name
        letters = chr(int(kind)), chr(int(element)) if int(element) else ""
        yield [name or f"#{position}", int(size), *letters, constant != "0", int(element_bytes)]


def _names(listed: str) -> list[str]:
    """The names of the parameters in a function's header, from the first one on."""
    before = ""
    while before != listed:
        before, listed = listed, _INNER.sub("", listed)
    parts = listed.partition(")")[0].split(",")
    return [part.rpartition("%")[2].strip().removesuffix(".coerce") for part in parts if part]


def _declared(ir: str, header: str) -> list[str]:
    """The names of the parameters, from what is kept for debuggers; none where that is not there.

    clang gives structs of AMD's kernels other names than the text, and keeps nothing for debuggers of NVIDIA's.
    """
    scope = re.search(r"!dbg (!\d+)", header)
    found = re.findall(
        rf'!DILocalVariable\(name: "([^"]*)", arg: (\d+), scope: {scope[1]},' if scope else "$^", ir
    )
    names = {int(number): name for name, number in found}
    return [names.get(k, "") for k in range(1, max(names, default=0) + 1)]


def _variables(ir: str) -> Iterator[tuple[str, list[str]]]:
    for symbol, kind in _VARIABLE.findall(ir):
        if not symbol.startswith(_OF_COMPILERS):
            number = "p" if kind.startswith("ptr") else _NUMBERS.get(kind.rstrip(","), "")
            yield symbol, [last_name(symbol), number]


def last_name(symbol: str) -> str:
    """The last name in a symbol: `x` of `_ZN2ns1xE` and of `_ZL1x`."""
    found, at = symbol, 2 if symbol.startswith("_Z") else len(symbol)
    while match := re.compile(r"\D*?(\d+)").match(symbol, at):
        start = match.end()
        at = start + int(match[1])
        found = symbol[start:at]
    return found or symbol


def _errors_in(program: CudaProgram, finished: Finished) -> dict[int, str]:
    """Line of the program's own file -> the first error there."""
    found = [*_ERROR.finditer(finished.errors)] if finished.status else []
    return {int(m["line"]): m["reason"] for m in reversed(found) if m["file"] == program.file}


def _without_host_code(program: CudaProgram, errors: Mapping[int, str]) -> str:
    """The text without the host code that errors are about; empty where none is about such code."""
    before = text = program.compilable or program.text
    for line, reason in sorted(errors.items(), reverse=True):
        text = without(text, line, reason) or text
    return text if text != before else ""


def _check_left_out(ir: str, errors: Mapping[int, str], program: CudaProgram) -> None:
    """Raises KernelError where code for the device was left out: a macro hides its qualifier."""
    call = re.search(rf"call void @{LEFT_OUT}\(.*!dbg (!\d+)$", ir, re.MULTILINE)
    if call is not None:
        place = re.search(rf"^{call[1]} = !DILocation\(line: (\d+)", ir, re.MULTILINE)
        first = int(place[1]) if place else 0
        line = min((line for line in errors if line >= first), default=first)
        raise KernelError(f"{program.file}:{line}: {errors.get(line, 'this does not compile')}")


def _check(finished: Finished, program: CudaProgram) -> None:
    if finished.status == 0:
        return
    match = _ERROR.search(finished.errors)
    if match is None:
        lines = [line for line in finished.errors.splitlines() if "error: " in line]
        reason = lines[0].partition("error: ")[2] if lines else f"status {finished.status}"
        raise KernelError(f"{program.file}: {reason.strip()}")
    names = candidates(program.text)
    plain = program.kernel.rpartition("::")[2]
    if match["reason"].startswith("address of overloaded") and plain in names.split(", "):
        raise KernelError(
            f"{program.file} has several functions {program.kernel}: an overloaded kernel cannot be chosen"
        )
    if match["file"] == LAUNCH:
        raise KernelError(
            f"{program.file} has no kernel {program.kernel} ({match['reason']}); it has {names}"
        )
    if match["file"].startswith(str(HEADERS)):
        match = _used_at(finished.errors, match) or match
    reason = match["reason"]
    heap = re.fullmatch(r"no matching function for call to '(malloc|free)'", reason)
    if heap:
        what = "frees" if heap[1] == "free" else "allocates (malloc)"
        reason = f"memory that a kernel {what} cannot be traced"
    library = re.fullmatch(r"use of undeclared identifier '(cub|hipcub|rocprim|thrust)'", reason)
    if library:
        reason = f"code of {library[1]} cannot be traced: its headers are not read"
    raise KernelError(f"{match['file']}:{match['line']}: {reason}")


def _used_at(errors: str, match: re.Match[str]) -> re.Match[str] | None:
    """Where the program uses what an error in our own headers is about, with the error's reason."""
    place = rf"(?:(?!{re.escape(str(HEADERS))})(?P<file>[^\n:]+)):(?P<line>\d+)"
    pattern = rf"(?P<reason>(?<=error: )[^\n]*)(?:\n(?!\S+: (?:fatal )?error: )[^\n]*)*?\n{place}:\d+: note: "
    return re.compile(pattern).search(errors, match.start())
