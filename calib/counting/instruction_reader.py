"""The memory accesses and operations that one Loopy instruction performs each time it runs.

`InstructionReader` names operations as features do
(`calib.counting.language.OPERATIONS`). It follows the expressions as Loopy prints them. A branch of
an `if` counts where its condition holds: an affine condition narrows the points (`Reach.under`); a
condition on values from memory is kept by its text, and the user or a trace has to supply how often
it holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from loopy.kernel.data import AddressSpace, ArrayArg, TemporaryVariable
from loopy.kernel.instruction import AtomicUpdate, CInstruction, MultiAssignmentBase
from loopy.symbolic import CombineMapper, ResolvedFunction, TaggedVariable, get_dependencies
from loopy.type_inference import TypeReader
from pymbolic import primitives as p
from pymbolic.mapper import Mapper

from calib.counting.iteration_domains import Reach
from memsim.errors import KernelError
from tracegen.instrumented import readable

Memory = Literal["global", "local"]
Direction = Literal["load", "store", "atomic"]


@dataclass(frozen=True)
class StaticAccess:
    """One access in an instruction's text. in_index : whether it is part of another access's index"""

    reach: Reach
    memory: Memory
    array: Any
    dtype: str
    direction: Direction
    tag: str | None
    index: tuple[Any, ...]
    text: str
    in_index: bool


@dataclass(frozen=True)
class StaticOperations:
    """Operations in an instruction's text: `number` of one kind."""

    reach: Reach
    name: str
    dtype: str
    number: int
    in_index: bool


