"""The commands of a history: list, show, ask, plot, export, import, prune."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calib.commands import check_picture
from memsim.commands import (
    MACHINE,
    FiniteRange,
    check_outputs,
    console,
    json_option,
    out_option,
    setting_option,
    write_tables,
    wrote_json,
)
from memsim.errors import MemsimError
from memsim.visible import shown

if TYPE_CHECKING:
    from calib.history.records import Record
    from calib.history.store import Store

DAY_S = 86_400.0

store_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--store",
    "place",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The history's file. [default: MEMSIM_HISTORY, else a file in the user's data folder]",
)
device_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--device", metavar="TEXT", help="Only devices whose name contains this text."
)


@click.group(invoke_without_command=True)
@click.pass_context
def history(ctx: click.Context) -> None:
    """Recorded times of launches, and the models that are fitted to them.

    `with calib.history.record(calib.history.Store(FILE)): ...` records any PyOpenCL program.

    \b
    Example:
      memsim history list --store runs.db
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _open(place: Path | None) -> Store:
    from calib.history.database import default_path
    from calib.history.store import Store

    path = place or default_path()
    if not path.exists():
        raise MemsimError(f"there is no history {path}: record one, or choose it with --store")
    return Store(path)


def _chosen(store: Store, kernel: str | None, device: str | None) -> list[Record]:
    records = store.records()
    if kernel is not None:
        names = sorted({r.key.kernel for r in records})
        exact = [name for name in names if name == kernel]
        meant = exact or [name for name in names if name.startswith(kernel)]
        if not meant:
            raise MemsimError(
                f"no kernel {kernel!r} in {store.path}: {', '.join(names) or 'empty'}"
            )
        if len(meant) > 1:
            raise MemsimError(f"several kernels begin with {kernel!r}: {', '.join(meant)}")
        records = [r for r in records if r.key.kernel == meant[0]]
    if device is not None:
        devices = sorted({r.key.device for r in records})
        records = [r for r in records if device in r.key.device]
        if not records:
            raise MemsimError(f"no device's name contains {device!r}: {', '.join(devices)}")
    return records


@history.command("list")
@store_option
@json_option("the list")
def list_command(place: Path | None, json_out: Path | None) -> int:
    """List the kernels and devices of a history, with their layouts and samples.

    \b
    Example:
      memsim history list --store runs.db
    """
    import json
    import time

    from memsim.report import PlainTable

    check_outputs({"--json": json_out})
    with _open(place) as store:
        records = store.records()
    groups: dict[tuple[str, str, str, str], list[Record]] = {}
    for record in records:
        key = record.key
        groups.setdefault((key.kernel, key.device, key.driver, record.source), []).append(record)
    shown, rows = [], []
    for (kernel, device, driver, source), members in groups.items():
        age_s = time.time() - max(r.last_at for r in members)
        samples, rejected = sum(r.accepted.n for r in members), sum(r.rejected for r in members)
        cells = (kernel, device, driver, str(len(members)), str(samples), str(rejected))
        shown.append((*cells, f"{age_s / DAY_S:.1f} days ago", source))
        rows.append(
            {
                "kernel": kernel,
                "device": device,
                "driver": driver,
                "layouts": len(members),
                "samples": samples,
                "outliers": rejected,
                "last_unix_s": max(r.last_at for r in members),
                "from": source,
            }
        )
    columns = ("kernel", "device", "driver", "layouts", "samples", "outliers", "last", "from")
    table = PlainTable("", columns, shown)
    write_tables([table], lambda: json.dumps(rows, indent=1), json_out)
    return 0


@history.command()
@click.argument("kernel")
@store_option
@device_option
def show(kernel: str, place: Path | None, device: str | None) -> int:
    """Show the times of each layout of a kernel, and which kinds of model fit.

    KERNEL is its name, or the beginning of its name.

    \b
    Example:
      memsim history show gemm --store runs.db
    """
    from rich.text import Text

    from calib.history.model_kinds import history_misfit, verdicts
    from memsim.report import PlainTable, number_of, percent, seconds

    with _open(place) as store:
        records = _chosen(store, kernel, device)
        places = sorted({(r.key.device, r.key.driver) for r in records})
        for name, driver in places:
            here = [r for r in records if (r.key.device, r.key.driver) == (name, driver)]
            rows = []
            for record in here:
                state = record.accepted
                note = history_misfit(record)
                if record.rejected:
                    note = f"{number_of(record.rejected, 'outlier')} rejected{'; ' if note else ''}{note}"
                variation = "" if state.n < 2 else percent(state.variation, 2)
                cells = (f"{record.key.layout:08x}", f"{record.size_bytes:,}", str(state.n))
                times = (state.mean, state.low, state.high)
                mean, low, high = (seconds(t, 4) if state.n else "" for t in times)
                rows.append((*cells, mean, variation, low, high, note))
            title = f"{here[0].key.kernel} on {name}, driver {driver}"
            columns = ("layout", "bytes", "n", "mean", "deviation", "least", "most", "note")
            console().print(PlainTable(title, columns, rows))
            for verdict in verdicts(here):
                state_of = (
                    "not calibrated"
                    if not verdict.calibrated
                    else ("fits" if verdict.fits else "does not fit")
                )
                console().print(Text(f"{verdict.kind}: {state_of}; {verdict.reason}"))
    return 0


