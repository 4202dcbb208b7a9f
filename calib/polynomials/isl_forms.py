"""Translates isl's affine forms and conditions into quasi-polynomials."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import islpy as isl

from calib.polynomials.quasi_polynomial import QuasiPolynomial, floor_of

DIM = isl.dim_type


@dataclass(frozen=True)
class Condition:
    """An affine form that must be at least 0, or equal to 0."""

    form: QuasiPolynomial
    equality: bool

    def holds(self, values: Mapping[str, Any]) -> Any:
        """Whether it holds at a size; of arrays of sizes, an array."""
        value = self.form.evaluate(values)
        return value == 0 if self.equality else value >= 0

    def __str__(self) -> str:
        return f"{self.form} {'=' if self.equality else '>='} 0"


Conjunction = tuple[Condition, ...]


def aff_form(aff: Any) -> QuasiPolynomial:
    """An isl.Aff over named dims as a quasi-polynomial."""
    return _form(aff, aff.get_constant_val(), DIM.in_)


def conditions(domain: Any) -> tuple[Conjunction, ...]:
    """An isl.Set as a disjunction of conjunctions; dims are identified by their names."""
    disjunction = []
    for basic in domain.compute_divs().get_basic_sets():
        conjunction = []
        for constraint in basic.get_constraints():
            form = _form(constraint.get_aff(), constraint.get_constant_val(), DIM.in_)
            if form.constant is None:
                conjunction.append(Condition(form, bool(constraint.is_equality())))
        disjunction.append(tuple(conjunction))
    return tuple(disjunction)


def _form(aff: Any, constant: Any, dims: Any) -> QuasiPolynomial:
    total = QuasiPolynomial.number(_fraction(constant))
    for kind in (DIM.param, dims):
        for k in range(aff.dim(kind)):
            value = _fraction(aff.get_coefficient_val(kind, k))
            if value:
                total = total + QuasiPolynomial.atom(aff.get_dim_name(kind, k)) * value
    for k in range(aff.dim(DIM.div)):
        value = _fraction(aff.get_coefficient_val(DIM.div, k))
        if value:
            total = total + floor_of(aff_form(aff.get_div(k))) * value
    return total


def _fraction(value: Any) -> Fraction:
    return Fraction(int(value.get_num_si()), int(value.get_den_val().to_python()))


def parameters_of(domain: Any) -> tuple[str, ...]:
    """The parameters that a set depends on."""
    return tuple(
        domain.get_dim_name(DIM.param, k)
        for k in range(domain.dim(DIM.param))
        if domain.involves_dims(DIM.param, k, 1)
    )


def fix(domain: Any, values: dict[str, int]) -> Any:
    """The set with numbers in place of parameters; names that are not its parameters are
    ignored."""
    for k in reversed(range(domain.dim(DIM.param))):
        name = domain.get_dim_name(DIM.param, k)
        if name in values:
            domain = domain.fix_val(DIM.param, k, isl.Val(values[name]))
            domain = domain.project_out(DIM.param, k, 1)
    return domain


def aligned(one: Any, other: Any) -> tuple[Any, Any]:
    """Two sets with the same parameters in the same order; their dims do not change."""
    one = one.align_params(other.get_space())
    return one, other.align_params(one.get_space())


def with_names(domain: Any, names: Iterable[str]) -> Any:
    """The set with names for its dims, in order."""
    for k, name in enumerate(names):
        domain = domain.set_dim_name(DIM.set, k, name)
    return domain


def onto(domain: Any, names: Collection[str]) -> Any:
    """The set projected onto the dims of some names."""
    for k in reversed(range(domain.dim(DIM.set))):
        if domain.get_dim_name(DIM.set, k) not in names:
            domain = domain.project_out(DIM.set, k, 1)
    return domain


def along(domain: Any, dim: int) -> Any:
    """The set of one dim, with the others as its last parameters."""
    behind = domain.dim(DIM.set) - dim - 1
    if behind:
        domain = domain.move_dims(DIM.param, domain.dim(DIM.param), DIM.set, dim + 1, behind)
    if dim:
        domain = domain.move_dims(DIM.param, domain.dim(DIM.param), DIM.set, 0, dim)
    return domain


def constrained(
    domain: Any, coefficients: Mapping[int, int], constant: int = 0, *, equality: bool = False
) -> Any:
    """The points for which the dims times their coefficients, and a constant, add up to at least 0, or to 0."""
    local = isl.LocalSpace.from_space(domain.get_space())
    kind = isl.Constraint.alloc_equality if equality else isl.Constraint.alloc_inequality
    constraint = kind(local).set_constant_val(isl.Val(constant))
    for dim, coefficient in coefficients.items():
        constraint = constraint.set_coefficient_val(DIM.set, dim, isl.Val(coefficient))
    return domain.add_constraint(constraint)
