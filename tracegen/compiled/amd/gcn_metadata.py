"""What a kernel needs of a core, from the metadata that clang writes for AMD's loader.

Keys: LLVM, "User Guide for AMDGPU Backend", section "Code Object Metadata".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memsim.errors import KernelError

_BLOCK = re.compile(r"^\s*\.amdgpu_metadata\s*$(.*?)^\s*\.end_amdgpu_metadata", re.M | re.S)
_KERNEL = re.compile(r"^  - (.*?)(?=^  - |^\S|\Z)", re.M | re.S)
_ARGUMENT = re.compile(r"^      - (.*?)(?=^      - |^    \S|\Z)", re.M | re.S)
_REGISTER_BYTES = 4
USER_REGISTERS = {
    "private_segment_buffer": 4, "dispatch_ptr": 2, "queue_ptr": 2, "kernarg_segment_ptr": 2, "dispatch_id": 2,
    "flat_scratch_init": 2, "private_segment_size": 1,
}  # fmt: skip
"""What may be in the first scalar registers, in this order, and how many it takes."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel.

    name : "" if clang was run without `-cl-kernel-arg-info`
    offset, n_bytes : its place among the arguments, in bytes
    is_array : whether it points to global or constant memory
    kind : `by_value`, `global_buffer`, `dynamic_shared_pointer`, `hidden_...` of one that the text does not name
    """

    name: str
    offset: int
    n_bytes: int
    is_array: bool
    kind: str = ""


@dataclass(frozen=True)
class Resources:
    """What a kernel needs of a core.

    registers_per_item : vector registers, accumulation registers included where they share a file
        (gfx90a and later)
    scalar_registers : of a sub-group
    private_bytes, local_memory_bytes : of a work-item and of a group, without the local memory that
        arguments ask for
    spill_bytes : registers that a work-item keeps in private memory
    hidden : arguments that the driver adds;  argument_bytes : of all
    most_items : of a group
    calls_itself : whether the stack of a work-item is unknown, so that private_bytes is only a part of it
    """

    registers_per_item: int
    scalar_registers: int
    private_bytes: int
    local_memory_bytes: int
    spill_bytes: int
    parameters: tuple[Parameter, ...] = ()
    hidden: tuple[Parameter, ...] = ()
    argument_bytes: int = 0
    most_items: int | None = None
    calls_itself: bool = False


def read_resources(text: str, kernel: str) -> Resources:
    """The resources of a kernel; raises KernelError if the metadata does not list it."""
    block = _BLOCK.search(text)
    for entry in _KERNEL.findall(block[1] if block else ""):
        if _value(entry, "    ", "name") == kernel:
            return _resources(entry)
    raise KernelError(f"the assembly has no metadata of kernel {kernel!r}")


def _resources(entry: str) -> Resources:
    def number(key: str) -> int:
        return int(_value(entry, "    ", key) or 0)

    # Other lists of an entry, such as that of the language's version, have no kinds of values.
    arguments = [one for one in map(_parameter, _ARGUMENT.findall(entry)) if one.kind]
    return Resources(
        registers_per_item=number("vgpr_count"),
        scalar_registers=number("sgpr_count"),
        private_bytes=number("private_segment_fixed_size"),
        local_memory_bytes=number("group_segment_fixed_size"),
        spill_bytes=number("vgpr_spill_count") * _REGISTER_BYTES,
        parameters=tuple(one for one in arguments if not one.kind.startswith("hidden")),
        hidden=tuple(one for one in arguments if one.kind.startswith("hidden")),
        argument_bytes=number("kernarg_segment_size"),
        most_items=number("max_flat_workgroup_size") or None,
        calls_itself=_value(entry, "    ", "uses_dynamic_stack") == "true",
    )


def _parameter(argument: str) -> Parameter:
    space = _value(argument, "        ", "address_space")
    return Parameter(
        name=_value(argument, "        ", "name") or "",
        offset=int(_value(argument, "        ", "offset") or 0),
        n_bytes=int(_value(argument, "        ", "size") or 0),
        is_array=space in ("global", "constant"),
        kind=_value(argument, "        ", "value_kind") or "",
    )


def _value(entry: str, indent: str, key: str) -> str | None:
    """The value of a key of this level; the first key of an entry stands behind its dash."""
    match = re.search(rf"^(?:{indent})?\.{key}:[ \t]+(\S.*?)[ \t]*$", entry, re.M)
    return match[1].strip("'\"") if match else None
