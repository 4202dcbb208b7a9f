"""Reports as HTML pages that need no network, and as a fragment for notebooks.

Text from outside (names, sources, provenance) is escaped by the templates. Only the charts and
Pygments' listings, which escape their own text, are marked as HTML.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from markupsafe import Markup

from memsim.bounds import with_open_hits
from memsim.latency import DRAM, expected_latency_cycles, load_hit_ratio, load_latency_cycles
from memsim.machine.file import NO_SOURCE
from memsim.machine.table import value_of
from memsim.report import source_view, svg, text
from memsim.report.advice import is_poorly_coalesced
from memsim.report.compare import LEGEND as COMPARISON_LEGEND
from memsim.report.compare import (
    Comparison,
    change_text,
    dram_bytes_per_sector,
    relative_text,
    signed,
)
from memsim.report.counters import table as counter_table
from memsim.report.counters.measurement import Measurement
from memsim.report.finding import headline
from memsim.report.numbers import Summary
from memsim.report.pages import (
    Bar,
    Section,
    bar_chart,
    figure,
    figures,
    fold,
    page,
    paragraph,
    render,
)
from memsim.report.residency import groups_text, resident_notes
from memsim.report.summary import summarise
from memsim.report.time_view import time_sections
from memsim.report.verdict import judge, latency_split, meaningful_parameters
from memsim.visible import visible

MOST_BARS = 30
"""Loads whose latency, and arrays whose bytes, are drawn as bars; tables have all."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A number of the machine, its source, and its standing (memsim.machine.model.Machine)."""

    key: str
    value: str
    source: str
    standing: str


def replay_page(dataset: xr.Dataset, extra: Sequence[Section] = ()) -> str:
    """The whole report of a replay.

    extra : further sections on its time
    """
    values = _values(dataset)
    summary: Summary = values["s"]
    return page(
        Markup("<code>{}</code> on {}").format(
            text.shortened(summary.kernel), summary.machine.title
        ),
        headline(summary),
        _sections(dataset, summary, values, extra),
        subtitle=_part("subtitle.html.j2", s=summary),
        lead=_part("verdict.html.j2", **values),
        first=summary.compiled.first_lines,
    )


def fragment(dataset: xr.Dataset) -> str:
    """Verdict and table of accesses alone, to be embedded in another page."""
    return render("fragment.html.j2", groups_charts=(), **_values(dataset))


def comparison_page(comparison: Comparison) -> str:
    """Two replays side by side."""
    return page(
        "Two replays compared",
        comparison.headline(),
        [
            Section(
                "",
                _part(
                    "compare.html.j2",
                    c=comparison,
                    change_text=change_text,
                    dram_bytes_per_sector=dram_bytes_per_sector,
                    relative_text=relative_text,
                    signed=signed,
                ),
            )
        ],
        subtitle=Markup("{}<br>{}").format(comparison.label_a, comparison.label_b),
        lead=_part("compare_lead.html.j2", c=comparison, legend=COMPARISON_LEGEND),
    )


def measurement_page(measurement: Measurement) -> str:
    """A replay beside a profiler's counters."""
    body = _part(
        "counters.html.j2",
        m=measurement,
        none_value=math.nan,
        shown=counter_table.shown,
        value=counter_table.value,
        signed_value=counter_table.signed_value,
        signed_error=counter_table.signed_error,
    )
    return page(
        "A replay compared with measured counters",
        f"{measurement.kernel} on {measurement.machine}, beside"
        f" {measurement.measured_kernel or 'no kernel'} as {counter_table.TOOLS[measurement.tool]} measured it",
        [Section("", body)],
        subtitle=f"replay of {measurement.n_groups} groups",
        lead=paragraph(counter_table.LEGEND, "soft small"),
    )


def _part(template: str, **values: Any) -> Markup:
    return Markup(render(template, **values))


def _values(dataset: xr.Dataset) -> dict[str, Any]:
    """What the templates of a replay share."""
    summary = summarise(dataset)
    parts = (*summary.level_names, DRAM)
    names = [site.array for site in summary.sites] + [one.name for one in summary.launch.arrays]
    return {
        "s": summary,
        "headline": headline(summary),
        "verdict": judge(summary),
        "parts": parts,
        "part_class": {part: _part_class(part, parts) for part in parts},
        "cycles": {part: summary.latency_of(part) for part in parts},
        "split": latency_split(summary),
        "array_number": {name: k for k, name in enumerate(dict.fromkeys(names))},
        "anchor": {site.name: f"access-{i}" for i, site in enumerate(summary.sites, start=1)},
        "most_cycles": max((site.latency_cycles.mean for site in summary.loads), default=1.0)
        or 1.0,
        "poorly_coalesced": is_poorly_coalesced,
        "groups_text": groups_text(summary),
        "resident_notes": resident_notes(summary),
    }


