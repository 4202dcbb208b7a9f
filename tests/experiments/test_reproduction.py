"""Reproductions have one shape, and their results go into the table of a Markdown file."""

from __future__ import annotations

import dataclasses
import importlib
import json
from pathlib import Path

import pytest

import experiments
from experiments.commands import REPRODUCTIONS
from experiments.reproduction import Case, Figure, MakeFigure, number_text, page
from experiments.results_table import BEGIN, END, HEAD, read_table, table_rows, update_table
from memsim.errors import KernelError, MemsimError
from tests.support.command_line import RunMemsim


def case(name: str, quantity: str, reference: float | None, ours: float, unit: str = "s") -> Case:
    return Case(figure="f", case=name, quantity=quantity, unit=unit, reference=reference, ours=ours)


def figure(*cases: Case) -> Figure:
    return Figure(name="f", title="F", source="", cases=cases, findings=[])


def test_the_page_says_what_it_compares_and_where_its_pictures_are() -> None:
    text = page("A paper", [figure(case("a", "t", 1.0, 1.1), case("b", "t", 2.0, 2.0))])
    assert "2 quantities are compared with published or measured numbers; half of them" in text
    assert "Its pictures are PNG files in the same folder." in text
    assert "loads nothing" not in text
    some = page("A paper", [figure(case("a", "t", 1.0, 1.1), case("b", "t", None, 2.0))])
    assert "1 of 2 quantities are compared" in some


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_every_reproduction_has_a_title_and_figures(name: str) -> None:
    module = importlib.import_module(f"experiments.{name}")
    assert isinstance(module.TITLE, str)
    assert module.FIGURES
    assert all(callable(make) for make in module.FIGURES.values())


def test_a_few_cases_have_a_row_each() -> None:
    rows = table_rows(
        figure(
            case("a", "time", 2.0, 3.0),
            case("b", "share", 10.0, 12.5, "%"),
            case("c", "other", None, 1.0),
        )
    )
    assert rows == ["f | time | a | 2 s | 3 | +50.0 %", "f | share | b | 10 % | 12.5 | +2.5 points"]


def test_many_cases_have_one_row_with_a_geometric_mean() -> None:
    """Six exact cases and one that is twice as large: 2^(1/7) - 1 is 10.4 %."""
    cases = [case(f"n = {n}", "time", 1.0, 1.0) for n in range(6)]
    (row,) = table_rows(figure(*cases, case("x", "time", 1.0, 2.0)))
    assert row == (
        "f | time | 7 cases | mean 1 s | mean 1.143 | geometric mean 10.4 %; largest +100.0 % (x)"
    )


def test_the_rows_of_one_figure_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "table.md"
    kept = "| stochastic | f | q | c | 1 | 1 | | 2020-01-01, 0.0 |"
    old = "| lhf | f | time | a | 9 s | 9 | | 2020-01-01, 0.0 |"
    path.write_text(f"Before.\n{BEGIN}\n{HEAD[0]}\n{HEAD[1]}\n{kept}\n{old}\n{END}\nAfter.\n")
    update_table(path, "lhf", [figure(case("a", "time", 2.0, 3.0))], quick=True)
    before, rows, after = read_table(path)
    assert (before, after) == ("Before.\n", "After.\n")
    assert rows[0].startswith("| lhf | f | time | a | 2 s | 3 | +50.0 % | ")
    assert rows[0].endswith(", quick |")
    assert rows[1:] == [kept]


def test_a_file_without_the_marker_lines_is_refused_before_the_work(
    run_memsim: RunMemsim, tmp_path: Path
) -> None:
    path = tmp_path / "table.md"
    path.write_text("no table\n")
    with pytest.raises(MemsimError, match="must have the lines"):
        read_table(path)
    ended = run_memsim(
        *("reproduce", "perflex", "--only", "figure-4"),
        *("--out", str(tmp_path / "out"), "--table", str(path)),
    )
    assert ended.code == 2
    assert "must have the lines" in ended.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_figures_that_fail_are_listed_after_the_others(
    name: str, run_memsim: RunMemsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is 2 where all of them lack something of the user's, 70 where one is a bug of memsim."""

    def made(figure: str) -> MakeFigure:
        one = dataclasses.replace(case(figure, "time", 2.0, 3.0), figure=figure)
        return lambda out, quick: Figure(
            name=figure, title=f"Made {figure}", source="", cases=[one], findings=[]
        )

    def lacking(out: Path, quick: bool) -> Figure:
        raise KernelError("no clang\nlog of a build")

    def wrong(out: Path, quick: bool) -> Figure:
        return max([])

    figures = {"first": made("first"), "figure-2": lacking, "third": made("third"), "last": wrong}
    monkeypatch.setattr(importlib.import_module(f"experiments.{name}"), "FIGURES", figures)
    results = tmp_path / "table.md"
    results.write_text(f"{BEGIN}\n{END}\n")
    command = ("reproduce", name, "--out", str(tmp_path), "--table", str(results))
    ended = run_memsim(*command)
    assert ended.code == 70
    head, missing, bug = ended.err.splitlines()
    assert (head, missing) == ("memsim: 2 of 4 figures failed:", "figure-2: no clang")
    assert bug.startswith("last: a bug of memsim: ValueError: max()")
    assert "Made third" in ended.out
    records = json.loads((tmp_path / "summary.json").read_text())
    assert [record["figure"] for record in records] == ["first", "third"]
    assert "Made third" in (tmp_path / "index.html").read_text()
    assert [row.split(" | ")[1] for row in read_table(results)[1]] == ["first", "third"]

    del figures["last"]
    ended = run_memsim(*command)
    assert (ended.code, ended.err) == (
        2,
        "memsim: 1 of 3 figures failed: figure-2: no clang\nlog of a build\n",
    )
    alone = run_memsim(*command, "--only", "figure2")
    assert (alone.code, alone.err) == (2, "memsim: figure-2: no clang\nlog of a build\n")


def test_the_readme_has_a_table_of_all_reproductions() -> None:
    readme = Path(experiments.__file__).with_name("README.md")
    _, rows, _ = read_table(readme)
    assert {row.split(" | ")[0] for row in rows} == {f"| {name}" for name in REPRODUCTIONS}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (15971.7, "15,970"),
        (1142.4, "1142"),
        (-23456.0, "-23,460"),
        (0.012345, "0.01235"),
        (1e9, "1e+09"),
    ],
)
def test_numbers_of_common_size_have_no_exponent(value: float, text: str) -> None:
    assert number_text(value) == text
