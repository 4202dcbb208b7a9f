"""The arguments and the launch sizes of a workload in OpenCL C, checked against the kernel's parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError
from tracegen.compiled.opencl_program import Kernel, Parameter
from tracegen.workloads import checks
from tracegen.workloads.workload import OpenCLWorkload

MOST_GROUPS = (1 << 31) - 1


@dataclass(frozen=True)
class Argument:
    """One parameter with its value.

    kind : global, constant, local, or "" for a value
    value : the array, bytes of local memory, or the value as an array of numpy; None for a null pointer
    writable : whether the kernel may write to it
    """

    name: str
    kind: str
    value: Any
    writable: bool = False


def bound(kernel: Kernel, given: Mapping[str, Any] | Sequence[Any]) -> list[Argument]:
    """The kernel's arguments in order. Raises KernelError that names the parameter and the rule."""
    values = checks.by_name(kernel.name, [one.name for one in kernel.parameters], given)
    made = []
    for one in kernel.parameters:
        what = f"argument {one.name} of kernel {kernel.name} ({one.text})"
        value = _value(what, one, values[one.name])
        writable = one.kind == "global" and value is not None and not one.is_const
        made.append(Argument(one.name, one.kind, value, writable))
    return made


def _value(what: str, parameter: Parameter, value: Any) -> Any:
    if parameter.kind == "local":
        if not checks.is_whole(value, checks.MOST_LOCAL_BYTES, 1):
            raise KernelError(
                f"{what} takes a number of bytes of local memory, got {checks.short(value)}"
            )
        return int(value)
    if parameter.kind:
        return None if value is None else _array(what, parameter, value)
    if not parameter.n_bytes:
        raise KernelError(f"{what} cannot be traced: it is not a number, struct, vector or pointer")
    if parameter.number and parameter.n_bytes == np.dtype(parameter.number).itemsize:
        return checks.number(what, np.dtype(parameter.number), value)
    return np.ascontiguousarray(checks.record(what, parameter.n_bytes, value))


def _array(what: str, parameter: Parameter, given: Any) -> npt.NDArray[Any]:
    value = checks.check_array(what, given)
    checks.check_gaps(what, value)
    wanted, size = parameter.number, parameter.n_bytes
    is_number = bool(wanted) and (
        size == np.dtype(wanted).itemsize or value.dtype.fields is not None
    )
    checks.check_elements(what, value, 0 if is_number else size, wanted)
    return value


def shape(workload: OpenCLWorkload, kernel: Kernel) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Groups along each axis, and work-items along each axis of a group. Raises KernelError for sizes that do not fit."""
    items, group = checks.axes(workload.global_size), checks.axes(workload.local_size)
    name, required = kernel.name, kernel.group_shape
    if len(items) != len(group) or not 1 <= len(items) <= 3:
        raise KernelError(
            f"global_size and local_size of kernel {name} must have the same one to three axes,"
            f" got {items} and {group}"
        )
    for axis, (all_of, one) in enumerate(zip(items, group, strict=True)):
        if one < 1 or all_of < 1 or all_of % one:
            raise KernelError(
                f"local_size of kernel {name} must divide global_size along each axis, got"
                f" {one} and {all_of} along axis {axis}"
            )
    if required is not None and (*group, 1, 1)[:3] != required:
        raise KernelError(
            f"local_size of kernel {name} must be {required} (reqd_work_group_size), got {group}"
        )
    grid = tuple(a // b for a, b in zip(items, group, strict=True))
    if math.prod(grid) > MOST_GROUPS:
        raise KernelError(
            f"kernel {name} has {math.prod(grid)} work-groups; at most {MOST_GROUPS} can be traced"
        )
    return grid, group
