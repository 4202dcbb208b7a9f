"""Figures 5 and 6: distributions of three hit ratios over random orderings, for eight
applications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure as Picture

from experiments.reproduction import Case, Figure
from experiments.stochastic.applications import APPLICATIONS, Application
from experiments.stochastic.replays import QUANTITIES, Ratios, ratios, replays_of, traces_of
from memsim.files import write_picture
from memsim.machine import Machine, load_machine
from memsim.report import LINE_COLOUR
from memsim.statistics import describe

TRIALS, TRIALS_QUICK = 64, 8
"""Number of orderings; 64 in the paper."""
PAPER_MEAN_SIGMA = 0.01
PAPER_ERRORS = {"L1 load": 3.4, "L2 load": 1.9, "L2 write": 0.8}
"""Differences in points between the paper's predictions and its counters (section 5.4)."""
LEAST_SPAN = 2.0
"""Smallest range of an axis, in points of hit ratio."""
WIDE = 2 * PAPER_MEAN_SIGMA
"""A sigma above this, twice the paper's average, is named."""


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """Hit ratios of an application: hit ratio -> (n_trial,) values."""

    application: Application
    ratios: Mapping[str, Ratios]


def figures_5_and_6(out: Path, quick: bool) -> Figure:
    """Every application on a C2050, at sizes of the paper's time."""
    trials = TRIALS_QUICK if quick else TRIALS
    machine = load_machine("c2050")
    distributions: list[Distribution] = []
    for application in APPLICATIONS:
        traces = traces_of(application.build(), machine)
        replays = replays_of(traces, machine, trials)
        distributions.append(
            Distribution(
                application=application,
                ratios={q: ratios(replays, *where) for q, where in QUANTITIES.items()},
            )
        )
    sigmas = [describe(d.ratios[q]).sigma for d in distributions for q in QUANTITIES]
    averages = _mean_sigmas(machine.name, [s for s in sigmas if np.isfinite(s)])
    return Figure(
        title=f"Figures 5 and 6 on {machine.title}: hit ratios over {trials} random orderings",
        source=(
            "Baghsorkhi et al., PPoPP 2012, sections 5.1 to 5.4. The numbers of the figures themselves are only"
            " in the pictures; the text has the average sigma and the errors against counters."
        ),
        cases=[
            *averages,
            *_against_hardware(machine),
            *(case for distribution in distributions for case in _cases(distribution)),
        ],
        findings=[*(_finding(case) for case in averages), _spread(distributions)],
        pictures=[
            _histograms(
                out / "figures-5-6.png",
                [(d.application.name, d.ratios) for d in distributions],
                f"{machine.title}: hit ratios of {trials} random orderings (gray: mean ± 2 sigma)",
            )
        ],
    )


def _cases(distribution: Distribution) -> list[Case]:
    """Mean with its interval, and sigma if it is not 0, of each hit ratio that is defined."""
    cases = []
    for quantity, values in distribution.ratios.items():
        estimate = describe(100 * values)
        if not estimate.is_defined:
            continue
        low, high = estimate.mean - 2 * estimate.sigma, estimate.mean + 2 * estimate.sigma
        within = f"95 % of orderings in [{low:.2f}, {high:.2f}] if normal"
        size = distribution.application.size
        values_of: dict[str, tuple[float, str, float | None, str]] = {
            quantity: (estimate.mean, "%", estimate.half_width, size)
        }
        if estimate.sigma > 0:
            values_of[f"{quantity} sigma"] = (estimate.sigma, "points", None, within)
        cases += [
            Case(distribution.application.name, name, unit, ours=ours, ci95=half_width, note=note)
            for name, (ours, unit, half_width, note) in values_of.items()
        ]
    return cases


def _finding(average: Case) -> str:
    return (
        f"{average.quantity.capitalize()}: {average.ours:.2f} points {average.note};"
        f" the paper's is {average.reference:.0f}."
    )


def _mean_sigmas(name: str, sigmas: Sequence[float]) -> list[Case]:
    """Average sigma over all hit ratios, which may be the paper's, and over those that vary."""
    kinds = {
        "average sigma": list(sigmas),
        "average sigma, where not 0": [sigma for sigma in sigmas if sigma > 0],
    }
    return [
        Case(
            name,
            quantity,
            "points",
            reference=100 * PAPER_MEAN_SIGMA,
            ours=100 * float(np.mean(kept)),
            note=f"over {len(kept)} hit ratios",
        )
        for quantity, kept in kinds.items()
        if kept
    ]


def _against_hardware(machine: Machine) -> list[Case]:
    """The paper's errors, and the model error of this machine where it was compared with
    hardware."""
    cases = []
    for quantity, points in PAPER_ERRORS.items():
        level, direction = QUANTITIES[quantity]
        ours = machine.model_error_points.get(level) if direction == "load" else None
        cases.append(
            Case(
                "against hardware counters",
                f"{quantity} error",
                "points",
                reference=points,
                ours=ours,
                note=(
                    "paper: C2050, these applications; ours: "
                    + (
                        "see `memsim reproduce hardware`"
                        if ours is not None
                        else "none, because no counters of these applications are public"
                    )
                ),
            )
        )
    return cases


def _spread(distributions: Sequence[Distribution]) -> str:
    wide = [
        f"{d.application.name} {quantity} {100 * describe(values).sigma:.1f}"
        for d in distributions
        for quantity, values in d.ratios.items()
        if describe(values).sigma > WIDE
    ]
    if not wide:
        return f"No hit ratio has a sigma above {100 * WIDE:.0f} points."
    return f"Sigma above {100 * WIDE:.0f} points: {', '.join(wide)}."


def _histograms(path: Path, rows: Sequence[tuple[str, Mapping[str, Ratios]]], title: str) -> str:
    """Histograms over orderings: one row for each application, one column for each hit ratio."""
    quantities = list(rows[0][1])
    picture = Picture(figsize=(3.3 * len(quantities), 1.5 * len(rows) + 0.5), layout="constrained")
    grid = picture.subplots(len(rows), len(quantities), squeeze=False)
    for (name, of_application), line in zip(rows, grid, strict=True):
        for quantity, axes in zip(quantities, line, strict=True):
            values = 100 * of_application[quantity]
            values = values[np.isfinite(values)]
            axes.tick_params(labelsize=7)
            if not len(values):
                axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", fontsize=8)
                axes.set(xticks=[], yticks=[])
                continue
            estimate = describe(values)
            # At least LEAST_SPAN wide, so that a ratio that does not vary looks constant.
            width = max(1.15 * float(np.ptp(values)), LEAST_SPAN)
            low = max(float(values.min() + values.max() - width) / 2, -0.02 * LEAST_SPAN)
            edges = np.linspace(low, low + width, 25)
            around = 2 * estimate.sigma
            axes.axvspan(estimate.mean - around, estimate.mean + around, color="#dddddd", lw=0)
            axes.hist(
                values, edges, weights=np.full(len(values), 1 / len(values)), color=LINE_COLOUR
            )
            axes.set_xlim(low, low + width)
            axes.set_ylim(0, 1.0 if estimate.sigma == 0 else None)
            axes.ticklabel_format(useOffset=False)
            axes.set_title(
                f"mean {estimate.mean:.2f} %, sigma {estimate.sigma:.2f} points", fontsize=7
            )
        line[0].set_ylabel(name, fontsize=8)
    for quantity, axes in zip(quantities, grid[-1], strict=True):
        axes.set_xlabel(f"{quantity} hit ratio, %", fontsize=8)
    picture.suptitle(title, fontsize=10)
    return write_picture(path, picture, 130).name
