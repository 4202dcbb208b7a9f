"""Options declared once: checks, the command line, the table, and what is recorded."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import click
import pytest
from click.testing import CliRunner

from memsim.errors import MemsimError, ReplayError
from memsim.options import Options, command_options, option
from tests.support.option_tables import markdown_table


@dataclass(frozen=True, kw_only=True)
class Brewing(Options):
    error: ClassVar[type[MemsimError]] = ReplayError

    cups: int = option(2, "Cups to brew.", least=1, most=12)
    strength: float | None = option(None, "Share of coffee.", above=0, below=1, metavar="SHARE")
    kind: Literal["drip", "press"] = option("drip", "How to brew.")
    milk: bool = option(False, "Add milk.")
    heat_celsius: float = option(93.0, "Of the water.", unit="degrees", flags=("--heat", "-t"))
    names: tuple[str, ...] = option((), "Whom to call; repeat for more.")
    beans: Any = option(None, "Python only.", flags=(), recorded=False)
    helpers: int = option(factory=lambda: 3, help="Who helps.", default_text="three")


@click.command()
@click.argument("pot")
@command_options(Brewing)
def brew(pot: str, options: Brewing) -> None:
    click.echo(f"{pot} {options}")


def run(*arguments: str) -> tuple[int, str]:
    ended = CliRunner().invoke(brew, ["pot", *arguments])
    return ended.exit_code, ended.output


def test_the_command_sets_every_option_and_has_the_defaults() -> None:
    code, out = run()
    assert (code, out.strip()) == (0, f"pot {Brewing()}")
    _, out = run(
        *("--cups", "4", "--strength", "0.5", "--kind", "press", "--milk", "-t", "80"),
        *("--names", "a", "--names", "b", "--helpers", "1"),
    )
    made = {"cups": 4, "strength": 0.5, "kind": "press", "milk": True, "heat_celsius": 80.0}
    assert out.strip() == f"pot {Brewing(**made, names=('a', 'b'), helpers=1)}"
    _, out = run("--help")
    assert "[default: 2]" in out
    assert "[default: (three)]" in out


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("cups", 0, "must be at least 1 and at most 12, got 0"),
        ("cups", 13, "must be at least 1 and at most 12, got 13"),
        ("cups", 1.5, "must be an integer, got 1.5"),
        ("cups", True, "must be an integer, got True"),
        ("cups", "x", "must be an integer, got 'x'"),
        ("cups", None, "must be given"),
        ("strength", 0.0, "must be above 0 and below 1, got 0.0"),
        ("strength", 1.0, "must be above 0 and below 1, got 1.0"),
        ("strength", float("nan"), "must be a finite number, got nan"),
        ("heat_celsius", float("inf"), "must be a finite number, got inf"),
        ("kind", "boil", "must be one of drip, press, got 'boil'"),
    ],
)
def test_a_broken_rule_names_the_option(name: str, value: Any, rule: str) -> None:
    with pytest.raises(ReplayError) as caught:
        Brewing(**{name: value})
    assert str(caught.value) == f"{name} {rule}"


def test_both_sides_of_each_bound_are_kept() -> None:
    for cups in (1, 12):
        assert Brewing(cups=cups).cups == cups
    assert Brewing(strength=None).strength is None


def test_the_command_refuses_what_python_refuses() -> None:
    code, out = run("--cups", "0")
    assert code == 2
    assert "'--cups': must be at least 1 and at most 12, got 0" in out
    assert run("--strength", "nan")[0] == 2
    assert run("--beans", "x")[0] == 2  # a keyword of Python only


def test_an_unknown_keyword_gets_the_nearest_name() -> None:
    with pytest.raises(ReplayError, match="there is no option 'cup'; did you mean 'cups'"):
        Brewing().replace(cup=3)
    assert Brewing().replace(cups=3) == Brewing(cups=3)


def test_what_is_recorded() -> None:
    recorded = Brewing(milk=True, beans="x").to_json()
    assert recorded["milk"] is True
    assert set(recorded) == {field.name for field in fields(Brewing)} - {"beans"}


def test_the_table_has_a_row_for_each_option() -> None:
    head, line, *rows = markdown_table(Brewing).splitlines()
    assert len(rows) == len(fields(Brewing))
    assert "| `heat_celsius` | `--heat`, `-t` | `93.0` degrees | Of the water. |" in rows
    assert "| `kind` | `--kind` | `drip` | How to brew. One of `drip`, `press`. |" in rows
    assert "| `beans` | Python only | none | Python only. |" in rows
    assert head.count("|") == line.count("|")
