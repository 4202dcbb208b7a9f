"""Altered traces: what a change of an access, of an array or of the order of groups does to a trace."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np

import tracegen
from calib.advice.altered_traces import (
    coalesced,
    misalignment,
    reordered,
    resident,
    shifted,
    without,
)
from experiments.kernels import spmv
from memsim import load_machine
from memsim.trace import BARRIER_SITE, Trace
from tests.support.traces import make_trace

FOUR_BYTES = 0xF


def accesses(trace: Trace) -> list[list[tuple[int, list[int]]]]:
    """By sub-group, the site and the granules of each access."""
    granules = np.split(trace.granule, trace.granule_offset[1:-1])
    listed = [(int(site), each.tolist()) for site, each in zip(trace.site, granules, strict=True)]
    bounds = itertools.pairwise(trace.subgroup_offset)
    return [listed[begin:end] for begin, end in bounds]


def sites_of(trace: Trace) -> list[list[int]]:
    return [[site for site, _ in one] for one in accesses(trace)]


def strided(**fields: Any) -> Trace:
    """Two groups; each of eight accesses takes four bytes of the same 16 granules; then a contiguous one."""
    masks = [[FOUR_BYTES << (4 * k)] * 16 for k in range(8)]
    groups = []
    for g in range(2):
        rows = [4 * k + g for k in range(16)]
        groups.append([[*((0, rows, True, masks[k]) for k in range(8)), (1, [100 + g])]])
    return make_trace(groups, ("load", "store"), **fields)


def test_coalesced_accesses_share_out_the_granules_of_their_group() -> None:
    """Eight accesses of 64 bytes in 16 granules of 32: two granules each, each granule once."""
    trace = coalesced(strided(), 0)
    for g, (loads, store) in enumerate((one[:8], one[8]) for one in accesses(trace)):
        assert [site for site, _ in loads] == [0] * 8
        assert [len(granules) for _, granules in loads] == [2] * 8
        assert [one for _, granules in loads for one in granules] == [4 * k + g for k in range(16)]
        assert store == (1, [100 + g])
    assert set(trace.byte_mask[trace.granule < 100].tolist()) == {0xFFFFFFFF}
    assert trace.lane_groups[:2].tolist() == [0b0011, 0b1100]

    contiguous = make_trace([[[(0, range(4 * k, 4 * k + 4)) for k in range(5)]]])
    assert accesses(coalesced(contiguous, 0)) == accesses(contiguous)


def test_a_resident_array_is_in_its_first_granules_and_stores_stay() -> None:
    trace = resident(strided(), "a")
    for g, subgroup in enumerate(accesses(trace)):
        assert subgroup == [*[(0, list(range(16)))] * 8, (1, [100 + g])]


def test_without_a_site_waits_sequences_and_instructions_pass_to_the_next_access() -> None:
    sites = [0, 1, 0, BARRIER_SITE, 1, 0]
    trace = make_trace(
        [[[(s, [] if s == BARRIER_SITE else [k], k != 2) for k, s in enumerate(sites)]]] * 2,
        ("load", "load"),
    )
    work = np.array([0, 1, 2, 3, 4, 5] * 2)
    trace = trace.replace(
        waits=np.array([-1, 0, 1, -1, 2, 4] * 2),
        work=work,
        work_table=10.0 ** np.arange(6)[:, None] * [[1.0, 2.0]],
        work_kinds=("fma", "load"),
    )
    left = without(trace, 0)
    assert sites_of(left) == [[1, BARRIER_SITE, 1]] * 2
    # The last waited for the third, which waited for the second: that is now the first.
    assert left.waits.tolist() == [-1, -1, 0] * 2
    assert left.starts_sequence.tolist() == [True, True, True] * 2
    assert left.work is not None
    once = [11.0, 1100.0, 110000.0] * 2
    assert left.work_table[left.work].tolist() == [[n, 2 * n] for n in once]
    kept = without(trace, 1)
    assert sites_of(kept) == [[0, 0, BARRIER_SITE, 0]] * 2
    assert kept.waits.tolist() == [-1, 0, -1, 1] * 2


def test_a_shift_moves_every_byte() -> None:
    """Bytes before and after, one by one."""

    def touched(trace: Trace) -> list[set[int]]:
        return [
            {
                32 * int(trace.granule[k]) + b - trace.arrays[0].base_bytes
                for k in range(*bounds)
                for b in range(32)
                if int(trace.byte_mask[k]) >> b & 1
            }
            for bounds in itertools.pairwise(trace.granule_offset)
        ]

    before = strided()
    for by in (0, 4, 32, 108):
        after = shifted(before, "a", by)
        assert touched(after) == touched(before)
        assert after.arrays[0].base_bytes % 4096 == by


def test_misalignment_is_that_of_most_accesses() -> None:
    """Accesses of 128 bytes that begin 4 bytes behind a line: five granules each."""
    masks = [0xFFFFFFF0, *[0xFFFFFFFF] * 3, 0xF]
    trace = make_trace([[[(0, list(range(4 * k, 4 * k + 5)), True, masks) for k in range(4)]]])
    assert misalignment(trace, "a", 128) == 4
    aligned = shifted(trace, "a", 124)
    assert misalignment(aligned, "a", 128) == 0
    assert np.diff(aligned.granule_offset).tolist() == [4] * 4
    assert misalignment(strided(), "a", 128) == 0


def test_groups_in_another_order_keep_their_accesses() -> None:
    before = strided()
    before = before.replace(launch=dataclasses.replace(before.launch, n_groups=8))
    after = reordered(before, np.array([7, 3]))
    assert after.workgroup.tolist() == [3, 7]
    assert accesses(after) == accesses(before)[::-1]


def test_an_altered_trace_of_a_real_kernel_is_valid() -> None:
    """The rules of a trace are checked when one is made."""
    trace = tracegen.trace(spmv.spmv("fem", 1000), load_machine("v100"), groups=4)
    for k in range(len(trace.sites)):
        fewer = coalesced(trace, k)
        assert fewer.n_access == trace.n_access
        assert fewer.n_granule <= trace.n_granule
        left = without(trace, k)
        assert k not in left.site
        if trace.work is not None:
            executed = [one.work_table[one.work].sum(0) for one in (left, trace)]
            np.testing.assert_allclose(*executed)
