"""The command `reproduce`. Help imports this module, so it imports nothing that takes long to
load."""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from memsim.commands import console, out_option

REPRODUCTIONS = ("bbml", "hardware", "history", "lhf", "perflex", "stochastic")
"""Packages of experiments that have a TITLE and FIGURES: five papers, and the comparison with
hardware."""


@click.command()
@click.argument("name", metavar="NAME", type=click.Choice(REPRODUCTIONS))
@out_option("Folder to write into.")
@click.option(
    "--only",
    metavar="FIGURE",
    help="Make only this figure or table. An unknown name lists all names.",
)
@click.option("--quick", is_flag=True, help="Only a sample of each figure's cases; takes minutes.")
@click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    default=None,
    help="Processes that run cases of comparisons with hardware.  [default: usable cores]",
)
@click.option(
    "--table",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="CSV file whose rows are updated, as experiments/data/scoreboard.csv.",
)
def reproduce(
    name: str, output: Path, only: str | None, quick: bool, jobs: int | None, table: Path | None
) -> None:
    """Reproduce the figures and tables of a paper and compare them with its numbers.

    Writes index.html, the pictures as PNG files, and summary.json into the folder. NAME is one of
    the papers on which memsim is based, or `hardware`, which compares replays with measured GPUs.
    Figures that fail are listed at the end; the others are made all the same. Cases of comparisons
    with hardware are kept in the folder: the same command goes on where it was interrupted.

    \b
    Example:
      memsim reproduce hardware --only v100-l1 --out v100-l1
    """
    from experiments import cases, reproduction, scoreboard
    from memsim.montecarlo import usable_cores

    if table is not None:
        scoreboard.read(table)  # so that a wrong file is refused before the work
    module = importlib.import_module(f"experiments.{name}")
    with cases.running(jobs or usable_cores()) as taken:

        def finished(figure: str, made: reproduction.Figure) -> None:
            console().print(reproduction.table(made))
            if table is not None:
                seconds = taken.seconds(figure)
                scoreboard.update(table, (name, figure), made, quick=quick, seconds=seconds)

        try:
            reproduction.reproduce(
                module.TITLE, module.FIGURES, output, only=only, quick=quick, finished=finished
            )
        finally:
            if taken.of:
                console().print(str(taken))
