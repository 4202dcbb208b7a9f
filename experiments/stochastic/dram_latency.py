"""Figure 3: the distribution of main-memory latency under SpMV (Baghsorkhi et al. 2012, section
3.2.3)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Picture

from experiments.kernels.black_scholes import black_scholes
from experiments.reproduction import Case, Figure
from experiments.stochastic.applications import spmv_rows
from experiments.stochastic.replays import Ratios, replays_of, traces_of
from memsim.files import write_picture
from memsim.hierarchy import dominant
from memsim.latency import dram_latency_cycles
from memsim.machine import load_machine
from memsim.report import LINE_COLOUR, PART_COLOURS
from memsim.statistics import describe

MACHINES = ("c2050", "v100")


def figure_3(out: Path, quick: bool) -> Figure:
    """Latencies of sampled requests of SpMV, and of Black-Scholes, which only streams."""
    trials = 4 if quick else 8
    kernels: dict[str, Any] = {
        "SpMV": lambda: spmv_rows(100_000 if quick else 200_000),
        "Black-Scholes": lambda: black_scholes(groups=0),
    }
    samples: dict[str, dict[str, Any]] = {}
    cases: list[Case] = []
    findings: list[str] = []
    for machine_name in MACHINES:
        machine = load_machine(machine_name)
        to_ns = 1e9 / machine.clock_hz
        for kernel, build in kernels.items():
            (replay,) = replays_of(traces_of([build()], machine), machine, trials)
            cycles = replay.dataset["dram_latency_cycles"].values.ravel()
            cycles = cycles[np.isfinite(cycles)]
            samples.setdefault(machine.title, {})[kernel] = cycles * to_ns
            used = describe(dram_latency_cycles(replay.dataset).values * to_ns)
            peak = dominant(cycles) * to_ns
            name = f"{kernel}, {machine_name}"
            for quantity, value, half_width in (
                ("mean", float(cycles.mean()) * to_ns, None),
                *(
                    (f"{p} % quantile", float(np.quantile(cycles, p / 100)) * to_ns, None)
                    for p in (5, 50, 95)
                ),
                ("memory latency of the trials", used.mean, used.half_width),
            ):
                cases.append(Case(name, quantity, "ns", ours=value, ci95=half_width))
            findings.append(
                f"{name}: "
                + (
                    f"at least half of the requests are within 48 cycles around {peak:.0f} ns, so this is T_m."
                    if np.isfinite(peak)
                    else "no latency dominates, so T_m is the mean."
                )
            )
    return Figure(
        title="Figure 3: main-memory latency of SpMV",
        source=(
            "Baghsorkhi et al., PPoPP 2012, section 3.2.3; the text has no number from figure 3. The paper"
            " replayed the addresses on the GPU; ours come from the channels, banks and rows of the machine"
            " file."
        ),
        cases=cases,
        findings=findings,
        pictures=[draw_densities(out / "figure-3.png", samples)],
    )


def draw_densities(path: Path, samples: Mapping[str, Mapping[str, Ratios]]) -> str:
    """Distribution of main-memory latency: one panel for each machine, one histogram for each
    kernel."""
    picture = Picture(figsize=(4.6 * len(samples), 3.4), layout="constrained")
    for axes, (machine, kernels) in zip(
        picture.subplots(1, len(samples), squeeze=False)[0], samples.items(), strict=True
    ):
        every = np.concatenate(list(kernels.values()))
        edges = np.linspace(every.min(), np.quantile(every, 0.998), 60)
        for (kernel, values), colour in zip(
            kernels.items(), (LINE_COLOUR, PART_COLOURS[1]), strict=False
        ):
            axes.hist(
                values,
                edges,
                weights=np.full(len(values), 1 / len(values)),
                color=colour,
                alpha=0.65,
                label=f"{kernel}, mean {values.mean():.0f} ns",
            )
            axes.axvline(values.mean(), color=colour, lw=1)
        axes.set(xlabel="main-memory latency, ns", ylabel="share of the requests")
        axes.set_title(machine, fontsize=9)
        axes.legend(frameon=False, fontsize=8, loc="upper right")
    return write_picture(path, picture, 150).name
