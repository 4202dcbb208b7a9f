"""The report of `memsim blocks`: counts of each block at one or more sizes, and a control-flow graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from calib.block_counts.exact import SMALLEST, ExactCount, fit_exactly
from calib.block_counts.executions import MOST_STEPS, Executions, both
from calib.block_counts.learned import LearnedCount, learn
from calib.block_counts.options import RUNS_TO_LEARN
from calib.block_counts.sampling import SampleError, samples
from calib.words import whole
from memsim.errors import KernelError
from memsim.files import write_picture
from tracegen.blocks import Block

Settings = Mapping[str, str]
_MOST_GROWTH = 256
"""A size without polynomials is executed if the product of its settings is at most this multiple of what is executed
anyway."""
_FIRST = 256
"""A size that most kernels can run."""
_EXECUTED, _EXACT, _LEARNED, _UNKNOWN = "executed", "exact", "learned", "unknown"


@dataclass(frozen=True)
class BlockRow:
    """The counts of one block.

    method : `executed`, `exact`, `learned` or `unknown`;  reason : why
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

    sizes : for each requested size, the settings that are whole numbers
    """

    kernel: str
    sizes: tuple[Mapping[str, int], ...]
    rows: tuple[BlockRow, ...]
    notes: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """The report for json.dumps."""
        return {
            "schema": 2,
            "kernel": self.kernel,
            "sizes": [dict(size) for size in self.sizes],
            "notes": list(self.notes),
            "blocks": [
                {
                    "block": row.block.name,
                    "lines": list(row.block.lines),
                    "text": row.block.text,
                    "followers": [None if number < 0 else number for number in row.block.followers],
                    "instructions": dict(row.block.work),
                    "accesses": [f"{a.space} {a.direction}" for a in row.block.accesses],
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


@dataclass(frozen=True)
class _Size:
    """The counts at one size, (2 n_block,) by sub-groups and then by work-items, None where unknown.

    forms : the polynomials that they come from;  why : there are none
    """

    counts: tuple[int | None, ...]
    forms: tuple[ExactCount | None, ...] = ()
    why: str = ""


Learn = Callable[[Sequence[Block]], Mapping[int, LearnedCount]]


def block_report(
    executions: Executions,
    rows: Sequence[Settings],
    learned: Learn | None = None,
    *,
    formulas: bool = False,
) -> BlockReport:
    """Counts at sizes: of small ones from executions, of others from polynomials, and where there are none from learned
    models or, of sizes that are not too large, from executions.

    rows : all settings at each size
    learned : makes the models of blocks, number -> learned count
    formulas : whether polynomials are sought for small sizes, too
    """
    sizes = [_whole(row) for row in rows]
    found = _Sizes(executions, rows, sizes, formulas)
    results = [found.size(k, execute=learned is None) for k in range(len(rows))]
    blocks = executions.blocks
    lacking = [one for one in blocks if any(size.counts[one.number] is None for size in results)]
    models = learned(lacking) if learned is not None and lacking else {}
    labels = {names[0]: " = ".join(names) for names in found.groups.values()}
    made = [
        _learned_row(block, models[block.number], sizes)
        if block.number in models
        else _row(block, results, labels, executions)
        for block in blocks
    ]
    kernels = dict.fromkeys(block.kernel for block in executions.blocks)
    notes = (executions.first.note,) if executions.first.note else ()
    return BlockReport(", ".join(kernels), tuple(sizes), tuple(made), notes)


def _row(
    block: Block,
    results: Sequence[_Size],
    labels: Mapping[str, str],
    executions: Executions,
) -> BlockRow:
    counts = tuple(one.counts[block.number] for one in results)
    items = tuple(one.counts[len(executions.blocks) + block.number] for one in results)
    forms = [one.forms[block.number] for one in results if one.forms]
    known = dict.fromkeys(
        f"{form} for {form.where(labels)}" if form.where(labels) else str(form)
        for form in forms
        if form
    )
    formula = "; ".join(known)
    if None in counts:
        why = next(one.why for one in results if one.counts[block.number] is None)
        return BlockRow(block, _UNKNOWN, why, formula, items, counts)
    if not known:
        return BlockRow(block, _EXECUTED, "", "", items, counts)
    reason = "polynomials through executions of small sizes"
    if executions.first.reads_memory:
        reason += ", with the arrays that the workload makes for them"
    return BlockRow(block, _EXACT, reason, formula, items, counts)


def _learned_row(block: Block, model: LearnedCount, sizes: Sequence[Mapping[str, int]]) -> BlockRow:
    at = np.array([[size[name] for name in model.names] for size in sizes], float)
    counts = model.predict(at)
    return BlockRow(
        block, _LEARNED, f"by {model.kind}", _text(model), tuple(None for _ in sizes),
        tuple(counts.mean.tolist()), tuple(counts.low.tolist()), tuple(counts.high.tolist()), counts.warning,
    )  # fmt: skip


class _Sizes:
    """Finds the counts at each of several sizes."""

    def __init__(
        self,
        executions: Executions,
        rows: Sequence[Settings],
        sizes: Sequence[Mapping[str, int]],
        formulas: bool,
    ) -> None:
        self.executions, self.rows, self.sizes, self.formulas = executions, rows, sizes, formulas
        # Settings that are the same at all sizes are one variable.
        self.groups: dict[tuple[int, ...], list[str]] = {}
        for name in sizes[0]:
            column = tuple(size[name] for size in sizes)
            self.groups.setdefault(column, []).append(name)
        self.forms: dict[tuple[Any, ...], tuple[list[ExactCount | None], str]] = {}

    def size(self, k: int, *, execute: bool) -> _Size:
        """The counts at one size. execute : whether those without polynomials may be executed"""
        values = [column[k] for column in self.groups]
        if not self.executions.is_started:
            self._begin(k)
        period = self.executions.period()
        large = [value > SMALLEST * period for value in values]
        if not any(large):
            counts = both(self.executions.counts(self.rows[k]))
            return self._shown(k, _Size(tuple(counts.tolist())))
        forms, why = self._forms(k, large)
        named = self._named(k)
        found = [None if form is None else form.at(named) for form in forms]
        growth = math.prod(v / (SMALLEST * period) for v in values if v > SMALLEST * period)
        if None in found and execute and growth <= _MOST_GROWTH:
            counts = both(self.executions.counts(self.rows[k]))
            return self._shown(k, _Size(tuple(counts.tolist()), tuple(forms)))
        return self._shown(k, _Size(tuple(found), tuple(forms), why))

    def _shown(self, k: int, size: _Size) -> _Size:
        """With polynomials of all sizes, where these are to be shown and hold at this one, too."""
        if not self.formulas or not self.groups:
            return size
        forms, _ = self._forms(k, [True] * len(self.groups))
        named = self._named(k)
        own = size.forms or (None,) * len(forms)
        shown = [
            form if form and form.at(named) == count else mine
            for form, mine, count in zip(forms, own, size.counts, strict=True)
        ]
        return _Size(size.counts, tuple(shown), size.why)

    def _named(self, k: int) -> dict[str, int]:
        return {names[0]: column[k] for column, names in self.groups.items()}

    def _begin(self, k: int) -> None:
        """Executes a size that tells the shape of groups, and which is small."""
        changed = {
            name: str(value if value <= _FIRST else _FIRST + value % _FIRST)
            for name, value in self.sizes[k].items()
        }
        self.executions.counts({**self.rows[k], **changed})

    def _forms(self, k: int, variable: Sequence[bool]) -> tuple[list[ExactCount | None], str]:
        """The polynomials for a size, and why some counts have none."""
        columns = list(self.groups)
        chosen = [
            column for column, is_variable in zip(columns, variable, strict=True) if is_variable
        ]
        names = [self.groups[column][0] for column in chosen]
        at = tuple(column[k] for column in chosen)
        period = self.executions.period()
        fixed = tuple(column[k] for column in columns if column not in chosen)
        key = (tuple(names), tuple(value % period for value in at), fixed)
        if key not in self.forms:
            self.forms[key] = self._fitted(self.rows[k], chosen, names, at, period)
        return self.forms[key]

    def _fitted(
        self,
        settings: Settings,
        chosen: Sequence[tuple[int, ...]],
        names: Sequence[str],
        at: tuple[int, ...],
        period: int,
    ) -> tuple[list[ExactCount | None], str]:
        def run(point: tuple[int, ...]) -> npt.NDArray[np.int64]:
            changed = {
                name: str(value)
                for column, value in zip(chosen, point, strict=True)
                for name in self.groups[column]
            }
            return both(self.executions.counts({**settings, **changed}, most_steps=MOST_STEPS))

        none: list[ExactCount | None] = [None] * (2 * len(self.executions.blocks))
        try:
            forms = _in_pairs(fit_exactly(run, names, at, period))
        except KernelError as error:
            return none, f"small sizes cannot be executed: {error}"
        why = "it is no polynomial of the sizes"
        if self.executions.first.reads_memory:
            why += ", for it depends on loaded values"
        return forms, why


def _in_pairs(forms: list[ExactCount | None]) -> list[ExactCount | None]:
    """Those whose counts by sub-groups and by work-items both have a polynomial: where lanes differ at random, nearly all
    sub-groups may run a block in small executions, and not quite all in a large one."""
    n = len(forms) // 2
    return [form if forms[k - n] and form else None for k, form in enumerate(forms)]


def _whole(row: Settings) -> dict[str, int]:
    numbers = {name: whole(text) for name, text in row.items()}
    return {name: value for name, value in numbers.items() if value is not None}


def learn_from_runs(
    executions: Executions,
    rows: Sequence[Settings],
    inputs: Mapping[str, Sequence[float]],
    blocks: Sequence[Block],
) -> dict[int, LearnedCount]:
    """Executes sizes and learns the counts of blocks.

    rows : all settings at each size;  inputs : name -> its value in each

    Returns block number -> learned count. Raises SampleError for fewer than RUNS_TO_LEARN sizes.
    """
    if len(rows) < RUNS_TO_LEARN:
        raise SampleError(f"at least {RUNS_TO_LEARN} runs are needed, got {len(rows)}")
    table = np.array([executions.counts(row).by_subgroups for row in rows])
    given = samples(inputs, {block.name: table[:, block.number].tolist() for block in blocks})
    return {block.number: learn(given, k, "beyond") for k, block in enumerate(blocks)}


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
    launches = list(dict.fromkeys(row.block.kernel for row in report.rows))
    tall = max(sum(r.block.kernel == name for r in report.rows) for name in launches)
    columns = len(launches) + (1 if varying else 0)
    figure = Figure(figsize=(4.2 * columns, max(4.0, 0.75 * tall + 1)), layout="constrained")
    panels = figure.subplots(1, columns, squeeze=False)[0]
    most = max((row.by_subgroups[-1] or 0 for row in report.rows), default=0)
    for axes, name in zip(panels, launches, strict=False):
        _graph(axes, [row for row in report.rows if row.block.kernel == name], name, most, tall)
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
        style = "--" if row.method == _LEARNED else "-"
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
    place = {row.block.number: (row.block.depth, -k) for k, row in enumerate(rows)}
    deepest = max(depth for depth, _ in place.values())
    end = (0.0, -float(len(rows)))
    for row in rows:
        depth, y = place[row.block.number]
        count = row.by_subgroups[-1]
        share = np.log1p(count or 0) / np.log1p(most) if most else 0.0
        words = row.block.text if len(row.block.text) < 34 else row.block.text[:31] + "..."
        number = "?" if count is None else f"{count:,.0f}"
        axes.text(
            0.25 * depth, y, f"B{row.block.number}: {number}\n{words}", va="center",
            fontsize=7, parse_math=False,
            bbox={
                "boxstyle": "round", "facecolor": colour(0.75 * share),
                "linestyle": "--" if row.method == _LEARNED else "-",
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
