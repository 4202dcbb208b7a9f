"""The scoreboard: what reproductions gave beside what a paper or a GPU gave, and the tables of the READMEs that come from it.

    python -m experiments.scoreboard            # each comparison with hardware, and what has changed since it was recorded
    python -m experiments.scoreboard --write    # writes the tables of README.md and experiments/README.md

`memsim reproduce NAME --table experiments/data/scoreboard.csv` replaces the rows of the figures that it makes. A row keeps what
is said of it once, in the columns of SAID.
"""

from __future__ import annotations

import csv
import datetime
import io
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

import memsim
from experiments.fingerprint import (
    MEASURED_CLANG,
    PARTS,
    ROOT,
    changed,
    changes,
    fingerprint,
    has_history,
)
from experiments.reproduction import Case, Figure, number_text
from experiments.time_errors import compared, elsewhere, measured_over_predicted
from memsim.errors import MemsimError
from memsim.files import write_text

TABLE = Path(__file__).parent / "data" / "scoreboard.csv"
SAID = ("machine", "by", "level", "shown", "kernel", "chosen")
"""machine : names of machine files with blanks between, empty where no GPU was measured
by : of fingerprint.MODELS
level : L1, L2, DRAM or time, where the quantity says how wrong that is
shown, kernel : what README's table calls the quantity and the kernel; empty where it does not show it
chosen : what the machine file or the model took from these cases"""
FOUND = ("cases", "measured", "ours", "error", "largest", "bias", "seconds", "date", "version")
"""seconds : of one core, for all cases of the figure;  bias : exp(mean ln(ours / measured)) - 1, in percent"""
COLUMNS = ("reproduction", "figure", "quantity", "case", *SAID, *FOUND, *PARTS)
MOST_CASES = 6
"""A quantity with more cases, and each that was measured on a GPU, has one row, with means and errors."""
README, DETAILS = ROOT / "README.md", ROOT / "experiments" / "README.md"
SUMMARY_HEAD = "| machine | quantity | cases | error (largest) | chosen on these cases |"
DETAILS_HEAD = "| reproduction | figure | quantity | case | paper or measured | ours | difference | bias | date, version |"
MACHINES_HEAD = "| machine | L1 | L2 | DRAM | time | nine of ten times of the others within | its times within that |"
LEVELS = ("L1", "L2", "DRAM", "time")
_STALE = re.compile(r"\*(?= \|)|; stale: [a-z, ]+(?= \|$)", re.MULTILINE)
Row = dict[str, str]


def read(path: Path = TABLE) -> list[Row]:
    """The rows of a scoreboard; raises MemsimError where the file is none."""
    try:
        found = list(csv.DictReader(path.read_text("utf-8").splitlines()))
    except (OSError, UnicodeDecodeError) as error:
        raise MemsimError(f"--table {path} cannot be read: {error}") from error
    if not found or tuple(found[0]) != COLUMNS:
        raise MemsimError(
            f"--table {path} must have the columns of experiments/data/scoreboard.csv"
        )
    return found


def write(rows: Iterable[Row], path: Path = TABLE) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(sorted(rows, key=lambda row: row["reproduction"]))
    write_text(path, text.getvalue())


def update(
    path: Path, name: tuple[str, str], figure: Figure, *, quick: bool, seconds: float | None
) -> None:
    """Replace the rows of a figure; raises MemsimError as `read` does.

    name : of the reproduction and of the figure
    seconds : of one core, for all cases of the figure
    """
    old = read(path)
    of_figure = {row["quantity"]: row for row in old if _key(row) == name}
    kept = [row for row in old if _key(row) != name]
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
    for new in _found(figure, of_figure):
        said = of_figure.get(new["quantity"], dict.fromkeys(COLUMNS, ""))
        row = {**said, **dict.fromkeys(PARTS, ""), **new}
        row |= {"reproduction": name[0], "figure": name[1], "date": now}
        row["version"] = f"{memsim.__version__}{', quick' if quick else ''}"
        row["seconds"] = said["seconds"] if seconds is None else f"{seconds:.2g}"
        if said["machine"]:
            compiled = said["compiler"] != "none"
            clang = MEASURED_CLANG.get(name[1], "")
            row |= fingerprint(said["by"], said["machine"], compiled=compiled, clang=clang)
        kept.append(row)
    write(kept, path)


