"""What may be done to a workload, and a workload after it: transformations, each of which is a line of Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import loopy as lp
import numpy as np

from calib.advice import transformations
from calib.counting import sizes_of
from tracegen import Workload

MODULES = {"lp": lp, "advice": transformations}


@dataclass(frozen=True)
class Step:
    """One call of a transformation: what a line of advice says is what is executed.

    function : `lp.` or `advice.` and its name;  arguments, keywords : after the kernel
    """

    function: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The line, for a kernel that is named `knl`."""
        parts = ["knl", *map(_shown, self.arguments)]
        parts += [f"{name}={_shown(value)}" for name, value in self.keywords.items()]
        return f"knl = {self.function}({', '.join(parts)})"

    def apply(self, kernel: Any) -> Any:
        module, _, name = self.function.partition(".")
        return getattr(MODULES[module], name)(kernel, *self.arguments, **self.keywords)


def step(function: str, *arguments: Any, **keywords: Any) -> Step:
    return Step(function, arguments, keywords)


@dataclass(frozen=True, kw_only=True)
class Relaid:
    """An array in another layout.

    parts : elements into which the last axis is divided, which become an axis behind it; 0 for none
    order : the axes, those made by `parts` included, from the slowest to the fastest; None for the order
        that they have
    padding : elements at the end of each row
    """

    array: str
    parts: int = 0
    order: tuple[int, ...] | None = None
    padding: int = 0

    @property
    def moves(self) -> bool:
        """Whether elements are stored at other places, rather than called by another index."""
        return self.order is not None or bool(self.padding)

    @property
    def text(self) -> str:
        """What its owner does to it."""
        name = self.array
        if self.padding:
            more = f"{self.padding} more element{'s' * (self.padding > 1)}"
            return f"# give each row of {name} {more}"
        if not self.parts:
            return f"# store {name} with the axes {self.order} from the slowest to the fastest"
        if self.order is None:
            view = f"{name}.reshape(*{name}.shape[:-1], -1, {self.parts})"
            return f"# {name} is {view}: the same bytes"
        return f"# {name} is np.asfortranarray({name}.reshape(-1, {self.parts})): field by field"

    def change(self, value: Any) -> Any:
        """The array's values in this layout. Raises ValueError where `parts` does not divide the last axis."""
        if self.parts:
            value = value.reshape(*value.shape[:-1], -1, self.parts)
        if self.order is not None:
            return np.ascontiguousarray(value.transpose(self.order)).transpose(
                np.argsort(self.order)
            )
        return np.pad(value, [(0, 0)] * (value.ndim - 1) + [(0, self.padding)])

    def restore(self, value: Any) -> Any:
        """The values as the user's kernel gives them; an order of axes does not change an index."""
        value = value[..., : value.shape[-1] - self.padding]
        return value.reshape(*value.shape[:-2], -1) if self.parts else value


MOST_GROUP_ITEMS, LEAST_GROUP_ITEMS = 1024, 32


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What a remedy proposes: steps that are to be tried together.

    what : a phrase for people;  layouts : of arguments that change with them
    """

    what: str
    steps: tuple[Step, ...]
    layouts: tuple[Relaid, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A workload, and the steps that made it of the user's.

    layouts : of arguments, which the user changes outside the kernel
    """

    workload: Workload
    steps: tuple[Step, ...] = ()
    layouts: tuple[Relaid, ...] = ()

    @property
    def code(self) -> tuple[str, ...]:
        """The lines that make it."""
        return (*(step.text for step in self.steps), *(one.text for one in self.layouts))

    def then(self, steps: tuple[Step, ...], layouts: tuple[Relaid, ...] = ()) -> Variant:
        """The variant after further steps. Raises what Loopy raises where it refuses one."""
        kernel = self.workload.kernel
        for one in steps:
            kernel = one.apply(kernel)
        arguments = dict(self.workload.arguments)
        if layouts:  # a size may follow from the shape of an array that changes
            arguments |= sizes_of(self.workload)
        for layout in layouts:
            if layout.array in arguments:
                arguments[layout.array] = layout.change(arguments[layout.array])
        workload = dataclasses.replace(
            self.workload, kernel=kernel, arguments=arguments, check=None
        )
        return Variant(
            workload=workload,
            steps=(*self.steps, *steps),
            layouts=(*self.layouts, *layouts),
        )

    def restored(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs in the layout that the user's workload has."""
        outputs = dict(outputs)
        for layout in reversed(self.layouts):
            if layout.array in outputs:
                outputs[layout.array] = layout.restore(outputs[layout.array])
        return outputs


def _shown(value: Any) -> str:
    if isinstance(value, frozenset):
        return f"frozenset({{{', '.join(map(repr, sorted(value)))}}})"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        inside = ", ".join(map(_shown, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_shown(k)}: {_shown(v)}" for k, v in value.items()) + "}"
    return repr(value)
