"""The report of `memsim blocks`: counts of each block at one or more sizes, and a control-flow graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calib.block_counts.closed_form import BlockForm, block_forms
from calib.block_counts.learned import LearnedCount, learn
from calib.block_counts.options import RUNS_TO_LEARN
from calib.block_counts.sampling import SampleError, samples
from calib.counting.options import SUBGROUP_SIZE
from memsim.errors import KernelError
from memsim.files import write_picture
from tracegen.blocks import Block, BlockCounter
from tracegen.record import AnyWorkload


@dataclass(frozen=True)
class BlockRow:
    """The counts of one block.

    method : `exact`, `learned` or `unknown`;  reason : why
    formula : of the executions by sub-groups; "" where there is none
    by_items, by_subgroups : executions by work-items and by sub-groups at each size; None where unknown
    low, high : 95 % intervals of by_subgroups, for learned counts
    """

    block: Block
    method: str
    reason: str
    formula: str
    by_items: tuple[float | None, ...]
    by_subgroups: tuple[float | None, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    warning: str = ""


@dataclass(frozen=True)
class BlockReport:
    """The counts of all blocks.

    sizes : for each requested size, the values of the kernel's integer arguments
    """

    kernel: str
    sizes: tuple[Mapping[str, int], ...]
    rows: tuple[BlockRow, ...]

    def record(self) -> dict[str, Any]:
        """The report for json.dumps."""
        return {
            "schema": 1,
            "kernel": self.kernel,
            "sizes": [dict(size) for size in self.sizes],
            "blocks": [
                {
                    "block": row.block.name,
                    "kind": row.block.kind,
                    "line": row.block.line,
                    "text": row.block.text,
                    "followers": [None if number < 0 else number for number in row.block.followers],
                    "way": row.method,
                    "reason": row.reason,
                    "formula": row.formula,
                    "by_work_items": list(row.by_items),
                    "by_sub_groups": list(row.by_subgroups),
                    "interval": [list(pair) for pair in zip(row.low, row.high, strict=True)],
                    "warning": row.warning,
                }
                for row in self.rows
            ],
        }


def exact_report(
    counter: BlockCounter,
    sizes: Sequence[Mapping[str, int]],
    subgroup_size: int = SUBGROUP_SIZE,
    learned: Mapping[int, LearnedCount] | None = None,
    names: Sequence[str] = (),
) -> BlockReport:
    """Counts at sizes by closed form, and by learned models for the blocks without one.

    sizes : values of the kernel's integer arguments
    learned : block number -> its learned count;  names : the inputs of the learned counts
    """
    rows = []
    for form in block_forms(counter, subgroup_size):
        if form.is_exact:
            rows.append(_exact(form, sizes))
            continue
        model = (learned or {}).get(form.block.number)
        if model is None:
            unknown = tuple(None for _ in sizes)
            rows.append(BlockRow(form.block, "unknown", form.reason, "", unknown, unknown))
            continue
        counts = model.predict(np.array([[size[name] for name in names] for size in sizes], float))
        rows.append(
            BlockRow(
                form.block, "learned", f"{form.reason}; by {model.kind}", _text(model),
                tuple(None for _ in sizes), tuple(counts.mean.tolist()),
                tuple(counts.low.tolist()), tuple(counts.high.tolist()), counts.warning,
            )
        )  # fmt: skip
    kernel = counter.prepared.name
    return BlockReport(str(kernel), tuple(sizes), tuple(rows))


def _exact(form: BlockForm, sizes: Sequence[Mapping[str, int]]) -> BlockRow:
    assert form.by_items is not None
    assert form.by_subgroups is not None
    for name in form.by_items.parameters:
        if any(name not in size for size in sizes):
            raise KernelError(f"{form.block.name} depends on {name}: give it a value with --set")
    return BlockRow(
        form.block,
        "exact",
        form.reason,
        str(form.by_subgroups),
        tuple(form.by_items.at(size) for size in sizes),
        tuple(form.by_subgroups.at(size) for size in sizes),
    )


def learn_from_runs(
    counter: BlockCounter,
    workloads: Sequence[AnyWorkload],
    inputs: Mapping[str, Sequence[float]],
    subgroup_size: int = SUBGROUP_SIZE,
) -> dict[int, LearnedCount]:
    """Runs workloads of the counter's kernel and learns the counts that have no closed form.

    inputs : name -> its value in each workload

    Returns block number -> learned count. Raises SampleError for fewer than RUNS_TO_LEARN workloads.
    """
    if len(workloads) < RUNS_TO_LEARN:
        raise SampleError(f"at least {RUNS_TO_LEARN} runs are needed, got {len(workloads)}")
    forms = [form for form in block_forms(counter, subgroup_size) if not form.is_exact]
    if not forms:
        return {}
    table = np.array(
        [counter.count(each, subgroup_size)[0].by_subgroups for each in workloads], np.float64
    )
    given = samples(
        inputs, {form.block.name: table[:, form.block.number].tolist() for form in forms}
    )
    return {form.block.number: learn(given, k, "beyond") for k, form in enumerate(forms)}


def _text(learned: LearnedCount) -> str:
    text = getattr(learned.model, "text", None)
    return str(text(learned.names)) if text is not None else ""


def plot(report: BlockReport, path: Path) -> None:
    """Draws the control-flow graphs with counts at the last size, and counts against the varying size."""
    from matplotlib.figure import Figure

    varying = [
        name
        for name in report.sizes[0]
        if len({size.get(name) for size in report.sizes}) > 1
    ]  # fmt: skip
    launches = list(dict.fromkeys(row.block.launch for row in report.rows))
    tall = max(sum(r.block.launch == name for r in report.rows) for name in launches)
    columns = len(launches) + (1 if varying else 0)
    figure = Figure(figsize=(4.2 * columns, max(4.0, 0.75 * tall + 1)), layout="constrained")
    panels = figure.subplots(1, columns, squeeze=False)[0]
    most = max((row.by_subgroups[-1] or 0 for row in report.rows), default=0)
    for axes, name in zip(panels, launches, strict=False):
        _graph(axes, [row for row in report.rows if row.block.launch == name], name, most, tall)
    if varying:
        _plot_counts(panels[-1], report, varying[0])
    write_picture(path, figure, 110)


def _plot_counts(axes: Any, report: BlockReport, size_name: str) -> None:
    """Counts against the varying size; blocks with equal counts are drawn once."""
    x = [size[size_name] for size in report.sizes]
    drawn = set()
    for row in report.rows:
        counts = [np.nan if count is None else count for count in row.by_subgroups]
        key = tuple(counts)
        if key in drawn or not np.nanmax([0, *counts]):
            continue
        drawn.add(key)
        style = "-" if row.method == "exact" else "--"
        axes.plot(x, counts, style, marker=".", label=row.block.name)
    axes.set(xlabel=size_name, ylabel="executions by sub-groups", xscale="log", yscale="log")
    axes.set_title("counts (dashed: learned; equal counts are drawn once)", fontsize=9)
    axes.grid(alpha=0.2)
    axes.set_box_aspect(1.2)
    axes.set_anchor("N")
    axes.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=3)


def _graph(axes: Any, rows: Sequence[BlockRow], name: str, most: float, tall: int) -> None:
    """Draws blocks from top to bottom in their order, loops indented, edges on their sides."""
    from matplotlib import colormaps

    colour = colormaps["YlOrRd"]
    place = {row.block.number: (len(row.block.controls), -k) for k, row in enumerate(rows)}
    deepest = max(depth for depth, _ in place.values())
    end = (0.0, -float(len(rows)))
    for row in rows:
        depth, y = place[row.block.number]
        count = row.by_subgroups[-1]
        share = np.log1p(count or 0) / np.log1p(most) if most else 0.0
        words = row.block.text if len(row.block.text) < 34 else row.block.text[:31] + "..."
        number = "?" if count is None else f"{count:,.0f}"
        axes.text(
            0.25 * depth, y, f"B{row.block.number} {row.block.kind}: {number}\n{words}", va="center",
            fontsize=7, parse_math=False,
            bbox={
                "boxstyle": "round", "facecolor": colour(0.75 * share),
                "linestyle": "-" if row.method == "exact" else "--",
            },
        )  # fmt: skip
        for follower in row.block.followers:
            to = place.get(follower, end)
            back = follower >= 0 and to[1] >= y
            down = 0.0 if back else 0.12
            bend = min(0.5 if back else 0.25, 1.3 / max(abs(to[1] - y), 1.0))
            # Back-edges also run on the left, further out, so that the width of texts does not matter.
            axes.annotate(
                "", (0.25 * to[0] - 0.03, to[1] + down), (0.25 * depth - 0.03, y - down),
                arrowprops={
                    "arrowstyle": "->", "color": "#d55e00" if back else "#0072b2", "linewidth": 0.9,
                    "connectionstyle": f"arc3,rad={-bend if back else bend}",
                },
            )  # fmt: skip
    axes.text(*end, "end", va="center", fontsize=7)
    axes.set_xlim(-0.8, 2.4 + 0.25 * deepest)
    axes.set_ylim(-tall - 0.6, 0.8)
    axes.set_title(name, fontsize=10)
    axes.axis("off")