def _key(row: Row) -> tuple[str, str]:
    return row["reproduction"], row["figure"]


def _found(figure: Figure, said: Mapping[str, Row]) -> Iterator[Row]:
    """The numbers of each quantity that has reference values."""
    known = [c for c in figure.cases if c.reference is not None and c.ours is not None]
    for quantity in unique(case.quantity for case in known):
        cases = [case for case in known if case.quantity == quantity]
        on_gpu = quantity in said and bool(said[quantity]["machine"])
        alone = len(cases) <= MOST_CASES and not on_gpu
        for some in [[case] for case in cases] if alone else [cases]:
            yield {"quantity": quantity, "case": some[0].case if alone else "", **_numbers(some)}


def _numbers(cases: Sequence[Case]) -> Row:
    """Means of both sides, and the mean, largest and signed errors.

    Errors are points for percentages, absolute for numbers without a unit such as correlations, and relative for all others.
    """
    reference = np.array([case.reference for case in cases], np.float64)
    ours, unit = np.array([case.ours for case in cases], np.float64), cases[0].unit
    bias = ""
    if unit == "%":
        off, of, mean = ours - reference, " points", float(np.abs(ours - reference).mean())
    elif unit and (ours > 0).all() and (reference > 0).all():
        logs, off, of = np.log(ours / reference), 100 * (ours / reference - 1), " %"
        mean, bias = 100 * np.expm1(np.abs(logs).mean()), f"{100 * np.expm1(logs.mean()):+.1f} %"
    else:
        off, of, mean = ours - reference, "", float(np.abs(ours - reference).mean())
    worst = int(np.abs(off).argmax())
    digits = ".1f" if of == " %" else ".2g"
    only = len(cases) == 1
    spread = "" if not only or cases[0].ci95 is None else f" ± {cases[0].ci95:.2g}"
    return {
        "cases": str(len(cases)),
        "measured": f"{number_text(reference.mean())} {unit}".strip(),
        "ours": f"{number_text(ours.mean())}{spread}",
        "error": f"{off[0]:+{digits}}{of}" if only else f"{mean:{digits}}{of}",
        "largest": "" if only else f"{off[worst]:+{digits}}{of} ({cases[worst].case})",
        "bias": "" if only else bias,
    }


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """The lines of README's table: one for each kernel of a figure; `*` where anything that decides it has changed."""
    shown = [row for row in rows if row["shown"]]
    for (_, _, kernel), group in groupby(shown, lambda row: (*_key(row), row["kernel"])):
        of = list(group)
        machines = unique(
            name.split("@")[0].upper() for row in of for name in row["machine"].split()
        )
        names = ", ".join(machines) if len(machines) < 5 else f"{len(machines)} GPUs"
        quantity = f"{', '.join(unique(row['shown'] for row in of))}, {kernel}"
        errors = ", ".join(row["error"].removesuffix(" %") for row in of)
        largest = max(
            (row["largest"].split(" (")[0] for row in of), key=lambda one: abs(_number(one))
        )
        mark = "*" if any(map(changed, of)) else ""
        yield (
            f"| {names} | {quantity}{mark} | {', '.join(unique(row['cases'] for row in of))} | {errors} % ({largest})"
            f" | {', '.join(unique(row['chosen'] for row in of))} |"
        )


