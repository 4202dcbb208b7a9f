"""To PTX: from OpenCL C by clang and NVIDIA's libNVVM or by clang alone, with the built-in functions of the
folder beside and NVIDIA's libdevice; from CUDA C++ by NVRTC or clang.

As in NVIDIA's own compiler for OpenCL, multiplications and additions are contracted, and divisions
and square roots in single precision have the precision that OpenCL requires, unless build options
change it.
"""

from __future__ import annotations

import functools
import re
from importlib import resources
from pathlib import Path

from tracegen.compiled.cuda_request import CudaRequest, run_clang
from tracegen.compiled.nvidia.nvvm_ir import as_nvvm
from tracegen.compiled.request import CompileError, Request, check, linked
from tracegen.cuda.includes import originals
from tracegen.tools import cache
from tracegen.tools.process import run
from tracegen.tools.toolchain import (
    NvidiaTools,
    Tool,
    library_command,
    major,
    nvvm_tools,
)

SEPARATE_BODIES = 21
"""The first version of clang that puts the body of a kernel into a function of its own."""
TRIPLE = "nvptx64-nvidia-nvcl"
_EXTENSIONS = "+cl_khr_fp16,+cl_khr_int64_base_atomics,+cl_khr_int64_extended_atomics"
_FLUSH = "-fdenormal-fp-math-f32=preserve-sign"
AS_NVIDIA = (
    *("-mllvm", "-instcombine-code-sinking=0", "-mllvm", "-disable-machine-sink"),
    *("-mllvm", "-inline-threshold=1000000"),
)
"""Where clang decides otherwise than NVIDIA's compilers. It moves arithmetic into the branch that uses its
result, and then the operands of all of it are in registers at once: a convolution whose stores are conditional
takes 252 registers, and 32 with NVIDIA's. And it calls long functions, for which pointers to shared memory are
generic; NVIDIA's inline what is not marked `__noinline__`."""
_TYPED = ("-Xclang", "-no-opaque-pointers", "-fno-discard-value-names")
"""For libNVVM, to whose LLVM IR pointers without types, and parameters without names, are unknown."""
_DEBUG_TARGET = re.compile(r"^(\.target [^\n]*?), debug$", re.MULTILINE)
_DEBUG_SECTION = re.compile(r"^\s*\.section\s[^{]*\{.*?\}[ \t]*$", re.MULTILINE | re.DOTALL)
# Labels that only the debug sections refer to. clang puts them, and positions, even inside calls.
_DEBUG_LABEL = re.compile(r"^\$?L__(?:tmp|func_begin|func_end)\d+:[ \t]*\n", re.MULTILINE)
_WHOLE_CALL = re.compile(r"^\s*call(?:\.uni)?\b[^;]*;", re.MULTILINE)
_POSITION = re.compile(r"^\s*\.loc\b[^\n]*\n", re.MULTILINE)
_ENTRY = re.compile(r"^\.(?:(?:visible|weak) \.)?entry (\w+)\(", re.MULTILINE)
_HEADER = re.compile(r"^\.(?:(?:visible|weak) \.)?entry [^{]*(?=\{)", re.MULTILINE)
_WHOLE_ENTRY = re.compile(
    r"^\.(?:(?:visible|weak) \.)?entry (\w+)\(.*?^\}[ \t]*\n(?!\s*// end inline asm)",
    re.MULTILINE | re.DOTALL,
)
"""Inline assembly may end with a brace at the begin of a line, too."""
_DEFINED = re.compile(r"^(?:\.\w+ )?\.func [^;{]*?(\w+)\s*\([^;{]*\{", re.MULTILINE)
_CALL = re.compile(r"^\s*call(?:\.uni)?\b[^;]*?\b(_Z(\d+)(\w+))[^;]*;", re.MULTILINE)
_LINE = re.compile(r"^\s*\.loc\s+\d+ (\d+)", re.MULTILINE)


def number(target: str) -> int:
    """90 of `sm_90` and of `sm_90a`."""
    return int(re.sub(r"\D", "", target))


