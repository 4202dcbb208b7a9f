"""The paper's table 1: what bounds the groups on a core for compute capabilities 1.0 to 2.0.

Machines that are shipped carry their own limits; these are for a core of which only the compute
capability is known.
"""

from __future__ import annotations

import dataclasses

from memsim.errors import MachineError
from memsim.machine import Machine, Residency

_TESLA = Residency(
    max_items=768,
    max_subgroups=24,
    max_groups=8,
    max_group_items=512,
    registers=8192,
    max_registers_per_item=124,
    register_unit=256,
    register_allocation="group",
    subgroup_granularity=2,
    local_memory_bytes=16384,
    local_memory_unit_bytes=512,
    # The group's indices and sizes; the kernel's arguments come on top (CUDA C Programming Guide).
    local_memory_reserved_bytes=16,
)
_GT200 = dataclasses.replace(
    _TESLA, max_items=1024, max_subgroups=32, registers=16384, register_unit=512
)
_FERMI = Residency(
    max_items=1536,
    max_subgroups=48,
    max_groups=8,
    max_group_items=1024,
    registers=32768,
    max_registers_per_item=63,
    register_unit=64,
    register_allocation="subgroup",
    subgroup_granularity=2,
    local_memory_bytes=49152,
    local_memory_unit_bytes=128,
)
TABLE_1 = {"1.0": _TESLA, "1.1": _TESLA, "1.2": _GT200, "1.3": _GT200, "2.0": _FERMI}
"""Compute capability -> limits. Most registers of a work-item, granularity of sub-groups and reserved
local memory are not in the paper's table but in NVIDIA's occupancy calculator."""


def with_limits(machine: Machine, compute_capability: str) -> Machine:
    """The machine with a core's limits of that compute capability.

    Raises MachineError for one that the table does not have.
    """
    if compute_capability not in TABLE_1:
        raise MachineError(
            f"compute capability must be one of {', '.join(TABLE_1)}, got {compute_capability}"
        )
    return machine.replace(residency=TABLE_1[compute_capability])
