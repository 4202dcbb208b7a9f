"""From probes to named access sites, addresses and the tables of the merge."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from memsim.trace import AccessSite, ArrayExtent, SourceLocation
from tracegen.instrumented.mark_table import Mark, MarkTable
from tracegen.instrumented.subscripts import readable
from tracegen.probes.program import Probe, Program
from tracegen.recording import sequences
from tracegen.recording.subgroup import KINDS, ProbeTables
from tracegen.workloads.fortran import LINE_ID

FIRST_BASE_BYTES = 1 << 20
BASE_ALIGNMENT_BYTES = 256
_PREFIX = {"load": "", "store": "store ", "atomic": "atomic "}


@dataclass(frozen=True)
class SiteMap:
    """The sites of one launch, and each position's site, byte offset in its element and size."""

    sites: tuple[AccessSite, ...]
    site_of: tuple[int, ...]
    offset_bytes: tuple[int, ...]
    size_bytes: tuple[int, ...]


def allocate(sizes_bytes: Mapping[str, int]) -> tuple[ArrayExtent, ...]:
    """The address map: arrays in the given order from FIRST_BASE_BYTES on, each 256-byte aligned."""
    base, extents = FIRST_BASE_BYTES, []
    for name, size in sizes_bytes.items():
        extents.append(ArrayExtent(name=name, base_bytes=base, size_bytes=size))
        base += -(-max(size, 1) // BASE_ALIGNMENT_BYTES) * BASE_ALIGNMENT_BYTES
    return tuple(extents)


def site_map(
    program: Program,
    table: MarkTable,
    kernel: Any,
    element_bytes: Mapping[str, int],
    source: str,
    file: str | None,
) -> SiteMap:
    """Names the static accesses of one kernel function.

    Copies of one access in an unrolled loop share a site; source is the text of the user's file, or
    "".
    """
    numbers: dict[Any, int] = {}
    members: list[list[int]] = []
    site_of, offsets, sizes = [], [], []
    for position, probe in enumerate(program.probes):
        if probe.mark < 0:
            site_of.append(-1)
            offsets.append(0)
            sizes.append(0)
            continue
        mark = table.marks[probe.mark]
        guard = not mark.instruction
        key = (
            probe.instruction,
            guard,
            mark.kind,
            str(mark.expression),
            0 if guard else mark.occurrence,
            mark.component,
            mark.field_name,
        )
        number = numbers.setdefault(key, len(numbers))
        if number == len(members):
            members.append([])
        members[number].append(position)
        site_of.append(number)
        offset, size = _part(kernel, mark, element_bytes[mark.array])
        offsets.append(offset)
        sizes.append(size)
    names = unique([_name(table.marks[program.probes[m[0]].mark]) for m in members])
    sites = []
    for name, positions in zip(names, members, strict=True):
        probe = program.probes[positions[0]]
        mark = table.marks[probe.mark]
        line = user_line(source, probe.instruction, readable(mark.expression))
        feeds = sorted({site_of[f] for at in positions for f in program.probes[at].index_feeds})
        sites.append(
            AccessSite(
                name=name,
                array=mark.array,
                direction=mark.kind,  # type: ignore[arg-type]
                itemsize_bytes=sizes[positions[0]],
                instruction=probe.instruction,
                source=SourceLocation(
                    generated_line=probe.line,
                    user_file=None if line is None else file,
                    user_line=line,
                ),
                depends_on=tuple(names[feed] for feed in feeds),
            )
        )
    return SiteMap(tuple(sites), tuple(site_of), tuple(offsets), tuple(sizes))


def tables(
    probes: Sequence[Probe],
    sites: SiteMap,
    bases: Mapping[str, int],
    element_bytes: Mapping[str, int],
) -> ProbeTables:
    """What `subgroup.merge` must know of each position."""
    key = sequences.keys(probes)
    kill_offset, kill = sequences.ragged(sequences.kills(probes))
    feeds = [sorted({sites.site_of[f] for f in probe.feeds}) for probe in probes]
    feed_offset, feed = sequences.ragged(feeds)
    return ProbeTables(
        kind=np.array([KINDS[probe.kind] for probe in probes], np.uint8),
        site=np.array(sites.site_of, np.int32),
        base=np.array(
            [
                bases.get(probe.array, 0) + offset
                for probe, offset in zip(probes, sites.offset_bytes, strict=True)
            ],
            np.int64,
        ),
        stride=np.array([element_bytes.get(probe.array, 0) for probe in probes], np.int64),
        size=np.array(sites.size_bytes, np.int64),
        key=np.array(key, np.int32),
        kill_offset=kill_offset,
        kill=kill,
        closes=np.array([probe.closes for probe in probes], np.int32),
        feed_offset=feed_offset,
        feed=feed,
        n_key=max(key, default=-1) + 1,
        n_site=len(sites.sites),
        most_granules=max(
            (
                _most_granules(size, element_bytes[probe.array])
                for probe, size in zip(probes, sites.size_bytes, strict=True)
                if size
            ),
            default=1,
        ),
    )


def _most_granules(size: int, stride: int) -> int:
    """The most granules that one lane's access touches; arrays are 256-byte aligned."""
    aligned = stride % size == 0 and (32 % size == 0 or size % 32 == 0)
    return -(-size // 32) if aligned else (size + 62) // 32


def user_line(source: str, instruction: str, text: str) -> int | None:
    """The 1-based line of the user's file with this instruction id, or the only one with the text."""
    if not source:
        return None
    if numbered := re.fullmatch(rf"{LINE_ID}(\d+)(?:_.*)?", instruction):
        return int(numbered.group(1))
    lines = source.splitlines()
    by_id = re.compile(rf"\bid\s*=\s*{re.escape(instruction)}\b")
    found = [n for n, line in enumerate(lines, 1) if instruction and by_id.search(line)]
    if len(found) != 1:
        wanted = re.compile(r"(?<!\w)" + re.escape("".join(text.split())))
        found = [n for n, line in enumerate(lines, 1) if wanted.search("".join(line.split()))]
    return found[0] if len(found) == 1 else None


def _name(mark: Mark) -> str:
    return mark.tag or _PREFIX[mark.kind] + readable(mark.expression) + _suffix(mark)


def _suffix(mark: Mark) -> str:
    if mark.field_name is not None:
        return f".{mark.field_name}"
    return "" if mark.component is None else f".s{mark.component:x}"


def unique(names: Sequence[str]) -> list[str]:
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return result


def _part(kernel: Any, mark: Mark, element: int) -> tuple[int, int]:
    """Byte offset in the element, and bytes, that an access asks for."""
    dtype = kernel.get_var_descriptor(mark.array).dtype.numpy_dtype
    if mark.field_name is not None and not kernel.target.is_vector_dtype(
        kernel.get_var_descriptor(mark.array).dtype
    ):
        part, offset = dtype.fields[mark.field_name][:2]
        return int(offset), int(part.itemsize)
    return 0, element
