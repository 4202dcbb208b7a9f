"""Strides of an access along the axes of the grid: the coefficients of gid and lid in its index.

They are gs0, gs1, ls0, ... in array[gs0*gid(0) + gs1*gid(1) + ... + ls0*lid(0) + ...], in elements
(Stevens and Klöckner 2020, section 6.1.1). A stride is a polynomial of the size parameters. It is 0
if the axis does not occur, and None if the index is not affine in it or comes from memory. A loop
that work-items start at different values is compared trip by trip: x[j] with j starting at lid(0)
has stride 1, although lid(0) is not in its index.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from loopy.diagnostic import ExpressionNotAffineError
from loopy.kernel.array import FixedStrideArrayDimTag
from loopy.symbolic import (
    CoefficientCollector,
    SubstitutionMapper,
    get_dependencies,
    simplify_using_aff,
)
from pymbolic import primitives as p
from pymbolic.mapper.substitutor import make_subst_func

from calib.polynomials.quasi_polynomial import QuasiPolynomial, floor_of

Stride = QuasiPolynomial | None


class NotPolynomial(Exception):
    """An expression is not a polynomial of the parameters."""


def axis_strides(
    kernel: Any,
    array: Any,
    index: Sequence[Any],
    inames: Sequence[str],
    parameters: Sequence[str],
) -> tuple[Stride, ...]:
    """The strides along the axes that `inames` represent."""
    known = kernel.all_inames() | set(parameters)
    total: list[Stride] = [QuasiPolynomial.number(0)] * len(inames)
    for part, scale in zip(index, _axis_scales(array, index), strict=True):
        coefficients = _coefficients(kernel, part, inames, known)
        for k, name in enumerate(inames):
            coefficient, so_far = coefficients.get(name), total[k]
            if so_far is None or coefficient is None or (scale is None and coefficient.terms):
                total[k] = None
            elif coefficient.terms:
                assert scale is not None
                total[k] = so_far + coefficient * scale
    return tuple(total)


def by_trips(index: Sequence[Any], starts: Sequence[tuple[str, Any]]) -> tuple[Any, ...]:
    """An index in which each loop's variable is replaced by its first value plus the trip.

    starts : see iteration_domains.Reach
    """
    replaced = tuple(index)
    for name, first in starts:
        start = p.Variable("<data>") if first is None else first
        change = SubstitutionMapper(make_subst_func({name: p.Variable(name) + start}))
        replaced = tuple(change(part) for part in replaced)
    return replaced


def polynomial(expression: Any) -> QuasiPolynomial:
    """An integer expression of names as a quasi-polynomial; raises NotPolynomial."""
    if isinstance(expression, int):
        return QuasiPolynomial.number(expression)
    if isinstance(expression, p.Variable):
        return QuasiPolynomial.atom(expression.name)
    if isinstance(expression, p.Sum):
        return sum(map(polynomial, expression.children), QuasiPolynomial.number(0))
    if isinstance(expression, p.Product):
        return math.prod(map(polynomial, expression.children), start=QuasiPolynomial.number(1))
    if isinstance(expression, p.Power) and expression.exponent in (0, 1, 2, 3):
        return math.prod(
            [polynomial(expression.base)] * expression.exponent, start=QuasiPolynomial.number(1)
        )
    if isinstance(expression, p.FloorDiv) and isinstance(expression.denominator, int):
        inner = polynomial(expression.numerator)
        degree = max((sum(e for _, e in monomial) for monomial, _ in inner.terms), default=0)
        if degree <= 1 and expression.denominator > 0:
            return floor_of(inner, expression.denominator)
    try:
        return QuasiPolynomial.number(Fraction(int(expression)))
    except (TypeError, ValueError):
        raise NotPolynomial(str(expression)) from None


def _axis_scales(array: Any, index: Sequence[Any]) -> list[Stride]:
    """Elements from one index of each array axis to the next; None if unknown."""
    tags = array.dim_tags if array.dim_tags is not None else (None,) * len(index)
    scales: list[Stride] = []
    for tag in tags:
        if tag is None:
            scales.append(QuasiPolynomial.number(1))
        elif isinstance(tag, FixedStrideArrayDimTag):
            try:
                scales.append(polynomial(tag.stride))
            except NotPolynomial:
                scales.append(None)
        else:  # components of a vector, or separate arrays
            scales.append(QuasiPolynomial.number(0))
    return scales


def _coefficients(
    kernel: Any, part: Any, inames: Sequence[str], known: set[str]
) -> dict[str, Stride]:
    """Coefficients of the inames in one index; None for those that cannot be determined."""
    names = get_dependencies(part)
    if not names <= known:
        return dict.fromkeys(inames)
    try:
        collected = CoefficientCollector(list(inames))(simplify_using_aff(kernel, part))
    except (ExpressionNotAffineError, TypeError, ValueError, NotImplementedError):
        return {name: None if name in names else QuasiPolynomial.number(0) for name in inames}
    coefficients: dict[str, Stride] = {}
    for name in inames:
        try:
            coefficients[name] = polynomial(collected.get(p.Variable(name), 0))
        except NotPolynomial:
            coefficients[name] = None
    return coefficients
