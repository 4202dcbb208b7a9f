"""A program in OpenCL C as clang reads it: its text without directives, and the kernels that it declares.

Machine code has neither names nor types of parameters. clang writes them beside the LLVM IR of a program.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from memsim.errors import KernelError
from memsim.files import temporary_folder
from tracegen.compiled.build_options import BuildOptions, read_options, with_folder
from tracegen.compiled.request import plain_reason
from tracegen.tools import cache
from tracegen.tools.headers import DEPENDENCIES, included
from tracegen.tools.process import Finished, run
from tracegen.tools.toolchain import INSTALL_CLANG, CompilerMissing, Tool, find_clang
from tracegen.workloads.checks import read_text
from tracegen.workloads.workload import OpenCLWorkload

LONGEST_TEXT = 8_000_000
MOST_SHOWN = 5
_FILE = "program.cl"
_EXTENSIONS = "-all,+__opencl_c_fp64," + ",".join(
    f"+cl_khr_{name}"
    for name in (
        *("byte_addressable_store", "fp16", "fp64", "global_int32_base_atomics"),
        *("global_int32_extended_atomics", "local_int32_base_atomics"),
        *("local_int32_extended_atomics", "int64_base_atomics", "int64_extended_atomics"),
    )
)
"""What GPUs of both makers report; a program may ask for it with #ifdef."""
_TARGET = ("-target", "spir64", "-U__SPIR__", "-U__SPIR64__", "-U__SPIR", "-U__SPIR64")
_IR = (
    *("-cl-kernel-arg-info", "-emit-llvm", "-S", "-Xclang", "-disable-llvm-passes"),
    *("-Xclang", "-fdump-record-layouts-simple"),
)
_ERROR = re.compile(r"^(.+?):(\d+):\d+: (?:fatal )?error: (.*)$", re.MULTILINE)
_ASSEMBLER = re.compile(r"invalid (?:in|out)put constraint '.*' in asm$")
_MARKER = re.compile(r'# (\d+) "((?:[^"\\]|\\.)*)"')
_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_KERNEL = re.compile(r"^define [^\n]*spir_kernel void @(\w+)\([^\n]*\) ([^\n]*)\{$", re.MULTILINE)
_ATTACHED = re.compile(r"!(\w+) !(\d+)")
_NODE = re.compile(r"^!(\d+) = !\{(.*)\}$", re.MULTILINE)
_RECORD = re.compile(r"^Type: (.*)\n\nLayout: <ASTRecordLayout\n\s*Size:(\d+)", re.MULTILINE)
_VECTOR = re.compile(r" __attribute__\(\(ext_vector_type\((\d+)\)\)\)")
_SPACES = {"1": "global", "2": "constant", "3": "local"}
_SCALARS = {"char": "int8", "short": "int16", "int": "int32", "long": "int64"}
_SCALARS |= {f"u{name}": f"u{kind}" for name, kind in _SCALARS.items()}
_SCALARS |= {"half": "float16", "float": "float32", "double": "float64"}


@dataclass(frozen=True)
class SourceLine:
    """A 1-based line of a file that the user wrote."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel.

    kind : the memory that it points to: global, constant or local; "" for a value
    text : its type in words
    number : numpy's name of its number, or of those that it points to; "" where these are no numbers
    n_bytes : of its value, or of an element that it points to; 0 where that is not known
    is_const : whether the kernel only reads what it points to
    """

    name: str
    kind: str
    text: str
    number: str
    n_bytes: int
    is_const: bool


@dataclass(frozen=True)
class Kernel:
    """group_shape : that the kernel requires, None if it requires none"""

    name: str
    parameters: tuple[Parameter, ...]
    group_shape: tuple[int, ...] | None


