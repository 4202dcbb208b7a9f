"""`memsim blocks KERNEL`: how often each basic block runs, at sizes that are not executed.

It imports nothing heavy at module level, because the help of the command group loads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calib.block_counts.options import BlockOptions
from calib.commands.blocks_costs import costs_of, integer_sizes
from calib.commands.blocks_output import show_costs, show_counts, show_extrapolated, show_run
from calib.commands.blocks_settings import (
    doubled,
    drawn_sizes,
    parsed_range,
    settings_of_sizes,
    small_settings,
    together,
)
from memsim.commands import MACHINE, check_outputs, json_option, output_path, working, wrote_json
from memsim.errors import MemsimError
from memsim.options import command_options
from tracegen.commands import KernelSpec, kernel_options

if TYPE_CHECKING:
    from calib.block_counts.learned import LearnedCount
    from calib.block_counts.report import BlockReport
    from memsim.machine import Machine
    from tracegen.blocks import BlockCounter


@click.command()
@kernel_options
@click.option(
    "--run",
    is_flag=True,
    help="Also run the first size and compare its counts; --json then lists the counts of each launch.",
)
@click.option(
    "--train",
    "training",
    multiple=True,
    metavar="NAME=LOW:HIGH",
    help="Learn the counts without a closed form from runs with this setting in this range; repeat for"
    " several settings.",
)
@command_options(BlockOptions)
@click.option(
    "--machine",
    "-m",
    metavar="NAME",
    type=MACHINE,
    help="Also report memory requests, and the busy cycles of each unit of this machine.",
)
@click.option(
    "--hits",
    metavar="NAME=LOW:HIGH",
    help="With -m: trace and replay these sizes, and extrapolate hit ratios to the requested sizes.",
)
@click.option("--formulas", is_flag=True, help="Print the closed forms.")
@output_path(
    "--plot", "plot_out", help="Draw the control-flow graph with counts (.png, .svg, .pdf)."
)
@json_option("the counts")
def blocks(
    kernel: KernelSpec,
    options: BlockOptions,
    run: bool,
    training: tuple[str, ...],
    machine: str | None,
    hits: str | None,
    formulas: bool,
    plot_out: Path | None,
    json_out: Path | None,
) -> int:
    """Count how often each basic block of a kernel runs: exactly, or from a model learned from runs.

    KERNEL is FILE.py:NAME, PACKAGE.MODULE:NAME, FILE.cl:NAME or FILE.floopy:SUBROUTINE as for
    'memsim profile'. A setting LOW:HIGH stands for LOW, twice that, and so on up to HIGH. Blocks whose loops and branches are affine in the kernel's
    sizes have closed forms. The counts of other blocks are learned from runs with --train, or
    counted with --run.

    \b
    Examples:
      memsim blocks experiments/kernels/polybench/products.py:gemm --set nk=64:4096
      memsim blocks experiments/kernels/rodinia/elimination.py:lud --set n=64:4096 --run --plot lud.png
      memsim blocks experiments/kernels/polybench/vectors.py:atax --set nx=32768 --set ny=32768 -m v100 --hits nx=512:4096
      memsim blocks experiments/kernels/graphs.py:spmv --set n=8192 --train n=256:4096 -m v100
    """
    check_outputs({"--plot": plot_out, "--json": json_out})
    from calib.block_counts.report import exact_report, plot
    from tracegen.blocks import BlockCounter

    if hits is not None and machine is None:
        raise MemsimError("--hits needs a machine: give --machine")
    rows = settings_of_sizes(kernel.settings)
    ranges = dict(parsed_range("--train", text) for text in training)
    small = small_settings(rows[0], ranges, hits)
    with working("reading the kernel"):
        base = kernel.load(small)
        counter = BlockCounter(base)
        sizes = integer_sizes(counter, base, small, rows, kernel.spec)
    learned = _learned(kernel, counter, rows[0], ranges, options) if ranges else {}
    report = exact_report(counter, sizes, options.subgroup_size, learned, list(ranges))
    record = report.record()
    if run:
        workload = base if small == rows[0] else kernel.load(rows[0])
        record |= _run_first(report, counter, workload, options.subgroup_size)
    record["costs"], extrapolated = _costs(kernel, counter, report, rows[0], machine, hits)
    if hits is not None:
        record["beyond"] = extrapolated
    quiet = wrote_json(lambda: json.dumps(record, indent=1), json_out)
    if plot_out is not None:
        plot(report, plot_out)
        click.echo(f"wrote {plot_out}", err=True)
    if not quiet:
        show_counts(report, formulas, run)
        show_costs(record["costs"])
        show_extrapolated(extrapolated)
        if run:
            show_run(record["run"])
    return 0


def _learned(
    kernel: KernelSpec,
    counter: BlockCounter,
    settings: Mapping[str, str],
    ranges: Mapping[str, tuple[int, int]],
    options: BlockOptions,
) -> dict[int, LearnedCount]:
    """block number -> its learned count, from runs at sizes drawn from the ranges."""
    from calib.block_counts.report import learn_from_runs

    drawn = drawn_sizes(ranges, options.runs)
    with working(f"running {options.runs} sizes to learn from"):
        fixed = {name: value for name, value in settings.items() if name not in ranges}
        workloads = [
            kernel.load(fixed | {name: str(value) for name, value in row.items()}) for row in drawn
        ]
        inputs = {name: [row[name] for row in drawn] for name in ranges}
        return learn_from_runs(counter, workloads, inputs, options.subgroup_size)


def _run_first(
    report: BlockReport, counter: BlockCounter, workload: Any, subgroup_size: int
) -> dict[str, Any]:
    """The counts of a run of the first size, compared with the report, and those of each launch."""
    with working("running"):
        counts, outputs = counter.count(workload, subgroup_size)
        if workload.check is not None:
            workload.check(outputs)
    launches = [
        {
            "launch": launch.index,
            "kernel": launch.kernel,
            "settings": dict(launch.settings),
            "by_work_items": launch.by_items.tolist(),
            "by_sub_groups": [] if launch.by_subgroups is None else launch.by_subgroups.tolist(),
        }
        for launch in counts.launches
    ]
    return {"run": _compared(report, counts), "launches": launches}


def _compared(report: BlockReport, counts: Any) -> list[dict[str, Any]]:
    compared = []
    for row, items, groups in zip(report.rows, counts.by_items, counts.by_subgroups, strict=True):
        exact = (row.by_items[0], row.by_subgroups[0])
        equal = None if row.method != "exact" else exact == (int(items), int(groups))
        compared.append(
            {
                "block": row.block.name,
                "by_work_items": int(items),
                "by_sub_groups": int(groups),
                "equal": equal,
            }
        )
    return compared


def _costs(
    kernel: KernelSpec,
    counter: BlockCounter,
    report: BlockReport,
    settings: Mapping[str, str],
    machine_name: str | None,
    hits: str | None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Costs on a machine at each size, and extrapolated hit ratios; nothing without a machine."""
    if machine_name is None:
        return [], []
    from memsim.machine import load_machine

    machine = load_machine(machine_name)
    costs = costs_of(counter, report, machine)
    return costs, _extrapolated(hits, kernel, settings, costs, machine) if hits is not None else []


def _extrapolated(
    hits: str,
    kernel: KernelSpec,
    settings: Mapping[str, str],
    costs: Sequence[Mapping[str, Any]],
    machine: Machine,
) -> list[dict[str, Any]]:
    """Hit ratios and times at each size, from replays of small sizes.

    Settings that have the same value as the varying one grow with it.
    """
    from dataclasses import asdict

    from calib.block_counts.hit_ratio_trend import extrapolate, observe

    setting, (low, high) = parsed_range("--hits", hits)
    growing = together(settings, setting)
    observed = []
    with working("tracing and replaying small sizes"):
        for value in doubled(setting, f"{low}:{high}"):
            workload = kernel.load({**settings, **{k: str(value) for k in growing}})
            observed.append(observe(workload, value, machine))
    rows = []
    for cost in costs:
        if setting not in cost["size"]:
            raise MemsimError(f"--hits extrapolates {setting}: give it a value with --set")
        loads = cost["requests"].get("global loads", 0.0)
        busy = {u: c * machine.n_cores for u, c in cost["busy_cycles_per_core"].items()}
        trend = extrapolate(observed, cost["size"][setting], loads, busy, machine)
        rows.append({**asdict(trend), "least_s": asdict(trend.least_s), "with": growing})
    return rows
