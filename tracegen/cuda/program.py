"""The text of a CUDA C++ or HIP program, and the kernel in it that is meant."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from memsim.errors import KernelError
from tracegen.cuda import host_code, includes
from tracegen.cuda.options import BuildOptions, read_options
from tracegen.workloads.checks import axes, read_text
from tracegen.workloads.workload import BinaryWorkload, CudaWorkload

HEADERS = includes.HEADERS
FIRST = HEADERS / "memsim" / "kernel.h"
"""The header that comes before every program."""
HIP_SUFFIXES = (".hip",)
MOST_THREADS = 1024
LAUNCH = "memsim launch"
"""The name that the compiler gives to the line behind the program, which names the kernel."""
COMPILED = "program.memsim.cu"
"""The name of the file that is compiled: one that no program includes."""
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|[1-9]\d*|0)")
_DECLARED = re.compile(r"([A-Za-z_]\w*)\s*(?:\)\s*)?(?:\[[^\]]*\]\s*)*$")
"""The name at the end of a parameter's declaration, of `float (*x)[64]`, too."""
_RESTRICT = re.compile(r"\b__restrict(?:__)?\b")
_KERNEL = re.compile(r"\b__global__\b")
_WORD = re.compile(r"\s*(\w+)\s*(\()?")
_SPACED = re.compile(r"<<[ \t]+<([^;{}]{1,300}?)>>[ \t]+>")
_ALIGNED = re.compile(r"(\b__(?:shared|constant|device)__\s+)alignas(?=\s*\()")
_SIZED = re.compile(r"(\bextern\s+__shared__\b[^;=(){}\[]*\[)([^\[\]]+)\](?=\s*;)")
"""Memory whose size the launch gives, although the text has one."""
_STATIC = re.compile(r"\b(?:static\s+__device__|__device__\s+static)\b(?=[^(){};=]*[;=])")
"""Of variables. clang takes one that only the host sets for a constant."""
UNKNOWN = "struct alignas(4096) {0} {{ template <class... _Given> __host__ __device__ {0}(_Given &&...); }};"
"""A type of a library of the host: `headers/memsim/signature.h` knows by its alignment what contains one."""
_ATTRIBUTES = (
    "__launch_bounds__",
    "__maxnreg__",
    "__attribute__",
    "__align__",
    "__cluster_dims__",
    "alignas",
)
_NO_FILE = re.compile(r"""cannot open source file "([^"]+)"|'([^']+)' file not found""")
"""NVRTC's error, and clang's."""
_NO_NAME = {'"': "'", "\\": "/"}
Error = tuple[str, int, str]
"""Of a compiler: absolute path of a file, line there, reason."""
LeaveOut = Callable[[str, int, str], str | None]
"""(text, line, reason) -> the text without what an error on that line is about, None where it stays."""


