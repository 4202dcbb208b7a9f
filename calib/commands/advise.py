"""The command advise: what would make a kernel faster on a machine, tried in simulation."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from calib.advice.options import AdviseOptions
from memsim.commands import (
    EXIT_INTERRUPTED,
    check_outputs,
    console,
    json_help,
    machine_option,
    progress_bar,
    wrote_json,
)
from memsim.files import write_text
from memsim.options import Options, command_options, option
from tracegen.commands import KernelSpec, kernel_options
from tracegen.options import TraceOptions
from tracegen.own_process import Limits

if TYPE_CHECKING:
    from calib.advice.results import Advice

T = TypeVar("T")
SHOWN = 12
"""Changes of a kind that the terminal shows."""


@dataclass(frozen=True, kw_only=True)
class AdviseFiles(Options):
    """The files that the command writes."""

    html: Path | None = option(None, "Write a page with every change and its code.", metavar="FILE")
    json: Path | None = option(None, json_help("the numbers"), metavar="FILE")


@click.command()
@kernel_options
@machine_option
@command_options(AdviseOptions)
@command_options(TraceOptions, "tracing", only=("tracer", "compiler"))
@command_options(Limits, "limits")
@command_options(AdviseFiles, "files")
def advise(
    kernel: KernelSpec,
    machine: str,
    options: AdviseOptions,
    tracing: TraceOptions,
    limits: Limits,
    files: AdviseFiles,
) -> int:
    """Try what may make a kernel faster on a machine, and rank it by predicted gain.

    KERNEL is as for 'memsim profile'. A Loopy kernel is transformed (tiles, local memory, lanes, groups,
    layouts, loops), its results are compared with the original's through OpenCL, and its time is predicted
    as by 'memsim predict'. The code of every change is shown. For every kernel, changes of the launch are
    tried, and upper bounds of what its accesses could gain.

    \b
    Examples:
      memsim advise experiments/kernels/transpose.py:naive -m v100 --set n=512
      memsim advise my_kernel.py:knl -m a100 --budget 60 --html advice.html
    """
    check_outputs({"--html": files.html, "--json": files.json})
    advice = _search(kernel, machine, options, tracing, limits)
    _write(advice, files)
    return EXIT_INTERRUPTED if advice.interrupted else 0


def _search(
    kernel: KernelSpec, machine: str, options: AdviseOptions, tracing: TraceOptions, limits: Limits
) -> Advice:
    fresh = "pyopencl" not in sys.modules  # then no OpenCL driver runs here, and a fork is safe
    from memsim.machine import load_machine

    model = load_machine(machine)
    from calib.advice.search import Search
    from tracegen.own_process import in_forked_process

    def apart(work: Callable[[], T], seconds: float) -> T:
        if not fresh:
            return work()
        time_limit = max(min(seconds, limits.time_limit), 0.1)
        return in_forked_process(
            work, dataclasses.replace(limits, time_limit=time_limit), kernel.spec
        )

    workload, settings = kernel.load_with_defaults()
    with progress_bar("trying") as progress:
        return Search(
            workload=workload,
            machine=model,
            options=options,
            tracing=tracing,
            apart=apart,
            progress=lambda done, total, _: progress(done, total),
            settings=settings,
            reload=kernel.load,
        ).run()


def _write(advice: Advice, files: AdviseFiles) -> None:
    from calib.advice.report import as_json, page

    document: dict[str, Any] = as_json(advice)
    if files.html is not None:
        write_text(files.html, page(advice))
        click.echo(f"wrote {files.html}", err=True)
    if not wrote_json(lambda: json.dumps(document, indent=1, allow_nan=False), files.json):
        _show(advice)


def _show(advice: Advice) -> None:
    from rich.text import Text

    from calib.advice import report
    from memsim.report import PlainTable

    screen = console()
    screen.print(Text(report.headline(advice), style="bold"))
    for kind, title in report.TITLES.items():
        content = report.ranking(advice, kind, only_gains=True)
        if content[1]:
            screen.print(PlainTable(title, content[0], content[1][:SHOWN]))
    for one in report.gaining(advice, *report.REAL)[:3]:
        screen.print(Text(f"\n{one.what}:", style="bold"))
        screen.print(Text(report.code_text(one)), soft_wrap=True)
    if advice.failed:
        screen.print(PlainTable("not possible", *report.failures(advice)))
    for note in report.notes(advice):
        screen.print(Text(f"note: {note}", style="dim"))
