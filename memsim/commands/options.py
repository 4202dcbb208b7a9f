"""Command-line options that commands of several packages share, and replays run by commands.

Imports nothing heavy: the group's help loads it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from memsim.commands.completion import MACHINE, SITE
from memsim.commands.output import STDOUT, json_help
from memsim.commands.process import EXIT_INTERRUPTED
from memsim.commands.showing import console, display, progress_bar, working
from memsim.errors import MemsimError
from memsim.montecarlo.options import ReplayOptions
from memsim.options import command_options

if TYPE_CHECKING:
    from memsim.machine.model import Machine
    from memsim.montecarlo import Grows
    from memsim.montecarlo.result import Replay
    from memsim.trace.launches import Launches
    from memsim.trace.model import Trace

COUNTERS = ("sector", "nsight", "rocprof")
Command = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class ReplayOutputs:
    """What a command writes of a replay.

    counters : how hits are counted in what people read; see memsim.report.semantics
    html, json, save : files to write; None for those that are not requested
    site : the access, or the array, that is explained below the table
    """

    counters: Literal["sector", "nsight", "rocprof"]
    html: Path | None
    json: Path | None
    save: Path | None
    site: str | None = None

    def paths(self) -> dict[str, Path | None]:
        """Option -> file."""
        return {"--html": self.html, "--json": self.json, "--save": self.save}


def _only(ctx: click.Context, _: click.Parameter, names: tuple[str, ...]) -> str:
    """The machine; of several, click by itself would take the last."""
    if len(names) > 1:
        raise MemsimError(f"{ctx.command.name} takes one machine, got {', '.join(names)}")
    return names[0]


def machine_option(command: Command) -> Command:
    return click.option(
        "--machine",
        "-m",
        required=True,
        multiple=True,
        metavar="NAME",
        type=MACHINE,
        callback=_only,
        help="A shipped machine ('memsim machines' lists them) or a .toml file; v100@1200MHz has another core"
        " clock.",
    )(command)


def counters_option(help: str) -> Callable[[Command], Command]:
    return click.option(
        "--counters", type=click.Choice(COUNTERS), default="sector", show_default=True, help=help
    )


def setting_option(command: Command) -> Command:
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_parse_settings,
        help="A keyword argument of the function that makes the kernel; repeat for several.",
    )(command)


def output_path(*names: str, help: str) -> Callable[[Command], Command]:
    return click.option(*names, type=click.Path(path_type=Path), metavar="FILE", help=help)


def json_option(what: str, name: str = "json_out") -> Callable[[Command], Command]:
    """Adds --json FILE; the command gets a path under `name`."""
    return output_path("--json", name, help=json_help(what))


def out_option(help: str, required: bool = True) -> Callable[[Command], Command]:
    """Adds --out; the command gets `output`."""
    return click.option(
        "--out", "-o", "output", type=click.Path(path_type=Path), metavar="PATH", required=required, help=help
    )  # fmt: skip


def replay_options(command: Command) -> Command:
    """Adds the options of a replay; the command gets a ReplayOptions and a ReplayOutputs.

    They are its arguments `options` and `outputs`.
    """

    @functools.wraps(command)
    def with_outputs(**arguments: Any) -> Any:
        named = {name: arguments.pop(name) for name in ReplayOutputs.__dataclass_fields__}
        return command(outputs=ReplayOutputs(**named), **arguments)

    decorated: Command = with_outputs
    for option in reversed(_OUTPUT_OPTIONS):
        decorated = option(decorated)
    return command_options(ReplayOptions)(decorated)


def _parse_settings(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    settings: dict[str, str] = {}
    for value in values:
        name, text = parse_setting(value, ctx, parameter)
        if name in settings:
            raise click.BadParameter(f"'{name}' is set twice", ctx, parameter)
        settings[name] = text
    return settings


def parse_setting(
    text: str, ctx: click.Context | None = None, parameter: click.Parameter | None = None
) -> tuple[str, str]:
    """(NAME, VALUE) of a text NAME=VALUE. Raises click.BadParameter for another one."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise click.BadParameter(f"must be NAME=VALUE, got '{text}'", ctx, parameter)
    return name, value


