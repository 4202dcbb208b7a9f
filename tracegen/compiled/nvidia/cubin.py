"""What a cubin says of its kernel besides the instructions: parameters, variables, constant banks.

A cubin is an ELF file. The attributes of a kernel in its sections `.nv.info` are those that `cuobjdump -elf` prints.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from memsim.errors import KernelError

PARAMETERS, PARAMETER, MOST_THREADS, STACK, REGISTERS, CLUSTER = 0x0A, 0x17, 0x05, 0x12, 0x2F, 0x3D
"""EIATTR_PARAM_CBANK, EIATTR_KPARAM_INFO, EIATTR_MAX_THREADS, EIATTR_MIN_STACK_SIZE, EIATTR_REGCOUNT, EIATTR_CTA_PER_CLUSTER."""
LARGE_PARAMETER = 0x45
"""EIATTR_KPARAM_INFO_V2, in a kernel that has one of more than 4 KiB: its size has a word of its own."""
DYNAMIC_ALIGNMENT = 16
GLOBAL, INITIAL = ".nv.global", ".nv.global.init"
_OBJECT, _NO_CONTENT, _WITH_ADDEND = 1, 8, 4
_ADDRESS_BYTES = {1: 4, 2: 8, 3: 4, 4: 8}
"""Of R_CUDA_32, R_CUDA_64, and of the same for generic addresses."""
_CONSTANT = re.compile(r"c\[0x4\]\[(?P<index>[^\]]+)\]")


class Section(NamedTuple):
    """content : empty where the file has none;  size_bytes, alignment_bytes : in memory"""

    content: bytes
    size_bytes: int
    alignment_bytes: int


class Variable(NamedTuple):
    """A variable or function: its place in a section."""

    name: str
    section: str
    offset: int
    size_bytes: int
    is_object: bool


class Relocation(NamedTuple):
    """An address that the loader writes: of a variable plus `addend`, into `size_bytes` at `offset` of a section."""

    section: str
    offset: int
    size_bytes: int
    variable: Variable
    addend: int


@dataclass(frozen=True, kw_only=True)
class Cubin:
    """A kernel's cubin.

    parameters : offset and size in bytes of each parameter in order, from parameter_base of constant bank 0 on
    sections, variables : by name
    most_threads : of a block by `__launch_bounds__`, None without it
    stack_bytes : of a thread with the functions that it calls, recursive ones left out;  registers : of a thread
    cluster : blocks of a cluster by `__cluster_dims__`
    """

    kernel: str
    sections: Mapping[str, Section]
    variables: Mapping[str, Variable]
    relocations: tuple[Relocation, ...]
    parameter_base: int
    parameters: tuple[tuple[int, int], ...]
    most_threads: int | None
    stack_bytes: int
    registers: int
    cluster: tuple[int, int, int] = (1, 1, 1)

    @property
    def static_local_bytes(self) -> int:
        """Shared memory of a block; from sm_90 on with the 1024 bytes that the system reserves at its begin."""
        section = self.sections.get(f".nv.shared.{self.kernel}")
        return section.size_bytes if section else 0

    @property
    def local_alignment(self) -> int:
        """Of the shared memory that a launch adds, `extern __shared__`, which lies behind the kernel's own."""
        section = self.sections.get(f".nv.shared.{self.kernel}")
        return max(section.alignment_bytes if section else 1, DYNAMIC_ALIGNMENT)

    def bank(self, number: int) -> bytes:
        """The initial content of a constant bank: the kernel's own, or else that of the program."""
        own = self.sections.get(f".nv.constant{number}.{self.kernel}")
        section = own or self.sections.get(f".nv.constant{number}")
        return section.content if section else b""

    def used_variables(self, listing: str) -> list[Variable]:
        """The variables in global memory that the code reaches, in the order of the file.

        Their addresses are in constant bank 4; what pointers in the initial values of other variables and of
        `__constant__` ones point to is reached, too.
        """
        found = {relocation.variable.name for relocation in self._reached_by_code(listing)}
        reads_constants = "c[0x3]" in listing
        inner = [
            one
            for one in self.relocations
            if not _is_bank(one.section, 4) and (reads_constants or not _is_bank(one.section, 3))
        ]
        n_known = -1
        while n_known < len(found):
            n_known = len(found)
            for relocation in inner:
                owner = self.owner(relocation.section, relocation.offset)
                if owner is None or owner.section not in (GLOBAL, INITIAL) or owner.name in found:
                    found.add(relocation.variable.name)
        return [
            variable
            for variable in self.variables.values()
            if variable.name in found and variable.section in (GLOBAL, INITIAL)
        ]

    def _reached_by_code(self, listing: str) -> Iterator[Relocation]:
        named = {match["index"] for match in _CONSTANT.finditer(listing)}
        plain = {"0x0" if index in ("RZ", "URZ") else index for index in named}
        is_known = all(index.startswith("0x") for index in plain)
        offsets = {int(index, 16) for index in plain if index.startswith("0x")}
        for relocation in self.relocations:
            if _is_bank(relocation.section, 4):
                words = {relocation.offset, relocation.offset + 4}
                if not is_known or words & offsets:
                    yield relocation

    def owner(self, section: str, offset: int) -> Variable | None:
        """The variable that contains a byte of a section."""
        for variable in self.variables.values():
            if variable.section == section and 0 <= offset - variable.offset < variable.size_bytes:
                return variable
        return None


