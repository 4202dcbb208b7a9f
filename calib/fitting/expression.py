"""Parses model expressions, differentiates them and evaluates them over arrays.

    p_a * f_op_float32_madd + overlap(c_gmem, c_onchip, p_edge)

Numbers, + - * / ** and parentheses; parameters `p_...`; features `f_...`, which may
contain `:{};<>` of the feature language; named costs `c_...`, which abbreviate expressions; and the
functions in FUNCTIONS and `overlap`. Nothing is executed: any other text is refused with a caret
under it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from pymbolic import primitives
from pymbolic.mapper.differentiator import DifferentiationMapper
from pymbolic.mapper.evaluator import EvaluationMapper
from pymbolic.primitives import Variable

from memsim.errors import MemsimError

Tree = Any
"""A pymbolic expression, or a number."""

MAX_LENGTH, MAX_DEPTH = 100_000, 60


class ExpressionError(MemsimError):
    """A model's expression, or a feature's name, cannot be read."""


def _contrast(a: Any, b: Any) -> Any:
    total = np.asarray(a + b, np.float64)
    return np.divide(a - b, total, out=np.zeros_like(total), where=total != 0)


def _contrast_slope(a: Any, b: Any) -> Any:
    total = np.asarray(a + b, np.float64)
    return np.divide(2.0 * b, total**2, out=np.zeros_like(total), where=total != 0)


FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "tanh": (1, np.tanh),
    "exp": (1, np.exp),
    "log": (1, np.log),
    "sqrt": (1, np.sqrt),
    "abs": (1, np.abs),
    "max": (2, np.maximum),
    "min": (2, np.minimum),
    "contrast": (2, _contrast),
}
"""Functions of expressions, with their numbers of arguments.

Where abs, max and min have no derivative, the Jacobian uses the side of the first argument.
contrast(a, b) = (a - b) / (a + b), and 0 if both are 0. In addition there is overlap(a, b, e) =
a s + b (1 - s) with s = (tanh(e contrast(a, b)) + 1) / 2: equations (5) and (6) of Stevens and
Klöckner 2020, with an edge that does not depend on the unit of the costs.
"""

_HIDDEN: dict[str, Callable[..., Any]] = {
    "_step": lambda x: np.where(np.asarray(x) >= 0, 1.0, 0.0),
    "_sign": lambda x: np.where(np.asarray(x) >= 0, 1.0, -1.0),
    "_contrast_slope": _contrast_slope,
}
"""Functions that only derivatives contain."""

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<feature>f_(?:[A-Za-z0-9_]|:\{[^{}]*\}|:[<>=!]{0,2}[A-Za-z0-9_.]+)*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<sign>\*\*|[-+*/(),])
    |(?P<end>$)
    )""",
    re.VERBOSE,
)


