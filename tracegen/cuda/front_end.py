"""From a program to LLVM's text for this computer, and from there to a library.

The program is compiled as device code, but for this computer's processor: host code is read and left
out. Functions are inlined, loops are not unrolled, and code is not moved between branches, so that every
access keeps its position in the source. Both are kept in the cache of compiled kernels.
"""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from memsim.errors import KernelError
from memsim.files import temporary_folder
from tracegen.cuda.host_code import LEFT_OUT, without
from tracegen.cuda.ir import RESTRICTED
from tracegen.cuda.program import COMPILED, FIRST, HEADERS, LAUNCH, CudaProgram, candidates
from tracegen.tools import cache
from tracegen.tools.headers import DEPENDENCIES, included, unchanged
from tracegen.tools.precompiled import run_with_header
from tracegen.tools.process import Finished, run
from tracegen.tools.toolchain import INSTALL_CLANG, Tool, find_clang, major

MOST_TRIES = 20
"""How often host code is left out: the compiler reports a few errors at a time."""
OLDEST = 15
"""The first version of clang whose text has pointers without types."""
RUNTIME = Path(__file__).parent / "runtime" / "run.c"
_ERROR = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):\d+: (?:fatal )?error: (?P<reason>.*)$", re.MULTILINE
)
_OTHER = re.compile(r"^.*?(?:\berror: |: (?=undefined reference))(?P<reason>.*)$", re.MULTILINE)
_DEVICE_CODE = (
    *("-x", "cuda", "--cuda-host-only", "-nocudainc", "-nocudalib", "-Wno-unknown-cuda-version"),
    *("-Xclang", "-fcuda-is-device", "-Xclang", "-fcuda-allow-variadic-functions"),
    *("-DMEMSIM_CPU", "-D__CUDACC__", "-D__CUDA_ARCH__=700", "-D__NVCC__"),
)
_HIP_CODE = tuple(word for word in _DEVICE_CODE if not re.match("-D__(CUDA|NVCC)", word))
_PLAIN = (
    *("-g", "-fno-discard-value-names", "-fno-exceptions", "-fPIC"),
    *("-O1", "-Xclang", "-disable-llvm-passes", "-ffp-contract=off"),
)
_OPTIMISED = (
    *("-x", "ir", "-S", "-emit-llvm", "-fPIC", "-fno-discard-value-names", "-w"),
    *("-O1", "-finline-functions", "-mllvm", "-inline-threshold=100000000"),
    *("-fno-unroll-loops", "-mllvm", "-unroll-count=1", "-mllvm", "-rotation-max-header-size=0"),
    *("-mllvm", "-sink-common-insts=false", "-mllvm", "-hoist-common-insts=false"),
    *("-mllvm", "-instcombine-code-sinking=false", "-fno-vectorize", "-fno-slp-vectorize"),
)
_LIBRARY = (
    *("-w", "-O2", "-fPIC", "-shared", "-Wl,-Bsymbolic", "-Wl,-z,defs", "-fno-vectorize"),
    *("-fno-slp-vectorize", "-ffp-contract=off", "-fno-crash-diagnostics"),
)
_LOOP = re.compile(r"^(?:for\.cond|while\.cond|while\.body|do\.body)\d*:[^\n]*\n", re.MULTILINE)
_DEFINED = re.compile(r"^define [^\n]*", re.MULTILINE)
_WISHES = re.compile(r"!\{!\"llvm\.loop\.(?!mustprogress\")[^{}]*\}")
_PLAIN_LOOP = '!{!"llvm.loop.unroll.disable"}'
"""What a loop's pragmas ask for, and that it stays as it is: pragmas outweigh the compiler's options."""


def host_clang() -> Tool:
    """The newest clang. Raises KernelError where there is none, or only an old one."""
    clang = find_clang("nvptx64") or find_clang("amdgcn")
    if clang is None or major(clang) < OLDEST:
        raise KernelError(
            f"CUDA C++ and HIP need clang, version {OLDEST} or later ({INSTALL_CLANG})"
        )
    return clang


def to_llvm(program: CudaProgram, clang: Tool, warp: int) -> tuple[str, CudaProgram]:
    """LLVM's text of a program, with a function that calls its kernel; and the program as it was compiled,
    without host code that does not compile.

    warp : lanes of a warp
    Raises KernelError with the user's line where code for the device does not compile.
    """
    launch = f"MEMSIM_LAUNCH({program.kernel})"
    language = [*(_HIP_CODE if program.is_hip else _DEVICE_CODE), f"-DMEMSIM_WARP={warp}"]
    language += [*program.dialect, *_PLAIN]
    text = program.compiled_text(launch)
    key = cache.key("llvm", clang.identity, text, *language, *program.given, *_OPTIMISED)
    kept = cache.load(key, "llvm", only_own=True)
    if kept is not None and unchanged(kept.get("headers")):
        return str(kept["llvm"]), replace(program, compilable=str(kept.get("compilable", "")))
    with temporary_folder() as folder:
        rest = [*program.given, "-include", "memsim/probes.h", "-MMD", "-MF", DEPENDENCIES]
        rest += ["-S", "-emit-llvm", COMPILED, "-o", "plain.ll"]

        def compiled(program: CudaProgram) -> Finished:
            text = program.compiled_text(launch)
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
        plain = (folder / "plain.ll").read_text(encoding="utf-8", errors="replace")
        _check_left_out(plain, errors, program)
        (folder / "marked.ll").write_text(with_marked_loops(plain), encoding="utf-8")
        command = [str(clang.path), *_OPTIMISED, "marked.ll", "-o", "kernel.ll"]
        _check(run(command, folder), program)
        llvm = (folder / "kernel.ll").read_text(encoding="utf-8", errors="replace")
        headers = included(folder, COMPILED, program.searched)
    cache.save(key, {"llvm": llvm, "headers": headers, "compilable": program.compilable})
    return llvm, program


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


