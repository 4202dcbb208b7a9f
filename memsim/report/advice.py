"""What to try against a slow load: a table of rules, each with a condition on the load's numbers.

A rule whose condition does not hold gives no advice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from memsim.latency import DRAM
from memsim.report.numbers import LevelNumbers, SiteNumbers, Summary
from memsim.report.text import byte_size, percent
from memsim.trace.model import GRANULE_BYTES

POOR_COALESCING = 1.5
"""Requested sectors over the fewest that could carry the bytes."""
MAIN_KIND = 0.5
"""Of a level's misses: the kind of miss that decides what to do."""
MANY_CONFLICTS = 0.25
"""Of a level's misses."""
MANY_TRANSLATIONS = 0.25
"""Missed translations per access: at 20 cycles each, they take as long as a sector from DRAM."""


@dataclass(frozen=True)
class Advice:
    """What to try: a name, how, and what it would gain (empty where no number supports it)."""

    name: str
    how: str
    gain: str = ""


@dataclass(frozen=True)
class SlowLoad:
    """A load with the quantities that the rules need."""

    summary: Summary
    site: SiteNumbers

    @property
    def main_part(self) -> str:
        """The level, or DRAM, that accounts for most of its latency."""
        return dominant(self.site.latency_parts)

    @property
    def first_level(self) -> str:
        """The name of the first level; empty on a machine without caches."""
        return self.site.levels[0].name if self.site.levels else ""

    @property
    def missed_levels(self) -> list[LevelNumbers]:
        """The levels that it misses, from the core outward."""
        return [level for level in self.site.levels if level.n_misses]

    @property
    def is_reused_too_late(self) -> bool:
        """Whether most misses of the first level are of data that was evicted before its reuse."""
        levels = self.missed_levels
        return bool(levels) and levels[0].misses["capacity"] >= MAIN_KIND * levels[0].n_misses

    @property
    def elements_per_sector(self) -> int:
        size = self.site.itemsize_bytes
        return GRANULE_BYTES // size if size else 0

    @property
    def conflicts(self) -> list[tuple[str, float]]:
        """(level, part of its misses) where conflict misses are many."""
        ratios = [
            (level.name, level.misses["conflict"] / level.n_misses) for level in self.missed_levels
        ]
        return [(name, ratio) for name, ratio in ratios if ratio >= MANY_CONFLICTS]

    @property
    def is_cold_in_dram(self) -> bool:
        """Whether main memory is its main part, mostly for data that no level has seen before."""
        levels = self.missed_levels
        if self.main_part != DRAM or not levels:
            return False
        return levels[-1].misses["cold"] >= MAIN_KIND * levels[-1].n_misses


@dataclass(frozen=True)
class Rule:
    """Advice that is given to every load for which `applies` holds."""

    name: str
    applies: Callable[[SlowLoad], bool]
    how: Callable[[SlowLoad], str]
    gain: Callable[[SlowLoad], str] = lambda _: ""

    def advice(self, load: SlowLoad) -> Advice:
        return Advice(self.name, self.how(load), self.gain(load))


def is_poorly_coalesced(site: SiteNumbers) -> bool:
    return site.sectors_per_access >= POOR_COALESCING * site.ideal_sectors_per_access


def dominant(parts: Mapping[str, float]) -> str:
    """The part with the largest value."""
    return max(parts, key=lambda part: parts[part])


def _first_level_size(load: SlowLoad) -> str:
    level = load.summary.level(load.missed_levels[0].name)
    return f" ({byte_size(level.size_bytes)})" if level else ""


RULES: tuple[Rule, ...] = (
    Rule(
        "Coalesce",
        lambda load: is_poorly_coalesced(load.site),
        lambda load: (
            "let neighbouring work-items access neighbouring elements: change the loop order or the"
            " data layout, or stage the data in local memory."
        ),
        lambda load: (
            f"Full coalescing requests {percent(load.site.saved_ratio, 0)} fewer sectors:"
            f" {byte_size(load.site.saved_bytes)} of this snapshot's requests."
        ),
    ),
    Rule(
        "Use whole sectors",
        lambda load: (
            is_poorly_coalesced(load.site)
            and load.is_reused_too_late
            and load.elements_per_sector > 1
            and load.site.direction == "load"
        ),
        lambda load: (
            f"the rest of a sector is evicted from {load.missed_levels[0].name} before it is needed."
            " Where a work-item's elements are consecutive, vector loads use a whole sector at once."
        ),
        lambda load: (
            f"A sector holds {load.elements_per_sector} elements of {load.site.itemsize_bytes} B."
        ),
    ),
    Rule(
        "Bring reuse closer",
        lambda load: not is_poorly_coalesced(load.site) and load.is_reused_too_late,
        lambda load: (
            f"work in tiles that fit {load.missed_levels[0].name}{_first_level_size(load)}, stage"
            " them in local memory, or keep fewer groups resident."
        ),
    ),
    Rule(
        "Change the pitch",
        lambda load: bool(load.conflicts),
        lambda load: "pad the leading dimension, so that rows map to different sets.",
        lambda load: (
            " and ".join(
                f"{percent(ratio, 0)} of its {name} misses" for name, ratio in load.conflicts
            )
            + " are conflicts."
        ),
    ),
    Rule(
        "Touch fewer pages at a time",
        lambda load: (load.site.missed_translations_per_access or 0.0) >= MANY_TRANSLATIONS,
        lambda load: (
            "the work on a core covers more pages than its translation buffer holds. Give a core"
            " neighbouring addresses: flatter groups, sorted indices, arrays of structures."
        ),
        lambda load: (
            f"An access misses {load.site.missed_translations_per_access:.2g} translations."
        ),
    ),
    Rule(
        "Move fewer bytes, or hide the wait",
        lambda load: load.is_cold_in_dram,
        lambda load: (
            "most of what it reads from main memory is read for the first time, so a larger cache"
            " would not help. Use a narrower type or packed data, or keep more independent loads in"
            " flight."
        ),
    ),
)
FALLBACKS: tuple[Rule, ...] = (
    Rule(
        "Access less often",
        lambda load: load.main_part == load.first_level,
        lambda load: (
            f"{load.main_part} serves it already: reuse values in registers, or load wider."
        ),
    ),
    Rule(
        "Stage it",
        lambda load: load.main_part not in (DRAM, load.first_level),
        lambda load: f"{load.main_part} serves most of it: reuse values in local memory.",
    ),
)
"""Tried where none of RULES applies."""


def advise(summary: Summary, site: SiteNumbers) -> list[Advice]:
    """What to try against a load, in the order of the rules."""
    load = SlowLoad(summary, site)
    for rules in (RULES, FALLBACKS):
        advice = [rule.advice(load) for rule in rules if rule.applies(load)]
        if advice:
            return advice
    return []
