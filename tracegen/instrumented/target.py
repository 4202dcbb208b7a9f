"""The Loopy target for instrumentation: code generation marks global accesses, loops and barriers.

The generated code is the plain code with marks: a call `_tg_load_7(i)` around each global subscript, and
comments `/*@tg ...*/` at statements, loop updates and barriers. Without its marks it equals the plain
code, letter by letter; `instrument.py` turns marks into probes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import loopy as lp
from cgen import Assign, Block, Collection, ExpressionStatement, For, Line
from loopy.kernel.data import AddressSpace, ArrayArg, ImageArg, TemporaryVariable, ValueArg
from loopy.kernel.instruction import CInstruction
from loopy.symbolic import SubstitutionMapper, get_dependencies
from loopy.target.pyopencl import (
    ExpressionToPyOpenCLCExpressionMapper,
    PyOpenCLCASTBuilder,
    PyOpenCLTarget,
)
from pymbolic import primitives as p
from pymbolic.mapper.stringifier import PREC_NONE
from pymbolic.mapper.substitutor import make_subst_func

from memsim.errors import KernelError
from tracegen.instrumented.marks import MarkTable

_table: ContextVar[MarkTable] = ContextVar("_table")


def marked_code(t_unit: Any) -> tuple[Any, MarkTable]:
    """The marked code of a scheduled translation unit, as Loopy's code generation result, and the table of marks."""
    table = MarkTable()
    token = _table.set(table)
    try:
        with lp.CacheMode(False):
            result = lp.generate_code_v2(t_unit.copy(target=ProbeTarget()))
    finally:
        _table.reset(token)
    return result, table


def refuse_unseen(kernel: Any) -> None:
    """Raises KernelError for instructions and arguments whose accesses cannot be marked."""
    for instruction in kernel.instructions:
        if isinstance(instruction, CInstruction):
            raise KernelError(
                f"instruction {instruction.id} is C text (lp.CInstruction): its accesses"
                " cannot be seen; write it as Loopy assignments"
            )
    for argument in kernel.args:
        if isinstance(argument, ImageArg):
            raise KernelError(
                f"argument {argument.name} is an image; only arrays in global memory are traced"
            )


class ProbeTarget(PyOpenCLTarget):  # type: ignore[misc]
    """PyOpenCL with marks. Host code enqueues kernels through `host.Kernels`."""

    def __init__(self) -> None:
        super().__init__(pyopencl_module_name="_lpy_cl_kernels")

    def get_device_ast_builder(self) -> Any:
        return _ProbeBuilder(self)


