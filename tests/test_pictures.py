"""Every picture of the project: what holds of all of them, read off the sources."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGES = ("memsim", "tracegen", "calib", "experiments")


def test_every_legend_has_its_place() -> None:
    """Else matplotlib searches one: for seconds where much is drawn, and then warns of it."""
    root = Path(__file__).parents[1]
    legends = [
        (f"{path.relative_to(root)}:{node.lineno}", {each.arg for each in node.keywords})
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "legend"
    ]
    assert legends
    assert [where for where, keywords in legends if "loc" not in keywords] == []
