"""Several machines and several settings in one run of a command: `-m v100 -m a100 --set n=1024,2048`.

Imports nothing heavy: the group's help loads it.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from memsim.commands.completion import MACHINE
from memsim.commands.options import parse_setting
from memsim.commands.process import EXIT_INTERRUPTED
from memsim.commands.showing import display
from memsim.errors import MemsimError

MOST_VARIANTS = 64
"""Variants of one run: they are replayed one after another and shown in one table."""

Command = Callable[..., Any]
T = TypeVar("T")


def machines_option(required: bool = True) -> Callable[[Command], Command]:
    """Adds -m, which may be repeated; the command gets `machines`, a tuple of names."""
    return click.option(
        "--machine",
        "-m",
        "machines",
        multiple=True,
        required=required,
        metavar="NAME",
        type=MACHINE,
        callback=_distinct,
        help="A shipped machine ('memsim machines' lists them) or a .toml file; v100@1200MHz has another core"
        " clock. Repeat it to compare"
        " machines.",
    )


def settings_option(command: Command) -> Command:
    """Adds --set; the command gets `settings`, a list with the settings of every variant."""
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE[,VALUE...]",
        callback=lambda ctx, parameter, texts: parse_variants(texts, ctx, parameter),
        help="A keyword argument of the function that makes the kernel; repeat for several. Several values"
        " of one, separated by commas or by repeating it, are compared in one table: every combination. A"
        " comma that is part of a value is written '\\,'.",
    )(command)


def parse_variants(
    texts: Sequence[str],
    ctx: click.Context | None = None,
    parameter: click.Parameter | None = None,
) -> list[dict[str, str]]:
    """Every combination of the values of `NAME=VALUE,VALUE` texts, the last name varying fastest.

    Raises click.BadParameter for a text of another form, a value that is given twice, or more than
    MOST_VARIANTS combinations.
    """
    values: dict[str, list[str]] = {}
    for text in texts:
        name, listed = parse_setting(text, ctx, parameter)
        for value in re.split(r"(?<!\\),", listed):
            known = values.setdefault(name, [])
            if value in known:
                raise click.BadParameter(f"'{name}' is set to '{value}' twice", ctx, parameter)
            known.append(value.replace("\\,", ","))
    n = math.prod(map(len, values.values()))
    if n > MOST_VARIANTS:
        raise click.BadParameter(f"{n} combinations are more than {MOST_VARIANTS}", ctx, parameter)
    return [dict(zip(values, row, strict=True)) for row in itertools.product(*values.values())]


def labels(rows: Sequence[dict[str, str]]) -> list[str]:
    """What tells rows of names and values apart: `v100, n=1024`, without what all rows share."""
    varying = [name for name in rows[0] if len({row[name] for row in rows}) > 1]
    return [
        ", ".join(row[name] if name == "machine" else f"{name}={row[name]}" for name in varying)
        for row in rows
    ]


def each_variant(
    variants: Mapping[str, Callable[[], T]],
    write: Callable[[list[tuple[str, T]]], None],
    is_partial: Callable[[T], bool],
) -> int:
    """Runs variants one after another, and writes those that are done; Ctrl-C ends them. Returns the exit code.

    variants : what tells one from the others -> its work
    is_partial : whether a result was itself interrupted, which ends all
    """
    done: list[tuple[str, T]] = []
    interrupted = False
    with display() as shown:
        for k, (label, run) in enumerate(variants.items()):
            shown.title = f"{label} ({k + 1} of {len(variants)})"
            try:
                done.append((label, run()))
            except MemsimError as error:
                error.args = (f"{error} (variant {label})",)
                raise
            except KeyboardInterrupt:
                if not done:
                    raise
                interrupted = True
            if interrupted or is_partial(done[-1][1]):
                interrupted = True
                break
    write(done)
    if interrupted:
        click.echo(f"memsim: interrupted after {len(done)} of {len(variants)} variants", err=True)
        return EXIT_INTERRUPTED
    return 0


def _distinct(
    ctx: click.Context, parameter: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...]:
    for name in names:
        if names.count(name) > 1:
            raise click.BadParameter(f"'{name}' is given twice", ctx, parameter)
    return names
