"""The commands trace, profile and doctor.

Nothing heavy is imported here: the help of `memsim` loads this module.
"""

from __future__ import annotations

import json as json_module
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memsim.commands import (
    ReplayOutputs,
    carry_option,
    check_launch_outputs,
    check_outputs,
    machine_option,
    output_path,
    replay_options,
    run_launches,
    run_replay,
    setting_option,
    working,
)
from memsim.errors import MemsimError
from memsim.options import command_options
from tracegen.options import TraceOptions

if TYPE_CHECKING:
    from memsim import ReplayOptions
    from memsim.machine import Machine
    from memsim.trace import Launches, Trace


EXIT_UNHEALTHY = 1


@dataclass(frozen=True)
class KernelSpec:
    """A kernel as a command names it: KERNEL, --set and --args."""

    spec: str
    settings: dict[str, str]
    arguments: str | None

    def load(self) -> Any:
        """The workload. Raises KernelError."""
        import tracegen

        return tracegen.load_kernel(self.spec, self.settings, self.arguments)


def kernel_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds KERNEL, --set and --args; the command gets them as one `kernel: KernelSpec`."""

    def with_kernel(
        spec: str, settings: dict[str, str], arguments: str | None, **others: Any
    ) -> Any:
        return command(kernel=KernelSpec(spec, settings, arguments), **others)

    with_kernel.__name__, with_kernel.__doc__ = command.__name__, command.__doc__
    with_kernel.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    with_args = click.option(
        "--args",
        "arguments",
        metavar="FILE.py:NAME",
        help="The arguments of a kernel in OpenCL C or Fortran: a function that takes the settings of"
        " --set and returns a tracegen.OpenCLWorkload or, for Fortran, a mapping from argument names"
        " to values.",
    )(with_kernel)
    decorated: Callable[..., Any] = setting_option(with_args)
    return click.argument("spec", metavar="KERNEL")(decorated)


@click.command()
@kernel_options
@machine_option
@command_options(TraceOptions, "tracing")
@click.option(
    "--snapshots",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="K",
    help="Trace K snapshots, spread evenly over the launch; the trials alternate between them.",
)
@carry_option
@replay_options
@output_path("--trace-out", help="Write the trace to a file, for 'memsim replay'.")
def profile(
    kernel: KernelSpec,
    machine: str,
    tracing: TraceOptions,
    snapshots: int,
    carry_l2: bool,
    trace_out: Path | None,
    options: ReplayOptions,
    outputs: ReplayOutputs,
) -> int:
    """Report where a kernel's memory accesses are served, and what they cost.

    KERNEL is FILE.py:NAME or PACKAGE.MODULE:NAME, where NAME is a loopy TranslationUnit, or a
    function that takes the settings of --set and returns a tracegen.Workload. In OpenCL C, KERNEL is
    FILE.cl:NAME and needs --args. In Fortran, it is FILE.floopy:SUBROUTINE; the Python code in the
    file's '!$loopy' blocks is executed.

    \b
    Examples:
      memsim profile experiments/kernels/spmv.py:spmv -m v100 --set matrix=fem --html spmv.html
      memsim profile my_kernel.py:knl -m a100 --set n=4096 --trials 64 --seed 1 --json out.json
      memsim profile kernel.cl:name -m v100 --args args.py:make
      memsim profile my_kernel.py:lu -m v100 --carry-l2
    """
    check_outputs({"--trace-out": trace_out, **outputs.paths()})
    if trace_out is not None and snapshots > 1:
        raise MemsimError("--trace-out keeps one snapshot: leave out --snapshots")
    if carry_l2 and snapshots > 1:
        raise MemsimError("--carry-l2 takes one snapshot a launch: leave out --snapshots")
    target = _load_machine(machine)
    if carry_l2:
        if tracing.launch is None:
            check_launch_outputs(outputs)
        launches = _trace_launches(kernel, target, tracing.replace(launch=None))
        if trace_out is not None:
            _write_launches(launches, trace_out)
        return run_launches(launches, target, options, outputs, tracing.launch)
    traces = _trace(kernel, target, tracing, snapshots)
    if trace_out is not None:
        _write_trace(traces[0], trace_out)
    return run_replay(traces if snapshots > 1 else traces[0], target, options, outputs)


@click.command()
@kernel_options
@machine_option
@command_options(TraceOptions, "tracing")
@click.option(
    "--all-launches",
    is_flag=True,
    help="Trace every launch of the kernel, for 'memsim replay --carry-l2'.",
)
@output_path("--output", "-o", required=True, help="The trace file.")
def trace(
    kernel: KernelSpec, machine: str, tracing: TraceOptions, all_launches: bool, output: Path
) -> int:
    """Trace a kernel once, to replay it on many machines.

    The trace can be replayed on every machine with the same sub-group size. The machine named here
    only determines how many groups are traced.

    \b
    Example:
      memsim trace my_kernel.py:knl --machine a100 -o k.trace
      memsim replay k.trace --machine h100 --ci 0.005
    """
    check_outputs({"--output": output})
    if all_launches:
        if tracing.launch is not None:
            raise MemsimError("--all-launches traces every launch: leave out --launch")
        _write_launches(_trace_launches(kernel, _load_machine(machine), tracing), output)
        return 0
    _write_trace(_trace(kernel, _load_machine(machine), tracing, 1)[0], output)
    return 0


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(as_json: bool) -> int:
    """Report what is installed, what is missing, and how to install or repair it.

    The exit code is 0 if kernels can be traced and replayed, and 1 if not.

    \b
    Examples:
      memsim doctor
      memsim doctor --json
    """
    from tracegen.devices import doctor as examination

    checks = examination.examine()
    healthy = examination.is_healthy(checks)
    if as_json:
        click.echo(json_module.dumps(examination.as_json(checks), indent=2))
        return 0 if healthy else EXIT_UNHEALTHY
    marks = {"ok": "ok", "note": "note", "missing": "MISSING"}
    width = max(len(check.name) for check in checks)
    for check in checks:
        click.echo(f"{marks[check.status]:<8}{check.name:<{width}}  {check.found}")
        if check.mend:
            click.echo(f"{'':<8}{'':<{width}}  -> {check.mend}")
    click.echo("Ready." if healthy else "Not ready: repair what is MISSING.")
    return 0 if healthy else EXIT_UNHEALTHY


def _load_machine(name: str) -> Machine:
    from memsim.machine import load_machine

    return load_machine(name)


def _trace(
    kernel: KernelSpec, machine: Machine, options: TraceOptions, snapshots: int
) -> list[Trace]:
    import tracegen

    with working("tracing"):
        return tracegen.trace_snapshots(
            kernel.load(), machine, snapshots=snapshots, options=options
        )


def _trace_launches(kernel: KernelSpec, machine: Machine, options: TraceOptions) -> Launches:
    import tracegen
    from memsim.trace import Launches

    with working("tracing"):
        traces = tracegen.trace_launches(kernel.load(), machine, options=options)
    return Launches(launches=tuple(traces))


def _write_launches(launches: Launches, path: Path) -> None:
    from memsim.trace import write_launches

    write_launches(launches, path)
    n_granule = sum(trace.n_granule for trace in launches.launches)
    click.echo(f"wrote {path}: {len(launches.launches)} launches, {n_granule} granules", err=True)


def _write_trace(trace: Trace, path: Path) -> None:
    from memsim.trace import write_trace

    write_trace(trace, path)
    click.echo(
        f"wrote {path}: {trace.n_groups} of {trace.launch.n_groups} groups,"
        f" {trace.n_access} accesses, {trace.n_granule} granules",
        err=True,
    )
