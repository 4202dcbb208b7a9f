"""What has been tried, and what it is predicted to gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calib.advice.trial import Kind, Measured
from memsim.statistics import Estimate, describe

EFFORT: tuple[Kind, ...] = ("kernel", "launch", "layout", "upper bound")
"""Kinds of changes, those that ask least of others first."""


NOTABLE_GAIN = 1.02
"""A smaller gain is none, as a smaller difference of two replays is none."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A change that was tried.

    what : a phrase;  code : the lines that make it, for a kernel named `knl`
    remedies : names of the remedies that it combines
    measured : None where it could not be predicted; `reason` then says why
    """

    what: str
    remedies: tuple[str, ...]
    kind: Kind = "kernel"
    code: tuple[str, ...] = ()
    measured: Measured | None = None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The outcome of a search.

    base : the kernel as it is, at as many trials as each ranked change has
    tried : every change that was tried, in that order
    untried : phrases of changes for which the budget did not last
    """

    kernel: str
    machine: str
    base: dict[int, Measured]
    tried: Sequence[Tried]
    untried: Sequence[str] = ()
    interrupted: bool = False
    elapsed_s: float = 0.0
    notes: Sequence[str] = ()

    def gain(self, one: Tried) -> Estimate:
        """Predicted time before over that after it; its interval pairs trials of equal seed."""
        assert one.measured is not None
        after = one.measured.seconds
        return describe(self.base[len(after)].seconds / after)

    def is_gaining(self, one: Tried) -> bool:
        """Whether a change is predicted to gain, by more than orderings explain and enough to make it."""
        gain = self.gain(one)
        return bool(gain.low > 1 and gain.mean >= NOTABLE_GAIN)

    def ranked(self, *kinds: Kind) -> list[Tried]:
        """Predicted changes by gain, the largest first.

        Where the intervals of gains overlap the prediction does not tell which is larger. Then changes of
        the kernel come before those of the launch, and these before those of data that others may
        use; and simple ones before combinations.
        """
        left = [one for one in self.tried if one.kind in kinds and one.measured is not None]
        gains = {id(one): self.gain(one) for one in left}
        ranked = []
        while left:
            best = max((gains[id(one)] for one in left), key=lambda gain: gain.mean)
            alike = [
                one
                for one in left
                if gains[id(one)].mean == best.mean or gains[id(one)].overlaps(best)
            ]
            first = min(
                alike,
                key=lambda one: (EFFORT.index(one.kind), len(one.remedies), -gains[id(one)].mean),
            )
            left.remove(first)
            ranked.append(first)
        return ranked

    @property
    def failed(self) -> list[Tried]:
        return [one for one in self.tried if one.measured is None]
