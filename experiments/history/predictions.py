"""Predictions of task times from the history, and their errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from calib.history import Key, Record, Store
from experiments.history.execution import Done
from experiments.history.policies import Expected
from experiments.history.task_graph import Task

FRESH_S = 0.1
"""Seconds for which a record from the store is reused; the recorder writes every 50 ms."""


class FromHistory:
    """Mean times by kind of task and worker, each read from a store at most every FRESH_S
    seconds."""

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
    """The paper's error: sum of |predicted - measured| / sum of measured; NaN without
    predictions."""
    predicted = [(d.expected_s, d.measured_s) for d in done if d.expected_s is not None]
    if not predicted:
        return float("nan")
    return sum(abs(e - m) for e, m in predicted) / sum(m for _, m in predicted)