class InstructionReader(Mapper):  # type: ignore[misc]
    """Collects the accesses and operations of one instruction; call `instruction` once."""

    def __init__(self, kernel: Any, callables: Mapping[Any, Any]) -> None:
        super().__init__()
        self.kernel, self.callables = kernel, callables
        self.types = TypeReader(kernel, callables)
        self.accesses: list[StaticAccess] = []
        self.ops: list[StaticOperations] = []
        self.in_index = 0

    def instruction(self, instruction: Any, reach: Reach) -> None:
        if isinstance(instruction, CInstruction) or not isinstance(
            instruction, MultiAssignmentBase
        ):
            raise KernelError(
                f"instruction {instruction.id} is not an assignment ({type(instruction).__name__}):"
                " its operations cannot be counted"
            )
        self.updated = {update.var_name for update in instruction.atomicity}
        self.swapped = {
            update.var_name for update in instruction.atomicity if isinstance(update, AtomicUpdate)
        }
        self.left = [each for each in instruction.assignees if name_of(each) in self.updated]
        self.rec(instruction.expression, reach)
        for assignee in instruction.assignees:
            direction: Direction = "atomic" if name_of(assignee) in self.updated else "store"
            self._access(assignee, direction, reach)

    def condition(self, expression: Any, reach: Reach) -> None:
        """The accesses and operations of a predicate."""
        self.updated, self.swapped, self.left = set(), set(), []
        self.rec(expression, reach)

    # Expressions that read memory

    def map_variable(self, expr: Any, reach: Reach) -> None:
        self._access(expr, "load", reach)

    map_tagged_variable = map_variable
    map_subscript = map_variable
    map_linear_subscript = map_variable
    map_lookup = map_variable

    def _access(self, expr: Any, direction: Direction, reach: Reach) -> None:
        if direction == "load" and any(expr == each for each in self.left):
            return  # the atomic update reads the old value
        node, field = expr, None
        while isinstance(node, p.Lookup):
            field, node = node.name, node.aggregate
        index: tuple[Any, ...] = ()
        if not isinstance(node, p.Variable):
            index = node.index_tuple if isinstance(node, p.Subscript) else (node.index,)
            # Loopy's compare-and-swap reads the old value first: its index is written twice.
            times = 2 if direction == "atomic" and name_of(node) in self.swapped else 1
            self.in_index += 1
            for part in index * times:
                self.rec(part, reach)
            self.in_index -= 1
        name = name_of(node)
        array = self._array(name)
        memory = None if array is None else memory_of(array)
        if memory is None:
            return
        dtype = self._dtype(expr) if field is not None else _dtype_name(array.dtype)
        text = readable(node) + (f".{field}" if field else "")
        self.accesses.append(
            StaticAccess(
                *(
                    reach,
                    memory,
                    array,
                    dtype,
                    direction,
                    ",".join(sorted(tags_of(node))) or None,
                    index,
                    text,
                ),
                self.in_index > 0,
            )
        )

    def map_sub_array_ref(self, expr: Any, reach: Reach) -> None:
        raise KernelError(
            f"{expr} is passed to a function that Loopy has not inlined: its accesses"
            " there cannot be counted"
        )

    # Expressions that compute

    def map_constant(self, expr: Any, reach: Reach) -> None:
        pass

    map_nan = map_constant

    def map_sum(self, expr: Any, reach: Reach) -> None:
        dtype = self._dtype(expr)
        adds = len(expr.children) - 1
        fused = 0
        for child in expr.children:
            factors = _factors(child)
            fusable = len(factors) >= 2 and fused < adds and dtype.startswith("float")
            if fusable and self._dtype(child) == dtype:
                fused += 1
                for factor in factors:
                    self.rec(factor, reach)
                self._op("mul", dtype, len(factors) - 2, reach)
            else:
                self.rec(child, reach)
        self._op("madd", dtype, fused, reach)
        self._op("add", dtype, adds - fused, reach)

    def map_product(self, expr: Any, reach: Reach) -> None:
        factors = _factors(expr)
        for factor in factors:
            self.rec(factor, reach)
        self._op("mul", self._dtype(expr), len(factors) - 1, reach)

    def map_quotient(self, expr: Any, reach: Reach) -> None:
        self._operation("div", expr, (expr.numerator, expr.denominator), reach)

    def map_floor_div(self, expr: Any, reach: Reach) -> None:
        self._operation("floordiv", expr, (expr.numerator, expr.denominator), reach)

    def map_remainder(self, expr: Any, reach: Reach) -> None:
        self._operation("mod", expr, (expr.numerator, expr.denominator), reach)

    def map_power(self, expr: Any, reach: Reach) -> None:
        # Loopy prints x**2 as x*x, with x in full twice, and x**1 as x.
        if p.is_constant(expr.exponent) and expr.exponent in (0, 1, 2):
            for _ in range(int(expr.exponent)):
                self.rec(expr.base, reach)
            self._op("mul", self._dtype(expr), int(expr.exponent == 2), reach)
            return
        self._operation("pow", expr, (expr.base, expr.exponent), reach)

    def map_left_shift(self, expr: Any, reach: Reach) -> None:
        self._operation("shift", expr, (expr.shiftee, expr.shift), reach)

    map_right_shift = map_left_shift

    def map_bitwise_not(self, expr: Any, reach: Reach) -> None:
        self._operation("bitwise", expr, (expr.child,), reach)

    def map_bitwise_or(self, expr: Any, reach: Reach) -> None:
        self._several("bitwise", expr, reach)

    map_bitwise_xor = map_bitwise_or
    map_bitwise_and = map_bitwise_or

    def map_min(self, expr: Any, reach: Reach) -> None:
        self._several("minmax", expr, reach)

    map_max = map_min

    def map_comparison(self, expr: Any, reach: Reach) -> None:
        self.rec(expr.left, reach)
        self.rec(expr.right, reach)

    def map_logical_not(self, expr: Any, reach: Reach) -> None:
        self.rec(expr.child, reach)

    def map_logical_and(self, expr: Any, reach: Reach) -> None:
        for child in expr.children:  # C evaluates an operand only if all before it hold
            self.rec(child, reach)
            reach = self._after(child, True, expr.children[-1], reach)

    def map_logical_or(self, expr: Any, reach: Reach) -> None:
        for child in expr.children:
            self.rec(child, reach)
            reach = self._after(child, False, expr.children[-1], reach)

    def _after(self, child: Any, holds: bool, last: Any, reach: Reach) -> Reach:
        return reach if child is last else reach.under(child, holds)

    def map_if(self, expr: Any, reach: Reach) -> None:
        self.rec(expr.condition, reach)
        self.rec(expr.then, reach.under(expr.condition, True))
        self.rec(expr.else_, reach.under(expr.condition, False))

    def map_call(self, expr: Any, reach: Reach) -> None:
        name = expr.function.name
        if isinstance(expr.function, ResolvedFunction):
            name = getattr(self.callables.get(name), "name", name)
        for parameter in expr.parameters:
            self.rec(parameter, reach)
        names = {"fma": "madd", "mad": "madd", "min": "minmax", "max": "minmax"}
        name = names.get(str(name), str(name))
        self._op(str(name), self._dtype(expr), 1, reach)

    def map_call_with_kwargs(self, expr: Any, reach: Reach) -> None:
        raise KernelError(f"{expr} has keyword arguments: it cannot be counted")

    def map_type_cast(self, expr: Any, reach: Reach) -> None:
        self.rec(expr.child, reach)

    def map_type_annotation(self, expr: Any, reach: Reach) -> None:
        self.rec(expr.child, reach)

    def map_group_hw_index(self, expr: Any, reach: Reach) -> None:
        pass

    map_local_hw_index = map_group_hw_index

    def handle_unsupported_expression(self, expr: Any, *args: Any, **kwargs: Any) -> None:
        raise KernelError(f"{expr} ({type(expr).__name__}) cannot be counted")

    def _operation(self, name: str, expr: Any, operands: Iterable[Any], reach: Reach) -> None:
        for operand in operands:
            self.rec(operand, reach)
        self._op(name, self._dtype(expr), 1, reach)

    def _several(self, name: str, expr: Any, reach: Reach) -> None:
        for child in expr.children:
            self.rec(child, reach)
        self._op(name, self._dtype(expr), len(expr.children) - 1, reach)

    def rec(self, expr: Any, reach: Reach) -> None:
        if isinstance(expr, p.ExpressionNode) and not get_dependencies(expr):
            return  # compilers fold constants
        super().rec(expr, reach)

    def _op(self, name: str, dtype: str, number: int, reach: Reach) -> None:
        if number > 0:
            self.ops.append(StaticOperations(reach, name, dtype, number, self.in_index > 0))

    def _dtype(self, expr: Any) -> str:
        return _dtype_name(self.types(expr))

    def _array(self, name: str) -> Any:
        if name in self.kernel.arg_dict:
            return self.kernel.arg_dict[name]
        return self.kernel.temporary_variables.get(name)


