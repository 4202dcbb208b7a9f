"""Replays a trace on a machine under random orderings, and gathers the counts in a Replay."""

from __future__ import annotations

import dataclasses
import platform
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import xarray as xr

from memsim.errors import ReplayError, SnapshotWarning
from memsim.hierarchy.cache import (
    ACCESSES,
    DIRTIED,
    DOUBTFUL,
    FAR,
    HITS,
    LIKELY,
    LIKELY_DIRTIED,
    OPEN,
    OPEN_DIRTIED,
    PENDING,
    READ_GRANULES,
    WRITE_GRANULES,
)
from memsim.machine.file import load_machine
from memsim.machine.model import Machine
from memsim.montecarlo.besides import Besides, miss_kinds_of
from memsim.montecarlo.occupancy import Occupancy
from memsim.montecarlo.options import ReplayOptions
from memsim.montecarlo.past import first_loads, first_reads, has_past, repeated_bytes
from memsim.montecarlo.plan import Plan, make_plan
from memsim.montecarlo.result import MISS_KINDS, Replay
from memsim.montecarlo.totals import requests_of_group, site_lookups, site_totals, whole_groups
from memsim.montecarlo.trial import TrialResult, Workspace
from memsim.montecarlo.workers import (
    Prepare,
    Progress,
    Results,
    Stopping,
    Workers,
    counted,
    enough_trials,
    run_others,
)
from memsim.statistics import PHASES, Places
from memsim.trace.launches import launch_work
from memsim.trace.model import GRANULE_BYTES, Trace

SCHEMA = 1
SHORT_TRIAL = 100_000_000
"""Requests up to which trials run in threads: they take less than about four seconds, of which a worker process would need
two to start, and whoever ends a replay waits no longer than that for those that have begun."""
MAX_SAMPLES = 2048
"""The most DRAM latencies that are kept per trial, evenly spaced over those sampled."""


Provisional = Callable[[int, Callable[[], Replay]], object]
"""Called with the number of trials that are done and a function that makes the replay of these, from the
number on at which it has an interval. Kinds of misses are not in it before all are known."""


Grows = Callable[[Replay], bool]
"""Whether another replay, of more or longer snapshots, follows one whose trials are done."""


