"""Pages as a person meets them in Chromium: narrow, dark, on paper, and with a keyboard."""

from __future__ import annotations

import io
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
N_PRINTED = 60
LINES = Markup("<br>").join(["66.2 ± <0.1"] * 3)
FOLDED = data_table(["change"], [[fold("groups of 8 x 16", "knl = split(knl)")]])
SIDE_BY_SIDE = data_table(["access", "", *"1234"], [["x[i]", "A", *[LINES] * 4]] * 3, left=(0, 1))
HEADED = data_table(["only head"], [["x"]] * 200)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Kind of page -> its file."""
    folder = tmp_path_factory.mktemp("pages")
    long = tuple((f"{'x' * 480}[{k}]", f"{'array' * 90}{k}", *SITES[k % 6][2:]) for k in range(300))
    replay = fake_dataset(user_source=LONG_SOURCE, arrays={"val": 1 << 20})
    changed = compare(fake_dataset(n_trials=8), fake_dataset(n_trials=8, l1_shift=0.1))
    chart = line_chart(
        [Curve("time", [512, 1024, 2048, 4096], [1, 2, 3, 4])], "n", "us", log_x=True
    )
    tables = {"Changes": FOLDED, "Replays": SIDE_BY_SIDE, "Time": chart, "Rows": HEADED}
    texts = {
        "replay": replay_page(keep_time(replay, PREDICTED)),
        "comparison": comparison_page(changed),
        "parts": everything("plain"),
        "many": replay_page(fake_dataset(n_trials=3, sites=long, kernel="k" * 500)),
        "printed": replay_page(fake_dataset(n_trials=3, sites=long[:N_PRINTED])),
        "tables": html_page("T", "t", [Section(name, body) for name, body in tables.items()]),
        "grey": "<body style='background:#fff'><p style='color:#999'>faint</p><p>plain</p>",
    }
    for name, content in texts.items():
        (folder / f"{name}.html").write_text(content)
    return {name: folder / f"{name}.html" for name in texts}


@pytest.mark.parametrize("kind", ["replay", "comparison", "parts", "many"])
def test_a_page_fits_its_window_and_all_text_has_contrast(
    browser: Any, pages: dict[str, Path], kind: str
) -> None:
    page = opened(browser, pages[kind])
    assert page.evaluate(OVERFLOW) == 0
    if kind == "many":  # 300 accesses were 73 windows
        assert page.evaluate("document.documentElement.scrollHeight / innerHeight") < 10
    page.set_viewport_size({"width": 500, "height": 900})
    assert page.evaluate(OVERFLOW) == 0
    page.set_viewport_size({"width": 1400, "height": 900})
    if kind != "many":
        page.evaluate("for (const fold of document.querySelectorAll('details')) fold.open = true")
        page.evaluate("for (const rows of document.querySelectorAll('tbody')) rows.hidden = false")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(CONTRAST) == []
    page.context.close()


def test_grey_on_grey_would_be_found(browser: Any, pages: dict[str, Path]) -> None:
    page = opened(browser, pages["grey"])
    (found,) = page.evaluate(CONTRAST)
    assert found.startswith("2.85 ")
    page.context.close()


HEADS = ("share of latency", "L2 hit ratio", "read from", "coalescing would save")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("replay", (*HEADS, "written to DRAM", "times read from DRAM", "Made by memsim")),
        ("comparison", ("DRAM bytes per sector",)),
        ("printed", tuple(f"[{k}]" for k in range(N_PRINTED))),
        ("tables", ("knl = split(knl)",)),
    ],
)
def test_paper_has_every_column_row_and_fold(
    browser: Any, pages: dict[str, Path], kind: str, words: tuple[str, ...]
) -> None:
    """It has no window to scroll, and nothing to unfold. A4 is the narrower paper."""
    text, cut_off = printed(browser, pages[kind], "A4")
    assert [one for one in words if one.replace(" ", "") not in text] == []
    assert cut_off == []
    if (
        kind == "tables"
    ):  # every sheet has the head; Chromium does not paint buttons in one that it repeats
        assert text.count("onlyhead") >= 3


@pytest.mark.parametrize("below", ["table", "list"])
def test_paper_has_no_head_alone(browser: Any, tmp_path: Path, below: str) -> None:
    """Two rows follow the head of a table wherever it begins; the first of a source is that of folded lines."""
    pypdf = pytest.importorskip("pypdf")
    sections = []
    heights = range(700, 1080, 20)  # less than a row is high
    for height in heights:
        content = {
            "table": data_table([f"Below{height}"], [[f"row{k} of {height}"] for k in range(30)]),
            "list": Markup(f"<p>text</p><h4>Below{height}</h4><ul><li>row1 of {height}</li></ul>"),
        }[below]
        above = Markup(f"<div style='height: {height}px; break-before: page'></div>")
        sections += [Section("", above), Section(f"Title {height}", content)]
    path = tmp_path / "broken.html"
    path.write_text(html_page("Rows", "many", sections))
    page = opened(browser, path)
    sheets = pypdf.PdfReader(io.BytesIO(page.pdf(format="A4"))).pages
    page.context.close()
    texts = [sheet.extract_text() for sheet in sheets]
    for height in heights:
        first = next(text for text in texts if f"Below{height}" in text)
        assert f"row1 of {height}" in first


def test_charts_and_replays_side_by_side_fit_a_narrow_window(
    browser: Any, pages: dict[str, Path]
) -> None:
    """Columns of short lines, however many lines a cell has; and a chart's texts are inside it, also the last
    number of an axis, whose middle is at the end of the axis."""
    page = opened(browser, pages["tables"], width=500)
    wide = "[...document.querySelectorAll('.scroll')].map(box => box.scrollWidth - box.clientWidth)"
    assert set(page.evaluate(wide)) == {0}
    outside = """
    () => [...document.querySelectorAll("svg.chart text")].filter((text) => {
      const [box, all] = [text.getBBox(), text.closest("svg").viewBox.baseVal];
      return box.x < 0 || box.y < 0 || box.x + box.width > all.width || box.y + box.height > all.height;
    }).map((text) => text.textContent)
    """
    assert page.locator("svg.chart text").count() > 4
    assert page.evaluate(outside) == []
    page.context.close()


def test_keys_move_between_hotspots_and_names_pick_their_rows(
    browser: Any, pages: dict[str, Path]
) -> None:
    page = opened(browser, pages["replay"])

    # The buttons cover nothing before the first step.
    position = "getComputedStyle(document.querySelector('.hotspots')).position"
    assert page.evaluate(position) == "static"
    focused = "document.activeElement.id"

    def pressed(key: str) -> Any:
        page.keyboard.press(key)
        return page.evaluate(focused)

    # n goes to the line with the largest share, which is that of the sum, and on; p goes back.
    first, second = pressed("n"), pressed("n")
    assert page.evaluate(position) == "fixed"
    assert first == "u13"
    assert page.locator(f"#{first}").is_visible()
    assert second in ("u11", "u12")
    assert pressed("p") == first
    assert pressed("p") not in (first, second), "before the first comes the last"
    page.locator(".hotspots button").last.click()
    assert page.evaluate(focused) == first
    assert page.locator(".hotspots span").inner_text() == "hotspot 1 of 3"

    # The name of an array shows its accesses alone.
    rows = page.locator("tr[id^=access-]:visible")
    assert rows.count() == 6
    button = page.get_by_role("button", name="rowptr")
    button.press("Enter")
    names = [rows.nth(k).locator("code").first.inner_text() for k in range(rows.count())]
    assert names == ["rowptr[i]", "rowptr[i+1]"]
    picked = page.locator("tr.picked").evaluate_all("rows => rows.map(row => row.id)")
    assert picked[:2] == ["u11", "u12"]
    button.press("Enter")
    assert (rows.count(), page.locator("tr.picked").count()) == (6, 0)

    # The head of a column sorts the table.
    page.get_by_role("button", name="L1 hit ratio").click()
    values = page.locator("tr[id^=access-] td:nth-child(4)").evaluate_all(
        "cells => cells.map(cell => Number(cell.dataset.value || -1))"
    )
    assert values == sorted(values, reverse=True)

    # Folded lines open by their button, and by a link: #g16 is inside the generated source.
    assert not page.locator("#u40").is_visible()
    page.locator("table.source").first.locator("[data-unfold]").last.click()
    assert page.locator("#u40").is_visible()
    page.goto(pages["replay"].as_uri() + "#g16")
    page.locator("#g16").wait_for(state="visible")

    # The generated text does not repeat what the user's source shows.
    users, generated = page.locator("table.source").all()
    for source, n_heads in ((users, 1), (generated, 0)):
        assert source.locator("th", has_text="served by").count() == n_heads
        assert (source.locator(".track").count() > 0) == bool(n_heads)
    assert generated.locator("tr.hot td").first.text_content().endswith("%")
    page.context.close()


def test_no_page_is_larger_than_half_a_megabyte(pages: dict[str, Path]) -> None:
    assert pages["replay"].stat().st_size < 500_000
