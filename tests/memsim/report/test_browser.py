"""Pages as a person meets them in Chromium: narrow, dark, on paper, and with a keyboard."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup

from memsim.report import replay_page
from memsim.report.compare import compare
from memsim.report.html import comparison_page
from memsim.report.launch_time import keep_time
from memsim.report.pages import Section, data_table, fold
from memsim.report.pages import page as html_page
from memsim.report.svg import Curve, line_chart
from tests.memsim.report.test_launch_time import PREDICTED
from tests.memsim.report.test_pages import everything
from tests.support.browser import CONTRAST, OVERFLOW, chromium, opened, printed
from tests.support.fake_replay import SITES, USER_SOURCE, fake_dataset

LONG_SOURCE = USER_SOURCE + "\n\n# far from any access" * 40


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Kind of page -> its file."""
    folder = tmp_path_factory.mktemp("pages")
    long = tuple((f"{'x' * 480}[{k}]", f"{'array' * 90}{k}", *SITES[k % 6][2:]) for k in range(300))
    replay = fake_dataset(user_source=LONG_SOURCE, arrays_json=json.dumps({"val": 1 << 20}))
    changed = compare(fake_dataset(n_trials=8), fake_dataset(n_trials=8, l1_shift=0.1))
    texts = {
        "replay": replay_page(keep_time(replay, PREDICTED)),
        "comparison": comparison_page(changed),
        "parts": everything("plain"),
        "many": replay_page(fake_dataset(n_trials=3, sites=long, kernel="k" * 500)),
    }
    for name, content in texts.items():
        (folder / f"{name}.html").write_text(content)
    return {name: folder / f"{name}.html" for name in texts}


@pytest.mark.parametrize("kind", ["replay", "comparison", "parts", "many"])
@pytest.mark.parametrize("width", [500, 1400])
def test_a_page_is_no_wider_than_its_window(
    browser: Any, pages: dict[str, Path], kind: str, width: int
) -> None:
    page = opened(browser, pages[kind], width=width)
    assert page.evaluate(OVERFLOW) == 0
    page.context.close()


def test_long_tables_scroll_in_the_window_and_are_whole_on_paper(
    browser: Any, pages: dict[str, Path]
) -> None:
    """300 accesses were 73 windows; paper has no window to scroll."""
    page = opened(browser, pages["many"])
    assert page.evaluate("document.documentElement.scrollHeight / innerHeight") < 10
    page.context.close()
    text, cut_off = printed(browser, pages["many"], "A4")
    assert all(f"[{k}]" in text for k in range(300))
    assert cut_off == []


