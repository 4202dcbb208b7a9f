"""What the commands that trace a kernel share: KERNEL with its options, its traces, their files.

Nothing heavy is imported here: the help of `memsim` loads this module.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memsim.commands import KERNEL, labels, setting_option, settings_option, working
from memsim.errors import MemsimError
from tracegen.own_process import Limits, in_own_process

if TYPE_CHECKING:
    from memsim import Replay
    from memsim.machine import Machine
    from memsim.montecarlo import Grows
    from memsim.trace import Launches, Trace
    from tracegen.options import TraceOptions

T = TypeVar("T")


@dataclass(frozen=True)
class KernelSpec:
    """A kernel as a command names it: KERNEL, --set and --args."""

    spec: str
    settings: dict[str, str]
    arguments: str | None

    def load_with_defaults(self) -> tuple[Any, dict[str, str]]:
        """The workload, and its settings; for a kernel in OpenCL C, CUDA C++ or HIP with the integers that
        they are by default. Raises KernelError."""
        from tracegen.workloads.load import integer_defaults
        from tracegen.workloads.workload import Workload

        workload = self.load()
        if isinstance(workload, Workload):
            return workload, self.settings
        return workload, {**integer_defaults(self.spec, self.arguments), **self.settings}

    def load(self, settings: Mapping[str, str] | None = None) -> Any:
        """The workload, with its settings or others. Raises KernelError."""
        import tracegen

        return tracegen.load_kernel(
            self.spec, self.settings if settings is None else settings, self.arguments
        )


def kernel_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds KERNEL, --set and --args; the command gets them as one `kernel: KernelSpec`."""

    def with_kernel(
        spec: str, settings: dict[str, str], arguments: str | None, **others: Any
    ) -> Any:
        return command(kernel=KernelSpec(spec, settings, arguments), **others)

    return _decorated(command, with_kernel, setting_option)


def kernels_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """As kernel_options, with several values of a setting: the command gets `kernels`, all variants."""

    def with_kernels(
        spec: str, settings: list[dict[str, str]], arguments: str | None, **others: Any
    ) -> Any:
        return command(kernels=[KernelSpec(spec, one, arguments) for one in settings], **others)

    return _decorated(command, with_kernels, settings_option)


