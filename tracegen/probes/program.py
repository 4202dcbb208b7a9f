"""A probed kernel function as the rest of the tracer sees it: its probes by position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ProbeKind = Literal["load", "store", "atomic", "edge", "barrier"]


@dataclass(frozen=True)
class Probe:
    """One place of the text that writes a token.

    mark : number of its mark, -1 for back-edges and barriers
    instruction : the one whose statement it stands in; a predicate's is the one that it guards
    index : plain C text of the subscript, or the loop's variable of a back-edge
    part : the field of a struct that is accessed, "" for all of an element
    gathers : the index reads memory itself
    line : 1-based, in the plain code
    first, last : of a back-edge, the positions of the loop's body
    assigned : of a back-edge, the variables that the loop's body assigns
    closes : position of the back-edge that follows this access in any case, and so has no token
    index_feeds : positions of the loads whose values decide the address
    feeds : those, and the ones that decide whether the access happens and, unless it is a load,
        what it writes
    aliases : other arrays that a store may change, as far as a compiler can tell
    """

    kind: ProbeKind
    mark: int = -1
    instruction: str = ""
    array: str = ""
    index: str = ""
    part: str = ""
    gathers: bool = False
    line: int = 0
    first: int = 0
    last: int = 0
    assigned: frozenset[str] = frozenset()
    closes: int = -1
    index_feeds: frozenset[int] = frozenset()
    feeds: frozenset[int] = frozenset()
    aliases: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Program:
    """One kernel function: its probes by position, and the sizes that it is passed.

    sizes : (array, None) is the array's number of elements, (array, axis) the extent of one axis
    """

    name: str
    probes: tuple[Probe, ...]
    sizes: tuple[tuple[str, int | None], ...]
