"""Numbers in words of a command line, within what the program can count with."""

from __future__ import annotations

MOST = 2**63 - 1
SHOWN = 60


def whole(text: str) -> int | None:
    """The whole number that decimal digits are, if it is at most MOST; else None."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MOST))):
        return None
    value = int(text)
    return value if value <= MOST else None


def shown(text: str) -> str:
    """A text in quotes, as errors show it: without control characters, and cut where it is long."""
    return ascii(text) if len(text) <= SHOWN else f"{text[:SHOWN]!a}..."
