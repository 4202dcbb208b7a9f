"""`memsim blocks KERNEL`: how often each basic block runs, at sizes that need not run.

Imports nothing heavy: the group's help loads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calib.commands.blocks_costs import costs_of, sizes_asked
from calib.commands.blocks_output import show_costs, show_counts, show_followed, show_run
from calib.commands.blocks_settings import (
    asked_sizes,
    doubled,
    drawn_sizes,
    parsed_range,
    small_settings,
    together,
)
from memsim.commands import STDOUT, check_outputs, output_path, setting_option, working
from memsim.errors import MemsimError

if TYPE_CHECKING:
    from calib.block_counts.report import BlockReport


@click.command()
@click.argument("spec", metavar="KERNEL")
@setting_option
@click.option(
    "--subgroup-size",
    type=click.IntRange(1, 1024),
    default=32,
    show_default=True,
    metavar="N",
    help="Lanes of a sub-group.",
)
@click.option(
    "--run",
    is_flag=True,
    help="Run the first size too, and compare; --json then has each launch's counts.",
)
@click.option(
    "--train",
    "training",
    multiple=True,
    metavar="NAME=LOW:HIGH",
    help="Learn what has no closed form from runs with this setting in this range; repeat for more.",
)
@click.option(
    "--runs", type=click.IntRange(min=12), default=40, show_default=True, help="Runs to learn from."
)
@click.option(
    "--machine", "-m", metavar="MACHINE", help="Also requests, and busy cycles of each unit."
)
@click.option(
    "--hits",
    metavar="NAME=LOW:HIGH",
    help="With -m: trace and replay small sizes, and follow hit ratios to the sizes asked for.",
)
@click.option("--formulas", is_flag=True, help="Print the closed forms.")
@output_path(
    "--plot", "plot_out", help="Draw the control-flow graph with counts (PNG, SVG or PDF)."
)
@output_path("--json", "json_out", help="Write the counts as JSON; - for the console.")
def blocks(
    spec: str,
    settings: dict[str, str],
    subgroup_size: int,
    run: bool,
    training: tuple[str, ...],
    runs: int,
    machine: str | None,
    hits: str | None,
    formulas: bool,
    plot_out: Path | None,
    json_out: Path | None,
) -> int:
    """Count how often each basic block of a kernel runs: exactly where it can be, else learned.

    KERNEL is FILE.py:NAME or PACKAGE.MODULE:NAME as for 'memsim profile'. A setting LOW:HIGH stands for
    LOW, twice that, and so on up to HIGH. Blocks whose loops and branches are affine in the kernel's
    sizes have closed forms; the others are learned from runs with --train, or counted with --run.

    \b
    Examples:
      memsim blocks experiments/kernels/polybench/products.py:gemm --set nk=64:4096
      memsim blocks experiments/kernels/rodinia/elimination.py:lud --set n=64:4096 --run --plot lud.png
      memsim blocks experiments/kernels/polybench/vectors.py:atax --set nx=32768 --set ny=32768 -m v100 --hits nx=512:4096
      memsim blocks experiments/kernels/graphs.py:spmv --set n=8192 --train n=256:4096 -m v100
    """
    check_outputs({"--plot": plot_out, "--json": json_out})
    from calib.block_counts.report import exact_report, learn_from_runs, plot
    from tracegen.blocks import BlockCounter
    from tracegen.workloads import load_kernel

    if hits is not None and machine is None:
        raise MemsimError("--hits needs a machine: give --machine")
    asked = asked_sizes(settings)
    ranges = dict(parsed_range("--train", text) for text in training)
    small = small_settings(asked[0], ranges, hits)
    with working("reading the kernel"):
        base = load_kernel(spec, small)
        counter = BlockCounter(base)
        values = sizes_asked(counter, base, small, asked, spec)
    learned: Mapping[int, Any] = {}
    if ranges:
        drawn = drawn_sizes(ranges, runs)
        with working(f"running {runs} sizes to learn from"):
            fixed = {k: v for k, v in asked[0].items() if k not in ranges}
            workloads = [
                load_kernel(spec, fixed | {k: str(v) for k, v in row.items()}) for row in drawn
            ]
            inputs = {name: [row[name] for row in drawn] for name in ranges}
            learned = learn_from_runs(counter, workloads, inputs, subgroup_size)
    report = exact_report(counter, values, subgroup_size, learned, list(ranges))
    record = report.record()
    if run:
        with working("running"):
            first = base if small == asked[0] else load_kernel(spec, asked[0])
            counts, outputs = counter.count(first, subgroup_size)
            if first.check is not None:
                first.check(outputs)
        record["run"] = _compared(report, counts)
        record["launches"] = [
            {
                "launch": launch.index,
                "kernel": launch.kernel,
                "settings": dict(launch.settings),
                "by_work_items": launch.by_items.tolist(),
                "by_sub_groups": []
                if launch.by_subgroups is None
                else launch.by_subgroups.tolist(),
            }
            for launch in counts.launches
        ]
    costs = costs_of(counter, report, machine) if machine is not None else []
    record["costs"] = costs
    followed: list[dict[str, Any]] = []
    if hits is not None and machine is not None:
        followed = _followed(hits, spec, asked[0], costs, machine)
        record["beyond"] = followed
    if json_out is not None:
        text = json.dumps(record, indent=1)
        if json_out == STDOUT:
            click.echo(text)
        else:
            json_out.write_text(text + "\n", encoding="utf-8")
            click.echo(f"wrote {json_out}", err=True)
    if plot_out is not None:
        plot(report, plot_out)
        click.echo(f"wrote {plot_out}", err=True)
    if json_out != STDOUT:
        show_counts(report, formulas)
        show_costs(costs)
        show_followed(followed)
        if run:
            show_run(record["run"])
    return 0


def _compared(report: BlockReport, counts: Any) -> list[dict[str, Any]]:
    rows = []
    for row, items, groups in zip(report.rows, counts.by_items, counts.by_subgroups, strict=True):
        ours = (row.by_items[0], row.by_subgroups[0])
        same = None if row.way != "exact" else ours == (int(items), int(groups))
        rows.append(
            {
                "block": row.block.name,
                "by_work_items": int(items),
                "by_sub_groups": int(groups),
                "equal": same,
            }
        )
    return rows


def _followed(
    hits: str,
    spec: str,
    asked: Mapping[str, str],
    costs: Sequence[Mapping[str, Any]],
    name: str,
) -> list[dict[str, Any]]:
    """Settings with the values of the one that varies, or of any other as large, go with it."""
    from dataclasses import asdict

    from calib.block_counts.hit_ratio_trend import beyond, observe
    from memsim.machine import load_machine
    from tracegen.workloads import load_kernel

    machine = load_machine(name)
    setting, (low, high) = parsed_range("--hits", hits)
    growing = together(asked, setting)
    observed = []
    with working("tracing and replaying small sizes"):
        for value in doubled(setting, f"{low}:{high}"):
            workload = load_kernel(spec, {**asked, **{k: str(value) for k in growing}})
            observed.append(observe(workload, value, machine))
    found = []
    for cost in costs:
        if setting not in cost["size"]:
            raise MemsimError(f"--hits follows {setting}: give it a value with --set")
        loads = cost["requests"].get("global loads", 0.0)
        busy = {u: c * machine.n_cores for u, c in cost["busy_cycles_per_core"].items()}
        answer = beyond(observed, cost["size"][setting], loads, busy, machine)
        found.append({**asdict(answer), "least_s": asdict(answer.least_s), "with": growing})
    return found
