"""Tuning: every configuration of a space, predicted on machines by several processes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calib.tuning.evaluation import Subject
from calib.tuning.options import TuneOptions
from calib.tuning.pool import Pool, Progress
from calib.tuning.search import Found, Search
from calib.tuning.space import Space
from calib.tuning.store import OutcomeStore


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """The result of a tuning run.

    found : machine -> what was found on it
    interrupted : whether Ctrl-C ended it; `found` is then what was found until then
    """

    subject: Subject
    space: Space
    n_configurations: int
    found: Mapping[str, Found]
    interrupted: bool


def tune(
    subject: Subject,
    space: Space,
    machines: Sequence[str],
    store: OutcomeStore,
    options: TuneOptions | None = None,
    progress: Progress | None = None,
) -> Tuned:
    """Predicts the configurations of a space, the promising ones closely.

    Raises SpaceError where there is no configuration, WorkerDied where a worker process was killed, and
    StoreError; what was predicted before is then in the store.
    """
    options = options or TuneOptions()
    configurations = space.configurations()
    found: dict[str, Found] = {}
    interrupted = False
    with contextlib.ExitStack() as stack:
        pool = Pool(stack, options, store, progress or (lambda what, done, total: None))
        for machine in machines:
            search = Search(configurations, functools.partial(pool.outcomes, subject, machine))
            try:
                search.run()
            except KeyboardInterrupt:
                interrupted = True
            found[machine] = search.found
            if interrupted:
                break
    return Tuned(
        subject=subject,
        space=space,
        n_configurations=len(configurations),
        found=found,
        interrupted=interrupted,
    )
