"""What to try against a slow load: a table of rules, each with a condition on the load's numbers.

A rule whose condition does not hold gives no advice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from memsim.latency import DRAM
from memsim.report.launch_time import REQUESTS, TRANSLATION
from memsim.report.launch_totals import ArrayTotals
from memsim.report.numbers import LevelNumbers, SiteNumbers, Summary
from memsim.report.text import byte_size, fixed, percent
from memsim.trace.model import GRANULE_BYTES

POOR_COALESCING = 1.5
"""Requested sectors over the fewest that could carry the bytes."""
MIN_SHARE = 0.05
"""Part of the kernel's load latency; a load with less gets no advice."""
MIN_SAVED = 0.1
"""Part of a load's latency; misses that cause less are not worth a change."""
WASTEFUL = 1.5
"""Bytes that a load fetches over those that it uses, and times that an array is read over once."""
MAIN_KIND = 0.5
"""Part of the last level's misses from which on their kind decides the advice."""
MANY_CONFLICTS = 0.25
"""Part of a level's misses that are conflicts."""
MIN_VISIBLE = 0.05
"""Part of a load's latency that is not hidden; a load with less need not be faster."""
WORTH = 0.05
"""Part of the predicted time; a change that saves less is no finding."""
MANY_TRANSLATIONS = 0.25
"""Missed translations per access: at 20 cycles each, they take as long as a sector from DRAM."""


COALESCE = "Coalesce"
NEIGHBOURS = (
    "let neighbouring work-items access neighbouring elements: change the loop order or the data layout, or stage"
    " the data in local memory."
)


@dataclass(frozen=True)
class Advice:
    """What to try: a name, how, and what it would gain (empty where no number supports it).

    saves : part of the predicted time that it can save at most; 0 where nothing is predicted
    """

    name: str
    how: str
    gain: str = ""
    saves: float = 0.0


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

    def saved(self, name: str, kind: str) -> float:
        """Part of its latency that it would save if a level's misses of one kind were hits."""
        names = [level.name for level in self.site.levels]
        level = self.site.levels[names.index(name)]
        hit_cycles = self.summary.latency_of(name)
        if not level.n_misses or hit_cycles is None:
            return 0.0
        below = [*names[names.index(name) + 1 :], DRAM]
        served = self.site.served
        waited = sum(self.site.latency_parts[part] - served[part] * hit_cycles for part in below)
        return level.misses[kind] / level.n_misses * waited / self.site.latency_cycles.mean

    @property
    def late_level(self) -> LevelNumbers | None:
        """Where evictions before a reuse cost it most; None where they cost little."""
        worst = max(
            self.site.levels, key=lambda level: self.saved(level.name, "capacity"), default=None
        )
        late = worst is not None and self.saved(worst.name, "capacity") >= MIN_SAVED
        return worst if late else None

    @property
    def fetches_unused_bytes(self) -> bool:
        """Whether the first level fetches more for it than its work-items use, over time."""
        if not self.site.levels or not self.site.levels[0].accesses:
            return False
        first = self.site.levels[0]
        fetched = first.read_bytes / first.accesses * self.site.sectors
        return fetched >= WASTEFUL * self.site.useful_bytes

    @property
    def array(self) -> ArrayTotals | None:
        """Its array in the whole launch."""
        return next((a for a in self.summary.launch.arrays if a.name == self.site.array), None)

    @property
    def is_read_again(self) -> bool:
        """Whether its array is read from DRAM repeatedly, for this load and at a cost.

        Sectors hold no bytes of other arrays, so an array that is read more than once in all has
        sectors that are.
        """
        if self.array is None or not self.array.times_read >= WASTEFUL:
            return False
        read, size = self.array.moved.read_bytes[DRAM], self.array.size_bytes or 0
        total = self.summary.launch.moved.read_bytes[DRAM].mean
        return (
            not read.low <= size
            and read.mean - size >= MIN_SAVED * total
            and self.site.latency_parts[DRAM] >= MIN_SAVED * self.site.latency_cycles.mean
        )

    @property
    def evicts_unused_bytes(self) -> bool:
        """Whether its array is read again although the launch uses each byte about once: neighbouring bytes of a
        sector are used so much later that it has been evicted."""
        if self.array is None or not self.array.size_bytes or not self.is_read_again:
            return False
        loads = [site for site in self.summary.sites if site.array == self.array.name]
        used = sum(site.useful_bytes for site in loads if site.direction != "store")
        launch = self.summary.of_groups / self.summary.traced_groups
        return used * launch < WASTEFUL * self.array.size_bytes and is_poorly_coalesced(self.site)

    @property
    def is_loaded_once(self) -> bool:
        """Whether a group loads each sector of its array about once, as it does to stage it."""
        return self.array is not None and self.array.group_requests < WASTEFUL

    def below(self, name: str) -> set[str]:
        """What its misses in a level occupy: the levels below, DRAM, below the first level the translation of
        addresses, and time that nothing hides."""
        names = [level.name for level in self.site.levels]
        translated = {TRANSLATION} if name == self.first_level else set()
        asked = self.requests if name == self.first_level else set()
        return {*names[names.index(name) + 1 :], DRAM} | asked | translated | self.wait

    @property
    def requests(self) -> set[str]:
        """The look-ups of the level below the first."""
        return {level.name + REQUESTS for level in self.site.levels[1:2]}

    @property
    def wait(self) -> set[str]:
        """Its latency, unless other sub-groups hide it."""
        hidden = self.summary.time.not_hidden.get(self.site.name, 1.0) < MIN_VISIBLE
        return set() if hidden else {"latency"}

    @property
    def dram_saves(self) -> bool:
        """Whether a DRAM that is twice as fast would save any time; true where that is not known."""
        saves = self.summary.time.saved_at_most({DRAM})
        return saves is None or saves >= WORTH

    @property
    def elements_per_sector(self) -> int:
        size = self.site.itemsize_bytes
        return GRANULE_BYTES // size if size else 0

    @property
    def conflicts(self) -> list[tuple[str, float]]:
        """(level, part of its misses) where conflict misses are many, and cost it much."""
        ratios = [
            (level.name, level.misses["conflict"] / level.n_misses) for level in self.missed_levels
        ]
        return [
            (name, ratio)
            for name, ratio in ratios
            if ratio >= MANY_CONFLICTS and self.saved(name, "conflict") >= MIN_SAVED
        ]

    @property
    def is_cold_in_dram(self) -> bool:
        """Whether DRAM is its main part, mostly for data that no level has seen before."""
        levels = self.missed_levels
        if self.main_part != DRAM or not levels:
            return False
        return levels[-1].misses["cold"] >= MAIN_KIND * levels[-1].n_misses


