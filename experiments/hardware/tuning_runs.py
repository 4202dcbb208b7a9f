"""What `memsim tune` says of configurations whose times were measured."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from calib.tuning import Configuration, Found, OutcomeStore, Pool, Search, Subject, TuneOptions
from experiments.cases import jobs, note, sample, spent
from experiments.fingerprint import using
from experiments.hardware.comparison import errors
from experiments.reproduction import Case
from memsim.commands import display
from memsim.progress import report
from tracegen.commands import KernelSpec
from tracegen.own_process import Limits

Key = tuple[str, ...]
"""The values of a configuration, in the order of its names."""


@dataclass(frozen=True, kw_only=True)
class TuningRun:
    """Configurations of a kernel that were measured on a machine.

    times_ms : in the order of the configurations
    clang : whose code was measured; empty for that of the newest one
    """

    machine: str
    kernel: KernelSpec
    configurations: Sequence[Configuration]
    times_ms: Sequence[float]
    clang: str = ""

    @property
    def measured_ms(self) -> dict[Key, float]:
        return dict(zip(map(key, self.configurations), self.times_ms, strict=True))


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """How good a ranking is.

    loss : number of configurations at the top -> how much slower the best of them is than the best of all
    """

    loss: dict[int, float]

    def __str__(self) -> str:
        return ", ".join(
            f"best of the top {n} is {100 * loss:.1f} % slower than the best"
            for n, loss in self.loss.items()
        )


def key(configuration: Configuration) -> Key:
    """What tells a configuration from others of its run."""
    return tuple(configuration.values())


def ranking(found: Found, measured_ms: Mapping[Key, float]) -> Ranked:
    """How the configurations at the top of a prediction do when they are measured."""
    order = [measured_ms[key(one.configuration)] for one in found.ranked]
    best = min(measured_ms.values())
    return Ranked(loss={n: min(order[:n]) / best - 1 for n in (1, 3, 5)})


def predicted(
    figure: str, runs: Sequence[TuningRun], out: Path, quick: bool
) -> Iterator[tuple[TuningRun, Found]]:
    """What tuning finds of all configurations of each run, or of a sample of them.

    Predictions are kept in a store for each run in `out`, so an interrupted comparison can go on.
    """
    for run in runs:
        every = range(len(run.times_ms))
        chosen = sample(figure, every) if quick else every
        some = dataclasses.replace(
            run,
            configurations=[run.configurations[n] for n in chosen],
            times_ms=[run.times_ms[n] for n in chosen],
        )
        begin = spent()
        with using(run.clang):
            found = _search(some, out / f"{figure}-{run.machine}.tune")
        yield some, found
        note(figure, len(chosen), len(every), spent() - begin)


def _search(run: TuningRun, store: Path) -> Found:
    subject = Subject(kernel=run.kernel, limits=Limits())
    with contextlib.ExitStack() as stack:
        stack.enter_context(display())
        kept = stack.enter_context(OutcomeStore(store, subject))
        # Processes that began before know nothing of another compiler.
        options = TuneOptions(jobs=1 if run.clang else jobs.get())
        pool = Pool(stack, options, kept, report)
        return Search(
            run.configurations,
            lambda some, effort: pool.outcomes(subject, run.machine, some, effort),
        ).run()


def compared(run: TuningRun, found: Found) -> tuple[list[Case], str]:
    """A case for each configuration that has a prediction, and how good the ranking is."""
    quantity, measured_ms = f"{run.machine} time", run.measured_ms
    cases = [
        Case(
            " ".join(key(one.configuration)),
            quantity,
            "ms",
            reference=measured_ms[key(one.configuration)],
            ours=1e3 * one.time_s,
        )
        for one in found.ranked
    ]
    return cases, (
        f"{run.machine}: {errors(cases, quantity)}; {ranking(found, measured_ms)};"
        f" {len(found.failed)} not predicted"
    )
