"""Accesses to local arrays, which have no marks: the text of a block is searched for the names of the arrays."""

from __future__ import annotations

import re
from typing import Literal

from tracegen.blocks.model import Block, BlockAccess, Cut
from tracegen.blocks.text import plain as plain_text
from tracegen.c_source.statements import assignment_offset

_LOCAL = re.compile(r"__local [\w ]+?(\w+)(?=\[|;)")
_SUBSCRIPT = re.compile(r"([A-Za-z_]\w*)\[")


def local_accesses(text: str, cut: Cut, block: Block) -> list[BlockAccess]:
    """Accesses to local arrays in a block, by their names."""
    body = plain_text(text[cut.function.body_start : cut.function.body_end])
    names = set(_LOCAL.findall(body))
    accesses = []
    for start, end in block.spans:
        plain = plain_text(text[start:end])
        if plain.startswith("__local"):
            continue
        whole = plain.endswith(";") and not plain.startswith("for")
        left = assignment_offset(plain, 0, len(plain) - 1) if whole else None
        for match in _SUBSCRIPT.finditer(plain):
            if match.group(1) in names:
                # The first subscript left of the `=` is stored to; subscripts inside it are read.
                stored = left is not None and match.start() == 0
                direction: Literal["load", "store"] = "store" if stored else "load"
                accesses.append(BlockAccess("local", direction, match.group(1)))
    return accesses
