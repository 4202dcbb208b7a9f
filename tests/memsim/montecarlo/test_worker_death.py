"""A worker that is killed takes its own trial with it, and no other."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from memsim.errors import WorkerDied
from memsim.montecarlo.workers import Handling, Workers, trials_on


def _save(plan: Any, folder: Path) -> None:
    (folder / "plan").write_text(str(plan))


def _load(folder: Path) -> int:
    return int((folder / "plan").read_text())


def _no_workspace(plan: Any, memory: Any) -> None:
    return None


def die_at(plan: int, workspace: None, seed: int, trial: int) -> int:
    """The number of the trial; the process is killed at trial `plan`, as it is where memory runs out."""
    if trial == plan:
        os.kill(os.getpid(), signal.SIGKILL)
    return trial


HANDLING = Handling(_save, _load, _no_workspace)


def test_finished_trials_are_kept_and_the_next_run_has_other_workers() -> None:
    with Workers([12], jobs=2, handling=HANDLING) as workers:
        kept = r"a worker process died.*; \d+ complete trials are kept"
        with pytest.warns(UserWarning, match=kept):
            done, interrupted = trials_on(workers, seed=0, trials=40, task=die_at)
        assert interrupted
        assert done == list(range(len(done)))
        assert 1 <= len(done) <= 12
        assert trials_on(workers, seed=0, trials=6, task=die_at) == (list(range(6)), False)


def test_without_a_finished_trial_it_is_an_error() -> None:
    message = "^a worker process died: it was killed, perhaps because memory ran out$"
    with (
        Workers([0], jobs=2, handling=HANDLING) as workers,
        pytest.raises(WorkerDied, match=message),
    ):
        trials_on(workers, seed=0, trials=4, task=die_at)
