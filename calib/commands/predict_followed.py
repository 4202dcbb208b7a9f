"""`memsim predict --follow`: small sizes predicted, the one asked for counted; nothing runs at its size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calib.commands.blocks_costs import costs_of, sizes_asked
from calib.commands.blocks_settings import doubled, parsed_range, together
from memsim.commands import STDOUT, console, working
from memsim.errors import MemsimError
from memsim.files import whole_file

if TYPE_CHECKING:
    from calib.block_counts.followed_time import FollowedTime, SmallSize
    from calib.prediction.prediction import Settings


def predict_followed(
    spec: str,
    settings: dict[str, str],
    machine_name: str,
    chosen: Settings,
    follow: str,
    json_out: Path | None,
) -> int:
    """Predict at sizes LOW, twice that, ... HIGH of a setting, and follow the time to its value.

    Sizes whose launch has fewer groups than the machine holds at once are left out.
    """
    from calib.block_counts.followed_time import SmallSize, followed_time
    from calib.block_counts.hit_ratio_trend import LEAST_SIZES
    from calib.block_counts.report import exact_report
    from calib.prediction.prediction import predict
    from calib.prediction.report import seconds
    from memsim.machine import load_machine
    from tracegen import load_kernel, trace_snapshots
    from tracegen.blocks import BlockCounter

    setting, (low, high) = parsed_range("--follow", follow)
    if not settings.get(setting, "").isdigit():
        raise MemsimError(f"--follow goes to a size of {setting}: give it one with --set")
    machine = load_machine(machine_name)
    growing = together(settings, setting)
    values = [*doubled(setting, f"{low}:{high}"), int(settings[setting])]
    if len(values) <= LEAST_SIZES:
        raise MemsimError(
            f"--follow {follow} is {len(values) - 1} sizes (each twice the last): it takes {LEAST_SIZES}"
        )
    rows = [settings | dict.fromkeys(growing, str(value)) for value in values]
    with working("reading the kernel"):
        base = load_kernel(spec, rows[0])
        counter = BlockCounter(base)
        asked = sizes_asked(counter, base, rows[0], rows, spec)
    report = exact_report(counter, asked, machine.subgroup_size, {}, [])
    costs = costs_of(counter, report, machine_name)
    for row in report.rows:
        if row.by_subgroups[-1] is None:
            raise MemsimError(
                f"block {row.block.name} has no closed form ({row.reason}), so that it cannot be"
                f" counted at {setting}={values[-1]}; 'memsim blocks --train' learns it"
            )
    busy = [machine.n_cores * sum(cost["busy_cycles_per_core"].values()) for cost in costs]
    small: list[SmallSize] = []
    unfilled: list[int] = []
    name = ""
    with working("tracing and replaying small sizes"):
        for k, value in enumerate(values[:-1]):
            workload = load_kernel(spec, rows[k])
            traces = trace_snapshots(workload, machine, snapshots=1)
            name = traces[0].launch.kernel
            predicted = predict(workload, traces, machine, chosen)
            time, launch = predicted.timing.estimate, traces[0].launch
            if launch.n_groups < predicted.occupancy.groups_per_core * machine.n_cores:
                unfilled.append(value)
                continue
            small.append(
                SmallSize(
                    size=value,
                    seconds=time.mean,
                    half_width_s=time.half_width if time.has_interval else 0.0,
                    busy_cycles=busy[k],
                )
            )
    if len(small) < LEAST_SIZES:
        raise MemsimError(
            f"--follow {follow}: {len(unfilled)} sizes, up to {max(unfilled)}, have fewer groups than"
            f" {machine_name} holds at once, and {LEAST_SIZES} that fill it are wanted: take larger ones"
        )
    found = followed_time(small, values[-1], busy[-1])
    document = _document(name, machine_name, setting, small, found, busy[-1])
    text = json.dumps(document, indent=1, allow_nan=False)
    if json_out == STDOUT:
        click.echo(text)
        return 0
    screen = console()
    screen.print(
        f"{name} on {machine_name}, {setting}={found.size:g}: {seconds(found.seconds)},"
        f" 95 % interval {seconds(found.low_s)} to {seconds(found.high_s)}",
        markup=False,
        style="bold",
    )
    for one in small:
        screen.print(
            f"  {setting}={one.size:g}: {seconds(one.seconds)},"
            f" {seconds(one.seconds / one.busy_cycles * machine.n_cores)} a busy cycle of a core",
            markup=False,
        )
    if unfilled:
        listed = ", ".join(map(str, unfilled))
        screen.print(f"note: left out, for they do not fill the machine: {listed}", style="dim")
    if found.warning:
        screen.print(f"note: {found.warning}", markup=False, style="dim")
    if json_out is not None:
        with whole_file(json_out) as path:
            path.write_text(text + "\n", encoding="utf-8")
        click.echo(f"wrote {json_out}", err=True)
    return 0


def _document(
    kernel: str,
    machine: str,
    setting: str,
    small: list[SmallSize],
    found: FollowedTime,
    busy_cycles: float,
) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "schema": 1,
        "kernel": kernel,
        "machine": machine,
        "setting": setting,
        "followed": asdict(found) | {"busy_cycles": busy_cycles},
        "small": [asdict(one) for one in small],
    }
