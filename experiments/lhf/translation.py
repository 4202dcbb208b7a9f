"""Translations that one core's accesses miss: what is found behind the slow shapes of the V100 stencil.

RRZE-HPC/gpu-benches' pointer chase on the V100 rises from 425.4 cycles at 32 MB as
425.4 + 8.7 (1 - 32 MB / size): 16 entries of 2 MB, a miss takes 8.7 cycles longer. An access is looked up
only where it misses L1, which goes by virtual addresses (Jia et al., arXiv 1804.06826).
"""

from __future__ import annotations

import numpy as np

from experiments.hardware.affine import Triple, affine_trace
from experiments.hardware.star_stencil import star_kernel
from memsim.compile import hot

ENTRIES, PAGE_SHIFT = 16, 21
GROUPS, WARMUP_GROUPS = 16, 4
L1_LINES, L1_WAYS = 1024, 4


@hot
def _misses(subgroup_offset, starts, granule_offset, granule, store, n_subgroup, n_group, warm, page_shift, tags, age, valid, pages, used, at):  # type: ignore[no-untyped-def]  # fmt: skip
    """Translations missed after `warm` groups, one group at a time, sub-groups in turn."""
    n_set, n_way = tags.shape
    entries = len(pages)
    clock, missed = np.int64(0), np.int64(0)
    for g in range(n_group):
        for w in range(n_subgroup):
            at[w] = subgroup_offset[g * n_subgroup + w]
        busy = True
        while busy:
            busy = False
            for w in range(n_subgroup):
                end = subgroup_offset[g * n_subgroup + w + 1]
                begin = at[w]
                while at[w] < end and (at[w] == begin or not starts[at[w]]):
                    busy = True
                    a = at[w]
                    page, wanted = np.int64(-1), False
                    for q in range(granule_offset[a], granule_offset[a + 1] + 1):
                        last = q == granule_offset[a + 1]
                        here = np.int64(-2) if last else (granule[q] * 32) >> page_shift
                        if here != page:
                            if wanted:
                                clock += 1
                                found, oldest = -1, 0
                                for e in range(entries):
                                    if pages[e] == page:
                                        found = e
                                    if used[e] < used[oldest]:
                                        oldest = e
                                if found < 0:
                                    found = oldest
                                    pages[found] = page
                                    if g >= warm:
                                        missed += 1
                                used[found] = clock
                            page, wanted = here, False
                        if last:
                            break
                        if store[a]:
                            wanted = True
                            continue
                        clock += 1
                        line, bit = granule[q] >> 2, 1 << (granule[q] & 3)
                        s, folded = line, np.int64(0)
                        while s > 0:
                            folded ^= s % n_set
                            s //= n_set
                        row = folded % n_set
                        hit, victim = -1, 0
                        for k in range(n_way):
                            if tags[row, k] == line:
                                hit = k
                            if age[row, k] < age[row, victim]:
                                victim = k
                        if hit < 0:
                            hit = victim
                            tags[row, hit] = line
                            valid[row, hit] = 0
                        if not valid[row, hit] & bit:
                            wanted = True
                        valid[row, hit] |= bit
                        age[row, hit] = clock
                    at[w] += 1
    return missed


def translations_missed(shape: Triple, entries: int = ENTRIES) -> float:
    """Misses of one sub-group of the stencil in groups of this shape, one group a core."""
    kernel = star_kernel(shape)
    rng = np.random.default_rng(0)
    begin = kernel.n_groups // 2 // 80 * 80
    ids = np.array([begin + 80 * k + rng.integers(80) for k in range(GROUPS)])
    trace = affine_trace(kernel, ids, 32)
    is_store = np.array([site.direction == "store" for site in trace.sites])
    n = trace.n_subgroup // GROUPS
    sets = (L1_LINES // L1_WAYS, L1_WAYS)
    missed = _misses(
        trace.subgroup_offset,
        trace.starts_sequence,
        trace.granule_offset,
        trace.granule,
        is_store[trace.site],
        n,
        GROUPS,
        WARMUP_GROUPS,
        PAGE_SHIFT,
        np.full(sets, -1, np.int64),
        np.zeros(sets, np.int64),
        np.zeros(sets, np.int64),
        np.full(entries, -1, np.int64),
        np.zeros(entries, np.int64),
        np.zeros(n, np.int64),
    )
    return float(missed) / (n * (GROUPS - WARMUP_GROUPS))
