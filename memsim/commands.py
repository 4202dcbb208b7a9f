"""The commands of this package. Cheap to import: each loads what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from memsim.errors import TraceError
from memsim.options import (
    ReplayOptions,
    machine_option,
    output_path,
    replay_options,
    run_replay,
)
from memsim.output import check_outputs, console

if TYPE_CHECKING:
    from memsim.trace import Trace


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

    TRACE is what 'memsim trace' or 'memsim profile --trace-out' wrote. The machine must have the
    sub-group width that the trace was taken with.

    \b
    Examples:
      memsim replay k.trace --machine h100 --ci 0.005
      memsim replay k.trace --machine v100 --trials 64 --seed 1 --html k.html --save k.nc
    """
    from memsim.machine_file import load_machine

    check_outputs(options.outputs(), inputs=(trace_file,))
    target = load_machine(machine)
    return run_replay(_one_launch(trace_file, launch), target, options)


def _one_launch(trace_file: Path, launch: int | None) -> Trace:
    from memsim.trace_file import read_launches

    launches = read_launches(trace_file).launches
    if launch is None and len(launches) > 1:
        raise TraceError(f"{trace_file} holds {len(launches)} launches: choose one by --launch")
    if launch is not None and launch >= len(launches):
        raise TraceError(f"--launch must be below {len(launches)}, got {launch} ({trace_file})")
    return launches[launch or 0]


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
