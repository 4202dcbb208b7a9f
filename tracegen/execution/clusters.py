"""Groups that run together, in clusters, and what some of them recorded. Groups are numbered cluster by cluster; see run.Launch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tracegen.execution.columns import OF_ACCESSES, OF_GRANULES
from tracegen.execution.recorded import Recorded

_OF_SUBGROUPS = ("subgroup_accesses", "tail", "progress")
_COUNTS = ("segment_count", "local_counts", "runs")


def places_of(
    groups: npt.NDArray[np.int64], grid: Sequence[int], cluster: Sequence[int]
) -> npt.NDArray[np.int64]:
    """(n_group, 3) where groups are in the grid, by their ids; see Launch."""
    three, dims = (np.array((*one, 1, 1)[:3], np.int64) for one in (grid, cluster))
    if np.all(dims == 1):
        return np.stack(np.unravel_index(groups, three, order="F"), axis=1)
    of_cluster, rank = np.divmod(groups, np.prod(dims))
    first, inside = (
        np.stack(np.unravel_index(one, extents, order="F"), axis=-1)
        for one, extents in ((of_cluster, three // dims), (rank, dims))
    )
    return np.asarray(first * dims + inside, np.int64)


def clusters_of(
    groups: npt.NDArray[np.int64], in_cluster: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The id of the first group of each cluster, the place of its first given group in the list, and of each group its
    place among all of these clusters."""
    groups = np.ascontiguousarray(groups, np.int64)
    if in_cluster == 1:
        places = np.arange(len(groups))
        return groups, places, places
    clusters, first, which = np.unique(groups // in_cluster, return_index=True, return_inverse=True)
    return clusters * in_cluster, first, which * in_cluster + groups % in_cluster


def of_groups(
    recorded: Recorded, given: npt.NDArray[np.int64], in_cluster: int, n_subgroup: int
) -> Recorded:
    """What the given groups did, of all that clusters did. given : see clusters_of"""
    if in_cluster == 1:
        return recorded
    all_groups = len(recorded.like) * in_cluster
    if len(given) == all_groups:
        like = recorded.like[:, None] * in_cluster + np.arange(in_cluster)
        return recorded._replace(like=like.reshape(-1))
    kept = np.repeat(np.isin(np.arange(all_groups), given), n_subgroup)
    of_access = np.repeat(kept, recorded.subgroup_accesses)
    counts = np.diff(recorded.granule_end, prepend=0)
    of_granule = np.repeat(of_access, counts)
    part = len(given) / all_groups
    columns = {name: getattr(recorded, name)[of_access] for name in OF_ACCESSES}
    columns |= {name: getattr(recorded, name)[of_granule] for name in OF_GRANULES}
    columns["granule_end"] = np.cumsum(counts[of_access])
    columns |= {name: getattr(recorded, name)[kept] for name in _OF_SUBGROUPS}
    columns |= {name: np.rint(part * getattr(recorded, name)).astype(np.int64) for name in _COUNTS}
    return recorded._replace(
        **columns,
        like=np.arange(len(given)),
        micro_operations=round(part * recorded.micro_operations),
        lane_accesses=round(part * recorded.lane_accesses),
    )
