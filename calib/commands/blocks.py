"""`memsim blocks KERNEL`: how often each basic block of the machine code runs, also at sizes that are not executed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calib.block_counts.options import BlockOptions
from calib.commands import check_picture
from calib.commands.blocks_settings import (
    doubled,
    drawn_sizes,
    parsed_range,
    settings_of_sizes,
    together,
)
from memsim.commands import (
    MACHINE,
    check_outputs,
    console,
    json_option,
    output_path,
    working,
    wrote_json,
)
from memsim.errors import MemsimError
from memsim.options import command_options
from tracegen.commands import KernelSpec, kernel_options

if TYPE_CHECKING:
    from calib.block_counts.executions import Executions
    from calib.block_counts.report import BlockReport, Learn
    from memsim.machine import Machine

SHOWN_SIZES = 4


@click.command()
@kernel_options
@click.option(
    "--run",
    is_flag=True,
    help="Also run the first size, however long it takes, and compare its counts; --json then lists the counts of each"
    " launch.",
)
@click.option(
    "--train",
    "training",
    multiple=True,
    metavar="NAME=LOW:HIGH",
    help="Learn the counts that are no polynomials from runs with this setting in this range; repeat for"
    " several settings.",
)
@command_options(BlockOptions)
@click.option(
    "--machine",
    "-m",
    metavar="NAME",
    type=MACHINE,
    help="Count the code for this machine, and report memory requests and the busy cycles of each of its units.",
)
@click.option(
    "--hits",
    metavar="NAME=LOW:HIGH",
    help="With -m: trace and replay these sizes, and extrapolate hit ratios to the requested sizes.",
)
@click.option("--formulas", is_flag=True, help="Print the polynomials, of small sizes too.")
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
    """Count how often each basic block of a kernel's machine code runs.

    KERNEL is FILE.py:NAME, PACKAGE.MODULE:NAME, FILE.cl:NAME, FILE.cu:NAME, FILE.hip:NAME or FILE.floopy:SUBROUTINE as
    for 'memsim profile'. A setting LOW:HIGH stands for LOW, twice that, and so on up to HIGH. Small sizes are executed.
    At large ones, counts are polynomials through the counts of small sizes, checked on further ones. Counts that are none
    because they depend on data are learned from runs with --train; without it, sizes that are not too large are
    executed.

    \b
    Examples:
      memsim blocks experiments/kernels/polybench/products.py:gemm --set nk=64:4096
      memsim blocks experiments/kernels/rodinia/elimination.py:lud --set n=64:512 --run --plot lud.png
      memsim blocks experiments/kernels/polybench/vectors.py:atax --set nx=32768 --set ny=32768 -m v100 --hits nx=512:4096
      memsim blocks experiments/kernels/graphs.py:spmv --set n=8192 --train n=256:4096 -m v100
    """
    check_outputs({"--plot": plot_out, "--json": json_out})
    check_picture("--plot", plot_out)
    from calib.block_counts.costs import costs_of
    from calib.block_counts.executions import Executions
    from calib.block_counts.report import block_report, plot
    from memsim.machine import load_machine

    if hits is not None and machine is None:
        raise MemsimError("--hits needs a machine: give --machine")
    rows = settings_of_sizes(kernel.settings)
    ranges = dict(parsed_range("--train", text) for text in training)
    known = None if machine is None else load_machine(machine)
    executions = Executions(kernel.load, known, subgroup_size=options.subgroup_size)
    learn = _learn(executions, rows[0], ranges, options) if ranges else None
    with working("executing small sizes"):
        report = block_report(executions, rows, learn, formulas=formulas)
    record = report.record()
    if run:
        record |= _run_first(report, executions, rows[0])
    record["costs"] = [] if known is None else costs_of(report, known)
    extrapolated = []
    if hits is not None and known is not None:
        extrapolated = _extrapolated(hits, kernel, rows[0], record["costs"], known)
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


def _learn(
    executions: Executions,
    settings: Mapping[str, str],
    ranges: Mapping[str, tuple[int, int]],
    options: BlockOptions,
) -> Learn:
    """Learns counts from runs at sizes drawn from the ranges."""
    from calib.block_counts.report import learn_from_runs

    drawn = drawn_sizes(ranges, options.runs)
    rows = [{**settings, **{name: str(value) for name, value in row.items()}} for row in drawn]
    inputs = {name: [row[name] for row in drawn] for name in ranges}
    return lambda lacking: learn_from_runs(executions, rows, inputs, lacking)


def _run_first(
    report: BlockReport, executions: Executions, settings: Mapping[str, str]
) -> dict[str, Any]:
    """The counts of a run of the first size, compared with the report, and those of each launch."""
    with working("running"):
        counts = executions.counts(settings)
    launches = [
        {
            "launch": launch.index,
            "kernel": launch.kernel,
            "settings": dict(launch.settings),
            "by_work_items": launch.by_items.tolist(),
            "by_sub_groups": launch.by_subgroups.tolist(),
        }
        for launch in counts.launches
    ]
    return {"run": _compared(report, counts), "launches": launches}


def _compared(report: BlockReport, counts: Any) -> list[dict[str, Any]]:
    compared = []
    for row, items, groups in zip(report.rows, counts.by_items, counts.by_subgroups, strict=True):
        equal = None
        if row.method in ("exact", "executed"):
            equal = (row.by_items[0], row.by_subgroups[0]) == (int(items), int(groups))
        compared.append(
            {
                "block": row.block.name,
                "by_work_items": int(items),
                "by_sub_groups": int(groups),
                "equal": equal,
            }
        )
    return compared


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


def show_extrapolated(rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        ratios = ", ".join(
            f"{level} {100 * r['mean']:.1f} % ({100 * r['low']:.1f} to {100 * r['high']:.1f})"
            for level, r in row["hit_ratios"].items()
        )
        time = row["least_s"]
        click.echo(
            f"{' = '.join(row['with'])} = {row['size']:g}: hit ratios {ratios}; latency of a load"
            f" {row['latency_cycles']:.0f} cycles; DRAM reads {row['dram_bytes']['mean'] / 1e6:,.1f} MB;"
            f" at least {1e3 * time['mean']:.3g} ms ({1e3 * time['low']:.3g} to {1e3 * time['high']:.3g})"
        )
        if row["warning"]:
            click.echo(f"  warning: {row['warning']}")


def show_counts(report: BlockReport, formulas: bool, ran: bool) -> None:
    from memsim.report import PlainTable

    shown = chosen(len(report.sizes))
    changing = [n for n in report.sizes[0] if len({size.get(n) for size in report.sizes}) > 1]
    columns = ["block", "line", "begins with", "next", "instructions", "count"]
    for k in shown:
        columns.append(", ".join(f"{n}={report.sizes[k][n]}" for n in changing) or "sub-groups")
    rows = []
    for row in report.rows:
        lines = ", ".join(map(str, row.block.lines[:1])) + "..." * (len(row.block.lines) > 1)
        text = "  " * row.block.depth + row.block.text
        following = ", ".join("end" if f < 0 else f"B{f}" for f in row.block.followers)
        counts = [number(row, k) for k in shown]
        instructions = str(len(row.block.instructions))
        rows.append((row.block.name, lines, text, following, instructions, row.method, *counts))
    title = f"basic blocks of {report.kernel}: executions by sub-groups"
    console().print(PlainTable(title, columns, rows))
    reasons: dict[str, list[str]] = {}
    for row in report.rows:
        if row.reason:
            reasons.setdefault(f"{row.method}: {row.reason}", []).append(f"B{row.block.number}")
        if row.warning:
            reasons.setdefault(f"warning: {row.warning}", []).append(f"B{row.block.number}")
    for reason, numbers in reasons.items():
        click.echo(f"{', '.join(numbers)} {reason}")
    for note in report.notes:
        click.echo(f"note: {note}")
    if formulas:
        for row in report.rows:
            if row.formula:
                click.echo(f"{row.block.name} = {row.formula}")
    if any(row.method == "unknown" for row in report.rows):
        others = "" if ran else ", or count them with --run"
        click.echo(f"unknown counts: learn them with --train NAME=LOW:HIGH{others}")


def chosen(n: int) -> list[int]:
    """Indices of the sizes that are shown, evenly spread over n."""
    if n <= SHOWN_SIZES:
        return list(range(n))
    return sorted({round(k * (n - 1) / (SHOWN_SIZES - 1)) for k in range(SHOWN_SIZES)})


def number(row: Any, k: int) -> str:
    count = row.by_subgroups[k]
    if count is None:
        return "?"
    if row.method == "learned":
        return f"{count:,.0f} ({row.low[k]:,.0f} to {row.high[k]:,.0f})"
    return f"{count:,.0f}"


def show_costs(costs: Sequence[Mapping[str, Any]]) -> None:
    for cost in costs:
        size = ", ".join(f"{name}={value}" for name, value in cost["size"].items())
        at = f"{size}: " if size else ""
        requests = ", ".join(f"{n:,.0f} {what}" for what, n in cost["requests"].items())
        units = ", ".join(f"{u} {c:,.0f}" for u, c in cost["busy_cycles_per_core"].items())
        click.echo(f"{at}requests by sub-groups: {requests}; busy cycles per core: {units}")
        if cost["without"]:
            click.echo(f"  without {', '.join(cost['without'])}, whose counts are unknown")


def show_run(rows: Sequence[Mapping[str, Any]]) -> None:
    compared = [row for row in rows if row["equal"] is not None]
    wrong = [row["block"] for row in compared if not row["equal"]]
    found = f"{len(compared) - len(wrong)} of {len(compared)} counts are equal"
    if not compared:
        found = "counted; no count of the table is exact, to compare it with"
    click.echo(f"run of the first size: {found}" + f"; {', '.join(wrong)} differ" * bool(wrong))
    for row in rows:
        if row["equal"] is None:
            click.echo(
                f"  {row['block']}: {row['by_work_items']:,} work-items,"
                f" {row['by_sub_groups']:,} sub-groups"
            )
