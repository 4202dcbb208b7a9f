"""What is needed of lanes that do not work, by the masks that may let them work again.

AMD's code saves exec, lets fewer lanes work, and restores exec from the mask that was saved. Lanes that were not saved do not
work afterwards, so what only working lanes read is not needed of them. For a set of masks, Needs has the variables that lanes which are
neither in exec nor in any of these masks may need; the empty set's are those of all lanes that do not work. Of any set of masks,
no more is needed than of each of its subsets. Going backwards, where the lanes of a mask are let work, what lanes outside it need is
what those needed that still do not work; and where a mask takes the value of exec, all lanes outside exec are outside of it.
"""

from __future__ import annotations

import itertools

from tracegen.execution import operations as o
from tracegen.execution.operations import ALWAYS, MicroOperation

Needs = dict[int, int]
"""Bits of masks, 0 with no mask among them -> bits of variables. A mask is the bit of its variable, or of the first of the rows
that hold it."""
MOST_MASKS = 6
"""Of a set; sets of more are left out, which is safe."""
UNKNOWN = -1


def of(needs: Needs, masks: int) -> int:
    """What lanes need that are in none of the masks."""
    found = needs[0]
    for some, needed in needs.items():
        if some & masks == some:
            found &= needed
    return found


def joined(one: Needs, other: Needs) -> Needs:
    """What is needed where lanes go either way."""
    if one == other:
        return one
    return {masks: of(one, masks) | of(other, masks) for masks in {*one, *other}}


def lanes_of(name: str, row: MicroOperation, n_rows: int, executing: int) -> int:
    """The masks in one of which each lane was that a micro-operation puts into the mask that it writes; UNKNOWN where it may be any.

    As bits of variables, which begin with n_rows rows. executing : the number of exec, which is told where there is a choice
    """
    if name == "ROWS_TO_MASK":
        return 1 << row.a
    if name == "MASK_TO_ROWS":
        return 1 << n_rows + (row.m >> 1) if row.m > ALWAYS and not row.m & 1 else UNKNOWN
    if name == "MOVE2" and row.guard == ALWAYS:
        return 1 << row.a if row.a != o.ZERO_ROW else 0
    if name.startswith("COMPARE"):
        within = row.x & (o.COMBINE_OR | o.COMBINE_XOR) == o.COMBINE_AND and not row.m & 1
        return 1 << n_rows + (row.m >> 1) if within and row.m > ALWAYS else UNKNOWN
    if name != "MASK_LOGIC3" or row.guard != ALWAYS:
        return UNKNOWN
    sources = (row.m, row.n, row.y)
    masks = sorted({source >> 1 for source in sources} - {ALWAYS >> 1})
    masks.sort(key=lambda mask: mask != executing)
    for n in range(len(masks) + 1):
        for some in itertools.combinations(masks, n):
            if not _has_others(row.x, sources, set(some)):
                return sum(1 << n_rows + mask for mask in some)
    return UNKNOWN


def _has_others(table: int, sources: tuple[int, ...], masks: set[int]) -> bool:
    """Whether the table may give lanes that are in none of the masks."""
    free = sorted({source >> 1 for source in sources} - masks - {ALWAYS >> 1})
    for bits in itertools.product((0, 1), repeat=len(free)):
        value = {**dict.fromkeys(masks, 0), **dict(zip(free, bits, strict=True)), ALWAYS >> 1: 1}
        m, n, y = (value[source >> 1] ^ source & 1 for source in sources)
        if table >> (4 * m + 2 * n + y) & 1:
            return True
    return False


def before_mask(needs: Needs, written: int, made: int, lanes: int) -> Needs:
    """What is needed before a micro-operation that writes masks other than exec.

    written : bits of the masks that are no longer what they were;  made : of the one with the lanes of `lanes`, see lanes_of;
    lanes that work are in none of those of which something is said
    """
    found: Needs = {}
    for masks, needed in needs.items():
        changed = masks & written
        if changed and (changed != made or lanes == UNKNOWN):
            continue
        _narrow(found, masks ^ changed | lanes if changed else masks, needed)
    return found


def before_exec(needs: Needs, working: int, lanes: int) -> Needs:
    """What is needed before a micro-operation that writes exec.

    working : what lanes that work afterwards need;  lanes : see lanes_of, without exec; 0 if lanes that do not work never do afterwards
    """
    found: Needs = {}
    for masks, needed in needs.items():
        _narrow(found, masks, needed | working)
        if lanes != UNKNOWN:
            _narrow(found, masks | lanes, needed)
    return found


def _narrow(needs: Needs, masks: int, needed: int) -> None:
    if masks.bit_count() <= MOST_MASKS:
        needs[masks] = needs[masks] & needed if masks in needs else needed


def simplest(needs: Needs) -> Needs:
    """The same without the sets that say no more than their subsets."""
    if len(needs) == 1:
        return needs
    found: Needs = {}
    for masks in sorted(needs, key=int.bit_count):
        known = of(found, masks) if found else ~0
        if not found or known & needs[masks] != known:
            found[masks] = known & needs[masks]
    return found