class AccessFinder(CombineMapper):  # type: ignore[misc]
    """Every access to the given arrays in an expression; accesses in an index follow the indexed
    one."""

    def __init__(self, arrays: Collection[str]) -> None:
        super().__init__()
        self.arrays = arrays

    def combine(self, values: Iterable[list[Any]]) -> list[Any]:
        return [each for several in values for each in several]

    def map_constant(self, expr: Any) -> list[Any]:
        return []

    def map_variable(self, expr: Any) -> list[Any]:
        return [expr] if expr.name in self.arrays else []

    map_tagged_variable = map_variable

    def map_subscript(self, expr: Any) -> list[Any]:
        accesses = [expr] if name_of(expr) in self.arrays else []
        return [*accesses, *self.combine(self.rec(part) for part in expr.index_tuple)]

    def map_linear_subscript(self, expr: Any) -> list[Any]:
        accesses = [expr] if name_of(expr) in self.arrays else []
        return [*accesses, *self.rec(expr.index)]

    def map_lookup(self, expr: Any) -> list[Any]:
        return list(self.rec(expr.aggregate))

    def map_call(self, expr: Any) -> list[Any]:
        return self.combine(self.rec(each) for each in expr.parameters)

    def map_type_cast(self, expr: Any) -> list[Any]:
        return list(self.rec(expr.child))


def name_of(node: Any) -> str:
    """The variable of an access; "" for anything else."""
    while hasattr(node, "aggregate"):
        node = node.aggregate
    return str(node.name) if isinstance(node, p.Variable) else ""


def tags_of(node: Any) -> frozenset[str]:
    """The tags of an access."""
    while isinstance(node, p.Lookup):
        node = node.aggregate
    aggregate = getattr(node, "aggregate", node)
    if not isinstance(aggregate, TaggedVariable):
        return frozenset()
    return frozenset(str(getattr(tag, "value", tag)) for tag in aggregate.tags)


def memory_of(array: Any) -> Memory | None:
    if isinstance(array, TemporaryVariable):
        if array.address_space == AddressSpace.LOCAL:
            return "local"
        constant = array.initializer is not None
        return "global" if array.address_space == AddressSpace.GLOBAL and not constant else None
    if isinstance(array, ArrayArg) and array.address_space == AddressSpace.GLOBAL:
        return "global"
    return None


def _dtype_name(dtype: Any) -> str:
    if isinstance(dtype, (list, tuple)):
        dtype = dtype[0]
    return str(dtype.numpy_dtype.name)


def _factors(expr: Any) -> list[Any]:
    """Factors of a product and of the products in it, without -1, because a sign costs nothing."""
    if not isinstance(expr, p.Product):
        return []
    factors: list[Any] = []
    for child in expr.children:
        if isinstance(child, p.Product):
            factors += _factors(child)
        elif not (p.is_constant(child) and child == -1):
            factors.append(child)
    return factors
