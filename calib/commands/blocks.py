"""`memsim blocks KERNEL`: how often each basic block runs, at sizes that need not run.

Imports nothing heavy: the group's help loads it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memsim.errors import MemsimError
from memsim.options import output_path, setting_option
from memsim.output import STDOUT, check_outputs, console, working

if TYPE_CHECKING:
    from calib.block_counts.report import BlockReport
    from tracegen.block_counts import BlockCounter

SHOWN_SIZES = 4
MOST_SIZES = 64


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
@click.option("--run", is_flag=True, help="Run the first size too, and compare.")
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
    from tracegen.block_counts import BlockCounter
    from tracegen.load import load_kernel

    if hits is not None and machine is None:
        raise MemsimError("--hits needs a machine: give --machine")
    asked = _sizes(settings)
    ranges = dict(_range("--train", text) for text in training)
    small = _small(asked[0], ranges, hits)
    with working("reading the kernel"):
        base = load_kernel(spec, small)
        counter = BlockCounter(base)
        values = _values(counter, base, small, asked, spec)
    learned: Mapping[int, Any] = {}
    if ranges:
        drawn = _drawn(ranges, runs)
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
    costs = _costs(counter, report, machine) if machine is not None else []
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
        _show(report, formulas)
        _show_costs(costs)
        _show_followed(followed)
        if run:
            _show_run(record["run"])
    return 0


def _sizes(settings: Mapping[str, str]) -> list[dict[str, str]]:
    """A setting for each size: ranges are gone through together, from low to high."""
    ranges = {name: _doubled(name, text) for name, text in settings.items() if _is_range(text)}
    n = max((len(values) for values in ranges.values()), default=1)
    rows = []
    for k in range(n):
        row = dict(settings)
        for name, values in ranges.items():
            row[name] = str(values[min(k, len(values) - 1)])
        rows.append(row)
    return rows


def _is_range(text: str) -> bool:
    low, colon, high = text.partition(":")
    return bool(colon) and low.isdigit() and high.isdigit()


def _doubled(name: str, text: str) -> list[int]:
    _, (low, high) = _range("--set", f"{name}={text}")
    values = [low]
    while values[-1] * 2 < high:
        values.append(values[-1] * 2)
    if len(values) >= MOST_SIZES:
        raise MemsimError(f"--set {name}={text} is more than {MOST_SIZES} sizes")
    return [*values, high] if high > low else values


def _range(option: str, text: str) -> tuple[str, tuple[int, int]]:
    name, equals, value = text.partition("=")
    low, _, high = value.partition(":")
    if not (name and equals and low.isdigit() and high.isdigit() and 0 < int(low) <= int(high)):
        raise MemsimError(f"{option} must be NAME=LOW:HIGH with 0 < LOW <= HIGH, got {text!r}")
    return name, (int(low), int(high))


def _small(
    first: Mapping[str, str], ranges: Mapping[str, tuple[int, int]], hits: str | None
) -> dict[str, str]:
    """Settings to read the kernel with: where small sizes are run anyway, the smallest of them."""
    small = dict(first)
    for name, (low, _) in ranges.items():
        small[name] = str(low)
    if hits is not None:
        name, (low, _) = _range("--hits", hits)
        small |= dict.fromkeys(_together(first, name), str(low))
    return small


def _together(first: Mapping[str, str], name: str) -> list[str]:
    """The settings that grow with one: those of the same value."""
    return [k for k, v in first.items() if v == first.get(name)] or [name]


def _values(
    counter: BlockCounter,
    base: Any,
    small: Mapping[str, str],
    asked: Sequence[Mapping[str, str]],
    spec: str,
) -> list[dict[str, int]]:
    """The kernel's integer arguments at each size.

    Settings that are such arguments need nothing else, so no array of those sizes is made; for
    others the workload is made at each size.
    """
    from calib.shapes import sizes_of
    from tracegen.load import load_kernel

    if not counter.loopy:
        return [{k: int(v) for k, v in row.items() if v.isdigit()} for row in asked]
    known = sizes_of(base)
    found = []
    for row in asked:
        changed = [name for name in row if row[name] != small.get(name)]
        own = known
        if any(name not in known for name in changed):
            own = sizes_of(load_kernel(spec, dict(row)))
        found.append({**own, **{n: int(v) for n, v in row.items() if v.isdigit()}})
    return found


def _drawn(ranges: Mapping[str, tuple[int, int]], runs: int) -> list[dict[str, int]]:
    """Sizes evenly spread on a logarithmic scale, each setting in an order of its own."""
    import numpy as np

    rng = np.random.default_rng(0)
    columns = {}
    for name, (low, high) in ranges.items():
        spread = np.exp(np.linspace(math.log(low), math.log(high), runs))
        columns[name] = rng.permutation(np.round(spread).astype(int)).tolist()
    return [{name: values[k] for name, values in columns.items()} for k in range(runs)]


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


def _costs(counter: BlockCounter, report: BlockReport, name: str) -> list[dict[str, Any]]:
    from calib.block_counts.costs import block_work, busy_cycles, requests
    from memsim.machine import load_machine

    machine = load_machine(name)
    work = block_work(counter)
    found = []
    for k, size in enumerate(report.sizes):
        unknown = [row.block.name for row in report.rows if row.by_subgroups[k] is None]
        counts = [row.by_subgroups[k] or 0.0 for row in report.rows]
        totals: dict[str, float] = {}
        for (memory, direction, _), number in requests(work, counts).items():
            key = f"{memory} {direction}s"
            totals[key] = totals.get(key, 0.0) + number
        found.append(
            {
                "size": dict(size),
                "machine": machine.name,
                "requests": totals,
                "busy_cycles_per_core": {
                    unit: cycles / machine.n_cores
                    for unit, cycles in busy_cycles(work, counts, machine).items()
                },
                "without": unknown,
            }
        )
    return found


def _followed(
    hits: str,
    spec: str,
    asked: Mapping[str, str],
    costs: Sequence[Mapping[str, Any]],
    name: str,
) -> list[dict[str, Any]]:
    """Settings with the values of the one that varies, or of any other as large, go with it."""
    from dataclasses import asdict

    from calib.block_counts.beyond import beyond, observe
    from memsim.machine import load_machine
    from tracegen.load import load_kernel

    machine = load_machine(name)
    setting, (low, high) = _range("--hits", hits)
    together = _together(asked, setting)
    observed = []
    with working("tracing and replaying small sizes"):
        for value in _doubled(setting, f"{low}:{high}"):
            workload = load_kernel(spec, {**asked, **{k: str(value) for k in together}})
            observed.append(observe(workload, value, machine))
    found = []
    for cost in costs:
        if setting not in cost["size"]:
            raise MemsimError(f"--hits follows {setting}: give it a value with --set")
        loads = cost["requests"].get("global loads", 0.0)
        busy = {u: c * machine.n_cores for u, c in cost["busy_cycles_per_core"].items()}
        answer = beyond(observed, cost["size"][setting], loads, busy, machine)
        found.append({**asdict(answer), "least_s": asdict(answer.least_s), "with": together})
    return found


def _show_followed(found: Sequence[Mapping[str, Any]]) -> None:
    for each in found:
        ratios = ", ".join(
            f"{level} {100 * r['mean']:.1f} % ({100 * r['low']:.1f} to {100 * r['high']:.1f})"
            for level, r in each["hit_ratios"].items()
        )
        time = each["least_s"]
        click.echo(
            f"{' = '.join(each['with'])} = {each['size']:g}: hit ratios {ratios}; a load waits"
            f" {each['latency_cycles']:.0f} cycles; DRAM reads {each['dram_bytes']['mean'] / 1e6:,.1f} MB;"
            f" at least {1e3 * time['mean']:.3g} ms ({1e3 * time['low']:.3g} to {1e3 * time['high']:.3g})"
        )
        if each["warning"]:
            click.echo(f"  warning: {each['warning']}")


def _show(report: BlockReport, formulas: bool) -> None:
    from rich.markup import escape
    from rich.table import Table

    shown = _chosen(len(report.sizes))
    changing = [n for n in report.sizes[0] if len({size.get(n) for size in report.sizes}) > 1]
    table = Table(title=f"blocks of {report.kernel}: times that sub-groups run them")
    table.add_column("block")
    table.add_column("begins with")
    table.add_column("next")
    table.add_column("count")
    for k in shown:
        title = ", ".join(f"{name}={report.sizes[k][name]}" for name in changing)
        table.add_column(title or "sub-groups", justify="right")
    for row in report.rows:
        counts = [_number(row, k) for k in shown]
        text = "  " * len(row.block.controls) + row.block.text
        following = ", ".join("end" if f < 0 else f"B{f}" for f in row.block.followers)
        table.add_row(row.block.name, escape(text), following, row.way, *counts)
    console().print(table)
    reasons: dict[str, list[str]] = {}
    for row in report.rows:
        reasons.setdefault(f"{row.way}: {row.reason}", []).append(f"B{row.block.number}")
        if row.warning:
            reasons.setdefault(f"warning: {row.warning}", []).append(f"B{row.block.number}")
    for reason, numbers in reasons.items():
        click.echo(f"{', '.join(numbers)} {reason}")
    if formulas:
        for row in report.rows:
            if row.formula:
                click.echo(f"{row.block.name} = {row.formula}")
    if any(row.way == "unknown" for row in report.rows):
        click.echo(
            "unknown counts: learn them with --train NAME=LOW:HIGH, or count them with --run"
        )


def _chosen(n: int) -> list[int]:
    if n <= SHOWN_SIZES:
        return list(range(n))
    return sorted({round(k * (n - 1) / (SHOWN_SIZES - 1)) for k in range(SHOWN_SIZES)})


def _number(row: Any, k: int) -> str:
    count = row.by_subgroups[k]
    if count is None:
        return "?"
    if row.way == "learned":
        return f"{count:,.0f} ({row.low[k]:,.0f} to {row.high[k]:,.0f})"
    return f"{count:,.0f}"


def _show_costs(costs: Sequence[Mapping[str, Any]]) -> None:
    for cost in costs:
        size = ", ".join(f"{name}={value}" for name, value in cost["size"].items())
        asked = ", ".join(f"{n:,.0f} {what}" for what, n in cost["requests"].items())
        units = ", ".join(f"{u} {c:,.0f}" for u, c in cost["busy_cycles_per_core"].items())
        click.echo(f"{size}: requests of sub-groups {asked}; busy cycles a core, {units}")
        if cost["without"]:
            click.echo(f"  without {', '.join(cost['without'])}, whose counts are not known")


def _show_run(rows: Sequence[Mapping[str, Any]]) -> None:
    compared = [row for row in rows if row["equal"] is not None]
    wrong = [row["block"] for row in compared if not row["equal"]]
    click.echo(
        f"a run of the first size: {len(compared) - len(wrong)} of {len(compared)} exact counts equal"
        + (f"; {', '.join(wrong)} differ" if wrong else "")
    )
    for row in rows:
        if row["equal"] is None:
            click.echo(
                f"  {row['block']}: {row['by_work_items']:,} work-items,"
                f" {row['by_sub_groups']:,} sub-groups"
            )
