"""Section 8.1: whether on-chip work hides behind global memory, asked before any model is chosen.

A kernel with its on-chip work removed takes T_g; the removed work, by the microbenchmarks' costs,
C. Were nothing hidden, the whole would take T_g + C; so

    hidden share of C = (T_g + C - T) / C

is near 0 where costs add up and positive where they overlap. Section 8.3's other question, by how much the
linear model then over-predicts, is answered beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from calib.fitting import evaluate as value_of
from experiments.perflex import drawing
from experiments.perflex.applications import APPLICATIONS
from experiments.perflex.evaluation import Evaluation, evaluate
from experiments.reproduction import Case, Figure

PAPER = {
    "matmul": "hidden on all five GPUs",
    "dg": "hidden, but for u prefetched on Titan V, K40c and C2070",
    "finite_diff": "little if any hidden",
}


@dataclass(frozen=True, kw_only=True)
class Hiding:
    """One variant: whole, stripped of on-chip work, and that work's estimated cost; seconds."""

    application: str
    label: str
    whole_s: float
    stripped_s: float
    onchip_s: float
    errors: dict[str, float]

    @property
    def hidden(self) -> float:
        """Part of the on-chip work that is hidden; above 1 where the stripped kernel is the slower."""
        return (self.stripped_s + self.onchip_s - self.whole_s) / self.onchip_s

    @property
    def nearer(self) -> str:
        """The model with the smaller error, or "either" where they agree to a thousandth."""
        linear, overlap = (abs(self.errors[name]) for name in ("linear", "overlap"))
        if abs(linear - overlap) < 1e-3:
            return "either"
        return "linear" if linear < overlap else "overlap"


def of(found: Evaluation) -> list[Hiding]:
    """Each variant at the size at which it was measured stripped."""
    fit = found.fits["linear"]
    outputs = found.table.outputs
    tests, bare = (np.flatnonzero(found.part == part) for part in ("test", "stripped"))
    size = found.application.size
    results = []
    for kernel, row in zip(found.stripped, bare, strict=True):
        label = found.application.label(kernel)
        (k,) = [
            k
            for k, other in enumerate(found.tests)
            if found.labels[k] == label and other.variant[size] == kernel.variant[size]
        ]
        values = {name: column[tests[k]] for name, column in found.table.values.items()}
        onchip = value_of(fit.model.cost_trees["c_onchip"], {**fit, **values})
        results.append(
            Hiding(
                application=found.application.name,
                label=label,
                whole_s=float(outputs[tests[k]]),
                stripped_s=float(outputs[row]),
                onchip_s=float(onchip),
                errors={name: float(found.errors(name)[k]) for name in ("linear", "overlap")},
            )
        )
    return results


def hiding(out: Path, quick: bool) -> Figure:
    """The test of 8.1 for every variant, and what the two kinds of models then say of it."""
    found = [each for name in APPLICATIONS for each in of(evaluate(name, quick))]
    cases = []
    decided = []
    for each in found:
        better = each.nearer
        if better != "either":
            decided.append((better == "overlap") == (each.hidden > 0.5))
        cases += [
            Case(
                figure="hiding",
                case=f"{each.application}: {each.label}",
                quantity="hidden share",
                unit="%",
                reference=None,
                ours=100 * each.hidden,
                note=f"paper: {PAPER[each.application]}; here {1e3 * each.whole_s:.3g} ms,"
                f" {1e3 * each.stripped_s:.3g} ms stripped, on-chip work {1e3 * each.onchip_s:.3g}"
                f" ms; the nearer model is {better}",
            ),
        ]
    cases += [
        Case(
            figure="hiding",
            case=f"{each.application}: {each.label}",
            quantity="linear model's error",
            unit="%",
            reference=None,
            ours=100 * each.errors["linear"],
            note="paper: +40 to +110 on all GPUs" if each.label == "prefetch" else "",
        )
        for each in found
    ]
    heights = {
        f"{each.application}\n{each.label}": {
            "whole": 1.0,
            "stripped": each.stripped_s / each.whole_s,
            "stripped + on-chip": (each.stripped_s + each.onchip_s) / each.whole_s,
        }
        for each in found
    }
    slower = [
        f"{each.application} {each.label}" for each in found if each.stripped_s > each.whole_s
    ]
    findings = [
        "The criterion is: more than half hidden, take the overlap model. "
        + (
            f"It names the nearer of the two models for {sum(decided)} of the {len(decided)}"
            " variants for which they differ."
            if decided
            else "The two models agree on every variant here: there is nothing to choose."
        ),
        *(
            f"{name}: calibration holds the overlap model's edge at 0, which is the linear model; the"
            " measurement kernels show no overlap."
            for name in APPLICATIONS
            if "p_edge" in evaluate(name, quick).fits["overlap"].at_bound
        ),
    ]
    if slower:
        findings.append(
            f"Stripped and yet slower than whole: {', '.join(slower)}. The additions into one"
            " variable, each of which waits for the one before, take longer than the work that they"
            " replace; the criterion does not foresee that."
        )
    return Figure(
        name="hiding",
        title="Section 8.1: does on-chip work hide behind global memory? Section 8.3: the linear model",
        source="Stevens and Klöckner, sections 8.1, 8.3, 8.4 and 8.5",
        cases=cases,
        findings=findings,
        pictures=[
            drawing.bars(
                out / "hiding.png", heights, "Times over that of the whole kernel", "ratio"
            )
        ],
    )
