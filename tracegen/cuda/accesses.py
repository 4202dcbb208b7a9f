"""The accesses, barriers and loops of a kernel, in the order of its blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from memsim.errors import KernelError
from tracegen.cuda.flow_graph import FlowGraph, Loop
from tracegen.cuda.ir import Function, Instruction, Module, Place
from tracegen.cuda.pointers import UNKNOWN, Pointers, Roots, is_private

MARKED = "memsim_"
"""Functions of our own headers begin so."""
VECTOR_BYTES = 16
"""The widest access of one thread."""
_REFUSED = {
    "memsim_refused_texture": "a texture",
    "memsim_refused_surface": "a surface",
    "memsim_refused_matrix": "a matrix instruction (wmma)",
    "memsim_refused_bulk": "a bulk copy (TMA)",
    "memsim_refused_arrival": "a barrier at which threads arrive without waiting",
    "memsim_refused_roles": "a pipeline whose threads have roles, or are not a block,",
    "memsim_refused_grid": "grid-wide synchronisation",
    "memsim_refused_cluster": "a cluster of thread blocks",
    **dict.fromkeys(("malloc", "calloc", "realloc"), "memory that a kernel allocates (malloc)"),
    **dict.fromkeys(("_Znwm", "_Znam"), "memory that a kernel allocates (new)"),
    **dict.fromkeys(
        ("free", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm"), "memory that a kernel frees"
    ),
}
_COMPILER = "/lib/clang/"
"""clang's own headers lie in such a folder."""
_TRANSFER = re.compile(r"^llvm\.(memcpy|memmove|memset)\b")
_ALIGNMENT = re.compile(r"\balign (\d+)")
_BARRIERS = ("memsim_barrier", "memsim_barrier_votes")
WAITING = (*_BARRIERS, "memsim_warp")
"""Functions in which a thread waits for others."""


@dataclass(frozen=True)
class Access:
    """One access of the program.

    instructions : what performs it; of neighbours that one vector access performs, all
    pointer : the value that is its address;  offset_bytes : from there
    alignment_bytes : what the program assumes of its address
    value : what a store writes, "" otherwise
    chain : its positions in the source, see `Module.chain`
    """

    kind: Literal["load", "store", "atomic"]
    block: str
    instructions: tuple[Instruction, ...]
    pointer: str
    offset_bytes: int
    size_bytes: int
    alignment_bytes: int
    value: str
    type_name: str
    roots: Roots
    chain: tuple[Place, ...]

    @property
    def is_certain(self) -> bool:
        """Whether it always reaches one array in global memory, where it is known to reach any."""
        return len(self.roots) == 1 and UNKNOWN not in self.roots


@dataclass
class Found:
    """What a kernel does, in order.

    events : accesses, barriers (as instructions), and ends of loops, each with its block
    checks : accesses of shared, constant and private memory, which are not traced
    waits : whether threads wait for each other
    """

    events: list[tuple[str, Access | Instruction | Loop]] = field(default_factory=list)
    checks: list[Access] = field(default_factory=list)
    waits: bool = False


def find(
    module: Module,
    function: Function,
    graph: FlowGraph,
    pointers: Pointers,
    local: frozenset[str],
    headers: str,
) -> Found:
    """The accesses of a kernel, those of shared and constant memory (`local`) apart.

    headers : the folder of our own headers
    Raises KernelError, with the user's line, for what cannot be traced.
    """
    finder = _Finder(module, pointers, local, headers)
    found = Found()
    blocks = {block.label: block for block in function.blocks}
    left = {loop.header: set(loop.blocks) for loop in graph.loops}
    for label in graph.order:
        for event in finder.of_block(label, blocks[label].instructions):
            if isinstance(event, Instruction):
                found.waits = True
                if event.callee in _BARRIERS:
                    found.events.append((label, event))
            elif all(is_private(root) or root in local for root in event.roots):
                found.checks.append(event)
            else:
                found.events.append((label, event))
        for loop in reversed(graph.loops):
            if label in left[loop.header]:
                left[loop.header].discard(label)
                if not left[loop.header]:
                    found.events.append((label, loop))
    return found


