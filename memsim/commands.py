"""The commands of this package. Cheap to import: each loads what it needs when it runs."""

from __future__ import annotations

from pathlib import Path

import click

from memsim.options import (
    ReplayOptions,
    machine_option,
    output_path,
    replay_options,
    run_replay,
)
from memsim.output import check_outputs, console


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def machines(name: str | None, as_json: bool) -> int:
    """List the machines, or every value of one with its source.

    NAME is one of the list, or the path of a .toml file.

    \b
    Examples:
      memsim machines
      memsim machines v100
      memsim machines ./my.toml --json
    """
    import json

    from memsim.machine_file import load_machine, machine_names, machine_to_json
    from memsim.machine_table import machine_table, machines_table

    if name is not None:
        machine = load_machine(name)
        if as_json:
            click.echo(json.dumps(json.loads(machine_to_json(machine)), indent=2))
        else:
            console().print(machine_table(machine))
        return 0
    if as_json:
        click.echo(json.dumps(machine_names(), indent=2))
        return 0
    known = [load_machine(known_name) for known_name in machine_names()]
    console().print(machines_table(known))
    return 0


@click.command()
@click.argument("trace_file", metavar="TRACE", type=click.Path(path_type=Path))
@machine_option
@click.option(
    "--launch",
    type=click.IntRange(min=0),
    metavar="I",
    help="Which launch, from 0, of a file that holds several.",
)
@replay_options
def replay(trace_file: Path, machine: str, launch: int | None, options: ReplayOptions) -> int:
    """Replay a trace through a machine's caches, under random orderings.

    TRACE is what 'memsim trace' or 'memsim profile --trace-out' wrote, or another tool's: a folder
    or .traceg of Accel-Sim (NVBit), a folder or .mem of PPT-GPU, a .csv; gzip, xz and zstd are
    unpacked. The machine must have the sub-group width that the trace was taken with.

    \b
    Examples:
      memsim replay k.trace --machine h100 --ci 0.005
      memsim replay k.trace --machine v100 --trials 64 --seed 1 --html k.html --save k.nc
      memsim replay traces/ --machine v100 --launch 3
    """
    from memsim.formats import read_one
    from memsim.machine_file import load_machine

    check_outputs(options.outputs(), inputs=(trace_file,))
    target = load_machine(machine)
    return run_replay(read_one(trace_file, launch), target, options)


@click.command()
@click.argument("trace_file", metavar="TRACE", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "to",
    type=click.Choice(["accel-sim"]),
    default="accel-sim",
    show_default=True,
    help="Whose format.",
)
@click.option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FOLDER",
    help="A new or empty folder.",
)
def export(trace_file: Path, to: str, out: Path) -> int:
    """Write a trace in another tool's format.

    TRACE is what 'memsim replay' takes. accel-sim: kernelslist.g and a .traceg for each launch.

    \b
    Example:
      memsim export k.trace --format accel-sim -o k-accel-sim
    """
    from memsim.formats import read_any
    from memsim.formats.accel_sim_write import write

    files = write(read_any(trace_file), out)
    click.echo(f"wrote {files[0]} and {len(files) - 1} kernels", err=True)
    return 0


@click.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@output_path("--html", help="Write the comparison as one self-contained page.")
def compare(a: Path, b: Path, html: Path | None) -> int:
    """Put two saved replays side by side, access by access.

    A and B are what --save wrote: two variants of a kernel, or one kernel on two machines.

    \b
    Example:
      memsim compare naive.nc tiled.nc --html change.html
    """
    from memsim.report.compare import compare as side_by_side
    from memsim.result import Replay

    check_outputs({"--html": html}, inputs=(a, b))
    comparison = side_by_side(Replay.load(a), Replay.load(b))
    console().print(comparison.table())
    if html is not None:
        comparison.to_html(html)
        click.echo(f"wrote {html}", err=True)
    return 0
