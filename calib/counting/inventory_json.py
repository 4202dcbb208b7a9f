"""Writes an inventory as JSON and reads it back."""

from __future__ import annotations

from typing import Any

from calib.counting.inventory import (
    AccessRecord,
    BarrierRecord,
    DomainRecord,
    Inventory,
    LaunchRecord,
    OpRecord,
)
from calib.polynomials.piecewise import polynomial_from_json, polynomial_to_json

Json = Any
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What reading anything but the data of `to_json` raises."""


def to_json(inventory: Inventory) -> Json:
    return {
        "name": inventory.name,
        "parameters": list(inventory.parameters),
        "assumptions": inventory.assumptions,
        "domains": [
            [d.points, d.n_group, list(d.local_sizes), list(d.trips), [list(t) for t in d.taken]]
            for d in inventory.domains
        ],
        "launches": [[each.name, each.groups, each.times] for each in inventory.launches],
        "accesses": [_access_json(access) for access in inventory.accesses],
        "ops": [
            [o.launch, o.instruction, o.name, o.dtype, o.number, o.domain, o.in_index]
            for o in inventory.ops
        ],
        "barriers": [[each.launch, each.kind, each.domain] for each in inventory.barriers],
    }


def from_json(data: Json) -> Inventory:
    """Reads the data of `to_json`; raises one of UNREADABLE for any other."""
    domains = tuple(
        DomainRecord(
            str(points),
            int(n_group),
            tuple(None if size is None else int(size) for size in sizes),
            tuple(map(str, trips)),
            tuple((str(name), bool(holds)) for name, holds in taken),
        )
        for points, n_group, sizes, trips, taken in data["domains"]
    )
    inventory = Inventory(
        name=str(data["name"]),
        parameters=tuple(map(str, data["parameters"])),
        assumptions=str(data["assumptions"]),
        domains=domains,
        launches=tuple(LaunchRecord(str(n), int(g), int(t)) for n, g, t in data["launches"]),
        accesses=tuple(_access(each) for each in data["accesses"]),
        ops=tuple(
            OpRecord(int(launch), str(i), str(n), str(dtype), int(k), int(d), bool(inside))
            for launch, i, n, dtype, k, d, inside in data["ops"]
        ),
        barriers=tuple(BarrierRecord(int(n), str(k), int(d)) for n, k, d in data["barriers"]),
    )
    used = [each.domain for each in inventory.accesses]
    used += [each.domain for each in inventory.ops] + [each.domain for each in inventory.barriers]
    used += [number for each in inventory.launches for number in (each.groups, each.times)]
    if any(not 0 <= number < len(domains) for number in used):
        raise IndexError("a domain that is not there")
    return inventory


def _access_json(access: AccessRecord) -> Json:
    return [
        access.launch,
        access.instruction,
        access.text,
        access.memory,
        access.array,
        access.dtype,
        access.direction,
        access.tag,
        [None if s is None else polynomial_to_json(s) for s in access.local_strides],
        [None if s is None else polynomial_to_json(s) for s in access.group_strides],
        access.domain,
        access.footprint,
        access.guard,
    ]


def _access(data: Json) -> AccessRecord:
    launch, instruction, text, memory, array, dtype, direction, tag = data[:8]
    local_strides, group_strides, domain, footprint, guard = data[8:]
    return AccessRecord(
        launch=int(launch),
        instruction=str(instruction),
        text=str(text),
        memory=memory,
        array=str(array),
        dtype=str(dtype),
        direction=direction,
        tag=None if tag is None else str(tag),
        local_strides=tuple(None if s is None else polynomial_from_json(s) for s in local_strides),
        group_strides=tuple(None if s is None else polynomial_from_json(s) for s in group_strides),
        domain=int(domain),
        footprint=None if footprint is None else str(footprint),
        guard=bool(guard),
    )
