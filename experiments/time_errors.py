"""How far predicted times were from measured ones: the table time_errors.csv, from which `time_error_percent` of machine
files comes.

    python -m experiments.time_errors DIR...

replaces in that table the figures of those machines that `memsim reproduce` has written into the folders.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.data_files import rows, write_results

TABLE = "time_errors.csv"
SHARE = 0.9
"""The share of measured times that lie within a machine's `time_error_percent` of the predicted one."""
LEAST_CASES, LEAST_KERNELS = 6, 2
"""A machine with fewer compared times is none that others are judged by; one whose times are of fewer figures has no error of
its own, for a kernel says little of others."""
_OF_FIGURE = {
    "common-kernels": "h200",
    "h100-times": "h100",
    "v100-times": "v100",
    "mi250x-times": "mi250x",
    "derivatives": "mi250x",
    "marching-times": "mi250x",
    "applications": "mi300a",
}
_N_BODY = {"V100": "v100", "A100": "a100", "RTX 4090": "rtx4090", "L40S": "l40s", "H200": "h200"}
TENSORS = "tensor-steps"
"""The figure of products on tensor cores, whose times have an error of their own."""
_FIGURES = (
    *_OF_FIGURE,
    TENSORS,
    "arithmetic",
    "matmul-steps",
    "convolution",
    "mi250x-convolution",
    "dedispersion",
    "mi250x-dedispersion",
    "tuned-stencils",
    "textbook",
)

Ratios = Mapping[str, Mapping[str, npt.NDArray[np.float64]]]
"""Machine -> figure -> measured time over the predicted one, of each case."""


def measured_over_predicted(*, tensors: bool = False) -> Ratios:
    """The table without products on tensor cores, or these alone."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows(TABLE):
        if (row["figure"] == TENSORS) != tensors:
            continue
        of_figure = found.setdefault(row["machine"], {}).setdefault(row["figure"], [])
        of_figure.append(float(row["measured_over_predicted"]))
    return {
        machine: {figure: np.array(values) for figure, values in figures.items()}
        for machine, figures in found.items()
    }


def error_percent(samples: Sequence[npt.NDArray[np.float64]]) -> float:
    """Within what part of the predicted time SHARE of the measured ones lie, in percent; samples of different sizes
    count alike.

    samples : measured over predicted times, an array for each
    """
    errors = np.concatenate([np.abs(one - 1) for one in samples])
    weights = np.concatenate([np.full(len(one), 1 / len(one)) for one in samples])
    order = np.argsort(errors)
    reached = np.cumsum(weights[order]) >= SHARE * weights.sum() * (1 - 1e-12)
    return float(100 * errors[order][int(reached.argmax())])


def compared(ratios: Ratios) -> list[str]:
    """The machines that others are judged by."""
    return [
        name
        for name, figures in ratios.items()
        if sum(len(one) for one in figures.values()) >= LEAST_CASES
    ]


def with_own_error(ratios: Ratios) -> list[str]:
    """The machines whose files have an error of their own."""
    return [name for name in compared(ratios) if len(ratios[name]) >= LEAST_KERNELS]


def of_machine(ratios: Ratios, machine: str) -> float:
    """The error of one machine; its figures count alike."""
    return error_percent(list(ratios[machine].values()))


def elsewhere(ratios: Ratios, but: str = "") -> float:
    """The error on the machines of the table, or on all but one; machines count alike."""
    return error_percent(
        [np.concatenate(list(ratios[name].values())) for name in compared(ratios) if name != but]
    )


def _machine(case: Mapping[str, Any]) -> str:
    """The machine of a case of summary.json; empty where it is no time or no machine's."""
    if case["figure"] in _OF_FIGURE:
        wanted = "events" if case["figure"] == "v100-times" else "time"
        return _OF_FIGURE[case["figure"]] if case["quantity"] == wanted else ""
    if case["figure"] == "arithmetic":
        names = [name for text, name in _N_BODY.items() if text in case["case"]]
        return names[0] if case["case"].startswith("n-body") else ""
    return str(case["quantity"]).split()[0].split("@")[0]


def _read(folders: Sequence[Path]) -> Iterator[dict[str, str]]:
    for folder in folders:
        for case in json.loads((folder / "summary.json").read_text("utf-8")):
            if case["figure"] not in _FIGURES or not case["paper"] or not case["ours"]:
                continue
            machine = _machine(case)
            if machine:
                ratio = case["paper"] / case["ours"]
                ratio = 1 / ratio if "/" in case["unit"] else ratio  # a rate
                yield {
                    "machine": machine,
                    "figure": case["figure"],
                    "case": case["case"],
                    "measured_over_predicted": f"{ratio:.4f}",
                }


def main(folders: Sequence[str]) -> None:
    """Replaces what is in these folders in the table."""
    path = Path(__file__).parent / "data" / TABLE
    new = list(_read([Path(one) for one in folders]))
    found = {(row["machine"], row["figure"]) for row in new}
    old = list(rows(TABLE)) if path.exists() else []
    kept = [row for row in old if (row["machine"], row["figure"]) not in found]
    write_results(
        path,
        "Measured over predicted times of `memsim reproduce hardware` and `lhf`; time_error_percent of machine files comes"
        " from them.",
        sorted([*kept, *new], key=lambda row: (row["machine"], row["figure"])),
    )


if __name__ == "__main__":
    main(sys.argv[1:])