@dataclass(frozen=True)
class Program:
    """A preprocessed program.

    file : in which it begins
    places : the place of each line of `text`
    options : build options other than those of the preprocessor
    """

    file: str
    text: str
    places: tuple[SourceLine, ...]
    options: tuple[str, ...]
    kernels: Mapping[str, Kernel]

    def place(self, line: int) -> SourceLine:
        """The place of a 1-based line of the text."""
        return self.places[min(line, len(self.places)) - 1]

    def named(self, name: str | None) -> Kernel:
        """The kernel of that name, or the only one; the KernelError lists all kernels."""
        listed = ", ".join(self.kernels) or "no kernel at all"
        if name is None:
            if not self.kernels:
                raise KernelError(f"{self.file} has no kernel")
            if len(self.kernels) > 1:
                raise KernelError(f"{self.file} has several kernels; name one of them: {listed}")
            return next(iter(self.kernels.values()))
        if name not in self.kernels:
            raise KernelError(f"{self.file} has no kernel {name}; it has {listed}")
        return self.kernels[name]


def read_program(workload: OpenCLWorkload) -> Program:
    """Raises KernelError for a file that cannot be read, and a text that does not compile, with the user's lines."""
    source, file = _source(workload)
    options = read_options(workload.build_options)
    clang = find_clang("nvptx64") or find_clang("amdgcn")
    if clang is None:
        raise CompilerMissing("OpenCL C cannot be read without clang", INSTALL_CLANG)
    beside = os.path.abspath(Path(file).parent)
    given = (*options.arguments, str(options.registers_limit), *options.ignored)
    key = cache.key("OpenCL C", clang.identity, source, file, beside, *given)

    def made() -> tuple[Program, dict[str, str]]:
        with temporary_folder() as folder:
            return _made(source, file, beside, options, clang, folder)

    return cache.kept(key, Program, made)


def _made(
    source: str, file: str, beside: str, options: BuildOptions, clang: Tool, folder: Path
) -> tuple[Program, dict[str, str]]:
    """The program as clang reads it, and its headers. beside : the folder of the file"""
    name = file.replace("\\", "\\\\").replace('"', '\\"')
    (folder / _FILE).write_text(f'#line 1 "{name}"\n{source}', encoding="utf-8")
    version = f"{options.arguments[0].rpartition('CL')[2].replace('.', '')}0"
    command = [str(clang.path), "-x", "cl", *_TARGET, "-w"]
    expanded = run(
        [
            *(*command, *options.arguments, "-E", "-C", "-cl-no-stdinc", "-iquote", beside),
            *("-Xclang", f"-cl-ext={_EXTENSIONS}", f"-D__OPENCL_VERSION__={version}"),
            *("-MMD", "-MF", DEPENDENCIES, _FILE),
        ],
        folder,
    )
    _check(expanded, file, None)
    text, places = _read(expanded.output, file)
    if len(text) > LONGEST_TEXT:
        raise KernelError(f"{file}: preprocessing gives more than {LONGEST_TEXT} characters")
    searched = [word[2:] for word in options.arguments if word.startswith("-I")]
    headers = included(folder, _FILE, [beside, *searched])
    (folder / _FILE).write_text(text, encoding="utf-8")
    rest = [word for word in options.arguments if word[:2] not in ("-D", "-U", "-I")]
    parsed = run([*command, *rest, *_IR, _FILE, "-o", "program.ll"], folder)
    _check(parsed, file, places)
    ir = (folder / "program.ll").read_text(encoding="utf-8")
    kernels = {one.name: one for one in _kernels(ir, parsed.output)}
    return Program(file, text, places, _for_compiler(rest, options), kernels), headers


def _source(workload: OpenCLWorkload) -> tuple[str, str]:
    """The program's text, and the name of its file."""
    if workload.source is not None:
        return workload.source, str(workload.path or "kernel.cl")
    if workload.path is None:
        raise KernelError("an OpenCLWorkload needs a path or a source")
    return read_text(Path(workload.path)), str(workload.path)


def _for_compiler(rest: list[str], options: BuildOptions) -> tuple[str, ...]:
    limit = options.registers_limit
    registers = [f"-cl-nv-maxrregcount={limit}"] if limit is not None else []
    return (*rest, *registers, *options.ignored)


