"""A timeline of a few sub-groups on one core: when each issues, and what it waits for afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from calib.prediction.event_simulation import Events
from calib.prediction.prediction import Prediction
from calib.prediction.time_model import timeline
from memsim.report import BARRIER, WAIT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_SUBGROUPS = 10
MOST_LOOP_TURNS = 3
MOST_STEPS = 8
"""Different steps of the program that have a colour of their own."""
OTHERS = "other blocks"
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#eeca3b", "#9d755d")
WAIT_COLOUR, BARRIER_COLOUR = "#d9d9d9", "#f2c4c4"


def timeline_data(prediction: Prediction) -> dict[str, Any]:
    """The timeline as plain data, in the form of memsim.report.launch_time.

    Rows are sub-groups spread over the resident groups; loops are cut short.
    """
    inputs, resident = prediction.timing.inputs, prediction.timing.residents
    happened = timeline(inputs, resident, turns=MOST_LOOP_TURNS)
    n, tlp = resident.subgroups, resident.subgroups_per_group
    shown = np.unique(np.linspace(0, n - 1, min(n, MOST_SUBGROUPS)).round().astype(int))
    blocks = inputs.program.blocks
    labels = [_label(block, number) for number, block in enumerate(blocks)]
    steps = list(dict.fromkeys(labels))
    steps[MOST_STEPS - 1 :] = [OTHERS] if len(steps) > MOST_STEPS else steps[MOST_STEPS - 1 :]
    step_of = [
        min(steps.index(label) if label in steps else MOST_STEPS, len(steps) - 1)
        for label in labels
    ]
    released = _released(happened, [block.barrier for block in blocks], tlp)
    rows = []
    for subgroup in shown:
        mine = happened.subgroup == subgroup
        times = (happened.start_cycles, happened.issued_cycles, happened.ready_cycles)
        starts, issued, ready = (values[mine] for values in times)
        spans: list[list[float]] = []
        for number, start, done, there, free in zip(
            happened.block[mine].tolist(), starts, issued, ready, released[mine], strict=True
        ):
            spans.append([WAIT, done, there])
            if blocks[number].barrier and free > there:
                spans.append([BARRIER, there, free])
            spans.append([step_of[number], start, max(done, start + 0.002 * happened.end_cycles)])
        name = f"group {subgroup // tlp}, sub-group {subgroup % tlp}"
        rows.append(
            {"name": name, "spans": [[int(s), round(a, 1), round(b, 1)] for s, a, b in spans]}
        )
    return {
        "end_cycles": float(happened.end_cycles),
        "steps": steps,
        "rows": rows,
    }


def draw(prediction: Prediction) -> Figure:
    """The timeline as a picture."""
    # Only here: every profile loads this module.
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    data = timeline_data(prediction)
    rows = data["rows"]
    figure = Figure(figsize=(11, 1.6 + 0.32 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    for at, row in enumerate(rows):
        for step, start, end in row["spans"]:
            colour = {WAIT: WAIT_COLOUR, BARRIER: BARRIER_COLOUR}.get(step, _colour(step))
            axes.barh(at, end - start, left=start, height=0.72 if step >= 0 else 0.34, color=colour)
    axes.set_yticks(range(len(rows)), [row["name"] for row in rows], fontsize=7)
    axes.invert_yaxis()
    axes.set(xlabel="cycles of one core", xlim=(0, data["end_cycles"]))
    n = prediction.timing.residents.subgroups
    axes.set_title(
        f"{prediction.kernel} on {prediction.machine.name}: {len(rows)} of {n} resident"
        f" sub-groups, loops cut to {MOST_LOOP_TURNS} iterations\n"
        "a bar lasts from a block's first instruction to its last; sub-groups take turns meanwhile",
        fontsize=9,
    )
    used = sorted({step for row in rows for step, _, _ in row["spans"] if step >= 0})
    handles = [Patch(color=_colour(step), label=data["steps"][step]) for step in used][:8]
    handles += [
        Patch(color=WAIT_COLOUR, label="waits for its data"),
        Patch(
            color=BARRIER_COLOUR,
            label="waits for the rest of its group (white: other sub-groups use the core)",
        ),
    ]
    axes.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncol=2, fontsize=7
    )
    return figure


def _colour(step: int) -> str:
    return COLOURS[step % len(COLOURS)]


def _released(happened: Events, barrier: Sequence[bool], tlp: int) -> npt.NDArray[np.float64]:
    """(n_event,) when the data of a sub-group's whole group have arrived at a barrier; elsewhere, its own."""
    table = pd.DataFrame(
        {"subgroup": happened.subgroup, "ready": happened.ready_cycles},
    )[np.array(barrier)[happened.block]]
    nth = table.groupby("subgroup").cumcount()
    released = happened.ready_cycles.copy()
    latest = table.groupby([table["subgroup"] // tlp, nth])["ready"].transform("max")
    released[table.index] = latest
    return released


def _label(block: Any, number: int) -> str:
    """What a block does; blocks that do the same have one colour."""
    if number == 0:
        return "start of a group"
    waited = list(dict.fromkeys(block.waits_for))
    names = ", ".join(waited[:2]) + (f" and {len(waited) - 2} more" if len(waited) > 2 else "")
    if waited:
        return f"issues, then waits for {names}"[:90]
    if any(name.startswith("store") for name in block.accesses):
        return "computes, then stores" if block.operations else "stores"
    return "arithmetic"
