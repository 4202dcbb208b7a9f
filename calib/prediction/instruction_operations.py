"""Operations of one Loopy instruction, named as calib.prediction.throughputs wants them, and what it touches.

A product that is a term of a sum is one fma with it. Indices are not counted: compilers keep one address
for all accesses that differ by a constant, as the paper neglects them (section 2.1).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import loopy as lp
from loopy.kernel.data import AddressSpace, ArrayArg, TemporaryVariable
from loopy.symbolic import WalkMapper, get_dependencies
from loopy.type_inference import TypeReader
from pymbolic import primitives as p

from calib.prediction.basic_blocks import BlockError

_FREE_CALLS = frozenset({"real", "imag", "conj"})
_CHEAP_CALLS = frozenset({"abs", "fabs", "min", "max", "fmin", "fmax", "floor", "ceil", "isnan"})


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
    """What one execution of an instruction does.

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
        """Nothing but a load into a private variable: its value is wanted later."""
        return len(self.loads) == 1 and not self.stores and not self.operations and not self.reads


class InstructionReader:
    """Reads the instructions of one scheduled, typed kernel."""

    def __init__(self, kernel: Any, callables: Any, takes_local_operand: bool) -> None:
        self.kernel = kernel
        self.types = TypeReader(kernel, callables)
        self.takes_local_operand = takes_local_operand

    def read(self, instruction: Any) -> Work:
        """Raises BlockError for instructions in C text, whose operations cannot be seen."""
        if isinstance(instruction, lp.CInstruction):
            raise BlockError(
                f"instruction {instruction.id} is C text (lp.CInstruction): its operations cannot be"
                " counted; write it as Loopy assignments"
            )
        if not hasattr(instruction, "assignees"):
            return Work(instruction=instruction.id)
        self.operations: Counter[str] = Counter()
        self.touched: dict[Any, Touch] = {}
        self.private: set[str] = set()
        self._visit(instruction.expression)
        for predicate in instruction.predicates:
            self._visit(predicate)
        loads = tuple(self.touched.values())
        self.touched = {}
        stores, writes = [], set()
        for assignee in instruction.assignees:
            name = _base_name(assignee)
            self._visit_index(assignee)
            if self._is_global(name):
                stores.append(self._touch(assignee, name, self._direction(instruction)))
            elif self._is_local(name):
                self.operations["local_store"] += 1
            else:
                writes.add(name)
        loads += tuple(self.touched.values())  # what an index of the target reads
        if stores and stores[0].direction == "atomic":
            same = stores[0].subscript
            loads = tuple(load for load in loads if load.subscript != same)
        return Work(
            instruction=instruction.id,
            operations=self.operations,
            loads=loads,
            stores=tuple(stores),
            reads=frozenset(self.private),
            writes=frozenset(writes),
        )

    def _visit(self, node: Any) -> None:
        if isinstance(node, p.Variable):
            self._visit_name(node.name)
        elif isinstance(node, p.Subscript):
            self._visit_subscript(node)
        elif isinstance(node, p.Sum):
            self._visit_sum(node)
        elif isinstance(node, p.Product):
            factors = [child for child in node.children if not _is_minus_one(child)]
            self._arithmetic("mul", node, len(factors) - 1, factors)
        elif isinstance(node, (p.Quotient, p.FloorDiv, p.Remainder)):
            kind = "mul" if _is_number(node.denominator) and self._is_real(node) else "div"
            self._arithmetic(kind, node, 1, [node.numerator, node.denominator])
        elif isinstance(node, p.Power):
            exponent = node.exponent
            whole = isinstance(exponent, int) and 0 < exponent <= 4
            kind, times = ("mul", exponent - 1) if whole else ("special", 1)
            self._arithmetic(kind, node, times, [node.base, exponent])
        elif isinstance(node, p.Call):
            self._visit_call(node)
        elif isinstance(node, (p.Comparison, p.LogicalAnd, p.LogicalOr, p.LogicalNot, p.If)):
            self._visit_logic(node)
        elif isinstance(node, (p.Min, p.Max)):
            self._arithmetic("compare", node, len(node.children) - 1, node.children)
        elif isinstance(node, (p.LeftShift, p.RightShift)):
            self._arithmetic("shift", node, 1, [node.shiftee, node.shift])
        elif isinstance(node, (p.BitwiseAnd, p.BitwiseOr, p.BitwiseXor)):
            self._arithmetic("add", node, len(node.children) - 1, node.children)
        elif isinstance(node, p.BitwiseNot):
            self._arithmetic("add", node, 1, [node.child])
        elif isinstance(node, p.ExpressionNode):
            # Casts, lookups and the like cost nothing of their own.
            for name in ("child", "aggregate"):
                if hasattr(node, name):
                    self._visit(getattr(node, name))

    def _visit_sum(self, node: Any) -> None:
        """Each term but one is an add; a term that is a product of two or more is an fma with it."""
        kind = self._type(node)
        real = kind.startswith("fp")
        adds, operands = len(node.children) - 1, []
        for child in node.children:
            factors = (
                [f for f in child.children if not _is_minus_one(f)]
                if isinstance(child, p.Product)
                else [child]
            )
            if len(factors) >= 2 and adds > 0:
                adds -= 1
                self.operations[f"{kind}_mul"] += len(factors) - 2
                self._with_local("fma", kind, factors)
            elif len(factors) >= 2:
                self.operations[f"{kind}_mul"] += len(factors) - 2
                self._with_local("mul", kind, factors)
            else:
                operands += factors
        left = adds
        for operand in operands:
            if left and real and self._is_local_subscript(operand):
                self._with_local("add", kind, [operand])
                left -= 1
            else:
                self._visit(operand)
        if left:
            self.operations[f"{kind}_add"] += left
        self.operations += Counter()  # zeros go

    def _with_local(self, kind: str, type_: str, operands: list[Any]) -> None:
        """One instruction; where the machine can, its first local operand needs no load."""
        local = [operand for operand in operands if self._is_local_subscript(operand)]
        name = f"{type_}_{kind}"
        direct = bool(local) and self.takes_local_operand and type_ == "fp32"
        self.operations[name + ("_local" if direct else "")] += 1
        for operand in operands:
            if direct and operand is local[0]:
                self._visit_index(operand)
            else:
                self._visit(operand)

    def _arithmetic(self, kind: str, node: Any, times: int, operands: Any) -> None:
        type_ = self._type(node)
        operands = list(operands)
        if times > 0 and kind == "mul" and len(operands) >= 2:
            self._with_local(kind, type_, operands)
            times -= 1
        else:
            for operand in operands:
                self._visit(operand)
        if times > 0:
            self.operations[f"{type_}_{kind}"] += times

    def _visit_call(self, node: Any) -> None:
        name = str(getattr(node.function, "name", node.function))
        for parameter in node.parameters:
            self._visit(parameter)
        if name in _FREE_CALLS or "cast" in name.lower() or name.startswith("make_"):
            return
        kind = "fma" if name in ("fma", "mad") else "compare" if name in _CHEAP_CALLS else "special"
        self.operations[f"{self._type(node)}_{kind}"] += 1

    def _visit_logic(self, node: Any) -> None:
        if isinstance(node, p.Comparison):
            self.operations[f"{self._type(node.left)}_compare"] += 1
            self._visit(node.left)
            self._visit(node.right)
        elif isinstance(node, p.If):
            self.operations["int32_add"] += 1  # a select
            for child in (node.condition, node.then, node.else_):
                self._visit(child)
        else:
            for child in getattr(node, "children", None) or [node.child]:
                self._visit(child)

    def _visit_subscript(self, node: Any) -> None:
        name = node.aggregate.name
        self._visit_index(node)
        if self._is_global(name):
            self.touched.setdefault(node, self._touch(node, name, "load"))
        elif self._is_local(name):
            self.operations["local_load"] += 1
        else:
            self.private.add(name)

    def _visit_index(self, node: Any) -> None:
        """What an index reads is loaded; its arithmetic is not counted."""
        if not isinstance(node, p.Subscript):
            return
        before = Counter(self.operations)
        for part in node.index_tuple:
            self._visit(part)
        self.operations = before

    def _visit_name(self, name: str) -> None:
        found = self.kernel.temporary_variables.get(name)
        if self._is_global(name) and not isinstance(found, TemporaryVariable):
            variable = p.Variable(name)
            self.touched.setdefault(variable, self._touch(variable, name, "load"))
        elif found is not None:
            self.private.add(name)

    def _touch(self, node: Any, name: str, direction: str) -> Touch:
        dtype = self.kernel.get_var_descriptor(name).dtype
        names: frozenset[str] = frozenset()
        inner: set[Any] = set()
        if isinstance(node, p.Subscript):
            names = frozenset(get_dependencies(node.index_tuple))
            _Subscripts(inner)(node.index_tuple)
        return Touch(
            array=name,
            subscript=node,
            direction=direction,
            itemsize_bytes=int(dtype.numpy_dtype.itemsize),
            index_names=names & frozenset(self.kernel.temporary_variables),
            index_loads=frozenset(n for n in inner if self._is_global(n.aggregate.name)),
        )

    def _direction(self, instruction: Any) -> str:
        return "atomic" if getattr(instruction, "atomicity", ()) else "store"

    def _is_global(self, name: str) -> bool:
        argument = self.kernel.arg_dict.get(name)
        if argument is not None:
            return isinstance(argument, ArrayArg) and argument.address_space == AddressSpace.GLOBAL
        temporary = self.kernel.temporary_variables.get(name)
        return temporary is not None and temporary.address_space == AddressSpace.GLOBAL

    def _is_local(self, name: str) -> bool:
        temporary = self.kernel.temporary_variables.get(name)
        return temporary is not None and temporary.address_space == AddressSpace.LOCAL

    def _is_local_subscript(self, node: Any) -> bool:
        return isinstance(node, p.Subscript) and self._is_local(node.aggregate.name)

    def _is_real(self, node: Any) -> bool:
        return self._type(node).startswith("fp")

    def _type(self, node: Any) -> str:
        dtype = self.types(node)
        numpy_dtype = getattr(dtype, "numpy_dtype", None)
        if numpy_dtype is None:
            return "int32"
        if numpy_dtype.kind == "c":
            return "fp32" if numpy_dtype.itemsize == 8 else "fp64"
        if numpy_dtype.kind == "f":
            return f"fp{8 * min(numpy_dtype.itemsize, 8)}"
        return "int64" if numpy_dtype.itemsize == 8 else "int32"


class _Subscripts(WalkMapper):  # type: ignore[misc]
    """Gathers the subscripts of an expression."""

    def __init__(self, found: set[Any]) -> None:
        super().__init__()
        self.found = found

    def map_subscript(self, expr: Any, *args: Any) -> None:
        self.found.add(expr)
        super().map_subscript(expr, *args)

    def map_tagged_variable(self, expr: Any, *args: Any) -> None:
        return None


def _base_name(assignee: Any) -> str:
    while not isinstance(assignee, p.Variable):
        assignee = assignee.aggregate if hasattr(assignee, "aggregate") else assignee.subscript
    return str(assignee.name)


def _is_minus_one(node: Any) -> bool:
    return _is_number(node) and node == -1


def _is_number(node: Any) -> bool:
    return not isinstance(node, p.ExpressionNode) and not isinstance(node, tuple)
