"""`memsim replay`; it imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path

import click

from memsim.commands.options import (
    ReplayOutputs,
    carry_option,
    check_launch_outputs,
    machine_option,
    replay_options,
    run_launches,
    run_replay,
)
from memsim.commands.output import check_outputs
from memsim.montecarlo.options import ReplayOptions


@click.command()
@click.argument("trace_file", metavar="TRACE", type=click.Path(path_type=Path))
@machine_option
@click.option(
    "--launch",
    type=click.IntRange(min=0),
    metavar="I",
    help="The launch to replay, from 0, of a file with several.",
)
@carry_option
@replay_options
def replay(
    trace_file: Path,
    machine: str,
    launch: int | None,
    carry_l2: bool,
    options: ReplayOptions,
    outputs: ReplayOutputs,
) -> int:
    """Replay a trace through a machine's caches, under random orderings.

    TRACE is a file of 'memsim trace' or 'memsim profile --trace-out', or a trace of another tool: a
    folder or .traceg of Accel-Sim (NVBit), a folder or .mem of PPT-GPU, or a .csv. Files compressed with
    gzip, xz or zstd are read directly. The machine must have the sub-group size of the trace.

    \b
    Examples:
      memsim replay k.trace --machine h100 --ci 0.005
      memsim replay k.trace --machine v100 --trials 64 --seed 1 --html k.html --save k.nc
      memsim replay traces/ --machine v100 --launch 3
      memsim replay traces/ --machine v100 --carry-l2
    """
    from memsim.formats import read_any, read_one
    from memsim.machine.file import load_machine

    check_outputs(outputs.paths(), inputs=(trace_file, Path(machine)))
    target = load_machine(machine)
    if carry_l2:
        if launch is None:
            check_launch_outputs(outputs)
        return run_launches(read_any(trace_file), target, options, outputs, launch)
    return run_replay(read_one(trace_file, launch), target, options, outputs)
