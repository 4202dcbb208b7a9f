"""Figure 5 (right): memory requests and busy cycles from counts of basic blocks, compared with
traced runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

import memsim
import tracegen
from calib.block_counts import (
    BlockWork,
    FloatArray,
    block_work,
    busy_cycles,
    learn,
    requests,
    samples,
)
from calib.counting import sizes_of
from experiments.bbml import drawing
from experiments.bbml.applications import APPLICATIONS, Application, counter, draw, forms
from experiments.reproduction import Case, Figure
from tracegen.workloads import Workload

MACHINE = "v100"
PAPER = {
    "global requests": 0.85,
    "shared requests": 0.17,
    "FMA busy cycles": 2.3,
    "ALU busy cycles": 10.66,
}
"""Mean errors in the paper, in percent; that of shared requests is the abstract's."""
QUICK = ("covariance", "gesummv", "mvt", "pathfinder")
"""Together they have each of these quantities: the last one uses shared memory."""
TRAINED = 150
SIZES: dict[str, dict[str, int]] = {
    "2mm": {"ni": 192, "nj": 256, "nk": 160, "nl": 224},
    "atax": {"nx": 1900, "ny": 1500},
    "bicg": {"nx": 1900, "ny": 1500},
    "covariance": {"m": 190, "n": 256},
    "correlation": {"m": 190, "n": 256},
    "doitgen": {"nr": 8, "nq": 64, "np_": 160},
    "gemm": {"ni": 192, "nj": 256, "nk": 224},
    "gesummv": {"n": 1500},
    "lu": {"n": 160},
    "gramschmidt": {"n": 120},
    "syrk": {"n": 224, "m": 200},
    "mvt": {"n": 1500},
    "gaussian": {"n": 160},
    "lud": {"n": 320},
    "nw": {"n": 640},
    "pathfinder": {"rows": 200, "cols": 9000, "height": 8},
}
"""Sizes at which each application is run and traced in full."""


def figure_5_right(out: Path, quick: bool) -> Figure:
    """Each application at a size larger than all sizes from which counts were learned."""
    names = QUICK if quick else tuple(APPLICATIONS)
    errors: dict[str, dict[tuple[str, str], float]] = {}
    cases = []
    for name in names:
        of_application = _cases(name)
        errors[name] = {
            (case.case.split(", ")[1], case.quantity): case.ours or 0.0 for case in of_application
        }
        cases += of_application
    findings = []
    for source in ("exact", "learned"):
        for quantity, paper in PAPER.items():
            key = (source, f"{quantity} error")
            values = [of[key] for of in errors.values() if key in of]
            cases.append(
                Case(
                    figure="figure-5-right",
                    case=f"mean of {len(values)}, {source}",
                    quantity=f"{quantity} error",
                    unit="%",
                    reference=paper,
                    ours=float(np.mean(values)),
                    note=f"largest {max(values):.3g} %",
                )
            )
            findings.append(
                f"{quantity} from {source} counts: mean error {np.mean(values):.3g} %, largest error"
                f" {max(values):.3g} % (paper: mean error {paper} %)."
            )
    bars = {
        name: {quantity: of.get(("learned", f"{quantity} error"), 0.0) for quantity in PAPER}
        for name, of in errors.items()
    }
    picture = drawing.bars(
        out / "figure-5-right.png",
        "Errors from learned counts (no bar: less than 0.001 %, or nothing to count); exact counts have no error",
        bars,
        1e-3,
    )
    return Figure(
        name="figure-5-right",
        title="Figure 5 (right): memory requests and busy cycles",
        source="BB-ML, section 5.3, which measured them with Nsight. Here global requests come from full"
        " traces and shared ones from counting runs; cycles are those of the counts of a run with the"
        f" throughputs of {MACHINE}. Learned counts come from inputs between an eighth and two thirds of"
        " the traced ones.",
        cases=cases,
        findings=[
            *findings,
            "Both sides of the busy cycles have the same costs of instructions, so their error is that of"
            " the counts alone. Busy cycles of a real GPU were not measured.",
        ],
        pictures=[picture],
    )


def _cases(name: str) -> list[Case]:
    """The errors of one application, from exact and from learned counts, relative to a run."""
    machine = memsim.load_machine(MACHINE)
    application = APPLICATIONS[name]
    baked = None if application.baked is None else application.small[application.baked[0]]
    workload = application.make(**SIZES[name])
    counting = counter(name, baked)
    run, _ = counting.count(workload, 32)
    work = block_work(counting)
    measured = _quantities(work, run.by_subgroups.astype(float), machine) | _traced(workload)
    sizes = sizes_of(workload)
    exact = [
        0.0 if f.by_subgroups is None else f.by_subgroups.at(sizes) for f in forms(name, baked)
    ]
    cases = []
    for source, counts in (
        ("exact", np.array(exact)),
        ("learned", _learned(application, baked)),
    ):
        predicted = _quantities(work, counts, machine)
        for quantity in PAPER:
            reference = measured[quantity]
            if reference:
                cases.append(
                    Case(
                        figure="figure-5-right",
                        case=f"{name}, {source}",
                        quantity=f"{quantity} error",
                        unit="%",
                        reference=None,
                        ours=100 * abs(predicted[quantity] / reference - 1),
                        note=f"{predicted[quantity]:.6g}; reference {reference:.6g}",
                    )
                )
    return cases


def _quantities(
    work: tuple[BlockWork, ...], counts: FloatArray, machine: memsim.Machine
) -> dict[str, float]:
    """The quantities of PAPER for given counts of the blocks."""
    total = {"global requests": 0.0, "shared requests": 0.0}
    for (memory, _, _), number in requests(work, counts.tolist()).items():
        total["global requests" if memory == "global" else "shared requests"] += number
    busy = busy_cycles(work, counts.tolist(), machine)
    return total | {f"{unit} busy cycles": busy.get(unit, 0.0) for unit in ("FMA", "ALU")}


def _traced(workload: Workload) -> dict[str, float]:
    """Global requests of sub-groups, counted in full traces of all launches."""
    traces = tracegen.trace_launches(workload, subgroup_size=32, reduced=False)
    return {"global requests": float(sum(int((trace.site >= 0).sum()) for trace in traces))}


def _learned(application: Application, baked: int | None) -> FloatArray:
    """Counts at the traced size, learned from inputs of at most two thirds of it."""
    at = SIZES[application.name]
    compiled_in = application.baked[0] if application.baked is not None else ""
    names = [name for name in application.ranges if name != compiled_in]
    bounds: Mapping[str, tuple[int, int]] = {
        name: (
            max(at[name] // 8, 2 * application.step),
            2 * at[name] // 3,
        )
        for name in names
    }
    least = Application(
        application.name, application.make, bounds, application.small, application.step
    )
    drawn = draw(least, TRAINED)
    given = samples(
        {name: drawn[name].tolist() for name in names},
        {
            form.block.name: (
                [0.0] * TRAINED
                if form.by_subgroups is None
                else np.broadcast_to(
                    np.asarray(form.by_subgroups.at_many(drawn), np.float64), TRAINED
                ).tolist()
            )
            for form in forms(application.name, baked)
        },
    )
    point = np.array([[at[name] for name in names]], np.float64)
    return np.array(
        [
            learn(given, k, "beyond", ensemble=False).model.predict(point)[0]
            for k in range(len(given.blocks))
        ]
    )
