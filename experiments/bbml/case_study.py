"""Figure 5 (right): memory requests and busy cycles from counts of basic blocks, compared with
traced runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import memsim
import tracegen
from calib.block_counts import FloatArray, busy_cycles, learn, requests
from experiments import drawing
from experiments.bbml.applications import (
    APPLICATIONS,
    MACHINE,
    Application,
    draw,
    execute,
    executions,
)
from experiments.bbml.network import KINDS
from experiments.reproduction import Case, Figure
from tracegen.blocks import Block
from tracegen.workloads import Workload

PAPER = {
    "global requests": 0.85,
    "shared requests": 0.17,
    "FMA busy cycles": 2.3,
    "ALU busy cycles": 10.66,
}
"""Mean errors in the paper, in percent; that of shared requests is the abstract's."""
QUICK = ("covariance", "gesummv", "mvt", "pathfinder")
"""Together they have each of these quantities: the last one uses shared memory."""
TRAINED = 40
SIZES: dict[str, dict[str, int]] = {
    "2mm": {"ni": 192, "nj": 256, "nk": 160, "nl": 224},
    "atax": {"nx": 1900, "ny": 1500},
    "bicg": {"nx": 1900, "ny": 1500},
    "covariance": {"m": 190, "n": 256},
    "correlation": {"m": 190, "n": 256},
    "doitgen": {"nr": 8, "nq": 64, "np_": 160},
    "gemm": {"ni": 192, "nj": 256, "nk": 224},
    "gesummv": {"n": 1500},
    "lu": {"n": 128},
    "gramschmidt": {"n": 96},
    "syrk": {"n": 224, "m": 200},
    "mvt": {"n": 1500},
    "gaussian": {"n": 128},
    "lud": {"n": 320},
    "nw": {"n": 640},
    "pathfinder": {"rows": 200, "cols": 9000},
}
"""Sizes at which each application is run and traced in full."""


def figure_5_right(out: Path, quick: bool) -> Figure:
    """Each application at a size larger than all sizes from which counts were learned."""
    names = QUICK if quick else tuple(APPLICATIONS)
    errors: dict[str, dict[str, float]] = {}
    cases = []
    for name in names:
        of_application = _cases(name)
        errors[name] = {case.quantity: case.ours or 0.0 for case in of_application}
        cases += of_application
    findings = []
    for quantity, paper in PAPER.items():
        values = [of[f"{quantity} error"] for of in errors.values() if f"{quantity} error" in of]
        cases.append(
            Case(
                f"mean of {len(values)}, learned",
                f"{quantity} error",
                "%",
                reference=paper,
                ours=float(np.mean(values)),
                note=f"largest {max(values):.3g} %",
            )
        )
        findings.append(
            f"{quantity} from learned counts: mean error {np.mean(values):.3g} %, largest error"
            f" {max(values):.3g} % (paper: mean error {paper} %)."
        )
    picture = drawing.bars(
        out / "figure-5-right.png",
        {
            name: {quantity: of.get(f"{quantity} error", 0.0) for quantity in PAPER}
            for name, of in errors.items()
        },
        "Errors from learned counts (no bar: less than 0.001 %, or nothing to count)",
        "error, %",
        floor=1e-3,
    )
    return Figure(
        title="Figure 5 (right): memory requests and busy cycles",
        source="BB-ML, section 5.3, which measured them with Nsight. Here global requests come from full"
        " traces, shared ones and busy cycles from the executed counts of blocks and their instructions, with the"
        f" throughputs of {MACHINE}. Learned counts come from inputs between an eighth and two thirds of"
        " the traced ones.",
        cases=cases,
        findings=[
            *findings,
            "Both sides of the busy cycles have the same instructions, so their error is that of"
            " the counts alone. Busy cycles of a real GPU were not measured.",
        ],
        pictures=[picture],
    )


def _cases(name: str) -> list[Case]:
    """The errors of one application from learned counts, relative to an execution."""
    machine = memsim.load_machine(MACHINE)
    application = APPLICATIONS[name]
    workload = application.make(**SIZES[name])
    run = executions(name).counts(SIZES[name], workload=workload)
    measured = _quantities(run.blocks, run.by_subgroups.astype(float), machine) | _traced(workload)
    predicted = _quantities(run.blocks, _learned(application), machine)
    return [
        Case(
            f"{name}, learned",
            f"{quantity} error",
            "%",
            ours=100 * abs(predicted[quantity] / measured[quantity] - 1),
            note=f"{predicted[quantity]:.6g}; reference {measured[quantity]:.6g}",
        )
        for quantity in PAPER
        if measured[quantity]
    ]


def _quantities(
    blocks: tuple[Block, ...], counts: FloatArray, machine: memsim.Machine
) -> dict[str, float]:
    """The quantities of PAPER for given counts of the blocks."""
    spaces = {"global requests": "global", "shared requests": "local"}
    number = requests(blocks, counts.tolist())
    total = {
        what: sum(n for (memory, _), n in number.items() if memory == space)
        for what, space in spaces.items()
    }
    busy = busy_cycles(blocks, counts.tolist(), machine)
    return total | {f"{unit} busy cycles": busy.get(unit, 0.0) for unit in ("FMA", "ALU")}


def _traced(workload: Workload) -> dict[str, float]:
    """Global requests of sub-groups, counted in full traces of all launches."""
    traces = tracegen.trace_launches(workload, subgroup_size=32, tracer="machine")
    return {"global requests": float(sum(int((trace.site >= 0).sum()) for trace in traces))}


def _learned(application: Application) -> FloatArray:
    """Counts at the traced size, learned from inputs of at most two thirds of it."""
    at = SIZES[application.name]
    step = 16 if application.name in ("lud", "nw") else 1  # of tiles
    bounds = {
        name: (max(size // 8 // step, 2 if step > 1 else 1) * step, 2 * size // 3)
        for name, size in at.items()
    }
    least = Application(application.name, application.make, bounds, step)
    given = execute(application.name, draw(least, TRAINED))
    point = np.array([[at[name] for name in given.names]], np.float64)
    return np.array(
        [
            learn(given, k, "beyond", KINDS, ensemble=False).model.predict(point)[0]
            for k in range(len(given.blocks))
        ]
    )
