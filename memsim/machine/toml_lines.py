"""Line numbers of the keys of a TOML text, which tomllib does not report."""

from __future__ import annotations

import re

KeyPath = tuple[str | int, ...]


def index_lines(text: str) -> dict[KeyPath, int]:
    """Path of keys -> 1-based line of its first occurrence; elements of [[tables]] by position.

    For messages only: keys with escapes, and keys inside inline tables, are missing.
    """
    lines: dict[KeyPath, int] = {}
    n_elements: dict[str, int] = {}
    table: KeyPath = ()
    quote = ""  # the quote of a multi-line string that has not ended
    for number, line in enumerate(text.split("\n"), 1):
        if quote:
            quote = "" if quote in line else quote
            continue
        if match := re.match(r"\s*(\[\[?)\s*([^\[\]=]+?)\s*\]", line):
            first, *rest = _split_key(match.group(2))
            if match.group(1) == "[[" and not rest:
                n_elements[first] = n_elements.get(first, 0) + 1
            element = (n_elements[first] - 1,) if first in n_elements else ()
            table = (first, *element, *rest)
            for length in range(1, len(table) + 1):
                lines.setdefault(table[:length], number)
        elif match := re.match(r"""\s*([\w."' -]+?)\s*=""", line):
            path = (*table, *_split_key(match.group(1)))
            for length in range(len(table) + 1, len(path) + 1):
                lines.setdefault(path[:length], number)
        for mark in ('"""', "'''"):
            if line.count(mark) % 2:
                quote = mark
    return lines


def _split_key(text: str) -> list[str]:
    return [part.strip().strip("\"'") for part in text.split(".")]
