"""Where the keys of a TOML text stand: tomllib keeps no positions."""

from __future__ import annotations

import re

KeyPath = tuple[str | int, ...]


def index_lines(text: str) -> dict[KeyPath, int]:
    """Path of keys -> 1-based line where it first stands; elements of [[tables]] by position.

    For messages only: keys with escapes, or inside inline tables, are not found.
    """
    lines: dict[KeyPath, int] = {}
    n_elements: dict[str, int] = {}
    table: KeyPath = ()
    quote = ""  # of the multi-line text that we are in
    for number, line in enumerate(text.split("\n"), 1):
        if quote:
            quote = "" if quote in line else quote
            continue
        if found := re.match(r"\s*(\[\[?)\s*([^\[\]=]+?)\s*\]", line):
            first, *rest = _split_key(found.group(2))
            if found.group(1) == "[[" and not rest:
                n_elements[first] = n_elements.get(first, 0) + 1
            element = (n_elements[first] - 1,) if first in n_elements else ()
            table = (first, *element, *rest)
            for length in range(1, len(table) + 1):
                lines.setdefault(table[:length], number)
        elif found := re.match(r"""\s*([\w."' -]+?)\s*=""", line):
            path = (*table, *_split_key(found.group(1)))
            for length in range(len(table) + 1, len(path) + 1):
                lines.setdefault(path[:length], number)
        for mark in ('"""', "'''"):
            if line.count(mark) % 2:
                quote = mark
    return lines


def _split_key(text: str) -> list[str]:
    return [part.strip().strip("\"'") for part in text.split(".")]