def read_cubin(data: bytes, kernel: str) -> Cubin:
    """The cubin of a kernel. Raises KernelError where it relocates what is unknown here."""
    sections, order, heads = _sections(data)
    symbols = list(_symbols(sections, order))
    attributes = list(_attributes(sections[f".nv.info.{kernel}"].content))
    base, parameters, most, cluster = 0, {}, None, (1, 1, 1)
    for kind, body in attributes:
        if kind == PARAMETERS:
            base = struct.unpack_from("<IHH", body)[1]
        elif kind == PARAMETER:
            _, ordinal, offset, packed = struct.unpack_from("<IHHI", body)
            parameters[ordinal] = (offset, packed >> 18)
        elif kind == LARGE_PARAMETER:
            _, ordinal, offset, size = struct.unpack_from("<IHHI", body)
            parameters[ordinal] = (offset, size)
        elif kind == MOST_THREADS:
            x, y, z = struct.unpack_from("<III", body)
            most = x * y * z
        elif kind == CLUSTER:
            cluster = struct.unpack_from("<III", body)
    own = {STACK: 0, REGISTERS: 0}
    for kind, body in _attributes(sections[".nv.info"].content):
        if kind in own and symbols[struct.unpack_from("<I", body)[0]].name == kernel:
            own[kind] = struct.unpack_from("<I", body, 4)[0]
    return Cubin(
        kernel=kernel,
        sections=sections,
        variables={one.name: one for one in symbols if one.is_object},
        relocations=tuple(_relocations(sections, order, heads, symbols)),
        parameter_base=base,
        parameters=tuple(parameters[k] for k in sorted(parameters)),
        most_threads=most,
        stack_bytes=own[STACK],
        registers=own[REGISTERS],
        cluster=cluster,
    )


def _is_bank(section: str, number: int) -> bool:
    return section.startswith(f".nv.constant{number}")


def _sections(data: bytes) -> tuple[dict[str, Section], list[str], list[tuple[int, ...]]]:
    """The sections by name, their names in order, and their headers."""
    (start,), (count, names) = (
        struct.unpack_from("<Q", data, 40),
        struct.unpack_from("<HH", data, 60),
    )
    heads = [struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * k) for k in range(count)]
    sections, order, total = {}, [], 0
    for head in heads:
        name, kind, offset, size = _text(data, heads[names][4] + head[0]), head[1], head[4], head[5]
        order.append(name)
        content = b"" if kind == _NO_CONTENT else data[offset : offset + size]
        total += len(content)
        if total > 2 * len(data):
            raise KernelError("the cubin's sections overlap")
        sections[name] = Section(content, size, max(head[8], 1))
    return sections, order, heads


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()


def _symbols(sections: Mapping[str, Section], order: list[str]) -> Iterator[Variable]:
    for name, info, _, section, value, size in struct.iter_unpack(
        "<IBBHQQ", sections[".symtab"].content
    ):
        where = order[section] if section < len(order) else ""
        text = _text(sections[".strtab"].content, name)
        yield Variable(text, where, value, size, info & 15 == _OBJECT and bool(section))


def _attributes(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and content of each attribute; those with a value of two bytes or less have no content here."""
    at = 0
    while at + 4 <= len(content):
        form, kind, size = struct.unpack_from("<BBH", content, at)
        at += 4
        if form == 4:
            yield kind, content[at : at + size]
            at += size


def _relocations(
    sections: Mapping[str, Section],
    order: list[str],
    heads: list[tuple[int, ...]],
    symbols: list[Variable],
) -> Iterator[Relocation]:
    """Those of constant banks and variables. The code is read as text, in which labels stand for addresses."""
    for name, head in zip(order, heads, strict=True):
        target = name.partition(".rel")[2].removeprefix("a")
        if not name.startswith(".rel") or not target.startswith((".nv.constant", ".nv.global")):
            continue
        with_addend = head[1] == _WITH_ADDEND
        for row in struct.iter_unpack("<QQq" if with_addend else "<QQ", sections[name].content):
            size = _ADDRESS_BYTES.get(row[1] & 0xFFFFFFFF)
            if size is None:
                raise KernelError(
                    f"the cubin has a relocation of kind {row[1] & 0xFFFFFFFF} in {target}"
                )
            kept = sections[target].content[row[0] : row[0] + size]
            addend = row[2] if with_addend else int.from_bytes(kept, "little")
            yield Relocation(target, row[0], size, symbols[row[1] >> 32], addend)
