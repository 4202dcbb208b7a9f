"""Three workloads of today that are not in the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.kernels.attention import attention
from experiments.kernels.embedding import embedding_bag
from experiments.kernels.spmm import spmm
from experiments.reproduction import Case, Figure
from experiments.stochastic import drawing
from experiments.stochastic.replays import QUANTITIES, ratios, replays_of, traces_of
from memsim.machine import load_machine
from memsim.report import summarise
from memsim.statistics import describe


def workloads_of_today(out: Path, quick: bool) -> Figure:
    """Sparse times dense with two matrices, attention, and an embedding table on a V100."""
    machine = load_machine("v100")
    trials = 8 if quick else 16
    kernels: dict[str, Any] = {
        "SpMM, R-MAT graph": lambda: spmm("graph", 1 << 16),
        "SpMM, finite elements": lambda: spmm("fem", 60_000),
        "attention": lambda: attention(heads=32, queries=2048, keys=2048),
        "embedding, Zipf 1.05": lambda: embedding_bag(),
        "embedding, uniform": lambda: embedding_bag(distribution="uniform"),
    }
    cases: list[Case] = []
    findings: list[str] = []
    rows = []
    for name, build in kernels.items():
        replays = replays_of(traces_of([build()], machine), machine, trials)
        values_of = {q: ratios(replays, *where) for q, where in QUANTITIES.items()}
        rows.append((name, values_of))
        for quantity, values in values_of.items():
            estimate = describe(100 * values)
            if estimate.is_defined:
                cases.append(
                    Case(
                        figure="today",
                        case=name,
                        quantity=quantity,
                        unit="%",
                        reference=None,
                        ours=estimate.mean,
                        ci95=estimate.half_width,
                        note=f"sigma {estimate.sigma:.2f} points",
                    )
                )
        first = summarise(replays[0].dataset).sites[0]
        findings.append(
            f"{name}: {first.name} has {100 * first.share.mean:.0f} % of the load latency,"
            f" {first.latency_cycles.mean:.0f} cycles an execution"
            + (", order-sensitive." if first.is_order_sensitive else ".")
        )
    return Figure(
        name="today",
        title="Workloads of today: sparse times dense, attention, an embedding table (V100)",
        source="There is no published number.",
        cases=cases,
        findings=findings,
        pictures=[
            drawing.histograms(
                out / "today.png",
                rows,
                f"{machine.title}: hit ratios of {trials} random orderings (gray: mean ± 2 sigma)",
            )
        ],
    )
