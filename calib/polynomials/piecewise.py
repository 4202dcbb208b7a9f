"""Piecewise quasi-polynomials, evaluated exactly and quickly at any size: the form that counts
take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from calib.polynomials.isl_forms import Condition, Conjunction
from calib.polynomials.quasi_polynomial import Floor, QuasiPolynomial, floors_in

Disjunction = tuple[Conjunction, ...]


@dataclass(frozen=True)
class Piecewise:
    """A sum of quasi-polynomials, each over a region; it is 0 outside all regions.

    pieces : (region, polynomial); a region is a disjunction of conjunctions, `((),)` is everywhere
    """

    pieces: tuple[tuple[Disjunction, QuasiPolynomial], ...]

    @classmethod
    def constant(cls, value: int | Fraction) -> Piecewise:
        return cls(((((),), QuasiPolynomial.number(value)),) if value else ())

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
        names: set[str] = set()
        for region, value in self.pieces:
            names |= value.names
            for conjunction in region:
                for condition in conjunction:
                    names |= condition.form.names
        return tuple(sorted(names))

    @cached_property
    def _program(self) -> _Program:
        return _Program(self.pieces)

    def at(self, values: Mapping[str, int]) -> Fraction:
        """The value at one size, exact; names beyond the parameters are ignored."""
        return self._program.at(values)

    def at_many(self, values: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """The values at many sizes, as Python numbers in an object array."""
        return self._program.at_many(values)

    def __str__(self) -> str:
        if not self.pieces:
            return "0"
        lines = []
        for region, value in self.pieces:
            text = region_text(region)
            lines.append(f"{value}" if text == "" else f"{value}  where {text}")
        return "\n + ".join(lines)


def holds(region: Disjunction, values: Mapping[str, int]) -> bool:
    """Whether a size lies in a region."""
    return any(
        all(
            (value == 0 if condition.equality else value >= 0)
            for condition in conjunction
            for value in [condition.form.evaluate(values)]
        )
        for conjunction in region
    )


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


class _Program:
    """Pieces as lists of numbers; parameters and floors occupy slots that are filled in order."""

    def __init__(self, pieces: Sequence[tuple[Disjunction, QuasiPolynomial]]) -> None:
        polynomials = [value for _, value in pieces]
        forms = [c.form for region, _ in pieces for conj in region for c in conj]
        self.slots: dict[Any, int] = {}
        names = sorted({name for each in (*polynomials, *forms) for name in each.names})
        for name in names:
            self.slots[name] = len(self.slots)
        self.names = names
        self.floors = []
        for floor in dict.fromkeys(floors_in([*forms, *polynomials])):
            self.floors.append((self._terms(floor.numerator)[1], floor.denominator))
            self.slots[floor] = len(self.slots)
        self.pieces = [
            (
                [[(self._terms(c.form)[1], c.equality) for c in conj] for conj in region],
                *self._terms(value),
            )
            for region, value in pieces
        ]

    def _terms(self, polynomial: QuasiPolynomial) -> tuple[int, list[Any]]:
        """A common denominator, and (integer coefficient, slots repeated by exponent) pairs."""
        scale = lcm(*(value.denominator for _, value in polynomial.terms), 1)
        terms = []
        for monomial, value in polynomial.terms:
            slots = [self.slots[atom] for atom, exponent in monomial for _ in range(exponent)]
            terms.append((int(value * scale), slots))
        return scale, terms

    def at(self, values: Mapping[str, int]) -> Fraction:
        slots = [int(values[name]) for name in self.names]
        for terms, denominator in self.floors:
            slots.append(_value(terms, slots) // denominator)
        total = Fraction(0)
        for region, scale, terms in self.pieces:
            if any(_all_hold(conjunction, slots) for conjunction in region):
                number = _value(terms, slots)
                total += number if scale == 1 else Fraction(number, scale)
        return total

    def at_many(self, values: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
        shape = np.broadcast_shapes(*(np.shape(values[name]) for name in self.names), ())
        # Python's integers: n**4 of a large n is beyond 64 bits.
        slots = [
            np.broadcast_to(np.asarray(values[name]).astype(object), shape) for name in self.names
        ]
        for terms, denominator in self.floors:
            slots.append(_value(terms, slots) // denominator)
        total = np.zeros(shape, object)
        for region, scale, terms in self.pieces:
            inside = np.zeros(shape, bool)
            for conjunction in region:
                each = np.ones(shape, bool)
                for form, equality in conjunction:
                    value = _value(form, slots)
                    each &= np.asarray(value == 0 if equality else value >= 0, bool)
                inside |= each
            value = np.broadcast_to(np.asarray(_value(terms, slots), object), shape)
            if scale != 1:
                value = np.frompyfunc(lambda v, s=scale: Fraction(v, s), 1, 1)(value)
            total = total + np.where(inside, value, 0)
        return np.asarray(total, object)


def _value(terms: list[Any], values: list[Any]) -> Any:
    total: Any = 0
    for value, slots in terms:
        for slot in slots:
            value = value * values[slot]
        total = total + value
    return total


def _all_hold(conjunction: list[Any], values: list[Any]) -> bool:
    for terms, equality in conjunction:
        value = _value(terms, values)
        if value != 0 if equality else value < 0:
            return False
    return True
