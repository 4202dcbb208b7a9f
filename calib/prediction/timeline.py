"""A timeline of a few sub-groups on one core: when each issues, and what it waits for afterwards."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from calib.prediction.event_simulation import Events
from calib.prediction.prediction import Prediction
from calib.prediction.time_model import timeline

MOST_SUBGROUPS = 10
MOST_LOOP_TURNS = 3
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#eeca3b", "#9d755d")
WAIT, BARRIER = "#d9d9d9", "#f2c4c4"


def draw(prediction: Prediction, *, rounds: int = 2) -> Figure:
    """The timeline; rows are sub-groups spread over the resident groups, loops are cut short."""
    inputs, resident = prediction.timing.inputs, prediction.timing.residents
    happened, order = timeline(inputs, resident, rounds=rounds, turns=MOST_LOOP_TURNS)
    n = resident.subgroups
    shown = np.unique(np.linspace(0, n - 1, min(n, MOST_SUBGROUPS)).round().astype(int))
    figure = Figure(figsize=(11, 1.6 + 0.32 * len(shown)), layout="constrained")
    axes = figure.add_subplot()
    blocks = inputs.program.blocks
    end = happened.end_cycles
    used: set[int] = set()
    released = _released(happened, resident.subgroups_per_group)
    for row, subgroup in enumerate(shown):
        mine = happened.subgroup == subgroup
        places = happened.block[mine]
        starts, issued = happened.start_cycles[mine], happened.issued_cycles[mine]
        ready = happened.ready_cycles[mine]
        for place, start, done, there, free in zip(
            places, starts, issued, ready, released[subgroup], strict=True
        ):
            number = order[int(place)]
            used.add(number)
            axes.barh(row, there - done, left=done, height=0.34, color=WAIT)
            if blocks[number].barrier and free > there:
                axes.barh(row, free - there, left=there, height=0.34, color=BARRIER)
            axes.barh(
                row,
                max(done - start, 0.002 * end),
                left=start,
                height=0.72,
                color=COLOURS[number % len(COLOURS)],
            )
    axes.set_yticks(
        range(len(shown)),
        [
            f"group {s // resident.subgroups_per_group}, sub-group {s % resident.subgroups_per_group}"
            for s in shown
        ],
        fontsize=7,
    )
    axes.invert_yaxis()
    axes.set(xlabel="cycles of one core", xlim=(0, end))
    axes.set_title(
        f"{prediction.kernel} on {prediction.machine.name}: {len(shown)} of {n} resident"
        f" sub-groups, loops cut to {MOST_LOOP_TURNS} iterations",
        fontsize=9,
    )
    handles: list[Any] = [
        Patch(color=COLOURS[number % len(COLOURS)], label=_label(blocks[number], number))
        for number in sorted(used)
    ][:8]
    handles += [
        Patch(color=WAIT, label="waits for its data"),
        Patch(color=BARRIER, label="waits at a barrier (white: other sub-groups use the core)"),
    ]
    axes.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncol=2, fontsize=7
    )
    return figure


def _released(happened: Events, tlp: int) -> npt.NDArray[np.float64]:
    """(n_subgroup, n_step) when the data of a sub-group's whole group have arrived, at each step."""
    order = np.lexsort((happened.start_cycles, happened.subgroup))
    n = int(happened.subgroup.max()) + 1
    ready = happened.ready_cycles[order].reshape(n // tlp, tlp, -1)
    return np.repeat(ready.max(axis=1), tlp, axis=0)


def as_svg(prediction: Prediction) -> str:
    """The timeline as an SVG element for a page."""
    buffer = io.StringIO()
    draw(prediction).savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _label(block: Any, number: int) -> str:
    if number == 0:
        return "start of a group"
    waited = list(dict.fromkeys(block.waits_for))
    names = ", ".join(waited[:2]) + (f" and {len(waited) - 2} more" if len(waited) > 2 else "")
    if waited:
        return f"block {number}, then waits for {names}"[:90]
    stores = [name for name in block.accesses if name.startswith("store")]
    content = f"{len(stores)} stores" if stores else "arithmetic"
    return f"block {number}, {content}{', then a barrier or the end' if block.barrier else ''}"
