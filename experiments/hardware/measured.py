"""Measured tables in experiments/data: numbers with a header that says where they come from."""

from __future__ import annotations

import csv
from importlib import resources


def rows(name: str) -> list[dict[str, str]]:
    """The rows of a table; lines that begin with # say what it is and whose."""
    text = resources.files("experiments").joinpath("data", name).read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def source(name: str) -> str:
    """The header of a table as one line."""
    text = resources.files("experiments").joinpath("data", name).read_text("utf-8")
    return " ".join(line[1:].strip() for line in text.splitlines() if line.startswith("#"))
