"""What groups touch, of which most do what another does, moved."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracegen.execution.recorded import Recorded
from tracegen.execution.run import Execution
from tracegen.recording.earlier import Moved


def touched(
    execution: Execution,
    groups: npt.NDArray[np.int64],
    recorded: Recorded,
    slots: npt.NDArray[np.int64],
) -> list[Moved]:
    """What groups touch that have been executed, and those that are like them (Recorded.like).

    slots : (n_group,) see Execution.run
    """
    moves, n_region = execution.movement, len(execution.launch.regions)
    starts = np.concatenate([[0], np.cumsum(recorded.subgroup_accesses)])[:: execution.n_subgroup]
    ends = np.concatenate([[0], recorded.granule_end])
    at = execution.along(groups) if moves is not None else np.zeros((len(groups), 0), np.int64)
    found = []
    for k in np.unique(recorded.like):
        accesses = slice(starts[k], starts[k + 1])
        counts = np.diff(ends[starts[k] : starts[k + 1] + 1])
        kinds = np.repeat(recorded.access[accesses], counts)
        granules = recorded.granule[ends[starts[k]] : ends[starts[k + 1]]]
        alike = recorded.like == k
        for kind in np.unique(kinds):
            place, region = divmod(kind, n_region + 1)
            if region == n_region:
                shifts = (slots[alike] - slots[k]) * execution.private_granules
            elif moves is not None:
                shifts = (at[alike] - at[k]) @ moves.steps[place] >> 5
            else:
                shifts = np.zeros(1, np.int64)
            found.append(Moved(_distinct(granules[kinds == kind]), np.unique(shifts)))
    return found


def _distinct(granules: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Ascending; np.unique takes 25 times as long for millions."""
    ordered = np.sort(granules)
    return ordered[np.diff(ordered, prepend=-1) > 0]
