"""`memsim profile`: traces a kernel and replays the trace.

Nothing heavy is imported here: the help of `memsim` loads this module.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from memsim.commands import (
    ReplayOutputs,
    carry_option,
    check_launch_outputs,
    check_outputs,
    machine_option,
    output_path,
    replay_options,
    replayed,
    report_replay,
    run_launches,
    run_replay,
    timed,
)
from memsim.errors import MemsimError
from memsim.options import command_options
from tracegen.commands.kernel import (
    KernelSpec,
    kernel_options,
    replay_grown,
    save_launches,
    save_trace,
    trace_launches,
    trace_snapshots,
)
from tracegen.options import TraceOptions
from tracegen.own_process import Limits

if TYPE_CHECKING:
    from memsim import Replay, ReplayOptions
    from memsim.trace import Trace


@click.command()
@kernel_options
@machine_option
@command_options(TraceOptions, "tracing")
@command_options(Limits, "limits")
@click.option(
    "--snapshots",
    type=click.IntRange(min=1),
    metavar="K",
    help="Trace K snapshots, spread evenly over the launch; the trials alternate between them."
    "  [default: 3, and more or longer ones while they differ and the budget lasts]",
)
@carry_option
@replay_options
@output_path("--trace-out", help="Write the trace of one snapshot to a file, for 'memsim replay'.")
def profile(
    kernel: KernelSpec,
    machine: str,
    tracing: TraceOptions,
    limits: Limits,
    snapshots: int | None,
    carry_l2: bool,
    trace_out: Path | None,
    options: ReplayOptions,
    outputs: ReplayOutputs,
) -> int:
    """Report where a kernel's memory accesses are served, and what they cost.

    KERNEL is FILE.py:NAME or PACKAGE.MODULE:NAME, where NAME is a loopy TranslationUnit, or a
    function that takes the settings of --set and returns a tracegen.Workload. In OpenCL C, KERNEL is
    FILE.cl:NAME and needs --args, and so do CUDA C++ and HIP, FILE.cu:NAME and FILE.hip:NAME. In Fortran, it is FILE.floopy:SUBROUTINE; the Python code in the
    file's '!$loopy' blocks is executed.

    \b
    Examples:
      memsim profile experiments/kernels/spmv.py:spmv -m v100 --set matrix=fem --html spmv.html
      memsim profile my_kernel.py:knl -m a100 --set n=4096 --trials 64 --seed 1 --json out.json
      memsim profile kernel.cl:name -m v100 --args args.py:make
      memsim profile kernel.cu:'transpose<float, 32>' -m a100 --args args.py:make
      memsim profile my_kernel.py:lu -m v100 --carry-l2
    """
    check_outputs({"--trace-out": trace_out, **outputs.paths()})
    if trace_out is not None and (snapshots or 1) > 1:
        raise MemsimError("--trace-out keeps one snapshot: leave out --snapshots")
    if carry_l2 and (snapshots or 1) > 1:
        raise MemsimError("--carry-l2 takes one snapshot a launch: leave out --snapshots")
    from memsim.machine import load_machine

    target = load_machine(machine)
    if carry_l2:
        if tracing.launch is None:
            check_launch_outputs(outputs)
        launches = trace_launches(kernel, target, tracing.replace(launch=None), limits)
        if trace_out is not None:
            save_launches(launches, trace_out)
        return run_launches(launches, target, options, outputs, tracing.launch)
    if snapshots is None and tracing.groups is None and trace_out is None:
        last: list[Trace] = []

        def replay_all(traces: list[Trace]) -> Replay:
            last[:] = traces
            return replayed(traces, target, options, outputs)

        replay = replay_grown(kernel, target, tracing, limits, replay_all, options.budget)
        return report_replay(timed(replay, last, target), outputs)
    traces = trace_snapshots(kernel, target, tracing, snapshots or 1, limits)
    if trace_out is not None:
        save_trace(traces[0], trace_out)
    return run_replay(traces, target, options, outputs)
