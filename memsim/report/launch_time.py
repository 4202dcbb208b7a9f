"""How long the launch takes: lower bounds from the bytes that it moves, and a prediction if there is one.

The bounds are bytes divided by bandwidths, of the whole launch. A prediction comes from a time model, which
memsim does not contain (memsim.time_models finds it); the attribute `time` of the result keeps what it
says:

    time_s{mean, ci95, sigma, parts, model_error}   of one launch;  binds   what limits it
    floors_s{}          lower bounds in seconds, by the resource that needs so long
    saved_without_s{}   how much faster the launch would be without `latency`, `barriers`, ...
    what_if[]           {changes, time_s, binds}: the time, with a change
    accesses[]          {site, not_hidden}: part of an access's latency that nothing hides
    local_share         part of the lower bound of L1 that is due to local memory
    busiest_unit        the unit that arithmetic occupies longest: `fma`, `alu`, `special`, `slots`, ...
    rates[]             {name, per_s, peak_per_s, unit, at_most}: operations of the launch
    timeline{}          end_cycles, steps[] (names), rows[]: {name, spans[]: step, start, end}; step -1
                        is a wait for data, -2 one at a barrier
    notes[]             assumptions, a sentence each

Results may come from files: whatever does not have this form is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import xarray as xr

from memsim.latency import DRAM
from memsim.machine.model import Machine
from memsim.report.launch_totals import LaunchTotals
from memsim.statistics import Estimate

TWICE_AS_FAST = " twice as fast"
"""Ends the name of a what-if in which one resource is so."""
TRANSLATION = "translation"
BULK = "bulk copies"
"""The translation of addresses, as a resource."""
STORES, REQUESTS = " stores", " requests"
"""Ends of the name of a level whose stores, or look-ups, are the resource."""
HOT_LINE = "atomics on one line"
"""The line with most atomic operations, as a resource."""
STARTS = "starts of groups"
"""How many groups a machine starts in a time, as a resource."""
TENSOR = "tensor cores"
"""The units of matrix instructions, as a resource, and the beginning of the names of their rates."""
DEPENDENT = "dependent instructions"
IN_TURN = "DRAM's wait for L1"
LAUNCH = "launch"
"""Names of what a launch can be without."""
WAIT, BARRIER = -1, -2
MOST_SPANS = 20_000


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """changes : in words;  seconds : of the launch with them;  binds : what limits it then"""

    changes: str
    seconds: float
    binds: str


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A rate of the launch: `per_s` of `peak_per_s`, in `unit`; at_most : an upper bound of the rate"""

    name: str
    per_s: float
    peak_per_s: float
    unit: str
    at_most: bool = False


@dataclass(frozen=True, kw_only=True)
class TimelineRow:
    """One sub-group. spans : (step, start cycle, end cycle)"""

    name: str
    spans: tuple[tuple[int, float, float], ...]


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """A few sub-groups of a core over `end_cycles`; steps : name of each step of the program."""

    end_cycles: float
    steps: tuple[str, ...]
    rows: tuple[TimelineRow, ...]


