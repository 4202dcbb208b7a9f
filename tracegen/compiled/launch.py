"""The machine code of a launch that is traced, where a compiler for the machine is installed."""

from __future__ import annotations

from memsim.errors import KernelError
from memsim.machine import Machine
from tracegen.compiled.compile import compile_cuda, compile_kernel
from tracegen.compiled.counting.source_loops import source_loops
from tracegen.compiled.model import MachineCode
from tracegen.compiled.ordering.rearrange import CompiledLaunch
from tracegen.compiled.programs import include_options
from tracegen.cuda import PreparedCuda
from tracegen.options import Compiler
from tracegen.recording.launch import BoundLaunch, Prepared


def compiled_launch(
    prepared: Prepared, launch: BoundLaunch, machine: Machine | None, compiler: Compiler
) -> CompiledLaunch | str:
    """The machine code of a launch, or why there is none ("" where none is needed)."""
    if compiler == "none" or machine is None or not machine.compiler_target:
        return ""
    try:
        code = _compiled(prepared, launch, machine.compiler_target)
    except KernelError as error:
        return str(error)
    text = prepared.source
    loops = source_loops(text, launch.settings)
    return CompiledLaunch(code, text, launch.program.probes, launch.layout.sites, loops)


def _compiled(prepared: Prepared, launch: BoundLaunch, target: str) -> MachineCode:
    if isinstance(prepared, PreparedCuda):
        return compile_cuda(prepared.program, prepared.symbol, prepared.pointers, target)
    return compile_kernel(
        prepared.source,
        launch.name,
        target,
        build_options=[*prepared.build_options, *include_options()],
        group_shape=launch.group_shape,
    )
