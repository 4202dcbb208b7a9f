"""What to try for a launch as a whole, where no single access is the reason for its time."""

from __future__ import annotations

from collections.abc import Iterator

from memsim.report.advice import Advice
from memsim.report.launch_time import LaunchTime
from memsim.report.numbers import Summary
from memsim.report.residency import idle_cores
from memsim.report.text import count, percent

MANY_IDLE = 0.1
"""Of the cores: fewer without a group are not worth a change."""
MOSTLY_LOCAL = 0.5
"""Of the least time that the first level needs."""
WORTH = 0.05
"""Of the time: what saves less is no finding."""
LEAST_PART = 0.005
"""Of the time: less reads as 0 %."""


def advise_launch(summary: Summary) -> Iterator[Advice]:
    """Advice for the launch, most important first; nothing where no rule applies."""
    cores = summary.machine.n_cores
    if has_idle_cores(summary):
        yield Advice(
            "Give every core work",
            f"{idle_cores(summary)} of {cores} cores have no group. Make groups smaller, or divide the work"
            f" among at least {count(cores)} of them.",
        )
    if is_mostly_local(summary):
        yield Advice(
            "Access local memory less",
            f"it takes {percent(summary.time.local_share, 0)} of the time that {summary.time.binds} needs."
            " Compute several results per work-item, so that a value that is read from local memory is used"
            " more than once from a register, or read several neighbouring values at a time.",
            _saved(summary.time, summary.time.binds),
        )


def has_idle_cores(summary: Summary) -> bool:
    """Whether many cores have no group, where what binds is not shared by all cores."""
    shared = {level.name for level in summary.machine.levels if level.cores_per_instance > 1}
    binds = summary.time.binds.removesuffix(" stores")
    is_shared = binds in shared or binds == "DRAM"
    return not is_shared and idle_cores(summary) >= MANY_IDLE * summary.machine.n_cores


def is_mostly_local(summary: Summary) -> bool:
    """Whether the first level binds, mostly for local memory, with which it shares its pipe."""
    time = summary.time
    first = summary.level_names[:1] == (time.binds,) and time.binds == time.floor_name
    return first and time.local_share > MOSTLY_LOCAL


def not_alone(time: LaunchTime) -> str:
    """`DRAM twice as fast would save 1 %, arithmetic 9 %`: that what binds does so beside others, which take
    over at once; empty where it binds alone, or where that is not known."""
    own = time.floor_name
    saved = time.saved_if_twice_as_fast
    if own not in saved or not saved[own] < WORTH or time.binds not in (own, "issue"):
        return ""
    part = percent(saved[own], 0) if saved[own] >= LEAST_PART else "nothing"
    words = f"{own} twice as fast would save {part}"
    best = max(saved, key=lambda name: saved[name])
    return f"{words}, {best} {percent(saved[best], 0)}" if saved[best] >= WORTH else words


def _saved(time: LaunchTime, name: str) -> str:
    saved = time.saved_if_twice_as_fast.get(name, 0.0)
    return f"{name} twice as fast would save {percent(saved, 0)}." if saved >= WORTH else ""