def replay(
    trace: Trace | Sequence[Trace],
    machine: Machine | str,
    options: ReplayOptions | None = None,
    *,
    progress: Progress | None = None,
    provisional: Provisional | None = None,
    grows: Grows | None = None,
    **changes: Any,
) -> Replay:
    """Replay a trace, or several snapshots of one kernel, on a machine under random orderings.

    trace : several snapshots must have the same sites; trial i replays snapshot i modulo their number
    options, changes : a ReplayOptions, and its fields as keywords, which take precedence
    progress : called after each trial, and each replay for kinds of misses, other orders and other numbers of
        groups, with (how many are done, how many there will be at most)
    provisional : see Provisional
    grows : if it is true when the trials are done, their replay is returned, and nothing is replayed besides them

    Ctrl-C returns the trials completed so far, marked `interrupted`. Raises ReplayError where trace,
    machine and options do not fit. Warns (SnapshotWarning) where a snapshot has fewer than two waves.
    """
    options = (options or ReplayOptions()).replace(**changes)
    machine = load_machine(machine)
    traces = _snapshots(trace)
    n_requests = max(one.n_granule for one in traces)
    most = options.most_trials(n_requests)
    if most < len(traces):  # a place that stands for itself needs a trial
        traces = tuple(one for one in traces if not _stands_alone(one)) or traces
    plans, places, occupancy = _plans(traces, machine, options)
    stopping = stopping_for(options, machine, places, n_requests)
    work = launch_work(traces)
    last_bytes = machine.levels[-1].size_bytes if machine.levels else 0
    stays = options.warm and repeated_bytes(traces[0]) <= last_bytes
    is_inside = not (traces[0].whole or places.has_start or stays)
    is_inside = is_inside and traces[0].warming is None
    loads = first_loads(traces[0], *_counted(plans[0])) if is_inside else {}
    besides = Besides(traces[0], machine, plans[0], occupancy, options, places)

    def gathered(made: Results) -> Replay:
        about = attributes(
            traces,
            plans[0],
            {**occupancy.to_json(), **besides.at_other_groups(made)},
            orders=besides.in_other_orders(made),
            options=options,
            used={
                "trials": most,
                "snapshots": places.n,
                "phases": places.phases,
                "own_weights": list(places.own_weights),
                "has_start": places.has_start,
                "in_windows": traces[0].warming is not None,
                "traced_part": float(np.mean([one.traced_part for one in traces])),
                "launch_work": work.of_traced,
                "launch_work_error": work.error,
            },
            interrupted=made.interrupted,
        )
        first = made.trials[:: len(plans)]
        about["first_reads"] = first_reads(loads, _read_bytes(traces[0], first))
        about["pages"] = besides.shares_of_pages(made)
        return Replay(dataset(traces, plans, made.trials, miss_kinds_of(made), about))

    def watch(made: Results, most_calls: int) -> None:
        counted(progress)(made, most_calls)
        if provisional is not None and len(made.trials) >= max(places.n, 2):
            provisional(len(made.trials), lambda: gathered(made))

    with workers_for(plans, options, n_requests) as workers:
        made = enough_trials(
            workers,
            options.seed,
            most,
            stopping,
            watch,
            others=besides.kinds_of_misses(),
            suffices=lambda made: grows is None or not grows(gathered(made)),
        )
        run_others(workers, made, besides.calls(len(made.trials)), watch)
    return gathered(made)


def _counted(plan: Plan) -> tuple[int, int]:
    """A snapshot's first groups, which are not counted, and those that are; of groups in progress, half in the mean."""
    counted = np.flatnonzero(plan.counted())
    first, end = int(counted[0]), int(counted[-1]) + 1
    if not first and plan.ordering.deviation and not plan.ordering.counts_start:
        first = min(plan.wave, len(plan.work.turns)) // 2
    return first, end - first


def _read_bytes(trace: Trace, results: Sequence[TrialResult]) -> dict[str, float]:
    """Array -> bytes that the counted groups read from DRAM, the mean of some trials."""
    read = np.mean([one.counts[-1:, :, READ_GRANULES].sum(axis=0) for one in results], axis=0)
    found = dict.fromkeys((site.array for site in trace.sites), 0.0)
    for site, granules in zip(trace.sites, read, strict=True):
        found[site.array] += GRANULE_BYTES * float(granules)
    return found


def _plans(
    traces: Sequence[Trace], machine: Machine, options: ReplayOptions
) -> tuple[list[Plan], Places, Occupancy]:
    """A plan of each place; of a whole launch of several waves two, with its groups in step and spread."""
    at_start = options.replace(deviation=False, counts_start=False, warmup_waves=0)
    plans: list[Plan] = []
    for one in traces:
        plan, occupancy = make_plan(one, machine, at_start if _is_start(one) else options)
        warn_if_short(one, plan)
        plans.append(plan)
    places = _places(traces, plans)
    if options.deviation is None and traces[0].whole and plans[0].n_waves > 1:
        places = PHASES
        plans.append(plans[0].spread())
    return plans, places, occupancy


def _places(traces: Sequence[Trace], plans: Sequence[Plan]) -> Places:
    """How much of the launch each snapshot represents: one with `occurrences` the groups counted in it, that many
    times; the others the rest of the launch, in equal parts."""
    of_groups = traces[0].launch.n_groups
    traced = sum(one.n_groups * one.traced_part for one in traces) / of_groups
    own = tuple(
        float(one.own_share or one.occurrences * np.count_nonzero(plan.counted()) / of_groups)
        for one, plan in zip(traces, plans, strict=True)
        if _stands_alone(one)
    )
    if len(own) == len(traces) or sum(own) >= 1:
        own = ()
    return Places(len(traces), min(traced, 1.0), own, own != () and _is_start(traces[-1]))