def _check_left_out(text: str, errors: Mapping[int, str], program: CudaProgram) -> None:
    """Raises KernelError where code for the device was left out: a macro hides its qualifier."""
    call = re.search(rf"call void @{LEFT_OUT}\(.*!dbg (!\d+)$", text, re.MULTILINE)
    if call is not None:
        place = re.search(rf"^{call[1]} = !DILocation\(line: (\d+)", text, re.MULTILINE)
        first = int(place[1]) if place else 0
        line = min((line for line in errors if line >= first), default=first)
        raise KernelError(f"{program.file}:{line}: {errors.get(line, 'this does not compile')}")


def with_marked_loops(text: str) -> str:
    """The text with a call in each loop, for all that the compiler knows one that changes memory.

    Accesses then stay in their loops, as in the source: the machine code of the target decides which
    leave them. The attribute of `restrict` would say that the call changes nothing; it is replaced by
    one that only we know. Pragmas that unroll or vectorise loops are for the target's compiler alone.
    """
    text = _WISHES.sub(_PLAIN_LOOP, text)
    text = _DEFINED.sub(lambda match: match[0].replace(" noalias ", f" {RESTRICTED} "), text)
    marked = _LOOP.sub(r"\g<0>  call void @memsim_loop()\n", text)
    return f"{marked}\ndeclare void @memsim_loop()\n"


def to_library(text: str, program: CudaProgram, clang: Tool) -> bytes:
    """A library of the program with probes, and of what runs it."""
    runtime = RUNTIME.read_text(encoding="utf-8")

    def compiled() -> bytes:
        with temporary_folder() as folder:
            (folder / "run.o").write_bytes(_runtime(runtime, program, clang))
            (folder / "probed.ll").write_text(text, encoding="utf-8")
            command = [str(clang.path), *_LIBRARY, "-x", "ir", "probed.ll", "-x", "none", "run.o"]
            _check(run([*command, "-lm", "-o", "kernel.so"], folder), program)
            return (folder / "kernel.so").read_bytes()

    return _kept(cache.key("library", clang.identity, text, runtime, *_LIBRARY), compiled)


def _runtime(text: str, program: CudaProgram, clang: Tool) -> bytes:
    """What runs kernels, compiled."""

    def compiled() -> bytes:
        with temporary_folder() as folder:
            command = [str(clang.path), "-w", "-O2", "-fPIC", "-c", str(RUNTIME), "-o", "run.o"]
            _check(run(command, folder), program)
            return (folder / "run.o").read_bytes()

    return _kept(cache.key("runtime", clang.identity, text), compiled)


def _kept(key: str, make: Callable[[], bytes]) -> bytes:
    """What `make` returns, kept under a key."""
    kept = cache.load(key, "code", only_own=True)
    if kept is not None:
        with contextlib.suppress(ValueError):
            return base64.b64decode(kept["code"], validate=True)
    code = make()
    cache.save(key, {"code": base64.b64encode(code).decode()})
    return code


def _check(finished: Finished, program: CudaProgram) -> None:
    if finished.status == 0:
        return
    match = _ERROR.search(finished.errors)
    if match is None:
        other = _OTHER.search(finished.errors)
        lines = [line for line in finished.errors.splitlines() if line.strip()]
        reason = other["reason"] if other else lines[0] if lines else f"status {finished.status}"
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
    line = program.text.splitlines()[int(match["line"]) - 1 : int(match["line"])]
    if match["file"] == program.file and line and re.search(r"\basm\b", line[0]):
        reason = f"inline assembler (PTX) cannot be traced ({reason})"
    if library := re.fullmatch(
        r"use of undeclared identifier '(cub|hipcub|rocprim|thrust)'", reason
    ):
        reason = f"code of {library[1]} cannot be traced: its headers are not read"
    if builtin := re.search(r"'(__builtin_amdgcn_\w+|__nvvm_\w+)'", reason):
        reason = f"the instruction {builtin[1]} cannot be traced"
    raise KernelError(f"{match['file']}:{match['line']}: {reason}")


def _used_at(errors: str, match: re.Match[str]) -> re.Match[str] | None:
    """Where the program uses what an error in our own headers is about, with the error's reason."""
    place = rf"(?:(?!{re.escape(str(HEADERS))})(?P<file>[^\n:]+)):(?P<line>\d+)"
    pattern = rf"(?P<reason>(?<=error: )[^\n]*)(?:\n(?!\S+: (?:fatal )?error: )[^\n]*)*?\n{place}:\d+: note: "
    return re.compile(pattern).search(errors, match.start())
