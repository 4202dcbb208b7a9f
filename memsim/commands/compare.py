"""`memsim compare`; it imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from memsim.commands.options import counters_option, json_option, output_path
from memsim.commands.output import check_outputs, write_tables
from memsim.errors import MemsimError
from memsim.files import write_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from memsim.report.semantics import Semantics


@click.command()
@click.argument("a", metavar="A.nc", type=click.Path(path_type=Path))
@click.argument("b", metavar="B...", nargs=-1, required=True, type=click.Path(path_type=Path))
@counters_option(
    "How to count hits in both: by sectors, or as the counters of Nsight Compute or rocprof do."
)
@click.option("--kernel", metavar="NAME", help="Name of the measured kernel to compare with.")
@output_path("--html", help="Write the comparison as one self-contained page.")
@json_option("the comparison", "json")
def compare(
    a: Path,
    b: tuple[Path, ...],
    counters: Semantics,
    kernel: str | None,
    html: Path | None,
    json: Path | None,
) -> int:
    """Compare saved replays, or one with counters measured on hardware.

    A is a saved replay ('memsim replay --save'). If B is another such file, two variants of a kernel or one kernel on two
    machines are compared access by access. With several such files, all stand in one table. If B is one or more .csv files of Nsight Compute (ncu --csv; pages
    raw, details and source) or rocprof, the replay is compared with them by level and source line.

    \b
    Examples:
      memsim compare naive.nc tiled.nc --html change.html
      memsim compare v100.nc a100.nc h100.nc --json machines.json
      memsim compare k.nc raw.csv source.csv
      memsim compare k.nc results.csv --kernel spmv
    """
    check_outputs({"--html": html, "--json": json}, inputs=(a, *b))
    if any(map(_is_csv, b)):
        if counters != "sector":
            raise MemsimError(
                "--counters applies to replays: a .csv determines how hits are counted"
            )
        made = _beside_counters(a, b, kernel)
    else:
        if kernel is not None:
            raise MemsimError(f"--kernel applies to counters in .csv files, got {b[0]}")
        made = _of_replays((a, *b), counters)
    if html is not None:
        write_text(html, made.page())
        click.echo(f"wrote {html}", err=True)
    write_tables(made.tables, made.text, json)
    return 0


class Compared(NamedTuple):
    """A comparison: its tables, and functions that make its JSON and its page."""

    tables: list[Table]
    text: Callable[[], str]
    page: Callable[[], str]


def _beside_counters(saved: Path, files: tuple[Path, ...], kernel: str | None) -> Compared:
    from memsim.formats.any_trace import read_counters
    from memsim.montecarlo.result import Replay
    from memsim.report.compare import measurement_json
    from memsim.report.counters.measurement import against
    from memsim.report.counters.table import measurement_table
    from memsim.report.html import measurement_page

    counters = [read_counters(path) for path in files]
    measurement = against(Replay.load(saved).dataset, counters, kernel=kernel)
    return Compared(
        [measurement_table(measurement)],
        lambda: measurement_json(measurement),
        lambda: measurement_page(measurement),
    )


def _of_replays(paths: tuple[Path, ...], counters: Semantics) -> Compared:
    from memsim.montecarlo.result import Replay
    from memsim.report.compare import changes_data
    from memsim.report.compare import compare as compare_results
    from memsim.report.compare_table import comparison_table
    from memsim.report.html import comparison_page
    from memsim.report.summary import summarise
    from memsim.report.text import file_label
    from memsim.report.variants import accesses_table, variants_json, variants_page, variants_table

    replays = [Replay.load(path).recount(counters).dataset for path in paths]
    summaries = [summarise(one) for one in replays]
    named = list(zip(map(str, paths), summaries, strict=True))
    short = [file_label(str(path)) for path in paths]
    labels = short if len(set(short)) == len(short) else list(map(str, paths))
    variants = list(zip(labels, summaries, strict=True))
    if len(replays) > 2:
        tables = [variants_table(variants), accesses_table(variants)]
        return Compared(tables, lambda: variants_json(named), lambda: variants_page(variants))
    comparison = compare_results(*replays)
    return Compared(
        [comparison_table(comparison)],
        lambda: variants_json(named, changes_data(comparison)),
        lambda: comparison_page(comparison),
    )


def _is_csv(path: Path) -> bool:
    packed = path.suffix in (".gz", ".xz", ".zst")
    return (path.with_suffix("") if packed else path).suffix == ".csv"