def parse(text: str, costs: Mapping[str, Tree] | None = None) -> Tree:
    """The tree of an expression; raises ExpressionError with a caret under what is wrong.

    costs : expressions of the names `c_...`
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"an expression has at most {MAX_LENGTH} characters, got {len(text)}")
    return _Parser(text, costs or {}).all()


def names(tree: Tree, prefix: str, *, in_calls: bool = True) -> tuple[str, ...]:
    """The variables of a tree that begin with the prefix, in order of appearance.

    in_calls : include those in arguments of functions
    """
    found = (one.name for one in subtrees(tree, in_calls=in_calls) if isinstance(one, Variable))
    return tuple(dict.fromkeys(name for name in found if name.startswith(prefix)))


def subtrees(tree: Tree, *, in_calls: bool = True) -> Iterator[Tree]:
    """A tree and all below it, in order of appearance. in_calls : include the arguments of functions"""
    yield tree
    children: tuple[Tree, ...] = ()
    if isinstance(tree, (primitives.Sum, primitives.Product)):
        children = tree.children
    elif isinstance(tree, primitives.Quotient):
        children = (tree.numerator, tree.denominator)
    elif isinstance(tree, primitives.Power):
        children = (tree.base, tree.exponent)
    elif isinstance(tree, primitives.Call) and in_calls:
        children = tree.parameters
    for child in children:
        yield from subtrees(child, in_calls=in_calls)


def derivative(tree: Tree, name: str, *, frozen_calls: bool = False) -> Tree:
    """The tree's derivative by a variable.

    frozen_calls : treat the values of functions as constants
    """
    mapper = _FrozenDerivative if frozen_calls else _Derivative
    return mapper(Variable(name), _outer_derivative)(tree)


def evaluate(tree: Tree, values: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    """The tree's value; arrays among the values broadcast.

    Undefined values, such as the root of a negative number, are nan.
    """
    return evaluate_all((tree,), values)[0]


def evaluate_all(trees: Iterable[Tree], values: Mapping[str, Any]) -> list[npt.NDArray[np.float64]]:
    """As `evaluate`, for several trees; shared subtrees are evaluated once."""
    evaluation = _Evaluation(values)
    with np.errstate(all="ignore"):
        return [np.asarray(evaluation(tree), np.float64) for tree in trees]


_REPEATED = (primitives.Call, primitives.Sum, primitives.Product, primitives.Quotient)


class _Evaluation(EvaluationMapper):  # type: ignore[misc]
    """pymbolic's evaluation with the functions of this module; repeated subtrees are evaluated
    once.

    Derivatives contain the subtrees of their expression, so subtrees are identified by object.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.known: dict[int, Any] = {}

    def rec(self, expr: Any) -> Any:
        if not isinstance(expr, _REPEATED):
            return super().rec(expr)
        key = id(expr)
        if key not in self.known:
            self.known[key] = super().rec(expr)
        return self.known[key]

    __call__ = rec

    def map_call(self, expr: Any) -> Any:
        name = expr.function.name
        function = _HIDDEN[name] if name in _HIDDEN else FUNCTIONS[name][1]
        return function(*(self.rec(argument) for argument in expr.parameters))

    def map_power(self, expr: Any) -> Any:
        base, exponent = self.rec(expr.base), self.rec(expr.exponent)
        return np.asarray(base, np.float64) ** exponent

    def map_quotient(self, expr: Any) -> Any:
        return np.divide(self.rec(expr.numerator), self.rec(expr.denominator))


class _Derivative(DifferentiationMapper):  # type: ignore[misc]
    """pymbolic's differentiation with the functions of this module."""

    def map_call(self, expr: Any) -> Any:
        terms = []
        for index, argument in enumerate(expr.parameters):
            inner = self.rec(argument)
            if not (isinstance(inner, (int, float)) and inner == 0):
                terms.append(self.function_map(index, expr.function.name, expr.parameters) * inner)
        return functools.reduce(lambda a, b: a + b, terms) if terms else 0


class _FrozenDerivative(_Derivative):
    def map_call(self, expr: Any) -> Any:
        return 0


def _outer_derivative(index: int, name: str, arguments: tuple[Any, ...]) -> Tree:
    def call(function: str, *values: Tree) -> Tree:
        return Variable(function)(*values)

    first, last = arguments[0], arguments[-1]
    this = call(name, *arguments)
    if name == "tanh":
        return 1 - this**2
    if name == "exp":
        return this
    if name == "log":
        return 1 / first
    if name == "sqrt":
        return 1 / (2 * this)
    if name == "abs":
        return call("_sign", first)
    if name in ("max", "min"):
        first_wins = call("_step", first - last if name == "max" else last - first)
        return first_wins if index == 0 else 1 - first_wins
    assert name == "contrast", name
    return (
        call("_contrast_slope", *arguments) if index == 0 else -call("_contrast_slope", last, first)
    )


