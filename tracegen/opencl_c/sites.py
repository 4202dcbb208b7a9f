"""The sites of a probed kernel: one for each access in the text and array that it reaches."""

from __future__ import annotations

from memsim.trace import AccessSite, SourceLocation
from tracegen.opencl_c.instrument import Probed
from tracegen.opencl_c.preprocess import Text
from tracegen.recording.sites import SiteMap, unique


def site_map(probed: Probed, text: Text) -> SiteMap:
    """Names the static accesses; those of a function that is called several times are the same."""
    numbers: dict[tuple[int, int, str, str, str], int] = {}
    members: list[list[int]] = []
    site_of, sizes, offsets = [], [], []
    probes = probed.program.probes
    for position, probe in enumerate(probes):
        if probe.mark < 0:
            site_of.append(-1)
            sizes.append(0)
            offsets.append(0)
            continue
        access = probed.accesses[probe.mark]
        key = (access.start, access.end, access.kind, probe.array, access.label)
        number = numbers.setdefault(key, len(numbers))
        if number == len(members):
            members.append([])
        members[number].append(position)
        site_of.append(number)
        sizes.append(access.size_bytes)
        offsets.append(access.offset_bytes)
    names = unique([label for *_, label in numbers])
    sites = []
    for name, positions in zip(names, members, strict=True):
        probe = probes[positions[0]]
        place = text.place(probe.line)
        feeds = sorted({site_of[feed] for at in positions for feed in probes[at].index_feeds})
        sites.append(
            AccessSite(
                name=name,
                array=probe.array,
                direction=probe.kind,  # type: ignore[arg-type]
                itemsize_bytes=sizes[positions[0]],
                instruction=probe.instruction,
                source=SourceLocation(
                    generated_line=probe.line, user_file=place.file, user_line=place.line
                ),
                depends_on=tuple(names[feed] for feed in feeds),
            )
        )
    return SiteMap(tuple(sites), tuple(site_of), tuple(offsets), tuple(sizes))
