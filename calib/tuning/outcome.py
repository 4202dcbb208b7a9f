"""What was predicted of one configuration on one machine, and how closely it was looked at."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from calib.prediction.prediction import limiter, resident_share
from calib.tuning.space import Configuration, number
from memsim.montecarlo import resident_groups
from memsim.trace import lane_instructions

if TYPE_CHECKING:
    from calib.prediction import Prediction
    from memsim.machine import Machine
    from memsim.montecarlo import Replay
    from memsim.trace import Trace


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How closely a configuration is looked at.

    waves : how many times the machine's resident groups the snapshot has at most
    most_instructions : of all lanes of the snapshot; kernels with more have a shorter one
    trials : of the replay
    """

    name: str
    waves: int
    most_instructions: float
    trials: int

    def groups(self, one: Trace, machine: Machine) -> int:
        """How many groups are traced of a kernel whose trace of one group is known."""
        resident = resident_groups(machine, one.launch).groups_per_core
        wanted = machine.n_cores * self.waves * resident
        return max(min(wanted, int(self.most_instructions / lane_instructions(one))), 2)


EFFORTS = (
    Effort(name="glance", waves=4, most_instructions=4e7, trials=2),
    Effort(name="look", waves=12, most_instructions=1.2e8, trials=4),
    Effort(name="close look", waves=32, most_instructions=3.6e8, trials=8),
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A prediction in numbers, or why there is none.

    effort : index into EFFORTS
    failure : one line; "" where there is a prediction, and the fields after it are then given
    time_s, half_width_s : of the 95 % interval over orderings, and groups that were not traced
    cold_s, warm_s : the time if groups before the snapshot left nothing of use in the caches, and if they left
        everything that they may have
    binds : what limits the time; of a glance `waits` where no resource does
    floors_s : resource -> the least time that it needs
    traced_groups : length of the snapshot
    read_bytes, write_bytes : of the launch, by level below the first, and DRAM
    hit_ratios : of loads, by level
    array_hit_ratios : likewise of each array, by `LEVEL/ARRAY`
    """

    configuration: Configuration
    machine: str
    effort: int
    failure: str = ""
    time_s: float = math.nan
    half_width_s: float = 0.0
    cold_s: float = math.nan
    warm_s: float = math.nan
    binds: str = ""
    floors_s: Mapping[str, float] = field(default_factory=dict)
    registers: int | None = None
    local_memory_bytes: int | None = None
    occupancy: float = math.nan
    limited_by: str = ""
    groups_per_core: int = 0
    traced_groups: int = 0
    read_bytes: Mapping[str, float] = field(default_factory=dict)
    write_bytes: Mapping[str, float] = field(default_factory=dict)
    hit_ratios: Mapping[str, float] = field(default_factory=dict)
    array_hit_ratios: Mapping[str, float] = field(default_factory=dict)

    @property
    def times_s(self) -> tuple[float, float, float]:
        """The time, and those of cold and of warm caches."""
        cold, warm = (self.time_s if math.isnan(t) else t for t in (self.cold_s, self.warm_s))
        return self.time_s, cold, warm

    @property
    def looked(self) -> str:
        return EFFORTS[self.effort].name

    def as_json(self) -> dict[str, Any]:
        """For json.dumps; without the numbers of a failure."""
        row = dataclasses.asdict(self)
        row["configuration"] = {k: number(v) for k, v in self.configuration.items()}
        row["effort"] = self.looked
        if self.failure:
            return {k: row[k] for k in ("configuration", "machine", "effort", "failure")}
        del row["failure"]
        return row


def outcome_of(
    prediction: Prediction, trace: Trace, configuration: Configuration, machine: str, effort: int
) -> Outcome:
    """The numbers of a prediction."""
    timing, estimate = prediction.timing, prediction.timing.estimate
    assert prediction.replay is not None  # only mode `paper` has none
    replay = prediction.replay.middle()
    moved = replay.launch.moved
    cold, warm = timing.past_s
    half_width = estimate.half_width - max(abs(cold), abs(warm)) if estimate.has_interval else 0.0
    return Outcome(
        configuration=dict(configuration),
        machine=machine,
        effort=effort,
        time_s=estimate.mean,
        half_width_s=half_width,
        cold_s=estimate.mean + cold,
        warm_s=estimate.mean + warm,
        binds=timing.binds if effort else timing.binds_at_a_glance,
        floors_s=timing.floor_means_s,
        registers=trace.launch.registers_per_item,
        local_memory_bytes=trace.launch.local_memory_bytes,
        occupancy=resident_share(prediction),
        limited_by=limiter(prediction),
        groups_per_core=timing.residents.groups_per_core,
        traced_groups=trace.n_groups,
        read_bytes={name: one.mean for name, one in moved.read_bytes.items()},
        write_bytes={name: one.mean for name, one in moved.write_bytes.items()},
        hit_ratios={name: float(replay.load_hit_ratio(name).mean()) for name in replay.level_names},
        array_hit_ratios=_array_hit_ratios(replay),
    )


def _array_hit_ratios(replay: Replay) -> dict[str, float]:
    loads = replay.dataset.isel(site=replay.dataset["direction"].values == "load")
    served = (loads["hits"] + loads["pending"]).sum("trial")
    asked = loads["accesses"].sum("trial")
    ratios = {}
    for array in dict.fromkeys(loads["array"].values.astype(str).tolist()):
        of_array = loads["array"].values == array
        for level in replay.level_names:
            n = int(asked.sel(level=level).values[of_array].sum())
            if n:
                hits = float(served.sel(level=level).values[of_array].sum())
                ratios[f"{level}/{array}"] = hits / n
    return ratios