@dataclass(frozen=True)
class CudaProgram:
    """A program and its kernel.

    file : the name that positions have
    kernel : as the user writes it; an overloaded one with the types of its parameters, `add(float *, int)`
    headers : absolute path -> text of the user's files that it includes
    missing : names of included headers that are not among them
    edited : absolute path -> text without host code that does not compile here, of the files that have such code
    unknown : names of types that are declared nowhere, of the host's libraries
    absent : names of headers of no known library that are nowhere
    around : folders of headers that nobody named, searched last, each with a header that is found there alone
    """

    text: str
    file: str
    kernel: str
    options: BuildOptions
    folder: Path
    headers: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    edited: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    around: Mapping[str, str] = field(default_factory=dict)

    @property
    def left_out(self) -> list[str]:
        """The headers that are empty, or replaced by others."""
        return [*filter(includes.is_left_out, self.missing), *self.absent]

    def without(
        self, errors: Iterable[Error], leave_out: LeaveOut = host_code.without
    ) -> CudaProgram | None:
        """The program without what errors are about; None where nothing can be left out. leave_out : of host_code"""
        texts, edited = self.texts, dict(self.edited)
        for path, line, reason in sorted(errors, key=lambda one: -one[1]):
            text = edited.get(path, texts.get(path))
            leaner = None if text is None else leave_out(text, line, reason)
            if leaner is not None:
                edited[path] = leaner
        is_new = any(text != texts[path] for path, text in edited.items())
        return replace(self, edited=edited) if is_new else None

    def without_declarations(self, errors: Sequence[Error]) -> CudaProgram | None:
        """As `without`, of declarations and classes of the host outside of functions."""
        declaration = functools.partial(host_code.without, in_functions=False)
        return self.without(errors, declaration) or self.without(errors, host_code.without_class)

    def without_others(self, errors: Iterable[Error]) -> CudaProgram | None:
        """As `without`, of code for the device, too, other than the kernel."""
        others = functools.partial(host_code.without, kernel=self.plain_kernel)
        return self.without(errors, others)

    def with_unknown(self, errors: Iterable[Error]) -> CudaProgram | None:
        """The program with the types that errors say are declared nowhere; None where they say so of none."""
        texts, names = self.texts, dict.fromkeys(self.unknown)
        for path, line, reason in errors:
            if path in texts and (name := host_code.unknown_type(texts[path], line, reason)):
                names[name] = None
        return replace(self, unknown=tuple(names)) if len(names) > len(self.unknown) else None

    def without_header(self, errors: Iterable[Error]) -> CudaProgram | None:
        """The program without the first header that errors on its lines say is not found; None where there is none."""
        texts = self.texts
        for path, line, reason in errors:
            found = _NO_FILE.match(reason)
            name = (found[1] or found[2]) if found else ""
            lines = texts.get(path, "").splitlines()[line - 1 : line]
            if name and name not in self.absent and lines and name in lines[0]:
                return replace(self, absent=(*self.absent, name))
        return None

    @property
    def is_hip(self) -> bool:
        named = self.file.endswith(HIP_SUFFIXES) or "hip/hip_runtime.h" in self.text
        cuda = any(name.startswith("cuda") for name in self.missing)
        return named or ("hip/hip_runtime.h" in self.missing and not cuda)

    @property
    def path(self) -> str:
        """Of the program's own file, also where there is none."""
        return str(self.folder / (os.path.basename(self.file) or "kernel.cu"))

    @property
    def texts(self) -> dict[str, str]:
        """Absolute path -> text that is compiled: of the program's own file, then of those that it includes."""
        return {self.path: self.text, **self.headers, **self.edited}

    @functools.cached_property
    def lines_before(self) -> dict[str, int]:
        """Path -> number of the line before its first one, where all files follow each other; the program's own is first."""
        before, found = 0, {os.path.normpath(self.file): 0}
        for path, text in {self.path: self.text, **self.headers}.items():
            found[path] = before
            before += text.count("\n") + 1
        return found

    def name_of(self, path: str) -> str:
        """The name in positions of a file with an absolute path."""
        if path == self.path:
            return self.file
        near = os.path.join(os.path.dirname(self.file), os.path.relpath(path, self.folder))
        return os.path.normpath(near)

    def place(self, line: int) -> tuple[str, int]:
        """The name of a file, and the line there, of a line of all files."""
        path, before = max(
            (one for one in self.lines_before.items() if one[1] < line), key=lambda one: one[1]
        )
        return self.file if not before else self.name_of(path), line - before

    @property
    def included_text(self) -> str:
        """The texts behind the program's own, with as many lines as `lines_before` counts."""
        return "".join(f"{text}\n" for text in self.headers.values())

    def compiled_text(self, behind: str) -> str:
        """The text as clang compiles it, with a line behind it."""
        text = _for_clang(self.texts[self.path])
        opaque = "".join(UNKNOWN.format(name) for name in self.unknown)
        return f'{opaque}\n#line 1 "{self.file}"\n{text}\n#line 1 "{LAUNCH}"\n{behind}\n'

    def write_headers(self, folder: Path) -> list[str]:
        """Writes the included files where clang finds them; its arguments that say where that is."""
        texts = {path: _for_clang(self.texts[path]) for path in self.headers}
        includes.write(folder, texts, self.left_out, includes.text_of_host)
        return [
            *("-iquote", includes.copy(folder, str(self.folder)), "-iquote", str(self.folder)),
            *includes.options(folder, self.options.given),
            *("-idirafter", str(folder / includes.EMPTY)),
            *(f"-idirafter{place}" for place in includes.places(folder, self.around)),
        ]

    @property
    def content(self) -> list[str]:
        """What decides what is compiled, besides the kernel, the options and files that are not the user's."""
        return [
            *self.texts,
            *self.texts.values(),
            *self.missing,
            *dict.fromkeys(map(includes.text_of_host, self.missing)),
            "",
            *self.unknown,
            "",
            *self.absent,
        ]

    @property
    def kernel_types(self) -> list[str] | None:
        """The types of the kernel's parameters, where the user names them."""
        plain = self.plain_kernel
        return _in_parentheses(self.kernel, len(plain) + 1)[0] if plain != self.kernel else None

    @property
    def plain_kernel(self) -> str:
        """The kernel without the types of its parameters."""
        depth = 0
        for at in reversed(range(len(self.kernel))):
            depth += {")": 1, "(": -1}.get(self.kernel[at], 0)
            if not depth:  # the parenthesis that the last character closes
                return self.kernel[:at] if self.kernel.endswith(")") else self.kernel
        return self.kernel

    @property
    def pointer(self) -> str:
        """The kernel's address, in C++: from the outermost namespace on, for names of others may be used there."""
        plain, types = f"::{self.plain_kernel.removeprefix('::')}", self.kernel_types
        return (
            f"&{plain}" if types is None else f"static_cast<void (*)({', '.join(types)})>(&{plain})"
        )

    @property
    def template_integers(self) -> dict[str, int]:
        """Name -> value of the kernel's template parameters that are given as integers."""
        plain = self.plain_kernel
        name, _, arguments = plain.rpartition("::")[2].rstrip("> ").partition("<")
        parameters = template_parameters(_COMMENT.sub(" ", self.text), name.strip())
        if parameters is None:
            return {}
        named = [part.partition("=") for part in parameters.strip("<>").split(",")]
        given = [value.strip() for value in arguments.split(",")] if arguments else []
        values = [*given, *(default.strip() for _, _, default in named[len(given) :])]
        return {
            declared.split()[-1]: int(value, 0)
            for (declared, _, _), value in zip(named, values, strict=False)
            if declared.split() and _INTEGER.fullmatch(value)
        }

    @property
    def dialect(self) -> list[str]:
        """The compiler's arguments that decide what our own headers mean."""
        return [
            *(
                "-w",
                "-Wno-register",
                "-Wno-reserved-user-defined-literal",  # "%d"MACRO, as nvcc reads it
                "-fdeclspec",
                "-fno-crash-diagnostics",
                "-fdebug-compilation-dir=.",
            ),
            *(f"-I{HEADERS}", self.options.standard),
            *(["-D__HIPCC__", "-D__HIP__", "-D__HIP_PLATFORM_AMD__"] if self.is_hip else []),
        ]

    @property
    def searched(self) -> list[str]:
        """The folders of headers, in the order of the search."""
        return [str(self.folder), str(HEADERS), *self.options.folders]