def write_ptx(request: Request, tools: NvidiaTools, folder: Path) -> str:
    """The PTX of a kernel and of the functions that it calls; it states the group shape."""
    if isinstance(request, CudaRequest) and request.ptx:
        ptx = _without_debug(request.ptx)
    elif request.by == "ptx":
        ptx = _without_debug(request.source)
    else:
        (folder / request.file).write_text(request.source, encoding="utf-8")
        _run_nvvm(request, tools, folder) if request.by == "nvvm" else _run_clang(
            request, tools, folder
        )
        ptx = _without_debug(originals((folder / "kernel.ptx").read_text(encoding="utf-8"), folder))
    kernels = _ENTRY.findall(ptx)
    if request.kernel not in kernels:
        raise CompileError(
            f"the program has no kernel {request.kernel}; it has {', '.join(kernels) or 'none'}"
        )
    ptx = _WHOLE_ENTRY.sub(lambda match: match[0] if match[1] == request.kernel else "", ptx)
    _check_functions(ptx, request.target)
    return _with_group_shape(ptx, request.group_shape)


def _run_nvvm(request: Request, tools: NvidiaTools, folder: Path) -> None:
    """Writes `kernel.ptx` as NVIDIA's driver does: clang translates the text, libNVVM optimises the code."""
    nvvm, options, ir = nvvm_tools(), request.options, folder / "kernel.ll"
    command = [
        *(str(nvvm.clang.path), *_target(request.target, nvvm.clang)),
        *("-emit-llvm", "-Xclang", "-disable-llvm-passes", *_TYPED, "-gline-directives-only"),
        *linked([_library(request, nvvm.clang, folder), tools.libdevice]),
        *request.clang_arguments(ir.name),
    ]
    check(run(command, folder), nvvm.clang, request)
    ir.write_text(as_nvvm(ir.read_text(encoding="utf-8")), encoding="utf-8")
    flags = {
        "opt": 0 if "-cl-opt-disable" in options else 3,
        "ftz": int("-cl-denorms-are-zero" in options),
        "prec-div": int(options.divides_exactly),
        "prec-sqrt": int(options.divides_exactly),
        "fma": int("FP_CONTRACT" not in request.text),
    }
    words = [f"-arch=compute_{request.target[3:]}", "-generate-line-info"]
    words += [f"-{name}={value}" for name, value in flags.items()]
    command = [*library_command("libnvvm", nvvm.library.path), ir.name, "kernel.ptx", *words]
    check(run(command, folder), nvvm.library, request)


def _run_clang(request: Request, tools: NvidiaTools, folder: Path) -> None:
    """Writes `kernel.ptx`; with new versions of clang in two steps, see `inlined_bodies`."""
    if isinstance(request, CudaRequest):
        name = known_target(request.target, tools.clang)
        language = [*AS_NVIDIA, *linked([tools.libdevice]), *request.nvidia_language(name)]
        finished = run_clang(request.program, tools.clang, language, "kernel.ptx", folder)
        check(finished, tools.clang, request)
        return
    options = request.options
    precision = 0 if options.is_relaxed else 2 if options.divides_exactly else 1
    command = [
        *(str(tools.clang.path), *_target(request.target, tools.clang), *AS_NVIDIA),
        *("-mllvm", f"-nvptx-prec-divf32={precision}"),
        *(["-Xclang", _FLUSH] if "-cl-denorms-are-zero" in options else []),
    ]
    # With tables of line numbers, clang 19 crashes on some programs.
    libraries = linked([_library(request, tools.clang, folder), tools.libdevice])
    first = [*command, "-gline-directives-only", *libraries]
    if major(tools.clang) < SEPARATE_BODIES or "-cl-opt-disable" in options:
        check(run([*first, *request.clang_arguments("kernel.ptx")], folder), tools.clang, request)
        return
    unoptimised = ["-emit-llvm", "-Xclang", "-disable-llvm-passes"]
    arguments = [*unoptimised, *request.clang_arguments("kernel.ll")]
    check(run([*first, *arguments], folder), tools.clang, request)
    ir = folder / "kernel.ll"
    ir.write_text(inlined_bodies(ir.read_text(encoding="utf-8")), encoding="utf-8")
    arguments = ["-x", "ir", *request.backend_arguments, ir.name, "-o", "kernel.ptx"]
    check(run([*command, *arguments], folder), tools.clang, request)


