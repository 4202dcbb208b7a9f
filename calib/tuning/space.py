"""A space of configurations: parameters with the values they may take, and conditions between them.

Conditions, `bx*by <= 1024 and bx % 32 == 0`, are in the syntax of Python. Only arithmetic, comparisons, `and`, `or`,
`not`, `a if b else c`, `min`, `max` and `abs` are allowed, so no text can run anything else or take long: there are no
powers and no shifts.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calib.words import whole
from memsim.errors import MemsimError
from memsim.visible import shown

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


Configuration = Mapping[str, str]
"""TunedParameter -> value, as `--set` would have it."""

MOST_VALUES = 4096
MOST_COMBINATIONS = 1 << 22


class SpaceError(MemsimError):
    """A parameter, a condition or a whole space makes no sense."""


@dataclass(frozen=True)
class TunedParameter:
    """A parameter and its values, in the order of the text."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Space:
    """The combinations of the parameters' values that satisfy all conditions."""

    parameters: tuple[TunedParameter, ...]
    conditions: tuple[Condition, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(parameter.name for parameter in self.parameters)

    @property
    def n_combinations(self) -> int:
        """Without the conditions."""
        return math.prod(len(parameter.values) for parameter in self.parameters)

    def configurations(self) -> list[dict[str, str]]:
        """All of them, the last parameter varying fastest.

        Raises SpaceError where there are too many combinations, or no configuration: it then names a
        condition that no combination satisfies, where there is one.
        """
        if self.n_combinations > MOST_COMBINATIONS:
            raise SpaceError(
                f"{self.n_combinations} combinations of {', '.join(self.names)} are more than"
                f" {MOST_COMBINATIONS}"
            )
        kept = [one for one in self._combinations() if all(c.holds(one) for c in self.conditions)]
        if kept:
            return kept
        for condition in self.conditions:
            if not any(condition.holds(one) for one in self._combinations()):
                raise SpaceError(f"no combination satisfies --where {shown(condition.text)}")
        raise SpaceError(
            "no combination satisfies all of --where "
            + ", ".join(shown(condition.text) for condition in self.conditions)
        )

    def _combinations(self) -> Iterator[dict[str, str]]:
        for values in itertools.product(*(parameter.values for parameter in self.parameters)):
            yield dict(zip(self.names, values, strict=True))


def parse_space(parameters: Sequence[str], conditions: Sequence[str] = ()) -> Space:
    """A space from texts like `bx=16,32,64`, `tile=1:8`, `n=64:512:64` and `bx*by<=1024`.

    LOW:HIGH and LOW:HIGH:STEP are whole numbers, both ends included. Raises SpaceError.
    """
    parsed = [parse_parameter(text) for text in parameters]
    names = [parameter.name for parameter in parsed]
    if not names:
        raise SpaceError("a space needs a parameter: --over NAME=VALUES")
    for name in names:
        if names.count(name) > 1:
            raise SpaceError(f"--over gives {name} more than once")
    return Space(tuple(parsed), tuple(Condition(text, names) for text in conditions))


def parse_parameter(text: str) -> TunedParameter:
    """A parameter from `NAME=VALUE,VALUE,LOW:HIGH,...`. Raises SpaceError."""
    name, equals, listed = text.partition("=")
    if not equals or not name.isidentifier():
        raise SpaceError(f"--over must be NAME=VALUE,VALUE or NAME=LOW:HIGH, got {shown(text)}")
    values: list[str] = []
    for word in listed.split(","):
        values += _values(text, word.strip())
        if len(values) > MOST_VALUES:
            raise SpaceError(f"--over {name} has more than {MOST_VALUES} values")
    if len(set(values)) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise SpaceError(f"--over {name} has the value {shown(twice)} twice")
    return TunedParameter(name, tuple(values))


def _values(text: str, word: str) -> Sequence[str]:
    """The values of a word between commas."""
    if not word:
        raise SpaceError(f"--over has an empty value in {shown(text)}")
    ends = [whole(end) for end in word.split(":")]
    if len(ends) == 1 or None in ends:
        return [word]
    low, high, step, *more = [*(end for end in ends if end is not None), 1]
    if not (low <= high and step > 0 and len(more) <= 1 and (len(ends) < 4)):
        raise SpaceError(
            f"--over ranges are LOW:HIGH or LOW:HIGH:STEP with LOW <= HIGH and STEP > 0, got {shown(word)}"
        )
    numbers = range(low, high + 1, step)
    if len(numbers) > MOST_VALUES:
        raise SpaceError(f"--over {shown(word)} has more than {MOST_VALUES} values")
    return [str(number) for number in numbers]


def name_of(configuration: Configuration) -> str:
    """`bx=32 by=4`."""
    return " ".join(f"{name}={value}" for name, value in configuration.items())
