"""`memsim export`; it imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path

import click

from memsim.commands.options import out_option
from memsim.commands.output import check_outputs


@click.command()
@click.argument("source", metavar="INPUT", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "to",
    type=click.Choice(["accel-sim", "cachegrind", "csv", "json"]),
    default="accel-sim",
    show_default=True,
    help="The format to write.",
)
@out_option("A new or empty folder for accel-sim; otherwise a file.")
def export(source: Path, to: str, output: Path) -> int:
    """Write a trace, or a saved replay, in another tool's format.

    For accel-sim, INPUT is a trace as 'memsim replay' reads it; kernelslist.g and a .traceg per launch
    are written. For the others, INPUT is a saved replay ('memsim replay --save'). cachegrind: counts by source
    line, for cg_annotate and KCachegrind. csv: a row per access. json: as 'memsim replay --json'.

    \b
    Examples:
      memsim export k.trace --format accel-sim -o k-accel-sim
      memsim export k.nc --format cachegrind -o cachegrind.out.k
      memsim export k.nc --format csv -o k.csv
    """
    if to == "accel-sim":
        from memsim.formats import read_any
        from memsim.formats.accel_sim.writing import write as write_traces

        files = write_traces(read_any(source), output)
        click.echo(f"wrote {files[0]} and {len(files) - 1} kernels", err=True)
        return 0
    from memsim.montecarlo.result import Replay

    check_outputs({"--out": output}, inputs=(source,), kinds={"--out": to})
    replay = Replay.load(source)
    if to == "cachegrind":
        from memsim.report.cachegrind import write

        files = write(replay.dataset, output)
    elif to == "csv":
        from memsim.report.access_csv import write_site_csv
        from memsim.report.summary import summarise

        files = [write_site_csv(summarise(replay.dataset), output)]
    else:
        replay.to_json(output)
        files = [output]
    for file in files:
        click.echo(f"wrote {file}", err=True)
    return 0
