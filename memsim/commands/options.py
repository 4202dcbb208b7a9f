"""Command-line options that commands of several packages share, and what they all do with a replay.

Imports nothing heavy: the group's help loads it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from memsim.commands.output import STDOUT, progress_bar, write_report
from memsim.errors import MemsimError

if TYPE_CHECKING:
    from memsim.machine.model import Machine
    from memsim.montecarlo.result import Replay
    from memsim.trace.launches import Launches
    from memsim.trace.model import Trace

SAMPLERS = ("wrr", "lrr", "gto", "uniform")
DISPATCHES = ("round_robin", "dynamic", "random")
EXIT_INTERRUPTED = 130
BACKENDS = ("local", "dask")
COUNTERS = ("sector", "nsight", "rocprof")
DEFAULT_TRIALS, DEFAULT_HALF_WIDTH = 64, 0.005
MOST_TRIALS = 1024
"""Where only the half-width is given."""
Command = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """What the options of `replay_options` were set to.

    ci : stop at this half-width of the hit ratio's 95 % interval, as a fraction; None runs all trials
    registers : 32-bit registers per work-item, in place of what the trace says
    groups_per_core : resident groups, in place of what the occupancy says
    """

    trials: int
    seed: int
    jobs: int
    ci: float | None
    sampler: Literal["wrr", "lrr", "gto", "uniform"]
    dispatch: Literal["round_robin", "dynamic", "random"] | None
    warm_l2: bool
    random_bases: bool
    registers: int | None
    groups_per_core: int | None
    backend: Literal["local", "dask"]
    scheduler: str | None
    counters: Literal["sector", "nsight", "rocprof"]
    html: Path | None
    json: Path | None
    save: Path | None

    def outputs(self) -> dict[str, Path | None]:
        return {"--html": self.html, "--json": self.json, "--save": self.save}


def usable_cores() -> int:
    """Cores that this process may run on, which a container may hold below the machine's count."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine_option(command: Command) -> Command:
    return click.option(
        "--machine",
        "-m",
        required=True,
        metavar="NAME",
        help="A shipped machine ('memsim machines' lists them) or a .toml file.",
    )(command)


def counters_option(command: Command) -> Command:
    return click.option(
        "--counters",
        type=click.Choice(COUNTERS),
        default="sector",
        show_default=True,
        help="How to count hits: sectors with stores apart, or as Nsight Compute's or rocprof's"
        " counters do. What --save writes does not depend on it.",
    )(command)


def setting_option(command: Command) -> Command:
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_parse_settings,
        help="A keyword argument of the kernel's callable; repeat for more.",
    )(command)


def output_path(*names: str, help: str, required: bool = False) -> Callable[[Command], Command]:
    return click.option(*names, type=click.Path(path_type=Path), required=required, help=help)


def replay_options(command: Command) -> Command:
    """Adds the options of a replay; the command gets them as one `options: ReplayOptions`."""

    @functools.wraps(command)
    def with_options(**arguments: Any) -> Any:
        own = {name: arguments.pop(name) for name in ReplayOptions.__dataclass_fields__}
        if own["trials"] is None:
            own["trials"] = DEFAULT_TRIALS if own["ci"] is None else MOST_TRIALS
            own["ci"] = DEFAULT_HALF_WIDTH if own["ci"] is None else own["ci"]
        options = ReplayOptions(**own)
        if options.scheduler is not None and options.backend != "dask":
            raise MemsimError("--scheduler goes with --backend dask only")
        if options.backend == "dask" and options.scheduler is None:
            raise MemsimError(
                "--backend dask needs --scheduler ADDRESS, for example tcp://host:8786"
            )
        return command(options=options, **arguments)

    decorated: Command = with_options
    for option in reversed(_REPLAY_OPTIONS):
        decorated = option(decorated)
    return decorated


