"""The points at which an instruction runs: work-groups, work-items and loop trips, as one isl set.

Every axis of the launch's grid is a dim, whether the instruction uses it or not, because the
instruction runs for each index of every axis.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import islpy as isl
from loopy.kernel.data import GroupInameTag, LocalInameTag, VectorizeTag
from loopy.symbolic import aff_to_expr, condition_to_set

from calib.counting.scheduled import LoopNest, Scheduled
from calib.polynomials.isl_forms import DIM, aff_form, along, onto, with_names
from memsim.errors import KernelError
from tracegen.instrumented import readable


@dataclass(frozen=True)
class Grid:
    """The work-groups and work-items of a launch: isl.PwAff sizes by axis, and inames by axis."""

    groups: tuple[Any, ...]
    locals: tuple[Any, ...]

    @property
    def local_sizes(self) -> tuple[int | None, ...]:
        """Work-items along each axis; None if the number depends on a parameter."""
        return tuple(_constant(size) for size in self.locals)


@dataclass(frozen=True)
class Reach:
    """The points at which something runs.

    domain : isl.Set whose dims are inames
    inames : names of the dims: group axes, local axes, then loops from the outermost
    n_group, n_local : number of group axes and of local axes
    starts : loops that work-items start at different values, innermost first; for each the first
        value as an expression of what is outside the loop, None if it depends on data
    trips : loops whose bounds come from memory; they are not among the dims
    taken : conditions on values from memory, and whether they hold
    """

    domain: Any
    inames: tuple[str, ...]
    n_group: int
    n_local: int
    starts: tuple[tuple[str, Any], ...] = ()
    trips: tuple[str, ...] = ()
    taken: tuple[tuple[str, bool], ...] = ()

    def under(self, condition: Any, holds: bool) -> Reach:
        """The part where a condition holds, or where it fails."""
        satisfied = condition_to_set(self.domain.get_space(), condition)
        if satisfied is None:
            return replace(self, taken=(*self.taken, (readable(condition), holds)))
        satisfied = (
            isl.Set.from_basic_set(satisfied) if isinstance(satisfied, isl.BasicSet) else satisfied
        )
        domain = self.domain & satisfied if holds else self.domain - satisfied
        return replace(self, domain=domain.coalesce())


def grid(scheduled: Scheduled, launch: int) -> Grid:
    """The sizes of a launch's grid."""
    instructions = frozenset(
        name for name, place in scheduled.places.items() if place.launch == launch
    )
    groups, items = scheduled.kernel.get_grid_sizes_for_insn_ids(instructions, scheduled.callables)
    return Grid(*(tuple(size.drop_unused_params() for size in sizes) for sizes in (groups, items)))


def reach(scheduled: Scheduled, instruction: Any, shape: Grid) -> Reach:
    """All points of an instruction, before its predicates are applied."""
    kernel = scheduled.kernel
    place: LoopNest = scheduled.places[instruction.id]
    inames = sorted(instruction.within_inames)
    domain = _domain(scheduled, frozenset(inames))
    axes = {
        **_axes(kernel, inames, GroupInameTag, "g"),
        **_axes(kernel, inames, LocalInameTag, "l"),
    }
    loops = [name for name in (*place.host_loops, *place.loops) if name in inames]
    loops += [name for name in inames if name not in axes.values() and name not in loops]
    items = {name for axis, name in axes.items() if axis.startswith("l")}
    starts = _starts(domain, loops, items, set(scheduled.parameters) | set(inames))
    domain, trips = _without_data(domain, loops, scheduled.parameters)
    loops = [name for name in loops if name not in trips]
    order = []
    for letter, sizes in (("g", shape.groups), ("l", shape.locals)):
        for axis, size in enumerate(sizes):
            name = axes.get(f"{letter}{axis}")
            if name is None:
                name = f"_{letter}{axis}"
                domain = with_axis(domain, name, size)
            order.append(name)
    domain = reordered(domain, [*order, *loops])
    n_group, n_local = len(shape.groups), len(shape.locals)
    return Reach(domain, (*order, *loops), n_group, n_local, starts, tuple(trips))


def loop_domain(scheduled: Scheduled, loops: Sequence[str], what: str) -> tuple[Any, list[str]]:
    """The trips of the loops around a barrier or launch, and the loops bounded by data.

    All work-items of a group reach a barrier together, so no local axis bounds these loops. Raises
    KernelError if the trips differ among work-groups.
    """
    kernel = scheduled.kernel
    if not loops:
        return _with_parameters(isl.Set("{ [] : }"), scheduled.parameters), []
    whole = _as_set(kernel.get_inames_domain(frozenset(loops)))
    names = whole.get_var_names(DIM.set)
    hardware = [n for n in names if _axes(kernel, [n], GroupInameTag, "g")]
    kept = [*loops, *(name for name in hardware if name not in loops)]
    whole = _with_parameters(onto(whole, kept), scheduled.parameters)
    whole, trips = _without_data(whole, list(loops), scheduled.parameters)
    left = [name for name in loops if name not in trips]
    only = reordered(onto(whole, left), left)
    axes = onto(whole, hardware)
    both = reordered(whole, [*left, *hardware])
    product = only.insert_dims(DIM.set, len(left), len(hardware))
    axes = reordered(axes, hardware).insert_dims(DIM.set, 0, len(left))
    product, axes = (with_names(each, [*left, *hardware]) for each in (product, axes))
    product, axes = isl.align_two(product, axes)
    if not (product & axes).is_equal(both):
        raise KernelError(
            f"{what} is in loops ({', '.join(loops)}) whose trips differ among work-groups:"
            " the count of one work-item does not apply to all"
        )
    return only, trips


