"""Chromium without a window, where it is installed, and what tests ask of a page in it."""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)

PATIENCE_MS = 300_000
"""How long to wait for the browser, which other programs may slow down."""

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
"""Pixels by which a page is wider than its window."""

CONTRAST = """
() => {
  const parse = (text) => {
    const n = text.match(/[\\d.]+/g).map(Number);
    return text.startsWith("color(") ? [...n.slice(0, 3).map((v) => 255 * v), n[3] ?? 1] : [...n.slice(0, 3), n[3] ?? 1];
  };
  const over = (top, below) => top.slice(0, 3).map((v, i) => v * top[3] + below[i] * (1 - top[3]));
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.getClientRects().length || ["SCRIPT", "STYLE", "TITLE"].includes(element.tagName)) continue;
    const svg = element.closest("svg");
    const ground = behind(element);
    const style = getComputedStyle(element);
    const ink = over(parse(svg ? style.fill : style.color), ground);
    const [a, b] = [luminance(ink), luminance(ground)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) found.push(`${ratio.toFixed(2)} ${element.className} "${element.textContent.slice(0, 40)}"`);
  }
  return found;
}
"""
"""The texts whose contrast with what is behind them is below 4.5 : 1 (WCAG 2.2, 1.4.3)."""


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """A browser; skips the test where Chromium or Playwright is missing."""
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-dev-shm-usage"],
            timeout=PATIENCE_MS,
        )
        yield browser
        browser.close()


def opened(browser: Any, path: Path, *, width: int = 1400, scheme: str = "light") -> Any:
    """A page of a file, in a window of its own."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(path.as_uri())
    return page


PAPER_WIDTHS = {"A4": 210 - 24, "Letter": 216 - 24}
"""Millimetres between the margins of the style sheet."""

CUT_OFF = """
() => [...document.querySelectorAll(".scroll, td, figure, .tile, .bars > *")]
  .filter((element) => element.clientWidth && element.scrollWidth > element.clientWidth + 1)
  .map((element) => `${element.className} ${element.textContent.trim().slice(0, 40)}`)
"""
"""The boxes whose content does not fit into them."""


def printed(browser: Any, path: Path, paper: str) -> tuple[str, list[str]]:
    """The text of a page printed on paper, without blanks, and the boxes whose content is cut off."""
    pypdf = pytest.importorskip("pypdf")
    page = opened(browser, path, width=round(PAPER_WIDTHS[paper] / 25.4 * 96))
    sheets = pypdf.PdfReader(io.BytesIO(page.pdf(format=paper))).pages
    page.emulate_media(media="print")
    cut_off = page.evaluate(CUT_OFF)
    page.context.close()
    return "".join("".join(sheet.extract_text() for sheet in sheets).split()), cut_off
