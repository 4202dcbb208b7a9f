"""The parameters and variables of a kernel in CUDA C++ or HIP, by name, as NVRTC or clang compiles it for the target.

Machine code has neither names nor types. A table behind the program describes the parameters: see
`headers/nvrtc/signature.h`. Their names are those in the text; clang's LLVM IR, which is not optimised, has them, too.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from memsim.errors import KernelError
from memsim.files import temporary_folder
from tracegen.compiled.amd.back_end import is_wide
from tracegen.compiled.build_options import read_options, with_folder
from tracegen.compiled.cuda_request import CudaRequest, run_clang
from tracegen.compiled.nvidia.nvidia_ptx import known_target
from tracegen.compiled.nvidia.nvrtc import translated
from tracegen.compiled.request import CompileError, plain_reason, shortened
from tracegen.cuda.arguments import Parameter
from tracegen.cuda.host_code import LEFT_OUT
from tracegen.cuda.includes import originals
from tracegen.cuda.program import (
    COMPILED,
    HEADERS,
    LAUNCH,
    CudaProgram,
    Error,
    candidates,
    overloads,
    parameter_names,
    template_parameters,
)
from tracegen.options import Compiler
from tracegen.tools import cache
from tracegen.tools.headers import included
from tracegen.tools.process import Finished
from tracegen.tools.toolchain import (
    INSTALL_CLANG,
    INSTALL_CURAND,
    Tool,
    cuda_headers,
    find_clang,
    find_library,
    major,
    newest_clang,
    nvrtc_tool,
)

MOST_TRIES = 20
"""How often host code is left out: the compiler reports a few errors at a time."""
OLDEST = 15
"""The first version of clang whose text has pointers without types."""
_IR = ("-emit-llvm", "-Xclang", "-disable-llvm-passes", "-fno-discard-value-names")
_TABLE = "-DMEMSIM_DESCRIBED"
_ERROR = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):\d+: (?:fatal )?error: (?P<reason>.*)$", re.MULTILINE
)
_OVERLOADED = ("address of overloaded", "reference to overloaded")
_CANDIDATE = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):\d+: note: (?P<reason>candidate function|possible target)",
    re.MULTILINE,
)
_WORD = re.compile(r"i64 (\d+)")
_IN_PTX = re.compile(
    r"^(?:\.visible )?\.(?:global|const) (?:\.align \d+ )?\.([bfsu])(\d+) (\w+)(\[?)", re.MULTILINE
)
_ENTRY = r"^(?:\.(?:visible|weak) )?\.entry {}\(.*?^\}}[ \t]*\n(?!\s*// end inline asm)"
_HEAP_REASONS = {
    name: f"memory that a kernel {does} cannot be traced"
    for name, does in {"malloc": "allocates (malloc)", "free": "frees"}.items()
}
_HEAP = re.compile(r"\bcall[^;]*?[\s,(](malloc|free)\b")
_LINE = re.compile(r"^\s*\.loc\s+\d+ (\d+)", re.MULTILINE)
_NOT_RUN = {"%envreg": "grid-wide synchronisation", "%reserved_smem": "a tile of more than a warp"}
"""Special registers of PTX, and what they are for; cooperative groups need them."""
_VARIABLE = re.compile(
    r'^@"?([\w.$]+)"? = (?!extern)[^\n]*?addrspace\([14]\)[^\n]*? (?:global|constant) (\S+)',
    re.MULTILINE,
)
_INNER = re.compile(r'"[^"]*"|\([^()]*\)|\{[^{}]*\}|\[[^][]*\]|<[^<>]*>')
_NUMBERS = {"float": "f4", "double": "f8", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8"}
_FUNCTION = re.compile(
    r'^define [^\n]*?@"?([\w.$]+)"?\([^\n]*\{\n(.*?)^\}', re.MULTILINE | re.DOTALL
)
_NAME = re.compile(r'@"?([\w.$]+)')
_Errors = Mapping[tuple[str, int], str]
"""File and line -> the first error there."""
_NAMES = ("-Xclang", "-debug-info-kind=limited")
_NAMESPACE = re.compile(
    r'^(!\d+) = !DINamespace\((?:name: "(\w+)")?[^\n]*scope: (null|!\d+)', re.MULTILINE
)
_DEFINED = re.compile(
    r'^!\d+ = distinct !DISubprogram\(name: "([^"]*)", linkageName: "([^"]*)", scope: (!\d+)',
    re.MULTILINE,
)
_OF_COMPILERS = ("llvm.", "memsim_", "__hip_", "__clang", "__oclc_")


class DeviceVariable(NamedTuple):
    """A `__constant__` or `__device__` variable.

    name : in the source, without namespaces
    number : of a single number, f or i and its bytes; p for a pointer, which NVRTC's code shows as i8; else empty
    """

    name: str
    number: str


@dataclass(frozen=True)
class Described:
    """A kernel as its program declares it.

    program : without host code that does not compile here
    symbol : of the kernel in compiled code
    variables : symbol in compiled code -> variable
    ptx : NVRTC's, "" where clang compiles the program;  refused : then why NVRTC does not, if it was tried
    """

    program: CudaProgram
    symbol: str
    parameters: tuple[Parameter, ...]
    variables: Mapping[str, DeviceVariable]
    ptx: str = ""
    refused: str = ""


@dataclass(frozen=True, kw_only=True)
class _Description:
    """What a compiler says of a program, as it is kept; fields as those of Described and of its program.

    refused : why the compiler refuses the program; then there is nothing else
    """

    kernel: str = ""
    symbol: str = ""
    parameters: tuple[Parameter, ...] = ()
    variables: dict[str, DeviceVariable] = field(default_factory=dict)
    edited: dict[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    ptx: str = ""
    refused: str = ""

    @classmethod
    def made_of(cls, program: CudaProgram, **compiled: Any) -> _Description:
        """compiled : the fields that the program does not have"""
        own = {name: getattr(program, name) for name in ("kernel", "unknown", "absent")}
        return cls(**own, edited=dict(program.edited), **compiled)

    def of(self, program: CudaProgram) -> Described:
        """Of the program as it was before host code was left out."""
        own = {name: getattr(self, name) for name in ("kernel", "edited", "unknown", "absent")}
        return Described(
            program=replace(program, **own),
            symbol=self.symbol,
            parameters=self.parameters,
            variables=self.variables,
            ptx=self.ptx,
        )


def described(program: CudaProgram, target: str, by: Compiler = "auto") -> Described:
    """by : see TraceOptions.compiler, without `none`

    Raises KernelError with the user's line where code for the device does not compile.
    """
    is_cuda = not program.is_hip and target.startswith("sm_")
    if by == "nvvm":
        raise KernelError("libNVVM compiles OpenCL C for NVIDIA's GPUs, not this kernel's language")
    if by == "nvrtc" and not is_cuda:
        what = "HIP" if program.is_hip else f"for {target}"
        raise KernelError(f"NVRTC compiles CUDA C++ for NVIDIA's GPUs, not {what}")
    if by == "nvrtc":
        return _by_nvrtc(program, target)
    nvrtc = find_library("nvrtc") if is_cuda and by == "auto" else None
    if nvrtc is None or target not in nvrtc.targets:
        return _by_clang(program, target)
    try:
        return _by_nvrtc(program, target)
    except CompileError as error:
        found = _by_clang(program, target, str(error))
        if found.program.kernel != program.kernel:
            return described(replace(program, kernel=found.program.kernel), target, by)
        return replace(found, refused=str(error))


def _by_nvrtc(program: CudaProgram, target: str) -> Described:
    """Raises CompileError where NVRTC refuses code for the device."""
    tool = nvrtc_tool()
    headers = [*map(str, cuda_headers()), *(path.read_text() for path in HEADERS.glob("nvrtc/*"))]
    key = cache.key(
        *("nvrtc", tool.identity, target, program.kernel, program.file, *headers, *program.content),
        *(program.options.standard, *program.options.given, *program.options.arithmetic),
    )

    def made() -> tuple[_Description, dict[str, str]]:
        with temporary_folder() as folder:
            return _translated(program, target, folder), {}

    description = cache.kept(key, _Description, made)
    if description.refused:
        raise CompileError(description.refused)
    return description.of(program)


def _translated(program: CudaProgram, target: str, folder: Path) -> _Description:
    """What NVRTC says of a program."""
    try:
        made = translated(program, target, folder)
        own = re.search(_ENTRY.format(re.escape(made.symbol)), made.ptx, re.MULTILINE | re.DOTALL)
        heap = _HEAP.search(own[0]) if own else None
        for register, what in _NOT_RUN.items():
            if own and register in own[0]:
                raise KernelError(f"{program.file}: {what} cannot be traced")
        if own is None or heap or LEFT_OUT in own[0]:
            if own and heap:
                lines = _LINE.findall(own[0], 0, heap.start())
                line = lines[-1] if lines else "?"
                raise KernelError(f"{program.file}:{line}: {_HEAP_REASONS[heap[1]]}")
            what = "is not there, or calls code of the host"
            none = CompileError(f"{program.file}: kernel {program.kernel} {what}")
            raise (made.refusal if own else None) or none
    except CompileError as error:
        return _Description(refused=str(error))
    n_parameters = (len(made.table) - 1) // 6
    names = parameter_names(made.program, n_parameters)
    if names is None:
        with contextlib.suppress(KernelError):
            names = [one.name for one in _by_clang(program, target).parameters]
    variables = {
        symbol: DeviceVariable(last_name(symbol), "" if bracket or kind == "b" else f"{'f' if kind == 'f' else 'i'}{int(bits) // 8}")
        for kind, bits, symbol, bracket in _IN_PTX.findall(made.ptx)
    }  # fmt: skip
    return _Description.made_of(
        made.program,
        ptx=made.ptx,
        symbol=made.symbol,
        parameters=tuple(_rows(made.table, names or [], program)),
        variables=variables,
    )


def _by_clang(program: CudaProgram, target: str, refused: str = "") -> Described:
    """refused : why NVRTC does not compile it, which has left out what the kernel does not reach"""
    architecture = "nvptx64" if target.startswith("sm_") else "amdgcn"
    clang = find_clang(architecture)
    if clang is not None and major(clang) < OLDEST:
        clang = newest_clang(architecture)  # the code is still that of the one that is named
    if clang is None or major(clang) < OLDEST:
        raise KernelError(
            f"CUDA C++ and HIP need clang, version {OLDEST} or later ({INSTALL_CLANG})"
        )
    language = [*_language(program, target, clang), *_IR, _TABLE]
    text = program.compiled_text(_table(program))
    content = [*program.content, *program.options.given]
    key = cache.key("described", clang.identity, text, *language, *content)

    def made() -> tuple[_Description, dict[str, str]]:
        with temporary_folder() as folder:
            return _made(program, clang, language, folder, refused=refused)

    return cache.kept(key, _Description, made).of(program)


def _table(program: CudaProgram) -> str:
    return f"MEMSIM_SIGNATURE({program.pointer})"


def _language(program: CudaProgram, target: str, clang: Tool) -> list[str]:
    request = CudaRequest(
        text=program.text,
        kernel=program.kernel,
        target=target,
        options=read_options(()),
        group_shape=None,
        registers_limit=None,
        program=program,
    )
    if target.startswith("sm_"):
        return request.nvidia_language(known_target(target, clang))
    return [*request.amd_language(64 if is_wide(target) else 32), "-g"]


def _made(
    program: CudaProgram,
    clang: Tool,
    language: list[str],
    folder: Path,
    before: _Errors | None = None,
    refused: str = "",
) -> tuple[_Description, dict[str, str]]:
    """What clang says of a program, and its headers; code that does not compile and is not reached is left out.

    before : the errors in what has been left out already;  refused : see `_by_clang`
    """

    def compiled(program: CudaProgram, behind: str, *options: str) -> Finished:
        text = program.compiled_text(behind)
        (folder / COMPILED).write_text(text, encoding="utf-8")
        return run_clang(program, clang, [*language, *options], "kernel.ll", folder)

    finished = compiled(program, _table(program))
    first: Finished | None = None
    errors = dict(before or {})
    for _ in range(MOST_TRIES):
        found = _errors_in(program, finished)
        for (path, line), reason in found.items():
            place = f"{program.name_of(path)}:{line}: "
            if refused.startswith(place):
                raise KernelError(place + shortened(_reason(reason, program)))
        listed = [(*place, reason) for place, reason in found.items()]
        leaner = _leaner(program, listed)
        if leaner is None:
            first = first or finished
            leaner = program.without_others(listed) or program.without_header(listed)
        if leaner is None:
            break
        errors = found | errors
        program = leaner
        finished = compiled(program, _table(program))
    file, error = folder / "kernel.ll", _ERROR.search(finished.errors)
    is_unnamed = bool(finished.status and error and error["file"] == LAUNCH)
    if is_unnamed and not compiled(program, "", *_NAMES).status:
        named = _kernels(file.read_text(encoding="utf-8", errors="replace"), program.plain_kernel)
        named = named or _with_defaults(program)
        if len(named) > 1:
            what = f"{program.file} has several kernels {program.kernel}"
            raise KernelError(f"{what}: name one of {', '.join(named)}")
        if named and named[0] != program.plain_kernel:
            whole = named[0] + program.kernel[len(program.plain_kernel) :]
            return _made(replace(program, kernel=whole), clang, language, folder, errors)
    if is_unnamed or (error and "file not found" in error["reason"]):
        first = None  # what remains does not follow from what has been left out
    _check(first if finished.status and first else finished, program)
    ir = file.read_text(encoding="utf-8", errors="replace")
    symbol = _line(ir, "@memsim_kernel =").partition("ptr ")[2]
    symbol = symbol[symbol.index("@") + 1 :].split(",")[0].split(" to ")[0].strip('"')
    _check_left_out(originals(ir, folder), symbol, errors, program)
    description = _Description.made_of(
        program,
        symbol=symbol,
        parameters=tuple(_parameters(ir, symbol, program)),
        variables=dict(_variables(ir)),
    )
    return description, included(folder, COMPILED, program.searched)


def _kernels(ir: str, kernel: str) -> list[str]:
    """The kernels of this name in any namespace, and of a template of this name those that the program launches, as a
    user writes them."""
    symbols = {*re.findall(r'^define [^\n]*_kernel void @"?([\w.$]+)', ir, re.MULTILINE)}
    symbols |= {*re.findall(r'ptr @"?([\w.$]+)"?, !"kernel"', ir)}
    spaces = {number: found for number, *found in _NAMESPACE.findall(ir)}
    named = set()
    for name, symbol, scope in _DEFINED.findall(ir):
        while scope in spaces:
            space, scope = spaces[scope]
            name = f"{space}::{name}" if space else name
        if symbol in symbols and f"::{name.partition('<')[0]}".endswith(f"::{kernel}"):
            named.add(re.sub(r"\b(\d+)[UL]+\b", r"\1", name.replace("(anonymous namespace)::", "")))
    return sorted(named)


def _with_defaults(program: CudaProgram) -> list[str]:
    """A template whose parameters all have defaults, with these."""
    plain = program.plain_kernel
    given = map(
        partial(template_parameters, name=plain.rpartition("::")[2]), program.texts.values()
    )
    listed = [one for one in given if one]
    has_all = any(all("=" in part for part in one.split(",")) for one in listed)
    return [f"{plain}<>"] if has_all else []


def _line(ir: str, start: str) -> str:
    at = ir.index(f"\n{start}") + 1
    return ir[at : ir.index("\n", at)]


def _parameters(ir: str, symbol: str, program: CudaProgram) -> Iterator[Parameter]:
    header = re.search(rf'^define [^\n]*@"?{re.escape(symbol)}"?\((.*)$', ir, re.MULTILINE)
    if header is None:
        raise KernelError(
            f"{program.file} declares kernel {program.kernel}, but does not define it"
        )
    names = _declared(ir, header[1]) or _names(header[1])
    table = [int(word) for word in _WORD.findall(_line(ir, "@memsim_parameters ="))]
    return _rows(table, ["" if name.isdigit() else name for name in names], program)


def _rows(table: Sequence[int], names: Sequence[str], program: CudaProgram) -> Iterator[Parameter]:
    """table : see `headers/nvrtc/signature.h`"""
    for position in range((len(table) - 1) // 6):
        size, kind, element, constant, element_bytes, unknown = table[
            6 * position : 6 * position + 6
        ]
        name = (names[position] if position < len(names) else "") or f"#{position}"
        if unknown:
            raise KernelError(
                f"{program.file}: parameter {name} of kernel {program.kernel} has a type of the host, or a"
                " member of one, whose layout is not known here"
            )
        points_to = chr(element) if element else ""
        yield Parameter(name, size, chr(kind), points_to, bool(constant), element_bytes)


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


def _variables(ir: str) -> Iterator[tuple[str, DeviceVariable]]:
    for symbol, kind in _VARIABLE.findall(ir):
        if not symbol.startswith(_OF_COMPILERS):
            number = "p" if kind.startswith("ptr") else _NUMBERS.get(kind.rstrip(","), "")
            yield symbol, DeviceVariable(last_name(symbol), number)


def last_name(symbol: str) -> str:
    """The last name in a symbol: `x` of `_ZN2ns1xE` and of `_ZL1x`."""
    found, at = symbol, 2 if symbol.startswith("_Z") else len(symbol)
    while at < len(symbol) and (match := re.compile(r"\D*?(\d+)").match(symbol, at)):
        start = match.end()
        at = start + int(match[1])
        found = symbol[start:at]
    return found or symbol


def _errors_in(program: CudaProgram, finished: Finished) -> dict[tuple[str, int], str]:
    """File and line of the program's own files -> the first error there. Functions named like the kernel are errors, too."""
    found = [*_ERROR.finditer(finished.errors)] if finished.status else []
    if any(m["file"] == LAUNCH and m["reason"].startswith(_OVERLOADED) for m in found):
        found += _CANDIDATE.finditer(finished.errors)
    placed = ((_path(program, m["file"]), int(m["line"]), m["reason"]) for m in reversed(found))
    return {(path, line): reason for path, line, reason in placed if path in program.texts}


