"""What to try for a launch as a whole, where no single access is the reason for its time."""

from __future__ import annotations

from collections.abc import Iterator

from memsim.latency import DRAM
from memsim.machine import PORT_BYTES_PER_CYCLE
from memsim.report.advice import (
    COALESCE,
    MIN_SHARE,
    NEIGHBOURS,
    WORTH,
    Advice,
    is_poorly_coalesced,
)
from memsim.report.launch_time import (
    DEPENDENT,
    HOT_LINE,
    REQUESTS,
    STARTS,
    STORES,
    TENSOR,
    LaunchTime,
)
from memsim.report.numbers import Summary
from memsim.report.residency import (
    idle_cores,
    limiter_text,
    occupancy_of,
    uneven_share,
    uneven_text,
)
from memsim.report.text import count, fixed, number_of, percent, seconds

MANY_IDLE = 0.1
"""Part of the cores; fewer without a group are not worth a change."""
UNEVEN = 0.2
"""Part of the busiest core's work that others could do; less is not worth a change."""
MOST_LATENCY = 0.5
"""Part of the load latency; a cause of less is not why a kernel waits."""
MOSTLY_LOCAL = 0.5
"""Part of the first level's bound that local memory causes."""
BESIDE = 0.8
"""Part of the largest bound; another one above it limits the launch once the largest is lower."""
LEAST_PART = 0.005
"""Part of the time; less is shown as 0 %."""


def advise_launch(summary: Summary) -> Iterator[Advice]:
    """Advice for the launch, most important first; nothing where no rule applies, and where what it eases
    would save too little of the predicted time."""
    for rule in LAUNCH_RULES:
        advice = rule(summary)
        if advice is not None:
            yield advice


def _uneven_cores(summary: Summary) -> Advice | None:
    idle = has_idle_cores(summary)
    if not idle and not has_uneven_cores(summary):
        return None
    cores = count(summary.machine.n_cores)
    part = uneven_share(summary)
    even = f"Choose groups whose number is a multiple of {cores} or a little less, or many more and smaller ones."
    return Advice(
        "Give every core work" if idle else "Give every core as much work",
        f"{uneven_text(summary)}. {f'Divide the work among at least {cores} groups.' if idle else even}",
        f"Spread over all cores, the work of each is {percent(part, 0)} less."
        if idle
        else f"Spread evenly, the work of the busiest is {percent(part, 0)} less.",
        part,
    )


def _local_memory(summary: Summary) -> Advice | None:
    time = summary.time
    saves = time.saved_at_most([time.binds])
    if not is_mostly_local(summary) or (saves is not None and saves < WORTH):
        return None
    return Advice(
        "Access local memory less",
        f"it takes {percent(time.local_share, 0)} of the time that {time.binds} needs."
        " Compute several results per work-item, so that a value that is read from local memory is used"
        " more than once from a register, or read several neighbouring values at a time. Where atomics contend for"
        " its words, add up in registers first, or give sub-groups words of their own.",
        "" if saves is None else f"{time.binds} twice as fast would save {percent(saves, 0)}.",
        saves or 0.0,
    )


def _many_loads(summary: Summary) -> Advice | None:
    """Advice on loads each of which is too small for advice of its own, as in an unrolled loop."""
    small = [site for site in summary.loads if site.share.mean < MIN_SHARE]
    poor = [site for site in small if is_poorly_coalesced(site)]
    share = sum(site.share.mean for site in poor)
    if not share > MOST_LATENCY:
        return None
    first = summary.level_names[0] if summary.level_names else DRAM
    saves = summary.time.saved_at_most({first})
    if saves is not None and saves < WORTH:
        return None
    accesses = sum(site.accesses for site in poor)
    sectors, ideal = (
        sum(n) for n in zip(*((s.sectors, s.ideal_sectors) for s in poor), strict=True)
    )
    return Advice(
        COALESCE,
        f"{number_of(len(poor), 'load')} with {percent(share, 0)} of the load latency request"
        f" {fixed(sectors / accesses, 1)} sectors per access where {fixed(ideal / accesses, 1)} could carry their"
        f" bytes. {NEIGHBOURS[:1].upper()}{NEIGHBOURS[1:]}",
        f"Full coalescing requests {percent(1 - ideal / sectors, 0)} fewer sectors.",
        saves or 0.0,
    )