@dataclass(frozen=True)
class Rule:
    """Advice that is given to every load for which `applies` holds.

    eases : the resources that the load then occupies less, as LaunchTime.saved_at_most names them. Where the
        time is predicted and none of them being faster would save anything, nothing is advised
    """

    name: str
    applies: Callable[[SlowLoad], bool]
    eases: Callable[[SlowLoad], set[str]]
    how: Callable[[SlowLoad], str]
    gain: Callable[[SlowLoad], str] = lambda _: ""

    def advice(self, load: SlowLoad) -> Iterator[Advice]:
        """The advice for a load, if there is any."""
        if self.applies(load):
            saves = load.summary.time.saved_at_most(self.eases(load))
            if saves is None or saves >= WORTH:
                yield Advice(self.name, self.how(load), self.gain(load), saves or 0.0)


def is_poorly_coalesced(site: SiteNumbers) -> bool:
    return site.sectors_per_access >= POOR_COALESCING * site.ideal_sectors_per_access


def dominant(parts: Mapping[str, float]) -> str:
    """The part with the largest value."""
    return max(parts, key=lambda part: parts[part])


def _size(load: SlowLoad, name: str) -> str:
    level = load.summary.level(name)
    return f" ({byte_size(level.size_bytes)})" if level else ""


def _late(load: SlowLoad) -> str:
    assert load.late_level is not None  # the rule applies
    return load.late_level.name


def _times_read(load: SlowLoad, part: str) -> str:
    """`x (1 MiB) is read from DRAM 3.0 times`; empty where it is not read repeatedly."""
    array = load.array
    if array is None or not array.size_bytes or part not in array.moved.read_bytes:
        return ""
    times = array.moved.read_bytes[part].mean / array.size_bytes
    if not times >= WASTEFUL:
        return ""
    return (
        f"{array.name} ({byte_size(array.size_bytes)}) is read from {part} {fixed(times, 1)} times"
    )


def _read_once(load: SlowLoad) -> str:
    assert load.array is not None  # the rule applies
    total = load.summary.launch.moved.read_bytes[DRAM].mean
    saved = load.array.moved.read_bytes[DRAM].mean - (load.array.size_bytes or 0)
    return f"Read once, the launch reads {byte_size(saved)} ({percent(saved / total, 0)}) less from DRAM."


def _coalesced(load: SlowLoad) -> str:
    fewer = f"Full coalescing requests {percent(load.site.saved_ratio, 0)} fewer sectors"
    if load.fetches_unused_bytes:
        again = f" {_times_read(load, DRAM)}, because sectors are evicted before all of their bytes are used."
        return f"{fewer}: {byte_size(load.site.saved_bytes)} of this snapshot's requests." + (
            again if load.evicts_unused_bytes else ""
        )
    return f"{fewer} of {load.first_level}; what {load.first_level} fetches is used already."


