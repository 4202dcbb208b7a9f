"""Costs from block counts: requests to memory, and the cycles that each unit of a core is busy.

The work of one sub-group in a block is read from the kernel's instructions and multiplied by the number
of sub-groups that run the block. Index arithmetic is not counted, because compilers share most of it.
The test of a loop counts as an addition and a comparison.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calib.counting.instruction_reader import InstructionReader
from calib.counting.iteration_domains import grid, reach
from calib.counting.scheduled import Scheduled, as_kernel_error, schedule
from calib.prediction import throughputs
from memsim.errors import KernelError
from memsim.machine import Machine
from tracegen.blocks import Block, BlockAccess, BlockCounter
from tracegen.c_source import Node, Unreadable, parse

UNITS = {
    "fp16": "FMA",
    "fp32": "FMA",
    "fp64": "FP64",
    "int32": "ALU",
    "int64": "ALU",
    "local": "shared memory",
    "load": "load and store",
    "barrier": "ALU",
}
"""The unit of an operation, by the beginning of its name; special functions have a separate unit."""
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


@dataclass(frozen=True)
class BlockWork:
    """The work of a sub-group in one execution of a block.

    requests : accesses to memory
    operations : operation -> instructions, under the names of calib.prediction.throughputs
    """

    block: Block
    requests: tuple[BlockAccess, ...]
    operations: Mapping[str, int]


def block_work(counter: BlockCounter) -> tuple[BlockWork, ...]:
    """The work of each block of a Loopy kernel.

    Raises KernelError for OpenCL C, whose instructions are not known.
    """
    if not counter.loopy:
        raise KernelError(
            "operations and requests of blocks are read from Loopy's instructions; this kernel is"
            " OpenCL C"
        )
    with as_kernel_error(str(counter.prepared.name)):
        return _all_work(counter)


def _all_work(counter: BlockCounter) -> tuple[BlockWork, ...]:
    scheduled = schedule(counter.scheduled)
    works = []
    for block in counter.blocks:
        operations: Counter[str] = Counter()
        for name in counter.instructions(block):
            operations.update(_arithmetic(scheduled, name))
        requests = counter.accesses(block)
        for access in requests:
            kind = "load" if access.direction == "load" else "store"
            operations[f"{access.memory}_{kind}"] += 1
        operations.update(_control(block, counter))
        works.append(BlockWork(block, requests, dict(operations)))
    return tuple(works)


def _arithmetic(scheduled: Scheduled, name: str) -> Counter[str]:
    """Operations of one instruction; those of its predicate count where its `if` is evaluated."""
    numbers: Counter[str] = Counter()
    if name not in scheduled.places:  # a barrier
        return numbers
    instruction = scheduled.kernel.id_to_insn[name]
    reader = InstructionReader(scheduled.kernel, scheduled.callables)
    shape = grid(scheduled, scheduled.places[name].launch)
    reader.instruction(instruction, reach(scheduled, instruction, shape))
    for op in reader.ops:
        operation = throughputs.machine_operation(op.dtype, op.name)
        if operation is not None and not op.in_index:
            numbers[operation] += op.number
    return numbers


def requests(
    work: Sequence[BlockWork], by_subgroups: Sequence[float]
) -> dict[tuple[str, str, str], float]:
    """(memory, direction, array) -> requests of sub-groups, from the count of each block."""
    total: dict[tuple[str, str, str], float] = {}
    for each, count in zip(work, by_subgroups, strict=True):
        for access in each.requests:
            key = (access.memory, access.direction, access.array)
            total[key] = total.get(key, 0) + count
    return total


def busy_cycles(
    work: Sequence[BlockWork], by_subgroups: Sequence[float], machine: Machine
) -> dict[str, float]:
    """unit -> core cycles in which instructions are issued to it, summed over all cores.

    Raises calib.prediction.throughputs.ThroughputError where the machine lacks a throughput.
    """
    total: dict[str, float] = {}
    for each, count in zip(work, by_subgroups, strict=True):
        if not count:
            continue
        for operation, times in each.operations.items():
            for part, number in _parts(machine, operation).items():
                unit = _unit(part)
                cycles = throughputs.cycles_of(machine, part)
                total[unit] = total.get(unit, 0.0) + count * times * number * cycles
    return total


def _parts(machine: Machine, operation: str) -> dict[str, float]:
    """An operation as a combination of operations whose throughputs the machine lists."""
    if machine.throughputs.get(operation):
        return {operation: 1.0}
    made_of = throughputs._PARTS.get(operation)
    if made_of is None:
        throughputs.cycles_of(machine, operation)  # raises an error that names what is missing
        return {operation: 1.0}
    total: dict[str, float] = {}
    for name, count in made_of:
        for part, number in _parts(machine, name).items():
            total[part] = total.get(part, 0.0) + count * number
    return total


def _unit(operation: str) -> str:
    if "special" in operation:
        return "special functions"
    return next((unit for start, unit in UNITS.items() if operation.startswith(start)), operation)


def _control(block: Block, counter: BlockCounter) -> Counter[str]:
    """Operations of the `if` or the loop test that ends a block."""
    numbers: Counter[str] = Counter()
    if block.kind == "test":
        numbers["int32_compare"] += 1
        numbers["int32_add"] += 1
        return numbers
    conditions = {
        other.controls[-1].text
        for other in counter.blocks
        if other.kind in ("then", "else")
        and other.launch == block.launch
        and other.number in block.followers
    }
    for text in conditions:
        try:
            numbers["int32_compare"] += _comparisons(parse(text))
        except Unreadable:
            numbers["int32_compare"] += 1
    return numbers


def _comparisons(tree: Node) -> int:
    own = tree.kind == "binary" and tree.text in _COMPARISONS
    return int(own) + sum(_comparisons(child) for child in tree.children)
