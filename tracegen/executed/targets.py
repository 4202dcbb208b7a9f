"""Whose machine code is run for a machine, in sub-groups of how many lanes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from memsim.errors import KernelError
from memsim.machine import Machine
from tracegen.compiled.model import MachineCode
from tracegen.compiled.nvidia.nvidia_ptx import number
from tracegen.execution.code import Code
from tracegen.options import TraceOptions
from tracegen.tools.toolchain import amd_tools, nvidia_tools

OLDEST_READ = "sm_75"
"""The oldest target of NVIDIA's whose code nvdisasm reads. It stands in for machines whose own code cannot be read."""
_LATEST_AMD = "gfx942"
_WARP = 32
_FULL_WARP = re.compile(r"(?:@!?U?P\d+ )?(SHFL|LDSM|STSM|[HIDBQ]G?MMA)\b")
"""What works on all 32 lanes of a warp."""
_MASKS_OF_LANES = re.compile(
    r"(?:@!?U?P\d+ )?(VOTEU?\.\w+ U?R\d|MATCH|C?REDUX|S2U?R\b.*SR_(?:LT|LE|GT|GE|EQ)MASK)"
)
"""What has one bit a lane in a register of 32 bits."""


@dataclass(frozen=True)
class Target:
    """name : what the compilers call it;  lanes : of a sub-group;  note : why it is not the machine's own, "" if it is"""

    name: str
    lanes: int
    note: str = ""


def target_of(machine: Machine | None, options: TraceOptions) -> Target:
    """The machine's own target, or one whose code stands in for it."""
    lanes = options.lanes(machine)
    if machine is None:
        return Target(OLDEST_READ, lanes)
    own = machine.compiler_target
    if own.startswith("gfx"):
        if own in amd_tools().clang.targets:
            return Target(own, lanes)
        return Target(
            _LATEST_AMD,
            lanes,
            _stands_in(machine, _LATEST_AMD, lanes, f"clang does not know {own}"),
        )
    if own and (number(own) >= number(OLDEST_READ) or own in nvidia_tools().ptxas.targets):
        return Target(own, lanes)
    why = f"NVIDIA's compilers do not know {own}" if own else "there is no compiler for it"
    return Target(OLDEST_READ, lanes, _stands_in(machine, OLDEST_READ, lanes, why))


def _stands_in(machine: Machine, target: str, lanes: int, why: str) -> str:
    return (
        f"The instructions are those of {target}, in sub-groups of {lanes} lanes: the machine code of"
        f" {machine.name} cannot be had, as {why}."
    )


def lowered(code: MachineCode, lanes: int) -> Code:
    """The micro-operations of machine code for sub-groups of so many lanes. Raises KernelError for another number than
    that of the target where instructions depend on it."""
    if code.target.startswith("sm_"):
        from tracegen.machine_code.sass_lower import lower as lower_sass

        if lanes != _WARP:
            _check_free_of_warps(code, lanes)
        return lower_sass(code, lanes)
    from tracegen.machine_code.gcn_lowering import lower as lower_gcn

    made = lower_gcn(code)
    if made.lanes != lanes:
        raise KernelError(
            f"the code of {code.target} runs in sub-groups of {made.lanes} lanes, not of {lanes}"
        )
    return made


def _check_free_of_warps(code: MachineCode, lanes: int) -> None:
    for instruction in code.instructions:
        found = _FULL_WARP.match(instruction.text)
        if found is None and lanes > _WARP:
            found = _MASKS_OF_LANES.match(instruction.text)
        if found is not None:
            where = f"line {instruction.location.line}: " if instruction.location else ""
            raise KernelError(
                f"{where}{instruction.text!r} works on the {_WARP} lanes of a warp, but the sub-groups here have {lanes}"
            )
