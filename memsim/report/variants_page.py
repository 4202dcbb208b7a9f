"""Several replays on one page: their times beside each other, and every access in all of them."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from memsim.report import text
from memsim.report.numbers import Summary
from memsim.report.pages import Bar, Cell, Section, bar_chart, data_table, page, paragraph
from memsim.report.variants import LEGEND, Variant, access_rows, letter, variant_rows


def variants_page(variants: Sequence[Variant]) -> str:
    """The page of (n_variant,) replays, n_variant >= 2, which are named A, B, C and so on."""
    lettered = [(letter(k), one) for k, (_, one) in enumerate(variants)]
    subtitle = Markup("<br>").join(
        f"{name}: {label}: {one.kernel} on {one.machine_title}, {one.n_trials} trials"
        for (name, one), (label, _) in zip(lettered, variants, strict=True)
    )
    head, rows = variant_rows(lettered)
    table = data_table(head, rows, left=(0, 2, len(head) - 2))
    sections = [Section("The replays", _times(lettered) + table + paragraph(LEGEND, "soft small"))]
    sections.append(Section("Access by access", _accesses(variants)))
    return page(
        f"{len(variants)} replays compared", headline(lettered), sections, subtitle=subtitle
    )


def headline(variants: Sequence[Variant]) -> str:
    """Which is predicted to be fastest, and by how much; the number of replays without predictions."""
    times = sorted(
        (one.time.seconds.mean, name) for name, one in variants if one.time.seconds is not None
    )
    if len(times) < 2:
        return f"{len(variants)} replays"
    (best, fastest), (second, other), (worst, slowest) = times[0], times[1], times[-1]
    words = f"{fastest} is predicted to be fastest, {text.seconds(best)}"
    words += f"; {other} takes {second / best:.3g} times as long"
    return words if len(times) == 2 else f"{words}, {slowest} {worst / best:.3g} times"


def _times(variants: Sequence[tuple[str, Summary]]) -> Markup:
    bars = [
        Bar(
            name,
            one.time.seconds.mean,
            f"{text.seconds(one.time.seconds.mean)}, limited by {one.time.binds}",
            mark=one.time.floor_s,
        )
        for name, one in variants
        if one.time.seconds is not None
    ]
    if not bars:
        return Markup("")
    note = "Predicted times; the line is the largest lower bound."
    return paragraph(note, "soft small") + bar_chart(bars)


def _accesses(variants: Sequence[Variant]) -> Markup:
    """A row for each access, with a line for each replay that has it."""
    heads, accesses = access_rows(variants)
    rows: list[list[Cell | Markup]] = [
        [
            Cell(Markup("<strong><code>{}</code></strong>").format(text.shortened(name))),
            *(Markup("<br>").join(column) for column in (letters, *zip(*cells, strict=True))),
        ]
        for name, letters, cells in accesses
    ]
    head = ["access", "", *(one.replace("\n", ", ") for one in heads)]
    return data_table(head, rows, left=(0, 1), sortable=False)
