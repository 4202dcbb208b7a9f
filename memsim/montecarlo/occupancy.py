"""Occupancy: the groups of a launch that are resident on a core, and the cache size they leave.

The rules are those of NVIDIA's occupancy calculator; they also describe AMD's GPUs, with other numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from memsim.errors import MachineError, ReplayError
from memsim.machine.model import Machine
from memsim.machine.parts import Level, Residency
from memsim.trace.model import Launch


@dataclass(frozen=True, kw_only=True)
class Occupancy:
    """The resident groups of a core, and what limits them.

    groups_per_core : resident groups of a core, even if the launch has too few to fill all cores
    subgroups_per_core : groups_per_core x sub-groups in a group
    limited_by : the resource with the smallest limit (`items`, `subgroups`, `groups`, `registers`,
        `local memory`, `tensor memory`), or `given`
    limits : resource -> number of groups that it allows; `registers` only if they are known
    occupancy : subgroups_per_core / maximum of the core
    feasible : all values of groups_per_core that some number of registers per item results in,
        ascending; a single one if registers are known or groups_per_core is given
    local_memory_carveout_bytes : the part of the storage shared with a cache that local memory takes,
        0 if it shares none
    registers_per_item : 32-bit registers of a work-item, None if they are unknown
    """

    groups_per_core: int
    subgroups_per_core: int
    limited_by: str
    limits: Mapping[str, int]
    occupancy: float
    feasible: tuple[int, ...]
    local_memory_carveout_bytes: int
    registers_per_item: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields as a JSON object."""
        return {**asdict(self), "limits": dict(self.limits), "feasible": list(self.feasible)}


def resident_groups(
    machine: Machine,
    launch: Launch,
    *,
    registers_per_item: int | None = None,
    groups_per_core: int | None = None,
) -> Occupancy:
    """The groups of a launch that are resident on one core of a machine at a time.

    registers_per_item : overrides that of the launch. If neither is known, the other resources
        determine the number of groups, and `feasible` lists the numbers that registers may cause
    groups_per_core : overrides the computed number, within the limits

    Raises ReplayError if not even one group fits, or fewer than given.
    """
    registers = launch.registers_per_item if registers_per_item is None else registers_per_item
    limits = _limits(machine, launch)
    if registers is not None:
        limits["registers"] = _register_limit(machine, launch, registers)
    limiting = min(limits, key=lambda name: limits[name])
    most = limits[limiting]
    if groups_per_core is not None:
        if not 1 <= groups_per_core <= most:
            raise ReplayError(
                f"groups_per_core must be between 1 and {most} (limited by {limiting} of a core"
                f" of {machine.name}), got {groups_per_core}"
            )
        feasible: tuple[int, ...] = (groups_per_core,)
        limiting, most = "given", groups_per_core
    elif registers is not None:
        feasible = (most,)
    else:
        feasible = _feasible(machine, launch, most)
    subgroups = most * _subgroups(machine, launch)
    return Occupancy(
        groups_per_core=most,
        subgroups_per_core=subgroups,
        limited_by=limiting,
        limits=limits,
        occupancy=subgroups / machine.residency.max_subgroups,
        feasible=feasible,
        local_memory_carveout_bytes=local_memory_carveout(machine, launch, most),
        registers_per_item=registers,
    )


def local_memory_carveout(machine: Machine, launch: Launch, groups_per_core: int) -> int:
    """The smallest carve-out that the local memory of the resident groups fits into, in bytes.

    0 if no level shares its storage with local memory. The local memory that the driver reserves is
    included: on an otherwise empty A100 or H100, a pointer chase measures 8 to 16 KB less than the
    whole storage (mt4g). Raises ReplayError if no carve-out is large enough.
    """
    level = _sharing_level(machine)
    if level is None:
        return 0
    needed = groups_per_core * _group_local_bytes(machine.residency, launch)
    for carveout in level.local_carveouts_bytes:
        if needed <= carveout:
            return carveout
    raise ReplayError(
        f"local memory of {groups_per_core} groups takes {needed} bytes, more than the largest"
        f" carve-out of {machine.name}, {level.local_carveouts_bytes[-1]}"
    )


def levels_for(machine: Machine, launch: Launch, groups_per_core: int) -> tuple[Level, ...]:
    """The machine's levels, reduced by the carve-out of this launch."""
    carveout = local_memory_carveout(machine, launch, groups_per_core)
    return tuple(
        level.resized(level.size_beside(carveout)) if level.storage_bytes else level
        for level in machine.levels
    )


