"""The operations, loads and stores that one Loopy instruction issues on a machine.

`calib.counting.instruction_reader` reads the instruction as it is written. This module converts its
operations to those that a compiler emits: a small power is multiplications, a division by a
constant is one multiplication, a product that is added is one multiply-add, and a condition costs
its comparison.
Index arithmetic is not counted, because compilers keep one address for all accesses that differ by a
constant (neglected by Yuan et al. 2010, section 2.1, as well).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import loopy as lp
from loopy.kernel.instruction import MultiAssignmentBase
from loopy.symbolic import WalkMapper, get_dependencies
from pymbolic import primitives as p

from calib.counting.instruction_reader import InstructionReader, StaticAccess, memory_of
from calib.counting.iteration_domains import Reach
from calib.prediction.basic_blocks import BlockError
from calib.prediction.throughputs import LOCAL, machine_operation

MOST_MULTIPLIED = 4
"""The largest exponent that compilers turn into multiplications."""


@dataclass(frozen=True, kw_only=True)
class Touch:
    """A global access.

    subscript : as written, tags and all
    index_names, index_loads : private variables and other global subscripts in its index
    """

    array: str
    subscript: Any
    direction: str
    itemsize_bytes: int
    index_names: frozenset[str] = frozenset()
    index_loads: frozenset[Any] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of one execution of an instruction.

    operations : throughput (see `calib.prediction.throughputs`) -> number
    reads : private variables whose value it needs;  writes : those that it assigns
    """

    instruction: str
    operations: Counter[str] = field(default_factory=Counter)
    loads: tuple[Touch, ...] = ()
    stores: tuple[Touch, ...] = ()
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()

    @property
    def only_loads(self) -> bool:
        """Whether it is a load into a private variable and nothing else: its value is used later."""
        return len(self.loads) == 1 and not self.stores and not self.operations and not self.reads


def work_of(
    kernel: Any, callables: Mapping[Any, Any], instruction: Any, takes_local_operand: bool
) -> Work:
    """The work of one execution of an instruction of a scheduled, typed kernel.

    takes_local_operand : fp32 arithmetic reads one operand straight from local memory

    Raises BlockError for instructions in C text, KernelError for expressions that cannot be read.
    """
    if isinstance(instruction, lp.CInstruction):
        raise BlockError(
            f"instruction {instruction.id} is C text (lp.CInstruction): its operations cannot be"
            " counted; write it as Loopy assignments"
        )
    if not isinstance(instruction, MultiAssignmentBase):
        return Work(instruction=instruction.id)
    reader = _CompiledReader(kernel, callables)
    reader.instruction(instruction, Reach.anywhere())
    for predicate in instruction.predicates:
        reader.condition(predicate, Reach.anywhere())
    loads = {a.expression: a for a in _global(reader) if a.direction == "load"}
    stores = [a for a in _global(reader) if a.direction != "load"]
    return Work(
        instruction=instruction.id,
        operations=_operations(reader, takes_local_operand),
        loads=tuple(_touch(kernel, access) for access in loads.values()),
        stores=tuple(_touch(kernel, access) for access in stores),
        reads=frozenset(reader.private_reads),
        writes=frozenset(reader.private_writes),
    )


class _CompiledReader(InstructionReader):
    """Reads an instruction as compilers translate it."""

    fuses_integers = True

    def map_power(self, expr: Any, reach: Reach) -> None:
        exponent = expr.exponent
        if not (isinstance(exponent, int) and 0 < exponent <= MOST_MULTIPLIED):
            self._operation("pow", expr, (expr.base, exponent), reach)
            return
        self.rec(expr.base, reach)
        local = self._has_local([expr.base])
        self._op("mul", self._dtype(expr), exponent - 1, reach, local)

    def map_quotient(self, expr: Any, reach: Reach) -> None:
        dtype = self._dtype(expr)
        if not p.is_constant(expr.denominator) or dtype.startswith(("int", "uint")):
            super().map_quotient(expr, reach)
            return
        self.rec(expr.numerator, reach)
        self._op("mul", dtype, 1, reach, self._has_local([expr.numerator]))

    def map_comparison(self, expr: Any, reach: Reach) -> None:
        super().map_comparison(expr, reach)
        self._op("compare", self._dtype(expr.left), 1, reach)

    def map_if(self, expr: Any, reach: Reach) -> None:
        super().map_if(expr, reach)
        self._op("add", "int32", 1, reach)  # a select


def _operations(reader: InstructionReader, takes_local_operand: bool) -> Counter[str]:
    """Arithmetic and accesses to local memory, without those of index expressions."""
    numbers: Counter[str] = Counter()
    for access in reader.accesses:
        if access.memory == "local" and not access.in_index:
            numbers["local_load" if access.direction == "load" else "local_store"] += 1
    for op in reader.ops:
        name = machine_operation(op.dtype, op.name)
        if op.in_index or name is None:
            continue
        direct = op.with_local_operand if takes_local_operand and name.startswith("fp32") else 0
        numbers[name] += op.number - direct
        numbers[name + LOCAL] += direct
        numbers["local_load"] -= direct
    return +numbers


def _global(reader: InstructionReader) -> list[StaticAccess]:
    return [access for access in reader.accesses if access.memory == "global"]


def _touch(kernel: Any, access: StaticAccess) -> Touch:
    inner: set[Any] = set()
    _Subscripts(inner)(access.index)
    return Touch(
        array=access.array.name,
        subscript=access.expression,
        direction=access.direction,
        itemsize_bytes=int(access.array.dtype.numpy_dtype.itemsize),
        index_names=frozenset(get_dependencies(access.index))
        & frozenset(kernel.temporary_variables),
        index_loads=frozenset(
            subscript
            for subscript in inner
            if memory_of(kernel.get_var_descriptor(subscript.aggregate.name)) == "global"
        ),
    )


class _Subscripts(WalkMapper):  # type: ignore[misc]
    """Gathers the subscripts of an expression."""

    def __init__(self, subscripts: set[Any]) -> None:
        super().__init__()
        self.subscripts = subscripts

    def map_subscript(self, expr: Any, *args: Any) -> None:
        self.subscripts.add(expr)
        super().map_subscript(expr, *args)

    def map_tagged_variable(self, expr: Any, *args: Any) -> None:
        return None
