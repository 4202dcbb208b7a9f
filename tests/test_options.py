"""An option that several commands have is the same in all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import click
import pytest

from memsim.commands.cli import memsim as cli

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


@pytest.mark.parametrize("flag", sorted(flag for flag, seen in named().items() if len(seen) > 1))
def test_an_option_takes_the_same_everywhere(flag: str) -> None:
    options = named()[flag]
    assert len({option.is_flag for option in options.values()}) == 1, sorted(options)
    taken = {option.metavar for option in options.values()}
    assert taken == SEVERAL.get(flag, {next(iter(taken))}), sorted(options)
