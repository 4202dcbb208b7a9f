"""V100: share of L1 misses as one group of 256 work-items sweeps a buffer again and again.

Eight sub-groups, each with lines of its own, sweep in step here. Measured, nothing holds them
together: there is no barrier, and no line is shared. `free_running` shows what that does.
"""

from __future__ import annotations

import numpy as np

from memsim.compile import hot
from memsim.hierarchy import ACCESSES, HITS, PENDING
from memsim.machine import Machine
from memsim.montecarlo import make_plan, run_trial
from memsim.trace import AccessSite, ArrayExtent, Launch, Trace

GROUP_ITEMS = 256
ITEM_BYTES = 8
ROW_BYTES = GROUP_ITEMS * ITEM_BYTES
SWEEPS = 12
GRANULES = 8  # of 32 bytes: what 32 lanes load at once


def sweep_trace(buffer_kb: float, sweeps: int = SWEEPS) -> Trace:
    """The sweep of one group; a buffer is a whole number of rows of 256 items."""
    n_rows = int(buffer_kb * 1024) // ROW_BYTES
    n_subgroup, n_access = GROUP_ITEMS // 32, n_rows * sweeps
    row = np.tile(np.arange(n_rows, dtype=np.int64), sweeps)
    total = n_subgroup * n_access
    first = (
        row[None, :] * (ROW_BYTES // 32) + np.arange(n_subgroup, dtype=np.int64)[:, None] * GRANULES
    )
    base = 1 << 20
    granule = (first.reshape(-1, 1) + np.arange(GRANULES) + base // 32).reshape(-1)
    return Trace(
        sites=(AccessSite(name="B", array="B", direction="load", itemsize_bytes=ITEM_BYTES),),
        arrays=(ArrayExtent(name="B", base_bytes=base, size_bytes=n_rows * ROW_BYTES),),
        launch=Launch(kernel="sweep", n_groups=1, group_items=GROUP_ITEMS, registers_per_item=64),
        subgroup_size=32,
        workgroup=np.zeros(n_subgroup, np.int32),
        subgroup_offset=np.arange(n_subgroup + 1, dtype=np.int64) * n_access,
        site=np.zeros(total, np.int32),
        starts_sequence=np.tile(row % 32 == 0, n_subgroup),
        waits=np.full(total, -1, np.int32),
        lanes=np.full(total, 32, np.uint8),
        granule_offset=np.arange(total + 1, dtype=np.int64) * GRANULES,
        granule=granule,
        byte_mask=np.full(total * GRANULES, 0xFFFFFFFF, np.uint32),
        lane_groups=np.full(total * GRANULES, 15, np.uint8),
        whole=True,
    )


def miss_ratios(machine: Machine, buffer_kb: float, placements: int) -> list[float]:
    """L1 misses over accesses after the first sweep, the buffer at random places (256-byte steps)."""
    trace = sweep_trace(buffer_kb)
    plan, _ = make_plan(trace, machine, random_bases=True, groups_per_core=1)
    found = []
    for trial in range(placements):
        counts = run_trial(plan, 0, trial, depth=1).counts[0, 0]
        cold = int(counts[ACCESSES]) // SWEEPS
        missed = int(counts[ACCESSES] - counts[HITS] - counts[PENDING])
        found.append((missed - cold) / (int(counts[ACCESSES]) - cold))
    return found


@hot
def _free(n_rows, sweeps, batch, step_in, latency, position, ready, tag, used):  # type: ignore[no-untyped-def]
    """Misses of eight sub-groups that each go on when their data are there, the oldest first.

    tag, used : (n_lines,) one fully associative LRU set
    step_in : True where all wait for the slowest after each batch
    """
    n = len(position)
    total = n_rows * sweeps
    clock, now, misses = np.int64(0), np.int64(0), np.int64(0)
    while True:
        who = np.int64(-1)
        for w in range(n):
            if position[w] >= total:
                continue
            if who < 0:
                who = np.int64(w)
            elif step_in:
                if position[w] < position[who]:
                    who = np.int64(w)
            elif max(ready[w], now) < max(ready[who], now):
                who = np.int64(w)
        if who < 0:
            return misses
        now = max(now, ready[who])
        missed = False
        for _ in range(batch):
            row = position[who] % n_rows
            for half in range(2):
                line = row * 2 * n + 2 * who + half
                clock += 1
                found, oldest = np.int64(-1), np.int64(0)
                for slot in range(len(tag)):
                    if tag[slot] == line:
                        found = np.int64(slot)
                        break
                    if used[slot] < used[oldest]:
                        oldest = np.int64(slot)
                if found < 0:
                    misses += 1
                    missed = True
                    tag[oldest] = line
                    found = oldest
                used[found] = clock
            now += 2
            position[who] += 1
            if position[who] % n_rows == 0:
                break
        ready[who] = now + (latency if missed else 28)


def free_running(buffer_kb: float, *, in_step: bool, size_kb: int = 128, sweeps: int = 60) -> float:
    """Miss ratio of a fully associative LRU cache under sub-groups in step, or each on its own.

    Each sub-group issues the loads of a sweep as one batch (the measured loop is unrolled), takes
    2 cycles a load, and waits 212 cycles where one of them missed; of those that can go on, the oldest does.
    """
    n_rows = int(buffer_kb * 1024) // ROW_BYTES
    n_lines = size_kb * 8
    batch = 1 if in_step else n_rows
    position, ready = np.zeros((2, 8), np.int64)
    tag, used = np.zeros((2, n_lines), np.int64)
    misses = _free(n_rows, sweeps, batch, in_step, 212, position, ready, tag - 1, used)
    accesses = n_rows * 16
    return float((misses - accesses) / (accesses * (sweeps - 1)))
