"""`memsim export`: instructions of a kernel for a simulator, or a saved replay for other tools.

Nothing heavy is imported here: the help of `memsim` loads this module.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from memsim.commands import (
    MACHINE,
    REPLAY_FORMATS,
    export_replay,
    out_option,
    working,
)
from memsim.errors import MemsimError
from memsim.options import command_options
from tracegen.commands.kernel import KernelSpec, kernel_options
from tracegen.own_process import Limits, in_own_process

if TYPE_CHECKING:
    from tracegen.executed.accel_sim import Written


@click.command()
@kernel_options
@click.option(
    "--format",
    "to",
    type=click.Choice(["accel-sim", *REPLAY_FORMATS]),
    default="accel-sim",
    show_default=True,
    help="The format to write.",
)
@click.option(
    "--machine", "-m", metavar="NAME", type=MACHINE, help="Of accel-sim: whose machine code is run."
)
@click.option(
    "--groups",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of accel-sim: only the first N thread blocks of a launch.  [default: all]",
)
@click.option(
    "--launch",
    type=click.IntRange(min=0),
    metavar="I",
    help="Of accel-sim: only launch I, from 0.  [default: all]",
)
@command_options(Limits, "limits")
@out_option("A new or empty folder for accel-sim; otherwise a file.")
def export(
    kernel: KernelSpec,
    to: str,
    machine: str | None,
    groups: int | None,
    launch: int | None,
    limits: Limits,
    output: Path,
) -> int:
    """Write what a kernel executes, or a saved replay, in another tool's format.

    For accel-sim, KERNEL is a kernel as in 'memsim profile'. Its SASS is run on this computer, and every
    instruction of every warp is written, with its lanes, registers and addresses: kernelslist.g and a .traceg
    per launch. For the others, it is a saved replay ('memsim replay --save'). cachegrind: counts by source
    line, for cg_annotate and KCachegrind. csv: a row per access. json: as 'memsim replay --json'.

    \b
    Examples:
      memsim export kernel.cu:name --args args.py:make -m a100 --groups 64 -o k-accel-sim
      memsim export k.nc --format cachegrind -o cachegrind.out.k
      memsim export k.nc --format csv -o k.csv
    """
    if to != "accel-sim":
        if machine or kernel.settings or kernel.arguments or groups or launch is not None:
            raise MemsimError(
                f"--format {to} takes a saved replay, and none of accel-sim's options"
            )
        export_replay(Path(kernel.spec), to, output)
        return 0
    if machine is None:
        raise MemsimError("--format accel-sim runs a kernel: name the machine with --machine")
    written = _instructions(kernel, machine, launch, groups, limits, output)
    for note in dict.fromkeys(note for one in written for note in one.stand_ins):
        click.echo(f"memsim: {note}", err=True)
    for one in written:
        click.echo(
            f"wrote {output / one.file}: {one.written} of {one.n_groups} thread blocks,"
            f" {one.instructions} instructions of warps",
            err=True,
        )
    return 0


def _instructions(
    kernel: KernelSpec,
    machine: str,
    launch: int | None,
    groups: int | None,
    limits: Limits,
    output: Path,
) -> list[Written]:
    from memsim.files import whole_folder
    from memsim.machine import load_machine

    target = load_machine(machine)
    with whole_folder(output) as folder, working("running the machine code"):

        def work() -> list[Written]:
            from tracegen.executed.accel_sim import write
            from tracegen.options import TraceOptions

            return write(kernel.load(), target, TraceOptions(launch=launch), folder, groups)

        return in_own_process(work, limits, kernel.spec)