@pytest.mark.parametrize("kind", ["replay", "comparison", "parts"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_contrast(
    browser: Any, pages: dict[str, Path], kind: str, scheme: str
) -> None:
    page = opened(browser, pages[kind], scheme=scheme)
    page.evaluate("for (const fold of document.querySelectorAll('details')) fold.open = true")
    page.evaluate("for (const lines of document.querySelectorAll('tbody')) lines.hidden = false")
    assert page.evaluate(CONTRAST) == []
    page.context.close()


def test_grey_on_grey_would_be_found(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "grey.html"
    path.write_text("<body style='background:#fff'><p style='color:#999'>faint</p><p>plain</p>")
    page = opened(browser, path)
    (found,) = page.evaluate(CONTRAST)
    assert found.startswith("2.85 ")
    page.context.close()


@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_paper_has_every_column(browser: Any, pages: dict[str, Path], paper: str) -> None:
    text, cut_off = printed(browser, pages["replay"], paper)
    heads = ("share of latency", "L2 hit ratio", "read from", "coalescing would save")
    for words in (*heads, "written to DRAM", "times read from DRAM", "Made by memsim"):
        assert words.replace(" ", "") in text
    assert cut_off == []
    text, cut_off = printed(browser, pages["comparison"], paper)
    assert "DRAMbytespersector" in text
    assert cut_off == []


def test_paper_has_what_a_cell_folds(browser: Any, tmp_path: Path) -> None:
    """Such as the code of a change; on the screen it is closed."""
    table = data_table(["change"], [[fold("groups of 8 x 16", "knl = split(knl)")]])
    path = tmp_path / "folded.html"
    path.write_text(html_page("Advice", "faster", [Section("Changes", table)]))
    text, cut_off = printed(browser, path, "A4")
    assert "knl=split(knl)" in text
    assert cut_off == []


@pytest.mark.parametrize(
    "below",
    [
        data_table(["Below"], [[f"row{k}"] for k in range(40)]),
        Markup("<p>text</p><h4>Below</h4><ul><li>row1</li></ul>"),
    ],
    ids=["table", "list"],
)
def test_paper_has_no_head_alone(browser: Any, tmp_path: Path, below: Markup) -> None:
    """Two rows follow the head of a table wherever it begins; the first of a source is that of folded lines."""
    pypdf = pytest.importorskip("pypdf")
    sections = [Section("", Markup("<div id=above></div>")), Section("Title", below)]
    path = tmp_path / "broken.html"
    path.write_text(html_page("Rows", "many", sections))
    page = opened(browser, path)
    for height in range(700, 900, 20):  # less than a row is high
        page.evaluate(f"document.querySelector('#above').style.height = '{height}px'")
        sheets = pypdf.PdfReader(io.BytesIO(page.pdf(format="A4"))).pages
        first = next(text for sheet in sheets if "Below" in (text := sheet.extract_text()))
        assert "row1" in first
    page.context.close()


def test_replays_side_by_side_fit_a_narrow_window(browser: Any, tmp_path: Path) -> None:
    """Columns of short lines, however many lines a cell has."""
    lines = Markup("<br>").join(["66.2 ± <0.1"] * 3)
    path = tmp_path / "narrow.html"
    table = data_table(["access", "", *"1234"], [["x[i]", "A", *[lines] * 4]] * 3, left=(0, 1))
    path.write_text(html_page("Replays", "alike", [Section("All", table)]))
    page = opened(browser, path, width=500)
    wide = "(box => box.scrollWidth - box.clientWidth)(document.querySelector('.scroll'))"
    assert page.evaluate(wide) == 0
    page.context.close()


def test_the_texts_of_a_chart_are_inside_it(browser: Any, tmp_path: Path) -> None:
    """Also the last number of an axis, whose middle is at the end of the axis."""
    sizes = [512, 1024, 2048, 4096]
    chart = line_chart([Curve("time", sizes, [1, 2, 3, 4])], "n", "us", log_x=True)
    path = tmp_path / "chart.html"
    path.write_text(html_page("Sizes", "few", [Section("Time", chart)]))
    page = opened(browser, path)
    outside = """
    () => [...document.querySelectorAll("svg.chart text")].filter((text) => {
      const [box, all] = [text.getBBox(), text.closest("svg").viewBox.baseVal];
      return box.x < 0 || box.y < 0 || box.x + box.width > all.width || box.y + box.height > all.height;
    }).map((text) => text.textContent)
    """
    assert page.evaluate(outside) == []
    page.context.close()


def test_every_sheet_of_paper_repeats_the_heads_of_a_table(browser: Any, tmp_path: Path) -> None:
    """Chromium does not paint buttons in a head that it repeats."""
    path = tmp_path / "long.html"
    path.write_text(
        html_page("Rows", "many", [Section("All", data_table(["only head"], [["x"]] * 200))])
    )
    text, _ = printed(browser, path, "A4")
    assert text.count("onlyhead") >= 3


def test_the_hotspot_buttons_cover_nothing_before_the_first_step(
    browser: Any, pages: dict[str, Path]
) -> None:
    page = opened(browser, pages["replay"])
    position = "getComputedStyle(document.querySelector('.hotspots')).position"
    assert page.evaluate(position) == "static"
    page.keyboard.press("n")
    assert page.evaluate(position) == "fixed"
    page.context.close()


def test_keys_move_between_hotspots(browser: Any, pages: dict[str, Path]) -> None:
    """n goes to the line with the largest share, and on; p goes back; typing in a field does nothing."""
    page = opened(browser, pages["replay"])
    focused = "document.activeElement.id"
    page.keyboard.press("n")
    first = page.evaluate(focused)
    assert first == "u13", "the line of the sum"
    assert page.locator(f"#{first}").is_visible()
    page.keyboard.press("n")
    second = page.evaluate(focused)
    assert second in ("u11", "u12")
    page.keyboard.press("p")
    assert page.evaluate(focused) == first
    page.keyboard.press("p")
    assert page.evaluate(focused) not in (first, second), "before the first comes the last"
    page.locator(".hotspots button").last.click()
    assert page.evaluate(focused) == first
    assert page.locator(".hotspots span").inner_text() == "hotspot 1 of 3"
    page.context.close()


def test_an_array_shows_its_accesses_alone(browser: Any, pages: dict[str, Path]) -> None:
    page = opened(browser, pages["replay"])
    rows = page.locator("tr[id^=access-]:visible")
    assert rows.count() == 6
    button = page.get_by_role("button", name="rowptr")
    button.press("Enter")
    assert [rows.nth(k).locator("code").first.inner_text() for k in range(rows.count())] == [
        "rowptr[i]",
        "rowptr[i+1]",
    ]
    assert page.locator("tr.picked").evaluate_all("rows => rows.map(row => row.id)")[:2] == [
        "u11",
        "u12",
    ]
    button.press("Enter")
    assert rows.count() == 6
    assert page.locator("tr.picked").count() == 0
    page.context.close()


def test_folded_lines_open_by_their_button_and_by_a_link(
    browser: Any, pages: dict[str, Path]
) -> None:
    page = opened(browser, pages["replay"])
    assert not page.locator("#u40").is_visible()
    page.locator("table.source").first.locator("[data-unfold]").last.click()
    assert page.locator("#u40").is_visible()
    page.goto(pages["replay"].as_uri() + "#g16")
    page.locator("#g16").wait_for(state="visible")  # inside the generated source, which is folded
    page.context.close()


def test_the_generated_text_does_not_repeat_what_the_users_source_shows(
    browser: Any, pages: dict[str, Path]
) -> None:
    page = opened(browser, pages["replay"])
    users, generated = page.locator("table.source").all()
    assert users.locator("th", has_text="served by").count() == 1
    assert users.locator("td.bar .track").count() > 0
    assert generated.locator("th", has_text="served by").count() == 0
    assert generated.locator(".track").count() == 0
    assert generated.locator("tr.hot td").first.text_content().endswith("%")
    page.context.close()


def test_tables_sort_by_their_heads(browser: Any, pages: dict[str, Path]) -> None:
    page = opened(browser, pages["replay"])
    page.get_by_role("button", name="L1 hit ratio").click()
    values = page.locator("tr[id^=access-] td:nth-child(4)").evaluate_all(
        "cells => cells.map(cell => Number(cell.dataset.value || -1))"
    )
    assert values == sorted(values, reverse=True)
    page.context.close()


def test_no_page_is_larger_than_half_a_megabyte(pages: dict[str, Path]) -> None:
    assert pages["replay"].stat().st_size < 500_000
