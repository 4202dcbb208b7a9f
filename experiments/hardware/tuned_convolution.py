"""A100 and MI250X, a 15 x 15 convolution: predicted times against those of a tuning run.

The configurations are a random sample; `memsim tune` ranks them. Nothing was chosen on their times, but for
the clock of the A100: a configuration was launched 32 times within a tenth of a second, most of it at the base
clock. Some runs change to the boost clock on the way (`a100_clock_switches.csv`), by up to 1.84 = 1410 / 765.
"""

from __future__ import annotations

from pathlib import Path

from experiments.data_files import rows, source, write_results
from experiments.hardware import drawing
from experiments.hardware.tuning_runs import TuningRun, compared, key, predicted
from experiments.kernels import convolution
from experiments.reproduction import Case, Figure
from tracegen.commands import KernelSpec

TABLE = "convolution_times.csv"
COLUMNS = {"a100@765MHz": "a100_ms", "mi250x": "mi250x_ms"}
QUICK = 6
KERNEL = KernelSpec(
    f"{convolution.SOURCE}:convolution",
    {"image_size": "4096"},
    f"{Path(convolution.__file__)}:convolution",
)


def tuned_convolution(out: Path, quick: bool) -> Figure:
    """Predicted and measured time of each configuration; also writes convolution_ours.csv."""
    measured = rows(TABLE)[: QUICK if quick else None]
    configurations = [
        {name: value for name, value in row.items() if not name.endswith("_ms")} for row in measured
    ]
    cases: list[Case] = []
    findings: list[str] = []
    results: list[dict[str, object]] = [dict(one) for one in configurations]
    for machine, column in COLUMNS.items():
        run = TuningRun(
            machine=machine,
            kernel=KERNEL,
            configurations=configurations,
            times_ms=[float(row[column]) for row in measured],
        )
        found = predicted(run, out / "convolution.tune")
        of_machine, finding = compared("convolution", run, found)
        cases += of_machine
        findings.append(finding)
        predicted_ms = {key(one.configuration): 1e3 * one.time_s for one in found.ranked}
        for configuration, result in zip(configurations, results, strict=True):
            result[column] = predicted_ms.get(key(configuration), "")
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
