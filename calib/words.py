"""Words of users: numbers, within what the program can count with, and names that are not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST = 2**63 - 1


def whole(text: str) -> int | None:
    """The whole number that decimal digits are, if it is at most MOST; else None."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MOST))):
        return None
    value = int(text)
    return value if value <= MOST else None


def near(wrong: str, known: Iterable[str]) -> str:
    """Text that suggests near names, or lists the known ones if they are few, or is empty."""
    known = list(known)
    similar = difflib.get_close_matches(wrong, known, n=3, cutoff=0.5)
    if similar:
        return f"; did you mean {' or '.join(similar)}?"
    return f"; there is {', '.join(known)}" if 0 < len(known) <= 12 else ""
