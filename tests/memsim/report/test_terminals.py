"""The terminal's table where there is little room, no colour, and much to show."""

from __future__ import annotations

import functools
import re

import pytest

from memsim.machine.file import load_machine
from memsim.machine.table import machine_rows
from memsim.montecarlo.result import Replay
from memsim.report.compare import compare
from memsim.report.compare_table import comparison_table
from memsim.report.html import replay_page
from memsim.report.launch_time import keep_time
from memsim.report.plain_table import PlainTable
from memsim.report.summary import summarise
from memsim.report.variants import accesses_table
from tests.memsim.report.test_launch_time import PREDICTED
from tests.support.fake_replay import SITES, fake_dataset
from tests.support.outline import printed

LONG_NAME = "x" * 500
COLOUR = re.compile(r"\x1b\[(?:\d+;)*3[0-7]m")


@functools.cache
def many(n: int, name: str = "x") -> Replay:
    sites = tuple((f"{name}[{k}]", f"{name}{k}", *SITES[k % 6][2:]) for k in range(n))
    return Replay(fake_dataset(n_trials=3, sites=sites, kernel="k" * 500))


@pytest.mark.parametrize("width", [40, 71, 72, 80, 200])
def test_nothing_is_cut_at_any_width(width: int) -> None:
    replay = Replay(keep_time(fake_dataset(), PREDICTED))
    content = printed(replay.table(), width)
    assert max(map(len, content.splitlines())) <= width
    assert "…" not in content
    words = " ".join(content.split())
    assert "DRAM-bound: 718 ± 18 us, at least 640 us for DRAM" in words
    assert "predicted time 718 us (95 % interval: 700 us to 736 us)" in words
    for name in replay.site_names:
        assert name in content


def test_forty_columns_have_one_column_of_text() -> None:
    """No word is broken, as it would be in a narrow column beside another."""
    content = printed(Replay(fake_dataset()).table(), 40)
    for words in ("val[jj]", "spmv.py:13", "sectors per access", "of the latency"):
        assert words in content


def test_a_hundred_accesses_have_a_row_each() -> None:
    content = printed(many(100).table(), 160)
    assert all(f"x[{k}]" in content for k in range(100))


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
    assert "more accesses" not in printed(many(30).table(), width, terminal=True)


def test_a_page_of_many_accesses_has_cards_and_bars_of_the_first_alone() -> None:
    content = replay_page(many(90).dataset)
    summary = summarise(many(90).dataset)
    assert content.count("What to try for the launch") == 1  # all loads together coalesce poorly
    assert content.count('<article class="finding">') == 1 + 1, summary.loads[1].share
    assert content.count('class="plot"') == 30
    assert f"The first 30 of {len(summary.loads)} loads" in content


@pytest.mark.parametrize("width", [40, 80, 160])
def test_long_names_lose_their_middle(width: int) -> None:
    """Begin and end are shown, which tell accesses apart; no line is longer than the terminal."""
    content = printed(many(3, LONG_NAME).table(), width)
    assert max(map(len, content.splitlines())) <= width
    assert LONG_NAME not in "".join(content.split())
    for k in range(3):
        assert f"x[{k}]" in "".join(content.split())


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = compare(fake_dataset(n_trials=8), fake_dataset(n_trials=8, l1_shift=0.1))
    tables = (Replay(fake_dataset()).table(), comparison_table(changed))
    for table in tables:
        assert "\x1b[" not in printed(table, 120)
        assert COLOUR.search(printed(table, 120, terminal=True))
    monkeypatch.setenv("NO_COLOR", "1")
    for table in tables:
        assert not COLOUR.search(printed(table, 120, terminal=True))
    assert "▲" in printed(tables[1], 120), "directions do not depend on colours"


def test_no_number_is_cut_off_on_40_columns() -> None:
    a, b = fake_dataset(n_trials=8), fake_dataset(n_trials=8, l1_shift=0.1)
    named = [(name, summarise(one)) for name, one in (("a.nc", a), ("b.nc", b))]
    for table in (
        comparison_table(compare(a, b)),
        accesses_table(named),
        PlainTable("v100", *machine_rows(load_machine("v100"))),
    ):
        content = printed(table, 40)
        assert "…" not in content
        assert max(map(len, content.splitlines())) <= 40
    for name, least in (("val[jj]", "A: "), ("n_cores", "value: 80")):
        assert name in printed(accesses_table(named), 40) + content
        assert least in printed(accesses_table(named), 40) + content
