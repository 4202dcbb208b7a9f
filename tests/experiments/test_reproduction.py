"""Reproductions have one shape, and their results go into the scoreboard."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

import experiments.lhf
from experiments import scoreboard
from experiments.commands import REPRODUCTIONS
from experiments.reproduction import Case, Figure, MakeFigure, number_text, page
from memsim.errors import KernelError
from tests.support.command_line import RunMemsim


def case(name: str, quantity: str, reference: float | None, ours: float, unit: str = "s") -> Case:
    return Case(name, quantity, unit, reference=reference, ours=ours)


def figure(*cases: Case) -> Figure:
    return Figure(title="F", source="", cases=cases, findings=[])


def test_the_page_says_what_it_compares_and_where_its_pictures_are() -> None:
    text = page("A paper", {"f": figure(case("a", "t", 1.0, 1.1), case("b", "t", 2.0, 2.0))})
    assert "2 quantities are compared with published or measured numbers; half of them" in text
    assert "Its pictures are PNG files in the same folder." in text
    assert "loads nothing" not in text
    some = page("A paper", {"f": figure(case("a", "t", 1.0, 1.1), case("b", "t", None, 2.0))})
    assert "1 of 2 quantities are compared" in some


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_every_reproduction_has_a_title_and_figures(name: str) -> None:
    module = importlib.import_module(f"experiments.{name}")
    assert isinstance(module.TITLE, str)
    assert module.FIGURES
    assert all(callable(make) for make in module.FIGURES.values())


def test_figures_that_fail_are_listed_after_the_others(
    run_memsim: RunMemsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is 2 where all of them lack something of the user's, 70 where one is a bug of memsim."""

    def made(figure: str) -> MakeFigure:
        one = case(figure, "time", 2.0, 3.0)
        return lambda out, quick: Figure(
            title=f"Made {figure}", source="", cases=[one], findings=[]
        )

    def lacking(out: Path, quick: bool) -> Figure:
        raise KernelError("no clang\nlog of a build")

    def wrong(out: Path, quick: bool) -> Figure:
        return max([])

    figures = {"first": made("first"), "figure-2": lacking, "third": made("third"), "last": wrong}
    monkeypatch.setattr(experiments.lhf, "FIGURES", figures)
    results = tmp_path / "table.csv"
    scoreboard.write([dict.fromkeys(scoreboard.COLUMNS, "kept")], results)
    command = ("reproduce", "lhf", "--out", str(tmp_path), "--table", str(results))
    ended = run_memsim(*command, code=70)
    head, missing, bug = ended.err.splitlines()
    assert (head, missing) == ("memsim: 2 of 4 figures failed:", "figure-2: no clang")
    assert bug.startswith("last: a bug of memsim: ValueError: max()")
    assert "Made third" in ended.out
    records = json.loads((tmp_path / "summary.json").read_text())
    assert [record["figure"] for record in records] == ["first", "third"]
    keys = {"figure", "case", "quantity", "unit", "paper", "ours", "ci95", "note"}
    assert set(records[0]) == keys
    assert "Made third" in (tmp_path / "index.html").read_text()
    figures_of = [row["figure"] for row in scoreboard.read(results)]
    assert sorted(figures_of) == ["first", "kept", "third"]

    del figures["last"]
    failed = "figure-2: no clang\nlog of a build\n"
    assert run_memsim(*command, code=2).err == f"memsim: 1 of 3 figures failed: {failed}"
    assert run_memsim(*command, "--only", "figure2", code=2).err == f"memsim: {failed}"


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
