"""`memsim profile`: traces a kernel and replays the trace.

Nothing heavy is imported here: the help of `memsim` loads this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memsim.commands import (
    ReplayOutputs,
    carry_option,
    check_launch_outputs,
    check_outputs,
    display,
    each_variant,
    machines_option,
    output_path,
    replay_options,
    replayed,
    report_replay,
    run_launches,
    timed,
    write_variants_report,
)
from memsim.errors import MemsimError
from memsim.options import command_options
from tracegen.commands.kernel import (
    KernelSpec,
    kernels_options,
    replay_grown,
    save_launches,
    save_trace,
    trace_launches,
    trace_snapshots,
    variants_of,
)
from tracegen.options import TraceOptions
from tracegen.own_process import Limits

if TYPE_CHECKING:
    from memsim import Replay, ReplayOptions
    from memsim.machine import Machine
    from memsim.montecarlo import Grows
    from memsim.trace import Trace


@click.command()
@kernels_options
@machines_option()
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
    kernels: list[KernelSpec],
    machines: tuple[str, ...],
    tracing: TraceOptions,
    limits: Limits,
    snapshots: int | None,
    carry_l2: bool,
    trace_out: Path | None,
    options: ReplayOptions,
    outputs: ReplayOutputs,
) -> int:
    """Report where a kernel's memory accesses are served, and what they cost.

    KERNEL is FILE.py:NAME or PACKAGE.MODULE:NAME, where NAME is a Loopy TranslationUnit, or a
    function that takes the settings of --set and returns a tracegen.Workload. In OpenCL C, KERNEL is
    FILE.cl:NAME and needs --args, and so do CUDA C++ and HIP, FILE.cu:NAME and FILE.hip:NAME. In Fortran, it is FILE.floopy:SUBROUTINE; the Python code in the
    file's '!$loopy' blocks is executed.

    With several machines, or several values of a setting, every combination is a row of one table.

    \b
    Examples:
      memsim profile experiments/kernels/spmv.py:spmv -m v100 --set matrix=fem --html spmv.html
      memsim profile my_kernel.py:knl -m a100 --set n=4096 --trials 64 --seed 1 --json out.json
      memsim profile my_kernel.py:knl -m v100 -m a100 --set n=4096,65536 --quick
      memsim profile my_kernel.py:knl -m v100 --site x
      memsim profile kernel.cl:name -m v100 --args args.py:make
      memsim profile kernel.cu:'transpose<float, 32>' -m a100 --args args.py:make
      memsim profile my_kernel.py:lu -m v100 --carry-l2
    """
    check_outputs({"--trace-out": trace_out, **outputs.paths()})
    work = Profiling(tracing, limits, snapshots, trace_out, options, outputs)
    variants = variants_of(machines, kernels)
    if carry_l2:
        work.check_alone("--carry-l2 takes one snapshot a launch: leave out --snapshots")
    if trace_out is not None:
        work.check_alone("--trace-out keeps one snapshot: leave out --snapshots")
    from memsim.machine import load_machine

    targets = {name: load_machine(name) for name in machines}
    if len(variants) > 1:
        if carry_l2:
            raise MemsimError("--carry-l2 takes one machine and one value of each setting")
        return _table_of(
            [(label, kernel, targets[machine]) for label, machine, kernel in variants], work
        )
    kernel, target = kernels[0], targets[machines[0]]
    if not carry_l2:
        return report_replay(work.replay(kernel, target), outputs)
    if tracing.launch is None:
        check_launch_outputs(outputs)
    launches = trace_launches(kernel, target, tracing.replace(launch=None), limits)
    if trace_out is not None:
        save_launches(launches, trace_out)
    return run_launches(launches, target, options, outputs, tracing.launch)


@dataclass(frozen=True)
class Profiling:
    """How each variant is traced and replayed."""

    tracing: TraceOptions
    limits: Limits
    snapshots: int | None
    trace_out: Path | None
    options: ReplayOptions
    outputs: ReplayOutputs

    def check_alone(self, otherwise: str) -> None:
        """Raises MemsimError where several snapshots are requested."""
        if (self.snapshots or 1) > 1:
            raise MemsimError(otherwise)

    def replay(self, kernel: KernelSpec, machine: Machine) -> Replay:
        """One variant: with snapshots that grow, or with those that the options choose."""
        last: list[Trace] = []

        def replay_all(traces: list[Trace], grows: Grows | None = None) -> Replay:
            last[:] = traces
            return replayed(traces, machine, self.options, self.outputs, grows)

        with display():
            if self.snapshots is None and self.tracing.groups is None and self.trace_out is None:
                budget_s = 0.0 if self.options.quick else self.options.budget
                replay = replay_grown(
                    kernel, machine, self.tracing, self.limits, replay_all, budget_s
                )
            else:
                traces = trace_snapshots(
                    kernel, machine, self.tracing, self.snapshots or 1, self.limits
                )
                if self.trace_out is not None:
                    save_trace(traces[0], self.trace_out)
                replay = replay_all(traces)
            return timed(replay, last, machine)


def _table_of(variants: list[tuple[str, KernelSpec, Machine]], work: Profiling) -> int:
    """Replays variants one after another and shows a row of each; Ctrl-C keeps those that are done."""
    wanted = {**work.outputs.paths(), "--trace-out": work.trace_out, "--site": work.outputs.site}
    for name, value in wanted.items():
        if value is not None and name != "--json":
            raise MemsimError(
                f"{name} describes one variant, got {len(variants)}: leave out all machines and values"
                " but one"
            )

    def replay(kernel: KernelSpec, machine: Machine) -> Replay:
        return work.replay(kernel, machine).recount(work.outputs.counters)

    return each_variant(
        {label: partial(replay, kernel, machine) for label, kernel, machine in variants},
        lambda done: write_variants_report(done, work.outputs.json),
        lambda replay: bool(replay.attrs["interrupted"]),
    )
