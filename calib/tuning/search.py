"""Successive halving on intervals: all configurations are glanced at, the promising ones looked at closely.

Nothing is left behind that may be as fast as the best. A glance has an error of its own, for its
snapshot is short: how much the times of a few configurations, spread from the fastest to the slowest, change
relative to each other when they are looked at closely, step by step. All intervals of a look are widened by
what the steps that follow it change. The promising ones are looked at a few at a time, fastest first, until
none is left that is as fast as the best one so far, within the errors of both: each look says more of
these errors. What earlier groups left in the caches is open in all snapshots alike:
configurations are compared with cold caches, with warm ones, and with what is likely.
(Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", AISTATS
2016, halve by rank; here the intervals decide how many remain.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calib.tuning.outcome import EFFORTS, Outcome
from calib.tuning.space import Configuration, name_of
from memsim.statistics import student_t

Floats = npt.NDArray[np.float64]
Evaluate = Callable[[Sequence[Configuration], int], Iterator[Outcome]]
"""Configurations and an effort -> an outcome each, in order."""
SAMPLE = 8
"""Configurations whose times say how good a glance is; half of them are the fastest."""
BATCH = 6
"""Promising configurations that are looked at before it is said anew which ones are."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """The ends of the 95 % interval of a configuration's time."""

    low_s: float
    high_s: float


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a search found on one machine.

    outcomes : of each configuration the closest look at it, fastest first; those that failed at the end
    spread : effort -> half-width, as a factor's logarithm, of what a look with it leaves open beside the
        ordering. The closest look has nothing to compare it with, and is taken to leave open what the
        one before it did
    complete : whether every configuration was looked at, and the best ones closely
    """

    outcomes: tuple[Outcome, ...]
    spread: Mapping[int, float]
    complete: bool

    @property
    def ranked(self) -> tuple[Outcome, ...]:
        """Without those that failed."""
        return tuple(one for one in self.outcomes if not one.failure)

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return tuple(one for one in self.outcomes if one.failure)

    @property
    def candidates(self) -> tuple[Outcome, ...]:
        """Those that may be as fast as the fastest: the prediction does not tell them apart."""
        ranked = self.ranked
        if not ranked:
            return ()
        best = ranked[0]
        return tuple(
            one for one in ranked if may_be_as_fast(one, best, self._wide(one), self._wide(best))
        )

    def interval(self, outcome: Outcome) -> Interval:
        """The time of an outcome, with what its effort leaves open."""
        return interval(outcome, self.spread.get(outcome.effort, 0.0))

    def _wide(self, outcome: Outcome) -> float:
        return widened(outcome, self.spread.get(outcome.effort, 0.0))


def widened(outcome: Outcome, spread: float) -> float:
    """The factor by which a time may differ each way, over orderings and by exp(spread)."""
    half = outcome.half_width_s / outcome.time_s if outcome.time_s else 0.0
    return math.exp(math.hypot(spread, half))


def interval(outcome: Outcome, spread: float) -> Interval:
    """From the time with warm caches to that with cold ones, widened by orderings and exp(spread)."""
    wide, times_s = widened(outcome, spread), outcome.times_s
    return Interval(low_s=min(times_s) / wide, high_s=max(times_s) * wide)


def may_be_as_fast(one: Outcome, best: Outcome, wide: float, wide_best: float) -> bool:
    """Whether the intervals of two outcomes overlap, with caches in the same state."""
    pairs = zip(one.times_s, best.times_s, strict=True)
    return any(time_s / wide <= best_s * wide_best for time_s, best_s in pairs)


class Search:
    """A search on one machine. `run` may be interrupted; `found` is then what it had found."""

    def __init__(self, configurations: Sequence[Configuration], evaluate: Evaluate) -> None:
        self._configurations = configurations
        self._evaluate = evaluate
        self._looks: dict[str, dict[int, Outcome]] = {}
        self._spread: dict[int, float] = {}
        self._complete = False

    def run(self) -> Found:
        """All configurations with the least effort, then fewer with each further one.

        The sample is looked at with every effort first: a look leaves open all changes that follow it.
        """
        efforts = range(1, len(EFFORTS))
        self._look(self._configurations, 0)
        for effort in efforts:
            self._look(self._sample(effort - 1), effort)
        for effort in efforts:
            self._compare()
            while promising := self._promising(effort):
                self._look(promising[:BATCH], effort)
                self._compare()
        self._complete = True
        return self.found

    @property
    def found(self) -> Found:
        closest = [looks[max(looks)] for looks in self._looks.values()]
        order = sorted(
            closest, key=lambda one: (bool(one.failure), one.time_s, name_of(one.configuration))
        )
        return Found(outcomes=tuple(order), spread=dict(self._spread), complete=self._complete)

    def _look(self, configurations: Sequence[Configuration], effort: int) -> None:
        new = [one for one in configurations if effort not in self._looks.get(name_of(one), {})]
        for outcome in self._evaluate(new, effort):
            self._looks.setdefault(name_of(outcome.configuration), {})[effort] = outcome

    def _ranked(self, effort: int) -> list[Outcome]:
        """Those that were looked at with an effort, fastest first."""
        looks = (looks[effort] for looks in self._looks.values() if effort in looks)
        return sorted((one for one in looks if not one.failure), key=lambda one: one.time_s)

    def _sample(self, effort: int) -> list[Configuration]:
        """The fastest few, and as many spread over the rest."""
        ranked = self._ranked(effort)
        if not ranked:
            return []
        spread = np.linspace(0, len(ranked) - 1, SAMPLE - SAMPLE // 2 + 1)[1:]
        places = [*range(min(SAMPLE // 2, len(ranked))), *(round(place) for place in spread)]
        return [ranked[place].configuration for place in dict.fromkeys(places)]

    def _compare(self) -> None:
        """What each effort leaves open, by all looks so far."""
        changes = [self._change(effort) for effort in range(len(EFFORTS) - 1)]
        self._spread = {k: math.hypot(*changes[k:]) for k in range(len(changes))}
        self._spread[len(changes)] = changes[-1]

    def _changes(self, effort: int) -> Floats:
        """(n, 3) logarithms of how times with an effort change with the next one: as is likely, with cold and with warm
        caches."""
        return np.array(
            [
                np.log(looks[effort + 1].times_s) - np.log(looks[effort].times_s)
                for looks in self._looks.values()
                if effort in looks
                and effort + 1 in looks
                and not looks[effort].failure
                and not looks[effort + 1].failure
            ]
        ).reshape(-1, 3)

    def _change(self, effort: int) -> float:
        """How much times with an effort and the next one differ in logarithm, beside a common factor: the
        half-width of the interval in which the change of another configuration lies."""
        changes = self._changes(effort)[:, 0]
        n = len(changes)
        if n < 2:
            return 0.0
        return student_t(n) * math.sqrt(1 + 1 / n) * float(np.std(changes, ddof=1))

    def _promising(self, effort: int) -> list[Configuration]:
        """The configurations that were not looked at with an effort, but may be as fast as the fastest of those that
        were, fastest first: by their last look, with the factor by which others have changed."""
        looked = self._ranked(effort)
        if not looked:
            return []
        factors = np.exp(self._changes(effort - 1).mean(axis=0))
        best = np.min([one.times_s for one in looked], axis=0)
        of_best = math.log(widened(looked[0], self._spread[effort]))
        return [
            one.configuration
            for one in self._ranked(effort - 1)
            if effort not in self._looks[name_of(one.configuration)]
            and (
                np.array(one.times_s) * factors
                <= best
                * math.exp(math.hypot(of_best, math.log(widened(one, self._spread[effort - 1]))))
            ).any()
        ]
