"""`memsim predict --follow`: predict small sizes, count the requested one; nothing runs at that size."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from calib.commands.blocks_settings import doubled, parsed_range, together
from calib.words import whole
from memsim.commands import console, working, wrote_json
from memsim.errors import MemsimError

if TYPE_CHECKING:
    from calib.block_counts.hit_ratio_trend import FollowedTime, SmallSize
    from calib.prediction.options import PredictOptions
    from memsim.machine import Machine
    from tracegen.commands import KernelSpec
    from tracegen.options import TraceOptions

Settings = Mapping[str, str]


def predict_followed(
    named: KernelSpec,
    machine_name: str,
    options: PredictOptions,
    tracing: TraceOptions,
    follow: str,
    json_out: Path | None,
) -> int:
    """Predicts at sizes LOW, twice that, ... HIGH of a setting and extrapolates the time to its value.

    Sizes whose launch has fewer groups than can be resident on the machine are left out.
    """
    from calib.block_counts.hit_ratio_trend import followed_time
    from memsim.machine import load_machine

    setting, values, rows = _sizes(named.settings, follow)
    machine = load_machine(machine_name)
    busy = _busy_cycles(named, rows, machine, f"{setting}={values[-1]}")
    kernel, small, unfilled = _predict_small(named, rows, values, busy, machine, options, tracing)
    _require_enough(follow, machine_name, small, unfilled)
    followed = followed_time(small, values[-1], busy[-1])
    document = {
        "schema": 1,
        "kernel": kernel,
        "machine": machine_name,
        "setting": setting,
        "followed": vars(followed) | {"busy_cycles": busy[-1]},
        "small": [vars(size) for size in small],
    }
    if not wrote_json(lambda: json.dumps(document, indent=1, allow_nan=False), json_out):
        title = f"{kernel} on {machine_name}, {setting}={followed.size:g}"
        _show(title, setting, machine, small, unfilled, followed)
    return 0


def _sizes(settings: dict[str, str], follow: str) -> tuple[str, list[int], list[dict[str, str]]]:
    """The setting, its values (the last is the requested size), and all settings at each value."""
    from calib.block_counts.hit_ratio_trend import LEAST_SIZES

    setting, (low, high) = parsed_range("--follow", follow)
    requested = whole(settings.get(setting, ""))
    if requested is None:
        raise MemsimError(f"--follow needs the requested size of {setting}: give it with --set")
    growing = together(settings, setting)
    values = [*doubled(setting, f"{low}:{high}"), requested]
    if len(values) <= LEAST_SIZES:
        raise MemsimError(
            f"--follow {follow} has {len(values) - 1} sizes (each twice the previous one); at least"
            f" {LEAST_SIZES} are needed"
        )
    return setting, values, [settings | dict.fromkeys(growing, str(value)) for value in values]


def _busy_cycles(
    named: KernelSpec, rows: Sequence[Settings], machine: Machine, requested: str
) -> list[float]:
    """Busy cycles at each size, of all units and cores together, from the counts of its blocks."""
    from calib.block_counts.costs import costs_of
    from calib.block_counts.executions import Executions
    from calib.block_counts.report import block_report

    with working("counting basic blocks"):
        executions = Executions(named.load, machine)
        report = block_report(executions, rows, lambda _: {})
    for row in report.rows:
        if row.by_subgroups[-1] is None:
            raise MemsimError(
                f"the count of block {row.block.name} at {requested} does not follow from small sizes: {row.reason};"
                " 'memsim blocks --train' learns it from runs"
            )
    return [
        machine.n_cores * sum(cost["busy_cycles_per_core"].values())
        for cost in costs_of(report, machine)
    ]


def _predict_small(
    named: KernelSpec,
    rows: Sequence[Settings],
    values: Sequence[int],
    busy: Sequence[float],
    machine: Machine,
    options: PredictOptions,
    tracing: TraceOptions,
) -> tuple[str, list[SmallSize], list[int]]:
    """The kernel's name, the small sizes with their predicted times, and those left out."""
    from calib.block_counts.hit_ratio_trend import SmallSize
    from calib.prediction import predict
    from tracegen import trace_snapshots

    kernel = ""
    small: list[SmallSize] = []
    unfilled: list[int] = []
    with working("tracing and replaying small sizes"):
        for k, value in enumerate(values[:-1]):
            workload = named.load(rows[k])
            traces = trace_snapshots(workload, machine, snapshots=1, options=tracing)
            launch = traces[0].launch
            kernel = launch.kernel
            prediction = predict(traces, machine, options)
            if launch.n_groups < prediction.occupancy.groups_per_core * machine.n_cores:
                unfilled.append(value)
                continue
            time = prediction.timing.estimate
            small.append(
                SmallSize(
                    size=value,
                    seconds=time.mean,
                    half_width_s=time.half_width if time.has_interval else 0.0,
                    busy_cycles=busy[k],
                )
            )
    return kernel, small, unfilled


def _require_enough(
    follow: str, machine: str, small: Sequence[SmallSize], unfilled: Sequence[int]
) -> None:
    from calib.block_counts.hit_ratio_trend import LEAST_SIZES

    if len(small) < LEAST_SIZES:
        raise MemsimError(
            f"--follow {follow}: {len(unfilled)} sizes, up to {max(unfilled)}, have fewer groups than"
            f" can be resident on {machine}; at least {LEAST_SIZES} sizes must fill it: choose larger"
            " ones"
        )


def _show(
    title: str,
    setting: str,
    machine: Machine,
    small: Sequence[SmallSize],
    unfilled: Sequence[int],
    followed: FollowedTime,
) -> None:
    from calib.prediction.report import seconds

    screen = console()
    screen.print(
        f"{title}: {seconds(followed.seconds)}, 95 % interval {seconds(followed.low_s)} to"
        f" {seconds(followed.high_s)}",
        markup=False,
        style="bold",
    )
    for size in small:
        per_cycle = seconds(size.seconds / size.busy_cycles * machine.n_cores)
        screen.print(
            f"  {setting}={size.size:g}: {seconds(size.seconds)}, {per_cycle} per busy cycle of a core",
            markup=False,
        )
    if unfilled:
        listed = ", ".join(map(str, unfilled))
        screen.print(f"note: left out because they do not fill the machine: {listed}", style="dim")
    if followed.warning:
        screen.print(f"note: {followed.warning}", markup=False, style="dim")
