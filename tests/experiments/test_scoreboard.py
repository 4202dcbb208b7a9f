"""The scoreboard: its rows, what they say of themselves, how old they are, and the READMEs that come from it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from experiments import fingerprint, scoreboard
from experiments.commands import REPRODUCTIONS
from experiments.fingerprint import MODELS, changed, changes, has_history
from experiments.reproduction import Case, Figure
from experiments.scoreboard import (
    COLUMNS,
    LEVELS,
    MOST_CASES,
    Row,
    read,
    update,
    without_marks,
    write,
    written,
)
from memsim.errors import MemsimError
from memsim.machine import machine_names
from tests.support.command_line import RunMemsim

ROWS = read()
ON_GPUS = [row for row in ROWS if row["machine"]]
MOST_CHANGES = 10


def case(name: str, quantity: str, reference: float | None, ours: float, unit: str = "s") -> Case:
    return Case(name, quantity, unit, reference=reference, ours=ours)


def recorded(tmp_path: Path, *cases: Case, **said: str) -> list[Row]:
    """The rows of a scoreboard after a figure; one row of another reproduction was there, and one of the figure with `said`."""
    path = tmp_path / "board.csv"
    other = {**dict.fromkeys(COLUMNS, ""), "reproduction": "stochastic", "figure": "f"}
    before = {**other, "reproduction": "lhf", "quantity": "time", "seconds": "12", **said}
    write([other, before], path)
    figure = Figure(title="F", source="", cases=cases, findings=[])
    update(path, ("lhf", "f"), figure, quick=True, seconds=None)
    rows = read(path)
    assert rows.pop() == other
    return rows


def test_a_few_cases_have_a_row_each(tmp_path: Path) -> None:
    time, share = recorded(
        tmp_path,
        case("a", "time", 2.0, 3.0),
        case("b", "share", 10.0, 12.5, "%"),
        case("c", "other", None, 1.0),
    )
    assert [time[key] for key in ("case", "measured", "ours", "error")] == [
        "a",
        "2 s",
        "3",
        "+50.0 %",
    ]
    assert (share["case"], share["measured"], share["error"]) == ("b", "10 %", "+2.5 points")
    assert time["version"].endswith(", quick")
    assert (time["seconds"], share["seconds"]) == ("12", "")


def test_many_cases_have_one_row_with_a_geometric_mean(tmp_path: Path) -> None:
    """Six exact cases and one that is twice as large: 2^(1/7) - 1 is 10.4 %, and so is the bias."""
    cases = [case(f"n = {n}", "time", 1.0, 1.0) for n in range(MOST_CASES)]
    (row,) = recorded(tmp_path, *cases, case("x", "time", 1.0, 2.0))
    assert (row["cases"], row["measured"], row["ours"]) == ("7", "1 s", "1.143")
    assert (row["error"], row["largest"], row["bias"]) == ("10.4 %", "+100.0 % (x)", "+10.4 %")


def test_what_was_said_of_a_row_stays_and_its_fingerprint_is_todays(tmp_path: Path) -> None:
    """Measured on a GPU, so that two cases have one row."""
    said = {
        "machine": "v100",
        "by": "replay",
        "level": "L2",
        "chosen": "nothing",
        "compiler": "none",
    }
    (row,) = recorded(tmp_path, case("a", "time", 1.0, 2.0), case("b", "time", 2.0, 1.0), **said)
    assert row["cases"] == "2"
    assert (row["error"], row["bias"]) == ("100.0 %", "+0.0 %")
    assert {name: row[name] for name in said} == said
    assert changed(row) == []
    assert changed({**row, "model": "another"}) == ["model"]
    assert changed({**row, "machine": "h100"}) == ["machine_file"]
    assert changed({**row, "compiler": "ptxas 1"}) in (["compiler"], [])  # none is installed


def test_a_file_that_is_no_scoreboard_is_refused_before_the_work(
    run_memsim: RunMemsim, tmp_path: Path
) -> None:
    path = tmp_path / "table.csv"
    path.write_text("no,table\n1,2\n")
    with pytest.raises(MemsimError, match="must have the columns"):
        read(path)
    command = ("reproduce", "perflex", "--only", "figure-4", "--out", str(tmp_path / "out"))
    assert "must have the columns" in run_memsim.refused(*command, "--table", str(path))
    assert not (tmp_path / "out").exists()


def test_comments_and_sources_of_numbers_change_no_fingerprint(tmp_path: Path) -> None:
    for folder in (*MODELS["time"], "memsim/machine/shipped"):
        shutil.copytree(fingerprint.ROOT / folder, tmp_path / folder)

    def parts() -> dict[str, str]:
        return fingerprint.fingerprint("time", "v100", compiled=False, root=tmp_path)

    before = parts()
    for source in (tmp_path / "memsim/hierarchy").glob("*.py"):
        source.write_text(
            '"""Other words."""\n' + source.read_text().split('"""', 2)[2] + "\n# and more\n"
        )
    toml = tmp_path / "memsim/machine/shipped/v100.toml"
    text = toml.read_text()
    toml.write_text(text.replace('source = "NVIDIA', 'source = "Nvidia', 1))
    assert parts() == before
    toml.write_text(text.replace("n_cores = { value = 80", "n_cores = { value = 81"))
    assert {name for name, value in parts().items() if value != before[name]} == {"machine_file"}
    source = tmp_path / "calib/prediction/time_model.py"
    source.write_text(source.read_text() + "\nX = 1\n")
    assert {name for name, value in parts().items() if value != before[name]} == {
        "machine_file",
        "model",
    }


