"""An option that several commands have is the same in all of them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest

import calib
import tracegen
from calib.advice.options import AdviseOptions
from calib.counting.options import CountOptions
from calib.fitting.calibrate_options import CalibrateOptions
from calib.prediction.options import PredictOptions
from calib.tuning.options import TuneOptions
from memsim.commands.cli import main
from memsim.commands.cli import memsim as cli
from memsim.errors import MemsimError
from memsim.montecarlo.options import ReplayOptions
from memsim.options import Options, declared
from tests.support.option_tables import markdown_table
from tracegen.options import TraceOptions

SEVERAL = {
    "--set": {"NAME=VALUE", "NAME=VALUE[,VALUE...]"},  # one variant, or several
    "--device": {"PLATFORM[:DEVICE]", "TEXT"},  # the device at hand, or a filter of recorded ones
}
"""What options take that are not the same everywhere."""


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield " ".join((*path, name)), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def named() -> dict[str, dict[str, click.Option]]:
    """Option -> command -> what it takes there."""
    found: dict[str, dict[str, click.Option]] = defaultdict(dict)
    for name, command in commands(cli):
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                for flag in parameter.opts:
                    found[flag][name] = parameter
    return found


OPTIONS: dict[str, type[Options]] = {
    "replay": ReplayOptions, "trace": TraceOptions, "profile": TraceOptions, "tune": TuneOptions,
    "predict": PredictOptions, "count": CountOptions, "calibrate": CalibrateOptions, "advise": AdviseOptions,
}  # fmt: skip
"""Command -> what the function of Python takes."""


@pytest.mark.parametrize("name", OPTIONS)
def test_a_command_has_the_options_of_python_with_their_defaults(name: str) -> None:
    command = dict(commands(cli))[name]
    context, taken = click.Context(command), {one.name: one for one in command.params}
    for field in dataclasses.fields(OPTIONS[name]):
        told, option = declared(field), taken.get(field.name)
        assert (option is None) == (told.flags == ()), field.name
        if isinstance(option, click.Option):
            default = option.process_value(context, option.get_default(context))
            assert default == getattr(OPTIONS[name](), field.name)
            assert option.help == told.help


@pytest.mark.parametrize(("package", "options"), [(tracegen, TraceOptions), (calib, CountOptions)])
def test_a_readme_shows_the_options(package: ModuleType, options: type[Options]) -> None:
    assert markdown_table(options) in Path(package.__path__[0], "README.md").read_text("utf-8")


@pytest.mark.parametrize("flag", sorted(flag for flag, seen in named().items() if len(seen) > 1))
def test_an_option_takes_the_same_everywhere(flag: str) -> None:
    options = named()[flag]
    assert len({option.is_flag for option in options.values()}) == 1, sorted(options)
    taken = {option.metavar for option in options.values()}
    assert taken == SEVERAL.get(flag, {next(iter(taken))}), sorted(options)


DIGITS = "9" * 4000
"""Fewer than Python refuses to convert, and more than a float holds."""
WORDS = [
    *(DIGITS, f"-{DIGITS}", 2 * DIGITS, "\u00b2", "\u0661", "1_0", "0x10", "1e400", "nan", "inf"),
    *("-1", "", ",", ":", "=", "1024:0", f"1:{DIGITS}", f"n={DIGITS}", "n=", "a=b=c", "\x1b[31m\n"),
    *("=cmd()", "\udcff", "x" * 9000),
]


@pytest.mark.parametrize(
    ("name", "command"),
    [(name, one) for name, one in commands(cli) if not isinstance(one, click.Group)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_any_word_is_taken_or_refused(name: str, command: click.Command) -> None:
    """In every option and argument, before the command runs."""
    for parameter in command.params:
        flag = [] if isinstance(parameter, click.Argument) else parameter.opts[:1]
        if isinstance(parameter, click.Option) and (parameter.is_flag or parameter.count):
            continue
        for word in WORDS:
            words = [*flag, *[word] * max(parameter.nargs, 1)]
            with contextlib.suppress(click.ClickException, MemsimError):
                command.make_context(name, words)


@pytest.mark.parametrize("word", [DIGITS, 2 * DIGITS, f"-{DIGITS}", str(10**18)])
@pytest.mark.parametrize(
    "words",
    [
        ["profile", "k.py:k", "-m", "v100", "--trials"],
        ["profile", "k.py:k", "-m", "v100", "--jobs"],
        ["trace", "k.py:k", "-o", "k.trace", "--memory-limit"],
        ["tune", "k.py:k", "-m", "v100", "--over", "b=1,2", "--jobs"],
        ["count", "k.py:k", "f_sync_barrier_local", "--subgroup-size"],
    ],
    ids=lambda words: f"{words[0]} {words[-1]}",
)
def test_a_number_beyond_all_use_is_one_line_with_its_rule(
    words: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    *others, option = words
    assert main([*others, f"{option}={word}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert option in line
    assert "must be" in line or "is not" in line
    assert len(line) < 500


@pytest.mark.parametrize(("name", "command"), list(commands(cli)))
def test_every_help_has_an_example_and_words_for_what_an_option_takes(
    name: str, command: click.Command
) -> None:
    help_text = command.get_help(click.Context(command, info_name=f"memsim {name}"))
    assert f"memsim {name.partition(' ')[0]}" in help_text.partition("Example")[2]
    assert "INTEGER" not in help_text
    assert "FLOAT" not in help_text
