"""What policies ask: the history, through the same answers that any other question gets."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from calib.history import Key, Store
from calib.history.records import Record
from experiments.history.execution import Done
from experiments.history.policies import Expected
from experiments.history.task_graph import Task

FRESH_S = 0.1
"""A record read from the store serves this long: the recorder writes every 50 ms."""


class FromHistory:
    """Asks a store for the mean of a task's kind on a worker, at most every FRESH_S for each."""

    def __init__(self, store: Store, key_of: Callable[[str, int], Key]) -> None:
        self._store = store
        self._key_of = key_of
        self._known: dict[tuple[str, int], tuple[float, Record | None]] = {}

    def __call__(self, task: Task, worker: int) -> Expected:
        place = (task.kind, worker)
        now = time.monotonic()
        read_at, record = self._known.get(place, (-FRESH_S, None))
        if now - read_at >= FRESH_S:
            record = self._store.get(self._key_of(*place))
            self._known[place] = (now, record)
        if record is None or record.accepted.n == 0:
            return Expected(time_s=None, n_samples=0)
        return Expected(time_s=record.accepted.mean, n_samples=record.accepted.n)


def error(done: Sequence[Done]) -> float:
    """The paper's: sum of |predicted - measured| over the sum of measured; nan with no prediction."""
    told = [(d.expected_s, d.measured_s) for d in done if d.expected_s is not None]
    if not told:
        return float("nan")
    return sum(abs(e - m) for e, m in told) / sum(m for _, m in told)