def test_rows_say_what_was_compared_and_what_was_taken_from_it() -> None:
    assert {row["reproduction"] for row in ROWS} == set(REPRODUCTIONS)
    for row in ON_GPUS:
        assert row["chosen"], row
        assert set(row["machine"].split()) <= set(machine_names())
        assert row["by"] in MODELS
        assert row["level"] in ("", *LEVELS)
        assert bool(row["shown"]) == bool(row["kernel"])
        assert float(row["seconds"]) >= 0
    for row in ROWS:
        if row["reproduction"] == "hardware":
            assert row["machine"], row


@pytest.mark.skipif(not has_history(), reason="no history of the repository, or a part of it")
def test_no_row_is_older_than_ten_changes_of_what_decides_it() -> None:
    """`memsim reproduce NAME --only FIGURE --table experiments/data/scoreboard.csv` records it again."""
    old = [row for row in ON_GPUS if changed(row) and changes(row) > MOST_CHANGES]
    assert [(row["figure"], row["quantity"]) for row in old] == []


def test_readmes_are_what_the_scoreboard_gives() -> None:
    """`python -m experiments.scoreboard --write` writes them. What is stale depends on the day and is not compared."""
    stale = "| time, x* | 3 |\n| 2026, 0.1; stale: model, machine file |\n**bold** text\n"
    assert without_marks(stale) == "| time, x | 3 |\n| 2026, 0.1 |\n**bold** text\n"
    for path, text in written(ROWS).items():
        assert without_marks(text) == without_marks(path.read_text("utf-8")), path


def test_errors_of_levels_by_hand() -> None:
    row = {**dict.fromkeys(COLUMNS, ""), "machine": "v100", "level": "L2", "chosen": "nothing"}
    rows = [
        {**row, "error": "2.0 %", "bias": "-1.0 %"},
        {**row, "error": "4.0 %", "chosen": "orders"},
    ]
    rows.append({**row, "machine": "h100", "error": "6.0 %", "chosen": "orders"})
    h100, v100, every, free = scoreboard.by_machine(rows)
    assert h100.startswith("| h100 |  | (6.0 %) |  |  | ")
    assert v100.startswith("| v100 |  | 3.0 %, bias -1 |  |  | ")
    assert every == "| median of machines |  | 4.5 of 2 |  |  | | |"
    assert free == "| median where nothing was chosen |  | 2.0 of 1 |  |  | | |"