RULES: tuple[Rule, ...] = (
    Rule(
        "Read it once",
        lambda load: load.is_read_again and not load.evicts_unused_bytes,
        lambda load: {DRAM} | load.wait,
        lambda load: (
            f"{_times_read(load, DRAM)}: "
            + ("" if load.is_loaded_once else "keep it in registers or local memory, or ")
            + "let groups that run at the same time share it."
        ),
        _read_once,
    ),
    Rule(
        COALESCE,
        lambda load: is_poorly_coalesced(load.site),
        lambda load: (
            {load.first_level}
            | load.requests
            | (load.below(load.first_level) if load.fetches_unused_bytes else set())
        ),
        lambda _: NEIGHBOURS,
        _coalesced,
    ),
    Rule(
        "Use whole sectors",
        lambda load: (
            is_poorly_coalesced(load.site)
            and load.fetches_unused_bytes
            and load.late_level is not None
            and load.elements_per_sector > 1
            and load.site.direction == "load"
        ),
        lambda load: {load.first_level} | load.below(_late(load)),
        lambda load: (
            f"the rest of a sector is evicted from {_late(load)} before it is needed."
            " Where a work-item's elements are consecutive, vector loads use a whole sector at once."
        ),
        lambda load: (
            f"A sector holds {load.elements_per_sector} elements of {load.site.itemsize_bytes} B."
        ),
    ),
    Rule(
        "Bring reuse closer",
        lambda load: not is_poorly_coalesced(load.site) and load.late_level is not None,
        lambda load: load.below(_late(load)),
        lambda load: (
            "a group loads its data about once, and other groups load them again: let groups that share data"
            f" run at the same time, with less than {_late(load)}{_size(load, _late(load))} between"
            " them, or let a group compute more."
            if load.is_loaded_once
            else f"work in tiles that fit {_late(load)}{_size(load, _late(load))}, stage"
            " them in local memory, or keep fewer groups resident."
        ),
        lambda load: (
            f"Without its capacity misses in {_late(load)}, its latency is"
            f" {percent(load.saved(_late(load), 'capacity'), 0)} lower."
        ),
    ),
    Rule(
        "Change the pitch",
        lambda load: bool(load.conflicts),
        lambda load: load.below(load.conflicts[0][0]),
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
        lambda load: {TRANSLATION} | load.wait,
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
        lambda load: load.is_cold_in_dram and not load.is_read_again and load.dram_saves,
        lambda load: {DRAM} | load.wait,
        lambda load: (
            "most of what it reads from DRAM is read for the first time, so a larger cache"
            " would not help. Use a narrower type or packed data, or keep more independent loads in"
            " flight."
        ),
    ),
    Rule(
        "Hide the wait",
        lambda load: load.is_cold_in_dram and not load.is_read_again and not load.dram_saves,
        lambda load: load.wait,
        lambda load: (
            "most of what it reads from DRAM is read for the first time, so a larger cache would not help, and a"
            " DRAM that is twice as fast hardly. Keep more independent loads in flight."
        ),
    ),
)
FALLBACKS: tuple[Rule, ...] = (
    Rule(
        "Access less often",
        lambda load: load.main_part == load.first_level,
        lambda load: {load.first_level} | load.wait,
        lambda load: (
            f"{load.main_part} serves it already: reuse values in registers, or load wider."
        ),
    ),
    Rule(
        "Stage it",
        lambda load: load.main_part not in (DRAM, load.first_level) and not load.is_loaded_once,
        lambda load: load.below(load.first_level),
        lambda load: f"{load.main_part} serves most of it: reuse values in local memory.",
        lambda load: f"{text}." if (text := _times_read(load, load.main_part)) else "",
    ),
    Rule(
        "Let a group compute more",
        lambda load: (
            load.main_part not in (DRAM, load.first_level)
            and load.is_loaded_once
            and bool(_times_read(load, load.main_part))
        ),
        lambda load: load.below(load.first_level),
        lambda load: (
            f"a group loads its data about once, but {_times_read(load, load.main_part)}, by all groups"
            " together: with larger tiles, fewer groups load the same data."
        ),
    ),
)
"""Tried where none of RULES gives advice."""


def advise(summary: Summary, site: SiteNumbers) -> list[Advice]:
    """Advice for a load, in the order of the rules; none where its share is small."""
    load = SlowLoad(summary, site)
    if not site.share.mean >= MIN_SHARE:
        return []
    for rules in (RULES, FALLBACKS):
        advice = [one for rule in rules for one in rule.advice(load)]
        if advice:
            return advice
    return []
