"""The command tune: every configuration of a kernel predicted, the promising ones closely."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calib.commands.tuning_output import TuningFiles, as_text, write_results
from calib.tuning.options import TuneOptions
from memsim.commands import display, machines_option
from memsim.errors import MemsimError
from memsim.options import command_options, option
from tracegen.commands import KernelSpec, kernel_options
from tracegen.options import TraceOptions
from tracegen.own_process import Limits, in_own_process

if TYPE_CHECKING:
    from rich.console import RenderableType

    from calib.tuning import OutcomeStore, Tuned


@dataclass(frozen=True, kw_only=True)
class TuneFiles(TuningFiles):
    """The files that the command writes."""

    kernel_tuner: Path | None = option(
        None,
        "Write a cache file for Kernel Tuner's simulation mode and dashboard. With several machines,"
        " each has a file of its own, whose name ends in the machine's.",
        metavar="FILE",
    )
    t4: Path | None = option(
        None, "Write results in the auto-tuning community's T4 format, likewise.", metavar="FILE"
    )

    def each(self, machines: tuple[str, ...]) -> dict[str, Path | None]:
        """The files of each machine, by option and machine."""
        files = {"--kernel-tuner": self.kernel_tuner, "--t4": self.t4}
        return {
            f"{flag} {name}": self.of(path, name, machines)
            for name in machines
            for flag, path in files.items()
        }

    @staticmethod
    def of(path: Path | None, machine: str, machines: tuple[str, ...]) -> Path | None:
        """The file of one machine."""
        if path is None or len(machines) == 1:
            return path
        return path.with_name(f"{path.stem}-{Path(machine).stem}{path.suffix}")


@click.command()
@kernel_options
@machines_option()
@click.option(
    "--over",
    multiple=True,
    metavar="NAME=VALUES",
    help="A parameter and its values: bx=16,32,64, tile=1:8 or n=64:512:64 (both ends included). It is a"
    " keyword argument of the function that makes the kernel, or a macro of its text. Repeat for several. Without it, the"
    " configurations of a Triton kernel's autotuner are tried.",
)
@click.option(
    "--where",
    multiple=True,
    metavar="CONDITION",
    help="Leave out configurations that do not satisfy it: 'bx*by <= 1024 and bx % 32 == 0'. Repeat for several.",
)
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Keep every prediction in a file; a later run goes on from it.",
)
@command_options(TraceOptions, "tracing", only=("tracer", "compiler"))
@command_options(TuneOptions)
@command_options(Limits, "limits")
@command_options(TuneFiles, "files")
def tune(
    kernel: KernelSpec,
    machines: tuple[str, ...],
    over: tuple[str, ...],
    where: tuple[str, ...],
    store: Path | None,
    tracing: TraceOptions,
    options: TuneOptions,
    limits: Limits,
    files: TuneFiles,
) -> int:
    """Find the fastest of many configurations of a kernel, without running any on a GPU.

    KERNEL is as for 'memsim profile'. Every configuration is predicted from a short snapshot; those whose
    interval overlaps that of the fastest are looked at more closely. Ctrl-C keeps what is done.

    \b
    Examples:
      memsim tune conv.cu:conv --args args.py:conv -m a100 --over bx=16,32,64 --over tile=1:4
      memsim tune my.py:knl -m v100 -m mi250x --over b=32,64,128 --where 'b % 64 == 0' --html tune.html
      memsim tune matmul.py:matmul --args args.py:matmul -m a100 --csv configurations.csv
      memsim tune my.py:knl -m a100 --over b=16:256:16 --store b.tune --kernel-tuner cache.json
    """
    from calib.tuning import OutcomeStore, Subject, parse_space
    from calib.tuning import tune as tuned_by
    from memsim.machine import load_machine
    from memsim.progress import report

    each = files.each(machines)
    files.check({"--store": store, **each}, dict.fromkeys(each, "results"))
    for name in machines:
        load_machine(name)
    configurations = [] if over else _autotuned(kernel, limits)
    space = parse_space(
        over or [f"config=0:{len(configurations) - 1}"] * bool(configurations), where
    )
    for name in space.names:
        if name in kernel.settings:
            raise MemsimError(f"{name} is in both --set and --over")
    subject = Subject(kernel=kernel, limits=limits, tracing=tracing, seed=options.seed)
    with OutcomeStore(store, subject) as kept, display():
        result = tuned_by(subject, space, machines, kept, options, report)
        _check(result, kept)
    code = _write(result, machines, files)
    for number, configuration in enumerate(configurations):
        click.echo(f"config={number}: {configuration}", err=True)
    return code


def _autotuned(kernel: KernelSpec, limits: Limits) -> list[str]:
    """The configurations of a Triton kernel's autotuner, in words."""

    def work() -> list[str]:
        return list(getattr(kernel.load(), "configurations", []))

    return in_own_process(work, limits, kernel.spec)


def _check(tuned: Tuned, store: OutcomeStore) -> None:
    """Raises MemsimError where no configuration can be predicted on any machine; nothing is then kept."""
    failed = [one for found in tuned.found.values() for one in found.failed]
    if failed and not any(found.ranked for found in tuned.found.values()):
        store.forget_failures()
        raise MemsimError(
            f"none of {tuned.n_configurations} configurations can be predicted; the first: {failed[0].failure}"
        )


def _write(tuned: Tuned, machines: tuple[str, ...], files: TuneFiles) -> int:
    from calib.tuning import kernel_tuner, results

    found = tuned.found
    others: dict[Path | None, Callable[[], str]] = {
        files.csv: lambda: results.as_csv(
            tuned.space.names,
            {machine: of.outcomes for machine, of in found.items()},
            lambda machine, one: found[machine].interval(one),
        ),
        files.html: lambda: _page(tuned),
    }
    name = tuned.subject.kernel.spec.rpartition(":")[2]
    for machine, of in found.items():
        for path, content in (
            (files.kernel_tuner, kernel_tuner.cache(name, tuned.space, machine, of)),
            (files.t4, kernel_tuner.t4_results(of)),
        ):
            others[files.of(path, machine, machines)] = functools.partial(as_text, content)
    return write_results(
        results.as_json(tuned),
        files.json,
        lambda: _lines(tuned),
        others,
        interrupted=tuned.interrupted,
    )


def _page(tuned: Tuned) -> str:
    from calib.tuning.page import tuning_page

    return tuning_page(tuned)


def _lines(tuned: Tuned) -> Iterator[RenderableType]:
    from rich.text import Text

    from calib.tuning import results
    from memsim.report import PlainTable, without_equal

    for machine, found in tuned.found.items():
        yield Text(results.headline(tuned, machine), style="bold")
        if found.ranked:
            ranking = results.ranking(tuned, machine)
            content, equal = without_equal(ranking, 3 + len(tuned.space.names))
            yield PlainTable("", *content)
            if equal:
                yield Text(equal, style="dim")
        yield from map(Text, results.failure_lines(found))
