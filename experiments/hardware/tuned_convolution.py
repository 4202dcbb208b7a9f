"""A100 and MI250X, a 15 x 15 convolution: predicted times against those of a tuning run.

The configurations are a random sample; `memsim tune` ranks them. Nothing was chosen on their times, but for
the clock of the A100: a configuration was launched 32 times within a tenth of a second, most of it at the base
clock. Some runs change to the boost clock on the way (`a100_clock_switches.csv`), by up to 1.84 = 1410 / 765.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from calib.tuning import Found, Pool, Search, Store, Subject, TuneOptions
from experiments.data_files import rows, source, write_results
from experiments.hardware import drawing
from experiments.hardware.comparison import errors
from experiments.kernels import convolution
from experiments.reproduction import Case, Figure
from tracegen.commands import KernelSpec
from tracegen.own_process import Limits

TABLE = "convolution_times.csv"
COLUMNS = {"a100@765MHz": "a100_ms", "mi250x": "mi250x_ms"}
QUICK = 6


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """How good a ranking is.

    loss : number of configurations at the top -> how much slower the best of them is than the best of all
    """

    loss: dict[int, float]

    def __str__(self) -> str:
        return ", ".join(
            f"best of the top {n} is {loss:.1%} slower than the best"
            for n, loss in self.loss.items()
        )


def tuned_convolution(out: Path, quick: bool) -> Figure:
    """Predicted and measured time of each configuration; also writes convolution_ours.csv."""
    measured = rows(TABLE)[: QUICK if quick else None]
    names = [name for name in measured[0] if not name.endswith("_ms")]
    configurations = [{name: row[name] for name in names} for row in measured]
    subject = Subject(
        kernel=KernelSpec(
            f"{convolution.SOURCE}:convolution",
            {"image_size": "4096"},
            f"{Path(convolution.__file__)}:convolution",
        ),
        limits=Limits(),
    )
    cases: list[Case] = []
    findings: list[str] = []
    results: list[dict[str, object]] = [dict(one) for one in configurations]
    for machine, column in COLUMNS.items():
        found = _found(subject, configurations, machine, out / "convolution.tune")
        predicted_ms = {_key(one.configuration): 1e3 * one.time_s for one in found.ranked}
        times_ms = {_key(row): float(row[column]) for row in measured}
        for row, result in zip(configurations, results, strict=True):
            result[column] = predicted_ms.get(_key(row), "")
            if _key(row) in predicted_ms:
                cases.append(
                    Case(
                        figure="convolution",
                        case=" ".join(_key(row)),
                        quantity=f"{machine} time",
                        unit="ms",
                        reference=times_ms[_key(row)],
                        ours=predicted_ms[_key(row)],
                        ci95=None,
                    )
                )
        ranked = ranking(found, times_ms)
        findings.append(
            f"{machine}: {errors(cases, f'{machine} time')}; {ranked}; {len(found.failed)} not predicted"
        )
    write_results(
        out / "convolution_ours.csv",
        f"Predicted times in ms for comparison with {TABLE}; empty where a configuration fits no core.",
        results,
    )
    return Figure(
        reference_name="measured",
        name="convolution",
        title="A100 and MI250X, 15 x 15 convolution in 100 configurations: time",
        source=source(TABLE),
        cases=cases,
        findings=findings,
        pictures=[drawing.scatter(out / "convolution.png", cases, "convolution: time in ms")],
    )


def ranking(found: Found, times_ms: dict[tuple[str, ...], float]) -> Ranked:
    """How the configurations at the top of a prediction do when they are measured."""
    order = [times_ms[_key(one.configuration)] for one in found.ranked]
    best = min(times_ms.values())
    return Ranked(loss={n: min(order[:n]) / best - 1 for n in (1, 3, 5)})


def _found(
    subject: Subject, configurations: list[dict[str, str]], machine: str, path: Path
) -> Found:
    """What tuning finds; predictions are kept in `path`, so an interrupted comparison can go on."""
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(Store(path, subject))
        pool = Pool(stack, TuneOptions(), store, lambda *_: None)
        return Search(
            configurations, lambda some, effort: pool.outcomes(subject, machine, some, effort)
        ).run()


def _key(configuration: object) -> tuple[str, ...]:
    """The values of the parameters, without measured times."""
    assert isinstance(configuration, dict)
    return tuple(value for name, value in configuration.items() if not name.endswith("_ms"))
