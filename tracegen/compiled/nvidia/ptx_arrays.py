"""Which kernel parameter the address of a PTX access derives from.

Values flow from parameters through moves, additions and calls to addresses. Loaded values and products
are no addresses of an array, so nothing flows through them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_GUARD = re.compile(r"@!?%?\w+\s+")
_NAME = re.compile(r"%?[A-Za-z_$][\w$]*")
_CALL = re.compile(
    r"call\S*\s+(?:\((?P<results>[^)]*)\)\s*,\s*)?(?P<callee>[\w$]+)\s*(?:,\s*\((?P<arguments>[^)]*)\))?"
)
_OPERAND = re.compile(r"\s*(\{[^}]*\}|\[[^\]]*\]|[^,;{}\[\]]+)\s*[,;]?")
_POINTER_OPERANDS = {
    "mov": (1,),
    "cvta": (1,),
    "cvt": (1,),
    "add": (1, 2),
    "addc": (1, 2),
    "sub": (1,),
    "subc": (1,),
    "selp": (1, 2),
    "mad": (3,),
    "madc": (3,),
    "and": (1,),
    "or": (1, 2),
    "min": (1, 2),
    "max": (1, 2),
    "ld.param": (1,),
    "st.param": (1,),
}
"""Operands of an instruction whose value may be an address that its result derives from."""
_ACCESSES = frozenset(["ld", "ldu", "st", "atom", "red", "prefetch", "cp"])

_Place = tuple[str, int, str]
"""A register or a parameter: function, scope (0 for registers), name."""


@dataclass(frozen=True)
class Statement:
    """A PTX instruction with single spaces.

    scope : 0 in the outermost braces of the function; each inner pair of braces has its own number
    """

    text: str
    scope: int


@dataclass(frozen=True)
class Function:
    """A kernel or device function: the names of its parameters and results, and its instructions."""

    name: str
    parameters: tuple[str, ...]
    results: tuple[str, ...]
    statements: list[Statement]


def arrays(
    functions: Sequence[Function], parameter_names: Mapping[str, Sequence[str]] | None
) -> list[str | None]:
    """For each instruction of the functions in order, the array that it accesses, None if unclear.

    parameter_names : of the kernels to be followed; None for all, with the names of the text.
    Registers are followed without regard to the order of instructions: a register that holds
    addresses of two arrays at different times belongs to neither.
    """
    graph = _Graph({function.name: function for function in functions})
    called = {callee for function in functions for callee in graph.add(function)}
    for function in functions:
        if parameter_names is None and function.name not in called:
            graph.follow(function, function.parameters)
        elif parameter_names is not None:
            graph.follow(function, parameter_names.get(function.name, ()))
    return [
        graph.array(function, statement)
        for function in functions
        for statement in function.statements
    ]


class _Graph:
    """Where values flow, and the arrays that reach each place.

    flows : place -> places that derive from it;  origins : place -> names of arrays
    """

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self.functions = functions
        self.flows: dict[_Place, list[_Place]] = defaultdict(list)
        self.origins: dict[_Place, set[str]] = defaultdict(set)

    def add(self, function: Function) -> Iterator[str]:
        """Adds the flows of a function; yields the functions that it calls."""
        for statement in function.statements:
            text = _GUARD.sub("", statement.text, count=1)
            if call := _CALL.match(text):
                if callee := self.functions.get(call["callee"]):
                    self._add_call(function, statement.scope, call, callee)
                    yield callee.name
                continue
            opcode, operands = _split(text)
            key = ".".join(opcode[:2]) if opcode[1:2] == ["param"] else opcode[0]
            for index in _POINTER_OPERANDS.get(key, ()):
                for source in self._places(function, statement.scope, operands[index : index + 1]):
                    targets = self._places(function, statement.scope, operands[:1])
                    self.flows[source].extend(targets)

    def _add_call(
        self, function: Function, scope: int, call: re.Match[str], callee: Function
    ) -> None:
        for name, parameter in zip(
            _NAME.findall(call["arguments"] or ""), callee.parameters, strict=False
        ):
            self.flows[self._place(function, scope, name)].append((callee.name, 0, parameter))
        for name, result in zip(_NAME.findall(call["results"] or ""), callee.results, strict=False):
            self.flows[(callee.name, 0, result)].append(self._place(function, scope, name))

    def _places(self, function: Function, scope: int, operands: Sequence[str]) -> Iterator[_Place]:
        for operand in operands:
            for name in _NAME.findall(operand):
                yield self._place(function, scope, name)

    @staticmethod
    def _place(function: Function, scope: int, name: str) -> _Place:
        """Every call has parameters of the same names, in braces of its own."""
        own = name.startswith("%") or name in function.parameters or name in function.results
        return (function.name, 0 if own else scope, name)

    def follow(self, kernel: Function, names: Sequence[str]) -> None:
        """Marks every place that a parameter reaches with the parameter's name."""
        for parameter, name in zip(kernel.parameters, names, strict=False):
            waiting: list[_Place] = [(kernel.name, 0, parameter)] if name else []
            while waiting:
                place = waiting.pop()
                if name not in self.origins[place]:
                    self.origins[place].add(name)
                    waiting.extend(self.flows[place])

    def array(self, function: Function, statement: Statement) -> str | None:
        """The only array that an access may refer to."""
        opcode, operands = _split(_GUARD.sub("", statement.text, count=1))
        if opcode[0] not in _ACCESSES or "param" in opcode:
            return None
        addresses = [operand for operand in operands if operand.startswith("[")]
        # `cp.async` copies from its second address, in global memory, to its first, in local memory.
        places = self._places(function, statement.scope, addresses[-1:])
        names = {name for place in places for name in self.origins.get(place, ())}
        return names.pop() if len(names) == 1 else None


def _split(text: str) -> tuple[list[str], list[str]]:
    """The opcode's parts and the operands: `ld.f32 %f1, [%rd1+4];` -> [ld, f32], [%f1, [%rd1+4]]."""
    opcode, _, rest = text.rstrip(";").partition(" ")
    return opcode.split("."), [operand.strip() for operand in _OPERAND.findall(rest)]