@history.command()
@click.argument("spec", metavar="KERNEL")
@store_option
@setting_option
@click.option(
    "--device",
    metavar="PLATFORM[:DEVICE]",
    help="The OpenCL device: 'platform:device', or a part of either name.",
)
@click.option(
    "--model",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A model of 'memsim calibrate' for this device, used where there are too few samples.",
)
@click.option(
    "--machine",
    "-m",
    metavar="NAME",
    type=MACHINE,
    help="The machine of the uncalibrated model, used where nothing else is known.",
)
@json_option("the answer")
def ask(
    spec: str,
    place: Path | None,
    settings: dict[str, str],
    device: str | None,
    model: Path | None,
    machine: str | None,
    json_out: Path | None,
) -> int:
    """Predict how long a kernel takes here: from its history, from a model, or from both.

    KERNEL is FILE.py:NAME or PACKAGE.MODULE:NAME, as for 'memsim predict'. It is built, but not run.

    \b
    Example:
      memsim history ask experiments/kernels/matmul.py:tiled --set n=512 --model cpu.json
    """
    import dataclasses
    import json
    import tempfile

    import tracegen
    from calib.fitting.saved_model import load_model
    from calib.history.database import default_path
    from calib.history.store import Store
    from calib.history.workloads import ask_workload
    from calib.timing.trials import find_context
    from memsim.machine import load_machine

    check_outputs({"--json": json_out})
    saved = None if model is None else load_model(model)
    target = None if machine is None else load_machine(machine)
    workload = tracegen.load_kernel(spec, settings)
    context = find_context(device or "")
    path = place or default_path()
    with (
        tempfile.TemporaryDirectory() as folder,  # a question creates no history
        Store(path if path.exists() else Path(folder) / path.name) as store,
    ):
        predicted = ask_workload(store, workload, context=context, model=saved, machine=target)
    if not wrote_json(lambda: json.dumps(dataclasses.asdict(predicted), indent=1), json_out):
        click.echo(str(predicted))
    return 0


@history.command()
@click.argument("kernel")
@store_option
@device_option
@click.option(
    "--layout",
    metavar="HEX",
    help="Draw the distribution of this layout's times instead of time against size.",
)
@out_option("The picture (.png, .svg, .pdf).")
def plot(
    kernel: str, place: Path | None, device: str | None, layout: str | None, output: Path
) -> int:
    """Draw a kernel's times against size with both regressions, or the distribution of one layout's times.

    KERNEL is its name, or the beginning of its name. For a distribution, the command reports whether it is
    bimodal.

    \b
    Examples:
      memsim history plot gemm --store runs.db -o gemm.png
      memsim history plot gemm --layout 3f2a91c0 --store runs.db -o gemm-512.png
    """
    from calib.history.plots import plot_layout, plot_sizes

    check_outputs({"--out": output})
    check_picture("--out", output)
    with _open(place) as store:
        records = _chosen(store, kernel, device)
        name = records[0].key.kernel
        if layout is None:
            samples = {r.key: store.samples(r.key) for r in records}
            for line in plot_sizes(name, records, samples, output):
                click.echo(line, err=True)
        else:
            wanted = _layout(layout)
            chosen = [r for r in records if r.key.layout == wanted]
            if not chosen:
                known = ", ".join(sorted({f"{r.key.layout:08x}" for r in records}))
                raise MemsimError(f"no layout {layout} of {name}: {known}")
            several = len({r.key.driver for r in chosen}) > 1
            times = {
                r.key.device + (f", driver {r.key.driver}" if several else ""): store.samples(r.key)
                for r in chosen
            }
            for where, shape in plot_layout(name, wanted, times, output).items():
                click.echo(f"{where}: {shape}")
    click.echo(f"wrote {output}", err=True)
    return 0