class FiniteRange(click.FloatRange):
    """A click.FloatRange that refuses inf, and nan, which compares as inside every range."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


_OUTPUT_OPTIONS: tuple[Callable[[Command], Command], ...] = (
    counters_option(
        "How to count hits: by sectors, loads and stores separately; or as the counters of Nsight"
        " Compute or rocprof do. The file of --save does not depend on it."
    ),
    output_path("--html", help="Write the report as one self-contained page."),
    json_option("the report", "json"),
    output_path("--save", help="Write every trial's numbers as netCDF, for 'memsim compare'."),
    click.option(
        "--site",
        metavar="ACCESS",
        type=SITE,
        help="Explain an access below the table: why it is slow, how certain that is, what to try. The name of"
        " an array explains all its accesses.",
    ),
)


def carry_option(command: Command) -> Command:
    """Adds --carry-l2."""
    return click.option(
        "--carry-l2",
        is_flag=True,
        help="Replay all launches in order; each starts with the L2 contents that earlier ones left."
        " Prints a row per launch. With --launch I, replay those up to I and report on I.",
    )(command)


def run_replay(
    trace: Trace | list[Trace], machine: Machine, options: ReplayOptions, outputs: ReplayOutputs
) -> int:
    """Replays, prints the table, writes the requested files; returns the exit code.

    An interrupted replay is shown and written with its completed trials; the exit code is then 130.
    """
    traces = trace if isinstance(trace, list) else [trace]
    replay = replayed(traces, machine, options, outputs)
    return report_replay(timed(replay, traces, machine), outputs)


def timed(replay: Replay, traces: Sequence[Trace], machine: Machine) -> Replay:
    """The replay with its predicted time, where a time model is installed."""
    from memsim.time_models import with_time

    with working("predicting the time"):
        return with_time(replay, traces, machine)


def replayed(
    trace: Trace | list[Trace],
    machine: Machine,
    options: ReplayOptions,
    outputs: ReplayOutputs,
    grows: Grows | None = None,
) -> Replay:
    """The replay of one or several snapshots, with its progress and, of a long one, provisional results."""
    import memsim
    from memsim.commands.provisional import provisional_results
    from memsim.report.semantics import check

    check(machine, outputs.counters)
    traces = trace if isinstance(trace, list) else [trace]
    if outputs.site is not None:
        from memsim.report.table import check_name

        check_name(outputs.site, [(site.name, site.array) for site in traces[0].sites])
    n_requests = max(one.n_granule for one in traces)
    with display() as shown, progress_bar("replaying") as progress:
        tell = provisional_results(shown, outputs.counters) if options.is_long(n_requests) else None
        return memsim.replay(
            trace, machine, options, progress=progress, provisional=tell, grows=grows
        )


def run_launches(
    launches: Launches,
    machine: Machine,
    options: ReplayOptions,
    outputs: ReplayOutputs,
    launch: int | None,
) -> int:
    """As run_replay, for launches that each start with what earlier ones left in the L2.

    launch : report on this one, and replay none after it; None prints a row per launch and writes
        JSON of all of them, and is checked by `check_launch_outputs`

    Raises MemsimError where an option does not apply to several launches.
    """
    import memsim
    from memsim.commands.output import write_launches_report
    from memsim.report.semantics import check
    from memsim.trace.launches import Launches

    check(machine, outputs.counters)
    n = len(launches.launches)
    if launch is not None and launch >= n:
        raise MemsimError(f"--launch must be below {n}, got {launch}")
    if options.warm:
        raise MemsimError("--warm cannot be combined with --carry-l2: earlier launches warm the L2")
    last = n if launch is None else launch + 1
    launches = Launches(launches=launches.launches[:last], between=launches.between[: last - 1])
    with progress_bar("replaying") as progress:
        replays = memsim.replay_launches(launches, machine, options, progress=progress)
    if launch is not None:
        return report_replay(replays[launch], outputs)
    write_launches_report([one.recount(outputs.counters) for one in replays], outputs.json)
    return _exit_code(replays[0])


def check_launch_outputs(outputs: ReplayOutputs) -> None:
    """Raises MemsimError where --html, --save or --site is requested without a choice of launch."""
    wanted = {"--html": outputs.html, "--save": outputs.save, "--site": outputs.site}
    for name, value in wanted.items():
        if value is not None:
            raise MemsimError(f"{name} describes one launch: choose it with --launch I")


def report_replay(replay: Replay, outputs: ReplayOutputs) -> int:
    """Writes the requested files, and prints the table unless JSON goes to standard output; returns the exit code."""
    shown = replay.recount(outputs.counters)
    # Before the table, whose reader may leave before its end.
    for path, write in (
        (outputs.save, replay.save),
        (outputs.json, shown.to_json),
        (outputs.html, shown.to_html),
    ):
        if path is not None and path != STDOUT:
            with working(f"writing {path}"):
                write(path)
            click.echo(f"wrote {path}", err=True)
    if outputs.json == STDOUT:
        click.echo(shown.to_json())
        return _exit_code(replay)
    console().print(shown.table())
    if outputs.site is not None:
        from memsim.report.summary import summarise
        from memsim.report.table import explanations

        for paragraph in explanations(summarise(shown.dataset), outputs.site):
            console().print(paragraph)
    return _exit_code(replay)


def _exit_code(replay: Replay) -> int:
    if not replay.attrs.get("interrupted"):
        return 0
    done = f"{replay.n_trials} of {replay.attrs['options']['trials']} trials"
    click.echo(f"memsim: interrupted after {done}", err=True)
    return EXIT_INTERRUPTED
