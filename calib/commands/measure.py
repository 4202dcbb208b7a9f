"""`memsim machines measure`: a machine file of this computer's OpenCL device."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memsim.commands import EXIT_INTERRUPTED, MACHINE, check_outputs, out_option, output_path
from memsim.errors import MemsimError
from memsim.options import MOST_SEED

if TYPE_CHECKING:
    from calib.probes.dram_groups import DramGroups

BUSY = 1.0
"""Processes that run already: from one on, a measurement that uses all cores is disturbed."""


@click.command()
@out_option("The machine file to write.")
@output_path("--html", help="Write all numbers and curves as one page.")
@click.option(
    "--name", metavar="NAME", help="The machine's name; by default from that of the device."
)
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(min=0, max=MOST_SEED),
    default=0,
    show_default=True,
    help="Seed of the random orders of the chases, and of the replay of --trace.",
)
@click.option(
    "--memory",
    "memory_mb",
    type=click.IntRange(min=8, max=1 << 14),
    default=256,
    show_default=True,
    metavar="MB",
    help="Size of the largest buffer. To measure DRAM, it must exceed the last-level cache.",
)
@click.option(
    "--trace",
    "trace_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also time the groups of requests to DRAM that are in flight together in a replay of this trace.",
)
@click.option(
    "--trace-machine",
    metavar="NAME",
    type=MACHINE,
    help="The machine on which the trace is replayed.",
)
def measure(
    output: Path,
    html: Path | None,
    name: str | None,
    seed: int,
    memory_mb: int,
    trace_path: Path | None,
    trace_machine: str | None,
) -> int:
    """Measure this computer's OpenCL device: caches, lines, ways, latencies, bandwidths.

    Every number in the file has its method and its 95 % interval. Numbers that could not be measured are
    marked as assumed, and listed at the end with the reason. Other programs disturb the measurement, so
    let it run alone. It takes one to four minutes; Ctrl-C writes the findings so far.

    \b
    Examples:
      memsim machines measure -o my.toml --html my.html
      MEMSIM_OPENCL=pocl memsim machines measure -o cpu.toml
      memsim machines measure -o my.toml --trace k.trace --trace-machine v100
    """
    from calib.probes.device import OpenCLDevice
    from calib.probes.measured_machine import comments_of, default_name, machine_of
    from calib.probes.outcome import Unclear
    from calib.probes.page import page
    from calib.probes.survey import survey
    from memsim.files import write_text
    from memsim.machine import machine_to_toml
    from tracegen.devices import choose

    check_outputs({"--out": output, "--html": html}, inputs=(trace_path,) if trace_path else ())
    if (trace_machine is None) != (trace_path is None):
        raise MemsimError("--trace and --trace-machine must be given together")
    groups = _groups(trace_path, trace_machine, seed) if trace_path and trace_machine else None
    if busy := _busy(*load()):
        click.echo(f"memsim: {busy}", err=True)
    say = _progress()
    device = OpenCLDevice(choose(), memory_mb << 20)
    measured = survey(
        device, most_bytes=memory_mb << 20, seed=seed, groups=groups, progress=say, busy=busy
    )
    if html is not None:
        write_text(html, page(measured))
        click.echo(f"wrote {html}", err=True)
    for probe, why in measured.book.silent.items():
        click.echo(f"{probe}: {why}", err=True)
    try:
        machine = machine_of(measured, name or default_name(measured.device))
    except Unclear as error:
        if measured.interrupted:
            click.echo(f"{measured.device}: {error}", err=True)
            return EXIT_INTERRUPTED
        raise MemsimError(f"{measured.device}: {error}") from None
    write_text(output, machine_to_toml(machine, comments_of(measured)))
    click.echo(f"wrote {output}", err=True)
    return EXIT_INTERRUPTED if measured.interrupted else 0


def load() -> tuple[float, int]:
    """Processes that ran or were ready to run in the last minute, in the mean, and the cores for them."""
    known = hasattr(os, "getloadavg")  # not on Windows
    return os.getloadavg()[0] if known else 0.0, os.cpu_count() or 1


def _busy(processes: float, cores: int) -> str:
    """That other programs run, which makes times longer and intervals wider; empty where hardly any do."""
    if processes < BUSY:
        return ""
    return (
        f"this computer was busy: {processes:.1f} processes on {cores} cores in the minute before; bandwidths"
        " appear lower and latencies higher than they are"
    )


def _groups(path: Path, machine: str, seed: int) -> DramGroups:
    from calib.probes.dram_groups import dram_groups
    from memsim.formats import read_one
    from memsim.machine import load_machine

    return dram_groups(read_one(path), load_machine(machine), seed)


def _progress() -> Callable[[str], None]:
    """Prints the name of each probe on standard error, with the seconds since the start."""
    begun = time.perf_counter()
    return lambda probe: click.echo(f"{time.perf_counter() - begun:5.0f} s  {probe}", err=True)