def _without_debug(ptx: str) -> str:
    """The text with positions of instructions, but without the tables of a debugger."""
    ptx = _DEBUG_SECTION.sub("", _DEBUG_TARGET.sub(r"\1", ptx))
    ptx = _DEBUG_LABEL.sub("", ptx)
    return _WHOLE_CALL.sub(lambda call: _POSITION.sub("", call[0]), ptx)


def known_target(target: str, clang: Tool) -> str:
    """clang's own name for the target, or the newest older one: ptxas compiles PTX for any later one."""
    older = [
        name for name in clang.targets if name[-1].isdigit() and number(name) <= number(target)
    ]
    return target if target in clang.targets else max(older, key=number)


def _target(target: str, clang: Tool) -> list[str]:
    name = known_target(target, clang)
    return [
        *("-target", TRIPLE, "-Xclang", "-target-cpu", "-Xclang", name),
        *("-Xclang", f"-cl-ext={_EXTENSIONS}"),
    ]


def _check_functions(ptx: str, target: str) -> None:
    """Raises CompileError where a built-in function is called that no library defines."""
    defined = set(_DEFINED.findall(ptx))
    for match in _CALL.finditer(ptx):
        if match[1] not in defined:
            lines = _LINE.findall(ptx, 0, match.start())
            name = match[3][: int(match[2])]
            raise CompileError(
                f"function {name} is not available for {target} with these arguments",
                int(lines[-1]) if lines else None,
            )


def _with_group_shape(ptx: str, shape: tuple[int, ...] | None) -> str:
    """The text of one kernel with the directive `.reqntid`, which clang up to version 19 leaves out."""
    if shape is None or ".reqntid" in ptx:
        return ptx
    directive = f".reqntid {', '.join(map(str, shape))}\n"
    return _HEADER.sub(lambda match: f"{match[0]}{directive}", ptx, count=1)


@functools.cache
def builtins_text() -> str:
    """The sources of the built-in functions."""
    folder = resources.files("tracegen.compiled.nvidia") / "builtins"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return "".join(file.read_text(encoding="utf-8") for file in files)


def _library(request: Request, clang: Tool, folder: Path) -> Path:
    """Bitcode of the built-in functions, compiled once for each clang and precision.

    It is not optimised here but together with each kernel, whose target it then gets.
    """
    variant = [
        *(["-cl-fast-relaxed-math"] if request.options.is_relaxed else []),
        *(["-DDIVIDES_EXACTLY"] if request.options.divides_exactly else []),
    ]
    typed = _TYPED if request.by == "nvvm" else ()
    key = cache.key("builtins", clang.identity, builtins_text(), *variant, *typed)

    def make(path: Path) -> None:
        sources = resources.files("tracegen.compiled.nvidia") / "builtins"
        with resources.as_file(sources) as place:
            command = [
                *(str(clang.path), "-x", "cl", "-cl-std=CL1.2", "-O2", "-w", *variant, *typed),
                *("-target", TRIPLE, "-nogpulib", "-c", "-emit-llvm", "-fno-crash-diagnostics"),
                *("-Xclang", f"-cl-ext={_EXTENSIONS}", "-Xclang", "-disable-llvm-passes"),
                *(str(place / "all.cl"), "-o", str(path)),
            ]
            check(run(command, folder), clang, request)

    return cache.file(f"{key}.bc", make, folder)


_BODY = re.compile(
    r"^define (?:\w+ )*?(?=\w+ @__clang_ocl_kern_imp_)(?P<rest>[^\n]*?\) (?:\w+ )*#(?P<group>\d+)[^\n]*)$",
    re.MULTILINE,
)


def inlined_bodies(ir: str) -> str:
    """LLVM's text with the bodies of kernels as functions that are always inlined.

    clang 21 and later put the body of an OpenCL kernel into a function beside it, and forbid NVIDIA's target to
    inline that function. The kernel would then pay for a call that the vendor's compilers do not make.
    """
    groups = {match["group"] for match in _BODY.finditer(ir)}
    ir = _BODY.sub(lambda match: f"define internal {match['rest']}", ir)
    for group in groups:
        ir = re.sub(
            rf"^(attributes #{group} = \{{.*?)\bnoinline\b",
            r"\1alwaysinline",
            ir,
            flags=re.MULTILINE,
        )
    return ir
