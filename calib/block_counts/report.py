"""What `memsim blocks` finds: counts per block at one size or several, the graph, and its picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calib.block_counts.closed_form import BlockForm, block_forms
from calib.block_counts.learned import LearnedCount, learn
from calib.block_counts.sampling import SampleError, samples
from memsim.errors import KernelError
from tracegen.blocks import Block, BlockCounter
from tracegen.record import AnyWorkload

RUNS_TO_LEARN = 12
"""Fewest runs that a count is learned from."""


@dataclass(frozen=True)
class BlockRow:
    """One block's counts.

    way : `exact` or `learned`;  reason : why
    formula : of sub-groups, "" where there is none
    by_items, by_subgroups : a count for each size; None where it is not known there
    low, high : intervals of by_subgroups of learned counts
    """

    block: Block
    way: str
    reason: str
    formula: str
    by_items: tuple[float | None, ...]
    by_subgroups: tuple[float | None, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    warning: str = ""


@dataclass(frozen=True)
class BlockReport:
    """sizes : of each size asked for, the values of its inputs

    ran : whether counts of the first size come from a run too
    """

    kernel: str
    sizes: tuple[Mapping[str, int], ...]
    rows: tuple[BlockRow, ...]

    def record(self) -> dict[str, Any]:
        """As JSON holds it."""
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
                    "way": row.way,
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
    subgroup_size: int = 32,
    learned: Mapping[int, LearnedCount] | None = None,
    names: Sequence[str] = (),
) -> BlockReport:
    """Counts at sizes by closed form, and by what was learned for the blocks without one.

    sizes : values of the kernel's integer arguments
    learned : by the block's number;  names : the inputs that it was learned from
    """
    rows = []
    for form in block_forms(counter, subgroup_size):
        if form.is_exact:
            rows.append(_exact(form, sizes))
            continue
        found = (learned or {}).get(form.block.number)
        if found is None:
            nothing = tuple(None for _ in sizes)
            rows.append(BlockRow(form.block, "unknown", form.reason, "", nothing, nothing))
            continue
        answer = found.predict(np.array([[size[name] for name in names] for size in sizes], float))
        rows.append(
            BlockRow(
                form.block, "learned", f"{form.reason}; by {found.kind}", _text(found),
                tuple(None for _ in sizes), tuple(answer.mean.tolist()),
                tuple(answer.low.tolist()), tuple(answer.high.tolist()), answer.warning,
            )
        )  # fmt: skip
    kernel = counter.prepared.kernel.name
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
    subgroup_size: int = 32,
) -> dict[int, LearnedCount]:
    """Runs workloads of the counter's kernel and learns the counts that have no closed form.

    inputs : a value for each workload.  Raises SampleError where they are too few.
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


def _text(found: LearnedCount) -> str:
    text = getattr(found.model, "text", None)
    return str(text(found.names)) if text is not None else ""


def plot(report: BlockReport, path: Path) -> None:
    """The control-flow graphs with counts at the last size, and counts against the size that varies."""
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
        axes = panels[-1]
        x = [size[varying[0]] for size in report.sizes]
        drawn = set()
        for row in report.rows:
            counts = [np.nan if count is None else count for count in row.by_subgroups]
            key = tuple(counts)
            if key in drawn or not np.nanmax([0, *counts]):
                continue
            drawn.add(key)
            style = "-" if row.way == "exact" else "--"
            axes.plot(x, counts, style, marker=".", label=row.block.name)
        axes.set(xlabel=varying[0], ylabel="sub-groups", xscale="log", yscale="log")
        axes.set_title("counts (dashed: learned; equal ones once)", fontsize=9)
        axes.grid(alpha=0.2)
        axes.set_box_aspect(1.2)
        axes.set_anchor("N")
        axes.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=3)
    figure.savefig(path, dpi=110)


def _graph(axes: Any, rows: Sequence[BlockRow], name: str, most: float, tall: int) -> None:
    """Blocks from top to bottom in their order, loops indented, edges on their sides."""
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
        said = "?" if count is None else f"{count:,.0f}"
        axes.text(
            0.25 * depth, y, f"B{row.block.number} {row.block.kind}: {said}\n{words}", va="center",
            fontsize=7, parse_math=False,
            bbox={
                "boxstyle": "round", "facecolor": colour(0.75 * share),
                "linestyle": "-" if row.way == "exact" else "--",
            },
        )  # fmt: skip
        for follower in row.block.followers:
            to = place.get(follower, end)
            back = follower >= 0 and to[1] >= y
            down = 0.0 if back else 0.12
            bend = min(0.5 if back else 0.25, 1.3 / max(abs(to[1] - y), 1.0))
            # Back-edges run on the left as well, further out, so that no text's width matters.
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
