"""The number of integer points of a parametric set, exactly, by summing out one dim after another.

When all dims but one are fixed, the remaining one runs through an arithmetic progression between
two bounds, both affine with floors; Faulhaber's formula sums the count so far over it. If that
count contains floors of the dim, each residue class that makes them affine is summed separately.
isl's exact arithmetic determines which pieces of the bounds meet. The barvinok library is not
needed. A set whose progressions have holes in every order, and in each of its disjoint parts, is
refused (Uncountable).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import islpy as isl

from calib.polynomials.isl_forms import DIM, aff_form, along, constrained, with_names
from calib.polynomials.quasi_polynomial import (
    Floor,
    QuasiPolynomial,
    floor_of,
    floors_in,
    sum_of_range,
)

MAX_PIECES = 400
MAX_RESIDUES = 128
MAX_OPERATIONS = 500_000
"""isl operations per set. Domains of kernels take some thousands; more than this takes seconds."""


class Uncountable(Exception):
    """The summation finds no closed form for this set."""


@dataclass(frozen=True)
class Piece:
    """What is added to the count where the parameters lie in `domain`, a parameter set."""

    domain: Any
    value: QuasiPolynomial


@dataclass(frozen=True)
class _Range:
    """One piece of a dim's progression: first, first + stride, ..., first + stride * last."""

    domain: Any
    first: QuasiPolynomial
    last: QuasiPolynomial
    stride: int


def count_points(domain: Any) -> tuple[Piece, ...]:
    """Pieces whose sum is the number of points of an isl.Set, as a function of its parameters.

    Raises Uncountable if the summation fails or produces too many pieces.
    """
    context = isl.DEFAULT_CONTEXT
    context.reset_operations()
    context.set_max_operations(MAX_OPERATIONS)
    try:
        return _counted(domain)
    except isl.Error as error:
        if "maximal number of operations" in str(error):
            raise Uncountable(f"more than {MAX_OPERATIONS} operations") from error
        raise
    finally:
        context.set_max_operations(0)


def _counted(domain: Any) -> tuple[Piece, ...]:
    names = [f"_x{k}" for k in range(domain.dim(DIM.set))]
    assert not set(names) & set(domain.get_var_names(DIM.param)), "a parameter with a reserved name"
    domain = _joined_tiles(with_names(domain, names).coalesce())
    budget = [MAX_PIECES]
    pieces = list(_sum(domain, QuasiPolynomial.number(1), budget))
    return tuple(_merged(pieces))


def _sum(domain: Any, value: QuasiPolynomial, budget: list[int]) -> Iterator[Piece]:
    if domain.is_empty():
        return
    if domain.dim(DIM.set) == 0:
        budget[0] -= 1
        if budget[0] < 0:
            raise Uncountable(f"more than {MAX_PIECES} pieces")
        yield Piece(domain.params(), _simplified(value, domain.params()))
        return
    choice = _easiest(domain, value)
    if choice is None:
        parts = domain.make_disjoint().get_basic_sets()
        if len(parts) <= 1:
            raise Uncountable("the points of some line have no regular distance")
        for part in parts:
            yield from _sum(isl.Set.from_basic_set(part), value, budget)
        return
    dim, ranges = choice
    name = domain.get_dim_name(DIM.set, dim)
    period = _period(value, name)
    if period > 1:
        for residue in range(period):
            part, inner = _residue_class(domain, value, dim, period, residue)
            yield from _sum(part, inner, budget)
        return
    for piece in ranges:
        step = QuasiPolynomial.atom(name) * piece.stride + piece.first
        stepped = value.substitute({name: step}) if name in value.names else value
        total = sum_of_range(stepped, name, piece.last)
        yield from _sum(_back(piece.domain, domain, dim), total, budget)


def _easiest(domain: Any, value: QuasiPolynomial) -> tuple[int, list[_Range]] | None:
    """The dim that splits least and leaves the simplest sums; None if every line has holes."""
    best, best_cost = None, math.inf
    others_named = set(domain.get_var_names(DIM.set))
    for dim in range(domain.dim(DIM.set)):
        ranges = _ranges(domain, dim)
        if ranges is None:
            continue
        name = domain.get_dim_name(DIM.set, dim)
        cost = 0.0
        for piece in ranges:
            involved = (piece.first.names | piece.last.names) & (others_named - {name})
            floors = sum(
                1 for f in floors_in([piece.first, piece.last]) if f.numerator.names & others_named
            )
            cost += 10 + len(involved) + 100 * floors
        cost *= _period(value, name)
        if cost < best_cost:
            best, best_cost = (dim, ranges), cost
    return best


