"""The sites of executed machine code: an instruction's line and array."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.trace import BARRIER_SITE, AccessSite, SourceLocation
from tracegen.compiled.model import Instruction, MachineCode
from tracegen.executed.labels import label, shortened
from tracegen.execution import operations as o
from tracegen.execution.code import Code
from tracegen.execution.slicing import address_loads
from tracegen.machine_code.bound import BoundKernel, KnownAccess
from tracegen.recording.sites import unique

PRIVATE_MEMORY = "private memory"
MOST_INSTRUCTIONS, MOST_CHARACTERS, NO_SITE = 5000, 160, -1
DIRECTIONS = dict(zip(o.numbers(*o.ACCESSES), ("load", "store", "atomic"), strict=True))
_ASSIGNED, _SUBSCRIPTED = re.compile(r"(?<![=!<>])=(?!=)"), re.compile(r"\b[A-Za-z_]\w*\s*\[")
_IN_TRITON = r"\btl\.(?:load|store|atomic_\w+)"
_CALLED = re.compile(
    rf"({_IN_TRITON})\(\s*((?:\[[^\[\]]*\]|\((?:[^()]|\([^()]*\))*\)|[^,()\[\]\s]|\s+(?=\S))+)(?=\s*[,)])"
)
"""An access in Triton, and its pointers."""
MOST_LINES = 12
"""Lines that are searched for the end of a call."""
Place = tuple[int, int]
"""Number of an access in the code, and of the array that it meets."""


class Sites:
    """Sites as they are met: instructions of one place in the text that access one array in one direction share one.

    code : what addresses depend on;  places : instruction of each access of the code
    """

    def __init__(self, bound: BoundKernel, code: Code, places: list[int]) -> None:
        self.bound, self.code, self.places = bound, code, places
        self.instructions = bound.code.instructions
        self.regions = [
            (region.extent.name, region.hidden) for region in bound.launch_to_read.regions
        ]
        is_access = [row for row in code.table.tolist() if row[0] in DIRECTIONS]
        self.flags = [(row[0], row[9]) for row in is_access]
        self.met: dict[int, int] = {}
        self.keys: dict[Any, int] = {}
        self.members: list[list[Place]] = []

    def numbers(self, access: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """The site of each access, BARRIER_SITE for a barrier; see Recorded.access."""
        n_region = len(self.regions) + 1
        for found in np.unique(access[access >= 0]).tolist():
            if found not in self.met:
                self.met[found] = self._site(*divmod(found, n_region))
        table = np.full(len(self.places) * n_region + 1, BARRIER_SITE, np.int32)
        for found, site in self.met.items():
            table[found] = site
        return table[access]

    def _site(self, place: int, region: int) -> int:
        key = self._key(place, region)
        if key not in self.keys:
            self.keys[key] = len(self.members)
            self.members.append([])
            self.__dict__.pop("sites", None)
        self.members[self.keys[key]].append((place, region))
        return self.keys[key]

    def _key(self, place: int, region: int) -> Any:
        instruction = self.instructions[self.places[place]]
        direction, x = self._direction(place), self.flags[place][1]
        if region == len(self.regions):
            return PRIVATE_MEMORY, direction, bool(x & o.SPILL)
        known = self._known(instruction, self.regions[region][0], direction)
        where = known or instruction.location or self.places[place]
        return where, self.regions[region][0], direction, bool(x & o.ONE_LANE)

    def _direction(self, place: int) -> str:
        return DIRECTIONS[self.flags[place][0]]

    def _known(self, instruction: Instruction, array: str, direction: str) -> KnownAccess | None:
        """What the program that generated the text says of an access; of several on a line, the nearest is not known, so
        it must be the only one."""
        if instruction.location is None:
            return None
        on_line = self._by_line.get((instruction.location.line, array, direction), [])
        return on_line[0] if len(on_line) == 1 else None

    @functools.cached_property
    def _by_line(self) -> dict[tuple[int, str, str], list[KnownAccess]]:
        found: dict[tuple[int, str, str], list[KnownAccess]] = {}
        for access in self.bound.accesses:
            found.setdefault((access.line, access.array, access.direction), []).append(access)
        return found

    @functools.cached_property
    def sites(self) -> tuple[AccessSite, ...]:
        """Those met so far; further ones are added behind them."""
        labels = unique([self._label(members[0]) for members in self.members])
        made = []
        for name, members in zip(labels, self.members, strict=True):
            place, region = members[0]
            direction, x = self._direction(place), self.flags[place][1]
            instruction = self.instructions[self.places[place]]
            is_private = region == len(self.regions)
            array = PRIVATE_MEMORY if is_private else self.regions[region][0]
            known = self._known(instruction, array, direction)
            made.append(
                AccessSite(
                    name=name,
                    array=array,
                    direction=direction,  # type: ignore[arg-type]
                    itemsize_bytes=4
                    if is_private
                    else max(self.flags[p][1] >> o.BYTES & 63 for p, _ in members),
                    instruction=known.instruction if known else "",
                    source=self._source(instruction, known, is_private),
                    depends_on=() if is_private else self._feeds(members, labels),
                    bypasses_l1=direction == "load" and bool(x & o.BYPASS_L1),
                    nontemporal=direction == "store" and bool(x & o.NONTEMPORAL),
                    floating=direction == "atomic" and bool(x & o.FLOATING),
                    scalar=direction == "load" and bool(x & o.ONE_LANE),
                    bulk=x & 7 == o.BULK,
                )
            )
        return tuple(made)

    def _source(
        self, instruction: Instruction, known: KnownAccess | None, private: bool
    ) -> SourceLocation:
        if known is not None:
            return known.source
        if instruction.location is None or private:
            return SourceLocation()
        return self.bound.source(instruction.location.line)

    def _label(self, member: Place) -> str:
        place, region = member
        instruction, direction = self.instructions[self.places[place]], self._direction(place)
        if region == len(self.regions):
            what = "spilled registers" if self.flags[place][1] & o.SPILL else PRIVATE_MEMORY
            return f"store {what}" if direction == "store" else what
        array = self.regions[region][0]
        known = self._known(instruction, array, direction)
        if known is not None:
            text = known.label
        elif instruction.location is not None and 1 <= instruction.location.line <= len(
            self._lines
        ):
            at = instruction.location
            text = access_text(line_of(self._lines, at.line), at.column, array, direction)
        elif self._lines:
            text = f"{direction} of {array}"
        else:  # a stranger's code, without its source
            where = f" at {instruction.address:#x}" if instruction.address >= 0 else ""
            text = f"{direction} of {array}, {instruction.opcode}{where}"
        return f"{text}, scalar" if self.flags[place][1] & o.ONE_LANE else text

    @functools.cached_property
    def _lines(self) -> list[str]:
        return self.bound.lines

    @functools.cached_property
    def _address_loads(self) -> list[frozenset[int]]:
        return address_loads(self.code)

    def _feeds(self, members: list[Place], labels: list[str]) -> tuple[str, ...]:
        """Sites whose loaded values the addresses derive from."""
        loads = {load for place, _ in members for load in self._address_loads[place]}
        n_region = len(self.regions) + 1
        feeds = {self.met[f] for f in self.met if f // n_region in loads}
        feeds -= {self.keys[self._key(*member)] for member in members}
        return tuple(labels[k] for k in sorted(feeds))

    def of_instruction(self) -> dict[int, int]:
        """Number of an instruction -> its site, of those that have one."""
        n_region = len(self.regions) + 1
        return {
            self.places[found // n_region]: site
            for found, site in sorted(self.met.items(), reverse=True)
        }


def line_of(lines: Sequence[str], number: int) -> str:
    """A line, from 1; with those that follow while an access in Triton that it contains is not closed."""
    line = lines[number - 1]
    if not re.search(rf"{_IN_TRITON}\(", line):
        return line
    for part in lines[number : number + MOST_LINES]:
        if line.count("(") <= line.count(")"):
            break
        line = f"{line.partition('#')[0].rstrip()} {part.strip()}"
    return line


def access_text(line: str, column: int, array: str, direction: str) -> str:
    """The text of an access in its line. NVIDIA's compiler tells where a statement begins, clang where an expression does.

    Several expressions may be meant. What the line calls otherwise, as a pointer into an array, is named if it is the only one.
    """
    calls = list(_CALLED.finditer(line))
    if called := min(calls, key=lambda m: abs(m.start() + 1 - column), default=None):
        return shortened(f"{called[1]}({called[2].strip()})")
    text = label(line, max(column, 1), direction)
    if direction == "atomic":
        return text if any(sign in text for sign in "([*>") else f"atomic of {array}"
    assigned = _ASSIGNED.search(line)
    before = line[: assigned.start()] if assigned else ""
    named = [label(line, m.start() + 1, "load") for m in _SUBSCRIPTED.finditer(line)]
    left = " ".join(before.rstrip("+-*/%&|^ ").split())
    target = next((one for one in named if left.endswith(one)), None)
    if direction == "store" and target is not None:
        named = [target]
    elif target is not None and before[-1:] not in tuple("+-*/%&|^"):
        named.remove(target)
    named = list(dict.fromkeys(named))
    prefix = "store " if direction == "store" else ""
    own = [one for one in named if re.match(rf"{re.escape(array)}\b", one)]
    is_statement = direction == "load" and column - 1 <= len(line) - len(line.lstrip())
    if not is_statement and text.removeprefix(prefix) in (own or named):
        return text
    if own:
        more = (
            "" if len(own) < 2 else f" and {own[-1] if len(own) == 2 else f'{len(own) - 1} more'}"
        )
        return prefix + own[0] + more
    if len(named) == 1:
        return prefix + named[0]
    if not is_statement and any(sign in text for sign in "*>("):
        return text
    return f"{direction} of {array}"


def code_table(code: MachineCode, sites: Sites) -> dict[str, Any]:
    """The first instructions in columns; the reader is memsim.report.compiled."""
    instructions = sites.instructions
    site_of = sites.of_instruction()
    rows = list(islice(instructions, MOST_INSTRUCTIONS))
    return {
        "n_instructions": len(instructions),
        "text": [" ".join(one.text.split())[:MOST_CHARACTERS] for one in rows],
        "pipe": [one.pipe for one in rows],
        "line": [one.location.line if one.location else 0 for one in rows],
        "site": [site_of.get(k, NO_SITE) for k in range(len(rows))],
    }
