"""Access sites, the address map, and the tables that the merge reads."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from memsim.trace import AccessSite, ArrayExtent, SourceLocation
from tracegen.probes.program import Probe
from tracegen.recording import sequences
from tracegen.recording.subgroup import KINDS, ProbeTables

FIRST_BASE_BYTES = 1 << 20
BASE_ALIGNMENT_BYTES = 256


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


def site_map(probes: Sequence[Probe], accesses: Sequence[StaticAccess | None]) -> SiteMap:
    """The sites of a kernel function.

    accesses : by position; None for back-edges and barriers
    """
    numbers: dict[Hashable, int] = {}
    members: list[list[int]] = []
    site_of = [-1] * len(probes)
    for position, access in enumerate(accesses):
        if access is not None:
            number = numbers.setdefault(access.key, len(numbers))
            if number == len(members):
                members.append([])
            members[number].append(position)
            site_of[position] = number
    firsts = [(positions, accesses[positions[0]]) for positions in members]
    names = unique([first.label for _, first in firsts if first is not None])
    sites = []
    for name, (positions, first) in zip(names, firsts, strict=True):
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
    offsets = tuple(0 if access is None else access.offset_bytes for access in accesses)
    sizes = tuple(0 if access is None else access.size_bytes for access in accesses)
    return SiteMap(tuple(sites), tuple(site_of), offsets, sizes)


def tables(
    probes: Sequence[Probe],
    sites: SiteMap,
    bases: Mapping[str, int],
    element_bytes: Mapping[str, int],
) -> ProbeTables:
    """What `subgroup.merge` reads of each position."""
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


def unique(names: Sequence[str]) -> list[str]:
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return result
