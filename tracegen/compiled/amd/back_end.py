"""Compiles OpenCL C for AMD's targets: clang with AMD's device libraries writes the final assembly."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from memsim.errors import KernelError
from memsim.files import temporary_folder
from tracegen.compiled.amd.gcn import read_gcn
from tracegen.compiled.amd.gcn_metadata import read_resources
from tracegen.compiled.cuda_request import CudaRequest, run_clang
from tracegen.compiled.model import MachineCode
from tracegen.compiled.request import CompileError, Request, check, linked
from tracegen.cuda.includes import originals
from tracegen.tools import cache
from tracegen.tools.headers import included
from tracegen.tools.process import run
from tracegen.tools.toolchain import (
    DEVICE_LIBRARIES_VARIABLE,
    AmdTools,
    CompilerMissing,
    amd_tools,
    major,
)

TRIPLE = "amdgcn-amd-amdhsa"
KERNEL = re.compile(r"^\s*\.amdhsa_kernel (\S+)", re.MULTILINE)
_LABEL = re.compile(r"^([\w.$]+):", re.MULTILINE)
_COMMON = re.compile(r"^\s*\.l?comm\s+([\w.$]+),", re.MULTILINE)
_REFERENCE = re.compile(r"(?<![\w.$])([\w.$]+)@(?:gotpcrel32|rel32|abs32)@lo")
_INLINED = ("-mllvm", "-amdgpu-early-inline-all", "-mllvm", "-amdgpu-function-calls=false")
"""As hipcc and AMD's OpenCL have it: every function is inlined, also one that clang alone finds too large."""
_VERSION = re.compile(r"oclc_isa_version_([1-9][0-9a-f]{2,3})\.bc")


def machine_code(request: Request) -> MachineCode:
    """The kernel in AMD's assembly. Raises KernelError where clang is missing or refuses the kernel."""
    tools = amd_tools()
    if request.target not in tools.clang.targets:
        raise CompilerMissing(f"{tools.clang} does not compile for {request.target}")

    def made() -> tuple[MachineCode, dict[str, str]]:
        listing, headers = _compiled(request, tools)
        code = read_code(listing, request.kernel, request.target, request.lines_before)
        notes = (*_limit_notes(request, code.registers_per_item), *code.notes)
        return replace(code, tools=tools.versions, notes=notes), headers

    code = cache.kept(cache.key(*_dependencies(request, tools)), MachineCode, made)
    return replace(code, notes=(*request.notes, *code.notes))


def _dependencies(request: Request, tools: AmdTools) -> Iterator[str]:
    """Everything that decides what clang writes."""
    yield from (*request.dependencies, tools.clang.identity)
    for library in _libraries(request, tools):
        status = library.stat()
        yield f"{library} {status.st_size} {status.st_mtime_ns}"


def _compiled(request: Request, tools: AmdTools) -> tuple[str, dict[str, str]]:
    """The assembly that clang writes, and the headers that it read."""
    with temporary_folder() as folder:
        (folder / request.file).write_text(request.source, encoding="utf-8")
        libraries = linked(list(_libraries(request, tools)))
        if isinstance(request, CudaRequest):
            own = request.amd_language(64 if is_wide(request.target) else 32)
            language = [*libraries, *_INLINED, *own]
            finished = run_clang(request.program, tools.clang, language, "kernel.s", folder)
        else:
            own = [
                *("-target", TRIPLE, f"-mcpu={request.target}"),
                *("-cl-kernel-arg-info", *_attributes(request)),
                *("-gline-tables-only", *request.clang_arguments("kernel.s")),
            ]
            finished = run([str(tools.clang.path), *libraries, *_INLINED, *own], folder)
        check(finished, tools.clang, request)
        listing = originals((folder / "kernel.s").read_text(encoding="utf-8"), folder)
        _check_symbols(listing, request)
        return listing, included(folder, request.file, request.searched)


