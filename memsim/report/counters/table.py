"""The terminal's table of a replay beside measured counters."""

from __future__ import annotations

import math

from rich.table import Table
from rich.text import Text

from memsim.report import text
from memsim.report.counters.measurement import LineRow, Measurement, Row
from memsim.report.table import FittingTable, add_numbers, frame
from memsim.statistics import Estimate

_COLUMNS = 120
LEGEND = (
    "replay: in memsim's own counting, then as the counter counts. The definition of the counter"
    " explains the difference; what remains to the measurement is the error of the model and of the"
    " snapshot. ± is the 95 % interval of the mean over random orderings."
)


def measurement_table(measurement: Measurement) -> Table:
    """Counters by level, then source lines; a narrow console gets fewer columns."""
    heading = Text(
        f"{measurement.kernel} on {measurement.machine}, {measurement.n_groups} groups, beside"
        f" {measurement.measured_kernel or 'nothing'} as {TOOLS[measurement.tool]} counted it",
        style="bold",
    )
    notes = [f"({i}) {note}" for i, note in enumerate(_distinct_notes(measurement), 1)]
    caption = Text("\n".join([*notes, *measurement.notes, LEGEND]), style="dim")
    forms = (
        (_COLUMNS, lambda table: _fill(table, measurement, narrow=False)),
        (0, lambda table: _fill(table, measurement, narrow=True)),
    )
    return FittingTable(forms, frame(heading, caption))


TOOLS = {"nsight": "Nsight Compute", "rocprof": "rocprof"}


def _fill(table: Table, measurement: Measurement, *, narrow: bool) -> None:
    table.add_column("counter", overflow="fold", min_width=20)
    add_numbers(table, *(() if narrow else ("replay", "by definition")))
    add_numbers(table, "as counter counts", "measured", "error")
    notes = _distinct_notes(measurement)
    for row in measurement.rows:
        cells = [_name(row, notes.index(row.note) + 1 if row.note else None)]
        if not narrow:
            cells.append(Text(shown(row.ours, row.unit)))
            moved = row.by_definition
            differs = math.isfinite(moved) and moved != 0
            cells.append(Text(signed_value(moved, row.unit) if differs else "same", style="dim"))
        cells += [
            Text(shown(row.counted, row.unit)),
            _measured(row),
            Text(signed_error(row.error, row.unit), style="bold"),
        ]
        table.add_row(*cells)
    for line in measurement.lines:
        table.add_row(*_line_cells(line, narrow=narrow))


def _name(row: Row, note: int | None) -> Text:
    cell = Text(f"{row.level} {row.what}", style="bold")
    if note is not None:
        cell.append(f" ({note})", style="not bold")
    cell.append(f"\n{row.name}", style="not bold dim")
    return cell


def _measured(row: Row) -> Text:
    cell = Text(value(row.measured, row.unit))
    if row.n_launches > 1:
        cell.append(
            f"\n{value(row.low, row.unit)} to {value(row.high, row.unit)}\n{row.n_launches} launches",
            style="dim",
        )
    return cell


def _line_cells(line: LineRow, *, narrow: bool) -> list[Text]:
    name = Text(f"{line.file}:{line.line}", style="bold")
    name.append(f"\n{', '.join(line.sites) or 'no traced access'}", style="not bold dim")
    if line.source:
        name.append(f"\n{line.source[:80]}", style="not bold dim")
    ours = "\n".join(f"{what} {text.count(a)}" for what, a, _ in line.values)
    measured = "\n".join(text.count(b) for _, _, b in line.values)
    errors = "\n".join(signed_error((a - b) / b if b else math.nan, "") for _, a, b in line.values)
    return [
        name,
        *([] if narrow else [Text(""), Text("")]),
        Text(ours),
        Text(measured),
        Text(errors, style="bold"),
    ]


def _distinct_notes(measurement: Measurement) -> list[str]:
    return list(dict.fromkeys(row.note for row in measurement.rows if row.note))


def value(number: float, unit: str) -> str:
    """A count, a size or a percentage."""
    if unit == "%":
        return text.percent(number / 100)
    return text.byte_size(number) if unit == "bytes" else text.count(number)


def shown(estimate: Estimate, unit: str) -> str:
    """A value with its interval over orderings."""
    mean, half = estimate.mean, estimate.half_width
    if not math.isfinite(mean):
        return text.UNKNOWN
    if unit == "%":
        return f"{text.plus_minus(estimate)} %"
    if not math.isfinite(half) or half == 0 or not mean:
        return value(mean, unit)
    return f"{value(mean, unit)} ± {text.small(100 * half / abs(mean), 1)} %"


def signed_value(number: float, unit: str) -> str:
    """A difference in the counter's own unit."""
    sign = "-" if number < 0 else "+"
    if unit == "%":
        return f"{number:+.1f} points"
    return sign + value(abs(number), unit)


def signed_error(error: float, unit: str) -> str:
    """An error in per cent of the measurement, or in points of a ratio."""
    if not math.isfinite(error):
        return text.UNKNOWN
    return f"{error:+.1f} points" if unit == "%" else f"{100 * error:+.1f} %"
