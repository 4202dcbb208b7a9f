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
@click.option("--quick", is_flag=True, help="Only a few cases of each figure; takes minutes.")
@click.option(
    "--table",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Markdown file whose table of results is updated.",
)
def reproduce(name: str, output: Path, only: str | None, quick: bool, table: Path | None) -> None:
    """Reproduce the figures and tables of a paper and compare them with its numbers.

    Writes index.html, the pictures as PNG files, and summary.json into the folder. NAME is one of
    the papers on which memsim is based, or `hardware`, which compares replays with measured GPUs.
    Figures that fail are listed at the end; the others are made all the same.

    \b
    Example:
      memsim reproduce hardware --only v100-l1 --out v100-l1
    """
    from experiments import reproduction
    from experiments.results_table import read_table, update_table

    if table is not None:
        read_table(table)  # so that a wrong file is refused before the work

    def finished(figure: reproduction.Figure) -> None:
        console().print(reproduction.table(figure))
        if table is not None:
            update_table(table, name, [figure], quick=quick)

    module = importlib.import_module(f"experiments.{name}")
    reproduction.reproduce(
        module.TITLE, module.FIGURES, output, only=only, quick=quick, finished=finished
    )
