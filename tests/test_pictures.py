"""A rule for every figure that the packages draw, checked in their sources."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGES = ("memsim", "tracegen", "calib", "experiments")


def test_every_legend_has_its_place() -> None:
    """Without `loc` matplotlib searches for the best place, which takes seconds in a full figure and warns."""
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
