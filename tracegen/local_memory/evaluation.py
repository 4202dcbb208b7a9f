"""The values of a kernel's expressions for all work-items of one group, and the accesses that they make."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from tracegen.c_source.expressions import Node, integer, names_in
from tracegen.c_source.statements import Span
from tracegen.local_memory.executions import Executions
from tracegen.local_memory.text import Assignment, Function, Operand, Text
from tracegen.local_memory.values import (
    Integer,
    Mask,
    Pointer,
    calculated,
    chosen,
    converted,
    function_result,
    holds,
    type_bytes,
)

_VECTOR_ACCESS = re.compile(r"v(load|store)(\d+)")
_LOOPY_MACROS = {"lid": "get_local_id", "gid": "get_group_id"}


MOST_STEPS = 100_000
"""Statements and parts of expressions that are followed in a group of up to ITEMS_A_STEP work-items."""
ITEMS_A_STEP = 1024


class TooLong(Exception):
    """More statements or calls than are followed."""


class Evaluation(ABC):
    """The variables of the group in the middle of a launch.

    names : the values of the variables;  types : the words of their declarations
    executions : of the accesses to local memory that were met
    """

    def __init__(
        self,
        text: Text,
        grid: Sequence[int],
        group_shape: Sequence[int],
        executions: Executions,
    ) -> None:
        self.text, self.executions = text, executions
        grid, shape = (*grid, 1, 1, 1)[:3], (*group_shape, 1, 1, 1)[:3]
        item = np.arange(int(np.prod(shape)), dtype=np.int64)
        ids = [item % shape[0], item // shape[0] % shape[1], item // (shape[0] * shape[1])]
        local = [0 if extent == 1 else of for of, extent in zip(ids, shape, strict=True)]
        group = [extent // 2 for extent in grid]
        self.ids: dict[str, list[Integer]] = {
            "get_local_id": local,
            "get_group_id": list(group),
            "get_local_size": list(shape),
            "get_num_groups": list(grid),
            "get_global_id": [g * s + at for g, s, at in zip(group, shape, local, strict=True)],
            "get_global_size": [n * s for n, s in zip(grid, shape, strict=True)],
            "get_global_offset": [0, 0, 0],
        }
        self.every: Mask = np.ones(len(item), np.bool_)
        self.left = MOST_STEPS // -(-len(item) // ITEMS_A_STEP)
        self.names: dict[str, Integer] = {}
        self.types: dict[str, str] = {}
        self.around: Span = (0, 0)  # the statement, or the header, of what is evaluated

    def step(self) -> None:
        """Counts a statement or a part of an expression. Raises TooLong."""
        self.left -= 1
        if self.left < 0:
            raise TooLong

    @abstractmethod
    def called(self, function: Function, values: list[Integer], mask: Mask) -> Integer:
        """The result of one of the program's functions."""

    def value(self, span: Span, mask: Mask) -> Integer:
        self.around = span
        return self.operand(self.text.operand(span), mask)

    def operand(self, operand: Operand, mask: Mask) -> Integer:
        if isinstance(operand, Assignment):
            return self._assign(operand, mask)
        if operand.tree is None:
            self.lose(operand.text)
            return None
        return self.evaluated(operand.tree, mask, operand.start)

    def _assign(self, of: Assignment, mask: Mask) -> Integer:
        value = self.operand(of.value, mask)
        tree, base = of.left.tree, of.left.start
        if tree is None:
            self.lose(of.left.text)
            return None
        place = self._place(tree, mask, base)
        if place is not None and not place.extents:
            for direction in ("load", "store") if of.sign else ("store",):
                self._access(direction, place, base + tree.at, mask)
        elif tree.kind == "name":
            name = tree.text
            before = self.names.get(name)
            value = calculated(of.sign, before, value) if of.sign else value
            value = converted(value, self.types.get(name, ""))
            self.names[name] = chosen(mask, value, before) if name in self.names else value
        return value

    def evaluated(self, tree: Node, mask: Mask, base: int) -> Integer:
        """base : offset that the tree's offsets count from"""
        self.step()
        match tree.kind:
            case "number":
                return integer(tree.text)
            case "real":
                return None
            case "condition":
                return self._conditional(tree, mask, base)
            case "binary":
                return self._binary(tree, mask, base)
            case "cast":
                value = self.evaluated(tree.children[0], mask, base)
                if isinstance(value, Pointer) and "*" in tree.text:
                    return Pointer(value.array, value.byte, type_bytes(tree.text))
                return converted(value, tree.text)
            case "call":
                return self._call(tree, mask, base)
            case "list":
                return [self.evaluated(child, mask, base) for child in tree.children][-1]
        if tree.kind == "unary" and tree.text == "&":
            (of,) = tree.children
            place = self._place(of, mask, base)
            if place is None and of.kind == "name":
                self.names[of.text] = None  # who has its address may write to it
            return None if place is None else place.address()
        if tree.kind == "unary" and tree.text != "*":
            return calculated(tree.text, self.evaluated(tree.children[0], mask, base))
        place = self._place(tree, mask, base)
        if place is None:
            return self.names.get(tree.text) if tree.kind == "name" else None
        if place.extents:
            return place
        self._access("load", place, base + tree.at, mask)
        return None

    def _conditional(self, tree: Node, mask: Mask, base: int) -> Integer:
        held = holds(self.evaluated(tree.children[0], mask, base), mask)
        ways = (mask, mask) if held is None else (held, mask & ~held)
        then, other = (
            self.evaluated(child, lanes, base) if lanes.any() else None
            for child, lanes in zip(tree.children[1:], ways, strict=True)
        )
        if held is None:
            return None
        if not ways[1].any():
            return then
        return chosen(held, then, other) if held.any() else other

    def _binary(self, tree: Node, mask: Mask, base: int) -> Integer:
        left = self.evaluated(tree.children[0], mask, base)
        if tree.text not in ("&&", "||"):
            return calculated(tree.text, left, self.evaluated(tree.children[1], mask, base))
        held = holds(left, mask)
        ahead = mask if held is None else held if tree.text == "&&" else mask & ~held
        if not ahead.any():
            return int(tree.text == "||")
        other = holds(self.evaluated(tree.children[1], ahead, base), ahead)
        if held is None or other is None:
            return None
        return ((held & other) if tree.text == "&&" else (held | other)).astype(np.int64)

    def _place(self, tree: Node, mask: Mask, base: int) -> Pointer | None:
        """What an expression stands for, if that lies in local memory; its subscripts are evaluated."""
        if tree.kind == "name":
            pointer = self.names.get(tree.text)
            return pointer if self.is_array(tree.text) else None
        if tree.kind == "member":
            return self._place(tree.children[0], mask, base)
        if tree.kind not in ("index", "unary") or tree.text not in ("[]", "*"):
            return None
        pointer = self.evaluated(tree.children[0], mask, base)
        index = self.evaluated(tree.children[1], mask, base) if tree.kind == "index" else 0
        if not isinstance(pointer, Pointer) or not pointer.extents:
            return None
        return pointer.element(None if isinstance(index, Pointer) else index)

    def is_local(self, name: str) -> bool:
        return isinstance(self.names.get(name), Pointer)

    def is_array(self, name: str) -> bool:
        """Whether a name is that of local memory itself, and not of a pointer."""
        pointer = self.names.get(name)
        return isinstance(pointer, Pointer) and pointer.array == name

    def _call(self, tree: Node, mask: Mask, base: int) -> Integer:
        name = _LOOPY_MACROS.get(tree.text, tree.text)
        values = [self.evaluated(node, mask, base) for node in tree.children]
        if name in self.ids:
            axis = values[0]
            return self.ids[name][axis] if isinstance(axis, int) and axis in (0, 1, 2) else None
        if name in self.text.functions:
            return self.called(self.text.functions[name], values, mask)
        vector = _VECTOR_ACCESS.fullmatch(name)
        for value in values:
            if isinstance(value, Pointer) and vector is not None:
                n_items = int(vector[2])
                place = value.moved(calculated("*", values[-2], n_items)).element(0)
                self._access(vector[1], place, base + tree.at, mask)
            elif isinstance(value, Pointer):
                direction = "atomic" if name.startswith("atom") else "other"
                self._access(direction, value.element(0), base + tree.at, mask)
        return function_result(name, values)

    def _access(self, direction: str, place: Pointer, at: int, mask: Mask) -> None:
        known = place.byte if place.item_bytes else None
        self.executions.add((place.array, direction, at), self.around, known, mask)

    def lose(self, text: str) -> None:
        """What a text names may change in it: it is unknown."""
        for name in names_in(text):
            if name in self.names and not self.is_array(name):
                self.names[name] = None
