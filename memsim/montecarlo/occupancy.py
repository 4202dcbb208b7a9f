"""How many groups of a launch a core holds at once, and what cache they leave of its storage.

The rules are those of NVIDIA's occupancy calculator; AMD's fit them with other numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from memsim.errors import MachineError, ReplayError
from memsim.machine.model import Machine
from memsim.machine.parts import Level, Residency
from memsim.trace.model import Launch


@dataclass(frozen=True, kw_only=True)
class Occupancy:
    """What bounds the groups that a core holds.

    groups_per_core : resident groups, also of cores that the launch cannot fill
    subgroups_per_core : groups_per_core x sub-groups of a group
    limited_by : the resource of the smallest limit (`items`, `subgroups`, `groups`, `registers`,
        `local memory`), or `given`
    limits : resource -> groups that it allows; `registers` only where they are known
    occupancy : subgroups_per_core / the most that a core can hold
    feasible : the groups_per_core that some number of registers per item gives, ascending; one
        where registers are known or groups_per_core is given
    local_memory_carveout_bytes : what local memory takes of the storage it shares with a cache,
        0 where it shares none
    """

    groups_per_core: int
    subgroups_per_core: int
    limited_by: str
    limits: Mapping[str, int]
    occupancy: float
    feasible: tuple[int, ...]
    local_memory_carveout_bytes: int

    def to_json(self) -> dict[str, Any]:
        """The fields as what `json.dumps` takes."""
        return {**asdict(self), "limits": dict(self.limits), "feasible": list(self.feasible)}


def resident_groups(
    machine: Machine,
    launch: Launch,
    *,
    registers_per_item: int | None = None,
    groups_per_core: int | None = None,
) -> Occupancy:
    """The groups of a launch that one core of a machine holds at once.

    registers_per_item : instead of the launch's own. Where neither is known, the most that the
        other resources allow is taken, and `feasible` lists what registers could make of it
    groups_per_core : taken as given, once it is checked against the limits

    Raises ReplayError where not even one group fits, or not as many as given.
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
    )


def local_memory_carveout(machine: Machine, launch: Launch, groups_per_core: int) -> int:
    """The smallest carve-out that holds the local memory of the resident groups, in bytes.

    0 where no level shares its storage with local memory. What the driver reserves counts: a chase
    on an otherwise empty A100 or H100 finds 8 to 16 KB less than the whole storage (mt4g).
    Raises ReplayError where none is enough.
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


def l1_size_bytes(machine: Machine, launch: Launch, groups_per_core: int) -> int:
    """Size of the level next to the cores, after local memory took its part; 0 without levels."""
    if not machine.levels:
        return 0
    level = machine.levels[0]
    if not level.storage_bytes:
        return level.size_bytes
    return level.storage_bytes - local_memory_carveout(machine, launch, groups_per_core)


def levels_for(machine: Machine, launch: Launch, groups_per_core: int) -> tuple[Level, ...]:
    """The machine's levels as this launch finds them: the carve-out taken off."""
    carveout = local_memory_carveout(machine, launch, groups_per_core)
    return tuple(
        level.resized(level.storage_bytes - carveout) if level.storage_bytes else level
        for level in machine.levels
    )


def _sharing_level(machine: Machine) -> Level | None:
    return next((level for level in machine.levels if level.storage_bytes), None)


def _subgroups(machine: Machine, launch: Launch) -> int:
    return _ceil(launch.group_items, machine.subgroup_size)


def _group_local_bytes(residency: Residency, launch: Launch) -> int:
    used = launch.local_memory_bytes + residency.local_memory_reserved_bytes
    return _round_up(used, residency.local_memory_unit_bytes)


def _limits(machine: Machine, launch: Launch) -> dict[str, int]:
    """Groups that each resource but the registers allows."""
    residency = machine.residency
    if launch.group_items < 1:
        raise ReplayError(f"group_items must be positive, got {launch.group_items}")
    if launch.group_items > residency.max_group_items:
        raise ReplayError(
            f"a group of {launch.group_items} work-items exceeds the {residency.max_group_items}"
            f" that {machine.name} allows, by {launch.group_items - residency.max_group_items}"
        )
    n_subgroups = _subgroups(machine, launch)
    most = residency.max_groups
    if n_subgroups == 1 and residency.max_groups_of_one_subgroup:
        most = residency.max_groups_of_one_subgroup
    limits = {
        "items": residency.max_items // launch.group_items,
        "subgroups": residency.max_subgroups // n_subgroups,
        "groups": most,
    }
    local = _group_local_bytes(residency, launch)
    if local:
        limits["local memory"] = residency.local_memory_bytes // local
    wanted = {"items": launch.group_items, "subgroups": n_subgroups, "local memory": local}
    there = {
        "items": residency.max_items,
        "subgroups": residency.max_subgroups,
        "local memory": residency.local_memory_bytes,
    }
    for name, groups in limits.items():
        if groups == 0:
            unit = " bytes" if name == "local memory" else ""
            raise ReplayError(
                f"no group fits on a core of {machine.name}: {name} needed {wanted[name]}{unit},"
                f" there are {there[name]}, {wanted[name] - there[name]} too few"
            )
    return limits


def _register_limit(machine: Machine, launch: Launch, registers: int) -> int:
    residency = machine.residency
    if not 0 < registers <= residency.max_registers_per_item:
        raise ReplayError(
            f"registers_per_item must be between 1 and {residency.max_registers_per_item} on"
            f" {machine.name}, got {registers}"
        )
    groups = _groups_of_registers(machine, launch, registers)
    if groups == 0:
        needed = _group_registers(machine, launch, registers)
        raise ReplayError(
            f"no group fits on a core of {machine.name}: registers needed {needed},"
            f" there are {residency.registers}, {needed - residency.registers} too few"
        )
    return groups


def _group_registers(machine: Machine, launch: Launch, registers: int) -> int:
    """Registers that one group takes, all rounding included."""
    residency = machine.residency
    n_subgroups = _round_up(_subgroups(machine, launch), residency.subgroup_granularity)
    of_subgroup = registers * machine.subgroup_size
    if residency.register_allocation == "group":
        return _round_up(of_subgroup * n_subgroups, residency.register_unit)
    return _round_up(of_subgroup, residency.register_unit) * n_subgroups


def _groups_of_registers(machine: Machine, launch: Launch, registers: int) -> int:
    """Groups that the registers allow.

    Where each sub-group is given its own, they lie in `subgroup_granularity` equal parts, and a
    sub-group's in one of them: a part holds a whole number of sub-groups.
    """
    residency = machine.residency
    if residency.register_allocation == "group":
        return residency.registers // _group_registers(machine, launch, registers)
    n_parts = residency.subgroup_granularity
    of_subgroup = _round_up(registers * machine.subgroup_size, residency.register_unit)
    subgroups = residency.registers // n_parts // of_subgroup * n_parts
    return subgroups // _subgroups(machine, launch)


def _feasible(machine: Machine, launch: Launch, most: int) -> tuple[int, ...]:
    """Groups per core over every number of registers with which a group fits at all."""
    found = {
        min(most, _groups_of_registers(machine, launch, registers))
        for registers in range(1, machine.residency.max_registers_per_item + 1)
    }
    found.discard(0)
    if not found:
        raise MachineError(
            f"registers of {machine.name} hold no group of {launch.group_items} work-items,"
            " even at one a work-item"
        )
    return tuple(sorted(found))


def _ceil(value: int, unit: int) -> int:
    return -(-value // unit)


def _round_up(value: int, unit: int) -> int:
    return _ceil(value, unit) * unit
