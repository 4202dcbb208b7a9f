"""Finished traces, lanes merged into sub-groups and granules, against what Oclgrind saw a lane do.

The merge is not repeated here. What any right merge must give is: per sub-group and static place
(array and direction) the number of active lanes adds up to the work-items' own accesses, and the
bytes are theirs; and where all lanes of a sub-group do the same things in the same order, the
merged accesses are the lanes' accesses side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from memsim.trace.model import BARRIER_SITE, GRANULE_BYTES, Trace
from tests.support.oclgrind import compared_kernels, harness
from tests.support.oclgrind.harness import Access
from tracegen import trace_launches

# islpy's own deprecation, raised inside Loopy where a loop's last tile is not full.
pytestmark = pytest.mark.filterwarnings("ignore:Aff.is_equal with implicit:DeprecationWarning")

SUBGROUP_SIZE = 8
"""Narrower than the kernels' groups, so that each has several."""

Place = tuple[str, str]
"""(direction, array)"""


def merged(trace: Trace, subgroup: int) -> Iterator[tuple[Place, int, set[int]]]:
    """Each access of a sub-group: where, by how many lanes, and which bytes of the array."""
    base = {array.name: array.base_bytes for array in trace.arrays}
    for access in range(trace.subgroup_offset[subgroup], trace.subgroup_offset[subgroup + 1]):
        if trace.site[access] == BARRIER_SITE:
            continue
        site = trace.sites[trace.site[access]]
        begin, end = trace.granule_offset[access], trace.granule_offset[access + 1]
        touched = {
            int(granule) * GRANULE_BYTES + bit - base[site.array]
            for granule, mask in zip(
                trace.granule[begin:end], trace.byte_mask[begin:end], strict=True
            )
            for bit in range(GRANULE_BYTES)
            if int(mask) >> bit & 1
        }
        yield (site.direction, site.array), int(trace.lanes[access]), touched


def bytes_of(access: Access) -> set[int]:
    _, _, offset, size = access
    return set(range(offset, offset + size))


@pytest.mark.weekly(3)
@pytest.mark.parametrize("reduced", [False, True], ids=["full", "reduced"])
@pytest.mark.parametrize(
    "case",
    ["spmv", "nested_divergent", "predicated", "matmul_tiled_ragged", "stencil7", "two_launches",
     "vectors", "sub_word", "histogram_int", "triangle"],
)  # fmt: skip
def test_accesses_of_subgroups_are_those_of_their_lanes(
    case: str, reduced: bool, seen: Callable[[str, bool], harness.Run]
) -> None:
    result = seen(case, reduced).accesses
    traces = trace_launches(
        compared_kernels.CASES[case](), subgroup_size=SUBGROUP_SIZE, reduced=reduced
    )
    n_lockstep = 0
    for launch, trace in enumerate(traces):
        position = Counter[int]()
        for subgroup, group in enumerate(trace.workgroup.tolist()):
            first = position[group] * SUBGROUP_SIZE
            position[group] += 1
            lanes = [
                harness.project_atomics(result.get((launch, group, item), []))
                for item in range(first, first + SUBGROUP_SIZE)
            ]
            accesses = list(merged(trace, subgroup))

            n_lane, touched = Counter[Place](), dict[Place, set[int]]()
            for place, active, own_bytes in accesses:
                n_lane[place] += active
                touched.setdefault(place, set()).update(own_bytes)
            expected_n_lane = Counter(access[:2] for lane in lanes for access in lane)
            expected: dict[Place, set[int]] = {}
            for access in (access for lane in lanes for access in lane):
                expected.setdefault(access[:2], set()).update(bytes_of(access))
            assert n_lane == expected_n_lane, (launch, group, first)
            assert touched == expected, (launch, group, first)

            active_lanes = [lane for lane in lanes if lane]
            if len({tuple(access[:2] for access in lane) for lane in active_lanes}) == 1:
                side_by_side = [
                    (
                        together[0][:2],
                        len(together),
                        set().union(*(bytes_of(access) for access in together)),
                    )
                    for together in zip(*active_lanes, strict=True)
                ]
                assert accesses == side_by_side, (launch, group, first)
                n_lockstep += 1
    if case in ("stencil7", "two_launches", "histogram_int", "vectors", "sub_word"):
        assert n_lockstep == sum(len(trace.workgroup) for trace in traces) - idle(traces)


def idle(traces: list[Trace]) -> int:
    """Sub-groups in which no lane accesses anything."""
    return sum(
        not any(True for _ in merged(trace, subgroup))
        for trace in traces
        for subgroup in range(len(trace.workgroup))
    )
