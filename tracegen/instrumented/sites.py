"""The access sites of a Loopy kernel function: their names, lines and sizes, and their subscripts in the user's kernel."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from loopy.symbolic import IdentityMapper
from pymbolic import primitives as p

from memsim.trace import AccessSite, SourceLocation
from tracegen.instrumented.marks import Mark, MarkTable
from tracegen.instrumented.probes import Probe, Program
from tracegen.recording.sites import unique
from tracegen.workloads.fortran import LINE_ID
from tracegen.workloads.origin import Origin


@dataclass(frozen=True)
class UserFile:
    """The user's own file: its name, None where it is not known, its text, and where the kernel was made."""

    name: str | None = None
    text: str = ""
    origin: Origin | None = None

    @classmethod
    def read(cls, name: str | None, origin: Origin | None = None) -> UserFile:
        """A file that cannot be read has no text."""
        if name is None:
            return cls()
        try:
            return cls(name, Path(name).read_text(encoding="utf-8"), origin)
        except (OSError, UnicodeDecodeError):
            return cls(name)

    def line_of(self, instruction: str, array: str, text: str) -> int | None:
        """The 1-based line of an access; that of the call that makes the kernel where its text is made by a
        program; None where neither is known."""
        known = self.origin.line(instruction, array, text) if self.origin else None
        known = known or user_line(self.text, instruction, text)
        return known or (self.origin.call if self.origin else None)


_PREFIX = {"load": "", "store": "store ", "atomic": "atomic "}


class StaticAccess(NamedTuple):
    """What the probe of an access stands for.

    key : equal for copies of one access, which share a site
    label : the site's name, before names are made unique
    offset_bytes : offset of the accessed bytes in the element that the probe's index selects
    """

    key: Hashable
    label: str
    offset_bytes: int
    size_bytes: int
    source: SourceLocation


def site_map(
    probes: Sequence[Probe], accesses: Sequence[StaticAccess | None]
) -> tuple[tuple[AccessSite, ...], tuple[int, ...]]:
    """The sites of a kernel function, and the site of each position, -1 for back-edges and barriers.

    accesses : by position
    """
    members: dict[Hashable, list[int]] = {}
    for position, access in enumerate(accesses):
        if access is not None:
            members.setdefault(access.key, []).append(position)
    numbers = {key: number for number, key in enumerate(members)}
    site_of = tuple(-1 if access is None else numbers[access.key] for access in accesses)
    firsts = [accesses[positions[0]] for positions in members.values()]
    names = unique([first.label for first in firsts if first is not None])
    sites = []
    for name, positions, first in zip(names, members.values(), firsts, strict=True):
        assert first is not None
        probe = probes[positions[0]]
        feeds = sorted({site_of[feed] for at in positions for feed in probes[at].index_feeds})
        sites.append(
            AccessSite(
                name=name,
                array=probe.array,
                direction=probe.kind,  # type: ignore[arg-type]
                itemsize_bytes=first.size_bytes,
                instruction=probe.instruction,
                source=first.source,
                depends_on=tuple(names[feed] for feed in feeds),
            )
        )
    return tuple(sites), site_of


def static_accesses(
    program: Program,
    table: MarkTable,
    kernel: Any,
    element_bytes: Mapping[str, int],
    user: UserFile,
) -> list[StaticAccess | None]:
    """The static accesses of one kernel function, by position.

    Copies of one access in an unrolled loop have the same key.
    """
    described: dict[Any, StaticAccess] = {}
    return [
        None
        if probe.mark < 0
        else _static_access(probe, table.marks[probe.mark], kernel, element_bytes, user, described)
        for probe in program.probes
    ]


def _static_access(
    probe: Probe,
    mark: Mark,
    kernel: Any,
    element_bytes: Mapping[str, int],
    user: UserFile,
    described: dict[Any, StaticAccess],
) -> StaticAccess:
    is_guard = not mark.instruction
    key = (
        probe.instruction,
        is_guard,
        mark.kind,
        str(mark.expression),
        0 if is_guard else mark.occurrence,
        mark.component,
        mark.field_name,
    )
    if key not in described:
        line = user.line_of(probe.instruction, mark.array, readable(mark.expression))
        source = SourceLocation(
            generated_line=probe.line,
            user_file=None if line is None else user.name,
            user_line=line,
        )
        part = _part(kernel, mark, element_bytes[mark.array])
        described[key] = StaticAccess(key, _name(mark), *part, source)
    return described[key]


def user_line(source: str, instruction: str, text: str) -> int | None:
    """The 1-based line of the user's file with this instruction id, or the only one with the text."""
    if not source:
        return None
    if numbered := re.fullmatch(rf"{LINE_ID}(\d+)(?:_.*)?", instruction):
        return int(numbered.group(1))
    lines = source.splitlines()
    by_id = re.compile(rf"\bid\s*=\s*{re.escape(instruction)}\b")
    numbers = [n for n, line in enumerate(lines, 1) if instruction and by_id.search(line)]
    if len(numbers) != 1:
        wanted = re.compile(r"(?<!\w)" + re.escape("".join(text.split())))
        numbers = [n for n, line in enumerate(lines, 1) if wanted.search("".join(line.split()))]
    return numbers[0] if len(numbers) == 1 else None


def _name(mark: Mark) -> str:
    return mark.tag or _PREFIX[mark.kind] + readable(mark.expression) + _suffix(mark)


def _suffix(mark: Mark) -> str:
    if mark.field_name is not None:
        return f".{mark.field_name}"
    return "" if mark.component is None else f".s{mark.component:x}"


def _part(kernel: Any, mark: Mark, element: int) -> tuple[int, int]:
    """Byte offset of an access within its element, and the number of bytes that it requests."""
    dtype = kernel.get_var_descriptor(mark.array).dtype.numpy_dtype
    if mark.field_name is not None and not kernel.target.is_vector_dtype(
        kernel.get_var_descriptor(mark.array).dtype
    ):
        part, offset = dtype.fields[mark.field_name][:2]
        return int(offset), int(part.itemsize)
    return 0, element


def readable(expression: Any) -> str:
    """A subscript as in the user's kernel: without tags, and with the halves of split inames joined."""
    text = str(_Readable()(expression))
    return re.sub(r" \+ -(?=\d)", " - ", re.sub(r" \+ \(-1\)\*", " - ", text))


class _Readable(IdentityMapper):  # type: ignore[misc]
    def map_tagged_variable(self, expr: Any, *args: Any) -> Any:
        return p.Variable(expr.name)

    def map_sum(self, expr: Any, *args: Any) -> Any:
        children = list(_flat([self.rec(child) for child in expr.children]))
        while (pair := _halves(children)) is not None:
            inner, outer, whole = pair
            children = [
                whole if k == inner else child for k, child in enumerate(children) if k != outer
            ]
        return children[0] if len(children) == 1 else p.Sum(tuple(children))


def _flat(children: Sequence[Any]) -> Sequence[Any]:
    flat: list[Any] = []
    for child in children:
        flat += _flat(child.children) if isinstance(child, p.Sum) else [child]
    return flat


def _halves(children: Sequence[Any]) -> tuple[int, int, Any] | None:
    for k, inner in enumerate(children):
        if not (isinstance(inner, p.Variable) and inner.name.endswith("_inner")):
            continue
        whole = inner.name.removesuffix("_inner")
        for m, outer in enumerate(children):
            factors = outer.children if isinstance(outer, p.Product) else ()
            if any(isinstance(f, p.Variable) and f.name == f"{whole}_outer" for f in factors):
                return k, m, p.Variable(whole)
    return None
