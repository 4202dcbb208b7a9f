"""What to try against a slow load: rules from its numbers to a known remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memsim.latency import DRAM
from memsim.report.numbers import SiteNumbers, Summary
from memsim.report.text import byte_size, percent
from memsim.trace.model import GRANULE_BYTES

POOR_COALESCING = 1.5  # sectors asked for, over the fewest that could carry the bytes
MOST = 0.5  # of a level's misses: the kind that decides what to do
MANY_CONFLICTS = 0.25
MANY_TRANSLATIONS = (
    0.25  # missed an access: at 20 cycles each they are as long as a sector of DRAM takes
)


@dataclass(frozen=True)
class Advice:
    """What to try: a name, how, and what it would bring (empty where no number tells)."""

    name: str
    how: str
    gain: str = ""


def advise(summary: Summary, site: SiteNumbers) -> list[Advice]:
    """What to try, most promising first."""
    part = dominant(site.latency_parts)
    first = next((level for level in site.levels if level.n_misses), None)
    last = next((level for level in reversed(site.levels) if level.n_misses), None)
    late = first is not None and first.misses["capacity"] >= MOST * first.n_misses
    advice = []
    if is_poorly_coalesced(site):
        advice.append(
            Advice(
                "Coalesce",
                "let neighbouring work-items touch neighbouring elements (loop order, data layout,"
                " staging in local memory).",
                f"Full coalescing asks for {percent(site.saved_ratio, 0)} fewer sectors:"
                f" {byte_size(site.saved_bytes)} of this snapshot's requests.",
            )
        )
        elements = GRANULE_BYTES // site.itemsize_bytes if site.itemsize_bytes else 0
        if late and first is not None and elements > 1 and site.direction == "load":
            advice.append(
                Advice(
                    "Use a sector whole",
                    f"its rest is evicted from {first.name} before it is asked for again. Where a"
                    " work-item's elements lie in a row, vector loads take all of a sector at once.",
                    f"Here that is {elements} elements of {site.itemsize_bytes} B.",
                )
            )
    elif late and first is not None:
        cache = summary.level(first.name)
        holds = f" ({byte_size(cache.size_bytes)})" if cache else ""
        advice.append(
            Advice(
                "Bring reuse closer",
                f"work in tiles that fit {first.name}{holds}, stage them in local memory, or keep"
                " fewer groups resident.",
            )
        )
    for level in site.levels:
        if level.n_misses and level.misses["conflict"] >= MANY_CONFLICTS * level.n_misses:
            ratio = level.misses["conflict"] / level.n_misses
            advice.append(
                Advice(
                    "Change the pitch",
                    "pad the leading dimension, so that rows fall into different sets.",
                    f"{percent(ratio, 0)} of its {level.name} misses are conflicts.",
                )
            )
    missed = site.missed_translations_per_access
    if missed is not None and missed >= MANY_TRANSLATIONS:
        advice.append(
            Advice(
                "Touch fewer pages at a time",
                "a core's work spreads over more pages than its buffer of translations holds: give it"
                " neighbouring addresses (flatter groups, sorted indices, arrays of structures).",
                f"{missed:.2g} translations are missed an access.",
            )
        )
    if part == DRAM and last is not None and last.misses["cold"] >= MOST * last.n_misses:
        advice.append(
            Advice(
                "Move fewer bytes, or hide the wait",
                "most of what it draws from main memory is drawn for the first time, so no cache"
                " size helps: a narrower type or packed data, or more independent loads in flight.",
            )
        )
    if not advice and part == site.levels[0].name:
        advice.append(
            Advice(
                "Access less often",
                f"{part} serves it already: reuse in registers, or wider loads.",
            )
        )
    if not advice and part != DRAM:
        advice.append(Advice("Stage it", f"{part} serves most of it: reuse in local memory."))
    return advice


def is_poorly_coalesced(site: SiteNumbers) -> bool:
    return site.sectors_per_access >= POOR_COALESCING * site.ideal_sectors_per_access


def dominant(parts: Mapping[str, float]) -> str:
    """The part that weighs most."""
    return max(parts, key=lambda part: parts[part])
