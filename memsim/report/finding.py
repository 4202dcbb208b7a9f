"""The headline of every report: what binds the kernel, what that costs, and which access is behind it.

`DRAM-bound: 718 ± 18 us, at least 640 us for DRAM; x is read 3.0 times its size`. Without a predicted time there
is only the lower bound: `At least 640 us, for DRAM; ...`. Where hit ratios depend on the order, it
ends with `order-sensitive: L1 hits 14 % to 76 %`, and with `warm caches` where the launch is one of many repeated ones.
"""

from __future__ import annotations

import math

from memsim.latency import DRAM
from memsim.report.advice import is_poorly_coalesced
from memsim.report.launch_advice import (
    UNITS,
    has_idle_cores,
    has_uneven_cores,
    is_mostly_local,
    not_alone,
)
from memsim.report.launch_time import (
    DEPENDENT,
    HOT_LINE,
    LAUNCH,
    REQUESTS,
    STARTS,
    STORES,
    TENSOR,
    LaunchTime,
)
from memsim.report.numbers import SiteNumbers, Summary
from memsim.report.order_sensitivity import in_headline
from memsim.report.residency import uneven_text
from memsim.report.text import (
    byte_size,
    fixed,
    percent,
    rate,
    seconds,
    seconds_plus_minus,
    shortened,
)

_BOUND = {
    "issue": "Issue",
    "latency": "Latency",
    "barriers": "Barrier",
    "group start": "Group-start",
    DEPENDENT: "Dependence",
    STARTS: "Group-start",
    HOT_LINE: "Atomic",
    TENSOR: "Tensor-core",
}
"""What limits a launch, where the word before `-bound` is not the resource's name."""
READ_AGAIN = 1.15
"""An array that is read this many times its size from DRAM is read again."""


def headline(summary: Summary) -> str:
    """The headline of a replay."""
    warm = "warm caches" if summary.options.get("warm") else ""
    parts = [bound(summary.time), _cause(summary), in_headline(summary), warm]
    words = "; ".join(filter(None, parts))
    return words[:1].upper() + words[1:]


def bound(time: LaunchTime) -> str:
    """What limits a launch and how long it takes; empty where nothing is known of either."""
    if time.seconds is None:
        return f"At least {seconds(time.floor_s)}, for {time.floor_name}" if time.floor_s else ""
    resource = time.binds.removesuffix("s") if time.binds.endswith(REQUESTS) else time.binds
    what = _BOUND.get(time.binds, resource[:1].upper() + resource[1:])
    least = f", at least {seconds(time.floor_s)} for {time.floor_name}" if time.floor_s else ""
    if not_alone(time):
        return f"Bound by several resources: {seconds_plus_minus(time.seconds)}{least}"
    return f"{what}-bound: {seconds_plus_minus(time.seconds)}{least}"


def _cause(summary: Summary) -> str:
    """The access or array behind what binds; empty where nothing stands out."""
    binds = summary.time.binds
    if has_idle_cores(summary) or has_uneven_cores(summary):
        return uneven_text(summary)
    if beside := not_alone(summary.time):
        return beside
    if binds == DRAM:
        return _most_from_dram(summary)
    if binds == "latency":
        return _longest_wait(summary)
    if binds == TENSOR:
        return "; ".join(
            f"{rate(one.per_s, one.unit)} of {rate(one.peak_per_s, one.unit)} on {one.name}"
            for one in summary.time.rates
            if one.name.startswith(TENSOR)
        )
    if binds in ("barriers", "group start", DEPENDENT, LAUNCH):
        return _without(summary.time)
    if binds == "issue" and summary.time.busiest_unit in UNITS:
        return f"the unit for {UNITS[summary.time.busiest_unit]} is busiest"
    if is_mostly_local(summary):
        return f"{percent(summary.time.local_share, 0)} of that is local memory"
    if binds == HOT_LINE:
        return _busiest_atomic(summary)
    if binds == STARTS:
        return f"{summary.of_groups:,} groups begin one after another"
    if binds in summary.level_names or binds.endswith((STORES, REQUESTS)):
        return _most_requests(summary)
    return ""


def _most_from_dram(summary: Summary) -> str:
    arrays = summary.launch.arrays
    if not arrays:
        return ""
    most = max(arrays, key=lambda one: one.dram_bytes)
    name, moved = shortened(most.name), byte_size(most.dram_bytes)
    if math.isfinite(most.times_read) and most.times_read >= READ_AGAIN:
        return f"{name} is read {fixed(most.times_read, 1)} times its size"
    read = [one.times_read for one in arrays if math.isfinite(one.times_read)]
    if read and max(read) < READ_AGAIN:
        return f"no array is read more than once, and {name} moves most, {moved}"
    return f"{name} moves most, {moved}"


def _busiest_atomic(summary: Summary) -> str:
    atomics = [site for site in summary.sites if site.direction == "atomic"]
    if not atomics:
        return ""
    most = max(atomics, key=lambda site: site.accesses)
    return f"{shortened(most.name)} is executed {most.accesses:,} times in this snapshot"


def _without(time: LaunchTime) -> str:
    """The time without what binds."""
    saved = time.saved_s.get(time.binds)
    if time.seconds is None or saved is None:
        return ""
    what = {"group start": "the start of groups", LAUNCH: "the launch itself"}
    return f"{seconds(time.seconds.mean - saved)} without {what.get(time.binds, time.binds)}"


def _longest_wait(summary: Summary) -> str:
    """The load whose latency that nothing hides is longest."""
    hidden = summary.time.not_hidden
    loads = [site for site in summary.loads if math.isfinite(site.share.mean)]
    if not loads:
        return ""

    def visible(site: SiteNumbers) -> float:
        return site.share.mean * hidden.get(site.name, 0.0 if hidden else 1.0)

    most = max(loads, key=visible)
    wait = f"{shortened(most.name)} waits {fixed(most.latency_cycles.mean)} cycles"
    if most.name in hidden:
        return f"{wait}, {percent(hidden[most.name], 0)} of them not hidden"
    return wait


def _most_requests(summary: Summary) -> str:
    """The access with the most sectors, and whether coalescing would spare any."""
    if not summary.sites:
        return ""
    most = max(summary.sites, key=lambda site: site.sectors)
    name = shortened(most.name)
    if is_poorly_coalesced(most):
        return (
            f"{name} requests {fixed(most.sectors_per_access, 1)} sectors per access where"
            f" {fixed(most.ideal_sectors_per_access, 1)} could carry its bytes"
        )
    total = sum(site.sectors for site in summary.sites)
    return f"{name} makes {percent(most.sectors / total, 0)} of the requests" if total else ""
