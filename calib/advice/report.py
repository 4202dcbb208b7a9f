"""Advice as tables for a terminal, as one page, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from calib.advice.results import NOTABLE_GAIN, Advice, Tried
from calib.advice.trial import ROUNDINGS, Kind, Measured
from calib.prediction.report import seconds
from memsim.report import Section, bullets, data_table, fold, number_of, plus_minus
from memsim.report import page as html_page
from memsim.statistics import Estimate

SCHEMA = 1
Table = tuple[list[str], list[list[str]]]
TITLES: dict[Kind, str] = {
    "kernel": "Changes of the kernel",
    "layout": "Changes of the kernel and of the layout of its data",
    "launch": "Changes of the launch",
    "upper bound": "Upper bounds: the most to gain from this access or array alone, all else as it is",
}
REAL: tuple[Kind, ...] = ("kernel", "layout", "launch")
"""Kinds of changes that a user can make."""
MEANING = (
    "A gain is the predicted time before over that after; its 95 % interval is that over orderings, without"
    " the model's error."
)
AGREE = (
    f"Results of changed kernels agree with the original's within {ROUNDINGS} roundings of the largest value"
    " of each array (integers: exactly)."
)
LEAST = f"{100 * (NOTABLE_GAIN - 1):.0f} %"
"""The least gain that is one."""


def headline(advice: Advice) -> str:
    """The kernel as it is, and the change that gains most."""
    base = advice.base[max(advice.base)]
    start = (
        f"{advice.kernel} on {advice.machine}: {seconds(float(base.seconds.mean()))}, limited by"
    )
    best = next(iter(advice.ranked(*REAL)), None)
    if best is None:
        return f"{start} {base.binds}; nothing could be tried"
    if not advice.is_gaining(best):
        return f"{start} {base.binds}; no change that was tried is predicted to gain {LEAST}"
    return f"{start} {base.binds}; {advice.gain(best).mean:.3g} times as fast with: {best.what}"


def ranking(advice: Advice, kind: Kind, *, only_gains: bool = False) -> Table:
    """Changes of a kind, the largest gain first."""
    head = ["change", "gain", "time", "limited by", "occupancy", "registers", "local memory"]
    base = advice.base[max(advice.base)]
    rows = []
    for one in advice.ranked(kind):
        gain = advice.gain(one)
        if one.measured is not None and (advice.is_gaining(one) or not only_gains):
            time = seconds(float(one.measured.seconds.mean()))
            costs = _cost(base, one.measured)
            rows.append([one.what, gain_text(gain), time, one.measured.binds, *costs])
    return head, rows


def gain_text(gain: Estimate) -> str:
    """`2.41 ± 0.03`."""
    if not gain.has_interval:
        return f"{gain.mean:.3g}"
    return plus_minus(gain, 2)


def failures(advice: Advice) -> Table:
    """What could not be tried, with the reason."""
    return ["change", "why"], [[one.what, one.reason] for one in advice.failed]


def notes(advice: Advice) -> list[str]:
    """What limits the advice, one sentence each, and what a table of gains does not list."""
    listed = _general_notes(advice)
    useless = [one for one in advice.ranked(*TITLES) if not advice.is_gaining(one)]
    if useless:
        verb = "is" if len(useless) == 1 else "are"
        listed.append(
            f"{number_of(len(useless), 'change')} {verb} not predicted to gain {LEAST}: {_some([one.what for one in useless])}."
        )
    return listed


def _general_notes(advice: Advice) -> list[str]:
    listed = [MEANING, *([AGREE] if advice.ranked("kernel", "layout") else []), *advice.notes]
    if advice.interrupted:
        listed.append("Interrupted: only what was tried before is listed.")
    if advice.untried:
        listed.append(
            f"The budget did not last for {number_of(len(advice.untried), 'change')}: {_some(advice.untried)}."
        )
    return listed


def as_json(advice: Advice) -> dict[str, Any]:
    """Everything for json.dumps; times in seconds, local memory in bytes."""
    return {
        "schema": SCHEMA,
        "kernel": advice.kernel,
        "machine": advice.machine,
        "headline": headline(advice),
        "base": _numbers(advice.base[max(advice.base)]),
        "ranked": [_row(advice, one) for one in advice.ranked(*REAL)],
        "upper_bounds": [_row(advice, one) for one in advice.ranked("upper bound")],
        "failed": [
            {"what": one.what, "remedies": list(one.remedies), "reason": one.reason}
            for one in advice.failed
        ],
        "untried": list(advice.untried),
        "interrupted": advice.interrupted,
        "elapsed_s": advice.elapsed_s,
        "notes": notes(advice),
        "most_roundings": ROUNDINGS,
    }


def page(advice: Advice) -> str:
    """One HTML page that loads nothing from elsewhere."""
    base = advice.base[max(advice.base)]
    sections = []
    for kind, title in TITLES.items():
        head, rows = ranking(advice, kind)
        if rows:
            codes = {one.what: one for one in gaining(advice, kind)}
            cells: list[list[Markup | str]] = [
                [fold(what, _code(codes[what])) if what in codes else what, *others]
                for what, *others in rows
            ]
            table = data_table(head, cells, left=(0, 3), sortable=False)
            sections.append(Section(title, table, title.partition(":")[0]))
    if advice.failed:
        head, rows = failures(advice)
        sections.append(Section("What could not be tried", data_table(head, rows, left=(0, 1))))
    sections.append(Section("Notes", bullets(_general_notes(advice))))
    return html_page(
        f"Advice for {advice.kernel} on {advice.machine}",
        headline(advice),
        sections,
        subtitle=f"{len(advice.tried)} changes tried in {advice.elapsed_s:.0f} s;"
        f" {100 * base.occupancy:.0f} % occupancy",
    )


def gaining(advice: Advice, *kinds: Kind) -> list[Tried]:
    """Changes with lines of code that are predicted to gain."""
    return [one for one in advice.ranked(*kinds) if one.code and advice.is_gaining(one)]


def _code(one: Tried) -> Markup:
    return Markup("<pre>{}</pre>").format(code_text(one))


def code_text(one: Tried) -> str:
    """The lines of a change, with the imports that they need."""
    ours = any("= advice." in line for line in one.code)
    return "\n".join([*(["from calib import advice"] if ours else []), *one.code])


def _row(advice: Advice, one: Tried) -> dict[str, Any]:
    assert one.measured is not None
    gain = advice.gain(one)
    return {
        "what": one.what,
        "remedies": list(one.remedies),
        "kind": one.kind,
        "gain": {
            "mean": gain.mean,
            "ci95": [gain.low, gain.high] if gain.has_interval else None,
            "trials": gain.n_trials,
        },
        "code": list(one.code),
        **_numbers(one.measured),
    }


def _numbers(one: Measured) -> dict[str, Any]:
    return {
        "time_s": float(one.seconds.mean()),
        "binds": one.binds,
        "groups_per_core": one.groups_per_core,
        "occupancy": one.occupancy,
        "registers": one.registers,
        "local_bytes": one.local_bytes,
        "roundings_off": one.difference,
    }


def _cost(base: Measured, one: Measured) -> list[str]:
    """Occupancy, registers and local memory, before and after where they differ."""
    pairs = (
        (f"{100 * base.occupancy:.0f} %", f"{100 * one.occupancy:.0f} %"),
        (_known(base.registers), _known(one.registers)),
        (f"{base.local_bytes} B", f"{one.local_bytes} B"),
    )
    return [after if before == after else f"{before} -> {after}" for before, after in pairs]


def _known(number: int | None) -> str:
    return "unknown" if number is None else str(number)


def _some(names: Sequence[str]) -> str:
    more = f", and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more
