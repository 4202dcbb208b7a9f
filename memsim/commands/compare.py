"""`memsim compare`; it imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from memsim.commands.options import COUNTERS, output_path
from memsim.commands.output import check_outputs, console
from memsim.errors import MemsimError
from memsim.files import write_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from memsim.report.semantics import Semantics


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
    if html is not None:
        write_text(html, page())
        click.echo(f"wrote {html}", err=True)
    console().print(shown)
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
