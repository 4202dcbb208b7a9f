"""How large a snapshot must be, where it may lie, and what cold caches do to it."""

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
"""Besides the middle, from which a snapshot comes by default."""
ENOUGH = 2.0
"""Points of hit ratio within which a default snapshot must agree with the longest one."""
PRECISE = 0.5
"""Half-width, in points, to which that difference is found out, as far as TRIALS go."""
TRIALS, TRIALS_QUICK = (4, 16, 64, 256), (4, 16)
"""So many orderings, and for the default against the longest snapshot more, until it is precise."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """Hit ratios in % of one kernel: quantity -> values.

    by_size : (n_size,) as a replay has it, from the middle of the launch
    in_step, cold : the same with all cores starting together; warmed as well, and counted from empty
        caches. Random starts warm caches too: without them, the cold-start error is the difference
    by_position : (n_position,) at the default size
    default_waves : of the snapshot that is traced by default; below WAVES where the budget cuts it
    errors : the default snapshot less the longest one, orderings compared by pairs of the same seed, in
        which cores start alike
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
        """Points that empty caches make at a size."""
        k = self.sizes.index(size)
        return self.cold[quantity][k] - self.in_step[quantity][k]


def snapshot_study(out: Path, quick: bool) -> Figure:
    """Five kernels on the paper's card, snapshots of one wave to twice the default."""
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
        title="Snapshots: hit ratios against size and position, and the cold-start error (C2050)",
        source=(
            "Baghsorkhi et al., PPoPP 2012, section 3.1, without a number. A wave is as many groups as"
            f" the machine holds at once; {WAVES} waves are traced by default, and the first half of"
            " any snapshot warms the caches."
        ),
        cases=[case for study in studies for case in _cases(study)],
        findings=_findings(studies),
        pictures=[drawing.snapshot_sizes(out / "snapshots.png", studies)],
    )


def _study(
    kernel: str,
    workload: Any,
    machine: Machine,
    sizes: tuple[int, ...],
    positions: Sequence[float],
    trials: Sequence[int],
) -> Study:
    # One group tells the launch's shape, hence how many a core holds.
    launch = tracegen.trace(workload, machine, groups=1).launch
    wave = machine.n_cores * resident_groups(machine, launch).groups_per_core

    def traced(waves: int, position: float) -> Trace:
        count = min(waves * wave, launch.n_groups)
        begin = int(position * (launch.n_groups - count)) // wave * wave
        return tracegen.trace(workload, machine, groups=range(begin, begin + count))

    def found(trace: Trace, n: int = trials[0], **options: Any) -> dict[str, Ratios]:
        replays = replays_of([trace], machine, n, **options)
        return {q: 100 * ratios(replays, *w) for q, w in QUANTITIES.items()}

    def columns(rows: Sequence[dict[str, Ratios]]) -> dict[str, list[float]]:
        return {q: [describe(row[q]).mean for row in rows] for q in QUANTITIES}

    warm, in_step, cold = [], [], []
    for size in sizes:
        trace = traced(size, 0.5)
        # One wave has no half to warm with but the random starts.
        warm.append(found(trace))
        in_step.append(found(trace, deviation=False))
        cold.append(found(trace, warmup_waves=0, deviation=False))
    default, longest = tracegen.trace(workload, machine), trace
    for n in trials:
        errors = _errors(found(default, n), found(longest, n))
        if all(e.half_width <= PRECISE for e in errors.values() if e.is_defined):
            break
    return Study(
        kernel=kernel,
        sizes=sizes,
        by_size=columns(warm),
        in_step=columns(in_step),
        cold=columns(cold),
        by_position=columns([found(traced(WAVES, position)) for position in positions]),
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
        found: dict[str, tuple[float, float | None]] = {
            f"default of {study.default_waves:.3g} against {study.sizes[-1]} waves": (
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
                note=f"{study.by_size[quantity][-1]:.1f} % in the longest",
            )
            for name, (points, half_width) in found.items()
        ]
    return cases


def _findings(studies: Sequence[Study]) -> list[str]:
    there = [(s, q) for s in studies for q in QUANTITIES if np.isfinite(s.by_size[q]).all()]
    off = {f"{s.kernel}, {q}": s.errors[q] for s, q in there}
    worst = max(off, key=lambda name: abs(off[name].mean))
    cold, cold_case = max((abs(s.cold_start(q, WAVES)), f"{s.kernel}, {q}") for s, q in there)
    beyond = [name for name, e in off.items() if max(-e.low, e.high) > ENOUGH]
    enough = (
        "is enough for all"
        if not beyond
        else f"is enough for {len(off) - len(beyond)} of {len(off)} hit ratios, but not shown to be for "
        + "; ".join(f"{name} ({_said(off[name])})" for name in beyond)
    )
    cut = "; ".join(f"{s.kernel} {s.default_waves:.2g}" for s in studies if s.default_waves < WAVES)
    fewer = f" (fewer by the budget: {cut})" if cut else ""
    return [
        f"The default of {WAVES} waves{fewer}, half of"
        f" them warming, {enough}: 95 % intervals of its difference"
        f" from the longest snapshot within {ENOUGH:.0f} points. The largest difference is"
        f" {_said(off[worst])} ({worst}).",
        f"Counted from empty caches instead, it is up to {cold:.1f} points off ({cold_case}), cores"
        " starting together in both.",
    ]


def _said(error: Estimate) -> str:
    return f"{error.mean:.1f} ± {error.half_width:.1f} points, {error.n_trials} orderings"
