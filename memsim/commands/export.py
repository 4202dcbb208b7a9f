"""Saved replays in other tools' formats, for `memsim export`; what this needs is imported when it runs."""

from __future__ import annotations

from pathlib import Path

import click

from memsim.commands.output import check_outputs

REPLAY_FORMATS = ("cachegrind", "csv", "json")


def export_replay(source: Path, to: str, output: Path) -> None:
    """Writes a saved replay, and reports the file on standard error."""
    from memsim.montecarlo.result import Replay

    check_outputs({"--out": output}, inputs=(source,), kinds={"--out": to})
    replay = Replay.load(source)
    if to == "cachegrind":
        from memsim.report.cachegrind import write

        files = write(replay.dataset, output)
    elif to == "csv":
        from memsim.report.access_csv import write_site_csv
        from memsim.report.summary import summarise

        files = [write_site_csv(summarise(replay.dataset), output)]
    else:
        replay.to_json(output)
        files = [output]
    for file in files:
        click.echo(f"wrote {file}", err=True)