class _ProbeMapper(ExpressionToPyOpenCLCExpressionMapper):  # type: ignore[misc]
    def __call__(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        table = _table.get()
        instruction = table.instruction
        assignees = getattr(instruction, "assignees", ()) if instruction is not None else ()
        if not any(expr is assignee for assignee in assignees):
            return super().__call__(expr, *args, **kwargs)
        node = expr
        while isinstance(node, p.Lookup):
            node = node.aggregate
        outer, table.storing = table.storing, node
        # A mapper caches its results; a new one keeps loads and stores apart.
        fresh = type(self)(self.codegen_state, self.fortran_abi, self.type_inf_mapper)
        try:
            return super(_ProbeMapper, fresh).__call__(expr, *args, **kwargs)
        finally:
            table.storing = outer

    @contextmanager
    def _inside(self, expression: Any) -> Iterator[None]:
        stack = _table.get().stack
        stack.append(expression)
        try:
            yield
        finally:
            stack.pop()

    def map_subscript(self, expr: Any, type_context: Any) -> Any:
        with self._inside(expr):
            result = super().map_subscript(expr, type_context)
        marks = _table.get().marks
        if marks and marks[-1].expression is expr and not _table.get().clamping:
            mark = marks[-1]
            mark.axes = self._open_axes(expr)
        return result

    def _open_axes(self, expr: Any) -> list[tuple[int, str]]:
        """The axes whose index may leave its range within the array; Loopy proves the others in range."""
        table, indices = _table.get(), expr.index_tuple
        array = self.find_array(expr)
        if len(indices) < 2 or not isinstance(array.shape, tuple):
            return []
        known = self.kernel.all_inames() | {
            argument.name for argument in self.kernel.args if isinstance(argument, ValueArg)
        }
        fresh = type(self)(self.codegen_state, self.fortran_abi, self.type_inf_mapper)
        outer = table.clamping, table.storing
        table.clamping, table.storing = True, None
        try:
            return [
                (axis, str(fresh(index, PREC_NONE, "i")))
                for axis, index in enumerate(indices)
                if get_dependencies(index) - known
            ]
        finally:
            table.clamping, table.storing = outer

    def map_linear_subscript(self, expr: Any, type_context: Any) -> Any:
        with self._inside(expr):
            return super().map_linear_subscript(expr, type_context)

    def map_lookup(self, expr: Any, type_context: Any) -> Any:
        first = len(_table.get().marks)
        # This mapper has cached the mark of another field of the same element.
        fresh = type(self)(self.codegen_state, self.fortran_abi, self.type_inf_mapper)
        result = super(_ProbeMapper, fresh).map_lookup(expr, type_context)
        marks = _table.get().marks
        if len(marks) > first and marks[-1].expression is expr.aggregate:
            marks[-1].field_name = expr.name
        return result

    def map_variable(self, expr: Any, type_context: Any) -> Any:
        if expr.name not in self.codegen_state.var_subst_map:
            array = self.kernel.arg_dict.get(expr.name)
            if array is None:
                array = self.kernel.temporary_variables.get(expr.name)
            if array is not None and _is_global(array) and array.shape == ():
                with self._inside(expr):
                    if getattr(array, "offset", 0):
                        return super().map_variable(expr, type_context)
                    return self.make_subscript(array, p.Variable(expr.name), 0)
        return super().map_variable(expr, type_context)

    def make_subscript(self, array: Any, base_expr: Any, subscript: Any) -> Any:
        if not _is_global(array):
            return super().make_subscript(array, base_expr, subscript)
        table = _table.get()
        kind, number = table.add(array.name)
        target, dtype = self.kernel.target, array.dtype
        if not target.is_vector_dtype(dtype) and dtype.numpy_dtype.kind in "cV":
            table.struct_types[array.name] = target.get_dtype_registry().dtype_to_ctype(dtype)
        if isinstance(subscript, tuple):
            (subscript,) = subscript
        return base_expr[p.Variable(f"_tg_{kind}_{number}")(subscript)]


class _ProbeBuilder(PyOpenCLCASTBuilder):  # type: ignore[misc]
    def get_expression_to_c_expression_mapper(self, codegen_state: Any) -> Any:
        return _ProbeMapper(codegen_state)

    @contextmanager
    def _instruction(self, insn: Any) -> Iterator[str]:
        table = _table.get()
        table.instruction = insn
        table.instructions.append(insn.id)
        table.seen = Counter({key: n for key, n in table.seen.items() if key[0] != insn.id})
        try:
            yield f"/*@tg i{len(table.instructions) - 1}*/"
        finally:
            table.instruction = None

    def emit_assignment(self, codegen_state: Any, insn: Any) -> Any:
        with self._instruction(insn) as comment:
            return _labelled(super().emit_assignment(codegen_state, insn), comment)

    def emit_multiple_assignment(self, codegen_state: Any, insn: Any) -> Any:
        with self._instruction(insn) as comment:
            return _labelled(super().emit_multiple_assignment(codegen_state, insn), comment)

    def emit_atomic_update(
        self,
        codegen_state: Any,
        lhs_atomicity: Any,
        lhs_var: Any,
        lhs_expr: Any,
        rhs_expr: Any,
        lhs_dtype: Any,
        rhs_type_context: Any,
    ) -> Any:
        # Each iteration of Loopy's compare-and-swap loop reads the left side, evaluates the right side
        # and swaps. The probes run once, before the loop; inside, indices are only clamped.
        table = _table.get()
        before = Counter(table.seen)
        ecm = codegen_state.expression_to_code_mapper
        others = SubstitutionMapper(make_subst_func({lhs_expr: 0}))(rhs_expr)
        table.reading_old = True
        old = ecm(lhs_expr, prec=PREC_NONE, type_context=None)
        table.reading_old = False
        table.seen = before
        right = ecm(others, prec=PREC_NONE, type_context=rhs_type_context)
        new = ecm(lhs_expr, prec=PREC_NONE, type_context=None)
        table.before.append((str(old), str(right), str(new)))
        comment = Line(f"/*@tg p{len(table.before) - 1}*/")
        table.clamping = True
        try:
            block = super().emit_atomic_update(
                codegen_state,
                lhs_atomicity,
                lhs_var,
                lhs_expr,
                rhs_expr,
                lhs_dtype,
                rhs_type_context,
            )
        finally:
            table.clamping = False
        return Block([comment, *block.contents])

    def emit_sequential_loop(self, *args: Any, **kwargs: Any) -> Any:
        result = super().emit_sequential_loop(*args, **kwargs)
        loop = result.items[-1] if isinstance(result, Collection) else result
        assert isinstance(loop, For)
        loop.update = Line(f"{loop.update}/*@tg e*/")
        return result

    def emit_barrier(self, synchronization_kind: str, mem_kind: str, comment: str) -> Any:
        statement = super().emit_barrier(synchronization_kind, mem_kind, comment)
        statement.text = f"/*@tg b*/{statement.text}"
        return statement

    def add_vector_access(self, access_expr: Any, index: Any) -> Any:
        if isinstance(access_expr, p.Subscript) and isinstance(access_expr.index, p.Call):
            name = access_expr.index.function.name
            if name.startswith("_tg_"):
                _table.get().marks[int(name.rsplit("_", 1)[1])].component = int(index)
        return super().add_vector_access(access_expr, index)


def _labelled(node: Any, comment: str) -> Any:
    if isinstance(node, Assign):
        node.lvalue = f"{comment}{node.lvalue}"
    elif isinstance(node, ExpressionStatement):
        node.expr = f"{comment}{node.expr}"
    elif isinstance(node, Block) and node.contents:
        first = node.contents[0]
        if isinstance(first, Line):
            first.text = f"{comment}{first.text}"
        else:
            _labelled(first, comment)
    return node


def _is_global(array: Any) -> bool:
    if isinstance(array, TemporaryVariable):
        return array.address_space == AddressSpace.GLOBAL and array.initializer is None
    return isinstance(array, ArrayArg) and array.address_space == AddressSpace.GLOBAL
