"""The command predict: a kernel's time on a machine, without any calibration, or by a fitted model.

Imports nothing heavy: the group's help loads it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from memsim.commands import (
    STDOUT,
    check_outputs,
    console,
    output_path,
    setting_option,
    working,
)
from memsim.errors import MemsimError
from memsim.files import whole_file
from memsim.montecarlo import usable_cores

if TYPE_CHECKING:
    from calib.prediction.prediction import Prediction, Settings
    from memsim.trace import Trace

PICTURES = (".png", ".svg", ".pdf")


def _trips(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, float]:
    found: dict[str, float] = {}
    for value in values:
        name, _, text = value.partition("=")
        try:
            found[name] = float(text)
        except ValueError:
            raise click.BadParameter(
                f"must be LOOP=NUMBER, got '{value}'", ctx, parameter
            ) from None
        if not 0 <= found[name] < float("inf"):
            raise click.BadParameter(f"must not be negative, got '{value}'", ctx, parameter)
    return found


@click.command()
@click.argument("spec", metavar="KERNEL")
@click.option(
    "--machine",
    "-m",
    metavar="NAME",
    help="A shipped machine ('memsim machines' lists them) or a .toml file.",
)
@setting_option
@click.option(
    "--what-if",
    "what_if",
    multiple=True,
    metavar="CHANGES",
    help="Predict once more with changes, a comma between them: blocks_per_core=4, l1=64KiB,"
    " no-barriers, no-latency, registers=40, dram=2x, fp32_fma=2x. Repeat for other sets.",
)
@click.option(
    "--mode",
    type=click.Choice(["simulated", "paper"]),
    default="simulated",
    show_default=True,
    help="Fed by a replay; or one latency and one bandwidth, hits ignored, as the paper has it.",
)
@click.option(
    "--solver",
    type=click.Choice(["events", "equation"]),
    default="events",
    show_default=True,
    help="Sub-groups in turn, event by event; or the paper's equation, corrected.",
)
@click.option("--trials", type=click.IntRange(min=1), default=16, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--jobs", type=click.IntRange(min=1), default=usable_cores, show_default="usable cores"
)
@click.option(
    "--registers", type=click.IntRange(min=1), help="32-bit registers per work-item, if known."
)
@click.option("--groups-per-core", type=click.IntRange(min=1), help="Resident groups.")
@click.option(
    "--loads-in-flight",
    type=click.IntRange(min=1),
    metavar="N",
    help="Loads that a work-item has registers for at once. [default: all that stand together]",
)
@click.option(
    "--trips",
    multiple=True,
    metavar="LOOP=N",
    callback=_trips,
    help="Turns of a loop whose bounds are read from memory. [default: as in the trace]",
)
@click.option("--groups", type=click.IntRange(min=1), metavar="N", help="Trace so many groups.")
@click.option("--launch", type=click.IntRange(min=0), metavar="I", help="Which launch, from 0.")
@click.option(
    "--follow",
    metavar="NAME=LOW:HIGH",
    help="Predict at these sizes, and follow the time to the size asked for, where blocks are counted"
    " and nothing runs.",
)
@click.option(
    "--model",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Predict by a model that 'memsim calibrate' fitted, instead.",
)
@output_path("--html", help="Write a page with everything, the timeline included.")
@output_path("--png", help="Draw the timeline of a few sub-groups (.png, .svg, .pdf).")
@output_path("--json", help="Write the numbers as JSON ('-': to standard output).")
def predict(
    spec: str,
    machine: str | None,
    settings: dict[str, str],
    what_if: tuple[str, ...],
    mode: Literal["simulated", "paper"],
    solver: Literal["events", "equation"],
    trials: int,
    seed: int,
    jobs: int,
    registers: int | None,
    groups_per_core: int | None,
    loads_in_flight: int | None,
    trips: dict[str, float],
    groups: int | None,
    launch: int | None,
    follow: str | None,
    model: Path | None,
    html: Path | None,
    png: Path | None,
    json: Path | None,
) -> int:
    """Say how long a kernel takes on a machine, and what that time is spent on.

    KERNEL is FILE.py:NAME or PACKAGE.MODULE:NAME, as for 'memsim profile'. No GPU is needed and
    nothing is calibrated: blocks come from the kernel, hit ratios and bytes from a replay,
    throughputs from the machine's file.

    \b
    Examples:
      memsim predict experiments/kernels/matmul.py:tiled -m v100 --set n=1024 --html tiled.html
      memsim predict my_kernel.py:knl -m a100 --what-if blocks_per_core=4,l1=64KiB,no-barriers
      memsim predict my_kernel.py:knl -m a100 --set n=65536 --follow n=1024:8192
    """
    if model is not None:
        if machine is not None or what_if or html is not None:
            raise MemsimError("--model goes without --machine, --what-if and --html")
        from calib.commands.predict_model import predict_with_model

        return predict_with_model(spec, model, settings, plot=png, json_out=json)
    if machine is None:
        raise MemsimError("--machine NAME is wanted, or --model FILE")
    check_outputs({"--html": html, "--png": png, "--json": json})
    if follow is not None:
        for name, value in (("--what-if", what_if), ("--html", html), ("--png", png)):
            if value:
                raise MemsimError(
                    f"{name} does not go with --follow: nothing is traced at that size"
                )
    if png is not None and png.suffix not in PICTURES:
        raise MemsimError(f"--png must end in {', '.join(PICTURES)}, got {png}")
    from calib.prediction.prediction import Settings

    chosen = Settings(
        mode=mode,
        solver=solver,
        trials=trials,
        seed=seed,
        jobs=jobs,
        registers=registers,
        groups_per_core=groups_per_core,
        loads_in_flight=loads_in_flight,
        trips=trips,
    )
    if follow is not None:
        from calib.commands.predict_followed import predict_followed

        return predict_followed(spec, settings, machine, chosen, follow, json)
    found, changed = _predict(spec, settings, machine, chosen, what_if, groups, launch)
    _write(found, changed, html=html, png=png, json_out=json)
    return 0


def _predict(
    spec: str,
    settings: dict[str, str],
    name: str,
    chosen: Settings,
    what_if: tuple[str, ...],
    groups: int | None,
    launch: int | None,
) -> tuple[Prediction, list[tuple[str, Prediction]]]:
    import tracegen
    from calib.prediction.prediction import predict as predicted
    from calib.prediction.prediction import predict_changed
    from calib.prediction.what_if import parse
    from memsim.machine import load_machine

    machine = load_machine(name)
    changes = [parse(text, machine) for text in what_if]
    workload = tracegen.load_kernel(spec, settings)
    with working("tracing"):
        traces: list[Trace] = tracegen.trace_snapshots(
            workload, machine, snapshots=1, groups=groups, launch=launch
        )
    with working("replaying"):
        found = predicted(workload, traces, machine, chosen)
        changed = [(c.text, predict_changed(found, traces, chosen, c)) for c in changes]
    return found, changed


def _write(
    found: Prediction,
    changed: list[tuple[str, Prediction]],
    *,
    html: Path | None,
    png: Path | None,
    json_out: Path | None,
) -> None:
    from calib.prediction.prediction import as_json

    document: dict[str, Any] = as_json(found)
    document["what_if"] = [{"changes": text, **as_json(other)} for text, other in changed]
    text = json.dumps(document, indent=1, allow_nan=False)
    if json_out is not None and str(json_out) == str(STDOUT):
        click.echo(text)
    else:
        _show(found, changed)
        if json_out is not None:
            with whole_file(json_out) as path:
                path.write_text(text + "\n", encoding="utf-8")
    if html is not None:
        from calib.prediction.report import page

        with whole_file(html) as path:
            path.write_text(page(found, changed), encoding="utf-8")
    if png is not None:
        from calib.prediction.timeline import draw

        with whole_file(png) as path:
            draw(found).savefig(path, dpi=150, format=png.suffix[1:])


def _show(found: Prediction, changed: list[tuple[str, Prediction]]) -> None:
    from rich.text import Text

    from calib.prediction.report import (
        accesses_table,
        blocks_table,
        comparison,
        floors_table,
        headline,
        residency_line,
        rich_table,
    )

    screen = console()
    screen.print(Text(headline(found), style="bold"))
    screen.print(Text(residency_line(found)))
    screen.print(rich_table("", floors_table(found)))
    loads = accesses_table(found)
    if loads[1]:  # the paper's inputs know of no single access
        screen.print(rich_table("loads, latency in cycles", loads))
    screen.print(rich_table("basic blocks, cycles of one sub-group", blocks_table(found)))
    for text, other in changed:
        screen.print(Text(f"with {text}: {comparison(found, other)}"))
    for note in found.notes:
        screen.print(Text(f"note: {note}", style="dim"))
