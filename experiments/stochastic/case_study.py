"""Figure 8 and section 6.2: latency of each load in scalar and vectorised SpMV, and the gain of
vector loads.

Source: Baghsorkhi et al., PPoPP 2012.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Picture
from matplotlib.patches import Patch

import tracegen
from calib.prediction import PredictOptions, predict
from experiments import drawing
from experiments.kernels import matrices
from experiments.kernels.spmv import spmv_of
from experiments.kernels.spmv_vectorised import spmv_vectorised_of
from experiments.reproduction import Case, Figure
from experiments.stochastic.replays import SEED
from memsim.files import write_picture
from memsim.latency import expected_latency_cycles, load_latency_cycles
from memsim.machine import Machine, load_machine
from memsim.montecarlo import usable_cores
from memsim.statistics import Estimate, describe

PAPER_SPEEDUPS = {"u": 2.4, "b": 3.63, "U": 2.5, "B": 14.8}
BLOCK = 256
"""Work-items of a group; six such groups fill a core of a C2050."""
ROWS = 131_072
"""The paper does not give the size of its matrices. With this one, x fills two thirds of a C2050's
L2."""
EDGES = ("values[j]", "indices[j]", "x[indices[j]]")
"""Loads of the vectorised kernel's prologue. Those of its epilogue have the same names with ` #2`
added."""
WIDTH = 4
"""Entries of a vector load. The requests and bytes of a row cannot fall by more than this factor,
except for x."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """A static load.

    array : row_start, indices, values or x
    latency : expected latency of one execution, in cycles
    per_row : latency of all its executions for one row, in cycles of sub-groups
    is_edge : True in the prologue or epilogue
    """

    name: str
    array: str
    latency: Estimate
    per_row: float
    is_edge: bool


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """Results of one kernel with one matrix.

    loads : the executed loads in program order
    latency_per_row : latency of all loads of a row, in cycles of sub-groups
    dram_per_row : bytes that DRAM moves for a row
    predicted_s : predicted time of the launch on a C2050
    limit : the resource that limits it
    """

    loads: tuple[Load, ...]
    latency_per_row: Estimate
    dram_per_row: Estimate
    predicted_s: Estimate
    limit: str


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Ratio of scalar to vectorised.

    half_width : of the 95 % interval over orderings; NaN if there is none
    """

    value: float
    half_width: float = math.nan

    @property
    def text(self) -> str:
        """The value with its interval."""
        spread = "" if math.isnan(self.half_width) else f" ± {self.half_width:.2f}"
        return f"{self.value:.2f}{spread}"


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A part of a stacked bar: one static load.

    once : latency of one execution, relative to the slowest load of the scalar kernel
    per_row : latency of all executions for a row, relative to all loads of the scalar kernel
    is_edge : True in the prologue or epilogue
    """

    array: str
    once: float
    per_row: float
    is_edge: bool


def figure_8(out: Path, quick: bool) -> Figure:
    """Four matrices, two kernels: latency of every load and predicted gain."""
    trials = 4 if quick else 12
    rows = ROWS // 2 if quick else ROWS
    machine = load_machine("c2050")
    kernels: dict[str, dict[str, Kernel]] = {}
    for name in PAPER_SPEEDUPS:
        matrix = matrices.csr(name, rows)
        workloads = {
            "scalar": spmv_of(matrix, BLOCK),
            "vectorised": spmv_vectorised_of(matrix, BLOCK),
        }
        kernels[name] = {
            kernel: _replayed(workload, machine, trials) for kernel, workload in workloads.items()
        }
    gains = {
        name: {
            "paper, C2050, time": Gain(value=PAPER_SPEEDUPS[name]),
            "load latency": gain(
                pair["scalar"].latency_per_row, pair["vectorised"].latency_per_row
            ),
            "memory traffic": gain(pair["scalar"].dram_per_row, pair["vectorised"].dram_per_row),
            "predicted time": gain(pair["scalar"].predicted_s, pair["vectorised"].predicted_s),
        }
        for name, pair in kernels.items()
    }
    cases = [case for name, pair in kernels.items() for case in _cases(name, pair, gains[name])]
    return Figure(
        title="Figure 8: latency of every load in scalar and vectorised SpMV, and the speed-up",
        source=(
            "Baghsorkhi et al., PPoPP 2012, section 6.2: speed-ups measured on a Tesla C2050."
            f" Ours: replays on the c2050 machine, {rows:,} rows."
        ),
        cases=cases,
        findings=[
            *(_order(gains, kind) for kind in list(next(iter(gains.values())))[1:]),
            "A gain in load latency is a gain in time only if the latency is not hidden, and a gain in memory"
            " traffic only if memory is the limit. The limits of the predicted times are: "
            + _limits(kernels)
            + ".",
            f"A load of {WIDTH} entries saves at most a factor of {WIDTH} of what is loaded in order. The paper's"
            f" speed-up of {PAPER_SPEEDUPS['B']} for matrix B is larger; this model cannot explain it.",
        ],
        pictures=[
            draw_latencies(out / "figure-8.png", _bars(kernels)),
            drawing.bars(
                out / "figure-8-gains.png",
                {
                    f"matrix {name}": {k: (g.value, g.half_width) for k, g in of.items()}
                    for name, of in gains.items()
                },
                "Gain of the vectorised kernel",
                "scalar over vectorised",
                floor=0.5,
            ),
        ],
    )


def _replayed(workload: Any, machine: Machine, trials: int) -> Kernel:
    wave = machine.n_cores * (machine.residency.max_items // BLOCK)
    # The paper traces the source. Of OpenCL C only the machine code can be traced, that of another GPU for a C2050.
    tracer = "auto" if isinstance(workload, tracegen.OpenCLWorkload) else "instrumented"
    trace = tracegen.trace(workload, machine, groups=2 * wave, tracer=tracer)
    settings = PredictOptions(trials=trials, seed=SEED, jobs=usable_cores())
    predicted = predict([trace], machine, settings)
    assert predicted.replay is not None  # it is in every mode but `paper`
    dataset = predicted.replay.dataset
    rows = trace.n_groups * BLOCK
    latency = expected_latency_cycles(dataset)
    per_row = load_latency_cycles(dataset) / rows
    vectorised = isinstance(workload, tracegen.OpenCLWorkload)
    loads = [
        Load(
            name=str(site),
            array=_array_of(str(site)),
            latency=describe(latency.sel(site=site).values),
            per_row=float(per_row.sel(site=site).mean()),
            is_edge=str(site).endswith("#2") or (vectorised and str(site) in EDGES),
        )
        for k, site in enumerate(dataset["site"].values)
        if str(dataset["direction"].values[k]) == "load"
    ]
    moved = dataset["dram_read_bytes"].values + dataset["dram_write_bytes"].values
    return Kernel(
        loads=tuple(load for load in loads if load.latency.is_defined),
        latency_per_row=describe(per_row.sum("site").values),
        dram_per_row=describe(moved / (rows * _counted(dataset))),
        predicted_s=predicted.timing.estimate,
        limit=predicted.timing.binds,
    )


def _limits(kernels: Mapping[str, Mapping[str, Kernel]]) -> str:
    """The resources that limit the predicted times of both kernels, by matrix."""
    return "; ".join(
        f"{name}: {pair['scalar'].limit} (scalar), {pair['vectorised'].limit} (vectorised)"
        for name, pair in kernels.items()
    )


def _counted(dataset: Any) -> Any:
    """(n_trial,) share of the rows that is counted; the other rows warm the caches.

    It is the share of the counted stores, for each sub-group stores its part of y once, in one
    line.
    """
    (store,) = np.flatnonzero(dataset["direction"].values.astype(str) == "store")
    stored = dataset["accesses"].isel(level=0, site=store).values
    return stored / int(dataset["site_accesses"].values[store])


def _array_of(site: str) -> str:
    """The array that a site reads: the first array name in the name of the site."""
    return min(
        (name for name in ("row_start", "indices", "values", "x[") if name in site),
        key=site.index,
    ).removesuffix("[")


def gain(scalar: Estimate, vectorised: Estimate) -> Gain:
    """Ratio of two means. Its relative half-width is the root of the sum of squares, to first
    order."""
    value = scalar.mean / vectorised.mean
    relative = math.hypot(scalar.half_width / scalar.mean, vectorised.half_width / vectorised.mean)
    return Gain(value=value, half_width=value * relative)


def _order(gains: Mapping[str, Mapping[str, Gain]], kind: str) -> str:
    """Compares the order of the matrices by one kind of gain with the order of the paper's
    speed-ups."""
    ours = sorted(gains, key=lambda name: -gains[name][kind].value)
    paper = sorted(gains, key=lambda name: -PAPER_SPEEDUPS[name])
    verdict = "the paper's order" if ours == paper else f"the paper's order is {' > '.join(paper)}"
    values = ", ".join(f"{name} {gains[name][kind].text}" for name in ours)
    return f"Gain in {kind}: {values}: {verdict}."


def _cases(name: str, pair: Mapping[str, Kernel], gains: Mapping[str, Gain]) -> list[Case]:
    worst = max(load.latency.mean for load in pair["scalar"].loads)
    cases = [
        Case(
            f"{name}, {kernel}",
            f"{load.name}, relative to slowest load",
            "",
            ours=load.latency.mean / worst,
            ci95=load.latency.half_width / worst,
            note=f"{load.latency.mean:.0f} cycles" + (", prologue or epilogue" * load.is_edge),
        )
        for kernel, result in pair.items()
        for load in result.loads
    ]
    for kernel, result in pair.items():
        cases.append(
            Case(
                f"{name}, {kernel}",
                "predicted time",
                "ms",
                ours=1e3 * result.predicted_s.mean,
                ci95=1e3 * result.predicted_s.half_width,
                note=f"limited by {result.limit}",
            )
        )
    cases += [
        Case(
            name,
            f"gain, {kind}",
            "x",
            reference=PAPER_SPEEDUPS[name],
            ours=one.value,
            ci95=None if math.isnan(one.half_width) else one.half_width,
        )
        for kind, one in gains.items()
        if not kind.startswith("paper")
    ]
    return cases


def _bars(kernels: Mapping[str, Mapping[str, Kernel]]) -> dict[str, list[Segment]]:
    """Bar -> its loads, relative to the slowest load and to the sum of all loads of the scalar
    kernel."""
    bars = {}
    for name, pair in kernels.items():
        worst = max(load.latency.mean for load in pair["scalar"].loads)
        whole = sum(load.per_row for load in pair["scalar"].loads)
        for kernel, measured in pair.items():
            bars[f"{name}\n{kernel}"] = [
                Segment(
                    array=load.array,
                    once=load.latency.mean / worst,
                    per_row=load.per_row / whole,
                    is_edge=load.is_edge,
                )
                for load in measured.loads
            ]
    return bars


ARRAY_COLOURS = {"row_start": "#999999", "indices": "#E69F00", "values": "#0072B2", "x": "#009E73"}


def draw_latencies(path: Path, bars: Mapping[str, Sequence[Segment]]) -> str:
    """One bar for each kernel and matrix, one segment for each static load, coloured by its array.

    The upper axes count each load once, as the paper does; the lower ones count every execution.
    """
    picture = Picture(figsize=(8.5, 7.4), layout="constrained")
    top, bottom = picture.subplots(2, 1, sharex=True)
    for k, segments in enumerate(bars.values()):
        at = k + 0.15 * (1 if k % 2 == 0 else -1)
        once = per_row = 0.0
        for segment in segments:
            look = {
                "color": ARRAY_COLOURS[segment.array],
                "edgecolor": "white",
                "hatch": "///" if segment.is_edge else "",
                "lw": 0.8,
            }
            top.bar(at, segment.once, 0.66, once, **look)
            bottom.bar(at, segment.per_row, 0.66, per_row, **look)
            once += segment.once
            per_row += segment.per_row
        bottom.annotate(f"{per_row:.2f}", (at, per_row), ha="center", va="bottom", fontsize=8)
    bottom.set_xticks(range(len(bars)), list(bars), fontsize=8)
    bottom.set_ylim(0, 1.12)
    top.set_ylabel(
        "latency of one execution of each load,\nover the slowest scalar load's", fontsize=8
    )
    bottom.set_ylabel("latency of all loads of a row,\nover the scalar kernel's", fontsize=8)
    handles = [
        Patch(color=colour, label=f"loads of {name}") for name, colour in ARRAY_COLOURS.items()
    ]
    handles.append(Patch(facecolor="lightgray", hatch="///", label="prologue, epilogue"))
    top.legend(
        handles=handles,
        frameon=False,
        fontsize=8,
        ncols=5,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
    )
    return write_picture(path, picture, 150).name