class _Parser:
    """A recursive-descent parser; `place` is the position of the current token in the text."""

    def __init__(self, text: str, costs: Mapping[str, Tree]) -> None:
        self.text, self.costs = text, costs
        self.depth = 0
        self.behind = 0
        self._next()

    def all(self) -> Tree:
        tree = self._sum()
        if self.kind != "end":
            raise self._error(f"expected an operator before {self.token!r}")
        return tree

    def _next(self) -> None:
        match = _TOKEN.match(self.text, self.behind)
        if match is None:
            self.place = (
                self.behind + len(self.text[self.behind :]) - len(self.text[self.behind :].lstrip())
            )
            raise self._error(f"unexpected {self.text[self.place]!r}")
        assert match.lastgroup is not None
        self.kind, self.token = match.lastgroup, match[match.lastgroup]
        self.place, self.behind = match.start(match.lastgroup), match.end()

    def _error(self, rule: str) -> ExpressionError:
        line_start = self.text.rfind("\n", 0, self.place) + 1
        line = self.text[line_start:].split("\n", 1)[0]
        left = max(self.place - line_start - 60, 0)
        caret = " " * (self.place - line_start - left) + "^"
        return ExpressionError(f"{rule}\n  {line[left : left + 120]}\n  {caret}")

    def _take(self, sign: str) -> bool:
        if self.kind == "sign" and self.token == sign:
            self._next()
            return True
        return False

    def _demand(self, sign: str) -> None:
        if not self._take(sign):
            raise self._error(f"{sign!r} is missing")

    def _sum(self) -> Tree:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._error(f"parentheses nest at most {MAX_DEPTH} deep")
        terms = [self._product()]
        while self.kind == "sign" and self.token in "+-":
            minus = self.token == "-"
            self._next()
            term = self._product()
            terms.append(_product((-1, term)) if minus else term)
        self.depth -= 1
        return terms[0] if len(terms) == 1 else primitives.Sum(tuple(terms))

    def _product(self) -> Tree:
        tree = self._signed()
        while True:
            if self._take("*"):
                tree = _product((tree, self._signed()))
            elif self._take("/"):
                tree = primitives.Quotient(tree, self._signed())
            else:
                return tree

    def _signed(self) -> Tree:
        minus = False
        while self.kind == "sign" and self.token in "+-":
            minus ^= self.token == "-"
            self._next()
        tree = self._power()
        return _product((-1, tree)) if minus else tree

    def _power(self) -> Tree:
        base = self._atom()
        if not self._take("**"):
            return base
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._error(f"powers nest at most {MAX_DEPTH} deep")
        exponent = self._signed()
        self.depth -= 1
        return primitives.Power(base, exponent)

    def _atom(self) -> Tree:
        if self.kind == "number":
            number = float(self.token)
            if not np.isfinite(number):
                raise self._error("a number is too large")
            self._next()
            return int(number) if number.is_integer() and abs(number) < 2**53 else number
        if self.kind == "feature":
            name = self.token
            if name == "f_" or self.text[self.behind : self.behind + 1] in tuple(":{};<>"):
                self.place = self.behind
                raise self._error(f"a feature's name does not continue like this after {name!r}")
            self._next()
            return Variable(name)
        if self.kind == "name":
            return self._named()
        if self._take("("):
            tree = self._sum()
            self._demand(")")
            return tree
        if self.kind == "end":
            raise self._error("expected a value at the end of the expression")
        raise self._error(f"expected a value, got {self.token!r}")

    def _named(self) -> Tree:
        name = self.token
        if name.startswith("p_") and len(name) > 2:
            self._next()
            return Variable(name)
        if name in self.costs:
            self._next()
            return self.costs[name]
        if name not in FUNCTIONS and name != "overlap":
            raise self._error(
                f"{name!r} is none of: p_..., f_..., {', '.join(self.costs) or 'c_...'} or a"
                f" function ({', '.join(FUNCTIONS)}, overlap)"
            )
        start = self.place
        self._next()
        self._demand("(")
        arguments = [self._sum()]
        while self._take(","):
            arguments.append(self._sum())
        self._demand(")")
        n_arguments = 3 if name == "overlap" else FUNCTIONS[name][0]
        if len(arguments) != n_arguments:
            self.place = start
            raise self._error(f"{name} takes {n_arguments} arguments, got {len(arguments)}")
        if name != "overlap":
            return Variable(name)(*arguments)
        a, b, edge = arguments
        tanh, contrast = Variable("tanh"), Variable("contrast")
        switch = primitives.Quotient(1 + tanh(_product((edge, contrast(a, b)))), 2)
        return primitives.Sum(
            (_product((a, switch)), _product((b, primitives.Sum((1, _product((-1, switch)))))))
        )


def _product(factors: tuple[Tree, ...]) -> Tree:
    return primitives.Product(factors)
