"""The command that runs what the papers ran: reproduce.

Imports nothing heavy: the group's help loads it.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import click

REPRODUCTIONS = ("bbml", "hardware", "history", "lhf", "perflex", "stochastic")
"""Packages of experiments that have a TITLE and FIGURES: five papers, and the comparison with hardware."""


@click.command()
@click.argument("name", metavar="NAME", type=click.Choice(REPRODUCTIONS))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to write into.")
@click.option(
    "--only", metavar="FIGURE", help="One figure or table; an unknown one lists them all."
)
@click.option("--quick", is_flag=True, help="A few cases of each, in minutes.")
def reproduce(name: str, out: Path, only: str | None, quick: bool) -> None:
    """Run a paper's figures and tables anew, and put ours beside what it says.

    Writes index.html, a PNG a picture, and summary.json into the folder. NAME is one of the papers
    that memsim rests on, or `hardware`: our replays against measured GPUs.

    \b
    Example:
      memsim reproduce hardware --only v100-l1 --out v100-l1
    """
    from experiments.reproduction import reproduce as run

    module = importlib.import_module(f"experiments.{name}")
    run(module.TITLE, module.FIGURES, out, only=only, quick=quick, echo=click.echo)