def reordered(domain: Any, names: Sequence[str]) -> Any:
    """A set with its dims in the order of the names."""
    n_param = domain.dim(DIM.param)
    n_set = domain.dim(DIM.set)
    if n_set:
        domain = domain.move_dims(DIM.param, n_param, DIM.set, 0, n_set)
    for k, name in enumerate(names):
        domain = domain.move_dims(
            DIM.set, k, DIM.param, domain.find_dim_by_name(DIM.param, name), 1
        )
    return domain


def is_vector(kernel: Any, iname: str) -> bool:
    return bool(kernel.iname_tags_of_type(iname, VectorizeTag))


def _domain(scheduled: Scheduled, inames: frozenset[str]) -> Any:
    if not inames:
        return _with_parameters(isl.Set("{ [] : }"), scheduled.parameters)
    domain = onto(_as_set(scheduled.kernel.get_inames_domain(inames)), inames)
    return _with_parameters(domain, scheduled.parameters)


def _as_set(domain: Any) -> Any:
    return isl.Set.from_basic_set(domain) if isinstance(domain, isl.BasicSet) else domain


def _with_parameters(domain: Any, parameters: Sequence[str]) -> Any:
    for name in parameters:
        if domain.find_dim_by_name(DIM.param, name) < 0:
            n = domain.dim(DIM.param)
            domain = domain.add_dims(DIM.param, 1).set_dim_name(DIM.param, n, name)
    return domain


def with_axis(domain: Any, name: str, size: Any) -> Any:
    """Adds a dim `name` with 0 <= name < size."""
    n = domain.dim(DIM.set)
    wide = domain.add_dims(DIM.set, 1).set_dim_name(DIM.set, n, name)
    x = isl.PwAff.from_aff(
        isl.Aff.var_on_domain(isl.LocalSpace.from_space(wide.get_space()), DIM.set, n)
    )
    size = size.align_params(wide.get_space().params()) if size.dim(DIM.param) else size
    limit = size.insert_domain(wide.get_space()) if size.dim(DIM.in_) == 0 else size
    x, limit = isl.align_two(x, limit)
    bounds = x.lt_set(limit) & x.ge_set(x - x)
    wide, bounds = isl.align_two(wide, bounds)
    return wide & bounds


def _axes(kernel: Any, inames: Sequence[str], tag: Any, letter: str) -> dict[str, str]:
    axes = {}
    for iname in inames:
        for each in kernel.iname_tags_of_type(iname, tag):
            axes[f"{letter}{each.axis}"] = iname
    return axes


def _starts(
    domain: Any, loops: Sequence[str], items: set[str], known: set[str]
) -> tuple[tuple[str, Any], ...]:
    """See Reach.starts. items : inames of the local axes; known : names that are not data."""
    starts = []
    for k, name in enumerate(loops):
        line = _without(domain, loops[k + 1 :])
        line = along(line, line.find_dim_by_name(DIM.set, name))
        pieces = line.dim_min(0).get_pieces()
        firsts = [aff_form(aff) for _, aff in pieces]
        names = frozenset[str]().union(*(first.names for first in firsts))
        if not names & items and names <= known:
            continue
        affine = len(pieces) == 1 and names <= known
        starts.append((name, aff_to_expr(pieces[0][1]) if affine else None))
    return tuple(reversed(starts))


def _without(domain: Any, names: Collection[str]) -> Any:
    return onto(domain, set(domain.get_var_names(DIM.set)) - set(names))


def _without_data(
    domain: Any, loops: Sequence[str], parameters: Sequence[str]
) -> tuple[Any, list[str]]:
    """Removes the loops bounded by values from memory, and those values; the loops, innermost
    first."""
    unknown = [name for name in domain.get_var_names(DIM.param) if name not in parameters]
    trips: list[str] = []
    if unknown:
        decided = set(unknown)
        for name in loops:  # from the outermost: a loop bounded by one of these depends on data too
            if _bound_by(domain, name, decided, loops):
                decided.add(name)
                trips.append(name)
        for name in reversed(trips):
            domain = domain.project_out(DIM.set, domain.find_dim_by_name(DIM.set, name), 1)
        for name in unknown:
            k = domain.find_dim_by_name(DIM.param, name)
            domain = domain.project_out(DIM.param, k, 1)
    return domain, trips


def _bound_by(domain: Any, name: str, decided: set[str], loops: Sequence[str]) -> bool:
    domain = _without(domain, loops[list(loops).index(name) + 1 :])
    at = domain.find_dim_by_name(DIM.set, name)
    for basic in domain.get_basic_sets():
        for constraint in basic.get_constraints():
            if not constraint.involves_dims(DIM.set, at, 1):
                continue
            for kind in (DIM.set, DIM.param):
                for k in range(constraint.space.dim(kind)):
                    if constraint.space.get_dim_name(
                        kind, k
                    ) in decided and constraint.involves_dims(kind, k, 1):
                        return True
    return False


def _constant(size: Any) -> int | None:
    pieces = size.get_pieces()
    if len(pieces) == 1 and pieces[0][1].is_cst():
        return int(pieces[0][1].get_constant_val().to_python())
    return None
