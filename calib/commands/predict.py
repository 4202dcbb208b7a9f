"""The command predict: the time of a kernel on a machine, without calibration, or by a fitted model."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from calib.commands import check_picture
from calib.prediction.options import PredictOptions
from memsim.commands import (
    STDOUT,
    check_outputs,
    console,
    each_variant,
    json_help,
    machines_option,
    working,
    write_tables,
    wrote_json,
)
from memsim.errors import MemsimError
from memsim.files import write_text, write_whole
from memsim.options import Options, command_options, option
from tracegen.commands import (
    KernelSpec,
    kernels_options,
    replay_grown,
    trace_snapshots,
    variants_of,
)
from tracegen.options import TraceOptions
from tracegen.own_process import Limits

if TYPE_CHECKING:
    from rich.table import Table

    from calib.prediction.prediction import Prediction
    from memsim.montecarlo import Grows, Replay
    from memsim.trace import Trace

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class PredictFiles(Options):
    """The files that the command writes."""

    html: Path | None = option(
        None, "Write a page with all tables and the timeline.", metavar="FILE"
    )
    plot: Path | None = option(
        None,
        "Draw the timeline of a few sub-groups (.png, .svg, .pdf).",
        metavar="FILE",
        flags=("--plot", "--png"),
    )
    json: Path | None = option(None, json_help("the numbers"), metavar="FILE")

    @property
    def needs_time(self) -> bool:
        """Whether what-ifs and the timeline are shown."""
        return self.html is not None or self.json != STDOUT

    def check(self) -> None:
        """Raises MemsimError where a file cannot be written later."""
        check_outputs({"--html": self.html, "--plot": self.plot, "--json": self.json})
        check_picture("--plot", self.plot)


@click.command()
@kernels_options
@machines_option(required=False)
@click.option(
    "--what-if",
    "what_if",
    multiple=True,
    metavar="CHANGES",
    help="Predict also with changes, separated by commas: groups_per_core=4, l1=64KiB, no-barriers,"
    " no-latency, registers=40, dram=2x, fp32_fma=2x. Repeat for other sets of changes.",
)
@command_options(PredictOptions)
@command_options(TraceOptions, "tracing")
@click.option(
    "--follow",
    metavar="NAME=LOW:HIGH",
    help="Predict at these sizes and extrapolate the time to the size of --set. At that size, basic blocks are"
    " counted, but nothing is traced.",
)
@click.option(
    "--model",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Predict with this model, fitted by 'memsim calibrate', instead of a machine.",
)
@command_options(Limits, "limits")
@command_options(PredictFiles, "files")
def predict(
    kernels: list[KernelSpec],
    machines: tuple[str, ...],
    options: PredictOptions,
    what_if: tuple[str, ...],
    tracing: TraceOptions,
    follow: str | None,
    model: Path | None,
    limits: Limits,
    files: PredictFiles,
) -> int:
    """Predict how long a kernel takes on a machine, and what limits it.

    KERNEL is FILE.py:NAME, PACKAGE.MODULE:NAME, FILE.cl:NAME, FILE.cu:NAME, FILE.hip:NAME or
    FILE.floopy:SUBROUTINE, as for 'memsim profile'. No GPU and no calibration are needed: basic blocks are
    those of the machine code, hit ratios and bytes from a replay, throughputs from the machine's file.

    With several machines, or several values of a setting, every combination is a row of one table.

    \b
    Examples:
      memsim predict experiments/kernels/matmul.py:tiled -m v100 --set n=1024 --html tiled.html
      memsim predict my_kernel.py:knl -m a100 --what-if groups_per_core=4,l1=64KiB,no-barriers
      memsim predict my_kernel.py:knl -m v100 -m a100 --set n=4096,65536
      memsim predict my_kernel.py:knl -m a100 --set n=65536 --follow n=1024:8192
    """
    if model is not None:
        if machines or what_if or files.html is not None or kernels[0].arguments:
            raise MemsimError(
                "--model cannot be combined with --machine, --args, --what-if or --html"
            )
        from calib.commands.predict_model import predict_with_model

        kernel = _only(kernels, "--model")
        return predict_with_model(
            kernel.spec, model, kernel.settings, plot=files.plot, json_out=files.json
        )
    if not machines:
        raise MemsimError("--machine NAME or --model FILE is required")
    files.check()
    described = {"--what-if": what_if, "--html": files.html, "--plot": files.plot}
    if follow is not None:
        _refuse(described, "cannot be combined with --follow: nothing is traced at that size")
        from calib.commands.predict_followed import predict_followed

        kernel, machine = _only(kernels, "--follow"), _only(machines, "--follow")
        return predict_followed(kernel, machine, options, tracing, follow, files.json)
    variants = variants_of(machines, kernels)
    if len(variants) > 1:
        _refuse(described, f"describes one variant, got {len(variants)}")

        def predicted(kernel: KernelSpec, machine: str) -> Prediction:
            base = predict_one(kernel, machine, options, (), tracing, limits)[0]
            return dataclasses.replace(base, traces=())  # which take memory

        return each_variant(
            {label: partial(predicted, one, machine) for label, machine, one in variants},
            lambda done: write_tables(
                [_variants_table(done)], lambda: _variants_json(done), files.json
            ),
            lambda _: False,
        )
    base, changed = predict_one(kernels[0], machines[0], options, what_if, tracing, limits)
    _write(base, changed, files)
    return 0


def _refuse(options: Mapping[str, Any], why: str) -> None:
    """Raises MemsimError for the first of these options that is given."""
    for name, value in options.items():
        if value:
            raise MemsimError(f"{name} {why}")


def _only(values: Sequence[T], option: str) -> T:
    """The only value; an error that names the option where there are several."""
    if len(values) > 1:
        raise MemsimError(f"{option} takes one machine and one value of each setting")
    return values[0]


def predict_one(
    kernel: KernelSpec,
    name: str,
    options: PredictOptions,
    what_if: tuple[str, ...],
    tracing: TraceOptions,
    limits: Limits,
) -> tuple[Prediction, list[tuple[str, Prediction]]]:
    """The prediction of a kernel on a machine of a name, and those with what-if changes."""
    from calib.prediction.what_if import parse
    from memsim.machine import load_machine

    machine = load_machine(name)
    changes = [parse(text, machine) for text in what_if]
    from calib.prediction import prediction

    traces: list[Trace] = []

    def replay_all(traced: list[Trace], grows: Grows) -> Replay:
        traces[:] = traced
        with working("replaying"):
            return prediction.run_replay(traces, machine, options, grows=grows)

    replay = None
    if options.mode == "paper" or tracing.groups is not None:
        traces = trace_snapshots(kernel, machine, tracing, 1, limits)
    else:
        replay = replay_grown(kernel, machine, tracing, limits, replay_all, None)
    with working("predicting"):
        base = prediction.predict(traces, machine, options, replay=replay)
        changed = [(c.text, prediction.predict_changed(base, traces, options, c)) for c in changes]
    return base, changed


def _write(base: Prediction, changed: list[tuple[str, Prediction]], files: PredictFiles) -> None:
    from calib.prediction.launch_time import time_data
    from calib.prediction.prediction import as_json

    document: dict[str, Any] = as_json(base)
    document["what_if"] = [{"changes": text, **as_json(other)} for text, other in changed]
    time = time_data(base, changed) if files.needs_time else {}
    if not wrote_json(lambda: json.dumps(document, indent=1, allow_nan=False), files.json):
        _show(base, time)
    if files.html is not None:
        from calib.prediction.report import page

        write_text(files.html, page(base, time))
        click.echo(f"wrote {files.html}", err=True)
    if files.plot is not None:
        from calib.prediction.timeline import draw

        picture, kind = draw(base), files.plot.suffix[1:]
        write_whole(files.plot, lambda path: picture.savefig(path, dpi=150, format=kind))
        click.echo(f"wrote {files.plot}", err=True)


def _show(base: Prediction, time: dict[str, Any]) -> None:
    from rich.text import Text

    from calib.prediction.report import (
        accesses_table,
        blocks_table,
        floors_table,
        headline,
        residency_line,
        try_first,
        what_if_table,
    )
    from memsim.report import PlainTable

    screen = console()
    for line in base.first_lines:
        screen.print(Text(line))
    screen.print(Text(headline(base, time), style="bold"))
    for line in filter(None, (try_first(base, time), str(base))):
        screen.print(Text(line))
    screen.print(Text(residency_line(base)))
    screen.print(PlainTable("", *floors_table(base)))
    screen.print(PlainTable("what if", *what_if_table(time)))
    loads = accesses_table(base)
    if loads[1]:  # mode `paper` has no costs of single accesses
        screen.print(PlainTable("loads by visible latency, in cycles", *loads))
    screen.print(PlainTable("basic blocks, in cycles of one sub-group", *blocks_table(base)))
    for note in base.notes:
        screen.print(Text(f"note: {note}", style="dim"))


def _variants_json(done: Sequence[tuple[str, Prediction]]) -> str:
    from calib.prediction.prediction import as_json

    rows: list[dict[str, Any]] = [{"name": label, **as_json(one)} for label, one in done]
    return json.dumps({"schema": 1, "variants": rows}, indent=1, allow_nan=False)


def _variants_table(done: Sequence[tuple[str, Prediction]]) -> Table:
    """Time, what binds it and the bounds below it; texts come from kernels and are not read as markup."""
    from calib.prediction.report import seconds
    from memsim.report import UNKNOWN, PlainTable, number_of

    floors = list(dict.fromkeys(name for _, one in done for name in one.timing.floors_s))
    rows = []
    for label, one in done:
        estimate, least = one.timing.estimate, one.timing.floor_means_s
        interval = (
            f"{seconds(estimate.low)} to {seconds(estimate.high)}"
            if estimate.has_interval
            else UNKNOWN
        )
        rows.append(
            [
                label,
                seconds(estimate.mean),
                interval,
                one.timing.binds,
                *(seconds(least[n]) if n in least else UNKNOWN for n in floors),
                f"{number_of(one.timing.residents.groups_per_core, 'group')} per core",
            ]
        )
    head = ["variant", "time", "95 % interval", "limited by", *(f"at least, {n}" for n in floors)]
    return PlainTable("", [*head, "occupancy"], rows)
