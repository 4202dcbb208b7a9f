"""Our replays against measured hardware: tables, pictures, errors.

    python -m experiments.hardware_validation --out DIR [--only v100-stencil] [--quick]

Writes `index.html`, a PNG a picture and `summary.json` into DIR, and prints what was found.
"""

from __future__ import annotations

import argparse
import html
import json
from collections.abc import Sequence
from pathlib import Path

from experiments.hardware.comparison import Case, Figure
from experiments.hardware.studies import STUDIES


def main(arguments: Sequence[str] | None = None) -> None:
    """The command; see the module's text."""
    parser = argparse.ArgumentParser(prog="python -m experiments.hardware_validation")
    parser.add_argument("--out", type=Path, required=True, help="folder for page and pictures")
    parser.add_argument("--only", choices=sorted(STUDIES), help="one comparison")
    parser.add_argument("--quick", action="store_true", help="a few cases of each, in a minute")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    names = [options.only] if options.only else list(STUDIES)
    figures = [STUDIES[name](options.out, options.quick) for name in names]
    for figure in figures:
        print(f"\n{figure.title}")
        for case in figure.cases:
            print("  " + _line(case))
        for finding in figure.findings:
            print(f"  {finding}")
    records = [case.record() for figure in figures for case in figure.cases]
    (options.out / "summary.json").write_text(json.dumps(records, indent=1), encoding="utf-8")
    (options.out / "index.html").write_text(page(figures), encoding="utf-8")


def _line(case: Case) -> str:
    measured = "" if case.measured is None else f"{case.measured:9.2f} measured"
    spread = "" if case.ci95 is None else f" ± {case.ci95:.2f}"
    return f"{case.case:34s} {case.quantity:11s} {measured} {case.ours:9.2f}{spread} {case.unit}"


def page(figures: Sequence[Figure]) -> str:
    """All comparisons as one page."""
    parts = ["<!doctype html><meta charset=utf-8><title>memsim against hardware</title>"]
    parts.append(
        "<style>body{font:14px sans-serif;max-width:70em;margin:2em auto}td,th{padding:1px 9px;"
        "text-align:right}td:first-child,th:first-child{text-align:left}img{max-width:48%}</style>"
    )
    for figure in figures:
        parts.append(f"<h2>{html.escape(figure.title)}</h2><p>{html.escape(figure.source)}</p><ul>")
        parts += [f"<li>{html.escape(finding)}</li>" for finding in figure.findings]
        parts.append("</ul>")
        parts += [f'<img src="{name}" alt="{html.escape(name)}">' for name in figure.pictures]
        parts.append(
            "<table><tr><th>case<th>quantity<th>measured<th>ours<th>± (95 %)<th>error<th>unit</tr>"
        )
        parts += [_row(case) for case in figure.cases]
        parts.append("</table>")
    return "\n".join(parts)


def _row(case: Case) -> str:
    measured = "" if case.measured is None else f"{case.measured:.2f}"
    error = f"{case.ours / case.measured - 1:+.1%}" if case.measured else ""
    spread = "" if case.ci95 is None else f"{case.ci95:.2f}"
    return (
        f"<tr><td>{html.escape(case.case)}<td>{case.quantity}<td>{measured}<td>{case.ours:.2f}"
        f"<td>{spread}<td>{error}<td>{html.escape(case.unit)}</tr>"
    )


if __name__ == "__main__":
    main()
