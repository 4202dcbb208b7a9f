"""How long atomic operations on one line of memory, the one with most of them, keep the level that performs them.

A slice of that level performs operations on one line one after another, however many slices there are: 0.56 additions
of floating-point numbers in a nanosecond on an H200, where those at random addresses come at 101
(experiments/data/h200_rates.csv). Where 8 to 64 lines are used alike, each gets by far less than the whole of a line's rate, for
some wait for others: SPREAD.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from memsim.machine import Machine
from memsim.trace import GRANULE_BYTES, Trace

Floats = npt.NDArray[np.float64]
SPREAD = 2.2
"""An operation on one of many lines takes as long as so many additions of floating-point numbers on a single one; on an H200 2.2 on
8, 32 and 64 lines; of integers 1.7 on 8 and 2.2 on 64."""
ANOTHER_SECTOR = 0.145
"""What each further sector of a line adds to an operation: words in all four of a line take 1.44 times as long as in one."""


def hot_line_cycles(trace: Trace, machine: Machine, n_access: int) -> Floats:
    """(n_site,) cycles that an execution of each site takes the machine's busiest line, from its first accesses.

    The line is the one that half of the groups, drawn at random, use most, and its use is that by the other half: the
    busiest of many lines that are used alike is not busier than they are. Lanes that operate on one word are served one
    after another; words of a line that one access operates on are served together.
    """
    per_execution = np.zeros(len(trace.sites))
    level = next((one for one in machine.levels if one.write_policy == "write_back"), None)
    kinds = [(site.direction == "atomic", site.floating) for site in trace.sites]
    if level is None or trace.lane_hits is None or not any(atomic for atomic, _ in kinds):
        return per_execution
    each = np.array(
        [
            atomic * (level.line_float_atomic_cycles if floating else level.line_atomic_cycles)
            for atomic, floating in kinds
        ]
    )
    if not each.any():
        return per_execution
    site = trace.site[:n_access]
    chosen = np.flatnonzero((site >= 0) & np.append(each, 0.0)[site].astype(np.bool_))
    begin, end = trace.granule_offset[chosen], trace.granule_offset[chosen + 1]
    access = np.repeat(chosen, end - begin)
    granule = np.arange(len(access)) + np.repeat(
        begin - np.cumsum(end - begin) + (end - begin), end - begin
    )
    line = trace.granule[granule] * GRANULE_BYTES // level.line_bytes
    starts = np.flatnonzero((np.diff(access, prepend=-1) != 0) | (np.diff(line, prepend=-1) != 0))
    item = np.array([described.itemsize_bytes for described in trace.sites])[trace.site[access]]
    words = np.maximum(np.bitwise_count(trace.byte_mask[granule]) / item, 1.0)
    together = np.maximum.reduceat(trace.lane_hits[granule] / words, starts)
    sectors = np.diff(np.append(starts, len(granule)))
    cycles = together * each[trace.site[access[starts]]] * (1 + ANOTHER_SECTOR * (sectors - 1))
    access, line = access[starts], line[starts]
    subgroup = np.searchsorted(trace.subgroup_offset, access, side="right") - 1
    _, group = np.unique(trace.workgroup[subgroup], return_inverse=True)
    if not group.any():  # of one group, nothing else shows the line
        return per_execution
    order = np.random.default_rng(0).permutation(group.max() + 1)
    is_first = order[group] % 2 == 0
    lines, number = np.unique(line, return_inverse=True)
    busiest = np.bincount(number[is_first], cycles[is_first], len(lines)).argmax()
    of_busiest = ~is_first & (number == busiest)
    if not of_busiest.any():
        return per_execution
    n_lines = cycles[~is_first].sum() / cycles[of_busiest].sum()
    spread = SPREAD * level.line_float_atomic_cycles / np.where(each > 0, each, 1.0)
    cycles *= 1 + (spread - 1)[trace.site[access]] * np.clip(np.log2(n_lines) / 2 - 0.5, 0, 1)
    counted = np.zeros(len(trace.sites))
    np.add.at(per_execution, trace.site[access[of_busiest]], cycles[of_busiest])
    np.add.at(counted, trace.site[np.unique(access[~is_first])], 1.0)
    return np.asarray(per_execution / np.maximum(counted, 1.0))
