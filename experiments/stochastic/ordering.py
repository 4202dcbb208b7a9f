"""How much the ordering alone changes the latency and hit ratios of each access (C2050)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.kernels import merge_sort
from experiments.kernels.lattice_boltzmann import d3q19
from experiments.kernels.matmul import naive, tiled
from experiments.reproduction import Case, Figure
from experiments.stochastic import drawing
from experiments.stochastic.applications import spmv_rows
from experiments.stochastic.replays import replays_of, traces_of
from memsim.latency import expected_latency_cycles, hit_ratios, latency_shares
from memsim.machine import load_machine
from memsim.montecarlo import Replay
from memsim.report import ORDER_SENSITIVE_SIGMA, summarise
from memsim.statistics import Estimate, describe

SAMPLERS = ("wrr", "lrr", "gto", "gty", "uniform")
MOST_LOADS = 3
"""Loads shown for each kernel: those with the largest shares of its load latency."""
MOVES = 100 * ORDER_SENSITIVE_SIGMA
"""Difference of hit ratios, in points, that is reported."""


@dataclass(frozen=True, kw_only=True)
class AccessByOrdering:
    """Results for one load under every ordering.

    share : of the kernel's load latency, under the default ordering
    latency : (sampler, deviation) -> expected latency in cycles
    ratio : (sampler, deviation) -> hit ratios in %, (n_trial, n_level)
    is_marked : True if the report of the default ordering marks the load as order-sensitive
    """

    kernel: str
    site: str
    share: float
    latency: dict[tuple[str, bool], Estimate]
    ratio: dict[tuple[str, bool], Any]
    levels: tuple[str, ...]
    is_marked: bool

    def spread(self, level: int, orderings: Sequence[tuple[str, bool]]) -> float:
        """Difference in points between the highest and the lowest mean hit ratio of some orderings.

        NaN if the access never reaches the level.
        """
        means = [describe(self.ratio[key][:, level]).mean for key in orderings]
        return max(means) - min(means)

    def most(self, orderings: Sequence[tuple[str, bool]]) -> float:
        """The largest spread over the levels that the access reaches."""
        spreads = [self.spread(level, orderings) for level in range(len(self.levels))]
        return max((points for points in spreads if np.isfinite(points)), default=0.0)


ORDERINGS = tuple(itertools.product(SAMPLERS, (True, False)))


def orderings(out: Path, quick: bool) -> Figure:
    """Five kernels on a C2050 under every sampler, with and without schedule deviation."""
    trials = 4 if quick else 12
    machine = load_machine("c2050")
    kernels: dict[str, Any] = {
        "SpMV": lambda: spmv_rows(400_000, 16),
        "DMM, tiled": lambda: tiled(512, 16),
        "DMM, naive": lambda: naive(512, 16),
        "LBM": lambda: d3q19(120, 120, 16, 120),
        "merge sort, global": lambda: merge_sort.global_pass(1 << 22, 1 << 14),
    }
    accesses: list[AccessByOrdering] = []
    for kernel, build in kernels.items():
        (trace,) = traces_of([build()], machine)
        replays = {
            (sampler, deviation): replays_of(
                [trace], machine, trials, sampler=sampler, deviation=deviation
            )[0]
            for sampler, deviation in ORDERINGS
        }
        accesses += _accesses(kernel, replays)
    return Figure(
        name="ordering",
        title="Effect of the ordering alone on each access (C2050)",
        source=(
            "The paper has no number for this. The sampler decides which sub-group of a core has the"
            " next turn. With schedule deviation, cores start at random points of their programs"
            " (Baghsorkhi et al. 2012, section 3.2.1)."
        ),
        cases=[case for access in accesses for case in _cases(access)],
        findings=_findings(accesses),
        pictures=[_draw(out / "ordering.png", accesses)],
    )


def _draw(path: Path, accesses: Sequence[AccessByOrdering]) -> str:
    return drawing.orderings(
        path,
        [f"{a.kernel}: {a.site}  ({100 * a.share:.0f} % of the latency)" for a in accesses],
        [access.latency for access in accesses],
        [access.is_marked for access in accesses],
    )


def _accesses(kernel: str, replays: dict[tuple[str, bool], Replay]) -> list[AccessByOrdering]:
    default = replays["wrr", True]
    shares = latency_shares(default.dataset).mean("trial")
    marked = {site.name for site in summarise(default.dataset).sites if site.is_order_sensitive}
    latency = {key: expected_latency_cycles(r.dataset) for key, r in replays.items()}
    ratio = {
        key: hit_ratios(r.dataset).transpose("trial", "level", "site") for key, r in replays.items()
    }
    top = shares.values.argsort()[::-1][:MOST_LOADS]
    return [
        AccessByOrdering(
            kernel=kernel,
            site=str(shares["site"].values[k]),
            share=float(shares.values[k]),
            latency={key: describe(values.values[:, k]) for key, values in latency.items()},
            ratio={key: 100 * values.values[:, :, k] for key, values in ratio.items()},
            levels=default.level_names,
            is_marked=str(shares["site"].values[k]) in marked,
        )
        for k in top
        if shares.values[k] > 0
    ]


def _cases(access: AccessByOrdering) -> list[Case]:
    kinds = {
        "between samplers": [(sampler, True) for sampler in SAMPLERS],
        "deviation on or off": [("wrr", True), ("wrr", False)],
    }
    cases = []
    for level, name in enumerate(access.levels):
        values = access.ratio["wrr", True][:, level]
        if not np.isfinite(values).any():
            continue
        changes = {f"sigma of {name} hit ratio": describe(values).sigma}
        for kind, keys in kinds.items():
            changes[f"{name} hit ratio, {kind}"] = access.spread(level, keys)
        cases += [
            Case(
                figure="ordering",
                case=f"{access.kernel}: {access.site}",
                quantity=quantity,
                unit="points",
                reference=None,
                ours=points,
                note="order-sensitive" if access.is_marked else "",
            )
            for quantity, points in changes.items()
        ]
    return cases


def _findings(accesses: Sequence[AccessByOrdering]) -> list[str]:
    """For each property of the ordering, the accesses whose hit ratios it changes by more than
    MOVES."""
    findings = []
    default = [("wrr", True), ("wrr", False)]
    by_sampler = [(sampler, True) for sampler in SAMPLERS]
    for cause, keys in (("the sampler", by_sampler), ("schedule deviation", default)):
        moved = [
            f"{a.kernel} {a.site} ({a.most(keys):.0f})" for a in accesses if a.most(keys) > MOVES
        ]
        findings.append(
            f"Accesses with a hit ratio that {cause} changes by more than {MOVES:.0f} points: "
            + (", ".join(moved) if moved else "none")
            + "."
        )
    marked = [f"{a.kernel} {a.site}" for a in accesses if a.is_marked]
    findings.append(
        "Accesses that a report marks as order-sensitive (sigma above"
        f" {MOVES:.0f} points under the default ordering): {', '.join(marked) or 'none'}."
    )
    return findings
