"""What ordering alone does to each access: samplers, schedule deviation, and chance."""

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

SAMPLERS = ("wrr", "lrr", "gto", "uniform")
MOST_LOADS = 3
"""Of each kernel, those of the largest share are shown."""
MOVES = 100 * ORDER_SENSITIVE_SIGMA
"""Points of hit ratio between orderings that a reader should know of."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """A load under every ordering.

    latency : (sampler, deviation) -> expected latency in cycles
    ratio : (sampler, deviation) -> hit ratios in %, (n_trial, n_level)
    share : of the load latency, as the default ordering has it
    is_marked : as the report of the default ordering says, `order-sensitive`
    """

    kernel: str
    site: str
    share: float
    latency: dict[tuple[str, bool], Estimate]
    ratio: dict[tuple[str, bool], Any]
    levels: tuple[str, ...]
    is_marked: bool

    def spread(self, level: int, orderings: Sequence[tuple[str, bool]]) -> float:
        """Points between the highest and the lowest mean hit ratio of some orderings.

        NaN where the access never reaches the level.
        """
        means = [describe(self.ratio[key][:, level]).mean for key in orderings]
        return max(means) - min(means)

    def most(self, orderings: Sequence[tuple[str, bool]]) -> float:
        """The largest spread of any level that is reached."""
        spreads = [self.spread(level, orderings) for level in range(len(self.levels))]
        return max((points for points in spreads if np.isfinite(points)), default=0.0)


ORDERINGS = tuple(itertools.product(SAMPLERS, (True, False)))


def orderings(out: Path, quick: bool) -> Figure:
    """Every sampler with and without schedule deviation, five kernels, on the paper's card."""
    trials = 4 if quick else 12
    machine = load_machine("c2050")
    kernels: dict[str, Any] = {
        "SpMV": lambda: spmv_rows(400_000, 16),
        "DMM, tiled": lambda: tiled(512, 16),
        "DMM, naive": lambda: naive(512, 16),
        "LBM": lambda: d3q19(120, 120, 16, 120),
        "merge sort, global": lambda: merge_sort.global_pass(1 << 22, 1 << 14),
    }
    accesses: list[Access] = []
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
        title="What ordering alone does to each access (C2050)",
        source=(
            "No published number. Samplers: who of a core's sub-groups has the next turn; deviation:"
            " whether cores begin at random points of their programs (section 3.2.1)."
        ),
        cases=[case for access in accesses for case in _cases(access)],
        findings=_findings(accesses),
        pictures=[
            drawing.orderings(out / "ordering.png", accesses),
        ],
    )


def _accesses(kernel: str, replays: dict[tuple[str, bool], Replay]) -> list[Access]:
    default = replays["wrr", True]
    shares = latency_shares(default.dataset).mean("trial")
    marked = {site.name for site in summarise(default.dataset).sites if site.is_order_sensitive}
    latency = {key: expected_latency_cycles(r.dataset) for key, r in replays.items()}
    ratio = {
        key: hit_ratios(r.dataset).transpose("trial", "level", "site") for key, r in replays.items()
    }
    top = shares.values.argsort()[::-1][:MOST_LOADS]
    return [
        Access(
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


def _cases(access: Access) -> list[Case]:
    kinds = {
        "between samplers": [(sampler, True) for sampler in SAMPLERS],
        "deviation on or off": [("wrr", True), ("wrr", False)],
    }
    cases = []
    for level, name in enumerate(access.levels):
        values = access.ratio["wrr", True][:, level]
        if not np.isfinite(values).any():
            continue
        found = {f"sigma of {name} hit ratio": describe(values).sigma}
        for kind, keys in kinds.items():
            found[f"{name} hit ratio, {kind}"] = access.spread(level, keys)
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
            for quantity, points in found.items()
        ]
    return cases


def _findings(accesses: Sequence[Access]) -> list[str]:
    """For each source of ordering, which accesses it moves by more than two points."""
    found = []
    default = [("wrr", True), ("wrr", False)]
    by_sampler = [(sampler, True) for sampler in SAMPLERS]
    for said, keys in (("the sampler", by_sampler), ("schedule deviation", default)):
        moved = [
            f"{a.kernel} {a.site} ({a.most(keys):.0f})" for a in accesses if a.most(keys) > MOVES
        ]
        found.append(
            f"Moved by {said} by more than {MOVES:.0f} points of a hit ratio: "
            + (", ".join(moved) if moved else "none")
            + "."
        )
    marked = [f"{a.kernel} {a.site}" for a in accesses if a.is_marked]
    found.append(
        "Marked order-sensitive in a report (sigma above"
        f" {MOVES:.0f} points under the default ordering): {', '.join(marked) or 'none'}."
    )
    return found