class _Finder:
    def __init__(
        self, module: Module, pointers: Pointers, local: frozenset[str], headers: str
    ) -> None:
        self.module, self.pointers = module, pointers
        self.local, self.headers = local, headers

    def place(self, debug: int | None) -> tuple[Place, ...]:
        """The positions outside our own headers and the compiler's, innermost first."""
        chain = self.module.chain(debug)
        own = (place for place in chain if not place.file.startswith(self.headers))
        return tuple(place for place in own if _COMPILER not in place.file)

    def refuse(self, one: Instruction, what: str) -> KernelError:
        chain = self.place(one.debug)
        where = f"{chain[0].file}:{chain[0].line}: " if chain else ""
        return KernelError(f"{where}{what} cannot be traced")

    def of_block(
        self, label: str, instructions: list[Instruction]
    ) -> Iterator[Access | Instruction]:
        waiting: list[Access] = []
        for one in instructions:
            if self._is_part_of_atomic(one):
                if one.opcode == "store" and waiting and waiting[-1].kind == "atomic":
                    written = one.parts[0].rpartition(" ")[2]
                    waiting[-1] = replace(waiting[-1], value=written)
                continue
            made = self._event(label, one)
            for event in made:
                if waiting and isinstance(event, Access) and _belongs(self, waiting, event):
                    waiting.append(event)
                    continue
                yield from _joined(waiting)
                waiting = [event] if isinstance(event, Access) else []
                if isinstance(event, Instruction):
                    yield event
        yield from _joined(waiting)

    def _event(self, label: str, one: Instruction) -> list[Access | Instruction]:
        if one.opcode in ("load", "store"):
            return self._plain(label, one)
        if one.opcode in ("atomicrmw", "cmpxchg"):
            pointer = next(p for p in one.parts if p.startswith("ptr ") or " ptr " in p).split()[-1]
            return [self._access("atomic", label, one, pointer, _value_bytes(one, self.module))]
        if one.opcode == "call":
            return self._call(label, one)
        if one.opcode == "alloca" and not all(part.startswith("align") for part in one.parts[1:]):
            raise self.refuse(one, "a private array whose size is not constant (alloca)")
        return []

    def _is_part_of_atomic(self, one: Instruction) -> bool:
        """Whether an instruction implements an atomic operation in our own header."""
        if one.opcode not in ("load", "store"):
            return False
        chain = self.module.chain(one.debug)
        return bool(chain) and chain[0].file == f"{self.headers}/memsim/atomics.h"

    def _plain(self, label: str, one: Instruction) -> list[Access | Instruction]:
        is_store = one.opcode == "store"
        kind = one.parts[0].rpartition(" ")[0] if is_store else one.parts[0]
        pointer = one.parts[1].partition(" ")[2]
        size = self.module.layout(kind)[0]
        value = one.parts[0].rpartition(" ")[2] if is_store else ""
        whole = self._access("store" if is_store else "load", label, one, pointer, size, value)
        width = whole.alignment_bytes
        if size <= width:
            return [whole]
        # A GPU's accesses are aligned to their size.
        return [
            replace(whole, offset_bytes=offset, size_bytes=min(width, size - offset))
            for offset in range(0, size, width)
        ]

    def _access(
        self,
        kind: Literal["load", "store", "atomic"],
        label: str,
        one: Instruction,
        pointer: str,
        size: int,
        value: str = "",
        offset: int = 0,
        alignment: int = 0,
    ) -> Access:
        match = _ALIGNMENT.search(one.text)
        assumed = alignment or (int(match[1]) if match else 1)
        return Access(
            kind=kind,
            block=label,
            instructions=(one,),
            pointer=pointer,
            offset_bytes=offset,
            size_bytes=size,
            alignment_bytes=min(assumed, VECTOR_BYTES),
            value=value,
            type_name=self.module.type_name(one.type_tag),
            roots=self.pointers.of(pointer),
            chain=self.place(one.debug),
        )

    def _call(self, label: str, one: Instruction) -> list[Access | Instruction]:
        name = one.callee
        if transfer := _TRANSFER.match(name):
            return list(self._transfer(label, one, transfer[1]))
        if name == "memsim_atomic":
            pointer, size = one.arguments
            return [self._access("atomic", label, one, pointer, int(size), alignment=int(size))]
        if name in WAITING:
            return [one]
        if name in _REFUSED:
            raise self.refuse(one, _REFUSED[name])
        if " asm " in one.text:
            if re.search(r'\basm (?:\w+ )*"(?:[^"\w]*)"', one.text):
                return []  # only a barrier for the compiler
            raise self.refuse(one, "inline assembler (PTX)")
        if not name:
            raise self.refuse(one, "a call through a pointer")
        if name in self.module.functions and not name.startswith(MARKED):
            raise self.refuse(one, "a recursive function, or one with the attribute noinline,")
        return []

    def _transfer(self, label: str, one: Instruction, what: str) -> Iterator[Access]:
        """The accesses of a copied or cleared struct: pieces as wide as its alignment allows."""
        target, source, size = one.arguments[:3]
        if not size.isdecimal():
            raise self.refuse(one, "a copy of a size that is not constant")
        sides = re.findall(r"align (\d+)", one.text)
        pieces = [("load", source, 1)] if what != "memset" else []
        for kind, pointer, side in [*pieces, ("store", target, 0)]:
            aligned = int(sides[side]) if side < len(sides) else 1
            width = min(aligned, VECTOR_BYTES)
            for offset in range(0, int(size), width):
                piece = min(width, int(size) - offset)
                yield self._access(kind, label, one, pointer, piece, "", offset, width)  # type: ignore[arg-type]