@dataclass(frozen=True, kw_only=True)
class LaunchTime:
    """The time of a launch.

    seconds : predicted; None without a prediction
    binds : what limits it: a level, DRAM, `issue`, `latency`, `barriers`, ...; without a prediction, the
        resource with the largest lower bound
    floors_s : resource -> lower bound
    saved_s : `latency`, `barriers`, ... -> how much faster the launch would be without it
    not_hidden : site -> part of its latency that nothing hides
    local_share : part of the lower bound of L1 that is due to local memory
    busiest_unit : the unit that arithmetic occupies longest; empty where that is not known
    model_error : part of the time by which the model may be off; None where that is not known
    """

    seconds: Estimate | None
    binds: str
    floors_s: Mapping[str, float]
    saved_s: Mapping[str, float]
    what_if: tuple[WhatIf, ...]
    not_hidden: Mapping[str, float]
    local_share: float
    rates: tuple[Rate, ...]
    timeline: Timeline | None
    notes: tuple[str, ...]
    busiest_unit: str = ""
    model_error: float | None = None

    @property
    def floor_s(self) -> float:
        """The largest lower bound."""
        return max(self.floors_s.values(), default=0.0)

    @property
    def floor_name(self) -> str:
        return max(self.floors_s, key=lambda name: self.floors_s[name], default="")

    @property
    def saved_if_twice_as_fast(self) -> dict[str, float]:
        """Resource -> part of the time that would be saved if it were twice as fast; empty without a prediction."""
        if self.seconds is None:
            return {}
        return {
            one.changes.removesuffix(TWICE_AS_FAST): 1 - one.seconds / self.seconds.mean
            for one in self.what_if
            if one.changes.endswith(TWICE_AS_FAST)
        }

    def saved_at_most(self, resources: Iterable[str]) -> float | None:
        """Part of the time that is saved if one of these resources were twice as fast, or took no time where
        it is `latency`, `dependent instructions`, `barriers` or `group start`; the largest of them. None where no change is predicted."""
        if self.seconds is None or not (self.saved_s or self.what_if):
            return None
        without = {name: saved / self.seconds.mean for name, saved in self.saved_s.items()}
        parts = {**self.saved_if_twice_as_fast, **without}
        return max((parts.get(name, 0.0) for name in resources), default=0.0)


def keep_time(dataset: xr.Dataset, time: Mapping[str, Any]) -> xr.Dataset:
    """The result of a replay with a predicted time of this module's form."""
    return dataset.assign_attrs(time=dict(time))


def launch_time(kept: Mapping[str, Any], launch: LaunchTotals, machine: Machine) -> LaunchTime:
    """The time of a launch, from what its result keeps of it and from what it moves."""
    time = read_time(kept)
    if time.seconds is None:
        floors = _floors_s(launch, machine)
        largest = max(floors, key=lambda name: floors[name], default="")
        return replace(time, floors_s=floors, binds=largest)
    return replace(time, rates=(*_rates(launch, machine, time.seconds.mean), *time.rates))


def read_time(data: Mapping[str, Any]) -> LaunchTime:
    """A predicted time, from a JSON object of this module's form."""
    of_time = data.get("time_s")
    return LaunchTime(
        seconds=_estimate(of_time),
        model_error=_number(of_time.get("model_error")) if isinstance(of_time, dict) else None,
        binds=_text(data.get("binds")),
        floors_s=_numbers(data.get("floors_s")),
        saved_s=_numbers(data.get("saved_without_s")),
        what_if=tuple(
            WhatIf(
                changes=_text(one.get("changes")), seconds=seconds, binds=_text(one.get("binds"))
            )
            for one in _objects(data.get("what_if"))
            if (seconds := _number(one.get("time_s"))) is not None
        ),
        not_hidden={
            _text(one.get("site")): part
            for one in _objects(data.get("accesses"))
            if (part := _number(one.get("not_hidden"))) is not None
        },
        local_share=_number(data.get("local_share")) or 0.0,
        rates=tuple(_given_rates(data.get("rates"))),
        timeline=_timeline(data.get("timeline")),
        notes=tuple(note for note in _list(data.get("notes")) if isinstance(note, str)),
        busiest_unit=_text(data.get("busiest_unit")),
    )


def _floors_s(launch: LaunchTotals, machine: Machine) -> dict[str, float]:
    """Resource -> seconds that its bandwidth needs for the bytes of the launch."""
    moved = _moved_bytes(launch, machine)
    written = launch.moved.write_bytes[DRAM].mean if DRAM in launch.moved.write_bytes else 0.0
    part = written / moved[DRAM] if moved[DRAM] and math.isfinite(written) else 0.0
    rates = _bandwidths(machine, machine.dram.bandwidth_at(math.nan, written=part))
    return {name: moved[name] / rate for name, rate in rates.items()}


