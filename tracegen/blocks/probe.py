"""The source that counts events: a variable for each event, written to memory at the kernel's end.

A compiler keeps the variables in registers, and turns those of loops with known trip counts into
products, so that counting costs next to nothing. The recording build writes the numbers of the events
instead, in order, for `merge.py` to line lanes up; a work-item writes none beyond its room.
"""

from __future__ import annotations

import re

from tracegen.blocks.model import Cut, Insertion
from tracegen.instrumented.marks import strip

ARGUMENTS = (
    "__global uint *_bc_count, __global ushort *_bc_token, __global const long *_bc_offset,"
    " uint _bc_items, uint _bc_first, uint _bc_g0, uint _bc_g1"
)
_GID = re.compile(r"^#define gid\(N\) \(\((\w+)\) get_group_id\(N\)\)$", re.MULTILINE)
HEAD = """
#ifdef BC_RECORD
#define BC_HIT(E) (_bc_at < _bc_end ? (void) (_bc_token[_bc_at] = (E)) : (void) 0, _bc_at++)
#define BC_STORE(E)
#define BC_TOOK _bc_count[_bc_row] = (uint) min(_bc_at - _bc_offset[_bc_row], (long) UINT_MAX);
#else
#define BC_TOOK
#define BC_HIT(E) (_bc_c##E++)
#define BC_STORE(E) _bc_count[(ulong) (E) * _bc_items + _bc_row] = _bc_c##E;
#endif
"""
_ROW = """
  uint const _bc_row = get_group_id(0) * (uint) (get_local_size(0) * get_local_size(1) * get_local_size(2))
    + (uint) (get_local_id(0) + get_local_size(0) * (get_local_id(1) + get_local_size(1) * get_local_id(2)));
"""
_GROUPS = """
  uint const _bc_group = _bc_first + (uint) get_group_id(0);
  uint const _bc_gid0 = _bc_group % _bc_g0, _bc_gid1 = _bc_group / _bc_g0 % _bc_g1;
  uint const _bc_gid2 = _bc_group / _bc_g0 / _bc_g1;
"""


def counting_source(text: str, cuts: list[Cut], *, by_batches: bool) -> str:
    """The program with its events counted, or recorded with -DBC_RECORD.

    text : marked or plain, as it was cut
    by_batches : whether a launch runs some groups only, from _bc_first on along one axis. Possible for
        Loopy's text, where all group ids come from the macro gid; otherwise a launch has its own grid
    """
    insertions: list[Insertion] = []
    for cut in cuts:
        function = cut.function
        end = function.arguments_end
        insertions.append(Insertion(end, end, function.further(ARGUMENTS)))
        insertions.append(
            Insertion(function.body_start, function.body_start, _prologue(cut, by_batches))
        )
        insertions += _with_ends(cut)
        insertions.append(Insertion(function.body_end, function.body_end, f"{_flush(cut)}\n"))
    pieces, position = [], 0
    for insertion in sorted(insertions, key=lambda each: each.start):
        pieces += [text[position : insertion.start], insertion.text]
        position = insertion.end
    source = strip("".join([*pieces, text[position:]]))
    if by_batches:
        source = _GID.sub(r"#define gid(N) ((\1) _bc_gid##N)", source)
    return HEAD + source


def _prologue(cut: Cut, by_batches: bool) -> str:
    counters = ", ".join(f"_bc_c{event} = 0" for event in range(cut.n_events))
    row = _ROW if by_batches else _ROW.replace("get_group_id(0) *", "_BC_GROUP *")
    row = row.replace(
        "_BC_GROUP",
        "(uint) (get_group_id(0) + get_num_groups(0)"
        " * (get_group_id(1) + get_num_groups(1) * get_group_id(2)))",
    )
    parts = [row, _GROUPS if by_batches else ""]
    parts.append(
        "\n#ifdef BC_RECORD\n  long _bc_at = _bc_offset[_bc_row], _bc_end = _bc_offset[_bc_row + 1];\n#else\n"
    )
    parts.append(f"  uint {counters};\n" if counters else "")
    parts.append("#endif\n")
    return "".join(parts)


def _flush(cut: Cut) -> str:
    """Writes the counts of a work-item, or the number of its events where these are recorded."""
    return " ".join(["BC_TOOK", *(f"BC_STORE({event})" for event in range(cut.n_events))])


def _with_ends(cut: Cut) -> list[Insertion]:
    return [
        Insertion(each.start, each.end, each.text.replace("BC_FLUSH", _flush(cut)))
        for each in cut.insertions
    ]
