"""A machine: the parameters of a GPU or CPU that determine where a memory request is served, and when.

Machines are TOML files (see `memsim.machine.file`). Every number carries its unit in its name and
stands beside its source: `size_bytes = { value = 131072, source = "..." }`. A source that begins
with `assumed` marks a value that nobody has measured or published; one that begins with `fitted` marks a
value that was chosen so that a comparison with hardware comes out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from memsim.machine import rules
from memsim.machine.parts import Dram, Level, Residency, Translation


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A whole machine.

    year : of its announcement, 0 if unknown
    coalesce_lanes : consecutive lanes that are coalesced together (16 on C1060 and on AMD's GPUs)
    cycles_per_turn : core clocks between two turns of a core's load/store unit; together with a
        level's latency it determines how long a sector stays pending. Where the order within a core
        is `gto` or `gty`, it is the time between two accesses of one scheduler
    n_dies : to which groups are dealt in turn, whichever is free; cores are numbered die by die
    n_schedulers : sub-cores of a core; each has a scheduler, and an equal share of the sub-groups
    scheduler_turns : which scheduler issues the next access in round robin: each in its turn (`fixed`, as
        AMD's SIMD units do), or whichever comes first, at random (`free`)
    levels : from the core outward; empty for a machine without caches
    compiler_target : what compilers call the machine (`sm_80`, `gfx90a`); "" if they have no name for it
    group_start_cycles : from the moment a group's resources are free on a core to the issue of its
        first instruction, plus the time from its last instruction to the release of its resources;
        0 if not measured
    group_starts_per_cycle, subgroup_starts_per_cycle : groups, and sub-groups, that the machine can start in a cycle, on all
        cores together; 0 if not measured
    launch_us : of a launch, between events before and after it, beside what its groups take; 0 if not measured
    store_wait_cycles : until a store is done, on machines where a group waits for its last stores (AMD's
        do); before gfx10 it waits for stores before a load with that load, too
    dram_idle_during_l1_percent : part of the cycles in which L1 serves hits of loads during which a core receives nothing
        from DRAM, so that a kernel takes at least this part of them and DRAM's time together; 0 where the two overlap
    translation : None if not measured: no translation misses are then modelled
    throughputs : operation name -> operations that a core completes per cycle: `fp32_fma`,
        `fp64_fma`, `int32_add`, `load_store_lanes`, ...; calib.prediction.throughputs lists them
    model_error_points : level name -> validated error of the model in points of hit ratio
    time_error_percent : within which nine of ten predicted times lie that were compared with the machine; 0 if none was
    sources : dotted key -> source of the number (`n_cores`, `levels.L1.size_bytes`,
        `dram.n_banks`, `throughputs.fp32_fma`)

    Raises MachineError where a value breaks a rule.
    """

    name: str
    title: str
    vendor: str
    n_cores: int
    clock_hz: float
    subgroup_size: int
    coalesce_lanes: int
    cycles_per_turn: float
    levels: tuple[Level, ...]
    dram: Dram
    residency: Residency
    year: int = 0
    n_dies: int = 1
    n_schedulers: int = 4
    scheduler_turns: Literal["fixed", "free"] = "fixed"
    compiler_target: str = ""
    group_start_cycles: float = 0.0
    group_starts_per_cycle: float = 0.0
    subgroup_starts_per_cycle: float = 0.0
    launch_us: float = 0.0
    store_wait_cycles: float = 0.0
    dram_idle_during_l1_percent: float = 0.0
    translation: Translation | None = None
    throughputs: Mapping[str, float] = field(default_factory=dict)
    model_error_points: Mapping[str, float] = field(default_factory=dict)
    time_error_percent: float = 0.0
    sources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rules.check_machine(self)

    @property
    def level_names(self) -> tuple[str, ...]:
        return tuple(level.name for level in self.levels)

    @property
    def access_cycles(self) -> float:
        """How long an access to few lines occupies the load/store unit; 0 if its lanes are not known."""
        lanes = self.throughputs.get("load_store_lanes")
        return self.subgroup_size / lanes if lanes else 0.0

    def replace(self, **changes: Any) -> Machine:
        """A copy with some fields changed, checked again."""
        return dataclasses.replace(self, **changes)

    def is_assumed(self, key: str) -> bool:
        """Whether nobody measured or published the value of a dotted key."""
        return self.standing(key) == ASSUMED

    def standing(self, key: str) -> str:
        """`assumed`, `fitted`, or "" for the value of a dotted key that was measured or published."""
        source = self.sources.get(key, ASSUMED)
        return next((word for word in (ASSUMED, FITTED) if source.startswith(word)), "")


ASSUMED, FITTED = "assumed", "fitted"
"""What the source begins with of a value that is unknown, or was chosen on a comparison."""