def _sections(
    dataset: xr.Dataset, summary: Summary, values: dict[str, Any], extra: Sequence[Section]
) -> list[Section]:
    """The sections of a replay's page, in order."""
    dataset = with_open_hits(dataset)
    known = summary.compiled.notes
    notes = tuple(note for note in summary.time.notes if note not in known)
    on_time = time_sections(replace(summary.time, notes=notes))
    tiles = _part("tiles.html.j2", groups_charts=_groups_charts(summary), **values)
    sections = [*on_time[:2], Section("", tiles)]
    sections += _source_sections(summary, values)
    body = _part("accesses.html.j2", **values)
    sections.append(Section("Accesses, by share of the load latency", body, "Accesses"))
    if summary.loads:
        body = _part("breakdown.html.j2", most_loads=MOST_BARS, **values)
        sections.append(
            Section("Where each load's latency comes from", body, "Latency", "breakdown")
        )
    if summary.launch.arrays:
        body = _part("arrays.html.j2", traffic=_traffic(summary), most_bars=MOST_BARS, **values)
        sections.append(Section("Arrays, over the whole launch", body, "Arrays"))
    orderings = _part("orderings.html.j2", **_orderings(dataset, summary), **values)
    return [
        *sections,
        *on_time[2:],
        *extra,
        Section("Over random orderings", orderings, "Orderings"),
        *_about(summary, values),
    ]


def _traffic(summary: Summary) -> Markup:
    """Each array's bytes to and from DRAM, beside its size."""
    bars = []
    for one in summary.launch.arrays[:MOST_BARS]:
        shown = text.byte_size(one.dram_bytes)
        if one.size_bytes:
            times = text.fixed(one.dram_bytes / one.size_bytes, 1)
            shown += f", {times} times its {text.byte_size(one.size_bytes)}"
        name = Markup("<code>{}</code>").format(text.shortened(one.name))
        bars.append(Bar(name, one.dram_bytes, shown, mark=one.size_bytes))
    return bar_chart(bars)


def _about(summary: Summary, values: dict[str, Any]) -> list[Section]:
    """The machine, where the numbers are from, and what they mean."""
    parameters = _parameters(summary)
    provenance = [
        *flatten({"options": summary.options, "occupancy": summary.occupancy}),
        *flatten(summary.provenance),
    ]
    return [
        Section("Machine", _part("machine.html.j2", parameters=parameters, **values)),
        Section("Provenance", _part("provenance.html.j2", provenance=provenance)),
        Section("How to read this", _part("reading.html.j2"), anchor="reading"),
    ]


def _source_sections(summary: Summary, values: dict[str, Any]) -> list[Section]:
    """The user's source; generated text is folded where there is also the user's."""
    found = listings(summary)
    sections = []
    for k, listing in enumerate(found):
        lean = k > 0 and not listing.file  # the user's source shows the same accesses
        body = _part("source.html.j2", listing=listing, stops=k == 0, lean=lean, **values)
        if k:
            body = fold(f"{len(listing.lines)} lines", body)
        sections.append(Section(listing.title, body, anchor=f"source-{k + 1}"))
    none = Markup('<p class="soft">The trace contains no source.</p>')
    return sections or [Section("Source", none)]


def flatten(value: Any, key: str = "") -> list[tuple[str, str]]:
    """Nested plain data as rows of (dotted key, text)."""
    if isinstance(value, Mapping):
        rows = []
        for name, item in value.items():
            plain = visible(str(name))
            rows += flatten(item, f"{key}.{plain}" if key else plain)
        return rows
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return [row for i, item in enumerate(value) for row in flatten(item, f"{key}[{i}]")]
    return [(key, _plain(value))]