def read_program(workload: CudaWorkload) -> CudaProgram:
    """The program of a workload. Raises KernelError where it cannot be read or has no such kernel."""
    if workload.source is None and workload.path is None:
        raise KernelError("a CudaWorkload needs a path or a source")
    path = Path(workload.path or "kernel.cu")
    text = (
        workload.source if workload.source is not None else read_text(path, "utf-8-sig", "replace")
    )
    known = list(dict.fromkeys(kernels(text)))
    name = workload.kernel
    if name is None:
        if not known:
            raise KernelError(f"{path} has no kernel (a function that is __global__)")
        if len(known) > 1:
            raise KernelError(f"{path} has several kernels: name one of {candidates(text)}")
        name = known[0]
    options, folder = read_options(workload.build_options), path.resolve().parent
    headers, missing, around = includes.included(str(folder / path.name), text, options.folders)
    return CudaProgram(
        text, _plain(str(path)), name, options, folder, headers, missing, around=around
    )


def launch_shape(
    workload: CudaWorkload | BinaryWorkload, name: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Blocks along each axis, and threads along each axis of a block; as many axes each."""
    grid, block = axes(workload.grid), axes(workload.block)
    n_axes = max(len(grid), len(block))
    for what, extents in (("grid", grid), ("block", block)):
        if not 1 <= len(extents) <= 3 or min(extents) < 1:
            raise KernelError(
                f"{what} of kernel {name} must have one to three axes of at least 1, got {extents}"
            )
    if math.prod(block) > MOST_THREADS:
        raise KernelError(
            f"block of kernel {name} may have {MOST_THREADS} threads, got {math.prod(block)}"
        )
    return (*grid, *[1] * (n_axes - len(grid))), (*block, *[1] * (n_axes - len(block)))


def _plain(name: str) -> str:
    """The name of a file as a #line directive may contain it."""
    return "".join(_NO_NAME.get(c, c) if c.isprintable() else "_" for c in name)


def _for_clang(text: str) -> str:
    """What nvcc takes, as clang takes it; nothing moves."""
    text = _ALIGNED.sub(r"\1memsim_", _SPACED.sub(_unspaced, text))
    text = _SIZED.sub(lambda match: f"{match[1]}{' ' * len(match[2])}]", text)
    return _STATIC.sub(r"\g<0> __attribute__((used))", text)


def _unspaced(launch: re.Match[str]) -> str:
    """`<< <` and `>> >` of a launch as clang reads them; nothing moves."""
    opening, closing = launch[0].index("<", 2), launch[0].rindex(">>")
    spaces = " " * (opening - 2)
    end = " " * (len(launch[0]) - closing - 3)
    return f"<<<{spaces}{launch[1]}>>>{end}"


def kernels(text: str) -> Iterator[str]:
    """The names of the kernels that a text defines or declares."""
    plain = _COMMENT.sub(" ", text)
    for match in _KERNEL.finditer(plain):
        at = match.end()
        while word := _WORD.match(plain, at):
            at = word.end()
            if word[2] and word[1] not in _ATTRIBUTES:
                yield word[1]
                break
            if word[2]:
                depth = 1
                while depth and at < len(plain):
                    depth += {"(": 1, ")": -1}.get(plain[at], 0)
                    at += 1


def candidates(text: str) -> str:
    """The kernels of a text, in words, templates with their parameters."""
    plain = _COMMENT.sub(" ", text)
    names = []
    for name in dict.fromkeys(kernels(text)):
        names.append(name + (template_parameters(plain, name) or ""))
    return ", ".join(names) or "none"


def parameter_names(program: CudaProgram, n_parameters: int) -> list[str] | None:
    """The names of the kernel's parameters, where the text has its definition, and so many; None otherwise."""
    types = program.kernel_types
    wanted = None if types is None else ["".join(one.split()) for one in types]
    for declared in _definitions(program):
        names = [match[1] if (match := _DECLARED.search(one)) else "" for one in declared]
        is_meant = wanted is None or wanted == ["".join(one.split()) for one in _types(declared)]
        if is_meant and len(names) == len(set(names)) == n_parameters and all(names):
            return names
    return None


def _definitions(program: CudaProgram) -> Iterator[list[str]]:
    """The declarations of the parameters, without their defaults, of each definition that has the kernel's name."""
    name = program.plain_kernel.partition("<")[0].rpartition("::")[2].strip()
    for text in program.texts.values():
        plain = _COMMENT.sub(" ", text)
        for match in re.finditer(rf"\b{re.escape(name)}\s*\(", plain):
            listed, end = _in_parentheses(plain, match.end())
            if plain[end : end + 200].lstrip().startswith("{"):
                yield [one.partition("=")[0].strip() for one in listed]


def _types(declared: list[str]) -> list[str]:
    """The types of parameters, from their declarations."""
    return [" ".join(_RESTRICT.sub(" ", _DECLARED.sub("", one)).split()) for one in declared]


def overloads(program: CudaProgram) -> str:
    """The kernels that have the kernel's name, in words, as a user names one of them."""
    found = (f"{program.plain_kernel}({', '.join(_types(one))})" for one in _definitions(program))
    return ", ".join(dict.fromkeys(found))


def _in_parentheses(text: str, position: int) -> tuple[list[str], int]:
    """What commas separate behind an opening parenthesis, and the offset behind the closing one."""
    depth, parts, begin = 1, [], position
    for at in range(position, len(text)):
        depth += {"(": 1, "<": 1, "[": 1, "{": 1, ")": -1, ">": -1, "]": -1, "}": -1}.get(
            text[at], 0
        )
        if depth == 0 or (depth == 1 and text[at] == ","):
            parts.append(text[begin:at].strip())
            begin = at + 1
        if depth == 0:
            return [part for part in parts if part and part != "void"], at + 1
    return [], len(text)


def template_parameters(text: str, name: str) -> str | None:
    """The parameters of a kernel's template in angle brackets, None where it is no template.

    text : without comments
    """
    template = re.search(
        rf"\btemplate\s*(<[^;{{}}]*>)\s*(?:\w+\s+)*__global__\b[^;{{}}]*?\b{re.escape(name)}\s*\(",
        text,
    )
    return " ".join(template[1].split()) if template else None