def _path(program: CudaProgram, name: str) -> str:
    """The absolute path of a file by its name in what clang writes."""
    return program.path if name == program.file else os.path.normpath(name)


def _leaner(program: CudaProgram, errors: Sequence[Error]) -> CudaProgram | None:
    """The program without the host code that errors are about, or with a type that is declared nowhere; None where none
    is about such code."""
    if leaner := program.without(errors):
        return leaner
    tried = (program.with_unknown([one]) for one in sorted(errors))
    return next(filter(None, tried), None) or program.without_declarations(errors)


def _check_left_out(ir: str, symbol: str, errors: _Errors, program: CudaProgram) -> None:
    """Raises KernelError where the kernel reaches code that was left out, with the error in that code."""
    bodies = {match[1]: match[2] for match in _FUNCTION.finditer(ir)}
    reached, waiting = {symbol}, [symbol]
    while waiting:
        body = bodies.get(waiting.pop(), "")
        call = re.search(rf"call void @{LEFT_OUT}\(.*!dbg (!\d+)$", body, re.MULTILINE)
        if call is not None:
            place = re.search(rf"^{call[1]} = !DILocation\(line: (\d+).*scope: (!\d+)", ir, re.M)
            scope = place and re.search(rf"^{place[2]} = .*file: (!\d+)", ir, re.MULTILINE)
            named = scope and re.search(rf'^{scope[1]} = !DIFile\(filename: "([^"]*)"', ir, re.M)
            path = _path(program, named[1]) if named else program.path
            first = int(place[1]) if place else 0
            lines = [line for file, line in errors if file == path and line >= first]
            line = min(lines, default=first)
            absent = (place for place, said in errors.items() if said.endswith("file not found"))
            path, line = next(absent, (path, line))  # the cause, where there is one
            reason = errors.get((path, line), "this does not compile")
            raise KernelError(
                f"{program.name_of(path)}:{line}: {shortened(_reason(reason, program))}"
            )
        found = set(_NAME.findall(body)) - reached
        reached |= found
        waiting += found