def _check_symbols(listing: str, request: Request) -> None:
    """Raises KernelError where the kernel is not there, or a called function is defined nowhere."""
    kernels = KERNEL.findall(listing)
    if request.kernel not in kernels:
        raise KernelError(
            f"the program has no kernel {request.kernel}; it has {', '.join(kernels) or 'none'}"
        )
    defined = {*_LABEL.findall(listing), *_COMMON.findall(listing)}
    for name in _REFERENCE.findall(listing):
        if name not in defined:
            mangled = re.match(r"_Z(\d+)(\w+)", name)
            name = mangled[2][: int(mangled[1])] if mangled else name
            raise CompileError(f"function {name} is not available for {request.target}")


def _attributes(request: Request) -> list[str]:
    """Attributes, as a macro of the keyword that begins a kernel."""
    added = []
    if request.group_shape is not None:
        added.append(f"reqd_work_group_size({','.join(map(str, request.group_shape))})")
    if request.registers_limit is not None:
        added.append(f"amdgpu_num_vgpr({request.registers_limit})")
    if not added:
        return []
    attribute = f"__attribute__(({', '.join(added)}))"
    return [f"-D{word}={attribute} {word}" for word in ("__kernel", "kernel")]


def _libraries(request: Request, tools: AmdTools) -> Iterator[Path]:
    """AMD's libraries in the order of their calls, with the constants that the build options choose. Debian's are LLVM 15's:
    of them clang 14 reads none, and compiles what calls no function of theirs."""
    options, folder = request.options, tools.libraries
    if (
        isinstance(request, CudaRequest)
        and major(tools.clang) < 15
        and not os.environ.get(DEVICE_LIBRARIES_VARIABLE)
    ):
        return iter(())
    relaxed = options.is_relaxed

    def chosen(name: str, on: bool) -> str:
        return f"oclc_{name}_{'on' if on else 'off'}.bc"

    names = [
        *("opencl.bc", "ocml.bc", "ockl.bc"),
        chosen("daz_opt", "-cl-denorms-are-zero" in options),
        chosen("unsafe_math", relaxed or "-cl-unsafe-math-optimizations" in options),
        chosen("finite_only", relaxed or "-cl-finite-math-only" in options),
        chosen("correctly_rounded_sqrt", options.divides_exactly),
        chosen("wavefrontsize64", is_wide(request.target)),
        "oclc_abi_version_500.bc",
        _architecture(request.target, folder),
    ]
    return (folder / name for name in names if (folder / name).is_file())


def is_wide(target: str) -> bool:
    """Whether a sub-group has 64 work-items: from gfx10 on clang chooses 32."""
    return len(target) < len("gfx1010")


def _architecture(target: str, folder: Path) -> str:
    """The constant for this target, or for the latest one before it, which its instructions include."""
    wanted = target.removeprefix("gfx")
    known = [match[1] for entry in folder.iterdir() if (match := _VERSION.fullmatch(entry.name))]
    before = [
        name for name in known if len(name) == len(wanted) and int(name, 16) <= int(wanted, 16)
    ]
    if not before:
        raise CompilerMissing(f"AMD's device libraries do not know {target}")
    return f"oclc_isa_version_{max(before, key=lambda name: int(name, 16))}.bc"


def read_code(
    listing: str, kernel: str, target: str, before: Mapping[str, int] | None
) -> MachineCode:
    """The machine code of a kernel in AMD's assembly. before : of the user's files, see `user_files`"""
    resources = read_resources(listing, kernel)
    blocks, notes = read_gcn(listing, kernel, before)
    return MachineCode(
        kernel=kernel,
        target=target,
        blocks=blocks,
        registers_per_item=resources.registers_per_item,
        scalar_registers=resources.scalar_registers,
        local_memory_bytes=resources.local_memory_bytes,
        private_bytes=resources.private_bytes,
        spill_store_bytes=resources.spill_bytes,
        spill_load_bytes=resources.spill_bytes,
        listing=listing,
        notes=notes,
    )


def _limit_notes(request: Request, registers: int) -> Iterator[str]:
    if request.registers_limit is not None and registers > request.registers_limit:
        yield (
            f"The limit of {request.registers_limit} registers holds for ordinary vector registers;"
            f" {registers} are used, accumulation registers included."
        )
