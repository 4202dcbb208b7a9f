"""Misses of a fully associative LRU cache while sub-groups sweep a buffer, in step or each at its
own pace.

The sweep is that of experiments.hardware.l1_sweep: in every row of 2 KB each of eight sub-groups
loads two lines of 128 bytes that no other sub-group loads.
"""

from __future__ import annotations

import numpy as np

from memsim.compile import hot

ROW_BYTES = 2048
N_SUBGROUPS = 8
CACHE_KB = 128
LINES_PER_KB = 8
HIT_CYCLES, MISS_CYCLES = 28, 212
"""Latencies of L1 and L2, as in the machine file of the V100."""


@hot
def _access(line, clock, tag, used):  # type: ignore[no-untyped-def]
    """Look a line up in one fully associative LRU set and fill it on a miss; True for a hit.

    tag, used : (capacity_lines,) the resident lines, and the time of their last use
    """
    oldest = np.int64(0)
    for slot in range(len(tag)):
        if tag[slot] == line:
            used[slot] = clock
            return True
        if used[slot] < used[oldest]:
            oldest = np.int64(slot)
    tag[oldest] = line
    used[oldest] = clock
    return False


@hot
def _next_subgroup(position, ready, now, total, in_step):  # type: ignore[no-untyped-def]
    """The sub-group that runs next, or -1 when all have finished.

    in_step : True takes the one that is furthest behind, False the one whose data arrive first
    """
    chosen = np.int64(-1)
    for k in range(len(position)):
        if position[k] >= total:
            continue
        if chosen < 0:
            chosen = np.int64(k)
        elif in_step:
            if position[k] < position[chosen]:
                chosen = np.int64(k)
        elif max(ready[k], now) < max(ready[chosen], now):
            chosen = np.int64(k)
    return chosen


@hot
def _free(n_rows, sweeps, batch, in_step, position, ready, tag, used):  # type: ignore[no-untyped-def]
    """Misses of sub-groups that each continue when their data have arrived.

    batch : rows that a sub-group loads before it waits for their data
    position, ready : (n_subgroup,) rows loaded so far, and the cycle at which the data are there
    """
    n = len(position)
    total = n_rows * sweeps
    clock, now, misses = np.int64(0), np.int64(0), np.int64(0)
    while True:
        k = _next_subgroup(position, ready, now, total, in_step)
        if k < 0:
            return misses
        now = max(now, ready[k])
        has_missed = False
        for _ in range(batch):
            row = position[k] % n_rows
            for half in range(2):
                clock += 1
                if not _access(row * 2 * n + 2 * k + half, clock, tag, used):
                    misses += 1
                    has_missed = True
            now += 2
            position[k] += 1
            if position[k] % n_rows == 0:
                break
        ready[k] = now + (MISS_CYCLES if has_missed else HIT_CYCLES)


def free_running(buffer_kb: float, *, in_step: bool, sweeps: int = 60) -> float:
    """Miss ratio of a fully associative LRU cache of CACHE_KB.

    in_step : the sub-groups wait for each other after every row. Otherwise each issues the loads of
        a sweep as one batch (the measured loop is unrolled) at 2 cycles a load, then waits for its
        data; of the ready sub-groups, the oldest runs first
    """
    n_rows = int(buffer_kb * 1024) // ROW_BYTES
    position, ready = np.zeros((2, N_SUBGROUPS), np.int64)
    tag, used = np.zeros((2, CACHE_KB * LINES_PER_KB), np.int64)
    misses = _free(
        n_rows, sweeps, 1 if in_step else n_rows, in_step, position, ready, tag - 1, used
    )
    accesses = n_rows * 2 * N_SUBGROUPS
    return float((misses - accesses) / (accesses * (sweeps - 1)))
