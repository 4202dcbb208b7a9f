"""What AMD's hardware puts into registers before a kernel begins, from the directives of its descriptor.

Source: LLVM, "User Guide for AMDGPU Backend", sections "Initial Kernel Execution State" and "Kernel Descriptor".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from memsim.errors import KernelError
from tracegen.compiled.amd.gcn_metadata import USER_REGISTERS
from tracegen.compiled.model import MachineCode
from tracegen.execution import operations as o
from tracegen.execution.code import Special
from tracegen.machine_code.gcn_wave import Wave

_POINTERS = {"dispatch_ptr": "dispatch", "kernarg_segment_ptr": "arguments"}
_PACKED_ITEMS = re.compile(r"gfx(90a|94\d|950|1[1-9]\d\d)$")
"""Targets on which one register holds a work-item's place along all three axes."""


def directives(code: MachineCode) -> Mapping[str, int]:
    """`.amdhsa_*` of a kernel; raises KernelError if the assembly has no descriptor of it."""
    match = re.search(
        rf"^\s*\.amdhsa_kernel {re.escape(code.kernel)}\s*$(.*?)\.end_amdhsa_kernel",
        code.listing,
        re.M | re.S,
    )
    if match is None:
        raise KernelError(f"the assembly has no descriptor of kernel {code.kernel}")
    return {name: int(value) for name, value in re.findall(r"\.amdhsa_(\w+) (\d+)", match[1])}


def set_registers(wave: Wave, given: Mapping[str, int]) -> None:
    """Fills the registers at the beginning of the kernel. given : directives"""
    if given.get("float_denorm_mode_32", 3) == 0:
        wave.flush = o.FLUSH
    scalar, at = wave.files["s"], 0
    arguments = -1
    for name, count in USER_REGISTERS.items():
        if given.get(f"user_sgpr_{name}"):
            if name in _POINTERS:
                for word, half in enumerate(("low", "high")):
                    _fill(wave, scalar + at + word, f"{_POINTERS[name]}_{half}")  # type: ignore[arg-type]
                arguments = scalar + at if name == "kernarg_segment_ptr" else arguments
            at += count
    _preload(wave, given, arguments, scalar + at)
    at = given.get("user_sgpr_count", at)
    if wave.generation >= 12:
        _fill(wave, wave.files["ttmp"] + 9, "group_x")
        _pack(wave, wave.files["ttmp"] + 7, ("group_y", "group_z"), 16)
    else:
        for axis in "xyz":
            if given.get(f"system_sgpr_workgroup_id_{axis}"):
                _fill(wave, scalar + at, f"group_{axis}")  # type: ignore[arg-type]
                at += 1
    _fill_items(wave, given.get("system_vgpr_workitem_id", 0))


def _fill(wave: Wave, row: int, special: Special) -> None:
    wave.emit("MOVE", guard=o.ALWAYS, d=row, a=wave.out.special(special))


def _pack(wave: Wave, row: int, specials: tuple[Special, Special], bits: int) -> None:
    low, high = (wave.out.special(special) for special in specials)
    wave.emit("SHIFT_LEFT", guard=o.ALWAYS, d=row, a=high, b=wave.constant(bits))
    wave.emit("LOGIC3", guard=o.ALWAYS, d=row, a=row, b=low, y=0xFC)


def _preload(wave: Wave, given: Mapping[str, int], arguments: int, row: int) -> None:
    """The first arguments, which hardware may bring into registers (gfx940 and later)."""
    words = given.get("user_sgpr_kernarg_preload_length", 0)
    first = 4 * given.get("user_sgpr_kernarg_preload_offset", 0)
    x = o.GLOBAL | 4 << o.BYTES | o.ONE_LANE
    for word in range(words):
        wave.emit("LOAD", guard=o.ALWAYS, d=row + word, a=arguments, x=x, y=first + 4 * word)


def _fill_items(wave: Wave, axes: int) -> None:
    """The work-item's place in its group. axes : 0 along x alone, 1 along x and y, 2 along all"""
    vector = wave.files["v"]
    if axes and _PACKED_ITEMS.match(wave.target):
        _fill(wave, vector, "packed_items")
        return
    for axis, name in enumerate("xyz"[: axes + 1]):
        _fill(wave, vector + axis, f"item_{name}")  # type: ignore[arg-type]
