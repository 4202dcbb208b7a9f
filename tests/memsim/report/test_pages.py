"""The parts that every page is made of: what they contain, and that text stays text."""

from __future__ import annotations

import re

import numpy as np
import pytest
from markupsafe import Markup

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
)
from tests.support.fake_replay import HOSTILE
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


def test_text_is_escaped_in_every_part() -> None:
    tame, hostile = Outline(everything("plain")), Outline(everything(HOSTILE))
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in tame.tags]
    assert hostile.scripts == tame.scripts
    assert "".join(hostile.text).count(HOSTILE) == "".join(tame.text).count("plain") >= 15


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


def test_logarithmic_axes_are_linear_in_the_logarithm() -> None:
    """Points at 1, 10 and 100 are equally far apart, and have these labels."""
    chart = line_chart([Curve("a", [1, 10, 100], [1, 10, 100])], "x", "y", log_x=True, log_y=True)
    assert chart is not None
    x = [float(at) for at in re.findall(r'cx="([\d.]+)"', chart)]
    y = [float(at) for at in re.findall(r'cy="([\d.]+)"', chart)]
    assert x[1] - x[0] == pytest.approx(x[2] - x[1], abs=0.2)
    assert y[0] - y[1] == pytest.approx(y[1] - y[2], abs=0.2)
    labels = "".join(Outline(chart).text)
    assert all(label in labels for label in ("1", "10", "100"))


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


def test_ticks_of_large_sizes_have_room_beside_each_other() -> None:
    sizes = [2.0**k for k in range(16, 23)]
    chart = line_chart([Curve("a", sizes, sizes)], "n", "us", log_x=True)
    assert chart is not None
    for label in ("100 k", "500 k", "2 M"):
        assert f">{label}</text>" in chart


def test_a_curve_of_zeros_begins_at_zero() -> None:
    chart = line_chart([Curve("a", [1.0, 2.0], [0.0, 0.0])], "n", "%")
    assert chart is not None
    assert "-0." not in re.sub(r'="[^"]*"', "", chart)


def test_a_unit_stays_beside_its_number() -> None:
    """In text and tables, but not in code, which a reader may copy."""
    body = Markup("<p title='5 %'>43 % of 718 us ± 18, 12 maps</p><code>i % 4 + 3 % 2</code>")
    content = page("T", "12 %", [Section("S", body)])
    space = "\N{NO-BREAK SPACE}"
    assert f"43{space}% of 718{space}us ±{space}18, 12 maps</p>" in content
    assert "title='5 %'" in content
    assert "<code>i % 4 + 3 % 2</code>" in content
    assert f">12{space}%</p>" in content
