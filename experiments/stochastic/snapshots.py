"""How the size and position of a snapshot, and cold caches, change its hit ratios (C2050)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tracegen
from experiments.kernels import merge_sort
from experiments.kernels.lattice_boltzmann import d3q19
from experiments.kernels.matmul import tiled
from experiments.kernels.stencil import stencil7
from experiments.reproduction import Case, Figure
from experiments.stochastic import drawing
from experiments.stochastic.applications import spmv_rows
from experiments.stochastic.replays import QUANTITIES, Ratios, ratios, replays_of
from memsim.machine import Machine, load_machine
from memsim.montecarlo import resident_groups
from memsim.statistics import Estimate, describe
from memsim.trace import Trace
from tracegen.recording import WAVES

SIZES_QUICK = (WAVES // 4, WAVES, 2 * WAVES)
SIZES = (1, WAVES // 4, WAVES // 2, WAVES, 2 * WAVES)
POSITIONS_QUICK = (0.3, 0.7)
POSITIONS = (0.1, *POSITIONS_QUICK, 0.9)
"""Positions in the launch; a snapshot comes from the middle by default."""
ENOUGH = 2.0
"""Largest accepted difference between the default snapshot and the longest one, in points."""
PRECISE = 0.5
"""Half-width of that difference, in points, at which no more orderings are replayed."""
TRIALS, TRIALS_QUICK = (4, 16, 64, 256), (4, 16)
"""Numbers of orderings: the first for all, the next ones until the difference is PRECISE."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """Hit ratios of one kernel in %: hit ratio -> values.

    by_size : (n_size,) default replays of snapshots from the middle of the launch
    in_step : the same, with all cores starting together
    cold : the same as in_step, counted from empty caches. Random starts warm the caches too, so the
        cold-start error is the difference between cold and in_step
    by_position : (n_position,) snapshots of the default size
    default_waves : waves of the default snapshot; fewer than WAVES where the request budget limits
        it
    errors : default snapshot minus longest one, paired by seed, so that cores start at the same
        points
    """

    kernel: str
    sizes: tuple[int, ...]
    by_size: dict[str, list[float]]
    in_step: dict[str, list[float]]
    cold: dict[str, list[float]]
    by_position: dict[str, list[float]]
    default_waves: float
    errors: dict[str, Estimate]

    def cold_start(self, quantity: str, size: int) -> float:
        """Points by which empty caches change the hit ratio at a snapshot size."""
        k = self.sizes.index(size)
        return self.cold[quantity][k] - self.in_step[quantity][k]


def snapshot_study(out: Path, quick: bool) -> Figure:
    """Five kernels on a C2050, with snapshots from one wave to twice the default size."""
    machine = load_machine("c2050")
    sizes = SIZES_QUICK if quick else SIZES
    kernels: dict[str, Any] = {
        "SpMV": lambda: spmv_rows(800_000, 16),
        "DMM": lambda: tiled(1024, 16),
        "LBM": lambda: d3q19(120, 120, 32, 120),
        "merge sort, global": lambda: merge_sort.global_pass(1 << 22, 1 << 14),
        "3-D stencil": lambda: stencil7(512, 512, 16),
    }
    studies = [
        _study(
            name,
            build(),
            machine,
            sizes,
            POSITIONS_QUICK if quick else POSITIONS,
            TRIALS_QUICK if quick else TRIALS,
        )
        for name, build in kernels.items()
    ]
    return Figure(
        name="snapshots",
        title="Hit ratios against size and position of the snapshot, and the cold-start error (C2050)",
        source=(
            "Baghsorkhi et al., PPoPP 2012, section 3.1, which has no number for this. A wave is as many"
            f" groups as are resident on the machine. {WAVES} waves are traced by default; the first half"
            " of a snapshot warms the caches."
        ),
        cases=[case for study in studies for case in _cases(study)],
        findings=_findings(studies),
        pictures=[draw(out / "snapshots.png", studies)],
    )


def draw(path: Path, studies: Sequence[Study]) -> str:
    """The picture of all kernels."""
    return drawing.snapshot_sizes(
        path,
        studies[0].sizes,
        {
            study.kernel: {
                "default": study.by_size,
                "cores start together": study.in_step,
                "together, cold caches": study.cold,
            }
            for study in studies
        },
        {study.kernel: study.by_position for study in studies},
    )


def _study(
    kernel: str,
    workload: Any,
    machine: Machine,
    sizes: tuple[int, ...],
    positions: Sequence[float],
    trials: Sequence[int],
) -> Study:
    # A trace of one group has the shape of the launch, which decides how many groups are resident.
    launch = tracegen.trace(workload, machine, groups=1).launch
    wave = machine.n_cores * resident_groups(machine, launch).groups_per_core

    def traced(waves: int, position: float) -> Trace:
        count = min(waves * wave, launch.n_groups)
        begin = int(position * (launch.n_groups - count)) // wave * wave
        return tracegen.trace(workload, machine, groups=range(begin, begin + count))

    def hit_ratios(trace: Trace, n: int = trials[0], **options: Any) -> dict[str, Ratios]:
        replays = replays_of([trace], machine, n, **options)
        return {q: 100 * ratios(replays, *w) for q, w in QUANTITIES.items()}

    def columns(rows: Sequence[dict[str, Ratios]]) -> dict[str, list[float]]:
        return {q: [describe(row[q]).mean for row in rows] for q in QUANTITIES}

    warm, in_step, cold = [], [], []
    for size in sizes:
        trace = tracegen.trace(workload, machine, groups=min(size * wave, launch.n_groups))
        # Of a single wave no half can be used for warming: only random starts warm the caches.
        warm.append(hit_ratios(trace))
        in_step.append(hit_ratios(trace, deviation=False))
        cold.append(hit_ratios(trace, warmup_waves=0, deviation=False))
    default, longest = tracegen.trace(workload, machine), trace
    for n in trials:
        errors = _errors(hit_ratios(default, n), hit_ratios(longest, n))
        if all(e.half_width <= PRECISE for e in errors.values() if e.is_defined):
            break
    return Study(
        kernel=kernel,
        sizes=sizes,
        by_size=columns(warm),
        in_step=columns(in_step),
        cold=columns(cold),
        by_position=columns([hit_ratios(traced(WAVES, position)) for position in positions]),
        default_waves=default.n_groups / wave,
        errors=errors,
    )


def _errors(default: dict[str, Ratios], longest: dict[str, Ratios]) -> dict[str, Estimate]:
    return {q: describe(default[q] - longest[q]) for q in QUANTITIES}


def _cases(study: Study) -> list[Case]:
    cases = []
    for quantity in QUANTITIES:
        if not np.isfinite(study.by_size[quantity]).all():
            continue
        error = study.errors[quantity]
        spread = float(np.ptp(study.by_position[quantity]))
        points_of: dict[str, tuple[float, float | None]] = {
            f"default ({study.default_waves:.3g} waves) minus {study.sizes[-1]} waves": (
                error.mean,
                error.half_width,
            ),
            "cold-start error": (study.cold_start(quantity, WAVES), None),
            "between positions": (spread, None),
        }
        cases += [
            Case(
                figure="snapshots",
                case=f"{study.kernel}, {quantity}",
                quantity=name,
                unit="points",
                reference=None,
                ours=points,
                ci95=half_width,
                note=f"{study.by_size[quantity][-1]:.1f} % with the longest snapshot",
            )
            for name, (points, half_width) in points_of.items()
        ]
    return cases


def _findings(studies: Sequence[Study]) -> list[str]:
    defined = [(s, q) for s in studies for q in QUANTITIES if np.isfinite(s.by_size[q]).all()]
    errors = {f"{s.kernel}, {q}": s.errors[q] for s, q in defined}
    worst = max(errors, key=lambda name: abs(errors[name].mean))
    cold, cold_case = max((abs(s.cold_start(q, WAVES)), f"{s.kernel}, {q}") for s, q in defined)
    beyond = [name for name, e in errors.items() if max(-e.low, e.high) > ENOUGH]
    cut = "; ".join(f"{s.kernel} {s.default_waves:.2g}" for s in studies if s.default_waves < WAVES)
    findings = [
        f"The default snapshot of {WAVES} waves, half of them for warming, differs from the longest one"
        f" by less than {ENOUGH:.0f} points (95 % interval) in {len(errors) - len(beyond)} of"
        f" {len(errors)} hit ratios. The largest difference is {_text(errors[worst])} ({worst}).",
        f"Counting from empty caches changes a hit ratio by up to {cold:.1f} points ({cold_case}); cores"
        " start together in both replays.",
    ]
    if beyond:
        findings.append(
            f"Not shown to be within {ENOUGH:.0f} points: "
            + "; ".join(f"{name} ({_text(errors[name])})" for name in beyond)
            + "."
        )
    if cut:
        findings.append(f"Fewer waves because of the request budget: {cut}.")
    return findings


def _text(error: Estimate) -> str:
    return f"{error.mean:.1f} ± {error.half_width:.1f} points, {error.n_trials} orderings"
