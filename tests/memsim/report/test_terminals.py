"""The terminal's table where there is little room, no colour, and much to show."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memsim.formats.profilers.counter_file import CounterFile, LaunchCounters
from memsim.machine.file import load_machine
from memsim.machine.table import machine_rows
from memsim.montecarlo.result import Replay
from memsim.report.compare import compare
from memsim.report.compare_table import comparison_table
from memsim.report.counters.measurement import against
from memsim.report.counters.table import measurement_table
from memsim.report.html import replay_page
from memsim.report.launch_time import keep_time
from memsim.report.plain_table import PlainTable
from memsim.report.summary import summarise
from memsim.report.variants import accesses_table, variants_table
from tests.memsim.report.test_launch_time import PREDICTED
from tests.support.fake_replay import SITES, fake_dataset
from tests.support.outline import printed

LONG_NAME = "x" * 500
COLOUR = re.compile(r"\x1b\[(?:\d+;)*3[0-7]m")


@functools.cache
def many(n: int, name: str = "x") -> Replay:
    sites = tuple((f"{name}[{k}]", f"{name}{k}", *SITES[k % 6][2:]) for k in range(n))
    return Replay(fake_dataset(n_trials=3, sites=sites, kernel="k" * 500))


def replay_table() -> Any:
    return Replay(keep_time(fake_dataset(), PREDICTED)).table()


def compared() -> Any:
    return comparison_table(
        compare(fake_dataset(n_trials=8), fake_dataset(n_trials=8, l1_shift=0.1))
    )


def variants(table: Callable[[Any], Any], name: str) -> Any:
    return table([(f"{k}.nc{name}", summarise(fake_dataset(n_trials=8, seed=k))) for k in range(3)])


def counted() -> Any:
    counters = {"lts__t_sector_hit_rate.pct": 55.0, "dram__bytes_read.sum": 1e9, "lts__what": 3.0}
    launch = LaunchCounters(id="0", kernel="spmv", n_groups=None, counters=counters)
    file = CounterFile(path=Path("k.csv"), tool="nsight", launches=(launch,), lines=())
    return measurement_table(against(fake_dataset(), [file]))


def heads_of_numbers() -> Any:
    heads = ["variant", *(f"at least, for resource {k}" for k in range(6))]
    return PlainTable("", heads, [["v100@1000MHz", *["819.2 ns"] * 6]])


SITE_NAMES = tuple(name for name, *_ in SITES)
TIME = "predicted time 718 us (95 % interval: 700 us to 736 us)"
NUMBERS = ("27.4", "50.", "± 0.1", "not validated", "72 %", "± 2.1 model")
BOUND = "DRAM-bound: 718 ± 18 us, at least 640 us for DRAM"
OTHER_RATE = ("a write always hits", "without a counterpart here: lts__what")
MACHINE = ("n_cores", "value: 80")
SOME = (40, 80, 200)
TABLES: dict[str, tuple[Callable[[], Any], tuple[int, ...], tuple[str, ...]]] = {
    "replay": (replay_table, (40, 71, 72, 80, 127, 128, 200), (*SITE_NAMES, *NUMBERS, BOUND, TIME)),
    "comparison": (compared, (40, 60, 80, 96, 97, 130), SITE_NAMES),
    "accesses": (lambda: variants(accesses_table, ""), SOME, ("val[jj]", "A: ")),
    "long names": (lambda: variants(accesses_table, "n=10" * 30), SOME, ()),
    "variants": (lambda: variants(variants_table, "n=10" * 30), SOME, ()),
    "machine": (lambda: PlainTable("v100", *machine_rows(load_machine("v100"))), (40,), MACHINE),
    "counters": (counted, (70, 100, 160), OTHER_RATE),
    "heads of numbers": (heads_of_numbers, (60, 80, 160), ("v100@1000MHz", *["819.2 ns"] * 6)),
}
"""Kind of table -> how it is made, widths of terminals (where it changes its form, too), and what it shows."""


@pytest.mark.parametrize("kind", TABLES)
def test_nothing_is_cut_at_any_width(kind: str) -> None:
    make, widths, said = TABLES[kind]
    table = make()
    for width in widths:
        content = printed(table, width)
        assert max(map(len, content.splitlines())) <= width
        assert "…" not in content or kind in ("long names", "variants")
        words = " ".join(content.split())
        assert [one for one in said if words.count(one) < said.count(one)] == []


def test_forty_columns_have_one_column_of_text() -> None:
    """No word is broken, as it would be in a narrow column beside another."""
    content = printed(replay_table(), 40)
    for words in ("val[jj]", "spmv.py:13", "sectors per access", "of the latency"):
        assert words in content


@pytest.mark.parametrize("width", [40, 160])
def test_a_terminal_shows_the_first_of_many_accesses_and_counts_the_rest(width: int) -> None:
    content = printed(many(45).table(), width, terminal=True)
    names = set(re.findall(r"x\[(\d+)\]", content))
    assert len(names) == 30
    assert "and 15 more accesses with" in content
    rest = sum(
        site.share.mean
        for site in summarise(many(45).dataset).sites[30:]
        if site.latency_cycles.is_defined
    )
    assert f"{100 * rest:.1f} % of the load latency" in " ".join(content.split())
    if width == 160:
        assert "more accesses" not in printed(many(30).table(), width, terminal=True)
        everywhere_else = printed(many(45).table(), width)
        assert all(f"x[{k}]" in everywhere_else for k in range(45))


def test_a_page_of_many_accesses_has_cards_and_bars_of_the_first_alone() -> None:
    content = replay_page(many(90).dataset)
    summary = summarise(many(90).dataset)
    assert content.count("What to try for the launch") == 1  # all loads together coalesce poorly
    assert content.count('<article class="finding">') == 1 + 1, summary.loads[1].share
    assert content.count('class="plot"') == 30
    assert f"The first 30 of {len(summary.loads)} loads" in content


@pytest.mark.parametrize("width", [40, 160])
def test_long_names_lose_their_middle(width: int) -> None:
    """Begin and end are shown, which tell accesses apart; no line is longer than the terminal."""
    content = printed(many(3, LONG_NAME).table(), width)
    assert max(map(len, content.splitlines())) <= width
    words = "".join(content.split())
    assert LONG_NAME not in words
    assert all(f"x[{k}]" in words for k in range(3))


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = (replay_table(), compared())
    for table in tables:
        assert "\x1b[" not in printed(table, 120)
        assert COLOUR.search(printed(table, 120, terminal=True))
    monkeypatch.setenv("NO_COLOR", "1")
    for table in tables:
        assert not COLOUR.search(printed(table, 120, terminal=True))
    assert "▲" in printed(tables[1], 120), "directions do not depend on colours"


# Plain tables

COLUMNS = ("block", "executions", "waits for", "note")
ROWS = [("B0", "1,024", "values[j]", "begins [bold]here[/bold]"), ("B1", "7", "x[indices[j]]", "-")]


def lines_of(columns: int, rows: list[tuple[str, ...]] = ROWS) -> list[str]:
    table = PlainTable("blocks of k", COLUMNS, rows)
    return printed(table, columns).rstrip("\n").split("\n")


def test_numbers_stand_to_the_right_and_markup_is_text() -> None:
    title, head, first, second = (line.rstrip() for line in lines_of(80))
    assert title == "blocks of k"
    assert head.index("executions") + len("executions") == first.index("1,024") + len("1,024")
    assert second.index("7") == first.index("4", first.index("1,02"))
    assert first.index("values[j]") == second.index("x[indices[j]]")
    assert first.endswith("begins [bold]here[/bold]")


@pytest.mark.parametrize("columns", [80, 20])
def test_what_a_terminal_would_obey_is_text(columns: int) -> None:
    lines = lines_of(columns, [("a\x1b[31mb\u202e", "1", "two\nlines", "\x07")])
    assert all(line.isprintable() for line in lines)
    assert r"a\x1b[31mb\u202e" in "".join(line.strip() for line in lines)


def test_narrow_console_gives_a_line_to_each_cell() -> None:
    lines = lines_of(40)
    assert lines[1:5] == [
        "B0".ljust(len(lines[1])),
        *(f"  {name}: {cell}".ljust(len(lines[1])) for name, cell in zip(COLUMNS[1:], ROWS[0][1:], strict=True)),
    ]  # fmt: skip
    assert max(map(len, lines)) <= 40


def test_long_cells_of_a_plain_table_lose_their_middle() -> None:
    text = "".join(lines_of(40, [("B" * 500, "3", "", "a\nb")]))
    assert 100 < text.count("B") < 130
    assert " … " in text
    assert "a, b" in text
    assert "waits for" not in text


def test_no_rows_are_a_head() -> None:
    assert lines_of(80, [])[1].split() == ["block", "executions", "waits", "for", "note"]
