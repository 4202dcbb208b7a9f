"""A prediction as tables for a terminal, and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from calib.prediction.launch_time import local_share, time_data
from calib.prediction.prediction import Prediction, access_rows, as_json, block_rows
from memsim import report
from memsim.report import bound, keep_time, read_time, summarise

MOST_BLOCKS = 16
MOST_NAMES = 3


def headline(prediction: Prediction) -> str:
    """What binds the kernel and what that costs, as on the page of a replay."""
    time = {**as_json(prediction), "local_share": local_share(prediction)}
    if prediction.replay is None:
        return bound(read_time(time))
    dataset = keep_time(prediction.replay.dataset, time)
    return report.headline(summarise(dataset))


def time_line(prediction: Prediction) -> str:
    """Kernel, machine, and the time with its interval over schedules."""
    estimate, timing = prediction.timing.estimate, prediction.timing
    interval = ""
    if estimate.has_interval:
        interval = (
            f" (95 % interval over schedules {seconds_range(*estimate.ci95)}, without"
            " the model's error)"
        )
    return (
        f"{prediction.kernel} on {prediction.machine.name}: {seconds(estimate.mean)}{interval};"
        f" limited by {timing.binds}"
    )


def seconds(value: float) -> str:
    """A time in s, ms, us or ns, with four digits."""
    return report.seconds(value, 4)


def seconds_range(low_s: float, high_s: float) -> str:
    """An interval of times, with four digits."""
    return report.seconds_range(low_s, high_s, 4)


def residency_line(prediction: Prediction) -> str:
    """The residency: TLP, BLP, NB, RepNum and NBB."""
    resident, occupancy = prediction.timing.residents, prediction.occupancy
    return (
        f"{resident.subgroups_per_group} sub-groups per group (TLP), {resident.groups_per_core} resident"
        f" groups per core (BLP, limited by {occupancy.limited_by}), {resident.n_groups} groups on"
        f" {resident.n_cores} cores: {resident.rounds:.4g} rounds;"
        f" {float(prediction.program.n_blocks):.6g} basic blocks per sub-group (NBB)"
    )


def floors_table(prediction: Prediction) -> tuple[list[str], list[list[str]]]:
    """Lower bounds of the time, and how much faster the kernel would be without latency, barriers, ..."""
    total = prediction.timing.estimate.mean
    rows = [
        [
            f"at least, for {name}",
            seconds(float(value.mean())),
            _percent(float(value.mean()) / total),
        ]
        for name, value in prediction.timing.floors_s.items()
    ]
    rows += [
        [f"saved without {name}", seconds(value), _percent(value / total)]
        for name, value in prediction.timing.parts_s.items()
    ]
    return ["part", "time", "share of the time"], rows


def blocks_table(prediction: Prediction) -> tuple[list[str], list[list[str]]]:
    """The blocks with the most issue cycles; numbers are cycles of one sub-group."""
    channels = list(prediction.timing.inputs.channels)
    head = ["block", "executions", "issue", "latency", *channels, "not hidden", "waits for"]
    listed = sorted(block_rows(prediction), key=lambda row: -row["runs"] * row["issue_cycles"])
    rows = []
    for row in sorted(listed[:MOST_BLOCKS], key=lambda row: int(row["block"])):
        rows.append(
            [
                str(row["block"]),
                f"{row['runs']:.4g}",
                f"{row['issue_cycles']:.1f}",
                f"{row['latency_cycles']:.0f}",
                *(f"{row['way_cycles'][channel]:.1f}" for channel in channels),
                _percent(row["not_hidden"]),
                _waits(row),
            ]
        )
    return head, rows


def accesses_table(prediction: Prediction) -> tuple[list[str], list[list[str]]]:
    """The loads, by their visible latency."""
    rows = [
        [
            f"{row['runs']:.4g}",
            f"{row['latency_cycles']:.0f}",
            _percent(1 - row["not_hidden"]),
            _percent(row["not_hidden"]),
            row["site"],
        ]
        for row in access_rows(prediction)
    ]
    return ["executions", "latency", "hidden", "not hidden", "access"], rows


def page(prediction: Prediction, changed: Sequence[tuple[str, Prediction]] = ()) -> str:
    """The page of the replay with the predicted time; in mode `paper`, which has no replay, of the time."""
    time = time_data(prediction, changed)
    blocks = report.Section(
        "Basic blocks, in cycles of one sub-group",
        report.paragraph(_BLOCKS, "small soft")
        + report.fold(f"{_n_blocks(prediction)} blocks", _table(blocks_table(prediction))),
        "Blocks",
    )
    if prediction.replay is not None:
        return report.replay_page(
            keep_time(prediction.replay.dataset, time), [*_loads(prediction), blocks]
        )
    read = read_time(time)
    return report.page(
        f"{prediction.kernel} on {prediction.machine.title}",
        bound(read),
        [*report.time_sections(read), blocks],
        subtitle=residency_line(prediction),
    )


_BLOCKS = (
    "A sub-group issues a basic block without waiting, and then waits for its loads. The columns between"
    " latency and not hidden are the cycles that the block occupies a core's share of each level's"
    " bandwidth."
)


def _n_blocks(prediction: Prediction) -> int:
    return len(prediction.timing.inputs.program.blocks)


def _loads(prediction: Prediction) -> list[report.Section]:
    content = accesses_table(prediction)
    if not content[1]:
        return []
    note = (
        "Latencies are in cycles of a core. The part that is hidden is covered by instructions of other"
        " sub-groups."
    )
    body = report.paragraph(note, "small soft") + _table(content)
    return [report.Section("Loads, by their visible latency", body, "Visible latency")]


def comparison(prediction: Prediction, other: Prediction) -> str:
    """The time with changes, compared with the time without them."""
    before, after = prediction.timing.estimate.mean, other.timing.estimate.mean
    return (
        f"{seconds(after)} instead of {seconds(before)} ({after / before - 1:+.1%});"
        f" limited by {other.timing.binds}"
    )


def _table(content: tuple[list[str], list[list[str]]]) -> Markup:
    head, rows = content
    return report.data_table(head, rows, left=(len(head) - 1,))


def _waits(row: dict[str, Any]) -> str:
    if row["starts_group"]:
        return "(start of a group)"
    names = row["waits_for"]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    text = ", ".join(names[:MOST_NAMES]) + more
    if text or not row["barrier"]:
        return text
    if row["ends_group"]:
        return "(end of the group)" if row["runs"] <= 1 else "(barrier, or end of the group)"
    return "(barrier)"


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"
