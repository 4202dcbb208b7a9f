"""What a run of groups has recorded."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracegen.execution.columns import OF_ACCESSES, OF_GRANULES
from tracegen.execution.state import Counter, Reference, Size, State


class Recorded(NamedTuple):
    """What groups accessed, the sub-groups of each group one after another.

    access : (n_access,) int32, place * (n_region + 1) + region, where `place` indexes Execution.places and region the
        launch's regions, the last one being private memory; BARRIER (-1) of a barrier
    waits : (n_access,) int32, the latest access of the sub-group, counted from its first, that has been waited for; -1 for none
    work : (n_access,) int32, row of work;  tail : (n_subgroup,) int32, row of what follows the last access
    row_end, row_segment, row_count : of each row, how often which segments of the code were executed
    segment_count : (n_segment,) executions by sub-groups
    local_counts : (n_instruction, 4) of accesses to local memory: executions by sub-groups, those with an active lane,
        passes that bank conflicts add, and wide passes (see tracegen.execution.banks)
    progress : (n_subgroup,) accesses or barriers, up to the end of the window;  runs : (n_place,) executions of each access, recorded
        or not; both 0 where there are no windows
    like : (n_group,) the place in the list of groups of the one that each was copied from; its own where it was executed
    needs_values : whether a load read an array, or a part of local memory, to which a store did not write its value, see slicing: the run says nothing
    others : columns of a Trace
    """

    subgroup_accesses: npt.NDArray[np.int64]
    access: npt.NDArray[np.int32]
    waits: npt.NDArray[np.int32]
    lanes: npt.NDArray[np.uint8]
    granule_end: npt.NDArray[np.int64]
    granule: npt.NDArray[np.int64]
    byte_mask: npt.NDArray[np.uint32]
    lane_groups: npt.NDArray[np.uint8]
    lane_hits: npt.NDArray[np.uint8]
    work: npt.NDArray[np.int32]
    tail: npt.NDArray[np.int32]
    row_end: npt.NDArray[np.int64]
    row_segment: npt.NDArray[np.int32]
    row_count: npt.NDArray[np.int32]
    segment_count: npt.NDArray[np.int64]
    local_counts: npt.NDArray[np.int64]
    progress: npt.NDArray[np.int64]
    runs: npt.NDArray[np.int64]
    like: npt.NDArray[np.int64]
    needs_values: bool
    micro_operations: int
    lane_accesses: int
    seconds: float


def recorded_of(state: State, seconds: float) -> Recorded:
    """What a run has left in its columns. seconds : that it took"""
    out, counters = state.out, state.counters
    if state.sizes[Size.MOVES]:
        copied = state.references[:, Reference.TIMES] @ state.reference_counts
        ends = np.cumsum([len(state.segment_count), state.local_counts.size])
        of_segments, of_local, of_runs = np.split(copied, ends)
        state.segment_count[:] += of_segments
        state.local_counts[:] += of_local.reshape(-1, 4)
        out.runs[:] += of_runs
    n_access, n_granule = int(counters[Counter.N_ACCESS]), int(counters[Counter.N_GRANULE])
    rows = {name: getattr(out, name)[:n_access] for name in OF_ACCESSES}
    rows |= {name: getattr(out, name)[:n_granule] for name in OF_GRANULES}
    n_row = int(counters[Counter.N_ROW])
    n_entry = int(counters[Counter.N_ROW_ENTRY])
    return Recorded(
        subgroup_accesses=out.subgroup_accesses,
        **rows,
        tail=out.tail,
        row_end=out.row_end[:n_row].copy(),
        row_segment=out.row_segment[:n_entry].copy(),
        row_count=out.row_count[:n_entry].copy(),
        segment_count=state.segment_count.copy(),
        local_counts=state.local_counts.copy(),
        progress=out.progress,
        runs=out.runs,
        like=out.like,
        needs_values=misses_values(state),
        micro_operations=int(counters[Counter.INSTRUCTIONS]),
        lane_accesses=int(counters[Counter.LANE_ACCESSES]),
        seconds=seconds,
    )


def misses_values(state: State) -> bool:
    """Whether a load read what a store did not write, in an array or in local memory; see slicing."""
    return bool(np.any(state.region_use == 3) or state.counters[Counter.MISSED])
