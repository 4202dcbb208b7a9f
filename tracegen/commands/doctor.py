"""`memsim doctor`: what is installed, and what is missing.

Nothing heavy is imported here: the help of `memsim` loads this module.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memsim.commands import check_outputs, console, display, json_option, wrote_json

if TYPE_CHECKING:
    from tracegen.doctor import Check

EXIT_UNHEALTHY = 1


@click.command()
@json_option("the findings")
@click.option(
    "--prepare",
    "compiles",
    is_flag=True,
    help="Instead, compile the loops of the tracer and of the replay, so that no later command waits for that.",
)
def doctor(json_out: Path | None, compiles: bool) -> int:
    """Report what is installed, what is missing, and how to install or repair it.

    The exit code is 0 if kernels can be traced and replayed, and 1 if not.

    \b
    Examples:
      memsim doctor
      memsim doctor --json -
      memsim doctor --prepare
    """
    check_outputs({"--json": json_out})
    if compiles:
        from tracegen.commands.prepare import MACHINES, prepare, prepare_loops

        with display() as shown:
            prepare_loops()
            for k, name in enumerate(MACHINES):
                shown.title = f"{name} ({k + 1} of {len(MACHINES)})"
                prepare(name)
        click.echo(
            f"Prepared for {', '.join(MACHINES)}, and for what they have in common with others."
        )
        return 0
    from tracegen import doctor as examination

    checks = examination.examine()
    healthy = examination.is_healthy(checks)
    if wrote_json(lambda: json.dumps(examination.as_json(checks), indent=2), json_out):
        return 0 if healthy else EXIT_UNHEALTHY
    width = max(len(check.name) for check in checks)
    columns = console().width if sys.stdout.isatty() or "COLUMNS" in os.environ else 0
    for check in checks:
        click.echo(_shown(check, width, columns))
    click.echo("Ready." if healthy else "Not ready: repair what is MISSING.")
    return 0 if healthy else EXIT_UNHEALTHY


_MARKS = {"ok": "ok", "note": "note", "missing": "MISSING"}
LEAST_TEXT = 36
"""Columns that a text needs beside its name; in fewer it stands below."""


def _shown(check: Check, width: int, columns: int) -> str:
    """A check in lines of so many columns; in one or two lines where columns is 0.

    width : of the column of names
    """
    lead = f"{_MARKS[check.status]:<8}{check.name:<{width}}  "
    parts = [check.found, *([f"-> {check.mend}"] if check.mend else [])]
    if not columns:
        return lead + f"\n{' ' * len(lead)}".join(parts)
    longest = max(map(len, f"{check.found} {check.mend}".split()), default=0)
    beside = columns - len(lead) >= max(LEAST_TEXT, longest)
    indent = " " * (len(lead) if beside else 8)
    firsts = [lead, indent] if beside else [f"{_MARKS[check.status]:<8}", indent, indent]
    texts = parts if beside else [check.name, *parts]
    return "\n".join(
        textwrap.fill(
            one,
            columns,
            initial_indent=first,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for first, one in zip(firsts, texts, strict=False)
    )
