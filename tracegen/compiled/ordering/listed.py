"""The instructions of machine code as a table that a trace carries for reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from tracegen.compiled.model import Instruction, MachineCode
from tracegen.compiled.ordering.matching import Match

MOST_INSTRUCTIONS = 5000
MOST_CHARACTERS = 160
"""Of an instruction's text; the longest of SASS and CDNA have about 100."""
NO_SITE = -1


def code_table(
    code: MachineCode,
    matching: Match,
    site_of: Sequence[int],
    scalar_site_of: Mapping[int, int],
    private_sites: Sequence[int],
) -> dict[str, Any]:
    """The first instructions in columns; the reader is memsim.report.compiled.

    site_of : the site of each position of a probe
    scalar_site_of : site -> that of its scalar loads, where it is another
    private_sites : the site of each access to private memory, in the order of the code
    """
    sites = _sites(code, matching, site_of, scalar_site_of, private_sites)
    numbered = zip(_instructions(code), sites, strict=True)
    rows = list(islice(numbered, MOST_INSTRUCTIONS))
    return {
        "n_instructions": sum(len(block.instructions) for block in code.blocks),
        "text": [" ".join(one.text.split())[:MOST_CHARACTERS] for one, _ in rows],
        "pipe": [one.pipe for one, _ in rows],
        "line": [one.location.line if one.location else 0 for one, _ in rows],
        "site": [site for _, site in rows],
    }


def _instructions(code: MachineCode) -> Iterator[Instruction]:
    return (instruction for block in code.blocks for instruction in block.instructions)


def _sites(
    code: MachineCode,
    matching: Match,
    site_of: Sequence[int],
    scalar_site_of: Mapping[int, int],
    private_sites: Sequence[int],
) -> Iterator[int]:
    """The site of each instruction; accesses performed together have the site of the first."""
    covers, private = iter(matching.covers), iter(private_sites)
    for instruction in _instructions(code):
        if instruction.is_traced:
            cover = next(covers)
            site = site_of[cover[0]] if cover else NO_SITE
            yield scalar_site_of.get(site, site) if instruction.pipe == "scalar" else site
        elif instruction.memory is not None and instruction.memory.space == "private":
            yield next(private)
        else:
            yield NO_SITE
