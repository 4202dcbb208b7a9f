"""Points per work-item, sub-group, work-group or kernel, from the points per work-item.

An operation of a sub-group runs if at least one lane is active: the sub-groups are the distinct
values of (group, linear local id // width, trip of each loop). Trips are identified by their
ordinal, because lanes that start a loop at different values still run through it together.
"""

from __future__ import annotations

from typing import Any

import islpy as isl

from calib.counting.options import Granularity
from calib.polynomials.isl_forms import DIM, along, constrained, with_names
from memsim.errors import KernelError


def points(
    domain: Any,
    n_group: int,
    local_sizes: tuple[int | None, ...],
    granularity: Granularity,
    subgroup_size: int,
) -> Any:
    """The set whose points are the number of executions per unit.

    domain : dims are the groups' axes, the local axes, then loops
    local_sizes : work-items along each local axis; None if the number depends on a parameter

    Raises KernelError if sub-groups cannot be formed.
    """
    n_local = len(local_sizes)
    if granularity == "work-item":
        return domain
    if granularity == "sub-group":
        domain = _by_ordinals(domain, n_group, n_local)
        return _subgroups(domain, n_group, local_sizes, subgroup_size).coalesce()
    if granularity == "work-group":
        domain = _by_ordinals(domain, n_group, n_local)
        return domain.project_out(DIM.set, n_group, n_local).coalesce()
    domain = _by_ordinals(domain, 0, n_group + n_local)
    return domain.project_out(DIM.set, 0, n_group + n_local).coalesce()


def _subgroups(domain: Any, n_group: int, local_sizes: tuple[int | None, ...], width: int) -> Any:
    """Replaces the local ids by the sub-group's number."""
    sizes = []
    for size in local_sizes:
        if size is None:
            raise KernelError(
                "sub-groups need work-group sizes that are numbers; this kernel's depend on a"
                " parameter"
            )
        sizes.append(size)
    # Axes that fit into a sub-group are projected out; the first that does not is cut into strips.
    first, lanes = n_group, 1
    while sizes and width % (lanes * sizes[0]) == 0:
        lanes *= sizes.pop(0)
        domain = domain.project_out(DIM.set, first, 1)
    if not sizes:
        return domain
    strip = width // lanes
    if width % lanes == 0 and (sizes[0] % strip == 0 or len(sizes) == 1):
        return _strips(domain, [(first, 1)], strip)
    strides, stride = [], 1
    for k, size in enumerate(sizes):
        strides.append((first + k, stride))
        stride *= size
    return _strips(domain, strides, strip)


def _strips(domain: Any, strides: list[tuple[int, int]], strip: int) -> Any:
    """Replaces adjacent dims by floor((sum of stride * dim) / strip)."""
    first, count = strides[0][0], len(strides)
    left = {first: -strip} | {dim + 1: stride for dim, stride in strides}
    wide = constrained(domain.insert_dims(DIM.set, first, 1), left)
    wide = constrained(wide, {dim: -each for dim, each in left.items()}, strip - 1)
    return wide.project_out(DIM.set, first + 1, count)


def _by_ordinals(domain: Any, first: int, count: int) -> Any:
    """Replaces x by x - (its least value for the same axes and outer loops) for each loop whose
    first value depends on the `count` dims from `first` on."""
    n = domain.dim(DIM.set)
    for dim in range(first + count, n):
        outer = domain.project_out(DIM.set, dim + 1, n - dim - 1)
        least = along(outer, dim).dim_min(0)
        n_param = domain.dim(DIM.param)
        if not any(
            least.involves_dims(DIM.param, n_param + k, 1) for k in range(first, first + count)
        ):
            continue
        domain = _shifted(domain, dim, outer)
    return domain


def _shifted(domain: Any, dim: int, outer: Any) -> Any:
    # least : {[outer dims] -> [min of this one]}, as a map from what comes before it
    n = domain.dim(DIM.set)
    relation = isl.Map.from_range(outer).move_dims(DIM.in_, 0, DIM.out, 0, dim).lexmin()
    # pairs (point, point') that agree but for this dim, where point' has x - least
    both = domain.insert_dims(DIM.set, n, 2)  # least, ordinal
    wide = relation.wrap().flatten()
    wide = wide.insert_dims(DIM.set, dim, n - dim)
    wide = wide.insert_dims(DIM.set, n + 1, 1)
    # wide : [outer dims, (free) dim.., least, ordinal]
    both = both & _renamed_like(wide, both)
    both = constrained(both, {dim: 1, n: -1, n + 1: -1}, equality=True)
    both = both.project_out(DIM.set, n, 1)
    both = both.project_out(DIM.set, dim, 1)
    both = both.move_dims(DIM.param, both.dim(DIM.param), DIM.set, n - 1, 1)
    both = both.move_dims(DIM.set, dim, DIM.param, both.dim(DIM.param) - 1, 1)
    return with_names(both, domain.get_var_names(DIM.set)).coalesce()


def _renamed_like(domain: Any, other: Any) -> Any:
    names = (other.get_dim_name(DIM.set, k) for k in range(domain.dim(DIM.set)))
    return with_names(domain, [name or f"_w{k}" for k, name in enumerate(names)])