def _store(summary: Summary) -> Advice | None:
    """Advice on a store that is poorly coalesced and makes most requests, where these bind."""
    if not summary.time.binds.endswith((STORES, REQUESTS)) or not summary.sites:
        return None
    most = max(summary.sites, key=lambda site: site.sectors)
    if most.direction != "store" or not is_poorly_coalesced(most):
        return None
    return _easing(summary, "Coalesce the store", NEIGHBOURS)


def _latency(summary: Summary) -> Advice | None:
    how = "let each work-item compute several elements"
    if summary.repeats_loads:
        how = "unroll loops, load the next step's values ahead"
    return _waiting(
        summary,
        "latency",
        "Have more loads in flight",
        f"load several values before the first is used ({how}){_or_more_work_items(summary)}",
    )


def _barriers(summary: Summary) -> Advice | None:
    return _waiting(
        summary,
        "barriers",
        "Wait less at barriers",
        "use smaller groups, so that others run while one waits, or one barrier instead of two in a step,"
        " with two buffers.",
    )


def _group_starts(summary: Summary) -> Advice | None:
    name, how = (
        "Start fewer groups",
        "groups are short. Let each work-item compute several elements.",
    )
    if summary.time.binds == STARTS:
        return _easing(summary, name, how)
    return _waiting(summary, "group start", name, how)


def _hot_line(summary: Summary) -> Advice | None:
    name, how = (
        "Have fewer atomics on one place",
        "one line of memory takes them one after another. Give each group its own sums in local memory, which it adds"
        " to the others once; add up first what the lanes of a sub-group have for one place; or give groups places of"
        " their own, at least a line apart.",
    )
    time = summary.time
    if time.binds == HOT_LINE:
        return _easing(summary, name, how)
    if time.floor_name != HOT_LINE or time.seconds is None:
        return None
    part = percent(time.floor_s / time.seconds.mean, 0)
    return Advice(name, how, f"The busiest line needs {part} of the time, whatever else is faster.")


def _tensor_cores(summary: Summary) -> Advice | None:
    if summary.time.binds != TENSOR:
        return None
    return _easing(
        summary,
        "Multiply narrower numbers",
        "tensor cores multiply factors of half as many bits twice as fast, and some add in FP16 faster than in FP32.",
    )


def _easing(summary: Summary, name: str, how: str) -> Advice | None:
    """Advice on a resource that binds, if easing it is worth it."""
    binds = summary.time.binds
    saves = summary.time.saved_at_most([binds]) or 0.0
    if saves < WORTH:
        return None
    what = f"{binds} twice as fast" if binds == TENSOR else f"half as many {binds}"
    text = f"{what[:1].upper()}{what[1:]} would save {percent(saves, 0)}."
    return Advice(name, how, text, saves)


def _dependences(summary: Summary) -> Advice | None:
    return _waiting(
        summary,
        DEPENDENT,
        "Have independent instructions",
        "each waits for the result of the one before. Compute several elements, or parts of a sum, side by side"
        + _or_more_work_items(summary),
    )


def _or_more_work_items(summary: Summary) -> str:
    """The end of a sentence; with another way to hide waits where a core is not full."""
    limiter = "" if occupancy_of(summary) == 1 else limiter_text(summary)
    return f", or have more work-items on a core ({limiter})." if limiter else "."


def _waiting(summary: Summary, binds: str, name: str, how: str) -> Advice | None:
    """Advice against a wait, where it binds."""
    saves = summary.time.saved_at_most([binds]) or 0.0
    if summary.time.binds != binds or saves < WORTH:
        return None
    what = "the start of groups" if binds == "group start" else binds
    return Advice(name, how, f"Without {what} it takes {percent(saves, 0)} less.", saves)


_FEWER = {
    "scalar loads": "Unroll the loop, so that a load brings several neighbouring values, or keep them in registers.",
    "scalar": "Take indices, divisions and counters that are the same for all lanes out of the loop, or unroll it.",
}
"""How a unit gets fewer instructions."""


