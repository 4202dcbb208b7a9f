"""The cases of a comparison, run one by one or by several processes: finished ones are kept, and a quick run takes a sample.

Each figure has a cost, the seconds of one core that all of its cases took when they were recorded (`scoreboard.csv`). A quick run takes evenly spaced cases of every figure, as many as QUICK_S allows all figures together.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from experiments.data_files import rows
from experiments.fingerprint import ROOT
from experiments.reproduction import Case
from memsim.commands import display
from memsim.montecarlo import in_order, submit_locally
from memsim.progress import as_part, report

KEPT = "cases.jsonl"
"""The file of a run's folder that has a line for each finished case."""
QUICK_S = 2 * 240.0
"""Seconds of one core that the cases of a quick run may take by their costs: 4 minutes of two cores, as the cases of a figure
differ, the first one compiles, and computers differ by a factor of two."""
UNKNOWN_S = 30.0
"""Of a case whose figure was never recorded."""
OF_CASES = ("data", "hardware", "kernels", "lhf")
RECORDED = ("scoreboard.csv", "time_errors.csv")
"""Tables that results are recorded in."""
T = TypeVar("T")
jobs: ContextVar[int] = ContextVar("jobs", default=1)
"""Processes that run cases; with one they run in this process."""


class Done(NamedTuple):
    """What one case gives.

    row : its row of the figure's table of our results
    """

    cases: Sequence[Case]
    row: Mapping[str, Any] = {}


def cases_of(done: Iterable[Done]) -> list[Case]:
    """All cases of what was run, in order."""
    return [case for one in done for case in one.cases]


@dataclass
class Taken:
    """What a run has taken and left out, by figure.  of : figure -> (cases taken, cases in all, seconds of one core)"""

    of: dict[str, tuple[int, int, float]] = field(default_factory=dict)

    def seconds(self, figure: str) -> float | None:
        """Of all cases of a figure, from those that were taken."""
        n, whole, seconds = self.of.get(figure, (0, 0, 0.0))
        return seconds / n * whole if n else None

    def __str__(self) -> str:
        left = [f"{n - k} of {n} {name}" for name, (k, n, _) in self.of.items() if k < n]
        seconds = sum(one[2] for one in self.of.values())
        return f"cases took {seconds:.0f} s of one core; left out: {', '.join(left) or 'nothing'}"


taken: ContextVar[Taken] = ContextVar("taken")


@contextlib.contextmanager
def running(n_jobs: int) -> Iterator[Taken]:
    """Cases run in so many processes; yields what is taken meanwhile."""
    all_taken = Taken()
    tokens = jobs.set(n_jobs), taken.set(all_taken)
    try:
        yield all_taken
    finally:
        jobs.reset(tokens[0])
        taken.reset(tokens[1])


def run(
    figure: str, cases: Mapping[str, T], work: Callable[[T], Done], out: Path, *, quick: bool
) -> list[Done]:
    """What `work` gives of each case, or of a sample; in order.

    A case that an earlier run into the same folder has finished is not run again, unless any source, machine file or table
    has changed since. With several processes `work` must be a function of a module, or a partial of one.

    cases : name -> what work takes
    """
    names = sample(figure, list(cases)) if quick else list(cases)
    known = _kept(out / KEPT, figure)
    new = [name for name in names if name not in known]
    with display(), contextlib.ExitStack() as stack:
        results: Iterator[tuple[Done, float]] = (_timed(work, cases[name]) for name in new)
        if jobs.get() > 1 and len(new) > 1:
            tasks = [(_timed, work, cases[name]) for name in new]
            submit = functools.partial(submit_locally, jobs.get())
            results = stack.enter_context(in_order(submit, tasks, 2 * jobs.get()))
        for n, name in enumerate(new):
            report(figure, n + len(names) - len(new), len(names))
            with as_part():
                known[name] = next(results)
            _keep(out / KEPT, figure, name, *known[name])
    note(figure, len(names), len(cases), sum(known[name][1] for name in names))
    return [known[name][0] for name in names]


def spent() -> float:
    """Seconds of cores that this process has taken, or `jobs` of them at most; for differences."""
    return _processor_s() if jobs.get() == 1 else jobs.get() * time.monotonic()


def _processor_s() -> float:
    """Of this process, and of those that it has waited for: compilers, and what runs kernels."""
    return sum(os.times()[:4])


def note(figure: str, n: int, of: int, seconds: float) -> None:
    """Adds n of so many cases, and their seconds, to what the run has taken."""
    if (all_taken := taken.get(None)) is not None:
        k, whole, before = all_taken.of.get(figure, (0, 0, 0.0))
        all_taken.of[figure] = (k + n, whole + of, before + seconds)


def sample(figure: str, cases: Sequence[T]) -> list[T]:
    """Evenly spaced cases, as many as the figure's share of QUICK_S allows, one at least."""
    whole_s = _costs().get(figure, UNKNOWN_S * len(cases))
    part = min(1.0, _share_s(figure) / max(whole_s, 1e-9))
    n = max(1, int(part * len(cases)))
    return [cases[(2 * k + 1) * len(cases) // (2 * n)] for k in range(n)]


@functools.cache
def _costs() -> Mapping[str, float]:
    """Figure -> seconds of one core for all of its cases, as recorded."""
    return {
        row["figure"]: float(row["seconds"]) for row in rows("scoreboard.csv") if row["seconds"]
    }


def _share_s(figure: str) -> float:
    """The seconds that a figure may take: what short ones of its reproduction leave, the others share."""
    of = {row["figure"]: row["reproduction"] for row in rows("scoreboard.csv")}
    left = QUICK_S
    whole = sorted(s for name, s in _costs().items() if of[name] == of.get(figure, "hardware"))
    for k, seconds in enumerate(whole):
        share = left / (len(whole) - k)
        if seconds > share:
            return share
        left -= seconds
    return left


def _timed(work: Callable[[T], Done], case: T) -> tuple[Done, float]:
    begin = _processor_s()
    return work(case), _processor_s() - begin


@functools.cache
def state() -> str:
    """Changes with any source, machine file, kernel or measured table that decides a case."""
    digest = hashlib.sha256()
    for folder in ("memsim", "tracegen", "calib", *(f"experiments/{name}" for name in OF_CASES)):
        for path in sorted((ROOT / folder).rglob("*")):
            if (
                path.suffix in (".py", ".toml", ".cu", ".hip", ".cl", ".csv")
                and path.name not in RECORDED
            ):
                digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _keep(path: Path, figure: str, name: str, done: Done, seconds: float) -> None:
    line = {
        "state": state(),
        "figure": figure,
        "name": name,
        "seconds": round(seconds, 2),
        "cases": [case.record(figure) for case in done.cases],
        "row": done.row,
    }
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, default=float) + "\n")


def _kept(path: Path, figure: str) -> dict[str, tuple[Done, float]]:
    """The finished cases of a figure; a line that a killed run has not completed counts as none."""
    found = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            one = json.loads(line)
            if (one["state"], one["figure"]) == (state(), figure):
                cases = [Case.from_record(record) for record in one["cases"]]
                found[one["name"]] = (Done(cases, one["row"]), one["seconds"])
    return found