def _sharing_level(machine: Machine) -> Level | None:
    return next((level for level in machine.levels if level.storage_bytes), None)


def _subgroups(machine: Machine, launch: Launch) -> int:
    return _ceil(launch.group_items, machine.subgroup_size)


def _group_local_bytes(residency: Residency, launch: Launch) -> int:
    used = launch.local_memory_bytes + residency.local_memory_reserved_bytes
    return _round_up(used, residency.local_memory_unit_bytes)


class _Resource(NamedTuple):
    """Of a core: how much there is, and how much one group needs, 0 for none."""

    available: int
    needed: int
    unit: str = ""

    def groups(self, name: str, machine: Machine) -> int:
        """How many groups fit; raises ReplayError where none does."""
        groups = self.available // self.needed
        if not groups:
            raise ReplayError(
                f"no group fits on a core of {machine.name}: {name} needed {self.needed}{self.unit},"
                f" there are {self.available}, {self.needed - self.available} too few"
            )
        return groups


def _limits(machine: Machine, launch: Launch) -> dict[str, int]:
    """The number of groups that each resource except registers allows."""
    residency = machine.residency
    if launch.group_items < 1:
        raise ReplayError(f"group_items must be positive, got {launch.group_items}")
    if launch.group_items > residency.max_group_items:
        raise ReplayError(
            f"a group of {launch.group_items} work-items exceeds the {residency.max_group_items}"
            f" that {machine.name} allows, by {launch.group_items - residency.max_group_items}"
        )
    n_subgroups = _subgroups(machine, launch)
    most = n_subgroups == 1 and residency.max_groups_of_one_subgroup
    columns = launch.tensor_columns if residency.tensor_columns else 0
    resources = {
        "items": _Resource(residency.max_items, launch.group_items),
        "subgroups": _Resource(residency.max_subgroups, n_subgroups),
        "groups": _Resource(most or residency.max_groups, 1),
        "local memory": _Resource(
            residency.local_memory_bytes, _group_local_bytes(residency, launch), " bytes"
        ),
        "tensor memory": _Resource(residency.tensor_columns, columns, " columns"),
    }
    return {name: one.groups(name, machine) for name, one in resources.items() if one.needed}


def _register_limit(machine: Machine, launch: Launch, registers: int) -> int:
    residency = machine.residency
    if not 0 < registers <= residency.max_registers_per_item:
        raise ReplayError(
            f"registers_per_item must be between 1 and {residency.max_registers_per_item} on"
            f" {machine.name}, got {registers}"
        )
    groups = _groups_of_registers(machine, launch, registers)
    needed = _group_registers(machine, launch, registers)
    return groups or _Resource(residency.registers, needed).groups("registers", machine)


def _group_registers(machine: Machine, launch: Launch, registers: int) -> int:
    """Registers that one group occupies, after all rounding."""
    residency = machine.residency
    n_subgroups = _round_up(_subgroups(machine, launch), residency.subgroup_granularity)
    of_subgroup = registers * machine.subgroup_size
    if residency.register_allocation == "group":
        return _round_up(of_subgroup * n_subgroups, residency.register_unit)
    return _round_up(of_subgroup, residency.register_unit) * n_subgroups


def _groups_of_registers(machine: Machine, launch: Launch, registers: int) -> int:
    """The number of groups that the registers allow.

    If registers are allocated to sub-groups, they are split into `subgroup_granularity` equal banks,
    and those of a sub-group lie in one bank: a bank serves a whole number of sub-groups.
    """
    residency = machine.residency
    if residency.register_allocation == "group":
        return residency.registers // _group_registers(machine, launch, registers)
    n_parts = residency.subgroup_granularity
    of_subgroup = _round_up(registers * machine.subgroup_size, residency.register_unit)
    subgroups = residency.registers // n_parts // of_subgroup * n_parts
    return subgroups // _subgroups(machine, launch)


def _feasible(machine: Machine, launch: Launch, most: int) -> tuple[int, ...]:
    """Groups per core for every number of registers with which a group fits."""
    feasible = {
        min(most, _groups_of_registers(machine, launch, registers))
        for registers in range(1, machine.residency.max_registers_per_item + 1)
    }
    feasible.discard(0)
    if not feasible:
        raise MachineError(
            f"registers of {machine.name} do not suffice for a group of {launch.group_items} work-items,"
            " even with one per work-item"
        )
    return tuple(sorted(feasible))


def _ceil(value: int, unit: int) -> int:
    return -(-value // unit)


def _round_up(value: int, unit: int) -> int:
    return _ceil(value, unit) * unit
