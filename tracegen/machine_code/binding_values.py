"""Arguments of a launch as bytes, and what a machine has prepared before a kernel begins."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.trace import ArrayExtent
from tracegen.machine_code.binding_memory import Bytes, Memory, content

ALIGNMENT = 16
"""Of local memory that a launch adds."""


@dataclass(frozen=True)
class LocalBytes:
    """An argument that asks for local memory of a group, as pointers to `__local` do in OpenCL."""

    size_bytes: int


@dataclass(frozen=True)
class ConstantBytes:
    """An argument that points into a constant bank, as pointers to `__constant` may do in OpenCL."""

    array: npt.NDArray[Any]


Value = str | npt.NDArray[Any] | LocalBytes | ConstantBytes | None
"""An argument: the name of an array, a value with its bytes, local or constant memory, or a null pointer."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What the driver prepares of a launch.

    banks : constant banks by number;  hidden : memory that is not the kernel's, as AMD's arguments
    specials : by name, see tracegen.execution.code.Special
    pointers : see tracegen.execution.run.Launch
    local_bytes : of a group, from address 0 on;  private_bytes : of a work-item
    cluster : groups of a cluster along three axes;  local_start : see tracegen.execution.run.Launch
    """

    banks: Mapping[int, Bytes] = field(default_factory=dict)
    hidden: tuple[tuple[ArrayExtent, Bytes], ...] = ()
    specials: Mapping[str, int] = field(default_factory=dict)
    pointers: Mapping[tuple[int, int], int] = field(default_factory=dict)
    local_bytes: int
    private_bytes: int
    cluster: tuple[int, ...] = (1, 1, 1)
    local_start: tuple[tuple[int, int, int], ...] = ()


class Shape(NamedTuple):
    """grid, group : groups, and work-items of a group, along each axis
    cluster : groups of a cluster along each axis, as the launch asks for them; () as the kernel does
    """

    grid: Sequence[int]
    group: Sequence[int]
    cluster: Sequence[int] = ()


def local_places(
    values: Sequence[Value], static_bytes: int, dynamic_bytes: int, alignment_bytes: int = ALIGNMENT
) -> tuple[list[int], int]:
    """Where the local memory of each argument begins, and the local memory of a group in bytes.

    It lies behind that which the kernel declares: first what the launch adds, `extern __shared__`, then the arguments'.
    """
    starts, end = [], static_bytes
    if dynamic_bytes:
        end = -(-end // alignment_bytes) * alignment_bytes + dynamic_bytes
    for value in values:
        start = -(-end // alignment_bytes) * alignment_bytes
        starts.append(start)
        if isinstance(value, LocalBytes):
            end = start + value.size_bytes
    return starts, end


def pointers(value: Value, memory: Memory) -> dict[int, int]:
    """Offset in an argument's bytes -> address, of the pointers in it."""
    if not isinstance(value, str) and not (isinstance(value, np.ndarray) and value.dtype.hasobject):
        return {}
    offsets = [0] if isinstance(value, str) else _pointer_offsets(value.dtype)
    data = raw(value, memory, 0)
    return {offset: int(data[offset : offset + 8].view(np.uint64)[0]) for offset in offsets}


def _pointer_offsets(dtype: Any) -> list[int]:
    """Of a structure, or of an array in one."""
    base, shape = dtype.subdtype or (dtype, ())
    if base.kind == "O":
        inside = [0]
    else:
        fields = (base.fields or {}).values()
        inside = [at + k for kind, at, *_ in fields for k in _pointer_offsets(kind)]
    return [k * base.itemsize + one for k in range(math.prod(shape)) for one in inside]


def raw(value: Value, memory: Memory, place: int) -> Bytes:
    """The bytes of an argument. place : where its local or constant memory begins"""
    if isinstance(value, np.ndarray):
        return content(value, memory.address)
    if isinstance(value, LocalBytes | ConstantBytes):
        word = place
    else:
        word = 0 if value is None else memory.bases[value]
    return np.frombuffer(struct.pack("<Q", word), np.uint8)
