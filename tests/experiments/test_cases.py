"""Cases of comparisons: finished ones are kept, quick runs take a sample by cost, processes give the same."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments import cases
from experiments.cases import KEPT, QUICK_S, Done, Taken, run, running, sample
from experiments.data_files import rows
from experiments.reproduction import Case
from experiments.scoreboard import read
from memsim.errors import MemsimError

WORK = {"a": 1, "b": 2, "c": 3}


def work(n: int, log: Path, bad: int = 0) -> Done:
    with log.open("a") as file:
        file.write(f"{n}\n")
    if n == bad:
        raise KeyboardInterrupt
    one = Case(f"n = {n}", "q", "s", reference=1.0, ours=math.pi * n)
    return Done([one], {"n": n, "half": n / 2})


@pytest.fixture
def all_taken() -> Iterator[Taken]:
    with running(1) as found:
        yield found


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path, all_taken: Taken) -> None:
    log = tmp_path / "log"
    with pytest.raises(KeyboardInterrupt):
        run("f", WORK, functools.partial(work, log=log, bad=3), tmp_path, quick=False)
    with (tmp_path / KEPT).open("a") as file:
        file.write('{"state": "cut')  # by a kill while it was written
    again = run("f", WORK, functools.partial(work, log=log), tmp_path, quick=False)
    assert log.read_text().split() == ["1", "2", "3", "3"]
    assert again == [work(n, log) for n in WORK.values()]
    assert (
        run("f", WORK, functools.partial(work, log=tmp_path / "none"), tmp_path, quick=False)
        == again
    )
    assert all_taken.of["f"][:2] == (6, 6)


def test_a_case_is_run_again_where_a_source_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    for state in ("one", "another"):
        monkeypatch.setattr(cases, "state", lambda state=state: state)
        run("f", WORK, functools.partial(work, log=log), tmp_path, quick=False)
    assert log.read_text().split() == ["1", "2", "3"] * 2


def test_processes_give_the_same_in_the_same_order(tmp_path: Path) -> None:
    with running(2):
        found = run("f", WORK, functools.partial(work, log=tmp_path / "log"), tmp_path, quick=False)
    assert found == [work(n, tmp_path / "log") for n in WORK.values()]


def test_a_sample_is_spread_over_all_cases(
    monkeypatch: pytest.MonkeyPatch, all_taken: Taken, tmp_path: Path
) -> None:
    """Of two figures, of which one takes 120 s and the other 10 times what is left, a tenth of the other runs."""
    # The last is another reproduction's.
    costs = {"latency": 120.0, "v100-stencil": 10 * (QUICK_S - 120.0), "h100-times": 1e6}
    monkeypatch.setattr(cases, "_costs", lambda: costs)
    assert sample("latency", list(range(40))) == list(range(40))
    assert sample("v100-stencil", list(range(40))) == [5, 15, 25, 35]
    assert sample("v100-stencil", ["only"]) == ["only"]
    assert sample("v100-stencil", list(range(3))) == [1]
    some = {str(n): n for n in range(40)}
    run("v100-stencil", some, functools.partial(work, log=tmp_path / "log"), tmp_path, quick=True)
    assert "left out: 36 of 40 v100-stencil" in str(all_taken)


def test_a_comparison_whose_data_are_missing_says_so_in_one_line() -> None:
    with pytest.raises(MemsimError, match=r"^experiments/data/none.csv cannot be read: [^\n]+$"):
        rows("none.csv")


@pytest.mark.parametrize("reproduction", ["hardware", "lhf"])
def test_a_quick_run_takes_as_long_as_it_says(reproduction: str) -> None:
    """By the recorded costs, beside figures of which one case takes longer than their share."""
    costs = {
        row["figure"]: float(row["seconds"])
        for row in read()
        if row["reproduction"] == reproduction and row["seconds"]
    }
    assert sum(min(cost, cases._share_s(name)) for name, cost in costs.items()) <= QUICK_S * 1.001
