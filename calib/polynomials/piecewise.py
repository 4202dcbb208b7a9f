"""Piecewise quasi-polynomials, evaluated exactly and quickly at any size: the form that counts
take."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from calib.polynomials.isl_forms import Condition, Conjunction
from calib.polynomials.quasi_polynomial import Floor, QuasiPolynomial

Disjunction = tuple[Conjunction, ...]


@dataclass(frozen=True)
class Piecewise:
    """A sum of quasi-polynomials, each over a region; it is 0 outside all regions.

    pieces : (region, polynomial); a region is a disjunction of conjunctions, `((),)` is everywhere
    """

    pieces: tuple[tuple[Disjunction, QuasiPolynomial], ...]

    @classmethod
    def total(cls, summands: Iterable[tuple[Piecewise, Fraction]]) -> Piecewise:
        """The sum of piecewise polynomials, each times a factor; terms of equal regions are
        added."""
        joined: dict[Disjunction, QuasiPolynomial] = {}
        for summand, factor in summands:
            for region, value in summand.pieces:
                known = joined.get(region, QuasiPolynomial.number(0))
                joined[region] = known + value * factor
        return cls(tuple((region, value) for region, value in joined.items() if value.terms))

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        names = {
            name for region, value in self.pieces for name in (*value.names, *names_in(region))
        }
        return tuple(sorted(names))

    def at(self, values: Mapping[str, int]) -> Fraction:
        """The value at one size, exact; names beyond the parameters are ignored."""
        whole = {name: int(values[name]) for name in self.parameters}
        parts = (value.evaluate(whole) for region, value in self.pieces if holds(region, whole))
        return sum(parts, Fraction(0))

    def at_many(self, values: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """The values at many sizes, as Python numbers in an object array."""
        # Python's integers: n**4 of a large n is beyond 64 bits.
        whole = {name: np.asarray(values[name]).astype(object) for name in self.parameters}
        shape = np.broadcast_shapes(*(column.shape for column in whole.values()), ())
        total = np.zeros(shape, object)
        for region, value in self.pieces:
            inside = np.asarray(holds(region, whole), bool)
            total = total + np.where(inside, value.evaluate(whole), 0)
        return np.asarray(total, object)

    def __str__(self) -> str:
        if not self.pieces:
            return "0"
        lines = []
        for region, value in self.pieces:
            text = region_text(region)
            lines.append(f"{value}" if text == "" else f"{value}  where {text}")
        return "\n + ".join(lines)


def holds(region: Disjunction, values: Mapping[str, Any]) -> Any:
    """Whether a size lies in a region; of arrays of sizes, an array."""
    return functools.reduce(
        operator.or_,
        (
            functools.reduce(operator.and_, (each.holds(values) for each in conjunction), True)
            for conjunction in region
        ),
        False,
    )


def names_in(region: Disjunction) -> tuple[str, ...]:
    """The sizes that a region's conditions name."""
    return tuple(sorted({name for conj in region for each in conj for name in each.form.names}))


def region_text(region: Disjunction) -> str:
    """A region as readable text; "" for everywhere."""
    if any(not conjunction for conjunction in region):
        return ""
    return " or ".join(" and ".join(_condition_text(c) for c in conj) for conj in region)


def _condition_text(condition: Condition) -> str:
    """`n - 16 >= 0` as `n >= 16`, and `n - 16 floor(n/16) = 0` as `n mod 16 = 0`."""
    form = condition.form
    if condition.equality and (text := _modulo_text(form)) is not None:
        return text
    left = QuasiPolynomial.of({monomial: v for monomial, v in form.terms if v > 0})
    right = QuasiPolynomial.of({monomial: -v for monomial, v in form.terms if v < 0})
    return f"{left} {'=' if condition.equality else '>='} {right}"


def _modulo_text(form: QuasiPolynomial) -> str | None:
    for signed in (form, form * -1):
        for monomial, value in signed.terms:
            if len(monomial) != 1 or not isinstance(monomial[0][0], Floor):
                continue
            floor = monomial[0][0]
            if value != -floor.denominator:
                continue
            rest = signed + QuasiPolynomial.atom(floor) * floor.denominator - floor.numerator
            if (shift := rest.constant) is not None:
                return (
                    f"({floor.numerator}) mod {floor.denominator} = {-shift}"
                    if len(floor.numerator.terms) > 1
                    else f"{floor.numerator} mod {floor.denominator} = {-shift}"
                )
    return None
