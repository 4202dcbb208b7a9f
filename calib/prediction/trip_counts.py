"""Trip counts of the loops of a scheduled kernel, as formulas in its sizes where these exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import islpy as isl

from calib.polynomials.isl_forms import DIM, fix
from calib.polynomials.lattice_points import Uncountable, count_points
from calib.polynomials.quasi_polynomial import QuasiPolynomial
from calib.prediction.basic_blocks import BlockError, Count


def trip_count(kernel: Any, iname: str, outer: frozenset[str], sizes: Mapping[str, int]) -> Count:
    """The iterations of a loop, as a mean over work-items and the iterations of its outer loops.

    outer : the sequential loops around it
    sizes : values of the kernel's size arguments, where they are known

    The count of a loop whose bounds are read from memory is an unknown with the loop's name, for which a
    value is substituted later. Raises BlockError where the count has no formula in the unknown sizes.
    """
    domain = isl.Set.from_basic_set(kernel.get_inames_domain(outer | {iname}))
    if _depends_on_data(kernel, domain, iname):
        return QuasiPolynomial.atom(iname)
    assumed = isl.Set.from_basic_set(kernel.assumptions)
    domain, assumed = isl.align_two(domain, assumed)
    domain = domain.intersect_params(assumed.params())
    around = [name for name in outer if name in _dims(domain)]
    always = _same_every_time(fix(_onto(domain, {iname, *around}), dict(sizes)), iname)
    if always is not None:
        return always
    kept = fix(_onto(domain, {iname, *around}), dict(sizes))
    beyond = fix(_onto(domain, set(around)), dict(sizes))
    try:
        many, once = _single(kept), _single(beyond) if around else QuasiPolynomial.number(1)
    except Uncountable as error:
        names = sorted(_parameters(kept) - sizes.keys())
        raise BlockError(
            f"loop {iname} of {kernel.name} runs a number of times that has no formula ({error});"
            f" give {', '.join(names) or 'its sizes'} a value"
        ) from None
    ratio = _ratio(many, once)
    if ratio is None:
        names = sorted((many.names | once.names) - {iname})
        raise BlockError(
            f"how often loop {iname} of {kernel.name} runs depends on {', '.join(names)}:"
            " give it a value"
        )
    constant = ratio.constant
    return float(constant) if constant is not None else ratio


def _same_every_time(domain: Any, iname: str) -> Count | None:
    """The count where it is the same in every iteration of the outer loops."""
    outer = _dims(domain) - {iname}
    for k in reversed(range(domain.dim(DIM.set))):
        if domain.get_dim_name(DIM.set, k) != iname:
            domain = domain.move_dims(DIM.param, domain.dim(DIM.param), DIM.set, k, 1)
    try:
        pieces = count_points(domain.coalesce())
    except Uncountable:
        return None
    if len(pieces) != 1 or pieces[0].value.names & outer:
        return None
    constant = pieces[0].value.constant
    return float(constant) if constant is not None else pieces[0].value


def _ratio(many: QuasiPolynomial, once: QuasiPolynomial) -> QuasiPolynomial | None:
    divisor = once.constant
    if divisor is not None:
        return many * (1 / divisor) if divisor else QuasiPolynomial.number(0)
    # A constant trip count is the quotient of proportional polynomials.
    lead, base = many.terms[0][1], once.terms[0][1]
    if many == once * (lead / base):
        return QuasiPolynomial.number(lead / base)
    return None


def _single(domain: Any) -> QuasiPolynomial:
    """The number of points where it is one formula, or a sum of constants."""
    pieces = count_points(domain)
    if not pieces:
        return QuasiPolynomial.number(0)
    if len(pieces) == 1:
        return pieces[0].value
    constants = [piece.value.constant for piece in pieces]
    if all(value is not None for value in constants):
        return QuasiPolynomial.number(sum(value for value in constants if value is not None))
    raise Uncountable("it has several formulas")


def _depends_on_data(kernel: Any, domain: Any, iname: str) -> bool:
    alone = _onto(domain, {iname})
    return bool(_parameters(alone) & set(kernel.temporary_variables))


def _onto(domain: Any, names: set[str]) -> Any:
    for k in reversed(range(domain.dim(DIM.set))):
        if domain.get_dim_name(DIM.set, k) not in names:
            domain = domain.project_out(DIM.set, k, 1)
    return domain.coalesce()


def _dims(domain: Any) -> set[str]:
    return {domain.get_dim_name(DIM.set, k) for k in range(domain.dim(DIM.set))}


def _parameters(domain: Any) -> set[str]:
    return {
        domain.get_dim_name(DIM.param, k)
        for k in range(domain.dim(DIM.param))
        if domain.involves_dims(DIM.param, k, 1)
    }
