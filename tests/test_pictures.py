"""Rules for every figure that the packages draw, checked in their sources."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGES = ("memsim", "tracegen", "calib", "experiments")


ROOT = Path(__file__).parents[1]


def calls(method: str) -> dict[str, ast.Call]:
    """Place of each call of a method in the packages -> the call."""
    texts = {
        path: path.read_text()
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }
    return {
        f"{path.relative_to(ROOT)}:{node.lineno}": node
        for path, text in texts.items()
        if f".{method}(" in text  # to parse all sources takes seconds
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == method
    }


def test_every_legend_has_its_place() -> None:
    """Without `loc` matplotlib searches for the best place, which takes seconds in a full figure and warns."""
    legends = calls("legend")
    assert legends
    placed = {where for where, call in legends.items() if "loc" in {k.arg for k in call.keywords}}
    assert legends.keys() == placed


def test_figures_are_written_whole_or_into_memory() -> None:
    """memsim.files.write_picture, a call of write_whole, and what a notebook shows."""
    written = {where.split(":")[0] for where in calls("savefig")}
    assert written == {"memsim/files.py", "calib/commands/predict.py", "memsim/report/plots.py"}