def _ranges(domain: Any, dim: int) -> list[_Range] | None:
    """The progressions of one dim with the others fixed; None if they have holes or no end."""
    line = along(domain, dim)
    try:
        low, high = line.dim_min(0), line.dim_max(0)
    except isl.Error as error:
        raise Uncountable("a dim has no bound") from error
    stride = _stride_between(line, low, high)
    if stride is None:
        return None
    ranges = []
    for low_domain, first in low.get_pieces():
        for high_domain, last in high.get_pieces():
            both = low_domain & high_domain & line.params()
            if both.is_empty():
                continue
            start, end = aff_form(first), aff_form(last)
            length = floor_of(end - start, stride) if stride > 1 else end - start
            ranges.append(_Range(both.coalesce(), start, length, stride))
    return ranges


def _stride_between(line: Any, low: Any, high: Any) -> int | None:
    """The distance between the points of each line; None if it is not regular."""
    space = line.get_space()
    x = isl.PwAff.from_aff(isl.Aff.var_on_domain(isl.LocalSpace.from_space(space), DIM.set, 0))
    low_on, high_on = low.insert_domain(space), high.insert_domain(space)
    filled = low_on.le_set(x) & x.le_set(high_on)
    filled = filled & isl.Set.universe(space).intersect_params(line.params())
    if filled.is_equal(line):
        return 1
    stride = int(line.get_stride(0).to_python())
    if stride <= 1:
        return None
    regular = filled & (x - low_on).mod_val(isl.Val(stride)).eq_set(x - x)
    return stride if regular.is_equal(line) else None


def _back(parameters: Any, domain: Any, dim: int) -> Any:
    """Turns the last parameters of a set, which were dims of `domain`, back into dims."""
    n_param = domain.dim(DIM.param)
    n_other = domain.dim(DIM.set) - 1
    result = isl.Set.from_params(parameters) if parameters.is_params() else parameters
    if n_other:
        result = result.move_dims(DIM.set, 0, DIM.param, n_param, n_other)
    return result


def _period(value: QuasiPolynomial, name: str) -> int:
    """The step of `name` that leaves every floor of `value` affine."""
    period = 1
    for floor in floors_in([value]):
        for monomial, coefficient in floor.numerator.terms:
            if monomial and _mentions(monomial, name):
                if not all(isinstance(atom, str) for atom, _ in monomial):
                    raise Uncountable("a floor within a floor of a summed dim")
                needed = floor.denominator // math.gcd(floor.denominator, int(coefficient))
                period = math.lcm(period, needed)
    if period > MAX_RESIDUES:
        raise Uncountable(f"a period of {period}, above {MAX_RESIDUES}")
    return period


def _mentions(monomial: Any, name: str) -> bool:
    return any(
        name == atom if isinstance(atom, str) else name in atom.numerator.names
        for atom, _ in monomial
    )


def _residue_class(
    domain: Any, value: QuasiPolynomial, dim: int, period: int, residue: int
) -> tuple[Any, QuasiPolynomial]:
    """The part where x = period * q + residue, with q in place of x, and the value there."""
    name = domain.get_dim_name(DIM.set, dim)
    space = domain.get_space()
    identity = isl.MultiAff.identity(space.map_from_set())
    local = isl.LocalSpace.from_space(space)
    scaled = isl.Aff.var_on_domain(local, DIM.set, dim).scale_val(isl.Val(period))
    scaled = scaled.add_constant_val(isl.Val(residue))
    part = domain.preimage_multi_aff(identity.set_aff(dim, scaled))
    part = with_names(part, domain.get_var_names(DIM.set))
    step = QuasiPolynomial.atom(name) * period + residue
    return part, value.substitute({name: step})


def _joined_tiles(domain: Any) -> Any:
    """Replaces (outer, inner) by x = tile * outer + inner wherever only x matters.

    The number of points does not change, because 0 <= inner < tile.
    """
    while (pair := _tile_pair(domain)) is not None:
        outer, inner, tile = pair
        domain = _join(domain, outer, inner, tile)
    return domain


