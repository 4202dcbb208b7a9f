"""Code that counts its basic blocks: only what decides where lanes go, and an addition for the lanes of each block."""

from __future__ import annotations

import dataclasses

import numpy as np

from tracegen.execution.code import Code
from tracegen.execution.operations import ALWAYS, OPERATIONS, ZERO_ROW, MicroOperation
from tracegen.execution.slicing import sliced

_BLOCK, _BRANCH = OPERATIONS["BLOCK"].number, OPERATIONS["BRANCH"].number
_GATHERING = frozenset(OPERATIONS[name].number for name in ("BARRIER", "JOIN_WAIT", "SYNC_LANES"))
"""Lanes meet behind these, at the segment that follows."""
_Y = MicroOperation._fields.index("y")


def counting(code: Code, *, values: bool) -> tuple[Code, int]:
    """The code, and the first of its rows with a counter for each basic block.

    Each lane adds to its own counters; they keep what groups that ran before have added. Segments of a block that
    accesses alone divide are joined.

    values : whether everything else is computed, too, for launches that follow
    """
    code = code if values else sliced(code, accesses=False)
    first_segments: dict[int, int] = {}
    for number, segment in enumerate(code.segments):
        first_segments.setdefault(segment.block, number)
    one, counters = code.n_rows, code.n_rows + 1
    guard = 2 * next((mask for mask, name in code.masks.items() if name == "exec"), ALWAYS // 2)
    rows: list[list[int]] = []
    place = []
    for row in code.table.tolist():
        place.append(len(rows))
        if row[0] == _BLOCK:
            block = code.segments[row[_Y]].block
            begins = first_segments[block] == row[_Y]
            if not begins and rows[-1][0] not in _GATHERING:
                continue
            rows.append(row)
            if begins:
                at = counters + block
                add = MicroOperation(
                    OPERATIONS["ADD3"].number, guard, d=at, a=at, b=one, c=ZERO_ROW, z=row[-1]
                )
                rows.append(list(add))
            continue
        rows.append(row)
    place.append(len(rows))
    for row in rows:
        if row[0] == _BRANCH:
            row[_Y] = place[row[_Y]]
    changed = dataclasses.replace(
        code,
        table=np.array(rows, np.int32).reshape(-1, len(MicroOperation._fields)),
        n_rows=counters + max(first_segments, default=-1) + 1,
        constants={**code.constants, one: 1},
        places={address: place[at] for address, at in code.places.items()},
    )
    return changed, counters
