"""Compiles OpenCL C for NVIDIA's targets: clang writes PTX, ptxas compiles it, nvdisasm shows the code.

nvdisasm marks spilled registers from version 13.5 on only. ptxas gives the access to a spill slot the line of the
instruction that needs the register, and an access to an array the line of that access.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from memsim.errors import KernelError
from memsim.files import temporary_folder
from tracegen.compiled.model import BasicBlock, Instruction, MachineCode
from tracegen.compiled.nvidia.nvidia_ptx import builtins_text, number, write_ptx
from tracegen.compiled.nvidia.ptx import Origin, number_instructions
from tracegen.compiled.nvidia.sass import read_sass, without_encodings
from tracegen.compiled.request import Request, check
from tracegen.tools import cache
from tracegen.tools.headers import included
from tracegen.tools.process import run
from tracegen.tools.toolchain import (
    CompilerMissing,
    NvidiaTools,
    Tool,
    nvidia_tools,
    nvrtc_tool,
    nvvm_tools,
)

_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"^.*Used (\d+) registers(.*)$", re.MULTILINE)
_STACK = re.compile(r"(\d+) bytes cumulative stack size")
_OF_ONE = re.compile(r"^\.target (sm_\d+a)", re.MULTILINE)
"""What PTX says that is for one architecture alone."""
_LOCAL = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True)
class Usage:
    """What a kernel, with the functions that it calls, needs of a core.

    private_bytes : stack of a work-item
    """

    registers_per_item: int
    local_memory_bytes: int
    private_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int


def read_usage(log: str) -> Usage:
    """The usage of the one kernel that ptxas compiled. Raises KernelError if the log has none."""
    used = _USED.search(log)
    if used is None:
        raise KernelError("ptxas does not tell the kernel's registers")
    spills = [tuple(map(int, match.groups())) for match in _SPILLS.finditer(log)]
    frames = [frame for frame, _, _ in spills]
    stack, local = _STACK.search(used[2]), _LOCAL.search(used[2])
    return Usage(
        registers_per_item=int(used[1]),
        local_memory_bytes=int(local[1]) if local else 0,
        private_bytes=int(stack[1]) if stack else max(frames, default=0),
        spill_store_bytes=sum(stores for _, stores, _ in spills),
        spill_load_bytes=sum(loads for _, _, loads in spills),
    )


_TABLE_JUMP = re.compile(r"\b(?:BRX|JMX)")
_SHAPES = re.compile(r"^[ \t]*\.(?:reqntid|maxntid|minnctapersm)\b[^\n]*\n", re.MULTILINE)


def machine_code(request: Request) -> MachineCode:
    """The kernel in SASS. Raises KernelError where a compiler is missing or refuses the kernel."""
    tools = nvidia_tools()

    def made() -> tuple[MachineCode, dict[str, Any]]:
        texts = _compiled(request, tools)
        return _read(request, tools, texts), texts["headers"]

    code = cache.kept(cache.key(*_dependencies(request, tools)), MachineCode, made)
    return dataclasses.replace(code, notes=(*request.notes, *code.notes))


def _dependencies(request: Request, tools: NvidiaTools) -> Iterator[str]:
    """Everything that decides what the compilers write."""
    yield from request.dependencies
    yield from (tool.identity for tool in _used(request, tools))
    yield builtins_text()


def _used(request: Request, tools: NvidiaTools) -> Iterator[Tool]:
    """The programs that compile a request, and show the code."""
    if request.by == "nvrtc":
        yield nvrtc_tool()
    elif request.by == "nvvm":
        nvvm = nvvm_tools()
        yield from (nvvm.clang, nvvm.library)
    elif request.by == "clang":
        yield tools.clang
    yield from (tools.ptxas, tools.nvdisasm)


def _compiled(request: Request, tools: NvidiaTools) -> dict[str, Any]:
    """What the programs write: `ptx`, `log`, and the listing, `encoded`, with its own target, log and `binary`."""
    _check_target(request.target, tools.ptxas)
    with temporary_folder() as folder:
        ptx = write_ptx(request, tools, folder)
        log, shown = _assemble(request, tools, ptx, folder), request
        listing_log = log
        if request.target not in tools.nvdisasm.targets:
            usage, target = read_usage(log), _readable(request.target, tools)
            registers = usage.registers_per_item
            for most in dict.fromkeys((registers, _allocated(registers))):
                shown = dataclasses.replace(request, target=target, registers_limit=most)
                listing_log = _assemble(shown, tools, ptx, folder)
                if read_usage(listing_log).spill_store_bytes <= usage.spill_store_bytes:
                    break
        listing = _disassembled(tools.nvdisasm, folder)
        binary = (folder / "kernel.cubin").read_bytes()
        headers = included(folder, request.file, request.searched)
    return {
        "ptx": ptx,
        "log": log,
        "headers": headers,
        "encoded": listing,
        "binary": binary,
        "listing_target": shown.target,
        "listing_log": listing_log,
    }


def _allocated(registers: int) -> int:
    """What a work-item that uses so many registers is given: a warp gets them by 256."""
    return -(-registers // 8) * 8


def disassembled(cubin: bytes, nvdisasm: Tool) -> str:
    """The listing of a cubin, with encodings. Raises KernelError where nvdisasm cannot read it."""
    with temporary_folder() as folder:
        (folder / "kernel.cubin").write_bytes(cubin)
        return _disassembled(nvdisasm, folder)


def _disassembled(nvdisasm: Tool, folder: Path) -> str:
    """The listing of `kernel.cubin`, with encodings. Only jumps through tables need the analysis of the flow of data."""
    command = [str(nvdisasm.path), "-c", "-g", "-hex", "kernel.cubin"]
    finished = run([*command, "-ndf"], folder)
    if not finished.status and _TABLE_JUMP.search(finished.output):
        finished = run(command, folder)
    if finished.status:
        reason = " ".join(finished.errors.split()) or f"it ended with status {finished.status}"
        raise KernelError(f"{nvdisasm} cannot read the cubin: {reason}")
    return finished.output


def _check_target(target: str, ptxas: Tool) -> None:
    if target not in ptxas.targets:
        known = sorted(map(number, ptxas.targets))
        raise CompilerMissing(
            f"{ptxas} compiles for sm_{known[0]} to sm_{known[-1]}, not for {target}"
        )


def _readable(target: str, tools: NvidiaTools) -> str:
    """The oldest later target whose code nvdisasm reads."""
    common = set(tools.nvdisasm.targets) & set(tools.ptxas.targets)
    later = [name for name in common if name[-1].isdigit() and number(name) >= number(target)]
    if not later:
        raise CompilerMissing(f"{tools.nvdisasm} does not know {target}")
    return min(later, key=number)


def _assemble(request: Request, tools: NvidiaTools, ptx: str, folder: Path) -> str:
    """Writes `kernel.cubin`, in which line N is the N-th PTX instruction; returns the log."""
    text, _ = number_instructions(ptx, request.lines_before)
    if request.registers_limit is not None:
        # ptxas ignores a limit on registers where the text names the shape of the groups.
        text = _SHAPES.sub("", text)
    (folder / "kernel.ptx").write_text(text, encoding="utf-8")
    limit = request.registers_limit or request.default_registers_limit
    own = _OF_ONE.search(ptx) if request.target[-1].isdigit() else None
    command = [
        *(str(tools.ptxas.path), f"-arch={own[1] if own else request.target}", "-v", "-lineinfo"),
        *("-e", request.kernel, "kernel.ptx", "-o", "kernel.cubin"),
        *([f"-maxrregcount={limit}"] if limit is not None else []),
    ]
    return check(run(command, folder), tools.ptxas, request).errors


def _read(request: Request, tools: NvidiaTools, texts: dict[str, Any]) -> MachineCode:
    usage = read_usage(texts["log"])
    _, origins = number_instructions(texts["ptx"], request.lines_before)
    blocks, notes = read_sass(texts["encoded"], request.kernel, number(request.target))
    blocks = mark_spills(blocks, origins)
    return MachineCode(
        kernel=request.kernel,
        target=request.target,
        blocks=tuple(one.with_each(partial(_with_location, origins=origins)) for one in blocks),
        registers_per_item=usage.registers_per_item,
        local_memory_bytes=usage.local_memory_bytes,
        private_bytes=usage.private_bytes,
        spill_store_bytes=usage.spill_store_bytes,
        spill_load_bytes=usage.spill_load_bytes,
        listing=without_encodings(texts["encoded"]),
        intermediate=texts["ptx"],
        binary=texts["binary"],
        tools={tool.name: tool.version for tool in _used(request, tools)},
        stand_ins=tuple(_stand_ins(request, tools, texts)),
        notes=(*_spill_notes(request, texts), *notes),
    )


def _stand_ins(request: Request, tools: NvidiaTools, texts: Mapping[str, Any]) -> Iterator[str]:
    """What is used where a program does not know the target."""
    shown = texts["listing_target"]
    if request.by == "clang" and request.target not in tools.clang.targets:
        yield f"{tools.clang} does not know {request.target}: its PTX is for an older target."
    if shown != request.target:
        used, own = (read_usage(texts[log]).registers_per_item for log in ("listing_log", "log"))
        many = (
            "as many registers,"
            if used <= own
            else f"{used} registers, which is what is allocated,"
        )
        yield (
            f"The registers are those of {request.target}; the instructions are those of {shown}"
            f" with {many} because nvdisasm does not read {request.target}."
        )


def _spill_notes(request: Request, texts: Mapping[str, Any]) -> Iterator[str]:
    shown = texts["listing_target"]
    if shown != request.target:
        spilled = read_usage(texts["listing_log"]).spill_store_bytes
        if spilled != read_usage(texts["log"]).spill_store_bytes:
            yield f"On {shown}, {spilled} bytes of registers are spilled."


_PRIVATE_ACCESS = re.compile(
    r"(?:@!?%?\w+ )?(?:ld|st|atom|red)\."
    r"(?:(?:volatile|relaxed|acquire|release|acq_rel|cta|cluster|gpu|sys)\.)*+"
    r"(?!global|shared|const)"
)
"""PTX that accesses private memory itself: `.local`, the parameters of a call, or a generic address."""


def mark_spills(blocks: Sequence[BasicBlock], origins: Sequence[Origin]) -> tuple[BasicBlock, ...]:
    """The blocks, with `MemoryOperation.spill` set for accesses to private memory that PTX has not.

    origins : of the PTX instructions, from `number_instructions`
    """
    return tuple(block.with_each(partial(_marked, origins=origins)) for block in blocks)


def _marked(instruction: Instruction, origins: Sequence[Origin]) -> Instruction:
    memory, number = instruction.memory, instruction.origin
    if memory is None or memory.space != "private" or memory.spill or number is None:
        return instruction
    if _PRIVATE_ACCESS.match(origins[number - 1].text):
        return instruction
    return structs.replace(instruction, memory=structs.replace(memory, spill=True))


def _with_location(instruction: Instruction, origins: Sequence[Origin]) -> Instruction:
    """An instruction with the position of the PTX instruction that it implements."""
    number = instruction.origin
    if number is None or not 1 <= number <= len(origins):
        return instruction
    return structs.replace(instruction, location=origins[number - 1].location)
