"""A kernel function with probes: its probes by position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ProbeKind = Literal["load", "store", "atomic", "edge", "barrier"]


@dataclass(frozen=True)
class Probe:
    """One place in the text that writes a token.

    mark : number of its mark, -1 for back-edges and barriers
    instruction : id of the instruction; of a predicate, the instruction that it guards
    index : C text of the subscript without probes; of a back-edge, the loop's variable
    part : the field of a struct that is accessed, "" for a whole element
    gathers : whether the index itself reads memory
    line : 1-based, in the plain code; 0 of back-edges and barriers
    assigned : of a back-edge, the variables that the loop's body assigns
    index_feeds : positions of the loads that the address depends on
    feeds : those, the loads on which it depends whether the access happens, and, unless it is a load,
        those that the stored value depends on
    """

    kind: ProbeKind
    mark: int = -1
    instruction: str = ""
    array: str = ""
    index: str = ""
    part: str = ""
    gathers: bool = False
    line: int = 0
    assigned: frozenset[str] = frozenset()
    index_feeds: frozenset[int] = frozenset()
    feeds: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Program:
    """One kernel function.

    sizes : the sizes that it takes as arguments: (array, None) is the number of elements of an array,
        (array, axis) the extent of one axis
    """

    name: str
    probes: tuple[Probe, ...]
    sizes: tuple[tuple[str, int | None], ...]
