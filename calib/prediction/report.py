"""A prediction as tables for a terminal, and as a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from calib.prediction.prediction import Prediction, access_rows, block_rows, limiter
from memsim import report
from memsim.report import bound, keep_time, number_of, percent, read_time, summarise

MOST_BLOCKS = 16
MOST_NAMES = 3


def headline(prediction: Prediction, time: Mapping[str, Any]) -> str:
    """What binds the kernel and what that costs, as on the page of a replay.

    time : what `time_data` says of it
    """
    if prediction.replay is None:
        return bound(read_time(time))
    return report.headline(summarise(keep_time(prediction.replay.dataset, time)))


def try_first(prediction: Prediction, time: Mapping[str, Any]) -> str:
    """What to try first, as in the report of a replay; empty where no rule applies."""
    if prediction.replay is None:
        return ""
    return report.first_advice(summarise(keep_time(prediction.replay.dataset, time)))


def seconds(value: float) -> str:
    """A time in s, ms, us or ns, with four digits."""
    return report.seconds(value, 4)


def seconds_range(low_s: float, high_s: float) -> str:
    """An interval of times, with four digits."""
    return report.seconds_range(low_s, high_s, 4)


def residency_line(prediction: Prediction) -> str:
    """The residency: the paper's TLP, BLP, NB, RepNum and NBB."""
    resident = prediction.timing.residents
    return (
        f"{number_of(resident.subgroups_per_group, 'sub-group')} per group,"
        f" {number_of(resident.groups_per_core, 'resident group')} per core (limited by {report.limiter_name(limiter(prediction))}), {number_of(resident.n_groups, 'group')} on"
        f" {number_of(resident.n_cores, 'core')}: {_waves(resident.rounds)};"
        f" {float(prediction.program.n_blocks):.6g} basic blocks per sub-group"
    )


def _waves(rounds: float) -> str:
    return "1 wave" if rounds == 1 else f"{rounds:.3g} waves"


def floors_table(prediction: Prediction) -> tuple[list[str], list[list[str]]]:
    """Lower bounds of the time, the largest first."""
    total = prediction.timing.estimate.mean
    rows = [
        [
            f"at least, for {name}",
            seconds(value),
            percent(value / total, 0),
        ]
        for name, value in sorted(
            prediction.timing.floor_means_s.items(), key=lambda item: -item[1]
        )
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
                percent(row["not_hidden"], 0),
                _waits(row),
            ]
        )
    return head, rows


def accesses_table(prediction: Prediction) -> tuple[list[str], list[list[str]]]:
    """The loads, by their visible latency."""
    rows = [
        [
            row["site"],
            f"{row['runs']:.4g}",
            f"{row['latency_cycles']:.0f}",
            percent(1 - row["not_hidden"], 0),
            percent(row["not_hidden"], 0),
        ]
        for row in access_rows(prediction)
    ]
    return ["access", "executions", "latency", "hidden", "not hidden"], rows


def page(prediction: Prediction, time: Mapping[str, Any]) -> str:
    """The page of the replay with the predicted time; in mode `paper`, which has no replay, of the time.

    time : what `time_data` says of it
    """
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
        first=prediction.first_lines,
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
    body = report.paragraph(note, "small soft") + report.data_table(*content)
    return [report.Section("Loads, by their visible latency", body, "Visible latency")]


def what_if_table(time: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The time with each change, the shortest first."""
    shown = [
        (str(bar.name), *bar.shown.split(", ", 2)) for bar in report.what_if_bars(read_time(time))
    ]
    rows = [[*row, *[""] * (4 - len(row))] for row in shown]
    return ["change", "time", "difference", ""], rows


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