def unique(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def details(rows: Sequence[Row]) -> Iterator[str]:
    """The lines of the table of all rows, with what has changed since they were recorded."""
    for row in rows:
        parts = changed(row) if row["machine"] else []
        stale = f"; stale: {', '.join(parts).replace('_', ' ')}" if parts else ""
        yield f"| {' | '.join(map(_cell, _details(row)))} | {row['date'][:10]}, {row['version']}{stale} |"


def by_machine(rows: Sequence[Row]) -> Iterator[str]:
    """The lines of the table of errors by machine, in which each machine's times are judged by the others'; medians last.

    A quantity's error is the mean over its rows, in brackets where the machine file or the model took something from all of them.
    """
    ratios, of = measured_over_predicted(), {name: levels_of(rows, name) for name in machines(rows)}
    for name, levels in of.items():
        cells = [_level(levels.get(level, [])) for level in LEVELS]
        judged = ["", ""]
        if name in compared(ratios):
            within = elsewhere(ratios, but=name)
            off = 100 * np.abs(np.concatenate(list(ratios[name].values())) - 1)
            judged = [f"{within:.0f} %", f"{100 * np.mean(off <= within):.0f} % of {len(off)}"]
        yield f"| {name} | {' | '.join((*cells, *judged))} |"
    medians = [_median([found.get(level, []) for found in of.values()]) for level in LEVELS]
    free = [
        _median(
            [[r for r in found.get(level, []) if r["chosen"] == "nothing"] for found in of.values()]
        )
        for level in LEVELS
    ]
    yield f"| median of machines | {' | '.join(medians)} | | |"
    yield f"| median where nothing was chosen | {' | '.join(free)} | | |"


def machines(rows: Sequence[Row]) -> list[str]:
    """The machines that rows of one machine have compared at some level."""
    return sorted({row["machine"] for row in rows if row["level"] and " " not in row["machine"]})


def levels_of(rows: Sequence[Row], machine: str) -> dict[str, list[Row]]:
    """Level -> the rows of a machine."""
    return {
        level: [row for row in rows if (row["machine"], row["level"]) == (machine, level)]
        for level in LEVELS
    }


def _level(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    text = f"{_mean(rows):.1f}{' points' if 'points' in rows[0]['error'] else ' %'}"
    biases = [_number(row["bias"]) for row in rows if row["bias"]]
    text += f", bias {np.mean(biases):+.0f}" if biases else ""
    return text if any(row["chosen"] == "nothing" for row in rows) else f"({text})"


def _mean(rows: Sequence[Row]) -> float:
    return float(np.mean([_number(row["error"]) for row in rows]))


def _median(of_machines: Sequence[Sequence[Row]]) -> str:
    known = [_mean(rows) for rows in of_machines if rows]
    return f"{np.median(known):.1f} of {len(known)}" if known else ""


def _number(text: str) -> float:
    return float(text.split()[0])


def _details(row: Row) -> list[str]:
    first = [row[key] for key in ("reproduction", "figure", "quantity")]
    if row["case"]:
        return [*first, row["case"], row["measured"], row["ours"], row["error"], ""]
    mean = f"mean {row['error']}; largest {row['largest']}"
    return [
        *first,
        f"{row['cases']} cases",
        f"mean {row['measured']}",
        f"mean {row['ours']}",
        mean,
        row["bias"],
    ]


def _cell(text: str) -> str:
    return text.replace("|", "/")


def written(rows: Sequence[Row]) -> dict[Path, str]:
    """The two READMEs with their tables."""
    texts = {path: path.read_text("utf-8") for path in (README, DETAILS)}
    texts[README] = _replaced(texts[README], SUMMARY_HEAD, summary(rows))
    texts[DETAILS] = _replaced(texts[DETAILS], DETAILS_HEAD, details(rows))
    texts[DETAILS] = _replaced(texts[DETAILS], MACHINES_HEAD, by_machine(rows))
    return texts


def without_marks(text: str) -> str:
    """A README without the marks of stale rows, which depend on the day."""
    return _STALE.sub("", text)


def _replaced(text: str, head: str, lines: Iterable[str]) -> str:
    """A page with these lines below the table's head, in place of those that are there."""
    before, after = text.split(head + "\n")
    rule, *rest = after.splitlines(keepends=True)
    n = next((k for k, line in enumerate(rest) if not line.startswith("|")), len(rest))
    return "".join([before, head, "\n", rule, *(f"{line}\n" for line in lines), *rest[n:]])


def _states(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        if row["machine"]:
            parts = ", ".join(changed(row)).replace("_", " ")
            n = f"{changes(row)} changes" if has_history() else "no history"
            state = f"stale: {parts} ({n} since {row['date']})" if parts else "of today's model"
            yield f"{row['figure']}, {row['quantity']}: {row['error']}, bias {row['bias'] or '-'}; {state}"


def main(arguments: Sequence[str]) -> None:
    """Prints what is stale, or writes the READMEs."""
    rows = read()
    if "--write" not in arguments:
        print("\n".join(_states(rows)))
        return
    for path, text in written(rows).items():
        write_text(path, text)


if __name__ == "__main__":
    main(sys.argv[1:])
