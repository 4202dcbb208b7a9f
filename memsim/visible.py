"""Text from outside, as people see it: what cannot be printed is written out."""

from __future__ import annotations


def visible(text: str, keep: str = "") -> str:
    r"""The text with every character that is not printable as an escape, `\x1b` or `\u202e`.

    These are control characters, which terminals obey, marks that turn the direction of writing, lone
    surrogates, and line breaks, except those characters that `keep` lists. Text that has none of them
    is returned as it is.
    """
    if text.isprintable():
        return text
    return "".join(
        letter
        if letter.isprintable() or letter in keep
        else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def shown(value: object) -> str:
    """A value from outside as one line of at most 60 characters, for a message."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of thousands of digits
        return "a huge number"
    return text if len(text) <= 60 else f"{text[:57]}..."
