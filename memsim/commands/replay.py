"""`memsim replay`, `export` and `compare`; each imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from memsim.commands.options import (
    COUNTERS,
    ReplayOutputs,
    carry_option,
    check_launch_outputs,
    machine_option,
    output_path,
    replay_options,
    run_launches,
    run_replay,
)
from memsim.commands.output import check_outputs, console
from memsim.errors import MemsimError
from memsim.files import write_text
from memsim.montecarlo.options import ReplayOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from memsim.report.semantics import Semantics


@click.command()
@click.argument("trace_file", metavar="TRACE", type=click.Path(path_type=Path))
@machine_option
@click.option(
    "--launch",
    type=click.IntRange(min=0),
    metavar="I",
    help="The launch to replay, from 0, of a file with several.",
)
@carry_option
@replay_options
def replay(
    trace_file: Path,
    machine: str,
    launch: int | None,
    carry_l2: bool,
    options: ReplayOptions,
    outputs: ReplayOutputs,
) -> int:
    """Replay a trace through a machine's caches, under random orderings.

    TRACE is a file of 'memsim trace' or 'memsim profile --trace-out', or a trace of another tool: a
    folder or .traceg of Accel-Sim (NVBit), a folder or .mem of PPT-GPU, or a .csv. Files compressed with
    gzip, xz or zstd are read directly. The machine must have the sub-group size of the trace.

    \b
    Examples:
      memsim replay k.trace --machine h100 --ci 0.005
      memsim replay k.trace --machine v100 --trials 64 --seed 1 --html k.html --save k.nc
      memsim replay traces/ --machine v100 --launch 3
      memsim replay traces/ --machine v100 --carry-l2
    """
    from memsim.formats import read_any, read_one
    from memsim.machine.file import load_machine

    check_outputs(outputs.paths(), inputs=(trace_file,))
    target = load_machine(machine)
    if carry_l2:
        if launch is None:
            check_launch_outputs(outputs)
        return run_launches(read_any(trace_file), target, options, outputs, launch)
    return run_replay(read_one(trace_file, launch), target, options, outputs)


@click.command()
@click.argument("source", metavar="INPUT", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "to",
    type=click.Choice(["accel-sim", "cachegrind", "csv", "json"]),
    default="accel-sim",
    show_default=True,
    help="The format to write.",
)
@click.option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    required=True,
    metavar="PATH",
    help="A new or empty folder for accel-sim; otherwise a file.",
)
def export(source: Path, to: str, out: Path) -> int:
    """Write a trace, or a saved replay, in another tool's format.

    For accel-sim, INPUT is a trace as 'memsim replay' reads it; kernelslist.g and a .traceg per launch
    are written. For the others, INPUT is a saved replay ('memsim replay --save'). cachegrind: counts by source
    line, for cg_annotate and KCachegrind. csv: a row per access. json: as 'memsim replay --json'.

    \b
    Examples:
      memsim export k.trace --format accel-sim -o k-accel-sim
      memsim export k.nc --format cachegrind -o cachegrind.out.k
      memsim export k.nc --format csv -o k.csv
    """
    if to == "accel-sim":
        from memsim.formats import read_any
        from memsim.formats.accel_sim.writing import write as write_traces

        files = write_traces(read_any(source), out)
        click.echo(f"wrote {files[0]} and {len(files) - 1} kernels", err=True)
        return 0
    from memsim.montecarlo.result import Replay

    check_outputs({"--out": out}, inputs=(source,))
    replay = Replay.load(source)
    if to == "cachegrind":
        from memsim.report.cachegrind import write

        files = write(replay.dataset, out)
    elif to == "csv":
        from memsim.report.access_csv import write_site_csv
        from memsim.report.summary import summarise

        files = [write_site_csv(summarise(replay.dataset), out)]
    else:
        replay.to_json(out)
        files = [out]
    for file in files:
        click.echo(f"wrote {file}", err=True)
    return 0


@click.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--counters",
    type=click.Choice(COUNTERS),
    default="sector",
    help="How to count hits in both: by sectors, or as the counters of Nsight Compute or rocprof do.",
)
@click.option("--kernel", metavar="NAME", help="Name of the measured kernel to compare with.")
@output_path("--html", help="Write the comparison as one self-contained page.")
def compare(
    a: Path,
    b: tuple[Path, ...],
    counters: Semantics,
    kernel: str | None,
    html: Path | None,
) -> int:
    """Compare a saved replay with another one, or with counters measured on hardware.

    A is a saved replay ('memsim replay --save'). If B is another such file, two variants of a kernel or one kernel on two
    machines are compared access by access. If B is one or more .csv files of Nsight Compute (ncu --csv; pages
    raw, details and source) or rocprof, the replay is compared with them by level and source line.

    \b
    Examples:
      memsim compare naive.nc tiled.nc --html change.html
      memsim compare k.nc raw.csv source.csv
      memsim compare k.nc results.csv --kernel spmv
    """
    check_outputs({"--html": html}, inputs=(a, *b))
    if _is_csv(b[0]):
        if counters != "sector":
            raise MemsimError(
                "--counters applies to two replays: a .csv determines how hits are counted"
            )
        shown, page = _beside_counters(a, b, kernel)
    else:
        if len(b) > 1 or kernel is not None:
            what = "--kernel" if kernel is not None else "more than one B"
            raise MemsimError(f"{what} applies to counters in .csv files, got {b[0]}")
        shown, page = _beside_replay(a, b[0], counters)
    console().print(shown)
    if html is not None:
        write_text(html, page())
        click.echo(f"wrote {html}", err=True)
    return 0


def _beside_counters(
    saved: Path, files: tuple[Path, ...], kernel: str | None
) -> tuple[Table, Callable[[], str]]:
    """The comparison with a profiler's counters as a table, and a function that makes its page."""
    from memsim.formats.profilers.read import read_counters
    from memsim.montecarlo.result import Replay
    from memsim.report.counters.measurement import against
    from memsim.report.counters.table import measurement_table
    from memsim.report.html import measurement_page

    counters = [read_counters(path) for path in files]
    measurement = against(Replay.load(saved).dataset, counters, kernel=kernel)
    return measurement_table(measurement), lambda: measurement_page(measurement)


def _beside_replay(a: Path, b: Path, counters: Semantics) -> tuple[Table, Callable[[], str]]:
    """The comparison of two replays as a table, and a function that makes its page."""
    from memsim.montecarlo.result import Replay
    from memsim.report.compare import compare as compare_results
    from memsim.report.compare_table import comparison_table
    from memsim.report.html import comparison_page

    left, right = (Replay.load(path).recount(counters).dataset for path in (a, b))
    comparison = compare_results(left, right)
    return comparison_table(comparison), lambda: comparison_page(comparison)


def _is_csv(path: Path) -> bool:
    packed = path.suffix in (".gz", ".xz", ".zst")
    return (path.with_suffix("") if packed else path).suffix == ".csv"
