"""The verdict in words: which loads are slow, why, how certain that is, and what to try.

Every sentence follows from a number of the summary by a rule in this module. Where no rule applies,
the verdict has no sentence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from memsim.latency import DRAM
from memsim.machine import Machine
from memsim.machine import file as machine_file
from memsim.report.advice import MIN_SHARE, Advice, advise, dominant, is_poorly_coalesced
from memsim.report.launch_advice import advise_launch
from memsim.report.numbers import LevelNumbers, SiteNumbers, Summary
from memsim.report.order_sensitivity import orders_text
from memsim.report.residency import occupancy_text
from memsim.report.text import ROUNDING, fixed, model_cycles, percent, plus_minus, shortened, small
from memsim.statistics import MIN_TRIALS, MIN_TRIALS_TO_STOP, PAGES, PAST, PHASE, PLACE

MAX_FINDINGS = 3
ENOUGH_SHARE = 0.8  # findings stop once they explain this part of the load latency
NOTABLE_WAIT = 0.05  # relative difference between the latency modes that is worth a sentence
FIRST_SAVES = 0.1
"""Part of the predicted time; a change that cannot save as much is not tried first."""
CLEARLY_FIRST = 0.95
TIED = 0.02  # shares that differ by less do not decide which of two accesses to begin with

_KIND_MEANS = {
    "cold": "requested here for the first time",
    "capacity": "requested before, but evicted because more other data was requested since than the cache holds",
    "conflict": "requested before, and still cached if the cache were fully associative",
}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One slow access, or several that are slow for the same reasons.

    headline : of the slowest, without its name;  reasons, certainty : of the slowest
    likewise : the others, which have the same reasons and advice, with a headline each
    """

    site: SiteNumbers
    headline: str
    reasons: tuple[str, ...]
    certainty: tuple[str, ...]
    advice: tuple[Advice, ...]
    likewise: tuple[tuple[SiteNumbers, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """launch : what to try for the launch as a whole"""

    headline: str
    launch: tuple[Advice, ...]
    findings: tuple[Finding, ...]
    caveats: tuple[str, ...]


def first_advice(summary: Summary) -> str:
    """The advice that can save most of the time, in a sentence or two. Empty where no rule applies, and
    where nothing saves a notable part of a predicted time."""
    verdict = judge(summary)
    advice = [*verdict.launch, *(one for finding in verdict.findings for one in finding.advice)]
    if summary.time.saved_at_most([]) is not None:
        advice = [one for one in advice if one.saves >= FIRST_SAVES]
    if not advice:
        return ""
    first = max(advice, key=lambda one: one.saves)  # of equals the first
    return f"Try first: {first.name}: {first.how} {first.gain}".rstrip()


def judge(summary: Summary) -> Verdict:
    """The verdict on a replay."""
    loads = [site for site in summary.loads if site.share.mean > 0]
    if not loads:
        return Verdict(
            headline="No load of this kernel reached global memory: there is no latency to explain.",
            launch=tuple(advise_launch(summary)),
            findings=(),
            caveats=_caveats(summary),
        )
    slow: list[SiteNumbers] = []
    explained = 0.0
    for site in loads[:MAX_FINDINGS]:
        if slow and not site.share.mean >= MIN_SHARE:
            break  # one of many that are alike
        slow.append(site)
        explained += site.share.mean
        if explained >= ENOUGH_SHARE:
            break
    return Verdict(
        headline=_headline(summary, loads, slow, explained),
        launch=tuple(advise_launch(summary)),
        findings=_shortened(
            _merged([_finding(summary, site, rank) for rank, site in enumerate(slow)])
        ),
        caveats=_caveats(summary),
    )


def findings_on(summary: Summary, name: str) -> list[Finding]:
    """On each access that is called so, or that is of an array called so; also where it is not slow."""
    loads = list(summary.loads)
    return [
        _finding(summary, site, loads.index(site)) if site in loads else _without_latency(site)
        for site in summary.sites
        if name in (site.name, site.array)
    ]


def latency_split(summary: Summary) -> dict[str, float]:
    """Who serves the kernel's load latency: level (and DRAM) -> part of it."""
    cycles = dict.fromkeys([*summary.level_names, DRAM], 0.0)
    for site in summary.loads:
        for part, value in site.latency_parts.items():
            cycles[part] += value * site.accesses
    whole = sum(cycles.values())
    return {part: value / whole if whole else 0.0 for part, value in cycles.items()}


def _headline(
    summary: Summary, loads: list[SiteNumbers], slow: list[SiteNumbers], explained: float
) -> str:
    split = latency_split(summary)
    part = dominant(split)
    if len(loads) == 1:
        who = "The one load makes all of the load latency"
    elif explained < MIN_SHARE:
        who = (
            f"{len(loads)} loads share the load latency, none has more than {percent(explained, 1)}"
        )
    elif len(slow) == 1:
        who = f"One of {len(loads)} loads makes {percent(explained, 0)} of the load latency"
    else:
        who = f"{len(slow)} of {len(loads)} loads make {percent(explained, 0)} of the load latency"
    return f"{who}; {percent(split[part], 0)} of all load latency is spent on {part}."


def _finding(summary: Summary, site: SiteNumbers, rank: int) -> Finding:
    latency = plus_minus(site.latency_cycles, 0)
    headline = (
        f"{percent(site.share.mean, 0)} of the load latency, {latency} cycles per access"
        f" ({_model(site.latency_model_error_cycles)})"
    )
    return Finding(
        site=site,
        headline=headline,
        reasons=tuple(_reasons(summary, site)),
        certainty=tuple(_certainty(summary, site, rank)),
        advice=tuple(advise(summary, site)),
    )


_NO_REQUEST = "it makes no request: no work-item reaches it, or the compiled code uses the value of another access"


def _without_latency(site: SiteNumbers) -> Finding:
    """The finding about an access that nothing waits for: a store, or one without requests."""
    headline = "nothing waits for it" if site.sectors else _NO_REQUEST
    reasons = (_coalescing(site),) if site.sectors else ()
    return Finding(site=site, headline=headline, reasons=reasons, certainty=(), advice=())


def _merged(findings: list[Finding]) -> list[Finding]:
    """Findings with the same reasons and the same advice as one."""
    merged: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        site = finding.site
        kinds = tuple(_main_kind(level)[0] for level in site.levels if level.n_misses)
        causes = (dominant(site.latency_parts), is_poorly_coalesced(site), kinds)
        key = (causes, tuple(advice.name for advice in finding.advice))
        first = merged.get(key)
        if first is None:
            merged[key] = finding
        else:
            merged[key] = replace(first, likewise=(*first.likewise, (site, finding.headline)))
    return list(merged.values())


def _shortened(findings: list[Finding]) -> tuple[Finding, ...]:
    """Findings where advice that an earlier one gives is only referred to."""
    given: dict[str, str] = {}
    short = []
    for finding in findings:
        advice = []
        for item in finding.advice:
            earlier = given.setdefault(item.name, finding.site.name)
            if earlier != finding.site.name:
                item = replace(item, how=f"as for {shortened(earlier)}.")
            advice.append(item)
        short.append(replace(finding, advice=tuple(advice)))
    return tuple(short)


def _reasons(summary: Summary, site: SiteNumbers) -> list[str]:
    part = dominant(site.latency_parts)
    of_latency = site.latency_parts[part] / site.latency_cycles.mean
    reasons = [
        f"{part} serves {percent(site.served[part], 0)} of its sectors at"
        f" {fixed(summary.latency_of(part))} cycles each:"
        f" {percent(of_latency, 0)} of its latency."
    ]
    reasons.append(_coalescing(site))
    for level in site.levels:
        if level.n_misses and level.reach > 0.05:
            kind, ratio = _main_kind(level)
            reasons.append(
                f"{level.name} misses are {percent(ratio, 0)} {kind}: {_KIND_MEANS[kind]}."
            )
    hit, waiting = site.latency_cycles.mean, site.latency_pending_cycles.mean
    if waiting >= (1 + NOTABLE_WAIT) * hit:
        reasons.append(
            f"Pending sectors are charged as hits. Charged with their remaining wait, its latency is"
            f" {fixed(waiting)} cycles instead of {fixed(hit)}."
        )
    return reasons


def _coalescing(site: SiteNumbers) -> str:
    if is_poorly_coalesced(site):
        return (
            f"Poor coalescing: an access requests {fixed(site.sectors_per_access, 1)} sectors where"
            f" {fixed(site.ideal_sectors_per_access, 1)} could carry its bytes; it uses"
            f" {percent(site.useful_byte_ratio, 0)} of the bytes that it requests."
        )
    grade = "ideal" if site.saved_ratio < 0.01 else "good"
    return (
        f"Coalescing is {grade}: {fixed(site.sectors_per_access, 1)} sectors per access,"
        f" {fixed(site.ideal_sectors_per_access, 1)} could carry its bytes."
    )


def _certainty(summary: Summary, site: SiteNumbers, rank: int) -> list[str]:
    if not site.latency_cycles.has_interval:
        return ["Unknown: one ordering gives no interval. Replay with more trials."]
    sentences = []
    others = [load for load in summary.loads if load.name != site.name]
    if rank == 0 and others:
        times = round(site.first_in * summary.n_trials)
        clear = "clearly" if site.first_in >= CLEARLY_FIRST else "not clearly"
        if site.share.mean - others[0].share.mean < TIED:
            sentences.append(
                f"It is as slow as {shortened(others[0].name)}: their shares are nearly the same."
            )
        else:
            sentences.append(
                f"It is {clear} the slowest: first in {times} of {summary.n_trials} orderings."
            )
    share = f"that of its share is {small(100 * site.share.half_width, 1)} points"
    if not site.share.half_width > ROUNDING:
        share = "its share is the same in all of them"
    sentences.append(f"The ± of its latency is the 95 % interval over {_causes(site)}; {share}.")
    sensitive = [level for level in site.levels if level.is_order_sensitive]
    for level in sensitive:
        sentences.append(
            f"Order-sensitive: its {level.name} hit ratio varies between orderings by"
            f" {fixed(100 * level.hit_ratio.sigma, 1)} points (sigma)."
        )
    if site.latency_model_error_cycles is not None:
        sentences.append("The validated error of the model comes on top of this interval.")
    return sentences


def _causes(site: SiteNumbers) -> str:
    """Causes of the interval of a latency: `random orderings and places of the launch`."""
    words = {
        PLACE: "places of the launch",
        PHASE: "phases of its groups",
        PAGES: "places of its pages in memory",
        PAST: "what earlier groups have left in the caches",
    }
    parts = site.latency_cycles.parts
    *first, last = ["random orderings", *(words[part] for part in words if parts.get(part))]
    return f"{', '.join(first)} and {last}" if first else last


def _caveats(summary: Summary) -> tuple[str, ...]:
    caveats = []
    if summary.interrupted:
        caveats.append(
            f"Interrupted: only {summary.n_trials} trials were completed; all numbers come from them."
        )
    if summary.n_trials < MIN_TRIALS:
        caveats.append("One trial gives no interval: the certainty of these numbers is unknown.")
    elif (
        summary.n_trials < MIN_TRIALS_TO_STOP and summary.options.get("trials") == summary.n_trials
    ):
        # Otherwise they were enough: the ordering is small beside what else is open.
        caveats.append(
            f"Only {summary.n_trials} trials: intervals are reliable from {MIN_TRIALS_TO_STOP} on."
        )
    open_occupancy = occupancy_text(summary)
    if open_occupancy:
        caveats.append(open_occupancy)
    by_order = orders_text(summary)
    if by_order:
        caveats.append(by_order)
    caveats += summary.compiled.notes
    unknown = [name for name, error in summary.model_error.items() if error is None]
    if unknown:
        caveats.append(
            f"The model's own error is not validated on this machine for {' and '.join(unknown)}:"
            " no interval covers it."
        )
    assumed = assumed_parameters(summary)
    latencies = [key for key in assumed if key.endswith("latency_cycles")]
    if latencies:
        caveats.append(
            f"Assumed, not measured, on {summary.machine.title}: {', '.join(sorted(latencies))}."
        )
    if assumed:
        caveats.append(
            f"{len(assumed)} of the machine's parameters are assumed; its file marks them."
        )
    return tuple(caveats)


def assumed_parameters(summary: Summary) -> list[str]:
    """Dotted keys of the machine's values that nobody measured or published."""
    return [
        key for key in meaningful_parameters(summary.machine) if summary.machine.is_assumed(key)
    ]


def meaningful_parameters(machine: Machine) -> list[str]:
    """Dotted keys of a machine's values, without those that have no meaning for it: the latency of
    another partition where there is only one, and banks behind the first level."""
    meaningless = {
        f"levels.{level.name}.far_latency_cycles"
        for level in machine.levels
        if level.n_partitions == 1
    } | {f"levels.{level.name}.bank_bytes" for level in machine.levels[1:]}
    return [key for key in machine_file.keys(machine) if key not in meaningless]


def _model(error_cycles: float | None) -> str:
    return "model error not validated" if error_cycles is None else model_cycles(error_cycles)


def _main_kind(level: LevelNumbers) -> tuple[str, float]:
    kind = max(level.misses, key=lambda kind: level.misses[kind])
    return kind, level.misses[kind] / level.n_misses
