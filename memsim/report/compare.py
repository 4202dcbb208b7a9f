"""Two replays side by side, access by access: two variants of a kernel, or one on two machines; comparisons as JSON.

Accesses are matched by name. Differences are B - A, with Welch's t test over orderings. With n tests,
a difference is significant where p < 0.05 / n (Bonferroni); without that correction one in twenty
equal pairs would appear to differ. The test does not cover the model's own error, which both replays
share if their machine is the same.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import xarray as xr

from memsim.report import text
from memsim.report.counters.measurement import LineRow, Measurement, Row
from memsim.report.json_contract import SCHEMA, as_text, estimate_data, number
from memsim.report.numbers import SiteNumbers, Summary
from memsim.report.summary import summarise
from memsim.statistics import CONFIDENCE, Estimate, WelchTest, welch

ALPHA = 1 - CONFIDENCE
NOTABLE_RATIO, NOTABLE_CHANGE = 0.01, 0.02
"""Differences of a ratio, and of any other quantity relative to A, that are worth a change."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One quantity of both replays, and Welch's test of its difference B - A.

    is_ratio : a hit ratio or a share
    """

    a: Estimate
    b: Estimate
    is_ratio: bool = False

    @property
    def is_notable(self) -> bool:
        """Whether the difference is large enough to act on: a point of a ratio, or 2 % of anything else."""
        if self.is_ratio:
            return abs(self.test.difference) >= NOTABLE_RATIO
        return not abs(self.relative) < NOTABLE_CHANGE

    @property
    def is_defined(self) -> bool:
        return self.a.is_defined and self.b.is_defined

    @property
    def test(self) -> WelchTest:
        return welch(self.a, self.b)

    @property
    def intervals_overlap(self) -> bool:
        return self.a.overlaps(self.b)

    @property
    def relative(self) -> float:
        """(B - A) / A."""
        return self.test.difference / self.a.mean if self.a.mean else math.nan


@dataclass(frozen=True, kw_only=True)
class SiteComparison:
    """An access that occurs in both replays. levels : those that both machines have"""

    a: SiteNumbers
    b: SiteNumbers
    latency: Pair
    share: Pair
    levels: Mapping[str, Pair]

    @property
    def name(self) -> str:
        return self.a.name

    @property
    def where(self) -> str:
        """The access's place in the source, or both where they differ."""
        a, b = (text.place(s.user_file, s.user_line, s.source_line) for s in (self.a, self.b))
        return a if a == b else f"{a or '?'} / {b or '?'}"

    def pairs(self) -> Iterator[Pair]:
        yield self.latency
        yield from self.levels.values()


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two replays, access by access.

    sites : in the order of the larger share of the two
    only_a, only_b : accesses whose name the other lacks
    latency_unit : `cycles`, or `ns` where the two clocks differ
    load_latency : mean over sub-group accesses; group_latency : sum of sub-group accesses x expected
        latency per traced group: the whole load latency of a group
    dram_read_bytes : per traced group
    totals : (level, kind) -> hit ratios of all accesses of that kind
    """

    a: Summary
    b: Summary
    label_a: str
    label_b: str
    sites: tuple[SiteComparison, ...]
    only_a: tuple[SiteNumbers, ...]
    only_b: tuple[SiteNumbers, ...]
    latency_unit: str
    load_latency: Pair
    group_latency: Pair
    dram_read_bytes: Pair
    totals: Mapping[tuple[str, str], Pair]

    @property
    def level_names(self) -> tuple[str, ...]:
        return tuple(name for name in self.a.level_names if name in self.b.level_names)

    @property
    def n_tests(self) -> int:
        pairs = [pair for site in self.sites for pair in site.pairs()]
        pairs += [self.load_latency, self.group_latency, self.dram_read_bytes]
        pairs += self.totals.values()
        pairs += [self.time] if self.time else []
        return sum(pair.is_defined for pair in pairs)

    @property
    def time(self) -> Pair | None:
        """The predicted times of the launches; None where one has none."""
        a, b = (_predicted(summary) for summary in (self.a, self.b))
        return None if a is None or b is None else Pair(a=a, b=b)

    def differs(self, pair: Pair) -> bool | None:
        """Whether a difference is significant, given the number of tests; None where unknown.

        Where an interval covers more than orderings, which alone are tested, the intervals must not overlap.
        """
        p_value = pair.test.p_value
        if math.isnan(p_value):
            return None
        covers_more = bool(pair.a.parts or pair.b.parts)
        return p_value < ALPHA / max(self.n_tests, 1) and not (
            covers_more and pair.intervals_overlap
        )

    def direction(self, pair: Pair, sign: int) -> str:
        """`better` or `worse` where a difference is significant and large enough to act on, else empty.

        sign : +1 where more is better, -1 where less is, 0 where neither is
        """
        if not (sign and pair.is_defined and pair.is_notable and self.differs(pair)):
            return ""
        return "better" if pair.test.difference * sign > 0 else "worse"

    def headline(self) -> str:
        """How the predicted time and the load latency changed, in words."""
        return " ".join(filter(None, (self._time_change(), self._latency_change())))

    def _time_change(self) -> str:
        time = self.time
        if time is None:
            return ""
        a, b = text.seconds(time.a.mean), text.seconds(time.b.mean)
        direction = self.direction(time, -1)
        if not direction:
            return f"B is predicted to take {b}, A {a}: {relative_text(self, time, -1)}."
        change = f"{signed(100 * time.relative, 1)} %"
        word = {"better": "faster", "worse": "slower"}[direction]
        return f"B is predicted to be {word}: {b} instead of {a} ({change})."

    def _latency_change(self) -> str:
        pair = self.group_latency
        if not pair.is_defined:
            return "One of the two has no load that reached global memory."
        change = f"{abs(pair.relative):.1%} ".replace("%", " %")
        differs = self.differs(pair)
        if differs is None:
            certainty = "one trial cannot show how certain that is"
        elif differs:
            certainty = "more than random orderings explain"
        else:
            return (
                "A group's load latency is the same in both, within what random orderings explain."
            )
        if differs and not pair.is_notable:
            return f"A group's load latency is nearly the same in both: {pair.relative:+.1%} in B.".replace(
                "%", " %"
            )
        change += "less than" if pair.test.difference < 0 else "more than"
        if pair.relative > 1:
            change = f"{1 + pair.relative:.1f} times as long as"
        return f"In B a group's loads wait {change} in A: {certainty}."


def _predicted(summary: Summary) -> Estimate | None:
    """The predicted time over all trials; a saved one has no number of them."""
    time = summary.time.seconds
    if time is None or not time.has_interval:
        return time
    return dataclasses.replace(time, n_trials=summary.n_trials)


def compare(a: xr.Dataset, b: xr.Dataset) -> Comparison:
    """Compare the Datasets of two replays; kernels, machines and seeds may differ."""
    left, right = summarise(a), summarise(b)
    clocks = left.machine.clock_hz, right.machine.clock_hz
    scale = (1.0, 1.0) if clocks[0] == clocks[1] else (1e9 / clocks[0], 1e9 / clocks[1])
    in_b = {site.name: site for site in right.sites}
    in_a = {site.name for site in left.sites}
    both = [
        SiteComparison(
            a=site,
            b=in_b[site.name],
            latency=_pair(site.latency_cycles, in_b[site.name].latency_cycles, scale),
            share=Pair(a=site.share, b=in_b[site.name].share, is_ratio=True),
            levels=_level_pairs(site, in_b[site.name]),
        )
        for site in left.sites
        if site.name in in_b
    ]
    per_group = 1 / max(left.traced_groups, 1), 1 / max(right.traced_groups, 1)
    group_scale = scale[0] * per_group[0], scale[1] * per_group[1]
    labels = _labels(left, right)
    return Comparison(
        a=left,
        b=right,
        label_a=labels[0],
        label_b=labels[1],
        sites=tuple(sorted(both, key=lambda s: -max(s.a.share.mean, s.b.share.mean))),
        only_a=tuple(site for site in left.sites if site.name not in in_b),
        only_b=tuple(site for site in right.sites if site.name not in in_a),
        latency_unit="cycles" if scale == (1.0, 1.0) else "ns",
        load_latency=_pair(left.load_latency_cycles, right.load_latency_cycles, scale),
        group_latency=_pair(left.total_load_cycles, right.total_load_cycles, group_scale),
        dram_read_bytes=_pair(left.dram.read_bytes, right.dram.read_bytes, per_group),
        totals={
            key: Pair(a=numbers.hit_ratio, b=right.totals[key].hit_ratio, is_ratio=True)
            for key, numbers in left.totals.items()
            if key in right.totals
        },
    )


def dram_bytes_per_sector(site: SiteNumbers) -> float:
    """Bytes read from main memory per sector that an access requests."""
    entry = next((level for level in site.levels if level.accesses > 0), None)
    return site.levels[-1].read_bytes / entry.accesses if entry else math.nan


def _pair(a: Estimate, b: Estimate, scale: tuple[float, float]) -> Pair:
    return Pair(a=a.scaled(scale[0]), b=b.scaled(scale[1]))


def _level_pairs(a: SiteNumbers, b: SiteNumbers) -> dict[str, Pair]:
    pairs = {}
    for level in a.levels:
        other = b.level(level.name)
        if other is not None:
            pairs[level.name] = Pair(a=level.hit_ratio, b=other.hit_ratio, is_ratio=True)
    return pairs


def _labels(a: Summary, b: Summary) -> tuple[str, str]:
    label_a, label_b = (
        f"{name}: {summary.kernel} on {summary.machine.title}, {summary.n_trials} trials"
        f" (seed {summary.seed}), {text.groups(summary.traced_groups, summary.of_groups)}"
        + (", interrupted" if summary.interrupted else "")
        for name, summary in (("A", a), ("B", b))
    )
    return label_a, label_b


def change_text(
    comparison: Comparison, pair: Pair, decimals: int = 1, factor: float = 1.0, sign: int = 0
) -> str:
    """`-116 ± 2 ▲` where B is better, ▼ where it is worse; or followed by ` ≈` where the difference is not significant,
    and by ` =` where it is too small to act on.

    sign : as in Comparison.direction
    """
    if not pair.is_defined:
        return text.UNKNOWN
    difference, half_width = pair.test.difference * factor, pair.test.half_width * factor
    change = signed(difference, decimals)
    if math.isfinite(half_width):
        change += f" ± {text.small(half_width, decimals)}"
    return change + _mark(comparison, pair, sign)


def relative_text(comparison: Comparison, pair: Pair, sign: int) -> str:
    """`-15.3 % ▲`: the difference as a part of A, marked as in `change_text`."""
    return f"{signed(100 * pair.relative, 1)} %{_mark(comparison, pair, sign)}"


def _mark(comparison: Comparison, pair: Pair, sign: int) -> str:
    differs = comparison.differs(pair)
    is_equal = pair.test.difference == pair.test.half_width == 0
    if is_equal or (differs and not pair.is_notable):
        return " ="
    unproven = {True: "", False: " ≈", None: " ?"}[differs]
    return unproven + {"better": " ▲", "worse": " ▼", "": ""}[comparison.direction(pair, sign)]


def signed(value: float, decimals: int) -> str:
    """A difference with its sign; a value that rounds to zero has none."""
    if not math.isfinite(value):
        return text.UNKNOWN
    rounded = round(value, decimals)
    return f"{rounded:+,.{decimals}f}" if rounded else f"{0:.{decimals}f}"


LEGEND = (
    "change = B - A; its ± is the 95 % interval over random orderings alone. ▲: better, ▼: worse. ≈: random orderings explain it (Welch's test, Bonferroni), or it is within intervals that cover more."
    " =: less than a point of a ratio, or 2 % of anything else. ?: unknown with one trial. No interval covers the model's own error."
)


def changes_data(comparison: Comparison) -> list[dict[str, Any]]:
    """Every quantity that both replays have: of all loads, of the totals of a level, of each access.

    access, level : None where the quantity is not of one access or level
    difference : B - A, with the half-width of its 95 % interval
    differs : whether more than random orderings explain; None where one trial cannot tell
    """
    unit = comparison.latency_unit
    rows = [
        _change(comparison, None, None, f"latency_{unit}", comparison.load_latency),
        _change(comparison, None, None, f"group_latency_{unit}", comparison.group_latency),
        _change(comparison, None, None, "dram_read_bytes_per_group", comparison.dram_read_bytes),
    ]
    rows += [
        _change(comparison, None, level, f"{kind}_hit_ratio", pair)
        for (level, kind), pair in comparison.totals.items()
    ]
    for site in comparison.sites:
        rows.append(_change(comparison, site.name, None, f"latency_{unit}", site.latency))
        rows.append(_change(comparison, site.name, None, "share", site.share))
        rows += [
            _change(comparison, site.name, level, "hit_ratio", pair)
            for level, pair in site.levels.items()
        ]
    return [row for row in rows if row]


def _change(
    comparison: Comparison, access: str | None, level: str | None, quantity: str, pair: Pair
) -> dict[str, Any]:
    if not pair.is_defined:
        return {}
    return {
        "access": access,
        "level": level,
        "quantity": quantity,
        "a": estimate_data(pair.a),
        "b": estimate_data(pair.b),
        "difference": number(pair.test.difference),
        "half_width": number(pair.test.half_width),
        "differs": comparison.differs(pair),
    }


def measurement_json(measurement: Measurement) -> str:
    """`{"schema", "kernel", "machine", "tool", "counters", "lines", "notes"}` as JSON text."""
    data = {
        "schema": SCHEMA,
        "kernel": measurement.kernel,
        "machine": measurement.machine,
        "tool": measurement.tool,
        "measured_kernel": measurement.measured_kernel,
        "groups": measurement.n_groups,
        "counters": [_counter(row) for row in measurement.rows],
        "lines": [_line(line) for line in measurement.lines],
        "notes": list(measurement.notes),
    }
    return as_text(data)


def _counter(row: Row) -> dict[str, Any]:
    return {
        "counter": row.name,
        "level": row.level,
        "what": row.what,
        "unit": row.unit,
        "replay": estimate_data(row.ours),
        "as_counter_counts": estimate_data(row.counted),
        "measured": number(row.measured),
        "measured_range": [number(row.low), number(row.high)],
        "launches": row.n_launches,
        "error": number(row.error),
        "note": row.note,
    }


def _line(line: LineRow) -> dict[str, Any]:
    return {
        "file": line.file,
        "line": line.line,
        "accesses": list(line.sites),
        "values": [
            {"what": what, "replay": number(ours), "measured": number(measured)}
            for what, ours, measured in line.values
        ],
    }
