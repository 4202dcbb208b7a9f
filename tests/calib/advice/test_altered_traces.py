"""Altered traces: what a change of an access, of an array or of the order of groups does to a trace."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from calib.advice.altered_traces import (
    coalesced,
    misalignment,
    reordered,
    resident,
    shifted,
    without,
)
from memsim.trace import BARRIER_SITE, Trace
from tests.support.traces import make_trace

FOUR_BYTES = 0xF


def accesses(trace: Trace) -> list[list[tuple[int, list[int]]]]:
    """By sub-group, the site and the granules of each access."""
    return [
        [
            (
                int(trace.site[k]),
                trace.granule[trace.granule_offset[k] : trace.granule_offset[k + 1]].tolist(),
            )
            for k in range(begin, end)
        ]
        for begin, end in zip(trace.subgroup_offset, trace.subgroup_offset[1:], strict=False)
    ]


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


def test_coalescing_what_is_contiguous_changes_nothing() -> None:
    before = make_trace([[[(0, [4 * k, 4 * k + 1, 4 * k + 2, 4 * k + 3]) for k in range(5)]]])
    assert accesses(coalesced(before, 0)) == accesses(before)


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
    assert [[s for s, _ in one] for one in accesses(left)] == [[1, BARRIER_SITE, 1]] * 2
    # The last waited for the third, which waited for the second: that is now the first.
    assert left.waits.tolist() == [-1, -1, 0] * 2
    assert left.starts_sequence.tolist() == [True, True, True] * 2
    assert left.work is not None
    assert left.work_table[left.work][:, 0].tolist() == [11.0, 1100.0, 110000.0] * 2
    assert left.work_table[left.work][:, 1].tolist() == [22.0, 2200.0, 220000.0] * 2
    kept = without(trace, 1)
    assert [[s for s, _ in one] for one in accesses(kept)] == [[0, 0, BARRIER_SITE, 0]] * 2
    assert kept.waits.tolist() == [-1, 0, -1, 1] * 2


def test_a_shift_moves_every_byte() -> None:
    """Bytes before and after, one by one."""

    def touched(trace: Trace) -> list[set[int]]:
        return [
            {
                32 * int(g) + b - trace.arrays[0].base_bytes
                for g, mask in zip(trace.granule[i:j], trace.byte_mask[i:j], strict=True)
                for b in range(32)
                if int(mask) >> b & 1
            }
            for i, j in zip(trace.granule_offset, trace.granule_offset[1:], strict=False)
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


@pytest.mark.parametrize("alter", [coalesced, without])
def test_an_altered_trace_of_a_real_kernel_is_valid(alter: Any) -> None:
    """The rules of a trace are checked when one is made."""
    import tracegen
    from experiments.kernels import spmv
    from memsim import load_machine

    trace = tracegen.trace(spmv.spmv("fem", 1000), load_machine("v100"), groups=4)
    for k, site in enumerate(trace.sites):
        altered = alter(trace, k)
        if alter is coalesced:
            assert altered.n_access == trace.n_access
            assert altered.n_granule <= trace.n_granule
        else:
            assert site.name not in {altered.site_names[s] for s in set(altered.site) if s >= 0}
            if trace.work is not None:
                assert altered.work is not None
                np.testing.assert_allclose(
                    altered.work_table[altered.work].sum(0), trace.work_table[trace.work].sum(0)
                )
