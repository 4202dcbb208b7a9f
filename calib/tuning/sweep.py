"""A kernel at several sizes: time, bytes and hit ratios, and the sizes at which an array leaves a cache."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calib.tuning.evaluation import Subject
from calib.tuning.options import TuneOptions
from calib.tuning.outcome import EFFORTS, Outcome
from calib.tuning.pool import Pool, Progress
from calib.tuning.space import Configuration, name_of
from calib.tuning.store import OutcomeStore
from memsim.report import percent

LEAST_DROP = 0.10
"""A hit ratio that falls by less from one size to the next is no knee."""


@dataclass(frozen=True, kw_only=True)
class Knee:
    """The sizes between which the hit ratio of an array falls most."""

    array: str
    level: str
    before: Configuration
    after: Configuration
    ratio_before: float
    ratio_after: float

    def __str__(self) -> str:
        return (
            f"{self.array} leaves {self.level} between {name_of(self.before)} and {name_of(self.after)}"
            f" (hits fall from {percent(self.ratio_before, 0)} to"
            f" {percent(self.ratio_after, 0)})"
        )


@dataclass(frozen=True, kw_only=True)
class Swept:
    """The result of a sweep.

    sizes : the settings of each size, in order
    outcomes : machine -> the outcomes of the first sizes; of all unless `interrupted`
    """

    subject: Subject
    sizes: Sequence[Configuration]
    outcomes: Mapping[str, Sequence[Outcome]]
    interrupted: bool

    @property
    def varied(self) -> list[str]:
        """The settings that change."""
        names = list(self.sizes[0])
        return [name for name in names if len({size[name] for size in self.sizes}) > 1] or names[:1]


def sweep(
    subject: Subject,
    sizes: Sequence[Configuration],
    machines: Sequence[str],
    options: TuneOptions | None = None,
    store: OutcomeStore | None = None,
    progress: Progress | None = None,
) -> Swept:
    """Predicts a kernel at several sizes, each as closely as tuning does at last.

    Raises WorkerDied where a worker process was killed.
    """
    outcomes: dict[str, list[Outcome]] = {}
    interrupted = False
    with contextlib.ExitStack() as stack:
        kept = store or stack.enter_context(OutcomeStore(None, subject))
        pool = Pool(stack, options or TuneOptions(), kept, progress or (lambda *_: None))
        try:
            for machine in machines:
                done = outcomes.setdefault(machine, [])
                for outcome in pool.outcomes(subject, machine, sizes, len(EFFORTS) - 1):
                    done.append(outcome)
        except KeyboardInterrupt:
            interrupted = True
    return Swept(subject=subject, sizes=sizes, outcomes=outcomes, interrupted=interrupted)


def knees(outcomes: Sequence[Outcome]) -> list[Knee]:
    """For each array and level the largest fall of its hit ratio from one size to the next, by size.

    outcomes : from the smallest size to the largest; those that failed are passed over
    """
    known = [one for one in outcomes if not one.failure]
    places = dict.fromkeys(place for one in known for place in one.array_hit_ratios)
    found = []
    for place in places:
        level, _, array = place.partition("/")
        pairs = [
            (a.array_hit_ratios[place] - b.array_hit_ratios[place], k)
            for k, (a, b) in enumerate(itertools.pairwise(known))
            if place in a.array_hit_ratios and place in b.array_hit_ratios
        ]
        drop, k = max(pairs, default=(0.0, 0))
        if drop >= LEAST_DROP:
            a, b = known[k], known[k + 1]
            knee = Knee(
                array=array,
                level=level,
                before=a.configuration,
                after=b.configuration,
                ratio_before=a.array_hit_ratios[place],
                ratio_after=b.array_hit_ratios[place],
            )
            found.append((k, knee))
    return [knee for _, knee in sorted(found, key=lambda item: item[0])]


def bound_changes(outcomes: Sequence[Outcome]) -> list[str]:
    """Where what limits the time changes: `limited by DRAM from n=4096 on, before by latency`."""
    known = [one for one in outcomes if not one.failure]
    return [
        f"limited by {b.binds} from {name_of(b.configuration)} on, before by {a.binds}"
        for a, b in itertools.pairwise(known)
        if a.binds != b.binds
    ]


def growth(outcomes: Sequence[Outcome], name: str) -> float:
    """The exponent with which the time grows between the last two sizes; NaN where it cannot be said."""
    known = [one for one in outcomes if not one.failure][-2:]
    try:
        low, high = (float(one.configuration[name]) for one in known)
        return math.log(known[1].time_s / known[0].time_s) / math.log(high / low)
    except (ValueError, ZeroDivisionError):
        return math.nan