def _check(finished: Finished, file: str, places: tuple[SourceLine, ...] | None) -> None:
    """Raises KernelError with the first errors. places : of the lines that the errors name, None if these are the user's"""
    if finished.status == 0:
        return
    found = []
    for where, line, said in _ERROR.findall(finished.errors):
        reason = with_folder(_ASSEMBLER.sub("inline assembler is not read in OpenCL C", said))
        if places is not None and where == _FILE:
            found.append(f"{places[min(int(line), len(places)) - 1]}: {reason}")
        else:
            found.append(f"{where}:{line}: {reason}")
    if not found:
        raise KernelError(f"{file}: clang refuses it: {plain_reason(finished)}")
    more = f" (and {len(found) - MOST_SHOWN} more)" if len(found) > MOST_SHOWN else ""
    raise KernelError(f"{'; '.join(found[:MOST_SHOWN])}{more}")


def _read(output: str, program: str) -> tuple[str, tuple[SourceLine, ...]]:
    """The preprocessor's output without its line markers and comments, and the place of each line.

    program : the name of its file
    """
    lines, places, file, number = [], [], _FILE, 0
    for line in output.splitlines():
        marker = _MARKER.match(line)
        if marker is None:
            if file != _FILE and not file.startswith("<"):
                lines.append(line)
                places.append(SourceLine(file, number))
            number += 1
        else:
            file, number = re.sub(r"\\(.)", r"\1", marker[2]), int(marker[1])
            if not os.path.isabs(program) and os.path.isabs(file):  # a header, searched in full
                file = os.path.relpath(file)
    return _COMMENT.sub(_blank, "\n".join(lines)) + "\n", tuple(places) or (SourceLine("", 1),)


def _blank(match: re.Match[str]) -> str:
    """Spaces for a comment; a text stays."""
    return match[0] if match[0][0] == '"' else re.sub(r"[^\n]", " ", match[0])


def _kernels(ir: str, layouts: str) -> Iterator[Kernel]:
    nodes = dict(_NODE.findall(ir))
    sizes = {name: int(bits) // 8 for name, bits in _RECORD.findall(layouts)}
    for name, attached in _KERNEL.findall(ir):
        of = {key: nodes[number] for key, number in _ATTACHED.findall(attached)}
        spaces = re.findall(r"i32 (\d+)", of["kernel_arg_addr_space"])
        names, bases, texts, qualifiers = (
            re.findall(r'!"([^"]*)"', of[f"kernel_arg_{key}"])
            for key in ("name", "base_type", "type", "type_qual")
        )
        rows = zip(spaces, names, bases, texts, qualifiers, strict=True)
        shape = re.findall(r"i32 (\d+)", of.get("reqd_work_group_size", ""))
        parameters = tuple(_parameter(*row, sizes) for row in rows)
        yield Kernel(name, parameters, tuple(map(int, shape)) or None)


def _parameter(
    space: str, name: str, base: str, text: str, qualifiers: str, sizes: Mapping[str, int]
) -> Parameter:
    kind = _SPACES.get(space, "") if base.endswith("*") else ""  # images lie in global memory, too
    is_const = kind != "" and "const" in qualifiers.split()
    element = base.removesuffix("*") if kind else base
    vector = _VECTOR.search(element)
    width = int(vector[1]) if vector else 1
    plain = re.sub(r"\[\d*\]", "", _VECTOR.sub("", element)).strip()
    number = "int32" if plain.startswith("enum ") else _SCALARS.get(plain, "")
    bytes_of_number = int(re.sub(r"\D", "", number) or 0) // 8
    n_bytes = bytes_of_number * (4 if width == 3 else width) if number else sizes.get(element, 0)
    if kind:
        text = f"__{kind} {'const ' if is_const else ''}{text.removesuffix('*')} *"
    return Parameter(name, kind, text, number, n_bytes, is_const)
