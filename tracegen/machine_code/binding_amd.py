"""A launch on AMD's GPUs: the arguments in memory, the dispatch packet, and the program's variables.

Source: LLVM, "User Guide for AMDGPU Backend", sections "Code Object V5 Metadata" and "Kernel Dispatch"; HSA Platform
System Architecture Specification 1.2, section 2.9.6 (kernel dispatch packet).
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence

import numpy as np

from memsim.errors import KernelError
from memsim.trace import ArrayExtent
from tracegen.compiled.amd.gcn_metadata import Parameter, read_resources
from tracegen.compiled.model import MachineCode
from tracegen.execution.code import ARGUMENTS
from tracegen.execution.operations import LOCAL_WINDOW, PRIVATE_WINDOW
from tracegen.machine_code.binding_memory import Bytes, Memory
from tracegen.machine_code.binding_values import (
    Machine,
    Shape,
    Value,
    local_places,
    pointers,
    raw,
)

DEFAULT_STACK = 1024
"""Bytes that a work-item has in addition where the compiler does not know its stack: hipLimitStackSize."""
ARGUMENTS_AT, PACKET_AT = 1 << 16, 1 << 15
"""Addresses below those of arrays."""
_REFERENCE = re.compile(r"([\w.$]+)@(?:rel32|gotpcrel32|abs32)@lo")
_OBJECT = re.compile(
    r"^\s*\.type\s+([\w.$]+),@object.*?^\1:\s*(.*?)^\s*\.size\s+\1, (\d+)", re.M | re.S
)
_COMMON = re.compile(r"^\s*\.l?comm\s+([\w.$]+),\s*(\d+)", re.M)
_DIRECTIVE = re.compile(r"^\s*\.(byte|short|long|quad|zero|ascii|asciz|p2align)\b\s*([^\n]*)", re.M)
_BYTES = {"byte": 1, "short": 2, "long": 4, "quad": 8}
_ADDRESS = re.compile(r"([A-Za-z_.$][\w.$]*)(?:\+(\d+))?$")
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.S)
_ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}


class AmdCode:
    """A kernel's assembly, ready for launches. There are no constant banks: `__constant__` is in memory."""

    def __init__(self, code: MachineCode) -> None:
        self.code = code
        self.resources = read_resources(code.listing, code.kernel)
        self.most_threads = self.resources.most_items
        self.constants: dict[str, int] = {}
        self.has_constant_arguments = False
        objects = {match[1]: (match[2], int(match[3])) for match in _OBJECT.finditer(code.listing)}
        objects |= {name: ("", int(size)) for name, size in _COMMON.findall(code.listing)}
        named = {name for one in code.instructions for name in _REFERENCE.findall(one.text)}
        self.variables: dict[str, bytes] = {}
        self.addresses: dict[str, list[tuple[int, str, int]]] = {}
        while reached := sorted(
            name for name in named & set(objects) if name not in self.variables
        ):
            for name in reached:
                data, addresses = _content(*objects[name])
                self.variables[name], self.addresses[name] = data, addresses
                named.update(target for _, target, _ in addresses)

    def machine(
        self,
        memory: Memory,
        names: Mapping[str, str],
        values: Sequence[Value],
        shape: Shape,
        dynamic_bytes: int,
        constants: Mapping[str, Bytes],
    ) -> Machine:
        """What the driver prepares; see binding_makers."""
        if math.prod(shape.cluster) > 1:
            raise KernelError(f"kernel {self.code.kernel}: AMD's GPUs have no clusters of groups")
        for symbol, addresses in self.addresses.items():
            view = memory.views[names[symbol]]
            for at, target, addend in addresses:
                if target in names:
                    view[at : at + 8].view(np.uint64)[0] = memory.bases[names[target]] + addend
            memory.raw[names[symbol]] = view.tobytes()
        resources = self.resources
        starts, local = local_places(values, resources.local_memory_bytes, dynamic_bytes)
        arguments = self._arguments(memory, values, starts, shape, dynamic_bytes)
        private = resources.private_bytes + (DEFAULT_STACK if resources.calls_itself else 0)
        packet = self._packet(shape, local, private)
        hidden = []
        for name, base, data in (
            ("packet", PACKET_AT, packet),
            ("arguments", ARGUMENTS_AT, arguments),
        ):
            hidden.append((ArrayExtent(name=name, base_bytes=base, size_bytes=len(data)), data))
        return Machine(
            hidden=tuple(hidden),
            specials={
                "arguments_low": ARGUMENTS_AT,
                "arguments_high": 0,
                "dispatch_low": PACKET_AT,
                "dispatch_high": 0,
            },
            pointers={
                (ARGUMENTS, one.offset + at): address
                for value, one in zip(values, resources.parameters, strict=True)
                for at, address in pointers(value, memory).items()
            },
            local_bytes=local,
            private_bytes=private,
        )

    def _arguments(
        self,
        memory: Memory,
        values: Sequence[Value],
        starts: Sequence[int],
        shape: Shape,
        dynamic_bytes: int,
    ) -> Bytes:
        parameters, hidden = self.resources.parameters, self.resources.hidden
        if len(values) != len(parameters):
            raise KernelError(
                f"kernel {self.code.kernel} has {len(parameters)} parameters in its machine code,"
                f" not {len(values)}"
            )
        end = max((one.offset + one.n_bytes for one in (*parameters, *hidden)), default=0)
        data = np.zeros(-(-max(end, self.resources.argument_bytes, 1) // 64) * 64, np.uint8)
        for value, start, one in zip(values, starts, parameters, strict=True):
            content = raw(value, memory, start)[: one.n_bytes]
            data[one.offset : one.offset + len(content)] = content
        for one in hidden:
            word = _hidden(one, shape, dynamic_bytes)
            packed = struct.pack("<Q", word)[: one.n_bytes]
            data[one.offset : one.offset + len(packed)] = np.frombuffer(packed, np.uint8)
        return data

    def _packet(self, shape: Shape, local_bytes: int, private_bytes: int) -> Bytes:
        """The dispatch packet; its header and its signal are of no use to a kernel."""
        groups, items = ((*extents, 1, 1)[:3] for extents in shape[:2])
        packed = struct.pack(
            "<HHHHHHIIIIIQQQQ",
            *(0, len(shape.grid), *items, 0),
            *(n * k for n, k in zip(groups, items, strict=True)),
            *(private_bytes, local_bytes, 0, ARGUMENTS_AT, 0, 0),
        )
        return np.frombuffer(packed, np.uint8).copy()


def _hidden(one: Parameter, shape: Shape, dynamic_bytes: int) -> int:
    """The value of a hidden argument. Groups are whole: remainders are 0, as are buffers of the host's services."""
    groups, items = ((*extents, 1, 1)[:3] for extents in shape[:2])
    what, axis = one.kind.removeprefix("hidden_")[:-2], "xyz".find(one.kind[-1])
    if what == "block_count":
        return groups[axis]
    if what == "group_size":
        return items[axis]
    return {
        "hidden_grid_dims": len(shape.grid),
        "hidden_private_base": PRIVATE_WINDOW >> 32,
        "hidden_shared_base": LOCAL_WINDOW >> 32,
        "hidden_dynamic_lds_size": dynamic_bytes,
    }.get(one.kind, 0)


def _content(text: str, size_bytes: int) -> tuple[bytes, list[tuple[int, str, int]]]:
    """The initial bytes of a variable, and the addresses in it: offset, variable, and what is added."""
    data, addresses = bytearray(), []
    for kind, operands in _DIRECTIVE.findall(text):
        operands = operands if kind.startswith("asci") else operands.partition(";")[0].strip()
        if kind == "zero":
            count, _, value = operands.partition(",")
            data += bytes([int(value or "0", 0) & 255]) * int(count, 0)
        elif kind.startswith("asci"):
            data += _characters(operands) + b"\0" * (kind == "asciz")
        elif kind == "p2align":
            step = 1 << int(operands.partition(",")[0], 0)
            data += bytes(-len(data) % step)
        else:
            for part in operands.split(","):
                if address := _ADDRESS.match(part.strip()):
                    addresses.append((len(data), address[1], int(address[2] or 0)))
                    data += bytes(_BYTES[kind])
                else:
                    word = int(part, 0) & (1 << 8 * _BYTES[kind]) - 1
                    data += word.to_bytes(_BYTES[kind], "little")
    return bytes(data[:size_bytes].ljust(size_bytes, b"\0")), addresses


def _characters(quoted: str) -> bytes:
    """The bytes of a text in quotation marks."""
    inner = quoted[quoted.index('"') + 1 : quoted.rindex('"')].encode("latin-1", "replace")

    def one(match: re.Match[bytes]) -> bytes:
        found = match[1]
        return bytes([int(found, 8)]) if found.isdigit() else _ESCAPED.get(found, found)

    return _ESCAPE.sub(one, inner)