def _parse_settings(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    settings: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name.isidentifier():
            raise click.BadParameter(f"must be NAME=VALUE, got '{value}'", ctx, parameter)
        if name in settings:
            raise click.BadParameter(f"'{name}' is set twice", ctx, parameter)
        settings[name] = text
    return settings


class FiniteRange(click.FloatRange):
    """A click.FloatRange that takes neither nan, which lies in every range, nor inf."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


def _parse_half_width(
    ctx: click.Context, parameter: click.Parameter, value: float | None
) -> float | None:
    # Written so that NaN is refused too.
    if value is not None and not (math.isfinite(value) and 0 < value < 1):
        raise click.BadParameter(f"must be a fraction between 0 and 1, got {value}", ctx, parameter)
    return value


_REPLAY_OPTIONS: tuple[Callable[[Command], Command], ...] = (
    click.option(
        "--trials",
        type=click.IntRange(min=1),
        help="Random orderings to replay; with --ci, at most so many. By default as many as --ci"
        f" {DEFAULT_HALF_WIDTH} needs, from 32 to {DEFAULT_TRIALS}.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Trial i depends on (seed, i) alone.",
    ),
    click.option(
        "--jobs",
        type=click.IntRange(min=1),
        default=usable_cores,
        show_default="usable cores",
        help="Worker processes; results do not depend on it.",
    ),
    click.option(
        "--ci",
        type=float,
        callback=_parse_half_width,
        metavar="HALF_WIDTH",
        help="Stop once every 95 % interval is this narrow, as a fraction (0.005 is half a point).",
    ),
    click.option(
        "--sampler",
        type=click.Choice(SAMPLERS),
        default="wrr",
        show_default=True,
        help="How a core picks its next sub-group: weighted round robin, loose round robin,"
        " greedy then oldest, uniform.",
    ),
    click.option(
        "--registers",
        type=click.IntRange(min=1),
        help="32-bit registers per work-item, where you know them; they bound the occupancy.",
    ),
    click.option(
        "--groups-per-core",
        type=click.IntRange(min=1),
        help="Resident groups, in place of what the occupancy says.",
    ),
    click.option(
        "--dispatch",
        type=click.Choice(DISPATCHES),
        help="How groups come to cores: by their number, to the core that is free first, or each"
        " wave at random. By default as the machine does.",
    ),
    click.option("--warm-l2", is_flag=True, help="Begin with what the trace leaves in the L2."),
    click.option("--random-bases", is_flag=True, help="Place the arrays anew in every trial."),
    click.option(
        "--backend",
        type=click.Choice(BACKENDS),
        default="local",
        show_default=True,
        help="Where trials run.",
    ),
    click.option("--scheduler", metavar="ADDRESS", help="The Dask scheduler of --backend dask."),
    counters_option,
    output_path("--html", help="Write the report as one self-contained page."),
    output_path("--json", help=f"Write the report as JSON ('{STDOUT}': to standard output)."),
    output_path("--save", help="Write every trial's numbers as netCDF, for 'memsim compare'."),
)


def carry_option(command: Command) -> Command:
    """Adds --carry-l2."""
    return click.option(
        "--carry-l2",
        is_flag=True,
        help="Replay all launches in order, each with what the earlier ones leave in L2: a row a"
        " launch. With --launch I, only those up to I, and the report of I.",
    )(command)


def run_replay(trace: Trace | list[Trace], machine: Machine, options: ReplayOptions) -> int:
    """Replays, prints the table, writes what was asked for; returns the exit code.

    An interrupted replay is shown and written with the trials that are done, and gives 130.
    """
    import memsim
    from memsim.report.semantics import check

    check(machine, options.counters)
    if options.registers is not None:
        trace = (
            [_with_registers(one, options.registers) for one in trace]
            if isinstance(trace, list)
            else _with_registers(trace, options.registers)
        )
    with progress_bar("replaying") as progress:
        replay = memsim.replay(
            trace, machine, warm_l2=options.warm_l2, progress=progress, **_common(options)
        )
    return _report(replay, options)


def run_launches(
    launches: Launches, machine: Machine, options: ReplayOptions, launch: int | None
) -> int:
    """As run_replay, of launches that leave each other what L2 holds.

    launch : report on this one, and replay none after it; None gives a row a launch, and JSON of
        all of them. Raises MemsimError where an option asks for what several launches do not have.
    """
    import memsim
    from memsim.commands.output import write_launches_report
    from memsim.report.semantics import check
    from memsim.trace.launches import Launches

    check(machine, options.counters)
    n = len(launches.launches)
    if launch is None:
        check_launch_outputs(options)
    elif launch >= n:
        raise MemsimError(f"--launch must be below {n}, got {launch}")
    if options.warm_l2:
        raise MemsimError("--warm-l2 does not go with --carry-l2: earlier launches warm it")
    last = n if launch is None else launch + 1
    traces = launches.launches[:last]
    if options.registers is not None:
        traces = tuple(_with_registers(one, options.registers) for one in traces)
    launches = Launches(launches=traces, between=launches.between[: last - 1])
    with progress_bar("replaying") as progress:
        replays = memsim.replay_launches(launches, machine, progress=progress, **_common(options))
    if launch is not None:
        return _report(replays[launch], options)
    write_launches_report([one.recount(options.counters) for one in replays], options.json)
    return _exit_code(replays[0], options)


def check_launch_outputs(options: ReplayOptions) -> None:
    """Raises MemsimError where --html or --save is asked for without saying of which launch."""
    for name, path in (("--html", options.html), ("--save", options.save)):
        if path is not None:
            raise MemsimError(f"{name} is of one launch: choose it by --launch I")


def _common(options: ReplayOptions) -> dict[str, Any]:
    names = "trials seed jobs ci sampler dispatch random_bases groups_per_core backend scheduler"
    return {name: getattr(options, name) for name in names.split()}


def _report(replay: Replay, options: ReplayOptions) -> int:
    shown = replay.recount(options.counters)
    write_report(shown, html=options.html, json=options.json, save=None)
    if options.save is not None:
        replay.save(options.save)
        click.echo(f"wrote {options.save}", err=True)
    return _exit_code(replay, options)


def _exit_code(replay: Replay, options: ReplayOptions) -> int:
    if not replay.attrs.get("interrupted"):
        return 0
    click.echo(f"memsim: interrupted after {replay.n_trials} of {options.trials} trials", err=True)
    return EXIT_INTERRUPTED


def _with_registers(trace: Trace, registers_per_item: int) -> Trace:
    launch = dataclasses.replace(trace.launch, registers_per_item=registers_per_item)
    return trace.replace(launch=launch)
