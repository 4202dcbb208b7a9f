"""A compiled kernel as text for a terminal and as JSON: what it needs of a core, and its instructions."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import structs

from memsim.errors import ReplayError
from memsim.machine import Machine
from memsim.montecarlo import Occupancy, resident_groups
from memsim.trace import Launch
from tracegen.compiled.loops import depths
from tracegen.compiled.model import PIPES, BasicBlock, MachineCode

if TYPE_CHECKING:
    from rich.table import Table

SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class CompiledKernel:
    """A kernel with its occupancy on a machine.

    name : as the user writes it
    group_shape : work-items along the axes of a group
    local_memory_bytes : of a group, with what arguments ask for
    """

    name: str
    code: MachineCode
    machine: Machine
    group_shape: tuple[int, ...]
    local_memory_bytes: int

    def occupancy(self) -> Occupancy:
        """Raises ReplayError if no group fits."""
        launch = Launch(
            kernel=self.name,
            n_groups=1,
            group_items=math.prod(self.group_shape),
            group_shape=self.group_shape,
            local_memory_bytes=self.local_memory_bytes,
            registers_per_item=max(self.code.registers_per_item, 1),
            tensor_columns=self.code.tensor_columns,
        )
        return resident_groups(self.machine, launch)

    def lines(self) -> Iterator[str]:
        """What the kernel needs of a core, a line for each resource."""
        from memsim.report import shortened

        code = self.code
        tools = ", ".join(f"{name} {version}" for name, version in code.tools.items())
        yield f"{shortened(self.name)} for {code.target}, compiled by {tools}"
        scalar = f", {code.scalar_registers} scalar a sub-group" if code.scalar_registers else ""
        spills = "none"
        if code.spill_store_bytes or code.spill_load_bytes:
            spills = f"{code.spill_store_bytes} bytes stored, {code.spill_load_bytes} bytes loaded"
        for name, value in (
            ("registers", f"{code.registers_per_item} a work-item{scalar}"),
            ("spills", spills),
            ("private memory", f"{code.private_bytes} bytes a work-item"),
            ("local memory", f"{self.local_memory_bytes} bytes a group"),
            ("occupancy", self._occupancy_text()),
        ):
            yield f"  {name:<16}{value}"

    def _occupancy_text(self) -> str:
        from memsim.report import limiter_name

        try:
            occupancy = self.occupancy()
        except ReplayError as error:
            return str(error)
        return (
            f"{100 * occupancy.occupancy:.0f} %: {occupancy.groups_per_core} groups of {math.prod(self.group_shape)}"
            f" work-items on a core of {self.machine.name}, limited by {limiter_name(occupancy.limited_by)}"
        )

    def table(self) -> Table:
        """A row for each basic block: its instructions by pipe, its accesses to global memory."""
        from memsim.report import PlainTable

        blocks, used = self.code.blocks, list(_mix(self.code.blocks))
        columns = [
            "block",
            "loops",
            "instructions",
            *used,
            "global loads",
            "stores",
            "atomics",
            "next",
        ]
        rows = [
            (f"{index} {block.label}".strip(), str(depth), [block], block.successors)
            for index, (block, depth) in enumerate(zip(blocks, depths(self.code), strict=True))
        ]
        cells = []
        for name, depth, counted, after in (*rows, ("all", "", list(blocks), ())):
            mix, memory = _mix(counted), _global_accesses(counted)
            numbers = [mix.total(), *(mix[pipe] for pipe in used), *memory.values()]
            following = " ".join(map(str, after))
            cells.append((name, depth, *(str(number or "") for number in numbers), following))
        return PlainTable("", columns, cells)

    def to_json(self) -> dict[str, Any]:
        """Everything that the text contains, and the accesses of each block."""
        code, occupancy, why = self.code, None, ""
        try:
            occupancy = self.occupancy().to_json()
        except ReplayError as error:
            why = str(error)
        return {
            "kernel": self.name,
            "machine": self.machine.name,
            "target": code.target,
            "tools": dict(code.tools),
            "registers_per_item": code.registers_per_item,
            "scalar_registers": code.scalar_registers,
            "spill_store_bytes": code.spill_store_bytes,
            "spill_load_bytes": code.spill_load_bytes,
            "private_bytes": code.private_bytes,
            "local_memory_bytes": self.local_memory_bytes,
            "group_shape": list(self.group_shape),
            "occupancy": occupancy,
            "instructions": dict(_mix(code.blocks)),
            "blocks": [_block_json(block) for block in code.blocks],
            "notes": [*code.stand_ins, *code.notes, *([why] if why else [])],
        }


def compiled_to_json(kernels: Sequence[CompiledKernel]) -> str:
    """`{"schema", "kernels": [...]}`, in the order of the launches."""
    return json.dumps({"schema": SCHEMA, "kernels": [kernel.to_json() for kernel in kernels]})


def _block_json(block: BasicBlock) -> dict[str, Any]:
    accesses = [
        {
            **structs.asdict(instruction.memory),
            "opcode": instruction.opcode,
            "line": instruction.location.line if instruction.location else None,
        }
        for instruction in block.instructions
        if instruction.memory is not None
    ]
    return {
        "label": block.label,
        "successors": list(block.successors),
        "instructions": dict(_mix([block])),
        "accesses": accesses,
    }


def _mix(blocks: Sequence[BasicBlock]) -> Counter[str]:
    """Pipe -> number of instructions, in the order of PIPES."""
    counts = Counter(one.pipe for block in blocks for one in block.instructions)
    return Counter({pipe: counts[pipe] for pipe in PIPES if counts[pipe]})


def _global_accesses(blocks: Sequence[BasicBlock]) -> dict[str, int]:
    accesses = [one.memory for block in blocks for one in block.instructions if one.memory]
    counts = Counter(memory.direction for memory in accesses if memory.space == "global")
    return {direction: counts[direction] for direction in ("load", "store", "atomic")}