def _is_start(trace: Trace) -> bool:
    """Whether a snapshot is the start of a launch of which others are samples of the rest."""
    return trace.occurrences > 0 and not has_past(trace)


def _stands_alone(trace: Trace) -> bool:
    """Whether it is no sample of what others stand for too."""
    return trace.occurrences > 0 or trace.own_share > 0


def stopping_for(
    options: ReplayOptions, machine: Machine, places: Places, n_requests: int
) -> Stopping:
    """When trials of `n_requests` requests each are enough, as the options specify."""
    errors = None
    if options.is_open_ended:  # 0 where a level's hit ratios were not validated
        points = [machine.model_error_points.get(level.name) or 0.0 for level in machine.levels]
        errors = np.array(points, np.float64)[:, None] / 100
    return Stopping(options.half_width, places, errors, options.least_trials(n_requests))


def _snapshots(trace: Trace | Sequence[Trace]) -> tuple[Trace, ...]:
    """One or more snapshots of one kernel; ReplayError where they cannot be replayed together."""
    traces = (trace,) if isinstance(trace, Trace) else tuple(trace)
    if not traces:
        raise ReplayError("at least one trace is needed, got none")
    if any(one.sites != traces[0].sites for one in traces):
        raise ReplayError("the snapshots must have the same sites")
    if any(one.n_subgroup for one in traces) and not any(one.n_access for one in traces):
        kernel = traces[0].launch.kernel
        raise ReplayError(f"kernel {kernel} accesses no global memory: there is nothing to replay")
    return tuple(sorted(traces, key=lambda one: (_stands_alone(one), _is_start(one))))


def workers_for(
    plans: Sequence[Any], options: ReplayOptions, n_requests: int, prepare: Prepare = Workspace
) -> Workers:
    """Workers as the options specify, for trials of `n_requests` requests each."""
    return Workers(
        plans,
        jobs=options.workers(n_requests),
        threads=n_requests <= SHORT_TRIAL,
        backend=options.backend,
        scheduler=options.scheduler,
        scratch=options.scratch,
        prepare=prepare,
    )


