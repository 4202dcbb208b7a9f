"""What commands show while they work: on a terminal in one place, elsewhere as few lines."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from memsim.commands import showing
from memsim.commands.provisional import provisional_results
from memsim.commands.showing import Display, LiveDisplay, display
from memsim.montecarlo.result import Replay
from memsim.progress import COMPILING, as_part, heard_by, report
from tests.support.fake_replay import fake_dataset


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, as the only item of a list."""
    now = [100.0]
    monkeypatch.setattr(showing.time, "monotonic", lambda: now[0])
    return now


def screen(width: int = 80, height: int = 30, **settings: object) -> Console:
    return Console(file=io.StringIO(), width=width, height=height, **settings)  # type: ignore[arg-type]


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


REPLAYING = [(float(s), "replaying" if s else "tracing", s, 40) for s in range(25)]
LINES: dict[str, tuple[list[tuple[float, str, int, int]], list[str]]] = {
    "a line every ten seconds of long work": (
        REPLAYING,
        ["replaying: 11 of at most 40, 10 s", "replaying: 21 of at most 40, 20 s"],
    ),
    "none of short work": (
        [(9.0, "tracing", 0, 0), (18.0, "replaying", 0, 0), (27.0, "writing k.html", 0, 0)],
        [],
    ),
    # It takes a minute, of which a user saw nothing for 12 seconds.
    "that loops are compiled at once and once": (
        [(float(s), COMPILING, s + 1, 0) for s in range(12)],
        [COMPILING, f"{COMPILING}: 11 so far, 10 s"],
    ),
}


@pytest.mark.parametrize("case", LINES)
def test_without_a_terminal_lines_are_shown(
    case: str, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    shown, (events, lines) = Display(screen()), LINES[case]
    for second, *event in events:
        clock[0] = 100.0 + second
        shown.hear(*event)
    assert capsys.readouterr().err.splitlines() == [f"memsim: {line}" for line in lines]


def test_a_provisional_result_without_a_terminal_is_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = Display(screen())
    tell = provisional_results(shown, "sector")
    replay = Replay(fake_dataset(n_trials=2))
    for n in (2, 3, 4):
        tell(n, lambda: replay)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2  # at 2 trials and at twice as many
    assert all(line.startswith("memsim: provisional, 2 orderings: L1 load hits ") for line in lines)
    assert "most latency: " in lines[0]


@pytest.mark.parametrize(("width", "no_color"), [(40, False), (200, True)])
def test_a_terminal_shows_progress_and_the_provisional_table_in_place(
    width: int, no_color: bool
) -> None:
    console = screen(width, 24, force_terminal=True, no_color=no_color, color_system="standard")
    shown = LiveDisplay(console)
    tell = provisional_results(shown, "sector")
    with shown.live:
        shown.hear("replaying", 2, 70)
        tell(2, lambda: Replay(fake_dataset(n_trials=2)))
        shown.hear("replaying", 3, 70)
        text = written(console)
    assert "replaying" in text
    assert "3 of at most 70" in text
    assert "provisional, 2 orderings" in " ".join(text.split())
    assert ("\x1b[33" in text or "\x1b[1;33" in text) is not no_color
    drawn = [line for part in text.split("\x1b[2K") for line in _without_codes(part).splitlines()]
    assert max(map(len, drawn)) <= width
    assert "\x1b[?25h" in written(console)  # the cursor is there again


def _without_codes(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r", "")


def test_many_accesses_do_not_fill_the_screen() -> None:
    replay = Replay(fake_dataset(n_trials=2))
    many = Replay(
        replay.dataset.isel(site=[0] * 60).assign_coords(
            site=[f"x[{k}] " + "name" * 120 for k in range(60)]
        )
    )
    console = screen(80, 24, force_terminal=True)
    shown = LiveDisplay(console)
    with shown.live:
        provisional_results(shown, "sector")(2, lambda: many)
        lines = written(console).splitlines()
    assert len(lines) <= 24
    assert shown.rows(4) == 3


@pytest.mark.parametrize(("columns", "bar"), [(36, False), (40, True), (100, True)])
def test_progress_is_one_line_of_any_terminal(columns: int, bar: bool) -> None:
    console = screen(columns, 24, force_terminal=True)
    shown = LiveDisplay(console)
    with shown.live:
        shown.hear("replaying", 21, 69)
        (line,) = [one for one in map(_without_codes, written(console).splitlines()) if one.strip()]
    assert "21 of at most 69, 0 s" in line
    assert ("━" in line) is bar


def test_where_nothing_can_be_shown_in_place_lines_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for settings, in_place in (
        ({"force_terminal": True}, True),
        ({"force_terminal": True, "_environ": {"TERM": "dumb"}}, False),
        ({"force_terminal": False}, False),
    ):
        console = screen(**settings)
        monkeypatch.setattr(showing, "console", lambda *, stderr, console=console: console)
        with display() as shown, display() as inner:
            assert inner is shown
            assert shown.in_place is in_place
        assert not showing._current


def test_reports_reach_every_listener_until_its_block_ends() -> None:
    outer: list[object] = []
    inner: list[object] = []
    with heard_by(lambda *one: outer.append(one)):
        with heard_by(lambda *one: inner.append(one)):
            report("a", 1, 2)
        with heard_by(lambda *one: inner.append(one), alone=True):
            report("b")
        report("c")
    report("d")
    assert outer == [("a", 1, 2), ("c", 0, 0)]
    assert inner == [("a", 1, 2), ("b", 0, 0)]


def test_a_part_s_reports_show_that_the_work_around_it_goes_on(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    """A configuration's tracing does not hide how many configurations are done."""
    with heard_by(Display(screen()).hear):
        report("a100, glance", 3, 24)
        with as_part():
            clock[0] += 11.0
            report("tracing snapshots", 0, 1)
            report(COMPILING)
        report("a100, glance", 4, 24)
    assert capsys.readouterr().err.splitlines() == [
        "memsim: a100, glance: 3 of at most 24, 11 s",
        f"memsim: {COMPILING}",
    ]
