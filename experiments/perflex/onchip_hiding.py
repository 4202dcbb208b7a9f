"""Section 8.1: how much of the on-chip work is hidden behind global memory accesses.

The whole kernel takes T, the kernel with its on-chip work removed takes T_g, and the removed work
costs C according to the microbenchmarks. If nothing were hidden, T would be T_g + C. So

    hidden share of C = (T_g + C - T) / C

is near 0 if the costs add up, and positive if they overlap. Beside it stands the error of the
linear model (section 8.3). Source: Stevens and Klöckner 2020.
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
    """Times of one variant in seconds: whole, stripped of on-chip work, and the estimated on-chip
    work."""

    application: str
    label: str
    whole_s: float
    stripped_s: float
    onchip_s: float
    errors: dict[str, float]

    @property
    def hidden(self) -> float:
        """Hidden share of the on-chip work; above 1 if the stripped kernel is the slower one."""
        return (self.stripped_s + self.onchip_s - self.whole_s) / self.onchip_s

    @property
    def nearer(self) -> str:
        """The model with the smaller error, or "either" if the errors differ by less than 0.001."""
        linear, overlap = (abs(self.errors[name]) for name in ("linear", "overlap"))
        if abs(linear - overlap) < 1e-3:
            return "either"
        return "linear" if linear < overlap else "overlap"


def of(evaluation: Evaluation) -> list[Hiding]:
    """Every variant, at the size at which it was also measured without on-chip work."""
    fit = evaluation.fits["linear"]
    outputs = evaluation.table.outputs
    tests, stripped = (np.flatnonzero(evaluation.part == part) for part in ("test", "stripped"))
    size = evaluation.application.size
    results = []
    for kernel, row in zip(evaluation.stripped, stripped, strict=True):
        label = evaluation.application.label(kernel)
        (k,) = [
            k
            for k, other in enumerate(evaluation.tests)
            if evaluation.labels[k] == label and other.variant[size] == kernel.variant[size]
        ]
        values = {name: column[tests[k]] for name, column in evaluation.table.values.items()}
        onchip = value_of(fit.model.cost_trees["c_onchip"], {**fit, **values})
        results.append(
            Hiding(
                application=evaluation.application.name,
                label=label,
                whole_s=float(outputs[tests[k]]),
                stripped_s=float(outputs[row]),
                onchip_s=float(onchip),
                errors={name: float(evaluation.errors(name)[k]) for name in ("linear", "overlap")},
            )
        )
    return results


def hiding(out: Path, quick: bool) -> Figure:
    """The hidden share of every variant, and the errors of the linear and overlap models."""
    variants = [one for name in APPLICATIONS for one in of(evaluate(name, quick))]
    heights = {
        f"{one.application}\n{one.label}": {
            "whole": 1.0,
            "stripped": one.stripped_s / one.whole_s,
            "stripped + on-chip": (one.stripped_s + one.onchip_s) / one.whole_s,
        }
        for one in variants
    }
    return Figure(
        name="hiding",
        title="Section 8.1: is on-chip work hidden behind global memory? Section 8.3: the linear model",
        source="Stevens and Klöckner 2020, sections 8.1, 8.3, 8.4 and 8.5",
        cases=_cases(variants),
        findings=_findings(variants, quick),
        pictures=[
            drawing.bars(out / "hiding.png", heights, "Times relative to the whole kernel", "ratio")
        ],
    )


def _cases(variants: list[Hiding]) -> list[Case]:
    shares = [
        Case(
            figure="hiding",
            case=f"{one.application}: {one.label}",
            quantity="hidden share",
            unit="%",
            reference=None,
            ours=100 * one.hidden,
            note=f"paper: {PAPER[one.application]}; here {1e3 * one.whole_s:.3g} ms,"
            f" {1e3 * one.stripped_s:.3g} ms stripped, on-chip work {1e3 * one.onchip_s:.3g}"
            f" ms; model with the smaller error: {one.nearer}",
        )
        for one in variants
    ]
    errors = [
        Case(
            figure="hiding",
            case=f"{one.application}: {one.label}",
            quantity="linear model's error",
            unit="%",
            reference=None,
            ours=100 * one.errors["linear"],
            note="paper: +40 to +110 on all GPUs" if one.label == "prefetch" else "",
        )
        for one in variants
    ]
    return shares + errors


def _findings(variants: list[Hiding], quick: bool) -> list[str]:
    decided = [
        (one.nearer == "overlap") == (one.hidden > 0.5)
        for one in variants
        if one.nearer != "either"
    ]
    findings = [
        "The criterion: if more than half of the on-chip work is hidden, use the overlap model. "
        + (
            f"It selects the model with the smaller error for {sum(decided)} of the {len(decided)}"
            " variants for which the two models differ."
            if decided
            else "The two models agree on every variant here, so there is nothing to select."
        ),
        *(
            f"{name}: the calibration leaves the edge of the overlap model at 0, which makes it the"
            " linear model; the measurement kernels show no overlap."
            for name in APPLICATIONS
            if "p_edge" in evaluate(name, quick).fits["overlap"].at_bound
        ),
    ]
    slower = [f"{one.application} {one.label}" for one in variants if one.stripped_s > one.whole_s]
    if slower:
        findings.append(
            f"Slower without the on-chip work than with it: {', '.join(slower)}. The stripped kernel adds"
            " its loads into one variable, and each addition waits for the one before. The criterion does"
            " not consider that."
        )
    return findings
