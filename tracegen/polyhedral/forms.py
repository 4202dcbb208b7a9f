"""Affine forms: an integer plus multiples of symbols; and values that only a run determines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

GROUP, LANE, FIRST_SLOT = 0, 3, 6
"""Symbols GROUP + d and LANE + d are the group's and the work-item's ids along axis d; those from
FIRST_SLOT on are loop counters and results of operations that are not affine."""


@dataclass(frozen=True)
class Affine:
    """const + sum of coefficient * symbol; terms ascend by symbol and no coefficient is 0."""

    const: int = 0
    terms: tuple[tuple[int, int], ...] = ()

    def __add__(self, other: Affine) -> Affine:
        return self.plus(other, 1)

    def __sub__(self, other: Affine) -> Affine:
        return self.plus(other, -1)

    def plus(self, other: Affine, times: int) -> Affine:
        sums = dict(self.terms)
        for symbol, coefficient in other.terms:
            sums[symbol] = sums.get(symbol, 0) + times * coefficient
        return _affine(self.const + times * other.const, sums)

    def scaled(self, by: int) -> Affine:
        return _affine(self.const * by, {symbol: c * by for symbol, c in self.terms})

    @property
    def constant(self) -> bool:
        return not self.terms

    def uses(self, symbols: frozenset[int] | set[int]) -> bool:
        return any(symbol in symbols for symbol, _ in self.terms)


@dataclass(frozen=True)
class Unknown:
    """A value that only a run can determine; `why` is a phrase such as 'depends on x[i]'."""

    why: str


Value = Affine | Unknown


def symbol(number: int) -> Affine:
    return Affine(0, ((number, 1),))


def _affine(const: int, sums: Mapping[int, int]) -> Affine:
    return Affine(const, tuple(sorted((s, c) for s, c in sums.items() if c)))
