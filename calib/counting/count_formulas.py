"""A count as a sum of piecewise quasi-polynomials, evaluated at any size that its kernel allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import islpy as isl
import numpy as np
import numpy.typing as npt

from calib.counting.language import Constraint
from calib.polynomials.isl_forms import Conjunction, aligned, conditions, fix, parameters_of
from calib.polynomials.lattice_points import Uncountable, count_points
from calib.polynomials.piecewise import Piecewise, holds, names_in, region_text
from calib.polynomials.quasi_polynomial import QuasiPolynomial
from memsim.errors import KernelError


@dataclass(frozen=True)
class PerSize:
    """A set without a known closed form; its points are counted again for each size.

    points : text of the isl.Set
    """

    points: str
    known: dict[tuple[int, ...], int] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def _set(self) -> Any:
        return isl.Set(self.points)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        return tuple(sorted(parameters_of(self._set)))

    def at(self, values: Mapping[str, int]) -> Fraction:
        key = tuple(int(values[name]) for name in self.parameters)
        if key not in self.known:
            fixed = fix(self._set, dict(zip(self.parameters, key, strict=True)))
            self.known[key] = count_fixed(fixed)
        return Fraction(self.known[key])

    def __str__(self) -> str:
        return f"#{self.points} (no closed form: counted for each size)"


@dataclass(frozen=True)
class SumOfCounts:
    """A sum of counts, each times a factor, of which at least one has no closed form."""

    parts: tuple[tuple[Solved, Fraction], ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(sorted({name for value, _ in self.parts for name in value.parameters}))

    def at(self, values: Mapping[str, int]) -> Fraction:
        return sum((value.at(values) * factor for value, factor in self.parts), Fraction(0))


Solved = Piecewise | PerSize | SumOfCounts
"""The number of points of a set, as a function of the sizes."""


def count_fixed(points: Any) -> int:
    """The points of a set without parameters."""
    try:
        return int(sum(piece.value.evaluate({}) for piece in count_points(points)))
    except Uncountable:
        return int(points.count_val().to_python())


@dataclass(frozen=True)
class Guard:
    """A feature's constraint on a stride or an access-to-footprint ratio.

    A term counts if `value <comparison> limit`.

    stride : the value, for a stride; accesses, footprint : its parts, for a ratio
    """

    constraint: Constraint
    stride: QuasiPolynomial | None = None
    accesses: Solved | None = None
    footprint: Solved | None = None

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        names = set(self.constraint.limit.names)
        if self.stride is not None:
            names |= self.stride.names
        for each in (self.accesses, self.footprint):
            names |= set(each.parameters) if each is not None else set()
        return tuple(sorted(names))

    def holds(self, values: Mapping[str, int]) -> bool:
        limit = self.constraint.limit.evaluate(values)
        if self.stride is not None:
            return self.constraint.holds(self.stride.evaluate(values), limit)
        assert self.accesses is not None
        assert self.footprint is not None
        footprint = self.footprint.at(values)
        # Without a footprint there is no access either.
        return footprint > 0 and self.constraint.holds(self.accesses.at(values) / footprint, limit)

    def __str__(self) -> str:
        if self.stride is not None:
            return f"stride {self.stride} {_sign(self.constraint)}"
        return f"accesses/footprint {_sign(self.constraint)}"


def _sign(constraint: Constraint) -> str:
    return f"{constraint.comparison} {constraint.limit}"


@dataclass(frozen=True)
class Term:
    """factor * value if all guards hold, else 0."""

    value: Solved
    factor: Fraction
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True)
class Count:
    """The result of `calib.count`.

    terms : their sum is the count
    allowed : the kernel's assumptions on its sizes, a disjunction of conjunctions
    what : the feature's text; unit : what it is counted once per
    """

    terms: tuple[Term, ...]
    allowed: tuple[Conjunction, ...]
    kernel: str
    what: str
    unit: str

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The sizes that the count depends on."""
        names: set[str] = set()
        for term in self.terms:
            names |= set(term.value.parameters)
            for guard in term.guards:
                names |= set(guard.parameters)
        return tuple(sorted(names))

    @cached_property
    def recounted_with(self) -> tuple[str, ...]:
        """The sizes that determine which accesses count, because a constraint of the feature names
        them."""
        names = {n for term in self.terms for guard in term.guards for n in guard.parameters}
        return tuple(sorted(names))

    @property
    def symbolic(self) -> bool:
        """Whether every term has a closed form."""
        return not any(isinstance(term.value, PerSize) for term in self.terms)

    @cached_property
    def _joined(self) -> Piecewise | None:
        """The count as one piecewise polynomial, if no term has guards and each has a closed
        form."""
        if not self.symbolic or self.recounted_with:
            return None
        kept = [term for term in self.terms if all(guard.holds({}) for guard in term.guards)]
        return Piecewise.total((_piecewise(term.value), term.factor) for term in kept)

    def at(self, **sizes: int) -> int:
        """The count at one size.

        Raises KernelError if a size is missing, is not an integer, or violates the kernel's
        assumptions, and if average trip counts make the result fractional (`value` returns it).
        """
        value = self.value(sizes)
        if value.denominator != 1:
            raise KernelError(
                f"{self.what} of {self.kernel} is {value}, not a whole number, because averages were"
                " given; Count.value(sizes) returns it"
            )
        return int(value)

    def value(self, sizes: Mapping[str, int]) -> Fraction:
        """As `at`, but fractional results are returned and unrelated names are ignored."""
        self._check(sizes)
        if self._joined is not None:
            return self._joined.at(sizes)
        total = Fraction(0)
        for term in self.terms:
            if all(guard.holds(sizes) for guard in term.guards):
                total += term.value.at(sizes) * term.factor
        return total

    def at_many(self, **sizes: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The counts at many sizes, which broadcast; float64, exact up to 2**53."""
        arrays = {name: np.asarray(values) for name, values in sizes.items()}
        self._missing(arrays)
        shape = np.broadcast_shapes(*(array.shape for array in arrays.values()), ())
        if self._joined is not None and all(name in arrays for name in self._names):
            self._check_many(arrays, shape)
            total = np.broadcast_to(self._joined.at_many(arrays), shape)
            return np.array(total, np.float64)
        flat = {name: np.broadcast_to(array, shape).ravel() for name, array in arrays.items()}
        n = int(np.prod(shape, dtype=np.int64))
        rows = ({name: int(column[k]) for name, column in flat.items()} for k in range(n))
        return np.array([float(self.value(row)) for row in rows], np.float64).reshape(shape)

    def _check_many(self, arrays: Mapping[str, npt.NDArray[Any]], shape: tuple[int, ...]) -> None:
        """As `_check`, for the first size that violates an assumption."""
        used = {name: np.broadcast_to(arrays[name], shape).ravel() for name in self._used}
        wrong = np.zeros(int(np.prod(shape, dtype=np.int64)), bool)
        for column in used.values():
            wrong |= np.asarray(column != np.floor(column.astype(np.float64)), bool)
        if self.allowed_conditions and not wrong.any():
            whole = {name: used[name].astype(object) for name in self._names}
            wrong |= ~np.asarray(holds(self.allowed, whole), bool)
        if wrong.any():
            row = int(np.argmax(wrong))
            self._check({name: column[row].item() for name, column in used.items()})

    @property
    def _used(self) -> tuple[str, ...]:
        return tuple(sorted({*self.parameters, *self._names}))

    @cached_property
    def allowed_conditions(self) -> bool:
        """Whether the assumptions restrict the sizes."""
        return not any(not conjunction for conjunction in self.allowed)

    def _missing(self, sizes: Mapping[str, Any]) -> None:
        missing = [name for name in self.parameters if name not in sizes]
        if missing:
            raise KernelError(f"{self.what} of {self.kernel} needs {', '.join(missing)}")

    def _check(self, sizes: Mapping[str, int]) -> None:
        self._missing(sizes)
        for name in self.parameters:
            if int(sizes[name]) != sizes[name]:
                raise KernelError(f"{name} must be an integer, got {sizes[name]!r}")
        if self.allowed_conditions and not self._fits(sizes):
            given = ", ".join(f"{name} = {sizes[name]}" for name in self._names if name in sizes)
            raise KernelError(
                f"kernel {self.kernel} assumes {region_text(self.allowed)}, got {given}"
            )

    def _fits(self, sizes: Mapping[str, int]) -> bool:
        """Whether the assumptions on the given sizes hold."""
        spoken = tuple(
            tuple(condition for condition in conj if condition.form.names <= sizes.keys())
            for conj in self.allowed
        )
        return bool(
            holds(spoken, {name: int(sizes[name]) for name in self._names if name in sizes})
        )

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """The sizes that the assumptions name."""
        return names_in(self.allowed)

    def __str__(self) -> str:
        if self._joined is not None:
            text = str(self._joined)
        else:
            lines = []
            for term in self.terms:
                factor = "" if term.factor == 1 else f"{term.factor} * "
                guards = " and ".join(str(guard) for guard in term.guards)
                lines.append(f"{factor}[{term.value}]" + (f" where {guards}" if guards else ""))
            text = "\n + ".join(lines) or "0"
        where = region_text(self.allowed)
        return f"{text}" + (f"\n   ({where})" if where else "")


def _piecewise(value: Solved) -> Piecewise:
    assert isinstance(value, Piecewise)
    return value


def solve(points: Any, assumptions: Any) -> Solved:
    """The number of points of an isl.Set, as a function of its parameters under assumptions.

    A closed form is checked against isl's enumeration at a few small sizes. If there is none, or if
    it is wrong, the points are counted for each size.
    """
    points, assumptions = aligned(points, assumptions)
    inside = points.intersect_params(assumptions.params()).drop_unused_params()
    try:
        pieces = count_points(inside)
    except Uncountable:
        return PerSize(str(inside))
    parts = []
    for piece in pieces:
        region = piece.domain.gist_params(assumptions.params())
        parts.append(Piecewise(((conditions(region), piece.value),)))
    result = Piecewise.total((part, Fraction(1)) for part in parts)
    return result if _agrees(result, inside, assumptions) else PerSize(str(inside))


CHECKED_POINTS = 200_000
CHECKED_SIZES = 3


def _agrees(value: Piecewise, points: Any, assumptions: Any) -> bool:
    """Whether a closed form equals enumeration at a few sizes that are small enough to
    enumerate."""
    names = parameters_of(points)
    checked = 0
    for size in (3, 16, 37, 48, 160, 7, 1):
        for step in (0, 5):
            values = {name: size + step * k for k, name in enumerate(names)}
            if fix(assumptions, values).is_empty():
                continue  # the form may be wrong there
            count = value.at(values)
            if count <= CHECKED_POINTS:
                if int(fix(points, values).count_val().to_python()) != count:
                    return False
                checked += 1
            if checked >= CHECKED_SIZES or not names:
                return True
    return True
