"""Quasi-polynomials with rational coefficients: polynomials in names and in floors of affine forms.

The number of integer points of a parametric set of affine conditions is piecewise such a function
of its parameters (Barvinok 1994); the pieces are in `piecewise.py`. All arithmetic is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Floor:
    """floor(numerator / denominator): the numerator has integer coefficients and degree one."""

    numerator: QuasiPolynomial
    denominator: int

    def __str__(self) -> str:
        return f"floor(({self.numerator})/{self.denominator})"


Atom = str | Floor
Monomial = tuple[tuple[Atom, int], ...]
"""(atom, exponent) pairs in the order of the atoms' texts."""


@dataclass(frozen=True)
class QuasiPolynomial:
    """A sum of monomials in integer-valued atoms.

    terms : (monomial, coefficient) pairs, none zero, in descending degree and then by text
    """

    terms: tuple[tuple[Monomial, Fraction], ...]

    @classmethod
    def of(cls, terms: Mapping[Monomial, Fraction]) -> QuasiPolynomial:
        kept = [(monomial, value) for monomial, value in terms.items() if value]
        return cls(tuple(sorted(kept, key=_rank)))

    @classmethod
    def number(cls, value: Fraction | int) -> QuasiPolynomial:
        return cls.of({(): Fraction(value)})

    @classmethod
    def atom(cls, atom: Atom) -> QuasiPolynomial:
        return cls((((((atom, 1),)), Fraction(1)),))

    @cached_property
    def _hash(self) -> int:
        return hash(self.terms)

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: QuasiPolynomial | Fraction | int) -> QuasiPolynomial:
        total = dict(self.terms)
        for monomial, value in _as(other).terms:
            total[monomial] = total.get(monomial, Fraction(0)) + value
        return QuasiPolynomial.of(total)

    def __sub__(self, other: QuasiPolynomial | Fraction | int) -> QuasiPolynomial:
        return self + _as(other) * -1

    def __mul__(self, other: QuasiPolynomial | Fraction | int) -> QuasiPolynomial:
        total: dict[Monomial, Fraction] = {}
        for left, a in self.terms:
            for right, b in _as(other).terms:
                monomial = _product(left, right)
                total[monomial] = total.get(monomial, Fraction(0)) + a * b
        return QuasiPolynomial.of(total)

    def __pow__(self, exponent: int) -> QuasiPolynomial:
        result = QuasiPolynomial.number(1)
        for _ in range(exponent):
            result = result * self
        return result

    __radd__ = __add__
    __rmul__ = __mul__

    @cached_property
    def atoms(self) -> tuple[Atom, ...]:
        """The atoms that occur, without those inside floors."""
        return tuple(dict.fromkeys(atom for monomial, _ in self.terms for atom, _ in monomial))

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that occur, including those inside floors."""
        names: set[str] = set()
        for atom in self.atoms:
            names |= {atom} if isinstance(atom, str) else atom.numerator.names
        return frozenset(names)

    @property
    def constant(self) -> Fraction | None:
        """The value of a polynomial without atoms; None for any other."""
        if not self.terms:
            return Fraction(0)
        return self.terms[0][1] if self.terms[0][0] == () else None

    def substitute(self, values: Mapping[str, QuasiPolynomial]) -> QuasiPolynomial:
        """Replaces names by polynomials, inside floors too."""
        if not self.names & values.keys():
            return self
        return self.replace_atoms(lambda atom: _substituted(atom, values))

    def replace_atoms(self, replaced: Callable[[Atom], QuasiPolynomial]) -> QuasiPolynomial:
        total = QuasiPolynomial.number(0)
        for monomial, value in self.terms:
            term = QuasiPolynomial.number(value)
            for atom, exponent in monomial:
                term = term * replaced(atom) ** exponent
            total = total + term
        return total

    def by_power(self, name: str) -> dict[int, QuasiPolynomial]:
        """Coefficients by the power of one name, which no floor may contain."""
        powers: dict[int, dict[Monomial, Fraction]] = {}
        for monomial, value in self.terms:
            power = dict(monomial).get(name, 0)
            rest = tuple(pair for pair in monomial if pair[0] != name)
            powers.setdefault(power, {})[rest] = value
        return {power: QuasiPolynomial.of(terms) for power, terms in powers.items()}

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The exact value where every name has one, or of arrays of Python's integers the array of exact values."""
        total: Any = 0
        for monomial, coefficient in self.terms:
            value: Any = coefficient if coefficient.denominator > 1 else coefficient.numerator
            for atom, exponent in monomial:
                if isinstance(atom, str):
                    value = value * values[atom] ** exponent
                else:
                    inner = atom.numerator.evaluate(values)
                    value = value * (inner // atom.denominator) ** exponent
            total = total + value
        return total

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        pieces = []
        for k, (monomial, value) in enumerate(self.terms):
            text = _term_text(monomial, abs(value))
            sign = "-" if value < 0 else ("" if k == 0 else "+")
            pieces.append(f"{sign}{text}" if k == 0 else f" {sign} {text}")
        return "".join(pieces)


def floor_of(polynomial: QuasiPolynomial, denominator: int = 1) -> QuasiPolynomial:
    """floor(polynomial / denominator) of an affine form; multiples of the denominator leave the
    floor."""
    scale = math.lcm(*(value.denominator for _, value in polynomial.terms), 1)
    numerator, denominator = polynomial * scale, denominator * scale
    whole: dict[Monomial, Fraction] = {}
    rest: dict[Monomial, Fraction] = {}
    for monomial, value in numerator.terms:
        quotient, remainder = divmod(value, denominator)
        whole[monomial] = Fraction(quotient)
        rest[monomial] = remainder
    outside = QuasiPolynomial.of(whole)
    inside = QuasiPolynomial.of(rest)
    if inside.constant is not None:
        return outside  # 0 <= constant < denominator
    common = math.gcd(denominator, *(int(v) for monomial, v in inside.terms if monomial))
    if common > 1:
        # floor((g a + c)/(g d)) = floor((a + floor(c/g))/d) for an integer a
        reduced = {
            monomial: (value / common if monomial else Fraction(value // common))
            for monomial, value in inside.terms
        }
        return outside + floor_of(QuasiPolynomial.of(reduced), denominator // common)
    return outside + QuasiPolynomial.atom(Floor(inside, denominator))


def sum_of_range(polynomial: QuasiPolynomial, name: str, last: QuasiPolynomial) -> QuasiPolynomial:
    """The sum over name = 0, 1, ..., last (at least -1), by Faulhaber's formula."""
    total = QuasiPolynomial.number(0)
    for power, coefficient in polynomial.by_power(name).items():
        powers = QuasiPolynomial.number(0)
        for exponent, value in enumerate(_faulhaber(power)):
            powers = powers + last**exponent * value
        total = total + coefficient * powers
    return total


@lru_cache(maxsize=64)
def _faulhaber(power: int) -> tuple[Fraction, ...]:
    """Coefficients, constant first, of the polynomial P with P(T) = 0^power + ... + T^power."""
    # Its differences give the monomial: P(T) - P(T-1) = T^power and P(-1) = 0.
    points = range(-1, power + 1)
    values = [sum(s**power for s in range(t + 1)) for t in points]
    return tuple(interpolation(points) @ values)


def interpolation(points: Sequence[int]) -> npt.NDArray[Any]:
    """(n, n) fractions by which values at points become the coefficients of a polynomial, constant first (Lagrange)."""
    n = len(points)
    rows = np.full((n, n), Fraction(0), object)
    for k, point in enumerate(points):
        coefficients = [Fraction(1)]
        for other in (*points[:k], *points[k + 1 :]):
            shifted = [Fraction(0), *coefficients]
            for j, value in enumerate(coefficients):
                shifted[j] -= other * value
            coefficients = [value / (point - other) for value in shifted]
        rows[:, k] = coefficients
    return rows


def floors_in(polynomials: Iterable[QuasiPolynomial]) -> Iterator[Floor]:
    """Every floor, preceded by the floors that it contains; one floor may occur repeatedly."""
    for polynomial in polynomials:
        for atom in polynomial.atoms:
            if isinstance(atom, Floor):
                yield from floors_in([atom.numerator])
                yield atom


def _as(value: QuasiPolynomial | Fraction | int) -> QuasiPolynomial:
    return value if isinstance(value, QuasiPolynomial) else QuasiPolynomial.number(value)


def _substituted(atom: Atom, values: Mapping[str, QuasiPolynomial]) -> QuasiPolynomial:
    if isinstance(atom, str):
        return values.get(atom) or QuasiPolynomial.atom(atom)
    return floor_of(atom.numerator.substitute(values), atom.denominator)


def _product(left: Monomial, right: Monomial) -> Monomial:
    exponents = dict(left)
    for atom, exponent in right:
        exponents[atom] = exponents.get(atom, 0) + exponent
    return tuple(sorted(exponents.items(), key=lambda pair: str(pair[0])))


def _rank(term: tuple[Monomial, Fraction]) -> tuple[int, str]:
    return -sum(exponent for _, exponent in term[0]), str([str(pair) for pair in term[0]])


def _term_text(monomial: Monomial, value: Fraction) -> str:
    factors = [f"{atom}" if exponent == 1 else f"{atom}^{exponent}" for atom, exponent in monomial]
    if value.numerator != 1 or not factors:
        factors.insert(0, str(value.numerator))
    text = "*".join(factors)
    return text if value.denominator == 1 else f"{text}/{value.denominator}"
