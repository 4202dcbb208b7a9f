"""Outcomes in words, as a table, and as JSON and CSV, of a tuning run and of a sweep."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from calib.prediction.report import seconds, seconds_range
from calib.tuning.outcome import Outcome
from calib.tuning.search import Found, Interval
from calib.tuning.space import name_of
from calib.tuning.tune import Tuned
from memsim.report import UNKNOWN, byte_size, percent, text_cell

SHOWN, MOST_REASONS = 20, 5
LIMITED_BY = "limited by"
"""The name of the column that holds words."""
Table = tuple[list[str], list[list[str]]]


def headline(tuned: Tuned, machine: str) -> str:
    """The fastest configuration on a machine, and what it is compared with."""
    found = tuned.found[machine]
    ranked = found.ranked
    if not ranked:
        return f"{machine}: none of {len(found.outcomes)} configurations can be predicted"
    best = ranked[0]
    parts = [f"{machine}: {name_of(best.configuration)} takes {time_text(found, best)}"]
    if len(ranked) > 1:
        median, slowest = (_faster(one, best) for one in (ranked[len(ranked) // 2], ranked[-1]))
        parts.append(f"{median} than the median and {slowest} than the slowest of {len(ranked)}")
    others = len(found.candidates) - 1
    if others:
        parts.append(
            f"{others} {'other' if others == 1 else 'others'} may be as fast: their intervals overlap"
        )
    return "; ".join(parts)


def _faster(slower: Outcome, best: Outcome) -> str:
    """`2.4 times faster`, or `3 % faster`."""
    ratio = slower.time_s / best.time_s
    return f"{ratio:.2g} times faster" if ratio >= 1.5 else f"{percent(ratio - 1, 0)} faster"


def time_text(found: Found, outcome: Outcome) -> str:
    """`473 us (448 to 499 us)`, or without an interval where only a glance was had and compared with none."""
    interval = found.interval(outcome)
    if interval.low_s == interval.high_s:
        return seconds(outcome.time_s)
    return f"{seconds(outcome.time_s)} ({seconds(interval.low_s)} to {seconds(interval.high_s)})"


def ranking(tuned: Tuned, machine: str, most: int | None = SHOWN) -> Table:
    """The configurations that were predicted, fastest first; `=` marks those not told apart from the fastest.

    A glance is too short for bytes and hit ratios; groups that do very much work make every look short.
    """
    found = tuned.found[machine]
    tied = {name_of(one.configuration) for one in found.candidates}
    levels = levels_of(found.ranked)
    head = ["", *tuned.space.names, "time", "interval", LIMITED_BY, "occupancy", "registers"]
    head += ["DRAM bytes", *(f"{level} hits" for level in levels), "groups traced"]
    rows = []
    for k, one in enumerate(found.ranked[:most]):
        time, moved = cells(one, found.interval(one), levels, glanced=not one.effort)
        mark = "=" if name_of(one.configuration) in tied and k else str(k + 1)
        registers = UNKNOWN if one.registers is None else str(one.registers)
        settings = one.configuration.values()
        rows.append([mark, *settings, *time, registers, *moved, str(one.traced_groups)])
    return head, rows


def levels_of(outcomes: Iterable[Outcome]) -> list[str]:
    """The levels that loads of some outcome hit."""
    return list(dict.fromkeys(level for one in outcomes for level in one.hit_ratios))


def cells(
    one: Outcome, interval: Interval, levels: Sequence[str], *, glanced: bool = False
) -> tuple[list[str], list[str]]:
    """Time, interval, limit and occupancy of an outcome; and its bytes of DRAM and hit ratios, unknown after a glance."""
    ends = seconds_range(interval.low_s, interval.high_s)
    moved = [byte_size(dram_bytes(one))]
    moved += [percent(one.hit_ratios.get(level, math.nan)) for level in levels]
    return (
        [seconds(one.time_s), ends, one.binds, percent(one.occupancy, 0)],
        [UNKNOWN] * len(moved) if glanced else moved,
    )


def failures(found: Found) -> list[tuple[str, list[Outcome]]]:
    """Reason -> the configurations that failed for it, most frequent first."""
    by_reason: dict[str, list[Outcome]] = {}
    for one in found.failed:
        by_reason.setdefault(one.failure, []).append(one)
    return sorted(by_reason.items(), key=lambda item: -len(item[1]))


def failure_lines(found: Found) -> list[str]:
    """One line for each reason, with the first configuration that failed for it."""
    lines = []
    for reason, outcomes in failures(found):
        first, more = name_of(outcomes[0].configuration), len(outcomes) - 1
        lines.append(f"failed: {first}{f' and {more} more' if more else ''}: {reason}")
    rest = len(lines) - MOST_REASONS
    return (
        lines
        if rest <= 0
        else [*lines[:MOST_REASONS], f"failed: {rest} other reasons (--json has all)"]
    )


def as_json(tuned: Tuned) -> dict[str, Any]:
    """For json.dumps; times are in seconds, intervals as in the table."""
    return {
        "schema": 1,
        "kernel": tuned.subject.kernel.spec,
        "settings": tuned.subject.kernel.settings,
        "seed": tuned.subject.seed,
        "parameters": {one.name: list(one.values) for one in tuned.space.parameters},
        "conditions": [condition.text for condition in tuned.space.conditions],
        "interrupted": tuned.interrupted,
        "machines": {
            machine: {
                "complete": found.complete,
                "not_told_apart": len(found.candidates),
                "configurations": [_row(found, one) for one in found.outcomes],
            }
            for machine, found in tuned.found.items()
        },
    }


def as_csv(
    names: Sequence[str],
    outcomes: Mapping[str, Sequence[Outcome]],
    interval: Callable[[str, Outcome], Interval],
) -> str:
    """A row for each machine and configuration.

    names : of the parameters;  outcomes : by machine;  interval : of an outcome on a machine
    """
    stream = io.StringIO()
    writer = csv.writer(stream)
    levels = levels_of(one for of in outcomes.values() for one in of)
    head = ["time_s", "low_s", "high_s", "limited_by", "occupancy", "registers", "dram_read_bytes"]
    head += ["dram_write_bytes", *(f"{level}_hit_ratio" for level in levels)]
    writer.writerow(["machine", *names, *head, "looked_at", "failure"])
    for machine, of in outcomes.items():
        for one in of:
            row: list[Any] = [""] * len(head)
            if not one.failure:
                ends = interval(machine, one)
                row = [one.time_s, ends.low_s, ends.high_s, text_cell(one.binds), one.occupancy]
                row += ["" if one.registers is None else one.registers]
                row += [list(of.values())[-1] for of in (one.read_bytes, one.write_bytes)]
                row += [one.hit_ratios.get(level, "") for level in levels]
            settings = [text_cell(one.configuration[name]) for name in names]
            ending = [one.looked, text_cell(one.failure)]
            writer.writerow([text_cell(machine), *settings, *row, *ending])
    return stream.getvalue()


def _row(found: Found, one: Outcome) -> dict[str, Any]:
    row = one.as_json()
    if not one.failure:
        interval = found.interval(one)
        row["interval_s"] = [interval.low_s, interval.high_s]
    return {key: finite(value) for key, value in row.items()}


def dram_bytes(one: Outcome) -> float:
    """Read and written."""
    return list(one.read_bytes.values())[-1] + list(one.write_bytes.values())[-1]


def finite(value: Any) -> Any:
    """A value for JSON, which has no NaN."""
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
