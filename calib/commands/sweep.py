"""The command sweep: a kernel at several sizes, on one or several machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calib.commands.blocks_settings import settings_of_sizes
from calib.commands.tuning_output import TuningFiles, write_results
from calib.tuning.options import TuneOptions
from memsim.commands import display, machines_option
from memsim.errors import MemsimError
from memsim.options import command_options
from tracegen.commands import KernelSpec, kernel_options
from tracegen.options import TraceOptions
from tracegen.own_process import Limits

if TYPE_CHECKING:
    from rich.console import RenderableType

    from calib.tuning import Swept


@click.command()
@kernel_options
@machines_option()
@command_options(TraceOptions, "tracing", only=("tracer", "compiler"))
@command_options(TuneOptions)
@command_options(Limits, "limits")
@command_options(TuningFiles, "files")
def sweep(
    kernel: KernelSpec,
    machines: tuple[str, ...],
    tracing: TraceOptions,
    options: TuneOptions,
    limits: Limits,
    files: TuningFiles,
) -> int:
    """Predict a kernel over a range of sizes: time, bytes and hit ratios, and where an array leaves a cache.

    KERNEL is as for 'memsim profile'. --set n=64:8192 stands for 64, 128, ... 8192, and n=100,200,400 for
    these sizes; several such settings advance together. Ctrl-C keeps what is done.

    \b
    Examples:
      memsim sweep experiments/kernels/matmul.py:naive -m v100 --set n=64:1024 --html sweep.html
      memsim sweep my.py:knl -m v100 -m a100 --set n=1000,2000,4000 --csv sweep.csv
    """
    from calib.tuning import Subject
    from calib.tuning import sweep as swept_by
    from memsim.machine import load_machine
    from memsim.progress import report

    files.check()
    for name in machines:
        load_machine(name)
    sizes = settings_of_sizes(kernel.settings, lists=True)
    if len(sizes) < 2:
        raise MemsimError(
            "a sweep needs a setting with several sizes: --set NAME=LOW:HIGH or NAME=A,B,C"
        )
    subject = Subject(
        kernel=replace(kernel, settings={}), limits=limits, tracing=tracing, seed=options.seed
    )
    with display():
        result = swept_by(subject, sizes, machines, options, progress=report)
    failed = [one for outcomes in result.outcomes.values() for one in outcomes if one.failure]
    if failed and len(failed) == sum(map(len, result.outcomes.values())):
        raise MemsimError(f"no size can be predicted; the first: {failed[0].failure}")
    return _write(result, files)


def _write(swept: Swept, files: TuningFiles) -> int:
    from calib.tuning import results, sweep_report
    from calib.tuning.search import interval

    others: dict[Path | None, Callable[[], str]] = {
        files.csv: lambda: results.as_csv(
            list(swept.sizes[0]), swept.outcomes, lambda _, one: interval(one, 0.0)
        ),
        files.html: lambda: sweep_report.sweep_page(swept),
    }
    document = sweep_report.as_json(swept)
    return write_results(
        document, files.json, lambda: _lines(swept), others, interrupted=swept.interrupted
    )


def _lines(swept: Swept) -> Iterator[RenderableType]:
    from rich.text import Text

    from calib.tuning import sweep_report
    from memsim.report import PlainTable, file_label

    for machine in swept.outcomes:
        yield Text(f"{file_label(swept.subject.kernel.spec)} on {machine}", style="bold")
        yield PlainTable("", *sweep_report.table(swept, machine))
        for line in sweep_report.findings(swept, machine):
            yield Text(f"- {line}")
