"""How many groups of a launch are resident on a core, and in how many rounds they run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from memsim.machine import Machine
from memsim.montecarlo import Occupancy
from memsim.trace import Launch

NEARLY_NOTHING = 1e-9
"""Of a round, that arithmetic may leave."""


@dataclass(frozen=True, kw_only=True)
class Residents:
    """The residency of a launch: the paper's TLP, BLP, NB and NSM.

    subgroups_per_group : TLP
    groups_per_core : BLP, at most the launch's groups divided by the cores
    n_groups : NB;  n_cores : NSM
    work : requests of the launch's mean group over those of the mean traced one
    work_half_width : what is open of it, as part of the time
    """

    subgroups_per_group: int
    groups_per_core: int
    n_groups: int
    n_cores: int
    work: float = 1.0
    work_half_width: float = 0.0

    @property
    def rounds(self) -> float:
        """RepNum, rounds of resident groups like the traced ones; fractional where the last is not full."""
        return max(1.0, self.work * self.n_groups / (self.groups_per_core * self.n_cores))

    @property
    def whole_rounds(self) -> int:
        """Rounds in which each core has all the groups that it can have."""
        return max(1, math.floor(self.rounds + NEARLY_NOTHING))

    @property
    def last(self) -> Residents | None:
        """The groups that are left for a last round, if any: as few on each core as there can be."""
        left = round((self.rounds - self.whole_rounds) * self.groups_per_core * self.n_cores)
        if left <= 0:
            return None
        each = math.ceil(left / self.n_cores)
        return replace(self, groups_per_core=each, n_groups=left, work=1.0)

    @property
    def busy_cores(self) -> float:
        """Cores that share what is shared, each with groups_per_core groups; not all where groups are too few."""
        return min(self.n_cores, self.n_groups / self.groups_per_core)

    @property
    def subgroups(self) -> int:
        return self.subgroups_per_group * self.groups_per_core


def residents(machine: Machine, launch: Launch, occupancy: Occupancy) -> Residents:
    """The residency of a launch; BLP is lower than the occupancy allows where groups are too few."""
    available = math.ceil(launch.n_groups / machine.n_cores)
    return Residents(
        subgroups_per_group=-(-launch.group_items // machine.subgroup_size),
        groups_per_core=max(1, min(occupancy.groups_per_core, available)),
        n_groups=launch.n_groups,
        n_cores=machine.n_cores,
    )
