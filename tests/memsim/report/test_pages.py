"""The parts that every page is made of: what they contain, and that text stays text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from markupsafe import Markup

from memsim.formats.profilers.counter_file import CounterFile, LaunchCounters, LineCounters
from memsim.montecarlo.result import Replay
from memsim.report import (
    Bar,
    Cell,
    Curve,
    Section,
    bar_chart,
    bullets,
    data_table,
    figure,
    figures,
    fold,
    heat_map,
    line_chart,
    page,
    paragraph,
    svg,
)
from memsim.report.compare import compare
from memsim.report.counters.measurement import against
from memsim.report.html import comparison_page, measurement_page, replay_page
from memsim.report.launch_time import keep_time
from tests.memsim.report.test_launch_time import PREDICTED
from tests.support.fake_replay import HOSTILE, fake_dataset, hostile_replay
from tests.support.outline import Outline


def everything(word: str) -> str:
    """A page with every part, in which every text from outside is `word`."""
    curves = [Curve(word, [1, 2, 4], [1, 3, 2]), Curve("b", [1, 2], [0, 1])]
    image = line_chart(curves, word, word)
    assert image is not None
    return page(
        word,
        word,
        [
            Section(word, word),
            Section("table", data_table([word, "n"], [[Cell(word, word, 1.0), word]])),
            Section("bars", bar_chart([Bar(word, 2.0, word, 1.0), Bar("b", 1.0, "1")])),
            Section("list", bullets([word]) + paragraph(word) + fold(word, word)),
            Section("charts", figures([figure(word, image, word)])),
            Section("heat", heat_map([word], [word], [[1.0]], [[word]], word)),
        ],
        subtitle=word,
        lead=word,
    )


def timed(word: str) -> xr.Dataset:
    """A replay whose predicted time has the word wherever it has a text."""
    time = json.loads(json.dumps(PREDICTED).replace('"a note"', json.dumps(word)))
    time["binds"] = time["timeline"]["steps"][1] = word
    time["what_if"][0]["changes"] = time["rates"][0]["name"] = word
    return keep_time(fake_dataset(n_trials=4), time)


def compiled(word: str) -> xr.Dataset:
    code = {"n_instructions": 1, "text": [word], "pipe": ["fma"], "line": [20], "site": [2]}
    provenance = {"trace": {"compiler": {"target": "sm_70", "code": code}}, "replay": {}}
    return fake_dataset(n_trials=4, provenance=provenance)


def counted(word: str) -> str:
    counters = {"L1 Tag Requests Global": 1.0}
    line = LineCounters(kernel=word, file=f"{word}.py", line=3, source=word, counters=counters)
    one = LaunchCounters(id="0", kernel=word, n_groups=None, counters={"lts__t_sectors.sum": 1.0})
    file = CounterFile(path=Path("k.csv"), tool="nsight", launches=(one,), lines=(line,))
    return measurement_page(against(fake_dataset(), [file]))


def all_of(word: str) -> xr.Dataset:
    return fake_dataset(n_trials=3) if word == "plain" else hostile_replay().dataset


PAGES: dict[str, tuple[Callable[[str], str], int]] = {
    "parts": (everything, 15),
    "replay": (lambda word: replay_page(all_of(word)), 6),
    "fragment": (lambda word: Replay(all_of(word))._repr_html_(), 6),
    "comparison": (lambda word: comparison_page(compare(all_of(word), all_of("plain"))), 6),
    "predicted time": (lambda word: replay_page(timed(word)), 4),
    "machine code": (lambda word: replay_page(compiled(word)), 1),
    "counters": (lambda word: counted(word), 2),
}
"""A page in which every text from outside is a word, and how often it stands there at least."""


@pytest.mark.parametrize("kind", PAGES)
def test_text_from_outside_is_shown_and_runs_nothing(kind: str) -> None:
    make, least = PAGES[kind]
    tame, hostile = Outline(make("plain")), Outline(make(HOSTILE))
    tags = [[tag for tag, _ in one.tags] for one in (hostile, tame)]
    assert set(tags[0]) <= {*tags[1], *(("p", "code") if kind == "comparison" else ())}
    assert kind not in ("parts", "predicted time", "machine code") or tags[0] == tags[1]
    assert "".join(hostile.scripts) == "".join(tame.scripts)
    for _, attributes in hostile.tags:
        assert not any(name.startswith("on") for name in attributes)
        assert not (attributes.get("href") or "").startswith("javascript")
    n = "".join(hostile.text).count(HOSTILE)
    assert n >= least
    assert kind != "parts" or n == "".join(tame.text).count("plain")


def test_the_navigation_names_the_sections_with_a_heading() -> None:
    content = page(
        "t", "h", [Section("", "x"), Section("Long title", "y", "Short"), Section("Z", "z")]
    )
    assert re.findall(r'<a href="#([\w-]+)">(\w+)</a>', content) == [("short", "Short"), ("z", "Z")]
    assert '<h2 id="short">Long title</h2>' in content


def test_a_bar_is_as_long_as_its_value() -> None:
    """Of 4: 50 % and 25 %; the mark of the first is at 100 %, less its own width."""
    chart = bar_chart([Bar("a", 2, "2 s", mark=4), Bar("b", 1, "1 s")])
    assert re.findall(r'class="bar" width="([\d.]+)"', chart) == ["50.00", "25.00"]
    assert re.findall(r'class="mark" x="([\d.]+)"', chart) == ["99.40"]
    assert 'width="0.00"' in bar_chart([Bar("a", 0, "0 s")])


SIZES = [2.0**k for k in range(16, 23)]
CHARTS: dict[str, tuple[Any, list[str], list[str]]] = {
    "few values of a parameter have a tick each": (
        line_chart([Curve("t", [16, 32, 64], [3, 2, 1])], "block", "us", log_x=True), ["16", "32", "64"], []),
    "but not where they are near each other": (
        line_chart([Curve("t", [1, 2, 1000], [3, 2, 1])], "block", "us"), ["1,000"], ["2"]),
    "large sizes": (line_chart([Curve("a", SIZES, SIZES)], "n", "us", log_x=True), ["100 k", "500 k", "2 M"], []),
    "both axes logarithmic": (
        line_chart([Curve("a", [1, 10, 100], [1, 10, 100])], "x", "y", log_x=True, log_y=True), ["1", "10", "100"], []),
}  # fmt: skip
"""A chart, numbers below its axis, and numbers that are not there."""


@pytest.mark.parametrize("name", CHARTS)
def test_ticks(name: str) -> None:
    chart, there, not_there = CHARTS[name]
    ticks = re.findall(r'text-anchor="middle">([^<]+)</text>', str(chart))
    assert set(there) <= set(ticks)
    assert not set(not_there) & set(ticks)


def test_logarithmic_axes_are_linear_in_the_logarithm() -> None:
    """Points at 1, 10 and 100 are equally far apart."""
    chart, *_ = CHARTS["both axes logarithmic"]
    x, y = ([float(at) for at in re.findall(rf'c{axis}="([\d.]+)"', chart)] for axis in "xy")
    assert x[1] - x[0] == pytest.approx(x[2] - x[1], abs=0.2)
    assert y[0] - y[1] == pytest.approx(y[1] - y[2], abs=0.2)


def test_axes_begin_at_zero_end_at_100_per_cent_and_do_not_magnify() -> None:
    chart = line_chart([Curve("a", [1.0, 2.0], [0.0, 0.0])], "n", "%")
    assert "-0." not in re.sub(r'="[^"]*"', "", chart)
    image = str(svg.over_groups({1: 99.2, 8: 99.1}, 8, "L1"))
    labels = [float(one) for one in re.findall(r'text-anchor="end">([\d.]+)</text>', image)]
    assert max(labels) <= 100
    for second, least, most in ((50.01, 0, 1), (70.0, 100, math.inf)):
        image = str(svg.over_groups({1: 50.0, 8: second}, 8, "L1"))
        heights = [float(y) for y in re.findall(r'cy="([\d.]+)"', image)]
        assert least < heights[0] - heights[1] < most, "small differences do not fill the height"


def test_what_cannot_be_drawn_is_left_out() -> None:
    assert line_chart([Curve("a", [1.0], [np.nan])], "x", "y") is None
    assert line_chart([Curve("a", [0.0], [1.0])], "x", "y", log_x=True) is None
    one = line_chart([Curve("a", [0.0, 1.0, 2.0], [1.0, np.inf, 2.0])], "x", "y")
    assert one.count("<circle") == 2
    assert "nan" not in one
    assert "inf" not in one


def test_cells_are_shaded_between_the_least_and_the_largest() -> None:
    content = heat_map(["r"], ["a", "b", "c"], [[1, 2, 3]], [["1", "2", "3"]], "d")
    assert re.findall(r"--heat-share:([\d.]+)", content) == ["0.000", "0.500", "1.000"]


def test_a_unit_stays_beside_its_number() -> None:
    """In text and tables, but not in code, which a reader may copy."""
    body = Markup("<p title='5 %'>43 % of 718 us ± 18, 12 maps</p><code>i % 4 + 3 % 2</code>")
    content = page("T", "12 %", [Section("S", body)])
    space = "\N{NO-BREAK SPACE}"
    assert f"43{space}% of 718{space}us ±{space}18, 12 maps</p>" in content
    assert "title='5 %'" in content
    assert "<code>i % 4 + 3 % 2</code>" in content
    assert f">12{space}%</p>" in content
