"""From a parsed kernel to the program with probes, and the meaning of the probes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tracegen.c_source.statements import closing
from tracegen.opencl_c import probe_source
from tracegen.opencl_c.aliases import aliased
from tracegen.opencl_c.cursors import is_pointer, pointee_space, span
from tracegen.opencl_c.near_arrays import near_arrays, reachable
from tracegen.opencl_c.near_pointers import Guard, Near
from tracegen.opencl_c.near_source import near_begin, near_head
from tracegen.opencl_c.parse import Program as Parsed
from tracegen.opencl_c.recorder import ProbedAccess, Recorder
from tracegen.opencl_c.statements import Statements
from tracegen.probes.program import Probe, Program

_EMPTY = re.compile(r"\(\s*(?:void)?\s*\)")


@dataclass(frozen=True)
class Array:
    """A buffer that a kernel takes.

    names : the parameters that point to it; the first one names it
    unit_bytes : bytes that an index counts, a divisor of every offset that is accessed
    element_bytes : size of the type that the parameter points to
    """

    names: tuple[str, ...]
    unit_bytes: int
    element_bytes: int

    @property
    def name(self) -> str:
        return self.names[0]


@dataclass(frozen=True)
class Probed:
    """A kernel with probes.

    accesses : indexed by the marks of its probes
    local_bytes : of its arrays in local memory
    subscripts : array and line of each subscript of other than global memory that is checked
    guards : the accesses to other than global memory through pointers
    """

    source: str
    program: Program
    accesses: tuple[ProbedAccess, ...]
    arrays: tuple[Array, ...]
    local_bytes: int
    subscripts: tuple[tuple[str, int, int], ...]
    guards: tuple[Guard, ...]


def instrument(
    parsed: Parsed, kernel: Any, buffers: Mapping[str, str], given: Mapping[str, int]
) -> Probed:
    """Walks a kernel and everything that it calls, and puts probes at its accesses.

    buffers : parameter that points to global memory -> the parameter that names its buffer
    given : parameter that points to local or constant memory -> its bytes
    Raises KernelError, with the user's line, for what cannot be traced.
    """
    reached = reachable(kernel, parsed.functions)
    near = Near(reached, near_arrays(kernel, reached, given, parsed.text.text))
    recorder = Recorder(parsed.text, near, stateful=near.owners(reached))
    walk = Statements(recorder, parsed.functions)
    bound = {
        int(parameter.location.offset): frozenset([buffers[parameter.spelling]])
        for parameter in kernel.get_arguments()
        if parameter.spelling in buffers
    }
    walk.enter(kernel.get_usr(), bound, [])
    recorder.stateful.add(kernel.get_usr())
    arrays = _arrays(kernel, buffers, recorder.accesses)
    probes = _finished(recorder, kernel, buffers)
    _frame(recorder, parsed, kernel, arrays)
    text = recorder.edits.applied(parsed.text.text)
    sizes = tuple((array.name, None) for array in arrays)
    return Probed(
        source=_head(recorder, arrays) + text,
        program=Program(kernel.spelling, probes, sizes),
        accesses=tuple(recorder.accesses),
        arrays=arrays,
        local_bytes=near.local_bytes,
        subscripts=tuple(
            (array, line, extent) for (_, extent), (array, line) in recorder.subscripts.items()
        ),
        guards=tuple(near.guards),
    )


def _arrays(
    kernel: Any, buffers: Mapping[str, str], accesses: list[ProbedAccess]
) -> tuple[Array, ...]:
    arrays = []
    elements = {
        parameter.spelling: parameter.type.get_canonical().get_pointee().get_size()
        for parameter in kernel.get_arguments()
        if parameter.spelling in buffers
    }
    for name in dict.fromkeys(buffers.values()):
        names = tuple(parameter for parameter, buffer in buffers.items() if buffer == name)
        aligned = [access.align_bytes for access in accesses if name in access.arrays]
        arrays.append(Array(names, min(aligned, default=1), max(elements[name], 1)))
    return tuple(arrays)


def _finished(recorder: Recorder, kernel: Any, buffers: Mapping[str, str]) -> tuple[Probe, ...]:
    """The probes with what feeds them and which other arrays a store may change."""
    feeds = recorder.flow.feeds()
    may_alias = aliased(kernel, buffers, [probe.array for probe in recorder.probes])
    return tuple(
        replace(
            probe,
            index_feeds=index_feeds,
            feeds=all_feeds,
            aliases=may_alias.get(probe.array, frozenset()),
        )
        for probe, (index_feeds, all_feeds) in zip(recorder.probes, feeds, strict=True)
    )


def _head(recorder: Recorder, arrays: tuple[Array, ...]) -> str:
    number = {array.name: k for k, array in enumerate(arrays)}
    sets: dict[tuple[int, ...], int] = {}
    chosen = []
    for probe in recorder.probes:
        key: tuple[int, ...] = ()
        if probe.mark >= 0:
            key = tuple(sorted(number[name] for name in recorder.accesses[probe.mark].arrays))
        chosen.append(sets.setdefault(key, len(sets)))
    units = [array.unit_bytes for array in arrays]
    near, guards = recorder.near.reached, list(recorder.near.guards)
    checks = near_head(near, guards) if guards else ""
    return probe_source.head(units, list(sets), recorder.where, chosen, len(near), checks)


def _frame(recorder: Recorder, parsed: Parsed, kernel: Any, arrays: tuple[Array, ...]) -> None:
    """Adds parameters to functions, and a beginning and an end to the kernel; drops uncalled functions."""
    text, edits = parsed.text.text, recorder.edits
    own = probe_source.arguments(len(arrays))
    for usr, cursor in parsed.declarations:
        if cursor.is_definition() and usr not in recorder.reached:
            edits.made = {
                key: new for key, new in edits.made.items() if not _inside(key[1], cursor)
            }
            start, end = span(list(cursor.get_children())[-1])
            edits.replace(start, end, ";")
        elif usr in recorder.stateful:
            is_kernel = usr == kernel.get_usr()
            new = own if is_kernel else probe_source.HELPER_ARGUMENTS
            opening = text.index("(", cursor.location.offset)
            end = closing(text, opening)
            if _EMPTY.fullmatch(text, opening, end + 1):
                edits.replace(opening, end + 1, f"({new})")
            elif is_kernel:
                edits.insert(end, f", {new}")
            else:
                edits.insert(opening + 1, f"{new}, ")
    start, end = span(list(kernel.get_children())[-1])
    names = [array.name for array in arrays]
    begin = probe_source.prologue(names)
    near = recorder.near.reached
    if near:
        begin += near_begin(near, list(recorder.near.guards))
    edits.insert(start + 1, begin)
    for number, array in enumerate(near):
        if array.announced is not None:
            edits.insert(array.announced, array.announcement(number))
    edits.insert(end - 1, " _tg_finish(_tg);\n")


def _inside(offset: int, cursor: Any) -> bool:
    start, end = span(cursor)
    return start <= offset < end


def points_to(parameter: Any) -> str:
    """The address space that a parameter points to: global, constant or local; "" for other types."""
    return pointee_space(parameter.type) if is_pointer(parameter.type) else ""
