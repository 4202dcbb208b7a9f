"""Exact counts: polynomials through executed counts, checked on further ones.

Where control flow depends on sizes alone, how often a block runs is a quasi-polynomial of the sizes (Ehrhart): among the
sizes that are the same modulo some period, a polynomial. The period is that of groups, sub-groups and unrolled loops.
So small sizes that are the same as the requested one modulo the period determine it. Two more executions along each
size, and one with all sizes larger at once, must agree with it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from calib.polynomials.quasi_polynomial import interpolation

HIGHEST_DEGREE = 4
_CHECKS = 2
"""Executions beyond those that determine a polynomial of one size."""
SMALLEST = 5
"""Sizes up to this many periods are executed, not made the variable of a polynomial."""

Counts = npt.NDArray[np.int64]
Point = tuple[int, ...]


@dataclass(frozen=True)
class ExactCount:
    """A polynomial of sizes.

    terms : powers of each size -> coefficient, none of them 0
    residues : what the sizes must be modulo period
    """

    names: tuple[str, ...]
    terms: Mapping[Point, Fraction]
    residues: Point
    period: int

    def at(self, sizes: Mapping[str, int]) -> int:
        values = [sizes[name] for name in self.names]
        total = Fraction(0)
        for powers, coefficient in self.terms.items():
            for value, power in zip(values, powers, strict=True):
                coefficient *= value**power
            total += coefficient
        return int(total)

    def __str__(self) -> str:
        """The highest powers first, as `ni nj/128 + 2 ni`."""
        if not self.terms:
            return "0"
        text = ""
        for powers in sorted(self.terms, key=lambda each: (-sum(each), [-p for p in each])):
            value = self.terms[powers]
            factors = [
                name if power == 1 else f"{name}^{power}"
                for name, power in zip(self.names, powers, strict=True)
                if power
            ]
            if abs(value.numerator) != 1 or not factors:
                factors.insert(0, str(abs(value.numerator)))
            term = " ".join(factors) + (f"/{value.denominator}" if value.denominator > 1 else "")
            sign = "-" if value < 0 else "+"
            text += f" {sign} {term}" if text else f"{'-' if value < 0 else ''}{term}"
        return text

    def where(self, labels: Mapping[str, str]) -> str:
        """The sizes that it is for, as `n = 3 mod 32`. labels : name -> what to call it"""
        return ", ".join(
            f"{labels[name]} = {residue} mod {self.period}"
            for k, (name, residue) in enumerate(zip(self.names, self.residues, strict=True))
            if any(powers[k] for powers in self.terms)
        )


def fit_exactly(
    run: Callable[[Point], Counts], names: Sequence[str], sizes: Point, period: int
) -> list[ExactCount | None]:
    """The polynomial of each count at sizes that are the same as `sizes` modulo the period; None where there is none.

    run : the counts at sizes, (n_count,); it is called with small ones, of up to the degree + 4 periods
    """
    residues = tuple(size % period for size in sizes)
    known: dict[Point, Counts] = {}

    def at(steps: Point) -> Counts:
        if steps not in known:
            known[steps] = run(
                tuple(r + period * (k + 1) for r, k in zip(residues, steps, strict=True))
            )
        return known[steps]

    n_axis = len(sizes)
    degrees = np.array([_degrees(at, axis, n_axis) for axis in range(n_axis)])
    found = np.asarray((degrees >= 0).all(axis=0))
    highest = [int(degrees[axis, found].max(initial=0)) for axis in range(n_axis)]
    grid = np.array(
        [at(steps) for steps in itertools.product(*(range(d + 1) for d in highest))], object
    ).reshape(*(d + 1 for d in highest), -1)
    for axis, degree in enumerate(highest):
        points = [residues[axis] + period * (k + 1) for k in range(degree + 1)]
        grid = np.moveaxis(np.tensordot(interpolation(points), grid, (1, axis)), 0, axis)
    beyond = tuple(degree + 1 + _CHECKS for degree in highest)
    checked = at(beyond)
    larger = {
        name: r + period * (k + 1) for name, r, k in zip(names, residues, beyond, strict=True)
    }
    made: list[ExactCount | None] = []
    for k in range(len(checked)):
        part: Any = grid[..., k]
        terms = {powers: part[powers] for powers in np.ndindex(part.shape) if part[powers]}
        one = ExactCount(tuple(names), terms, residues, period)
        made.append(one if found[k] and one.at(larger) == checked[k] else None)
    return made


def _degrees(at: Callable[[Point], Counts], axis: int, n_axis: int) -> npt.NDArray[np.int64]:
    """(n_count,) of each count the degree in one size, the others being smallest; -1 for none."""
    along: list[Counts] = []
    while True:
        along.append(at(tuple(len(along) if k == axis else 0 for k in range(n_axis))))
        degrees = np.full(len(along[0]), -1)
        differences = np.array(along)
        for degree in range(len(along) - _CHECKS):
            differences = np.diff(differences, axis=0)
            zero = (differences == 0).all(axis=0)
            degrees[(degrees < 0) & zero] = degree
        if len(along) > _CHECKS and ((degrees >= 0).all() or len(along) > HIGHEST_DEGREE + _CHECKS):
            return degrees
