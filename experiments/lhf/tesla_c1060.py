"""Five matrix products on a Tesla C1060 (Yuan et al. 2010, tables 2 and 3, figures 14 to 16).

The numbers of registers are the compiler's, as given in the paper. Local memory, threads,
occupancy, basic blocks and times are derived here. The blocks are cut in the order of the source, as the paper
cuts them: today's compilers unroll the products, and of the code that sm_75 would run (`memsim predict -m c1060`)
the naive product's sub-group waits 65 times at a width of 1024, where the paper has 1026.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from loopy.kernel.data import ArrayArg

import tracegen
from calib.prediction import (
    AccessCosts,
    PerLoad,
    Program,
    Repeat,
    access_costs,
    blocks_from_trace,
    paper_inputs,
    residents,
    simulated_inputs,
    time_of,
)
from experiments import drawing
from experiments.kernels import matmul
from experiments.kernels.matmul_volkov import volkov
from experiments.reproduction import Case, Figure
from memsim.machine import Machine, load_machine
from memsim.montecarlo import replay, resident_groups
from memsim.trace import Launch, Trace
from tracegen.instrumented import prepare
from tracegen.workloads import Workload

SOURCE = (
    "Yuan et al., A GPU Computational Model Based on Latency Hidden Factor, Journal of Software 21"
    " (2010), 251-262; the curves of its figures are missing from our text"
)
LOCAL_LATENCY_CYCLES = 36.0
"""Latency of an access to shared memory, table 2."""
POINTER_BYTES = 8
TRACED, SMALLER = 512, 256
"""Sizes of the traced matrices; without caches the costs of an access hardly depend on them. How often loops run
lies on the line through both."""


@dataclass(frozen=True, kw_only=True)
class Product:
    """One of the paper's kernels.

    registers, local_bytes, groups : from table 3; registers are an input, the others are compared
    blocks : NBB of table 3 as a function of the width; None where our text lacks it
    multiple : the width must be a multiple of this
    uses : the source's instructions that use a loaded value
    """

    name: str
    make: Callable[[int], Workload]
    registers: int
    local_bytes: int
    groups: int
    blocks: Callable[[int], float] | None
    multiple: int
    figure: str
    uses: PerLoad


def _naive(tile: int, groups: int) -> Product:
    return Product(
        name=f"naive {tile}x{tile}",
        make=lambda n: matmul.naive(n=n, tile=tile),
        registers=10,
        local_bytes=48,
        groups=groups,
        blocks=lambda n: n + 2,
        multiple=tile,
        figure="figure-14",
        uses=lambda _: [{"fp32_fma": 1 / 2}],
    )


def _tiled(tile: int, groups: int, local_bytes: int) -> Product:
    """A loaded value is stored to local memory; after a barrier, each term loads one of its two factors from there."""
    terms = {"local_load": tile / 2, "fp32_fma_local": tile / 2}
    return Product(
        name=f"CUBLAS 1.1 {tile}x{tile}",
        make=lambda n: matmul.tiled(n=n, tile=tile),
        registers=13,
        local_bytes=local_bytes,
        groups=groups,
        blocks=lambda n: 3 * (n / tile) + 1,
        multiple=tile,
        figure="figure-15",
        uses=lambda _: [{"local_store": 1}, terms],
    )


PRODUCTS = (
    _naive(8, groups=8),
    _naive(16, groups=4),
    _tiled(8, groups=8, local_bytes=560),
    _tiled(16, groups=4, local_bytes=2096),
    Product(
        name="Volkov 16x4",
        make=lambda n: volkov(n=n),
        registers=30,
        local_bytes=1156,
        groups=2,
        blocks=None,
        multiple=64,
        figure="figure-16",
        uses=lambda site: [{"fp32_fma_local": 16} if site.array == "a" else {"local_store": 1}],
    ),
)


@dataclass(frozen=True, kw_only=True)
class Analysed:
    """The programs of a product at the sizes SMALLER and TRACED, its launch at TRACED, and the costs of its
    accesses."""

    product: Product
    programs: tuple[Program, Program]
    launch: Launch
    costs: AccessCosts
    local_bytes: int

    def program(self, n: int) -> Program:
        """For n x n matrices."""
        small, large = self.programs
        part = (n - SMALLER) / (TRACED - SMALLER)
        return dataclasses.replace(large, steps=_between(small.steps, large.steps, part))


def _between(small: Sequence[Any], large: Sequence[Any], part: float) -> tuple[Any, ...]:
    """Steps of two programs that differ only in how often they repeat, on the line through both."""
    return tuple(
        Repeat(_between(a.steps, b.steps, part), a.count + part * (b.count - a.count))
        if isinstance(a, Repeat) and isinstance(b, Repeat)
        else b
        for a, b in zip(small, large, strict=True)
    )


@cache
def analysed(name: str) -> Analysed:
    """Trace one product, split it into basic blocks, and replay it."""
    machine = load_machine("c1060")
    product = next(product for product in PRODUCTS if product.name == name)

    def traced(workload: Workload) -> Trace:
        groups = 2 * machine.n_cores * 8
        return tracegen.trace(workload, machine, groups=groups, tracer="polyhedral")

    workload = product.make(TRACED)
    small, trace = traced(product.make(SMALLER)), traced(workload)
    programs = (
        blocks_from_trace(small, per_load=product.uses),
        blocks_from_trace(trace, per_load=product.uses),
    )
    trace = trace.replace(
        launch=dataclasses.replace(trace.launch, registers_per_item=product.registers)
    )
    kernel = prepare(workload, None).kernel
    return Analysed(
        product=product,
        programs=programs,
        launch=trace.launch,
        costs=access_costs(trace, replay(trace, machine, trials=4), machine),
        local_bytes=trace.launch.local_memory_bytes + argument_bytes(kernel) + reserved(machine),
    )


def argument_bytes(kernel: Any) -> int:
    """Bytes of the kernel arguments, which compute capability 1.x keeps in shared memory."""
    return sum(
        POINTER_BYTES if isinstance(argument, ArrayArg) else argument.dtype.numpy_dtype.itemsize
        for argument in kernel.args
    )


def reserved(machine: Machine) -> int:
    """Bytes of local memory that every group uses beside its own arrays."""
    return machine.residency.local_memory_reserved_bytes


def at_size(analysed: Analysed, n: int) -> Launch:
    """The launch for n x n matrices."""
    n_groups = max(1, round(analysed.launch.n_groups * (n / TRACED) ** 2))
    return dataclasses.replace(analysed.launch, n_groups=n_groups)


MODES = {
    "paper print": "as printed",
    "paper": "maximum over j",
    "simulated": "costs from the replay",
}


def gflops(result: Analysed, n: int) -> dict[str, float]:
    """Predicted GFlop/s by mode."""
    machine = load_machine("c1060")
    launch = at_size(result, n)
    program = result.program(n)
    resident = residents(machine, launch, resident_groups(machine, launch))
    printed = paper_inputs(program, machine, local_latency_cycles=LOCAL_LATENCY_CYCLES)
    seconds = {
        "paper print": time_of(printed, resident, machine, mode="paper"),
        "paper": time_of(printed, resident, machine, solver="equation"),
        "simulated": time_of(
            simulated_inputs(program, _steady(result.costs, program), machine, resident),
            resident,
            machine,
        ),
    }
    return {name: 2 * n**3 / float(timing.seconds.mean()) / 1e9 for name, timing in seconds.items()}


def _steady(costs: AccessCosts, program: Program) -> AccessCosts:
    """The costs, with the numbers of executions of a program of another size."""
    index = {name: k for k, name in enumerate(costs.sites)}
    times = np.zeros(len(costs.sites))
    for number, count in program.occurrences().items():
        for name in program.blocks[number].accesses:
            times[index[name]] += count
    return dataclasses.replace(costs, per_subgroup=times)


def sizes(product: Product, quick: bool) -> list[int]:
    """Widths as in the paper: slightly more than powers of two, and multiples of the tile."""
    last = 4096 if product.figure == "figure-14" else 8192
    first = 64 if product.multiple == 64 or product.figure == "figure-14" else 256
    widths, n = [], first
    while n <= last:
        widths.append(n + max(32, product.multiple))
        n *= 4 if quick else 2
    return [n // product.multiple * product.multiple for n in widths]


def table_3(out: Path, quick: bool) -> Figure:
    """Characteristics of the kernels, derived from their programs."""
    cases = [case for product in PRODUCTS for case in _characteristics(product)]
    return Figure(
        title="Table 3: characteristics of the matrix products, derived from the kernels",
        source=SOURCE,
        cases=cases,
        findings=[
            "The numbers of registers (10, 10, 13, 13, 30) are the compiler's and taken from the paper.",
            "Shared memory holds the tiles, 16 bytes for indices, and the arguments. Loopy's kernels have fewer"
            " arguments than the CUDA ones, hence a few bytes less.",
            "The naive kernel has one basic block less than in the paper: the store is in the block of the last"
            " multiplication, and the first loads are in the first block.",
            "Eight groups of Volkov's kernel fit on a core by every resource (64 threads, 30 registers, 1156"
            " bytes); the printed 2 is its number of warps.",
        ],
    )


def _characteristics(product: Product, width: int = 1024) -> list[Case]:
    """One row of table 3; NBB is that of matrices of this width."""
    result = analysed(product.name)
    launch = result.launch
    occupancy = resident_groups(load_machine("c1060"), launch)
    threads = math.prod(map(int, product.name.split()[-1].split("x")))
    nbb = None if product.blocks is None else product.blocks(width)
    values: tuple[tuple[str, str, float | None, float, str], ...] = (
        ("threads", "per group", threads, launch.group_items, ""),
        ("shared memory", "B per group", product.local_bytes, result.local_bytes, ""),
        (
            "occupation",
            "groups per core",
            product.groups,
            occupancy.groups_per_core,
            f"limited by {occupancy.limited_by}",
        ),
        (
            "NBB",
            f"at width {width}",
            nbb,
            result.program(width).n_blocks,
            "",
        ),
    )
    return [
        Case(product.name, quantity, unit, reference=paper, ours=ours, note=note)
        for quantity, unit, paper, ours, note in values
    ]


def figure(name: str, title: str) -> Callable[[Path, bool], Figure]:
    """The function that makes one figure: predicted performance against size."""

    def make(out: Path, quick: bool) -> Figure:
        cases = []
        curves: dict[tuple[str, str], list[tuple[int, float]]] = {}
        for product in (product for product in PRODUCTS if product.figure == name):
            result = analysed(product.name)
            for n in sizes(product, quick):
                for mode, value in gflops(result, n).items():
                    curves.setdefault((product.name, mode), []).append((n, value))
                    cases.append(
                        Case(
                            f"{product.name}, {n}",
                            mode,
                            "GFlop/s",
                            ours=value,
                            note="the curve is missing from our text",
                        )
                    )
        picture = _draw(out / f"{name}.png", curves, title)
        return Figure(
            title=title,
            source=SOURCE,
            cases=cases,
            findings=[
                "The paper gives a mean error of 0.19 over all three figures. The single errors are in the curves,"
                " which are missing from our text.",
                *_largest(curves),
            ],
            pictures=[picture],
        )

    return make


def _largest(curves: dict[tuple[str, str], list[tuple[int, float]]]) -> list[str]:
    return [
        f"{name}, {mode} ({MODES[mode]}): {points[-1][1]:.4g} GFlop/s at {points[-1][0]}"
        for (name, mode), points in curves.items()
    ]


def _draw(path: Path, curves: dict[tuple[str, str], list[tuple[int, float]]], title: str) -> str:
    styles = {"paper print": "o:", "paper": "o--", "simulated": "o-"}
    names = list(dict.fromkeys(name for name, _ in curves))
    lines = []
    for (name, mode), points in curves.items():
        n, rate = zip(*points, strict=True)
        label = f"{name}, {MODES[mode]}"
        lines.append(drawing.Line(n, rate, styles[mode], label, names.index(name)))
    widths = sorted({n for points in curves.values() for n, _ in points})
    panel = drawing.Panel(
        lines, title, "width of the matrices", "GFlop/s, predicted", log="xy", ticks=widths
    )
    return drawing.panels(path, panel, size=(9, 4.6))
