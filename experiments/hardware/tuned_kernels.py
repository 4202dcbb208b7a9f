"""A100, A6000, H200 and MI250X, a 15 x 15 convolution and a dedispersion: predicted times against measured ones.

The configurations are random samples; `memsim tune` ranks them. Nothing was chosen on their times, but for
the clock of the A100 in the convolution: a configuration was launched 32 times within a tenth of a second,
most of it at the base clock. Some runs change to the boost clock on the way (`a100_clock_switches.csv`), by up
to 1.84 = 1410 / 765. The A6000's file has the boost clock; its runs show two clocks, 1.2 to 1.3 apart. Those of the dedispersion take two seconds, nearly all of it at the boost clock.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.data_files import rows, write_results
from experiments.fingerprint import MEASURED_CLANG
from experiments.hardware.comparison import figure_of
from experiments.hardware.tuning_runs import TuningRun, compared, key, predicted
from experiments.kernels import convolution, dedispersion
from experiments.reproduction import Case, Figure, MakeFigure
from tracegen.commands import KernelSpec
from tracegen.tools import CompilerMissing


@dataclass(frozen=True, kw_only=True)
class TunedKernel:
    """A kernel whose configurations were measured.

    name : of the table NAME_times.csv in experiments/data, whose times are empty where a configuration does not run
    """

    name: str
    title: str
    kernel: KernelSpec

    @property
    def table(self) -> str:
        return f"{self.name}_times.csv"


def _cuda(module: Any, name: str, **sizes: int) -> KernelSpec:
    settings = {size: str(value) for size, value in sizes.items()}
    return KernelSpec(f"{module.SOURCE}:{name}", settings, f"{Path(module.__file__)}:{name}")


CONVOLUTION = TunedKernel(
    name="convolution",
    title="15 x 15 convolution in 100 configurations: time",
    kernel=_cuda(convolution, "convolution", image_size=4096),
)
DEDISPERSION = TunedKernel(
    name="dedispersion",
    title="dedispersion in 100 configurations: time",
    kernel=_cuda(dedispersion, "dedispersion", samples=25000, measures=2048, channels=1536),
)


def _tuned(name: str, tuned: TunedKernel, columns: Mapping[str, str]) -> MakeFigure:
    """Predicted and measured time of each configuration; also writes NAME_ours.csv.

    columns : machine -> column of the table
    """

    def figure(out: Path, quick: bool) -> Figure:
        return _figure(name, tuned, columns, out, quick)

    return figure


TUNED_KERNELS: Mapping[str, MakeFigure] = {
    name: _tuned(name, tuned, columns)
    for name, tuned, columns in (
        (
            "convolution",
            CONVOLUTION,
            {"a100@765MHz": "a100_ms", "a6000": "a6000_ms", "h200": "h200_ms"},
        ),
        ("mi250x-convolution", CONVOLUTION, {"mi250x": "mi250x_ms"}),
        ("dedispersion", DEDISPERSION, {"a100": "a100_ms"}),
        ("mi250x-dedispersion", DEDISPERSION, {"mi250x": "mi250x_ms"}),
    )
}


def _figure(
    figure: str, tuned: TunedKernel, columns: Mapping[str, str], out: Path, quick: bool
) -> Figure:
    clang = MEASURED_CLANG.get(figure, "")
    if clang and shutil.which(clang) is None:
        raise CompilerMissing(
            f"what was measured was compiled by {clang}, which is missing",
            f"apt-get install {clang}",
        )
    measured = rows(tuned.table)
    configurations = [
        {name: value for name, value in row.items() if not name.endswith("_ms")} for row in measured
    ]
    cases: list[Case] = []
    findings: list[str] = []
    results: list[dict[str, object]] = [dict(one) for one in configurations]
    runs = [
        TuningRun(
            machine=machine,
            kernel=tuned.kernel,
            configurations=[
                one for one, row in zip(configurations, measured, strict=True) if row[column]
            ],
            times_ms=[float(row[column]) for row in measured if row[column]],
            clang=clang,
        )
        for machine, column in columns.items()
    ]
    for run, found in predicted(figure, runs, out, quick):
        column = columns[run.machine]
        of_machine, finding = compared(run, found)
        cases += of_machine
        findings.append(finding)
        predicted_ms = {key(one.configuration): 1e3 * one.time_s for one in found.ranked}
        for configuration, result in zip(configurations, results, strict=True):
            result[column] = predicted_ms.get(key(configuration), "")
    write_results(
        out / f"{figure}_ours.csv",
        f"Predicted times in ms for comparison with {tuned.table}; empty where a configuration fits no core.",
        results,
    )
    return figure_of(
        figure,
        f"{', '.join(columns)}, {tuned.title}",
        [tuned.table],
        cases,
        out,
        f"{figure}: time in ms",
        findings=findings,
    )