def attributes(
    traces: Sequence[Trace],
    plan: Plan,
    occupancy: dict[str, Any],
    *,
    orders: dict[str, dict[str, float | None]],
    options: ReplayOptions,
    used: dict[str, Any],
    interrupted: bool,
) -> dict[str, Any]:
    """The attributes of a Replay's dataset.

    orders : see `Besides.in_other_orders`
    used : what is recorded beside the options; the plan determines those that were left open
    """
    machine, ordering = plan.machine, plan.ordering
    return {
        "schema": SCHEMA,
        "kernel": traces[0].launch.kernel,
        "machine": machine,
        "seed": options.seed,
        "options": {
            **options.to_json(),
            "dispatch": ordering.dispatch,
            "deviation": ordering.deviation,
            "warmup_waves": ordering.warmup_waves,
            "waves": plan.n_waves,
            **used,
        },
        "interrupted": int(interrupted),
        "traced_groups": sum(t.n_groups for t in traces),
        "traced_subgroups": sum(t.n_subgroup for t in traces),
        "of_groups": traces[0].launch.n_groups,
        "granules": sum(t.n_granule for t in traces),
        "arrays": {array.name: int(array.size_bytes) for array in traces[0].arrays},
        "group_requests": requests_of_group(traces[len(traces) // 2]),
        "occupancy": occupancy,
        "orders": orders,
        "generated_source": traces[0].generated_source,
        "user_source": traces[0].user_source,
        "model_error": {
            level.name: machine.model_error_points.get(level.name) for level in machine.levels
        },
        "provenance": _provenance(traces[0]),
    }


def warn_if_short(trace: Trace, plan: Plan) -> None:
    two_waves = 2 * plan.resident * plan.machine.n_cores
    if trace.warming is not None:
        return
    if not trace.whole and trace.n_groups < min(two_waves, trace.launch.n_groups):
        warnings.warn(
            f"the snapshot has {trace.n_groups} groups; two waves of the resident groups of"
            f" {plan.machine.name} are {two_waves}: its caches may appear too cold",
            SnapshotWarning,
            stacklevel=4,
        )


def _provenance(trace: Trace) -> dict[str, Any]:
    from memsim import __version__

    return {
        "trace": dict(trace.provenance),
        "replay": {
            "memsim": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "numba": numba.__version__,
            "platform": platform.platform(),
        },
    }


def dataset(
    traces: Sequence[Trace],
    plans: Sequence[Plan],
    results: list[TrialResult],
    kinds: npt.NDArray[np.int64],
    attributes: dict[str, Any],
) -> xr.Dataset:
    """The Dataset of a Replay.

    plans : one of each trace, and others of the first
    kinds : see memsim.montecarlo.trial.miss_kinds; of the first trial
    """
    sites, plan = traces[0].sites, plans[0]
    n_site = len(sites)
    counts = np.stack([result.counts for result in results])[:, :, :n_site]
    results, counts = _of_whole_groups(traces[0], results, counts)
    samples = [_thinned(result.dram.latency_cycles) for result in results]
    longest = max((len(sample) for sample in samples), default=0)
    latency = np.full((len(results), longest), np.nan, np.float32)
    for row, sample in zip(latency, samples, strict=True):
        row[: len(sample)] = sample
    per_trial = ("trial", "level", "site")
    totals = [site_totals(trace) for trace in traces]
    variables: dict[str, Any] = {
        "accesses": (per_trial, counts[..., ACCESSES]),
        "hits": (per_trial, counts[..., HITS]),
        "pending": (per_trial, counts[..., PENDING]),
        "read_bytes": (per_trial, counts[..., READ_GRANULES] * GRANULE_BYTES),
        "write_bytes": (per_trial, counts[..., WRITE_GRANULES] * GRANULE_BYTES),
        "dram_latency_cycles": (("trial", "sample"), latency),
        "dram_read_bytes": ("trial", [result.dram_read_bytes for result in results]),
        "dram_write_bytes": ("trial", [result.dram_write_bytes for result in results]),
    }
    for name in ("mean_cycles", "dominant_cycles", "row_hit_ratio", "bytes_per_row"):
        variables[f"dram_{name}"] = ("trial", [getattr(one.dram, name) for one in results])
    if any(level.n_partitions > 1 for level in plan.machine.levels):
        variables["far_hits"] = (per_trial, counts[..., FAR])
    if counts[..., OPEN].any():
        variables["open"] = (per_trial, counts[..., OPEN])
        variables["likely"] = (per_trial, counts[..., LIKELY])
    if counts[..., DOUBTFUL].any():
        variables["doubtful"] = (per_trial, counts[..., DOUBTFUL])
    variables |= _dirtied(counts, results, plan)
    if plan.machine.translation is not None:
        by_trial = (result.missed_translations for result in results)
        missed = np.stack([counts for counts in by_trial if counts is not None])
        variables["missed_translations"] = (("trial", "site"), missed[:, :n_site])
    for name, values in zip(MISS_KINDS, kinds, strict=True):
        variables[name] = (("level", "site"), values[:, :n_site])
    if plan.machine.levels:
        lookups = [
            whole_groups(one, site_lookups(each.requests, each.machine.levels[0], n_site))
            for one, each in zip(traces, plans, strict=False)
        ]
        variables["site_lookups"] = ("site", np.sum(lookups, axis=0))
    for name in totals[0]:
        variables[name] = ("site", np.sum([total[name] for total in totals], axis=0))
    coordinates = {
        "trial": np.arange(len(results)),
        "level": np.array([level.name for level in plan.machine.levels], dtype=object),
        "site": np.array([site.name for site in sites], dtype=object),
        "array": ("site", np.array([site.array for site in sites], dtype=object)),
        "direction": ("site", np.array([site.direction for site in sites], dtype=object)),
        "source_line": ("site", [_line(site.source.generated_line) for site in sites]),
        "user_file": ("site", np.array([site.source.user_file or "" for site in sites], object)),
        "user_line": ("site", [_line(site.source.user_line) for site in sites]),
        "itemsize_bytes": ("site", [site.itemsize_bytes for site in sites]),
    }
    return xr.Dataset(variables, coords=coordinates, attrs=attributes)


def _of_whole_groups(
    trace: Trace, results: list[TrialResult], counts: npt.NDArray[np.int64]
) -> tuple[list[TrialResult], npt.NDArray[np.int64]]:
    """The results and counts (n_trial, n_level, n_site, n_column), where groups are traced in windows with the weights of sites.

    The mean of other trials stands in for the counts of an access that a trial's window does not have, such as the end of
    the groups' run. What is dirty at the end is as much as there is, without a weight.
    """
    if trace.site_weight is None:
        return results, counts
    weight = trace.site_weight
    has = counts[:, :1, :, ACCESSES] > 0
    n_having = np.maximum(has.sum(axis=0), 1)
    mean = counts.sum(axis=0) / n_having[..., None]
    left = np.sum([one.dirty for one in results], axis=0)
    counts = np.rint(np.where(has[..., None], counts, mean) * weight[:, None]).astype(np.int64)
    read, written = (
        counts[:, -1:, :, column].sum(axis=(1, 2)) * GRANULE_BYTES
        for column in (READ_GRANULES, WRITE_GRANULES)
    )
    weighted = [
        dataclasses.replace(
            one,
            dram_read_bytes=int(read[k]),
            dram_write_bytes=int(written[k]),
            missed_translations=_weighted(one.missed_translations, weight),
            dirty=np.where(has[k], one.dirty, np.rint(left / n_having)).astype(np.int64),
        )
        for k, one in enumerate(results)
    ]
    return weighted if counts.shape[1] else results, counts


def _weighted(
    counts: npt.NDArray[np.int64] | None, weight: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64] | None:
    return None if counts is None else np.rint(counts * weight).astype(np.int64)


def _dirtied(
    counts: npt.NDArray[np.int64], results: list[TrialResult], plan: Plan
) -> dict[str, Any]:
    """What stores make dirty, and what is dirty at the end."""
    per_trial = ("trial", "level", "site")
    line_bytes = np.array([level.line_bytes for level in plan.machine.levels], np.int64)
    if not plan.machine.levels:
        return {}
    dirty, unfilled = [one.dirty for one in results], [one.unfilled for one in results]
    variables: dict[str, Any] = {
        "dirtied_bytes": (per_trial, counts[..., DIRTIED] * GRANULE_BYTES),
        "dirty_bytes": (per_trial, np.stack(dirty) * GRANULE_BYTES),
        "unfilled_bytes": (("trial", "level"), np.stack(unfilled) * line_bytes),
    }
    if counts[..., OPEN_DIRTIED].any():
        for name, column in (("open", OPEN_DIRTIED), ("likely", LIKELY_DIRTIED)):
            variables[f"{name}_dirtied_bytes"] = (per_trial, counts[..., column] * GRANULE_BYTES)
    return variables


def _line(line: int | None) -> int:
    return -1 if line is None else line


def _thinned(sample: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    if len(sample) <= MAX_SAMPLES:
        return sample
    return sample[np.linspace(0, len(sample) - 1, MAX_SAMPLES).astype(np.int64)]
