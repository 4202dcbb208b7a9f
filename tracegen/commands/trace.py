"""`memsim trace`: writes a kernel's trace to a file.

Nothing heavy is imported here: the help of `memsim` loads this module.
"""

from __future__ import annotations

from pathlib import Path

import click

from memsim.commands import check_outputs, machine_option, out_option
from memsim.errors import MemsimError
from memsim.options import command_options
from tracegen.commands.kernel import (
    KernelSpec,
    check_values,
    kernel_options,
    save_launches,
    save_trace,
    trace_launches,
    trace_snapshots,
)
from tracegen.options import TraceOptions
from tracegen.own_process import Limits


@click.command()
@kernel_options
@machine_option
@command_options(TraceOptions, "tracing")
@command_options(Limits, "limits")
@click.option(
    "--all-launches",
    is_flag=True,
    help="Trace every launch of the kernel, for 'memsim replay --carry-l2'.",
)
@click.option(
    "--check",
    is_flag=True,
    help="First run the machine code of the whole launch with all its values, and compare what it leaves in memory"
    " with the workload's check= or, where it has none, with a run through OpenCL.",
)
@out_option("The trace file.")
def trace(
    kernel: KernelSpec,
    machine: str,
    tracing: TraceOptions,
    limits: Limits,
    all_launches: bool,
    check: bool,
    output: Path,
) -> int:
    """Trace a kernel once, to replay it on many machines.

    The trace can be replayed on every machine with the same sub-group size. The machine named here
    only determines how many groups are traced.

    \b
    Example:
      memsim trace my_kernel.py:knl --machine a100 -o k.trace
      memsim replay k.trace --machine h100 --ci 0.005
      memsim trace my_kernel.cu:knl --args args.py:knl --machine a100 --tracer machine --check -o k.trace
    """
    check_outputs({"--out": output}, kinds={"--out": "trace"})
    if all_launches and tracing.launch is not None:
        raise MemsimError("--all-launches traces every launch: leave out --launch")
    from memsim.machine import load_machine

    target = load_machine(machine)
    if check:
        against = check_values(kernel, target, tracing, limits)
        click.echo(f"memsim: the results of the machine code are right: {against}", err=True)
    if all_launches:
        save_launches(trace_launches(kernel, target, tracing, limits), output)
        return 0
    save_trace(trace_snapshots(kernel, target, tracing, 1, limits)[0], output)
    return 0
