"""Steps 1 and 2 of a trial: the groups of each core, and where counting starts in them.

Baghsorkhi et al. 2012, section 3.2.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from memsim.compile import hot
from memsim.hierarchy.core_stage import BARRIER, START, STARTS_SEQUENCE, SUBGROUP_WORDS
from memsim.montecarlo.options import Dispatch


@dataclass(frozen=True)
class Deal:
    """The assignment of groups to cores.

    group : (n_group,) int32, core by core, in the order of execution
    core_offset : (n_core + 1,) int64
    wave : (n_group,) int32, for each group the number of waves of resident groups before it on its core
    """

    group: npt.NDArray[np.int32]
    core_offset: npt.NDArray[np.int64]
    wave: npt.NDArray[np.int32]

    @property
    def n_waves(self) -> int:
        return int(self.wave.max()) + 1 if len(self.wave) else 0

    def of_core(self, core: int) -> npt.NDArray[np.int32]:
        return self.group[self.core_offset[core] : self.core_offset[core + 1]]


def random_cores(
    n_groups: int, n_cores: int, resident: int, generator: np.random.Generator
) -> npt.NDArray[np.int64]:
    """(n_groups,) the core of each group: every wave fills all places in a random order."""
    places = n_cores * resident
    n_waves = -(-n_groups // places)
    order = generator.random((n_waves, places)).argsort(axis=1)
    return np.asarray(order.reshape(-1)[:n_groups] % n_cores, np.int64)


def deal(
    n_groups: int,
    n_cores: int,
    resident: int,
    *,
    dispatch: Dispatch = "round_robin",
    turns: npt.NDArray[np.int64] | None = None,
    generator: np.random.Generator | None = None,
) -> Deal:
    """Assign groups to cores.

    turns : (n_group,) the duration of each group in bulk sequences; required for `dynamic`
    generator : required for `random`; without it the assignment is round robin, with as many waves
    """
    if dispatch == "random" and generator is not None:
        core = random_cores(n_groups, n_cores, resident, generator)
    elif dispatch != "dynamic" or turns is None:
        core = np.arange(n_groups, dtype=np.int64) % n_cores
    else:
        places = [(0, place, place % n_cores) for place in range(resident * n_cores)]
        core = np.empty(n_groups, np.int64)
        for g in range(n_groups):
            free_at, place, owner = heapq.heappop(places)
            core[g] = owner
            heapq.heappush(places, (free_at + int(turns[g]), place, owner))
    order = np.argsort(core, kind="stable").astype(np.int32)
    core_offset = np.zeros(n_cores + 1, np.int64)
    np.cumsum(np.bincount(core, minlength=n_cores), out=core_offset[1:])
    wave = np.empty(n_groups, np.int32)
    wave[order] = (np.arange(n_groups) - core_offset[core[order]]) // resident
    return Deal(order, core_offset, wave)


@hot
def count_turns(requests, turns):  # type: ignore[no-untyped-def]
    """Fill turns (n_group,) with the number of bulk sequences of each longest sub-group, at least 1."""
    for s in range(len(requests.group)):
        n = np.int64(0)
        for p in range(requests.subgroup_offset[s], requests.subgroup_offset[s + 1]):
            n += np.int64(requests.access[p]) & STARTS_SEQUENCE
        turns[requests.group[s]] = max(turns[requests.group[s]], n, 1)


@hot
def set_starts(requests, groups, fraction, subgroups):  # type: ignore[no-untyped-def]
    """Set where counting starts in each sub-group of a core's initial groups (schedule deviation).

    fraction : (n_group,) of the barrier epochs of a group, so that its sub-groups start in the same
        epoch; without barriers, of the bulk sequences of each sub-group
    subgroups : see memsim.hierarchy.core_stage.Progress
    """
    for i in range(len(groups)):
        g = groups[i]
        n_epochs = np.int64(1)
        for s in range(requests.first_subgroup[g], requests.first_subgroup[g + 1]):
            n = np.int64(1)
            for p in range(requests.subgroup_offset[s], requests.subgroup_offset[s + 1]):
                if np.int64(requests.access[p]) & BARRIER:
                    n += 1
            n_epochs = max(n_epochs, n)
        for s in range(requests.first_subgroup[g], requests.first_subgroup[g + 1]):
            begin, end = requests.subgroup_offset[s], requests.subgroup_offset[s + 1]
            if n_epochs > 1:
                skipped, bit = np.int64(fraction[i] * n_epochs), BARRIER
            else:
                n = np.int64(0)
                for p in range(begin, end):
                    n += np.int64(requests.access[p]) & STARTS_SEQUENCE
                skipped, bit = np.int64(fraction[i] * n), STARTS_SEQUENCE
            subgroups[s * SUBGROUP_WORDS + START] = _after(
                requests.access, begin, end, skipped, bit
            )


@hot
def _after(access, begin, end, skipped, bit):  # type: ignore[no-untyped-def]
    """The access after `skipped` barriers, or bulk sequences; `end` if there are fewer."""
    if skipped == 0:
        return begin
    seen = 0
    for p in range(begin, end):
        if np.int64(access[p]) & bit:
            seen += 1
            if bit == BARRIER and seen == skipped:
                return p + 1
            if bit == STARTS_SEQUENCE and seen == skipped + 1:
                return p
    return end


def initial_groups(dealt: Deal, core: int, resident: int) -> npt.NDArray[np.int32]:
    """The groups that are resident on a core at the beginning."""
    return dealt.of_core(core)[:resident]