def _instructions(summary: Summary) -> Advice | None:
    saves = summary.time.saved_at_most(["arithmetic"]) or 0.0
    if summary.time.binds != "issue" or saves < WORTH:
        return None
    busiest = UNITS.get(summary.time.busiest_unit)
    return Advice(
        "Execute fewer instructions",
        (f"of the units of a core, that for {busiest} is busiest. " if busiest else "")
        + _FEWER.get(
            summary.time.busiest_unit or "",
            "Compute once what is the same in every step, and use cheaper operations.",
        ),
        f"Arithmetic twice as fast would save {percent(saves, 0)}.",
        saves,
    )


LAUNCH_RULES = (
    _uneven_cores,
    _local_memory,
    _hot_line,
    _many_loads,
    _store,
    _latency,
    _barriers,
    _group_starts,
    _tensor_cores,
    _dependences,
    _instructions,
)
"""Most important first; each gives advice or none."""

UNITS = {
    "fma": "32-bit floating-point numbers",
    "alu": "integers (indices and comparisons among them)",
    "integer_fma": "products of integers",
    "integer": "integers (indices, comparisons and products among them)",
    "fp64": "64-bit floating-point numbers",
    "reads of operands": "reads of operands from one bank of registers",
    "fp16": "16-bit floating-point numbers",
    "special": "special functions (such as exp, sqrt and sin)",
    "vector": "vector instructions",
    "scalar": "what all lanes compute alike (the scalar unit)",
    "scalar loads": "loads of one address by all lanes (the scalar cache)",
    "slots": "issuing instructions of any kind",
}
"""What the units of machine code are for."""


def has_idle_cores(summary: Summary) -> bool:
    """Whether many cores have no group, where what binds is not shared by all cores: a level that delivers more than the
    others can receive is not the limit."""
    cores, idle = summary.machine.n_cores, idle_cores(summary)
    received = PORT_BYTES_PER_CYCLE * (cores - idle)
    shared = {
        level.name
        for level in summary.machine.levels
        if level.cores_per_instance > 1
        and level.bandwidth_bytes_per_cycle * cores <= received * level.cores_per_instance
    }
    binds = summary.time.binds.removesuffix(STORES).removesuffix(REQUESTS)
    is_shared = binds in shared or binds in (DRAM, STARTS, HOT_LINE)
    return not is_shared and idle >= MANY_IDLE * cores


def has_uneven_cores(summary: Summary) -> bool:
    """Whether all cores have groups and some many more than others, where what binds is a core's own. A core runs groups one
    after another as fast as beside each other then, and the last to end decides."""
    of_a_core = ("issue", TENSOR, *summary.level_names[:1])
    return (
        summary.time.binds in of_a_core
        and summary.of_groups > summary.machine.n_cores
        and uneven_share(summary) >= UNEVEN
    )


def is_mostly_local(summary: Summary) -> bool:
    """Whether the first level binds, mostly for local memory, with which it shares its pipe."""
    time = summary.time
    first = summary.level_names[:1] == (time.binds,) and time.binds == time.floor_name
    return first and time.local_share > MOSTLY_LOCAL


def not_alone(time: LaunchTime) -> str:
    """`DRAM twice as fast would save 1 %, arithmetic 9 %`, or `..., because L2 needs 98 us`: that what binds does
    so beside others, which take over at once; empty where it binds alone, or where that is not known."""
    own = time.floor_name
    saved = time.saved_if_twice_as_fast
    if own not in saved or not saved[own] < WORTH or time.binds not in (own, "issue"):
        return ""
    part = percent(saved[own], 0) if saved[own] >= LEAST_PART else "nothing"
    words = f"{own} twice as fast would save {part}"
    best = max(saved, key=lambda name: saved[name])
    waits = (
        {name: of / time.seconds.mean for name, of in time.saved_s.items()} if time.seconds else {}
    )
    wait = max(waits, key=lambda name: waits[name], default="")
    if waits.get(wait, 0.0) >= max(WORTH, saved[best]):
        return f"{words}, to do without {wait} {percent(waits[wait], 0)}"
    if saved[best] >= WORTH:
        return f"{words}, {best} {percent(saved[best], 0)}"
    other, floor = max(
        ((name, floor) for name, floor in time.floors_s.items() if name != own),
        key=lambda item: item[1],
        default=("", 0.0),
    )
    return (
        f"{words}, because {other} needs {seconds(floor)}"
        if floor >= BESIDE * time.floor_s
        else words
    )
