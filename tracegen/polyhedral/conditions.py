"""Values, conditions and accesses of one expression, as instructions of the walk."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from memsim.errors import KernelError
from tracegen.instrumented.probes import Program
from tracegen.polyhedral import code as c
from tracegen.polyhedral.code import GROUP, LANE, CodeWriter
from tracegen.polyhedral.expressions import Node, Unreadable, integer, is_truth
from tracegen.polyhedral.walk import operate

_OPERATIONS = {
    "+": c.ADD,
    "-": c.SUBTRACT,
    "*": c.MULTIPLY,
    "/": c.DIVIDE,
    "%": c.REMAINDER,
    "loopy_floor_div": c.FLOOR_DIVIDE,
    "loopy_floor_div_pos_b": c.FLOOR_DIVIDE,
    "loopy_mod": c.MODULO,
    "loopy_mod_pos_b": c.MODULO,
    "min": c.LEAST,
    "max": c.GREATEST,
    "lpy_min": c.LEAST,
    "lpy_max": c.GREATEST,
}
_DIVISIONS = (c.DIVIDE, c.REMAINDER, c.FLOOR_DIVIDE, c.MODULO)
_TYPE_SUFFIX = re.compile(r"_(?:int(?:8|16|32|64)|char|short|int|long)$")
_AT = re.compile(r"\bTG_AT\((\d+)\)")
_WHOLE = ("int", "long", "int32_t", "int64_t")


class NotStatic(KernelError):
    """An access whose address or condition only a run can determine; the message has the reason."""


@dataclass(frozen=True)
class Unknown:
    """A value that only a run can determine; `why` is a phrase such as 'depends on x[i]'."""

    why: str


Value = int | Unknown
"""The number of a value, or of the mask of the lanes for which a condition holds."""


class Lowering:
    """Writes instructions; `names` has the value of each variable at this point of the program."""

    def __init__(self, program: Program, site_name: Callable[[int], str]) -> None:
        self.program, self.site_name = program, site_name
        self.code = CodeWriter()
        self.names: dict[str, Value] = {}
        self.n_seen = 0

    def accesses(self, tree: Node, mask: int) -> None:
        """Writes the accesses, back-edges and barriers of an expression, in order of evaluation."""
        if tree.is_call("_tg_probe"):
            self.accesses(tree.children[2], mask)
            self._access(tree, mask)
        elif tree.is_call("_tg_event"):
            self.code.write(c.EVENT, self._position(tree), mask)
        elif tree.kind == "condition" or (tree.kind == "binary" and tree.text in ("&&", "||")):
            self._guarded(tree, mask)
        else:
            for child in tree.children:
                self.accesses(child, mask)

    def _guarded(self, tree: Node, mask: int) -> None:
        first, *rest = tree.children
        self.accesses(first, mask)
        if not any(has_probe(child) for child in rest):
            return
        condition = self.condition(first, mask)
        if isinstance(condition, Unknown):
            inside = next(position for child in rest for position in positions(child))
            raise self.refusal(f"is made under a condition that {condition.why}", inside)
        without = self.code.mask(c.MINUS, mask, condition)
        chosen = {"?:": (condition, without), "&&": (condition,), "||": (without,)}[tree.text]
        for child, own in zip(rest, chosen, strict=True):
            self.accesses(child, own)

    def _access(self, tree: Node, mask: int) -> None:
        position = self._position(tree)
        index, extent = tree.children[2:]
        while index.is_call("_tg_within"):
            _, axis, at, length, index = index.children
            operands = self._bounded(at, length, mask, position)
            self.code.write(c.WITHIN, position, mask, *operands, int(axis.text))
        self.code.write(c.ACCESS, position, mask, *self._bounded(index, extent, mask, position))

    def _bounded(self, at: Node, extent: Node, mask: int, position: int) -> tuple[int, int]:
        """The value of an index, and the number below which it must be."""
        value, size = self.value(at, mask), self.value(extent, mask)
        if isinstance(value, Unknown):
            raise self.refusal(f"has an index that {value.why}", position)
        assert isinstance(size, int)
        return value, self.code.constants[size]

    def _position(self, tree: Node) -> int:
        (position,) = positions(tree)[-1:]
        if position != self.n_seen:
            raise Unreadable(f"access {position} comes where {self.n_seen} was expected")
        self.n_seen += 1
        return position

    def refusal(self, why: str, position: int) -> NotStatic:
        probe = self.program.probes[position]
        what = "a barrier" if probe.mark < 0 else f"access {self.site_name(position)}"
        return NotStatic(
            f"{what} of kernel {self.program.name} cannot be traced without running it: it {why}"
        )

    def value(self, tree: Node, mask: int) -> Value:
        """The value of an integer expression; operations that are not affine become instructions."""
        if tree.kind == "number":
            if "u" in tree.text.lower():
                return Unknown(f"depends on {tree.text}, an unsigned number, which wraps")
            return self.code.constant(integer(tree.text))
        if tree.kind == "name":
            return self.names.get(
                tree.text, Unknown(f"depends on {tree.text}, which only a run sets")
            )
        if tree.kind == "cast":
            if tree.text in _WHOLE:
                return self.value(tree.children[0], mask)
            return Unknown(f"depends on a number cast to {tree.text}")
        if tree.kind == "unary" and tree.text in "-+~":
            return self._negated(tree, mask)
        if tree.kind == "binary" and tree.text in ("+", "-", "*", "/", "%"):
            left, right = (self.value(child, mask) for child in tree.children)
            return self._combined(tree.text, left, right)
        if tree.kind == "call":
            return self._called(tree, mask)
        if tree.kind == "condition" or is_truth(tree):
            return self._selected(tree, mask)
        return Unknown(self.loaded(tree) or f"depends on {_description(tree)}")

    def _negated(self, tree: Node, mask: int) -> Value:
        value = self.value(tree.children[0], mask)
        if tree.text == "+":
            return value
        zero = self.code.constant(0 if tree.text == "-" else -1)
        return self._combined("-", zero, value)

    def _combined(self, operation: str, left: Value, right: Value) -> Value:
        if isinstance(left, Unknown):
            return left
        if isinstance(right, Unknown):
            return right
        kind, known = _OPERATIONS[operation], self.code.constants
        if left in known and right in known:
            if known[right] == 0 and kind in _DIVISIONS:
                return Unknown("depends on a division by 0")
            return self.code.constant(operate.py_func(kind, known[left], known[right]))
        return self.code.value(c.COMPUTE, kind, left, right)

    def _called(self, tree: Node, mask: int) -> Value:
        if tree.text in ("gid", "lid") and tree.children[0].kind == "number":
            axis = int(tree.children[0].text)
            return (GROUP if tree.text == "gid" else LANE) + axis
        name = _TYPE_SUFFIX.sub("", tree.text)
        if name in _OPERATIONS and len(tree.children) == 2:
            left, right = (self.value(child, mask) for child in tree.children)
            return self._combined(name, left, right)
        return Unknown(self.loaded(tree) or f"depends on {_description(tree)}")

    def _selected(self, tree: Node, mask: int) -> Value:
        """A conditional value, or a truth value as 0 or 1."""
        test, then, other = (
            tree.children
            if tree.kind == "condition"
            else (tree, Node("number", "1"), Node("number", "0"))
        )
        condition = self.condition(test, mask)
        if isinstance(condition, Unknown):
            return condition
        left, right = self.value(then, mask), self.value(other, mask)
        if isinstance(left, Unknown):
            return left
        if isinstance(right, Unknown):
            return right
        return self.code.value(c.SELECT, condition, left, right)

    def condition(self, tree: Node, mask: int) -> Value:
        """The lanes of a mask for which a condition holds."""
        if tree.kind == "binary" and tree.text in ("&&", "||"):
            return self._both(tree, mask)
        if tree.kind == "unary" and tree.text == "!":
            negated = self.condition(tree.children[0], mask)
            return (
                negated if isinstance(negated, Unknown) else self.code.mask(c.MINUS, mask, negated)
            )
        if tree.kind == "condition":
            return self._either(tree, mask)
        relation = c.IS_NOT_ZERO
        if is_truth(tree):
            left, right = (self.value(child, mask) for child in tree.children)
            relation = {"==": c.IS_ZERO, "!=": c.IS_NOT_ZERO}.get(tree.text, c.NOT_NEGATIVE)
            larger = tree.text in (">", ">=", "==", "!=")
            value = self._combined("-", *((left, right) if larger else (right, left)))
            if tree.text in ("<", ">"):
                value = self._combined("-", value, self.code.constant(1))
            if isinstance(left, Unknown):
                return left
        else:
            value = self.value(tree, mask)
        if isinstance(value, Unknown):
            return value
        return self.code.mask(c.COMPARE, mask, value, relation)

    def _both(self, tree: Node, mask: int) -> Value:
        first, second = tree.children
        left = self.condition(first, mask)
        if isinstance(left, Unknown):
            return left
        rest = left if tree.text == "&&" else self.code.mask(c.MINUS, mask, left)
        right = self.condition(second, rest)
        if isinstance(right, Unknown) or tree.text == "&&":
            return right
        return self.code.mask(c.JOIN, left, right)

    def _either(self, tree: Node, mask: int) -> Value:
        test, then, other = tree.children
        condition = self.condition(test, mask)
        if isinstance(condition, Unknown):
            return condition
        left = self.condition(then, condition)
        right = self.condition(other, self.code.mask(c.MINUS, mask, condition))
        if isinstance(left, Unknown):
            return left
        return right if isinstance(right, Unknown) else self.code.mask(c.JOIN, left, right)

    def loaded(self, tree: Node) -> str | None:
        """The part of an expression that only a run can determine; None if there is none."""
        if tree.is_call("_tg_probe"):
            return f"depends on the value of {self.site_name(positions(tree)[-1])}"
        if tree.kind == "name":
            value = self.names.get(tree.text)
            return value.why if isinstance(value, Unknown) else None
        for child in reversed(tree.children):
            why = self.loaded(child)
            if why is not None:
                return why
        return None


def _description(tree: Node) -> str:
    return {
        "real": "a real number",
        "index": "the content of a private or local array",
        "call": f"the function {tree.text}",
        "member": f"the field {tree.text}",
    }.get(tree.kind, f"the operation {tree.text}")


def first_position(text: str, start: int, end: int) -> int:
    """The position that a run of text[start:end] comes to first."""
    return min(int(match.group(1)) for match in _AT.finditer(text, start, end))


def has_probe(tree: Node) -> bool:
    """Whether an access, a back-edge or a barrier is inside."""
    return (
        tree.is_call("_tg_probe")
        or tree.is_call("_tg_event")
        or any(has_probe(child) for child in tree.children)
    )


def positions(tree: Node) -> list[int]:
    """All positions inside, in order of evaluation: a probe's comes after those of its operands."""
    inner = [p for child in tree.children if child.text != "TG_AT" for p in positions(child)]
    own = [int(child.children[0].text) for child in tree.children if child.is_call("TG_AT")]
    return inner + own