def _layout(text: str) -> int:
    try:
        value = int(text, 16)
    except ValueError:
        value = -1
    if not 0 <= value < 2**32:
        raise MemsimError(f"--layout must be up to 8 hexadecimal digits, got {shown(text)}")
    return value


@history.command("export")
@click.argument("kernel")
@store_option
@device_option
@click.option("--cpu", multiple=True, metavar="DEVICE", help="A device that is a CPU for StarPU.")
@out_option("SYMBOL.HOST, in StarPU's sampling/codelets/45.")
def export_command(
    kernel: str, place: Path | None, device: str | None, cpu: tuple[str, ...], output: Path
) -> int:
    """Write a kernel's history as a performance model of StarPU (version 45).

    Devices are OpenCL devices for StarPU, except those that --cpu names.

    \b
    Example:
      memsim history export gemm --store runs.db -o ~/.starpu/sampling/codelets/45/gemm.myhost
    """
    from calib.history.exchange import to_starpu
    from calib.history.starpu_file import write

    check_outputs({"--out": output})
    with _open(place) as store:
        model = to_starpu(_chosen(store, kernel, device), cpus=cpu)
    if output.exists():
        raise MemsimError(f"{output} exists and is not overwritten: move it away first")
    write(model, output)
    n = sum(len(i.entries) for c in model.combinations for i in c.implementations)
    click.echo(f"wrote {output}: {n} layouts on {len(model.combinations)} devices", err=True)
    return 0


@history.command("import")
@click.argument("model_file", metavar="FILE", type=click.Path(path_type=Path))
@store_option
@click.option("--symbol", help="The kernel's name. [default: the file name up to its first dot]")
@click.option("--host", help="The machine's name. [default: the file name after its first dot]")
def import_command(
    model_file: Path, place: Path | None, symbol: str | None, host: str | None
) -> int:
    """Read a performance model of StarPU (version 45) into a history.

    FILE is SYMBOL.HOST in StarPU's sampling/codelets/45. Existing records are not changed.

    \b
    Example:
      memsim history import ~/.starpu/sampling/codelets/45/gemm.myhost --store runs.db
    """
    from calib.history.database import default_path
    from calib.history.exchange import from_starpu, symbol_and_host
    from calib.history.starpu_file import read
    from calib.history.store import Store

    model = read(model_file)
    named, machine = symbol_and_host(model_file)
    records = from_starpu(model, symbol or named, host or machine, model_file.stat().st_mtime)
    if not records:
        raise MemsimError(
            f"{model_file} contains no history, and regressions alone are not imported"
        )
    with Store(place or default_path()) as store:
        store.put(records)
        click.echo(
            f"imported {len(records)} layouts of {records[0].key.kernel} into {store.path}",
            err=True,
        )
    return 0


@history.command()
@store_option
@click.option(
    "--kernel", metavar="NAME", help="Only this kernel: its name, or the beginning of its name."
)
@device_option
@click.option(
    "--older-days",
    metavar="DAYS",
    type=FiniteRange(min=0),
    help="Only layouts whose last launch is older.",
)
@click.option(
    "--below", type=click.IntRange(min=1), metavar="N", help="Only layouts with fewer samples."
)
@click.option("--samples-only", is_flag=True, help="Remove samples, but keep the statistics.")
@click.option(
    "--yes", is_flag=True, help="Remove them; without it, only report what would be removed."
)
def prune(
    place: Path | None,
    kernel: str | None,
    device: str | None,
    older_days: float | None,
    below: int | None,
    samples_only: bool,
    yes: bool,
) -> int:
    """Remove layouts from a history, by kernel, device, age or number of samples.

    \b
    Example:
      memsim history prune --older-days 90 --below 10 --store runs.db --yes
    """
    import time

    if not any((kernel, device, older_days is not None, below, samples_only)):
        raise MemsimError(
            "name what to prune: --kernel, --device, --older-days, --below or --samples-only"
        )
    with _open(place) as store:
        going = _chosen(store, kernel, device)
        if older_days is not None:
            limit = time.time() - older_days * DAY_S
            going = [r for r in going if r.last_at < limit]
        if below is not None:
            going = [r for r in going if r.accepted.n < below]
        n_samples = sum(r.accepted.n for r in going)
        what = "the kept samples of " if samples_only else ""
        removed = f"{what}{len(going)} layouts with {n_samples} samples"
        if not yes:
            click.echo(f"would remove {removed}; --yes removes them")
            return 0
        store.prune(keys=[r.key for r in going], samples_only=samples_only)
    click.echo(f"removed {removed}")
    return 0
