"""The machine code of a launch that is traced, where a compiler for the machine is installed."""

from __future__ import annotations

import functools

from memsim.errors import KernelError
from memsim.machine import Machine
from tracegen.compiled.compile import compile_cuda, compile_kernel
from tracegen.compiled.counting.conflicts import has_local_accesses, with_conflicts_of_text
from tracegen.compiled.counting.source_loops import Counted, Position, defined, source_loops
from tracegen.compiled.model import Location, MachineCode
from tracegen.compiled.ordering.rearrange import CompiledLaunch
from tracegen.compiled.programs import include_options
from tracegen.compiled.request import LocalMemoryError
from tracegen.cuda import CudaLaunch, PreparedCuda
from tracegen.execution.banks import Conflicts
from tracegen.local_memory.accesses import local_accesses
from tracegen.options import Compiler
from tracegen.recording.launch import BoundLaunch, Prepared


def compiled_launch(
    prepared: Prepared, launch: BoundLaunch, machine: Machine | None, compiler: Compiler
) -> CompiledLaunch | str:
    """The machine code of a launch, or why there is none ("" where none is needed).

    Raises LocalMemoryError where the kernel cannot run on the machine, and KernelError where it is to be
    compiled by a library of NVIDIA's and cannot be.
    """
    if compiler == "none" or machine is None or not machine.compiler_target:
        return ""
    try:
        code = _compiled(prepared, launch, machine.compiler_target, compiler)
    except LocalMemoryError:
        raise
    except KernelError as error:
        if compiler in ("nvrtc", "nvvm"):
            raise
        return str(error)
    text = prepared.source
    loops = source_loops(text, {**defined(prepared.build_options), **launch.settings})
    if not isinstance(launch, CudaLaunch) and has_local_accesses(code):
        accesses = local_accesses(
            text,
            launch.name,
            launch.grid,
            launch.group_shape,
            machine.subgroup_size,
            launch.settings,
        )
        code = with_conflicts_of_text(code, text, accesses)
    sites, conflicts, turns = launch.layout.sites, None, None
    if isinstance(launch, CudaLaunch):
        conflicts, turns = functools.partial(_conflicts, launch), functools.partial(_turns, launch)
    return CompiledLaunch(
        *(code, text, launch.program.probes, sites, loops, conflicts, prepared.user_place),
        group_items=launch.group_items,
        turns=turns,
    )


def _conflicts(launch: CudaLaunch, size_bytes: int) -> dict[Location, Conflicts]:
    return {
        Location(place.line, place.column): found
        for place, found in launch.bank_conflicts(size_bytes).items()
    }


def _turns(launch: CudaLaunch) -> dict[Position, Counted]:
    return {at: Counted(turns.mean, turns.nest) for at, turns in launch.turns.items()}


def _compiled(
    prepared: Prepared, launch: BoundLaunch, target: str, compiler: Compiler
) -> MachineCode:
    if isinstance(prepared, PreparedCuda):
        symbol, pointers = prepared.symbol, prepared.pointers
        return compile_cuda(prepared.program, symbol, pointers, target, by=compiler)
    return compile_kernel(
        prepared.source,
        launch.name,
        target,
        build_options=[*prepared.build_options, *include_options()],
        group_shape=launch.group_shape,
        by=compiler,
    )