def listings(summary: Summary) -> list[source_view.Listing]:
    """The user's source and the generated one, as far as the result contains them.

    Where the user's own text is compiled (CUDA C++), there is one listing; where most accesses lie in a
    file that it includes, it comes first.
    """
    machine, same = summary.compiled.instructions, summary.generated_source == summary.user_source
    listings: list[source_view.Listing | None] = [
        source_view.user_listing(summary.user_source, summary.sites, machine if same else ()),
        None
        if same
        else source_view.generated_listing(summary.generated_source, summary.sites, machine),
    ]
    if source_view.is_cuda(summary.generated_source):
        listings.reverse()
    return [listing for listing in listings if listing is not None]


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A quantity over trials.

    title : of the kernel's quantity, or the name of an access, whose `note` says what is meant of it
    values : (n_trial,);  unit : `%` or `cycles`;  least : a difference that is none
    """

    title: str
    unit: str
    values: np.ndarray
    least: float
    note: str = ""

    @property
    def label(self) -> str:
        return f"expected {self.note}" if self.note else self.title

    @property
    def heading(self) -> str:
        return self.title if self.note else self.title[:1].upper() + self.title[1:]

    @property
    def is_steady(self) -> bool:
        """Whether it is nearly the same in all trials: a chart would show nothing."""
        finite = self.values[np.isfinite(self.values)]
        return not finite.size or float(np.ptp(finite)) < self.least

    @property
    def steady_text(self) -> str:
        """`all loads, L1 66.7 %`; empty without a value."""
        mean = float(np.nanmean(self.values)) if np.isfinite(self.values).any() else math.nan
        decimals = 1 if self.unit == "%" else 0
        shown = f"{text.shortened(self.title)} {text.fixed(mean, decimals)} {self.unit}"
        return shown if math.isfinite(mean) else ""


def _orderings(dataset: xr.Dataset, summary: Summary) -> dict[str, Any]:
    """Charts of what differs between trials, and a list of what does not."""
    ratios = [
        Spread(
            title=f"{level} hit ratio of loads",
            unit="%",
            values=100 * load_hit_ratio(dataset, level).values,
            least=0.1,
        )
        for level in summary.level_names
    ]
    cycles = expected_latency_cycles(dataset)
    latencies = [
        Spread(
            title=site.name,
            unit="cycles",
            values=cycles.sel(site=site.name).values,
            least=1.0,
            note="latency",
        )
        for site in summary.loads[:4]
    ]
    of_load = []
    total = load_latency_cycles(dataset).sum("site").values
    mean = summary.total_load_cycles.mean
    if np.isfinite(mean) and mean > 0:
        one = total / mean * summary.load_latency_cycles.mean
        title = "expected latency of a load"
        of_load = [Spread(title=title, unit="cycles", values=one, least=1.0)]
    return {
        "histograms": _charts(
            (one, svg.histogram(one.values, f"{one.label}, {one.unit}", one.unit, one.least))
            for one in (*ratios, *latencies)
            if not one.is_steady
        ),
        "convergence": _charts(
            (one, svg.convergence(one.values, one.label, one.unit))
            for one in (*ratios, *of_load)
            if not one.is_steady
        ),
        "steady": [
            one.steady_text
            for one in (*ratios, *latencies, *of_load)
            if one.is_steady and one.steady_text
        ],
        "dram_chart": _dram_chart(dataset),
    }


def _charts(drawn: Iterable[tuple[Spread, Markup | None]]) -> Markup:
    """Figures beside each other; empty without any."""
    found = [figure(one.heading, image, one.note) for one, image in drawn if image is not None]
    return figures(found) if found else Markup("")


def _groups_charts(summary: Summary) -> list[tuple[str, Markup]]:
    """(title, chart) of load hit ratios over the number of resident groups, where other numbers were replayed."""
    by_groups, actual = summary.hit_ratios_by_groups, summary.occupancy.get("groups_per_core")
    if not isinstance(actual, int):
        return []
    images = {
        level: svg.over_groups(
            {groups: 100 * row.get(level, math.nan) for groups, row in by_groups.items()},
            actual,
            level,
        )
        for level in summary.level_names
    }
    return [(f"{level} hit ratio of loads, %", one) for level, one in images.items() if one]


def _dram_chart(dataset: xr.Dataset) -> Markup:
    samples = dataset["dram_latency_cycles"].values
    image = svg.histogram(samples, "DRAM latency, cycles", "cycles", 1.0, "requests")
    if image is None:
        return Markup("")
    n_samples = int(np.isfinite(samples).sum())
    note = f"{n_samples:,} sampled requests of {samples.shape[0]} trials"
    return figures([figure("DRAM latency", image, note)])


def _parameters(summary: Summary) -> list[Parameter]:
    machine = summary.machine
    return [
        Parameter(
            key=key,
            value=_plain(value_of(machine, key)),
            source=machine.sources.get(key, NO_SOURCE),
            standing=machine.standing(key),
        )
        for key in meaningful_parameters(machine)
    ]


def _part_class(part: str, parts: tuple[str, ...]) -> str:
    return "p-dram" if part == DRAM else f"p{parts.index(part) % 4}"


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_plain(item) for item in value)
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: text.UNKNOWN}[value]
    if isinstance(value, float):
        return f"{value:,.10g}"
    if isinstance(value, int):
        return f"{value:,}"
    return visible(str(value))
