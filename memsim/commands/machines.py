"""`memsim machines`: the list, one machine in full, and commands that make machine files.

Those commands are entry points of the group `memsim.machines.commands`, so that packages above this
one can add theirs: measuring a machine needs OpenCL.
"""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from memsim.commands import completion
from memsim.commands.cli import EntryPointGroup
from memsim.commands.options import json_option, out_option
from memsim.commands.output import check_outputs, write_tables
from memsim.commands.showing import console

_SHOW = "show"


class MachinesGroup(EntryPointGroup):
    """A group whose first argument is a command or, failing that, the name of a machine."""

    entry_point_group = "memsim.machines.commands"

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return show if cmd_name == _SHOW else super().get_command(ctx, cmd_name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [*super().shell_complete(ctx, incomplete), *completion.machines(incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.list_commands(ctx):
            return _SHOW, show, args
        return super().resolve_command(ctx, args)


@click.command(
    cls=MachinesGroup, invoke_without_command=True, subcommand_metavar="[NAME | COMMAND [ARGS]...]"
)
@json_option("the names")
@click.pass_context
def machines(ctx: click.Context, json_out: Path | None) -> int:
    """List the machines, show every value of one with its source, or make a machine file.

    NAME is one of the list, or the path of a .toml file.

    \b
    Examples:
      memsim machines
      memsim machines v100
      memsim machines ./my.toml --json -
      memsim machines import gpgpusim.config -o my.toml
    """
    if ctx.invoked_subcommand is not None:
        ctx.obj = json_out
        return 0
    import json

    from memsim.machine.file import load_machine, machine_names
    from memsim.machine.table import machines_table

    check_outputs({"--json": json_out})
    table = machines_table([load_machine(name) for name in machine_names()], console().width)
    write_tables([table], lambda: json.dumps(machine_names(), indent=2), json_out)
    return 0


@click.command()
@click.argument("name")
@json_option("the machine")
@click.pass_context
def show(ctx: click.Context, name: str, json_out: Path | None) -> int:
    """Every value of a machine with its source.

    \b
    Example:
      memsim machines v100
    """
    import json

    from memsim.machine.file import load_machine, machine_to_json
    from memsim.machine.table import machine_rows
    from memsim.report.plain_table import PlainTable

    path = json_out or ctx.obj
    check_outputs({"--json": path})
    machine = load_machine(name)
    table = PlainTable(f"{machine.name}: {machine.title}", *machine_rows(machine))
    write_tables([table], lambda: json.dumps(json.loads(machine_to_json(machine)), indent=2), path)
    return 0


@click.command("import")
@click.argument("config", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--name", metavar="NAME", help="The machine's name; by default that of the file's folder."
)
@out_option("The machine file to write.")
def import_machine(config: Path, name: str | None, output: Path) -> int:
    """Make a machine file from a gpgpusim.config of GPGPU-Sim or Accel-Sim.

    Every number has the option that it comes from as its source. Options that the model cannot
    express are listed on standard error, one per line.

    \b
    Examples:
      memsim machines import SM7_QV100/gpgpusim.config -o qv100.toml
      memsim replay k.trace --machine qv100.toml
    """
    from memsim.files import write_text
    from memsim.formats.gpgpusim.machine import import_config
    from memsim.machine.file import machine_to_toml

    check_outputs({"--out": output}, inputs=(config,))
    imported = import_config(config, name)
    comments = [f"Settings of a simulator, from {config.name}; not measurements.", *imported.notes]
    write_text(output, machine_to_toml(imported.machine, comments))
    for note in imported.notes:
        click.echo(note, err=True)
    click.echo(f"wrote {output}", err=True)
    return 0
