"""The access sites of a probed OpenCL C kernel."""

from __future__ import annotations

from memsim.trace import SourceLocation
from tracegen.opencl_c.instrument import Probed
from tracegen.opencl_c.preprocess import Text
from tracegen.recording.sites import StaticAccess


def static_accesses(probed: Probed, text: Text) -> list[StaticAccess | None]:
    """The static accesses of a kernel, by position.

    An access in a function that is called several times has one key for each array that it reaches.
    """
    accesses: list[StaticAccess | None] = []
    for probe in probed.program.probes:
        if probe.mark < 0:
            accesses.append(None)
            continue
        access = probed.accesses[probe.mark]
        place = text.place(probe.line)
        accesses.append(
            StaticAccess(
                key=(access.start, access.end, access.kind, probe.array, access.label),
                label=access.label,
                offset_bytes=access.offset_bytes,
                size_bytes=access.size_bytes,
                source=SourceLocation(
                    generated_line=probe.line, user_file=place.file, user_line=place.line
                ),
            )
        )
    return accesses
