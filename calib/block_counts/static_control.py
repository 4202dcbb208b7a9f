"""The points at which a block runs, as an isl set, from the branches and loops of Loopy's C code.

A branch or loop that is not affine in ids, sizes and loop counters is refused with a reason. The
counts of the blocks that it controls must be learned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import islpy as isl

from calib.polynomials.isl_forms import DIM, aligned
from memsim.errors import KernelError
from tracegen.blocks import Control
from tracegen.c_source import Node, Unreadable, integer, loop_header, parse

_FLOOR = re.compile(r"loopy_floor_div(?:_pos_b)?_\w+")
_MODULO = re.compile(r"loopy_mod(?:_pos_b)?_\w+")
_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda a, b: a.lt_set(b),
    "<=": lambda a, b: a.le_set(b),
    ">": lambda a, b: a.gt_set(b),
    ">=": lambda a, b: a.ge_set(b),
    "==": lambda a, b: a.eq_set(b),
    "!=": lambda a, b: a.ne_set(b),
}


class DataDependent(KernelError):
    """Control flow that depends on values in memory, or is not affine for another reason."""


@dataclass(frozen=True)
class Frame:
    """A launch's work-items as an isl.Set over host loops, group axes and local axes.

    names : of its dims, as in the kernel's text: `gid(0)`, `lid(0)`, the variable of a loop
    n_host : number of dims of the host's loops, which come first
    n_outside : number of dims of the host's loops and of the group axes together
    assigned : private variable -> all expressions, as text, that the kernel assigns to it
    """

    points: Any
    names: tuple[str, ...]
    n_host: int
    n_outside: int
    local_sizes: tuple[int | None, ...]
    assigned: Mapping[str, Sequence[str]]


def points_under(frame: Frame, controls: Sequence[Control]) -> Any:
    """The points at which code inside these branches and loops runs; loops add dims.

    Raises DataDependent, which gives the reason.
    """
    domain, names = frame.points, frame.names
    for control in controls:
        if control.kind == "after":
            raise DataDependent(
                f"whether it is reached depends on a jump out of 'if ({control.text})'"
            )
        if control.kind == "loop":
            domain, names = _with_loop(domain, names, control.text, frame)
        else:
            reader = _AffineReader(domain, names, frame)
            holds = reader.condition(_tree(control.text))
            domain = reader.domain & holds if control.kind == "then" else reader.domain - holds
    return domain.coalesce()


def _with_loop(
    domain: Any, names: tuple[str, ...], header: str, frame: Frame
) -> tuple[Any, tuple[str, ...]]:
    loop = loop_header(header)
    if loop is None:
        name = f"the loop 'while ({header})'" if header else "a do loop"
        raise DataDependent(f"{name} has no counter")
    name = loop.counter
    if not name:
        raise DataDependent(f"the loop 'for ({header})' declares no counter")
    step = _step(name, loop.updates, header)
    n = domain.dim(DIM.set)
    wide = domain.add_dims(DIM.set, 1).set_dim_name(DIM.set, n, _dim_name(name, n))
    reader = _AffineReader(wide, (*names, name), frame)
    counter = reader.value(Node("name", name))
    start = reader.value(_tree(loop.first))
    inside = reader.condition(_tree(loop.test)) & reader.set_of(counter.ge_set(start))
    if step > 1:
        turns = (counter - start).mod_val(isl.Val(step))
        inside &= reader.set_of(turns.eq_set(turns - turns))
    return reader.domain & inside, (*names, name)


def _step(name: str, updates: tuple[str, ...], header: str) -> int:
    text = ", ".join(updates)
    if text in (f"++{name}", f"{name}++"):
        return 1
    match = re.fullmatch(rf"{name} (?:\+= |= {name} \+ )(\d+)", text)
    if match is None or int(match.group(1)) < 1:
        raise DataDependent(f"the loop 'for ({header})' does not count up by a number")
    return int(match.group(1))


def _dim_name(name: str, n: int) -> str:
    return f"_v{n}_{re.sub(r'[^A-Za-z0-9]', '_', name)}"


def _tree(text: str) -> Node:
    try:
        return parse(text)
    except Unreadable as error:
        raise DataDependent(f"'{text}' cannot be read: {error}") from error


class _AffineReader:
    """Converts expressions to affine functions of the dims of one set."""

    def __init__(self, domain: Any, names: Sequence[str], frame: Frame) -> None:
        self.domain, self.names, self.frame = domain, list(names), frame
        self.space = isl.LocalSpace.from_space(domain.get_space())
        self.following: list[str] = []

    def set_of(self, points: Any) -> Any:
        points = isl.Set.from_basic_set(points) if isinstance(points, isl.BasicSet) else points
        points, self.domain = aligned(points, self.domain)
        return points

    def condition(self, tree: Node) -> Any:
        if tree.kind == "binary" and tree.text in ("&&", "||"):
            left, right = (self.condition(child) for child in tree.children)
            left, right = aligned(left, right)
            return left & right if tree.text == "&&" else left | right
        if tree.kind == "unary" and tree.text == "!":
            (child,) = tree.children
            return self.domain - self.condition(child)
        if tree.kind == "binary" and tree.text in _COMPARED:
            left, right = (self.value(child) for child in tree.children)
            return self.set_of(_COMPARED[tree.text](left, right))
        value = self.value(tree)
        return self.set_of(value.ne_set(value - value))

    def value(self, tree: Node) -> Any:
        if tree.kind == "number":
            return self._constant(integer(tree.text))
        if tree.kind == "name":
            return self._named(tree.text)
        if tree.kind == "cast" and "float" not in tree.text and "double" not in tree.text:
            return self.value(tree.children[0])
        if tree.kind == "unary" and tree.text in "+-":
            value = self.value(tree.children[0])
            return value if tree.text == "+" else -value
        if tree.kind == "binary" and tree.text in ("+", "-"):
            left, right = (self.value(child) for child in tree.children)
            return left + right if tree.text == "+" else left - right
        if tree.kind == "binary" and tree.text == "*":
            return self._product(*tree.children)
        if tree.kind == "binary" and tree.text in ("/", "%"):
            left, right = self.value(tree.children[0]), self._number(tree.children[1])
            over = self._constant(right)
            return left.tdiv_q(over) if tree.text == "/" else left.tdiv_r(over)
        if tree.kind == "call":
            return self._called(tree)
        if tree.kind == "condition":
            return self._either(*tree.children)
        if tree.kind == "index":
            raise DataDependent(f"it reads memory: {tree!s}")
        raise DataDependent(f"'{tree!s}' is not affine")

    def _either(self, condition: Node, then: Node, other: Node) -> Any:
        holds = self.condition(condition)
        everywhere = isl.Set.universe(holds.get_space())
        one = self.value(then).intersect_domain(holds)
        return one.union_add(self.value(other).intersect_domain(everywhere - holds))

    def _called(self, tree: Node) -> Any:
        words = [str(child) for child in tree.children]
        name = f"{tree.text}({', '.join(words)})"
        if name in self.names:
            return self._named(name)
        if tree.text in ("gid", "lid"):
            return self._constant(0)
        if tree.text in ("min", "max"):
            left, right = (self.value(child) for child in tree.children)
            return left.min(right) if tree.text == "min" else left.max(right)
        if _FLOOR.fullmatch(tree.text) or _MODULO.fullmatch(tree.text):
            left, number = self.value(tree.children[0]), self._number(tree.children[1])
            if number > 0:
                if _MODULO.fullmatch(tree.text):
                    return left.mod_val(isl.Val(number))
                return left.scale_down_val(isl.Val(number)).floor()
        raise DataDependent(f"'{name}' is not affine")

    def _product(self, left: Node, right: Node) -> Any:
        for one, other in ((left, right), (right, left)):
            try:
                factor = self._number(one)
            except DataDependent:
                continue
            return self.value(other).scale_val(isl.Val(factor))
        raise DataDependent(f"'{left!s} * {right!s}' is a product of two variable expressions")

    def _number(self, tree: Node) -> int:
        value = self.value(tree)
        pieces = value.get_pieces()
        if len(pieces) == 1 and pieces[0][1].is_cst():
            return int(pieces[0][1].get_constant_val().to_python())
        raise DataDependent(f"'{tree!s}' is not a constant number")

    def _constant(self, value: int) -> Any:
        aff = isl.Aff.zero_on_domain(self.space).set_constant_val(isl.Val(value))
        return isl.PwAff.from_aff(aff)

    def _named(self, name: str) -> Any:
        if name in self.names:
            at = len(self.names) - 1 - self.names[::-1].index(name)
            return isl.PwAff.from_aff(isl.Aff.var_on_domain(self.space, DIM.set, at))
        at = self.domain.find_dim_by_name(DIM.param, name)
        if at >= 0:
            return isl.PwAff.from_aff(isl.Aff.var_on_domain(self.space, DIM.param, at))
        return self._private(name)

    def _private(self, name: str) -> Any:
        texts = self.frame.assigned.get(name, ())
        if len(texts) != 1 or name in self.following:
            times = f"{len(texts)} times" if texts else "nowhere"
            raise DataDependent(f"{name} is assigned {times} in the kernel")
        self.following.append(name)
        try:
            return self.value(_tree(texts[0]))
        except DataDependent as error:
            raise DataDependent(f"{name} = {texts[0]} ({error})") from error
        finally:
            self.following.pop()