def _decorated(
    command: Callable[..., Any],
    with_kernel: Callable[..., Any],
    settings: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> Callable[..., Any]:
    def with_config(config: int | None, settings: Any, **others: Any) -> Any:
        if config is not None:
            chosen = {"config": str(config)}
            several = isinstance(settings, list)
            if any("config" in one for one in (settings if several else [settings])):
                raise MemsimError(
                    "--config and --set config both choose a configuration: leave out one"
                )
            settings = [one | chosen for one in settings] if several else settings | chosen
        return with_kernel(settings=settings, **others)

    with_config.__name__, with_config.__doc__ = command.__name__, command.__doc__
    with_config.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    with_args = click.option(
        "--config",
        type=int,
        metavar="N",
        help="Of a Triton kernel: which of the autotuner's configurations, from 0.",
    )(settings(arguments_option(with_config)))
    return click.argument("spec", metavar="KERNEL", type=KERNEL)(with_args)


def arguments_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --args; the command gets `arguments`."""
    return click.option(
        "--args",
        "arguments",
        metavar="FILE.py:NAME",
        type=KERNEL,
        help="The arguments of a kernel in OpenCL C, CUDA C++, HIP or Fortran: a function that takes the"
        " settings of --set and returns a tracegen.OpenCLWorkload, a tracegen.CudaWorkload or, for"
        " Fortran, a mapping from argument names to values.",
    )(command)


def variants_of(
    machines: Sequence[str], kernels: Sequence[KernelSpec]
) -> list[tuple[str, str, KernelSpec]]:
    """(what tells it from the others, machine, kernel) of every combination."""
    pairs = [(machine, kernel) for kernel in kernels for machine in machines]
    rows = [{"machine": machine, **kernel.settings} for machine, kernel in pairs]
    return [(label, *pair) for label, pair in zip(labels(rows), pairs, strict=True)]


def trace_snapshots(
    kernel: KernelSpec, machine: Machine, options: TraceOptions, snapshots: int, limits: Limits
) -> list[Trace]:
    """Snapshots of a kernel, which runs in a process of its own."""

    def work() -> list[Trace]:
        import tracegen

        return tracegen.trace_snapshots(
            kernel.load(), machine, snapshots=snapshots, options=options
        )

    with working("tracing"):
        traces = _apart(work, limits, kernel, _import_replay)
    launch = traces[0].launch
    if launch.n_groups * launch.group_items == 1:
        tags = "; a Loopy kernel needs inames with the tags 'g.0' and 'l.0' (loopy.split_iname, loopy.tag_inames)"
        click.echo(
            f"memsim: warning: {launch.kernel} has one work-item, so nothing runs in parallel"
            f"{'' if kernel.arguments else tags}",
            err=True,
        )
    return traces


def trace_sized(
    kernel: KernelSpec,
    machine: Machine,
    options: TraceOptions,
    limits: Limits,
    groups_of: Callable[[Trace], int],
) -> Trace:
    """A snapshot whose length depends on the kernel, which runs in a process of its own.

    groups_of : the trace of one group -> how many are to be traced
    """

    def work() -> Trace:
        from tracegen.tracer import traces_of

        ((trace,),) = traces_of(kernel.load(), machine, options, None, groups_of=groups_of)
        return trace

    _import_compilers(machine.compiler_target)  # once for all kernels that are traced from here
    return _apart(work, limits, kernel, _import_replay)


def replay_grown(
    kernel: KernelSpec,
    machine: Machine,
    tracing: TraceOptions,
    limits: Limits,
    replay: Callable[[list[Trace], Grows], Replay],
    budget_s: float | None,
) -> Replay:
    """The replay of a kernel with snapshots that grow while they disagree."""
    from tracegen.growing import replay_grown

    def trace_at(options: TraceOptions, places: int) -> list[Trace]:
        return trace_snapshots(kernel, machine, options, places, limits)

    return replay_grown(trace_at, replay, tracing, budget_s)


def trace_launches(
    kernel: KernelSpec, machine: Machine, options: TraceOptions, limits: Limits
) -> Launches:
    """Every launch of a kernel, which runs in a process of its own."""
    from memsim.trace import Launches

    def work() -> list[Trace]:
        import tracegen

        return tracegen.trace_launches(kernel.load(), machine, options=options)

    with working("tracing"):
        traces = _apart(work, limits, kernel, _import_replay)
    return Launches(launches=tuple(traces))


def check_values(
    kernel: KernelSpec, machine: Machine, options: TraceOptions, limits: Limits
) -> str:
    """What the results of a kernel's machine code were held against; see tracegen.executed.launches.checked."""

    def work() -> str:
        from tracegen.executed.launches import checked

        return checked(kernel.load(), machine, options)

    with working("running the machine code"):
        return _apart(work, limits, kernel)


def _apart(
    work: Callable[[], T],
    limits: Limits,
    kernel: KernelSpec,
    meanwhile: Callable[[], None] | None = None,
) -> T:
    """As in_own_process; what both tracing and replaying need is imported before the fork."""
    import memsim.compile
    import memsim.trace

    _ = memsim.compile.hot, memsim.trace.Trace
    return in_own_process(work, limits, kernel.spec, meanwhile)


@functools.cache
def _import_compilers(target: str | None) -> None:
    """Imports, before the fork, what compiles CUDA C++ for a target, reads machine code and runs it, all without OpenCL, and
    finds the compilers: every fork would do it again, in half a second of a core."""
    import tracegen.execution.prepare
    import tracegen.machine_code.binding_cuda
    import tracegen.machine_code.sass_lower
    import tracegen.tracer
    from tracegen.tools.toolchain import cuda_headers, versions_for

    _ = tracegen.machine_code, tracegen.tracer
    versions_for(target or "sm_75")
    cuda_headers()
    tracegen.execution.prepare.prepare()


def _import_replay() -> None:
    """Imports what a replay and its table need, while another process traces."""
    import xarray

    import memsim
    import memsim.report
    from memsim import time_models
    from memsim.commands import provisional_results

    # The first one imports dask and others, where they are installed, in half a second.
    xarray.Dataset({"hits": ("trial", [0])})
    time_models.models()
    _ = memsim.replay, memsim.Trace, memsim.report.summarise, provisional_results


def save_launches(launches: Launches, path: Path) -> None:
    """Writes the traces of several launches, and reports the file on standard error."""
    from memsim.trace import write_launches

    write_launches(launches, path)
    n_granule = sum(trace.n_granule for trace in launches.launches)
    click.echo(f"wrote {path}: {len(launches.launches)} launches, {n_granule} granules", err=True)


def save_trace(trace: Trace, path: Path) -> None:
    """Writes a trace, and reports the file on standard error."""
    from memsim.trace import write_trace

    write_trace(trace, path)
    click.echo(
        f"wrote {path}: {trace.n_groups} of {trace.launch.n_groups} groups,"
        f" {trace.n_access} accesses, {trace.n_granule} granules",
        err=True,
    )
