"""The README's example and commands are what is run, not what once ran."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from memsim.commands.cli import memsim

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    """The shell lines of the README that install something."""
    return re.findall(r"^    (bash \.ci/install.*)$", README, re.MULTILINE)


def examples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", examples()[1:])
def test_further_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: str
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {"__name__": "example"})


def test_the_example_runs_and_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example = examples()[0]
    code = [line for line in example.splitlines() if line and "import" not in line]
    assert len(code) <= 15
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {"__name__": "example"})
    shown = capsys.readouterr().out
    assert "table[index[i]]" in shown
    assert "NVIDIA Tesla V100" in shown
    assert "table[index[i]]" in (tmp_path / "gather.html").read_text(encoding="utf-8")


def test_two_commands_do_everything_and_ci_runs_the_second() -> None:
    first, second = commands()
    assert "memsim profile" in first
    assert "pytest" in second
    assert second in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_first_command_is_one_that_memsim_understands() -> None:
    arguments = shlex.split(commands()[0].partition("memsim ")[2])
    with memsim.make_context("memsim", arguments, resilient_parsing=False) as ctx:
        name, command, rest = memsim.resolve_command(ctx, arguments)
        assert name == "profile"
        assert command is not None
        parsed = command.make_context(name, rest, parent=ctx)
    assert parsed.params["settings"] == {"matrix": "fem"}
    kernel_file = parsed.params["spec"].partition(":")[0]
    assert (ROOT / kernel_file).is_file()


def test_every_command_is_in_the_readme_and_the_other_way_round() -> None:
    named = set(re.findall(r"^\| `memsim (\w+)", README, re.MULTILINE))
    with memsim.make_context("memsim", [], resilient_parsing=True) as ctx:
        assert named == set(memsim.list_commands(ctx))


def test_links_within_the_readme_lead_somewhere() -> None:
    headings = {
        line.lstrip("# ").lower().replace(" ", "-")
        for line in README.splitlines()
        if line.startswith("#")
    }
    assert set(re.findall(r"\]\(#([\w-]+)\)", README)) <= headings