def _rates(launch: LaunchTotals, machine: Machine, seconds: float) -> Iterable[Rate]:
    """Bytes per second of each level."""
    moved = _moved_bytes(launch, machine)
    for name, peak in _bandwidths(machine, machine.dram.bandwidth_bytes_per_cycle).items():
        yield Rate(name=name, per_s=moved[name] / seconds, peak_per_s=peak, unit="B")


def _moved_bytes(launch: LaunchTotals, machine: Machine) -> dict[str, float]:
    """Level, or DRAM -> bytes: of the first level those that are requested of it, of the levels below those
    that are read, of DRAM both directions, which share a bus."""
    read, written = launch.moved.read_bytes, launch.moved.write_bytes
    names = [level.name for level in machine.levels]
    moved = {name: read[name].mean if name in read else 0.0 for name in names}
    if names:
        moved[names[0]] = launch.requested_bytes.mean
    moved[DRAM] = read[DRAM].mean + written[DRAM].mean if DRAM in read else 0.0
    return {name: value if math.isfinite(value) else 0.0 for name, value in moved.items()}


def _bandwidths(machine: Machine, of_dram: float) -> dict[str, float]:
    """Level, or DRAM -> bytes per second of the whole machine. of_dram : in bytes per cycle"""
    rates = {
        level.name: level.bandwidth_bytes_per_cycle * level.n_instances(machine.n_cores)
        for level in machine.levels
    }
    rates[DRAM] = of_dram
    return {name: rate * machine.clock_hz for name, rate in rates.items() if rate > 0}


def _timeline(value: Any) -> Timeline | None:
    data = value if isinstance(value, dict) else {}
    end = _number(data.get("end_cycles"))
    steps = tuple(_text(name) for name in _list(data.get("steps")))
    rows, left = [], MOST_SPANS
    for row in _objects(data.get("rows")):
        spans = tuple(
            (int(span[0]), float(span[1]), float(span[2]))
            for span in _list(row.get("spans"))[:left]
            if isinstance(span, list)
            and len(span) == 3
            and isinstance(span[0], int)
            and BARRIER <= span[0] < len(steps)
            and all(_number(end) is not None for end in span[1:])
        )
        left -= len(spans)
        rows.append(TimelineRow(name=_text(row.get("name")), spans=spans))
    if end is None or end <= 0 or not rows:
        return None
    return Timeline(end_cycles=end, steps=steps, rows=tuple(rows))


def _given_rates(value: Any) -> Iterable[Rate]:
    for one in _objects(value):
        rate, peak = _number(one.get("per_s")), _number(one.get("peak_per_s"))
        if rate is not None and peak:
            name, unit = _text(one.get("name")), _text(one.get("unit"))
            at_most = one.get("at_most") is True
            yield Rate(name=name, per_s=rate, peak_per_s=peak, unit=unit, at_most=at_most)


def _estimate(value: Any) -> Estimate | None:
    data = value if isinstance(value, dict) else {}
    mean, ends = _number(data.get("mean")), _list(data.get("ci95"))
    if mean is None or mean <= 0:
        return None
    high = _number(ends[1]) if len(ends) == 2 else None
    half = high - mean if high is not None else math.nan
    sigma = _number(data.get("sigma"))
    return Estimate(
        mean=mean,
        half_width=half,
        sigma=math.nan if sigma is None else sigma,
        n_trials=1 if high is None else 2,
        parts=_numbers(data.get("parts")) if high is not None else {},
    )


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in _list(value) if isinstance(one, dict)]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _numbers(value: Any) -> dict[str, float]:
    items = value.items() if isinstance(value, dict) else ()
    return {str(name): n for name, one in items if (n := _number(one)) is not None}


def _number(value: Any) -> float | None:
    """A finite number >= 0; everything else is None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) and value >= 0 else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
