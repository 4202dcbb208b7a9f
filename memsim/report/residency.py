"""How full a launch makes the machine: resident groups, idle cores, waves, occupancy, registers."""

from __future__ import annotations

import math

from memsim.report.numbers import Summary
from memsim.report.text import count, fixed, number_of, percent

_LIMITERS = {
    "items": "work-items",
    "subgroups": "sub-groups",
    "groups": "the most groups that a core holds",
    "launch": "the launch",
}
"""What limits resident groups, as memsim.montecarlo.Occupancy and predictions name it, in plain words."""


def resident_groups(summary: Summary) -> int | None:
    """The most groups of the launch that are on one core at a time; None where the result does not contain it."""
    fit = _fitting(summary)
    available = math.ceil(summary.of_groups / summary.machine.n_cores)
    return None if fit is None else min(fit, max(available, 1))


def idle_cores(summary: Summary) -> int:
    """Cores that no group of the launch runs on."""
    return max(summary.machine.n_cores - summary.of_groups, 0)


def uneven_share(summary: Summary) -> float:
    """The part of the busiest core's groups that it would not have if all cores had equally many."""
    even = summary.of_groups / summary.machine.n_cores
    return 1 - even / max(math.ceil(even), 1)


def uneven_text(summary: Summary) -> str:
    """`68 of 188 cores run 2 groups, the others 1`, where each free core takes the next group."""
    cores = summary.machine.n_cores
    fewer, more = divmod(summary.of_groups, cores)
    if not fewer:
        return f"{cores - more} of {cores} cores have no group"
    return f"{more} of {cores} cores run {number_of(fewer + 1, 'group')}, the others {fewer}"


def groups_text(summary: Summary) -> str:
    """`16 groups`, resident on a core; empty where the result does not contain it."""
    groups = resident_groups(summary)
    return number_of(groups, "group") if groups else ""


def resident_text(summary: Summary) -> str:
    """All that is known of it, in one line."""
    groups = groups_text(summary)
    notes = "; ".join(resident_notes(summary))
    return f"{groups} per core, {notes}" if groups else notes


def resident_notes(summary: Summary) -> list[str]:
    """Occupancy, waves and registers, as far as the result contains them."""
    notes = (limiter_text(summary), waves_text(summary), registers_text(summary))
    return [note for note in notes if note]


def occupancy_of(summary: Summary) -> float | None:
    """The part of the work-items that a core could hold which it holds; None where the result does not say."""
    fit, groups = _fitting(summary), resident_groups(summary)
    ratio = summary.occupancy.get("occupancy")
    if fit is None or groups is None or not isinstance(ratio, int | float):
        return None
    return ratio * groups / fit


def limiter_text(summary: Summary) -> str:
    """`100 % occupancy, limited by work-items`; empty where the result does not contain it."""
    fit, groups = _fitting(summary), resident_groups(summary)
    if fit is None or groups is None:
        return ""
    part, limiter = occupancy_of(summary), summary.occupancy.get("limited_by")
    occupancy = "" if part is None else f"{percent(part, 0)} occupancy, "
    if groups < fit:
        cores, idle = summary.machine.n_cores, idle_cores(summary)
        none = f", of which {count(idle)} have none" if idle else ""
        launch = (
            f"it has {number_of(summary.of_groups, 'group')} for {number_of(cores, 'core')}{none}"
        )
        return f"{occupancy}limited by the launch: {launch}"
    if limiter == "given":
        return f"{occupancy}given as an option"
    return f"{occupancy}limited by {limiter_name(str(limiter))}"


def limiter_name(limiter: str) -> str:
    """A resource of memsim.montecarlo.Occupancy in plain words."""
    return _LIMITERS.get(limiter, limiter)


def waves_text(summary: Summary) -> str:
    """`1.56 waves: 2,000 groups, of which all cores hold 1,280 at a time`; empty for a launch of less than one."""
    held = (_fitting(summary) or 0) * summary.machine.n_cores
    if not held or summary.of_groups <= held:
        return ""
    waves, groups = fixed(summary.of_groups / held, 2), count(summary.of_groups)
    return f"{waves} waves: {groups} groups, of which all cores hold {count(held)} at a time"


def _fitting(summary: Summary) -> int | None:
    """The groups that a core has room for."""
    groups = summary.occupancy.get("groups_per_core")
    return groups if isinstance(groups, int) and groups > 0 else None


def registers_text(summary: Summary) -> str:
    """`20 registers per work-item, compiled for sm_80`; empty where they are unknown."""
    registers = summary.registers_per_item
    if registers is None:
        return ""
    return f"{registers} registers per work-item, {registers_source(summary)}"


def registers_source(summary: Summary) -> str:
    """Where the number of registers is from."""
    compiled = summary.compiled
    if summary.options.get("registers") is not None:
        return "given as an option"
    if compiled.target and summary.registers_per_item == compiled.registers_per_item:
        return f"compiled for {compiled.target}"
    return "given with the kernel"


def occupancy_text(summary: Summary) -> str:
    """Load hit ratios over the feasible occupancies; empty where the occupancy is known."""
    feasible = summary.feasible_hit_ratios
    if len(feasible) < 2:
        return ""
    ranges = []
    for name in summary.level_names:
        ratios = [row[name] for row in feasible.values() if math.isfinite(row.get(name, math.nan))]
        if ratios:
            ranges.append(f"{name} {percent(min(ratios))} to {percent(max(ratios))}")
    return (
        f"Registers are unknown, so the occupancy is not determined. With {min(feasible)} to"
        f" {max(feasible)} groups per core, load hit ratios are {', '.join(ranges)}."
    )