def _check(finished: Finished, program: CudaProgram) -> None:
    if finished.status == 0:
        return
    match = _ERROR.search(finished.errors)
    if match is None:
        raise KernelError(f"{program.file}: {plain_reason(finished)}")
    names = candidates("\n".join([program.text, *program.headers.values()]))
    several = overloads(program)
    if match["reason"].startswith(_OVERLOADED) and "), " in several:
        raise KernelError(
            f"{program.file} has several kernels {program.plain_kernel}: name one of {several}"
        )
    if match["file"] == LAUNCH:
        raise KernelError(
            f"{program.file} has no kernel {program.kernel} ({match['reason']}); it has {names}"
        )
    if match["file"].startswith(str(HEADERS)):
        match = _used_at(finished.errors, match) or match
    raise KernelError(
        f"{match['file']}:{match['line']}: {shortened(_reason(match['reason'], program))}"
    )


def _reason(reason: str, program: CudaProgram) -> str:
    """An error in the user's words."""
    heap = re.fullmatch(r"no matching function for call to '(malloc|free)'", reason)
    if heap:
        return _HEAP_REASONS[heap[1]]
    if unknown := re.fullmatch(r"use of undeclared identifier '(\w+)'", reason):
        alias = re.compile(rf"\bnamespace\s+{unknown[1]}\s*=\s*(?:::)?(\w+)\s*;")
        meant = {
            unknown[1],
            *(
                name
                for text in (program.text, *program.headers.values())
                for name in alias.findall(text)
            ),
        }
        if libraries := sorted(meant & {"cub", "hipcub", "rocprim", "thrust"}):
            return f"code of {' and '.join(libraries)} cannot be traced: its headers are not read"
    if re.fullmatch(r"invalid (?:in|out)put constraint '.*' in asm", reason):
        return "asm is in PTX, which only NVIDIA's GPUs have"
    if re.fullmatch(r"(?:unknown type name|use of undeclared identifier) 'curand\w*'", reason):
        return f"code of cuRAND needs NVIDIA's compiler and headers ({INSTALL_CURAND})"
    return with_folder(reason)


def _used_at(errors: str, match: re.Match[str]) -> re.Match[str] | None:
    """Where the program uses what an error in our own headers is about, with the error's reason."""
    place = rf"(?:(?!{re.escape(str(HEADERS))})(?P<file>[^\n:]+)):(?P<line>\d+)"
    pattern = rf"(?P<reason>(?<=error: )[^\n]*)(?:\n(?!\S+: (?:fatal )?error: )[^\n]*)*?\n{place}:\d+: note: "
    return re.compile(pattern).search(errors, match.start())