def _tile_pair(domain: Any) -> tuple[int, int, int] | None:
    candidates: dict[tuple[int, int, int], None] = {}
    for basic in domain.get_basic_sets():
        for constraint in basic.get_constraints():
            coefficients = {
                k: int(constraint.get_coefficient_val(DIM.set, k).to_python())
                for k in range(domain.dim(DIM.set))
            }
            for outer, a in coefficients.items():
                for inner, b in coefficients.items():
                    if outer != inner and b and a and a % b == 0 and a // b > 1:
                        candidates[outer, inner, a // b] = None
    for outer, inner, tile in candidates:
        if _only_joined(domain, outer, inner, tile):
            return outer, inner, tile
    return None


def _only_joined(domain: Any, outer: int, inner: int, tile: int) -> bool:
    space = domain.get_space()
    local = isl.LocalSpace.from_space(space)
    b = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, DIM.set, inner))
    zero = b - b
    within = b.ge_set(zero) & b.lt_set(zero.add_constant_val(isl.Val(tile)))
    if not domain.is_subset(within):
        return False
    joined = _join(domain, outer, inner, tile)
    n = domain.dim(DIM.set)
    # Replace outer by x and drop inner: nothing is lost if splitting x gives the set again.
    local = isl.LocalSpace.from_space(space)
    forms = []
    for k in range(n):
        if k == inner:
            continue
        aff = isl.Aff.var_on_domain(local, DIM.set, k)
        if k == outer:
            aff = aff.scale_val(isl.Val(tile)) + isl.Aff.var_on_domain(local, DIM.set, inner)
        forms.append(aff)
    back = _pulled_back(joined, space, forms) & within
    return bool(back.is_equal(domain))


def _pulled_back(joined: Any, space: Any, forms: list[Any]) -> Any:
    multi = isl.MultiAff.zero(space.map_from_domain_and_range(joined.get_space()))
    for k, form in enumerate(forms):
        multi = multi.set_aff(k, form)
    return with_names(joined.preimage_multi_aff(multi), space.get_var_names(DIM.set))


def _join(domain: Any, outer: int, inner: int, tile: int) -> Any:
    n = domain.dim(DIM.set)
    name = domain.get_dim_name(DIM.set, outer)
    # Append x = tile * outer + inner as the last dim, then project out outer and inner.
    wide = domain.insert_dims(DIM.set, n, 1)
    wide = constrained(wide, {n: -1, outer: tile, inner: 1}, equality=True)
    for k in sorted((outer, inner), reverse=True):
        wide = wide.project_out(DIM.set, k, 1)
    # Move x to the position of outer among the remaining dims.
    place = outer - (1 if inner < outer else 0)
    if place < n - 2:
        wide = wide.move_dims(DIM.param, wide.dim(DIM.param), DIM.set, n - 2, 1)
        wide = wide.move_dims(DIM.set, place, DIM.param, wide.dim(DIM.param) - 1, 1)
    wide = wide.set_dim_name(DIM.set, place, name)
    return wide.coalesce()


def _simplified(value: QuasiPolynomial, domain: Any) -> QuasiPolynomial:
    """Replaces floors by affine forms where the domain fixes the residue of their numerators."""

    def replaced(atom: Any) -> QuasiPolynomial:
        if isinstance(atom, Floor) and atom.numerator.terms:
            residue = _fixed_residue(atom, domain)
            if residue is not None:
                return (atom.numerator - residue) * Fraction(1, atom.denominator)
        return QuasiPolynomial.atom(atom)

    return value.replace_atoms(replaced)


def _fixed_residue(floor: Floor, domain: Any) -> int | None:
    if not all(isinstance(atom, str) for atom in floor.numerator.atoms):
        return None
    point = domain.sample_point()
    if point.is_void():
        return None
    values = {
        domain.get_dim_name(DIM.param, k): int(point.get_coordinate_val(DIM.param, k).to_python())
        for k in range(domain.dim(DIM.param))
    }
    if not floor.numerator.names <= values.keys():
        return None
    residue = int(floor.numerator.evaluate(values)) % floor.denominator
    local = isl.LocalSpace.from_space(domain.get_space())
    aff = isl.Aff.zero_on_domain(local).add_constant_val(isl.Val(-residue))
    for monomial, coefficient in floor.numerator.terms:
        if not monomial:
            aff = aff.add_constant_val(isl.Val(int(coefficient)))
            continue
        ((name, _),) = monomial
        k = domain.find_dim_by_name(DIM.param, name)
        aff = aff.add_coefficient_val(DIM.param, k, isl.Val(int(coefficient)))
    form = isl.PwAff.from_aff(aff).mod_val(isl.Val(floor.denominator))
    return residue if domain.is_subset(form.eq_set(form - form)) else None


def _merged(pieces: list[Piece]) -> list[Piece]:
    """Adds up pieces of equal domains and drops those of value 0."""
    merged: list[Piece] = []
    for piece in pieces:
        for k, other in enumerate(merged):
            if other.domain.is_equal(piece.domain):
                merged[k] = Piece(other.domain, other.value + piece.value)
                break
        else:
            merged.append(piece)
    return [piece for piece in merged if piece.value.terms]
