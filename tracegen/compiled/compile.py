"""Compiles one kernel for a target: the entry of this room."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from memsim.errors import KernelError
from tracegen.compiled.amd import back_end as amd
from tracegen.compiled.build_options import read_options
from tracegen.compiled.cuda_request import CudaRequest
from tracegen.compiled.cuda_signature import Described
from tracegen.compiled.model import MachineCode
from tracegen.compiled.nvidia import back_end as nvidia
from tracegen.compiled.nvidia.nvidia_ptx import number
from tracegen.compiled.request import CompileError, FrontEnd, LocalMemoryError, Request
from tracegen.options import Compiler
from tracegen.tools.toolchain import find_library, find_typed_clang

_FAMILIES: dict[str, Callable[[Request], MachineCode]] = {
    "sm_": nvidia.machine_code,
    "gfx": amd.machine_code,
}

NEWEST_OF_NVVM = 90
"""For later targets libNVVM takes another dialect of LLVM IR."""
_EXACT = ("-cl-fp32-correctly-rounded-divide-sqrt",)
_RELAXED = ("-cl-fast-relaxed-math",)
"""What CUDA C++ and HIP promise of divisions and roots, as options of OpenCL."""


def compile_kernel(
    text: str,
    kernel: str,
    target: str,
    *,
    build_options: str | Sequence[str] = (),
    group_shape: Sequence[int] | None = None,
    registers_limit: int | None = None,
    by: Compiler = "auto",
) -> MachineCode:
    """The machine code of a kernel of a program in OpenCL C.

    target : `sm_80`, `gfx90a`
    build_options : as for clBuildProgram
    group_shape : work-items along the axes of a group; by default the code allows those that the text does
    registers_limit : most vector registers of a work-item
    by : see TraceOptions.compiler, without `none`

    Raises CompilerMissing if a compiler is missing, CompileError if one refuses the text, each in one
    line; both are KernelErrors.
    """
    options = read_options(build_options)
    limit = options.registers_limit if registers_limit is None else registers_limit
    request = Request(
        text=text,
        kernel=kernel,
        target=target,
        options=options,
        group_shape=_three(group_shape),
        registers_limit=limit,
    )
    if by == "nvrtc":
        raise KernelError("NVRTC compiles CUDA C++ for NVIDIA's GPUs, not this kernel's language")
    has_library = target.startswith("sm_") and number(target) <= NEWEST_OF_NVVM
    if by == "nvvm" and not has_library:
        raise KernelError(f"libNVVM compiles for sm_50 to sm_{NEWEST_OF_NVVM}, not for {target}")

    def compiled(front_end: FrontEnd) -> MachineCode:
        return _compiled(dataclasses.replace(request, by=front_end))

    if by != "auto":
        return compiled("nvvm" if by == "nvvm" else "clang")
    if not (has_library and find_typed_clang() and find_library("libnvvm")):
        return compiled("clang")
    try:
        return compiled("nvvm")
    except LocalMemoryError:
        raise
    except CompileError as error:
        code = compiled("clang")
        note = f"clang compiled it, for libNVVM refuses it: {error}"
        return dataclasses.replace(code, stand_ins=(note, *code.stand_ins))


def compile_cuda(found: Described, target: str, registers_limit: int | None = None) -> MachineCode:
    """The machine code of a kernel in CUDA C++ or HIP. Raises KernelError as `compile_kernel` does."""
    program = found.program
    request = CudaRequest(
        text=program.text,
        kernel=found.symbol,
        target=target,
        options=read_options(_RELAXED if program.options.is_fast else _EXACT),
        group_shape=None,
        registers_limit=registers_limit,
        program=program,
        ptx=found.ptx,
        by="nvrtc" if found.ptx else "clang",
    )
    code = _compiled(request)
    why = [f"Header {name} is not there: it is left out." for name in program.absent]
    if any(parameter.kind in "tT" for parameter in found.parameters):
        why.append("Accessors of PyTorch's tensors are compiled from a text of this project's own.")
    if found.refused:
        why.append(f"clang compiled it, for NVRTC refuses it: {found.refused}")
    places = [
        f"Header {name} is in {place}, which no build_options='-I FOLDER' names."
        for place, name in program.around.items()
    ]
    return dataclasses.replace(
        code,
        kernel=program.kernel,
        stand_ins=(*why, *code.stand_ins),
        notes=(*code.notes, *places),
    )


def _compiled(request: Request) -> MachineCode:
    target = request.target
    family = next((f for prefix, f in _FAMILIES.items() if target.startswith(prefix)), None)
    if family is None:
        raise KernelError(f"kernels are compiled for sm_ and gfx targets, got {target!r}")
    return _with_spills_noted(family(request))


def _with_spills_noted(code: MachineCode) -> MachineCode:
    """Spills are traffic that the source does not show."""
    if not (code.spill_store_bytes or code.spill_load_bytes):
        return code
    note = (
        f"Registers are spilled to private memory: the code stores {code.spill_store_bytes} bytes and"
        f" loads {code.spill_load_bytes}."
    )
    return dataclasses.replace(code, notes=(*code.notes, note))


def _three(shape: Sequence[int] | None) -> tuple[int, int, int] | None:
    if shape is None:
        return None
    x, y, z = (*map(int, shape), 1, 1)[:3]
    return x, y, z