def _value_bytes(one: Instruction, module: Module) -> int:
    """The size of the value of an atomic instruction."""
    for part in one.parts[1:]:
        size = module.layout(part.split()[0])[0]
        if size:
            return size
    return 4


def _base(module: Module, pointers: Pointers, access: Access) -> tuple[str, int]:
    """A pointer without its constant offset, and the offset in bytes."""
    one = pointers.definitions.get(access.pointer)
    if one is None or one.opcode != "getelementptr":
        return access.pointer, access.offset_bytes
    indices = [part.split()[-1] for part in one.parts[2:]]
    if not all(re.fullmatch(r"-?\d+", index) for index in indices):
        return access.pointer, access.offset_bytes
    kind = re.sub(r"^(?:(?:inbounds|nuw|nusw) )+", "", one.parts[0])
    offset = module.offset(kind, [int(index) for index in indices])
    return one.parts[1].partition(" ")[2], access.offset_bytes + offset


def _belongs(finder: _Finder, group: list[Access], event: Access) -> bool:
    """Whether an access continues those before it: one vector access of the source performs them."""
    first = group[0]
    if (
        event.kind != first.kind
        or event.kind == "atomic"
        or event.instructions[0].debug != first.instructions[0].debug
        or first.alignment_bytes <= first.size_bytes
    ):
        return False
    base, start = _base(finder.module, finder.pointers, first)
    other, offset = _base(finder.module, finder.pointers, event)
    end = start + sum(access.size_bytes for access in group)
    fits = offset + event.size_bytes <= start + first.alignment_bytes
    return base == other and offset == end and fits


def _joined(group: list[Access]) -> Iterator[Access]:
    if not group:
        return
    if len(group) == 1:
        yield group[0]
        return
    instructions = tuple(one for access in group for one in access.instructions)
    values = " ".join(access.value for access in group)
    size = sum(access.size_bytes for access in group)
    yield replace(group[0], instructions=instructions, size_bytes=size, value=values)
