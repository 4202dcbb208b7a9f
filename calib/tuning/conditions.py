"""Conditions between parameters, `bx*by <= 1024 and bx % 32 == 0`, in the syntax of Python.

Only arithmetic, comparisons, `and`, `or`, `not`, `a if b else c`, `min`, `max` and `abs` are allowed, so no
text can run anything else or take long: there are no powers and no shifts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from calib.words import shown, whole
from memsim.errors import MemsimError

_FUNCTIONS = {"min": min, "max": max, "abs": abs}
_ALLOWED = (
    *(ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.UAdd),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod),
    *(ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.IfExp),
    *(ast.Name, ast.Load, ast.Constant, ast.Call),
)
_LONGEST = 2000
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")


class ConditionError(MemsimError):
    """A condition cannot be read, or cannot be evaluated for a configuration."""


class Condition:
    """A condition on the parameters of a space. Raises ConditionError where it cannot be read.

    text : as it was given
    names : the parameters
    """

    def __init__(self, text: str, names: Sequence[str]) -> None:
        self.text = text
        if len(text) > _LONGEST:
            raise ConditionError(f"--where is longer than {_LONGEST} letters: {shown(text)}")
        try:
            tree = ast.parse(text.strip(), mode="eval")
            for node in ast.walk(tree):
                self._check(node, names)
            self._code = compile(tree, "--where", "eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ConditionError(
                f"--where {shown(text)} is not an expression like 'bx*by <= 1024'"
            ) from error

    def holds(self, configuration: Mapping[str, str]) -> bool:
        """Whether a configuration satisfies it. Raises ConditionError, for example for text that is added."""
        values: dict[str, Any] = {name: number(value) for name, value in configuration.items()}
        try:
            return bool(eval(self._code, {"__builtins__": {}, **_FUNCTIONS}, values))
        except (TypeError, ArithmeticError, ValueError) as error:
            where = " ".join(f"{name}={value}" for name, value in configuration.items())
            raise ConditionError(f"--where {shown(self.text)} fails at {where}: {error}") from error

    def _check(self, node: ast.AST, names: Sequence[str]) -> None:
        if not isinstance(node, _ALLOWED):
            raise ConditionError(
                f"--where {shown(self.text)}: {type(node).__name__} is not allowed; arithmetic,"
                " comparisons, and, or, not, if, min, max and abs are"
            )
        if isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and not node.keywords
        ):
            raise ConditionError(f"--where {shown(self.text)} may call only min, max and abs")
        if isinstance(node, ast.Name) and node.id not in {*names, *_FUNCTIONS}:
            raise ConditionError(
                f"--where {shown(self.text)}: {node.id} is not among the parameters {', '.join(names)}"
            )


def number(text: str) -> int | float | str:
    """A value as a number where it is one."""
    value = whole(text)
    if value is not None:
        return value
    return float(text) if _NUMBER.fullmatch(text) else text
