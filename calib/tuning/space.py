"""A space of configurations: parameters with the values they may take, and conditions between them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from calib.tuning.conditions import Condition
from calib.words import shown, whole
from memsim.errors import MemsimError

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
