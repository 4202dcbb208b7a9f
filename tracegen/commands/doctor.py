"""`memsim doctor`: what is installed, and what is missing.

Nothing heavy is imported here: the help of `memsim` loads this module.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from memsim.commands import check_outputs, display, json_option, wrote_json

EXIT_UNHEALTHY = 1


@click.command()
@json_option("the findings")
@click.option(
    "--prepare",
    "compiles",
    is_flag=True,
    help="Instead, compile the loops of the tracer and of the replay, so that no later command waits for that.",
)
def doctor(json_out: Path | None, compiles: bool) -> int:
    """Report what is installed, what is missing, and how to install or repair it.

    The exit code is 0 if kernels can be traced and replayed, and 1 if not.

    \b
    Examples:
      memsim doctor
      memsim doctor --json -
      memsim doctor --prepare
    """
    check_outputs({"--json": json_out})
    if compiles:
        from tracegen.commands.prepare import MACHINES, prepare

        with display() as shown:
            for k, name in enumerate(MACHINES):
                shown.title = f"{name} ({k + 1} of {len(MACHINES)})"
                prepare(name)
        click.echo(
            f"Prepared for {', '.join(MACHINES)}, and for what they have in common with others."
        )
        return 0
    from tracegen import doctor as examination

    checks = examination.examine()
    healthy = examination.is_healthy(checks)
    if wrote_json(lambda: json.dumps(examination.as_json(checks), indent=2), json_out):
        return 0 if healthy else EXIT_UNHEALTHY
    marks = {"ok": "ok", "note": "note", "missing": "MISSING"}
    width = max(len(check.name) for check in checks)
    for check in checks:
        click.echo(f"{marks[check.status]:<8}{check.name:<{width}}  {check.found}")
        if check.mend:
            click.echo(f"{'':<8}{'':<{width}}  -> {check.mend}")
    click.echo("Ready." if healthy else "Not ready: repair what is MISSING.")
    return 0 if healthy else EXIT_UNHEALTHY
